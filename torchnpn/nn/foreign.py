"""Modules that do not take moments, met in a `Sequential`: what to put in their place."""

from __future__ import annotations

import inspect
import sys

import torch
from torch import nn

_COUNTERPARTS = {  # beside the layers of the same name
    "Linear": "npn.nn.Linear.from_torch(module), or npn.nn.Linear(in_features, out_features)",
    "Dropout": "npn.nn.Dropout(p)",
    "AlphaDropout": "npn.nn.Dropout(p)",
    "Softmax": "nothing, and a likelihood that takes logits, such as npn.likelihoods.SoftmaxMean(),",
    "LogSoftmax": "nothing, and a likelihood that takes logits, such as npn.likelihoods.SoftmaxMean(),",
}
ADVICE = (
    "Write a module whose forward takes and gives npn.Moments; for an element-wise function f, let it return "
    "npn.maps.quadrature(f, moments)."
)


def takes_tensors_only(module: object) -> bool:
    """Whether something is no module, or one of torch's own, which know tensors and not moments."""
    if not isinstance(module, nn.Module):
        return True
    return type(module).__module__.startswith("torch.nn.") and not isinstance(module, (nn.Identity, nn.Sequential))


def check(position: str, module: object) -> None:
    """Raise if a module, or one in a row of torch's own, does not take moments."""
    if takes_tensors_only(module):
        raise TypeError(explanation(module, position))
    if type(module) is nn.Sequential:
        for i, inner in enumerate(module):
            check(f"{position}.{i}", inner)


def explanation(module: object, position: str) -> str:
    """What is wrong with a module at a position of a `Sequential`, and what to do."""
    name = type(module).__name__
    where = f"npn.nn.Sequential: module {position}, {_full_name(module)}, does not take npn.Moments."
    if takes_tensors_only(module) and (ours := _COUNTERPARTS.get(name) or _of_the_same_name(name)):
        return f"{where} Use {ours} in its place."
    return f"{where} There is no counterpart in npn.nn. {ADVICE}"


def _full_name(module: object) -> str:
    cls = type(module)
    if not isinstance(module, nn.Module):
        return f"a {cls.__name__}"
    is_torchs = getattr(torch.nn, cls.__name__, None) is cls
    return f"torch.nn.{cls.__name__}" if is_torchs else f"{cls.__module__}.{cls.__qualname__}"


def _of_the_same_name(name: str) -> str:
    """How to make the layer of that name that `torchnpn.nn` has, if it has one."""
    layers = sys.modules[__package__]
    if name not in layers.__all__:
        return ""
    asked = inspect.signature(getattr(layers, name)).parameters.values()
    needed = [one.name for one in asked if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]
    return f"npn.nn.{name}({', '.join(needed)})"
