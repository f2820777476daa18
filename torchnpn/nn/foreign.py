"""Modules that do not take moments, met in a `Sequential`: what to put in their place."""

from __future__ import annotations

import torch
from torch import nn

from torchnpn.nn.activation import ACTIVATIONS

_ACTIVATIONS = {cls.__name__: cls for cls in ACTIVATIONS.values()}
_COUNTERPARTS = {
    "Linear": "npn.nn.Linear.from_torch(module), or npn.nn.Linear(in_features, out_features)",
    "Dropout": "npn.nn.Dropout(p)",
    "AlphaDropout": "npn.nn.Dropout(p)",
    "Flatten": "npn.nn.Flatten()",
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
    if takes_tensors_only(module) and name in _ACTIVATIONS:
        return f"{where} Use npn.nn.{name}() in its place."
    if takes_tensors_only(module) and name in _COUNTERPARTS:
        return f"{where} Use {_COUNTERPARTS[name]} in its place."
    return f"{where} There is no counterpart in npn.nn. {ADVICE}"


def _full_name(module: object) -> str:
    cls = type(module)
    if not isinstance(module, nn.Module):
        return f"a {cls.__name__}"
    is_torchs = getattr(torch.nn, cls.__name__, None) is cls
    return f"torch.nn.{cls.__name__}" if is_torchs else f"{cls.__module__}.{cls.__qualname__}"
