"""Replicas: several networks in one module, along leading dimensions of its parameters; and each of them alone."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from torchnpn._torch import modules_in
from torchnpn.nn.parameter import RandomParameter

M = TypeVar("M", bound=nn.Module)


def replicas_of(model: nn.Module) -> tuple[int, ...]:
    """The leading dimensions that the random parameters of `model` have, () for one network."""
    shapes = {part.replicas for part in modules_in(model) if isinstance(part, RandomParameter)}
    return max(shapes, key=lambda shape: (len(shape), shape), default=())


def count_replicas(model: nn.Module) -> int:
    """How many networks `model` holds, along one leading dimension."""
    replicas = replicas_of(model)
    if len(replicas) > 1:
        raise ValueError("replicas have more than one leading dimension")
    return replicas[0] if replicas else 1


def member(module: M, k: int) -> M:
    """The k-th replica of a network or a likelihood as one of its own, in memory of its own.

    Args:
        module: Made with `replicas=(K,)`: all its parameters have a first dimension K.
        k: Which, from 0 to K - 1.
    """
    return with_members(module, k)


def with_members(module: M, which: int | Sequence[int] | np.ndarray[Any, Any]) -> M:
    """Some of the replicas of a network or a likelihood, or a single one, in memory of their own."""
    fewer = copy.deepcopy(module)
    for part in fewer.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            setattr(part, name, nn.Parameter(parameter.detach()[which].clone(), parameter.requires_grad))
    return fewer


@torch.no_grad()
def assemble_(module: nn.Module, members: Sequence[nn.Module]) -> None:
    """Write members into the replicas of `module`: the inverse of `member` for each k."""
    every = zip(*(one.parameters() for one in members), strict=True)
    for parameter, parts in zip(module.parameters(), every, strict=True):
        parameter.copy_(torch.stack(parts))
