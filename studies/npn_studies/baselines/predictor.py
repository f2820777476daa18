"""Prediction: from rows at the border to passes through the networks and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from npn_studies.baselines.predicted import Predicted, replica
from npn_studies.baselines.replicas import Replicas
from npn_studies.baselines.rows import moved

_NUMBERS_AT_ONCE = 2**26  # activations of a layer: 256 MB in float32


class Predictor(NamedTuple):
    """A trained baseline, by its function of rows on the device.

    Attributes:
        answer: From (replicas, rows, inputs) to what the networks predict, (samples, networks, rows, …); it is called
            without gradients.
        replicas: The networks.
    """

    answer: Callable[[Tensor], Predicted]
    replicas: Replicas

    @torch.no_grad()
    def predict(self, x: Tensor) -> Predicted:
        """See `Fitted`."""
        sets, members = self.replicas.sets, self.replicas.members
        if x.dim() not in (2, 3) or (x.dim() == 3 and (len(x) != sets or not self.replicas.leading)):
            wanted = f"(rows, inputs) or ({sets}, rows, inputs)" if self.replicas.leading else "(rows, inputs)"
            raise ValueError(f"predict expects x {wanted}, as fit got it; got shape {tuple(x.shape)}.")
        x = x.expand(sets, *x.shape[-2:])
        predicted = self.answer(moved(x, self.replicas.each.device, self.replicas.dtype))
        grouped = (part.unflatten(1, (members, sets)).flatten(0, 1) for part in predicted)
        predicted = type(predicted)(*grouped)
        return predicted if self.replicas.leading else replica(predicted, 0)


def passes(
    forward: Callable[[Tensor], Tensor], x: Tensor, replicas: Replicas, width: int, samples: int = 1
) -> Tensor:  # (replicas, rows, inputs) -> (samples, networks, rows, outputs)
    """`samples` passes of all rows, in pieces of bounded memory.

    Args:
        forward: From (networks, rows, inputs) to (networks, rows, outputs).
        x: Inputs.
        replicas: The networks.
        width: Units of the widest layer, inputs included.
        samples: How often each row passes; for a random `forward`.
    """
    rows = x.shape[1]
    numbers = torch.arange(rows, device=x.device).repeat(samples)
    pieces = numbers.split(max(1, _NUMBERS_AT_ONCE // (replicas.networks * width)))
    outputs = torch.cat([forward(replicas.rows(x, piece)) for piece in pieces], 1)
    return outputs.view(replicas.networks, samples, rows, -1).movedim(1, 0)
