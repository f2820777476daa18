"""What all contestants work on: a size of network, and data of that size on a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch.nn import functional

from torchnpn.training import Rows

_BATCHES = 8, 390  # fewest and most that lie on the device; the most is an epoch of MNIST
_BYTES = 2**29  # between the two, as many as this holds


class Size(NamedTuple):
    """A fully connected network and its batch; one with `entries` is an autoencoder of sparse rows."""

    sizes: tuple[int, ...]
    batch: int
    activation: str = "relu"
    entries: int | None = None  # in a row of an autoencoder, numbers that are not zero; None: dense rows
    targets: str = "classes"  # or "numbers" with one noise for all rows, or "noise" where it depends on the row

    def __str__(self) -> str:
        targets = {"classes": "", "numbers": ", regression", "noise": ", regression with a noise of its own"}
        return f"{'-'.join(map(str, self.sizes))}, {self.activation}, batch {self.batch}{targets[self.targets]}"

    @property
    def has_classes(self) -> bool:
        return self.entries is None and self.targets == "classes"


@dataclass(frozen=True)
class Task:
    """Data that lie on the device, some batches of them, and the rows of the batch that every step takes."""

    size: Size
    device: torch.device
    x: Tensor  # (rows, inputs)
    y: Tensor  # (rows,) labels, or (rows, outputs)
    rows: Tensor  # (batch,)
    data: Rows  # inputs and targets as a natural-parameter network takes them: sparse ones stay sparse

    @property
    def gpu(self) -> bool:
        return self.device.type == "cuda"

    def batch(self) -> tuple[Tensor, Tensor]:
        """Inputs and targets of a step, gathered anew at every call, as training does."""
        return self.x.index_select(0, self.rows), self.y.index_select(0, self.rows)

    def loss(self, o: Tensor, y: Tensor) -> Tensor:  # (*members, batch, outputs) -> ()
        """A point network's: cross-entropy, or the squared error."""
        if self.size.has_classes:
            return functional.cross_entropy(o.flatten(0, -2), y.expand(o.shape[:-1]).flatten())
        return functional.mse_loss(o, y.expand_as(o))

    def answer(self, o: Tensor) -> Tensor:
        """A point network's: probabilities, or the outputs themselves."""
        return torch.softmax(o, -1) if self.size.has_classes else o


def make_task(size: Size, device: torch.device) -> Task:
    """Random data: what is measured does not depend on their values."""
    drawn: dict[str, Any] = {"generator": torch.Generator(device).manual_seed(0), "device": device}
    inputs = size.sizes[0]
    count = size.batch * min(max(_BYTES // (4 * size.batch * inputs), _BATCHES[0]), _BATCHES[1])
    rows = torch.randperm(count, **drawn)[: size.batch]
    if size.entries is None:
        x = torch.randn(count, inputs, **drawn)
        y = (
            torch.randint(size.sizes[-1], (count,), **drawn)
            if size.has_classes
            else torch.randn(count, size.sizes[-1], **drawn)
        )
        return Task(size, device, x, y, rows, Rows(x, y, device=device))
    sparse = _sparse_rows(count, inputs, size.entries)
    x = torch.from_numpy(sparse.toarray()).to(device)
    return Task(size, device, x, x, rows, Rows(sparse, sparse, device=device))


def _sparse_rows(count: int, columns: int, entries: int) -> scipy.sparse.csr_matrix:
    """One number in each of `entries` stretches of columns of equal length."""
    rng, stretch = np.random.default_rng(0), columns // entries
    index = stretch * np.arange(entries) + rng.integers(stretch, size=(count, entries))
    values = rng.random(index.shape, dtype=np.float32)
    return scipy.sparse.csr_matrix(
        (values.ravel(), index.ravel(), np.arange(0, index.size + 1, entries)), shape=(count, columns)
    )
