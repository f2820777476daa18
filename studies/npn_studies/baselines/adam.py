"""Adam with one learning rate for each network; all it needs lies on the device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torchnpn.kernels import step_

_RULE = "adam", 0.9, 0.999, 1e-8


def shares(steps: int, schedule: str) -> Tensor:  # (steps,), float64
    """The share of the learning rate in each step: 1, or ½ (1 + cos(π t / steps)).

    Raises:
        ValueError: If there is no such schedule.
    """
    if schedule not in ("constant", "cosine"):
        raise ValueError(f"Settings expects the schedule 'constant' or 'cosine', got {schedule!r}.")
    at = torch.arange(steps, dtype=torch.float64) / max(steps, 1)
    return 0.5 * (1 + torch.cos(torch.pi * at)) if schedule == "cosine" else torch.ones_like(at)


class Adam:
    """Changes parameters (networks, …) in place by their gradients.

    Args:
        parameters: Of all networks.
        rate: Learning rate (networks, 1, 1) or (1, 1, 1).
        steps: How many there will be.
        schedule: See `shares`.
    """

    def __init__(self, parameters: list[Tensor], rate: Tensor, steps: int, schedule: str) -> None:
        self.parameters = parameters
        self.averages = [p.new_zeros(2, *p.shape) for p in parameters]
        t = torch.arange(1, steps + 1, dtype=torch.float64)
        first, second = (1 - beta**t for beta in _RULE[1:3])
        table = torch.stack([shares(steps, schedule) / first, second**-0.5, torch.ones_like(t)], 1)
        self._table, self._step = table.to(rate), torch.zeros(1, dtype=torch.int64, device=rate.device)
        self._scale = torch.ones_like(rate[..., 0]).repeat(1, 3)  # (networks, 3), as `kernels.step_` wants it
        self._scale[:, 0] = rate[:, 0, 0]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        now = self._table[self._step] * self._scale
        for parameter, gradient, averages in zip(self.parameters, gradients, self.averages, strict=True):
            step_(parameter, gradient, averages, now, _RULE)
        self._step.add_(1)
