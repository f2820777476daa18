"""What must be the same for a training to go on: network, data, likelihood, prior and recipe, each as a short text."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import types
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from torchnpn.moments import Moments
from torchnpn.training.tape import Objective

ALL_BYTES = 2**30
"""An array of at most so many bytes is hashed whole, a larger one by rows that are evenly spread and make so many."""
_LONGEST = 120  # characters of a text, then its hash takes its place
_DEEPEST = 8  # objects within each other
_PROGRESS = (0.0, 0.25, 0.5, 0.75, 1.0)  # at which the weights of the KL are compared


def fingerprint_of(objective: Objective, data: Any, validation: Any, subsets: Any) -> dict[str, str]:
    """The parts of a training by name; `data` and the others as they were given to `train`."""
    model, likelihood, prior, recipe = objective
    settings = {f"recipe.{field.name}": getattr(recipe, field.name) for field in dataclasses.fields(recipe)}
    settings["recipe.kl_weight"] = (recipe.kl_weight, [np.asarray(recipe.kl_weight(t)).tolist() for t in _PROGRESS])
    parts = {
        "network": described(model),
        "likelihood": described(likelihood),
        "prior": described(prior),
        "data": _of_data(data),
        "validation": "None" if validation is None else _of_data(validation),
        "subsets": _of_array(subsets),
        **{name: described(value) for name, value in settings.items()},
    }
    return {name: _short(text) for name, text in parts.items()}


def differences(stored: Mapping[str, str], here: Mapping[str, str]) -> str:
    """The parts that differ, in words; an empty text where all are the same."""
    return ", ".join(
        name if len(old + new) > _LONGEST or name in ("data", "validation", "subsets") else f"{name} ({old}, now {new})"
        for name in [*here, *(stored.keys() - here.keys())]
        if (old := stored.get(name, "nothing")) != (new := here.get(name, "nothing"))
    )


def described(value: Any, depth: int = 0) -> str:
    """A text that is the same for equal settings in every process; functions go by their names and their constants."""
    inner = functools.partial(described, depth=depth + 1)
    if value is None or isinstance(value, (bool, int, float, str, np.generic)):
        return repr(value.item() if isinstance(value, np.generic) else value)
    if isinstance(value, (Tensor, np.ndarray)):
        return _of_array(value)
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if depth > _DEEPEST:
        return described(type(value))
    if isinstance(value, (list, tuple, set, frozenset)):
        listed = sorted(map(inner, value)) if isinstance(value, (set, frozenset)) else map(inner, value)
        return f"[{', '.join(listed)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{inner(key)}: {inner(one)}' for key, one in value.items())}}}"
    if isinstance(value, functools.partial):
        return f"{inner(value.func)}({inner(value.args)}, {inner(value.keywords)})"
    if isinstance(value, types.FunctionType):
        held = [cell.cell_contents for cell in value.__closure__ or ()]
        constants = [one for one in value.__code__.co_consts if isinstance(one, float)]
        return f"{value.__module__}.{value.__qualname__}{inner([value.__defaults__, held, constants])}"
    if isinstance(value, (types.MethodType, types.BuiltinFunctionType)):
        return str(getattr(value, "__qualname__", value.__name__))
    if isinstance(value, nn.Module):
        return _of_module(value, depth)
    own = {name: one for name, one in getattr(value, "__dict__", {}).items() if not name.startswith("_")}
    return f"{described(type(value))}{inner(own)}"


def _of_module(module: nn.Module, depth: int) -> str:
    """Its class, its settings, the shapes of its tensors, and the same of the modules in it; not the numbers."""
    settings = {
        name: one
        for name, one in vars(module).items()
        if not name.startswith("_") and name != "training" and not isinstance(one, (Tensor, torch.Generator))
    }
    tensors = {
        name: f"{list(one.shape)} {one.dtype} {one.requires_grad}"
        for name, one in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
    }
    inside = {name: _of_module(child, depth) for name, child in module.named_children()}
    return f"{described(type(module))}({described([settings, tensors], depth + 1)}, {inside})"


def _of_data(data: Any) -> str:
    """Of arrays their content; of a DataLoader its size and the tensors of a TensorDataset; of a stream its word."""
    if hasattr(data, "identity"):
        return str(data.identity)
    if isinstance(data, DataLoader):
        size = f"{len(data)} batches of {len(data.dataset)} rows"  # type: ignore[arg-type]
        tensors = data.dataset.tensors if isinstance(data.dataset, TensorDataset) else ()
        return f"{size} {described(type(data.dataset))} {[_of_array(one) for one in tensors]}"
    return ", ".join(map(_of_array, data))


def _of_array(x: Any) -> str:
    """Type, shape and SHA-256 of the numbers, wherever they lie."""
    if x is None:
        return "None"
    if isinstance(x, Moments):
        return f"{_of_array(x.mean)} ± {_of_array(x.variance)}"
    if scipy.sparse.issparse(x):
        rows = x.tocsr()
        return f"{rows.shape} {[_of_array(part) for part in (rows.data, rows.indices, rows.indptr)]}"
    tensor = x.detach() if isinstance(x, Tensor) else torch.from_numpy(np.array(x, copy=True, ndmin=1, order="C"))
    size = tensor.numel() * tensor.element_size()
    some = tensor if size <= ALL_BYTES else tensor[:: -(-size // ALL_BYTES)]
    numbers = some.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)} {hashlib.sha256(numbers.data).hexdigest()}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:20]}… {hashlib.sha256(text.encode()).hexdigest()}"
