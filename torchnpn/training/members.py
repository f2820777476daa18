"""Members of an ensemble: networks of their own, and the replicas of one network, either made from the other."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import TypeVar

import torch
from torch import nn

from torchnpn.nn import Linear
from torchnpn.training.history import History

M = TypeVar("M", bound=nn.Module)


def trains_one_by_one(device: torch.device) -> bool:
    """Whether members train faster one after the other than all at once: on a CPU, which one network fills."""
    return device.type == "cpu"


def member(module: M, k: int) -> M:
    """The k-th replica of a network or a likelihood as one of its own, in memory of its own.

    Args:
        module: Made with `replicas=(K,)`: all its parameters have a first dimension K.
        k: Which, from 0 to K - 1.
    """
    alone = copy.deepcopy(module)
    for part in alone.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            setattr(part, name, nn.Parameter(parameter.detach()[k].clone(), parameter.requires_grad))
        if isinstance(part, Linear):
            part.replicas = part.replicas[1:]
    return alone


@torch.no_grad()
def assemble_(module: nn.Module, members: Sequence[nn.Module]) -> None:
    """Write members into the replicas of `module`: the inverse of `member` for each k."""
    every = zip(*(one.parameters() for one in members), strict=True)
    for parameter, parts in zip(module.parameters(), every, strict=True):
        parameter.copy_(torch.stack(parts))


def mean_history(histories: Sequence[History]) -> History:
    """The figures of members that trained equally long, epoch by epoch: means, but the sum of the seconds."""
    if len(histories) == 1:
        return histories[0]
    means = [
        replace(
            epochs[0],
            **{name: fmean(getattr(epoch, name) for epoch in epochs) for name in ("loss", "kl", "kl_weight")},
            seconds=sum(epoch.seconds for epoch in epochs),
        )
        for epochs in zip(*(history.epochs for history in histories), strict=True)
    ]
    return History(means)
