"""Adam with rates of their own for means and variances, and a schedule that warms up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from torchnpn.training import half_cosine

_SPREADS = ("log_std", "log_cv")  # the second free tensor of a random parameter


def adam_with_own_rates(
    network: nn.Module, spread_rate: float, weight_decay: float
) -> Callable[[Iterable[Tensor], float], Optimizer]:
    """AdamW whose step for the weights' variances is `spread_rate`; only means decay."""
    spreads = {id(p) for name, p in network.named_parameters() if name.endswith(_SPREADS)}

    def make(parameters: Iterable[Tensor], lr: float) -> Optimizer:
        groups: list[list[Tensor]] = [[], []]
        for parameter in parameters:
            groups[id(parameter) in spreads].append(parameter)
        means, variances = groups
        return torch.optim.AdamW(
            [
                {"params": means, "weight_decay": weight_decay},
                {"params": variances, "lr": spread_rate, "weight_decay": 0.0},
            ],
            lr,
            fused=True,
        )

    return make


def warm_cosine(warm_up: int) -> Callable[[Optimizer, int], LRScheduler]:
    """Rates that rise over `warm_up` steps, a tenth of all at most, and fall to zero along half a cosine."""
    return partial(_scheduler, warm_up)


def _scheduler(warm_up: int, optimizer: Optimizer, steps: int) -> LRScheduler:
    return LambdaLR(optimizer, partial(share_of_rate, warm_up=min(warm_up, steps // 10), steps=steps))


def share_of_rate(step: int, *, warm_up: int, steps: int) -> float:
    """min(1, (t + 1)/(warm_up + 1)) · ½ (1 + cos(π t/steps)) after t steps."""
    return float(min(1.0, (step + 1) / (warm_up + 1)) * half_cosine(step, steps))
