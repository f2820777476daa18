"""Whether the modules of a network fit each other: parts that are right by themselves may not make a whole."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import Module

from torchnpn import nn
from torchnpn.likelihoods import Likelihood
from torchnpn.moments import Moments

MOST_OUTPUTS = 2**20  # of a layer for one row, or as many as the network has numbers: a few layers could multiply
MOST_COMPLEMENTS = 8  # each doubles the inputs
_ELEMENTWISE = (nn.Activation, nn.Saturating, nn.Bernoulli, nn.MaskedUnits, nn.InputNoise)


def check_sizes(network: Module) -> None:
    """Raise a ValueError where a layer expects other inputs, or other replicas, than the one before it gives.

    Also where a likelihood stands among the layers, or what the layers give would need far more memory than their
    weights.
    """
    complements = sum(isinstance(layer, nn.Complement) for layer in network.modules())
    if complements > MOST_COMPLEMENTS:
        raise ValueError(f"a network should have at most {MOST_COMPLEMENTS} layers Complement, got {complements}")
    most = max(MOST_OUTPUTS, sum(parameter.numel() for parameter in network.parameters()))
    _output_size(network, "the network", None, (), most)


def _output_size(
    module: Any, name: str, width: int | None, replicas: tuple[int, ...], most: int
) -> tuple[int | None, tuple[int, ...]]:
    """Size and replicas of what `module` gives for inputs of that size, None where any may come, and replicas."""
    if isinstance(module, nn.Sequential):
        for child, layer in module._modules.items():
            assert layer is not None
            if isinstance(layer, Likelihood):
                raise ValueError(
                    f"layer {child} should be a layer of npn.nn, got the likelihood {type(layer).__name__}"
                )
            width, replicas = _output_size(layer, f"layer {child}", width, replicas, most)
    elif hasattr(module, "out_features"):  # a layer of random parameters says what it takes and gives
        if width not in (None, module.in_features):
            raise ValueError(f"{name} expects {module.in_features} inputs, but the one before it gives {width}")
        try:
            replicas = tuple(torch.broadcast_shapes(replicas, module.replicas))
        except RuntimeError:
            raise ValueError(
                f"{name} has replicas {list(module.replicas)}, but those before it have {list(replicas)}"
            ) from None
        width = module.out_features
    elif isinstance(module, nn.Flatten):
        if replicas:
            raise ValueError(f"{name} is Flatten, which mixes up the replicas {list(replicas)} of the layers before it")
        width = None
    elif isinstance(module, nn.Complement) and width is not None:
        width *= 2
    if (outputs := math.prod(replicas) * (width or 1)) > most:
        raise ValueError(f"{name} gives {outputs} numbers for each row, expected at most {most} of such a network")
    return width, replicas


def check_activation(name: str, module: Module) -> None:
    """Raise a ValueError where the constants of an activation make no sense to it: it is tried on one number."""
    if not isinstance(module, _ELEMENTWISE):
        return
    with torch.device("cpu"), torch.no_grad():
        a = module(Moments(torch.tensor([0.5]), torch.tensor([0.1])))
    if not all(part is None or bool(part.isfinite().all()) for part in a):
        raise ValueError(f"{name} with these constants gives no finite number at 0.5 ± 0.1")
