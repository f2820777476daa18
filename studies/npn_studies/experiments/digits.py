"""MNIST for experiments: its parts on a device, and how predictions are judged."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from npn_studies.experiments.tables import rounded
from torchnpn import datasets, metrics

Array = NDArray[Any]
CLASSES = 10
TRAINING = 50_000  # images to train on; the 10,000 after them choose settings


class Images(NamedTuple):
    """Pixels in [0, 1] (rows, 784) and digits (rows,)."""

    x: Tensor
    y: Tensor

    def first(self, rows: int | None) -> Images:
        """So many of them; None for all."""
        return Images(self.x[:rows], self.y[:rows])


class Digits(NamedTuple):
    """50,000 images to learn from, 10,000 to choose settings by, 10,000 to report on."""

    train: Images
    validation: Images
    test: Images


@functools.cache
def digits(device: torch.device) -> Digits:
    """MNIST on the device."""
    data = datasets.load("mnist")
    train, test = data.splits[0]
    x, y = torch.as_tensor(data.X, device=device), torch.as_tensor(np.asarray(data.y, np.int64), device=device)
    parts = train[:TRAINING], train[TRAINING:], test
    return Digits(*(Images(x[part], y[part]) for part in map(torch.as_tensor, parts)))


def judged(probs: Tensor, y: Tensor) -> dict[str, list[Any]]:
    """Error in percent, NLL and calibration error of each replica's probabilities (replicas, rows, classes).

    A network that diverged, and answers NaN, is wrong everywhere and has no NLL or calibration error: None. Nor has a
    network a NLL that gives a label the probability zero.
    """
    labels = y.cpu().numpy()
    each = [_judged(one.double().cpu().numpy(), labels) for one in probs]
    return {key: [one[key] for one in each] for key in each[0]}


def _judged(probs: Array, labels: Array) -> dict[str, float | None]:
    if not np.isfinite(probs).all():
        return {"error": 100.0, "nll": None, "calibration": None}
    nll = metrics.categorical_nll(probs, labels)
    return {
        "error": rounded(100 * float((probs.argmax(1) != labels).mean())),
        "nll": rounded(nll) if math.isfinite(nll) else None,
        "calibration": rounded(metrics.calibration_error(probs, labels)),
    }


def subsets(size: int, numbers: range) -> Tensor:  # (len(numbers), size)
    """Rows of random training sets: number k always has the same rows, as many of each digit as chance gives."""
    return torch.stack([torch.randperm(TRAINING, generator=torch.Generator().manual_seed(k))[:size] for k in numbers])
