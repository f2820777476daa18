"""An estimator as plain values and arrays, for model files, and back; nothing in them is trusted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

Array = NDArray[Any]
_LARGEST_LOG = 40.0  # a log standard deviation beyond makes a variance that is no float32
_LATER = {"n_estimators": 1}  # settings that early files lack; left out where they say no more than these do
_LABEL_KINDS = "biufU"  # numpy's letters for bool, integers, floats and text


def plain_settings(params: dict[str, Any]) -> dict[str, Any]:
    """Settings as JSON has them; a `random_state` that is a generator is left out, since it cannot be repeated."""
    plain: dict[str, Any] = {}
    for name, value in params.items():
        if name == "random_state" and not (value is None or isinstance(value, (int, np.integer))):
            value = None
        if isinstance(value, (tuple, list)):
            value = [int(size) for size in value]
        if isinstance(value, np.generic):
            value = value.item()
        if not (value is None or isinstance(value, (bool, int, float, str, list))):
            raise TypeError(f"A model file holds plain settings only, got {name}={value!r}.")
        if name not in _LATER or value != _LATER[name]:
            plain[name] = value
    return plain


def checked_settings(plain: Any, known: set[str]) -> dict[str, Any]:
    """Settings for the constructor, from plain values."""
    if isinstance(plain, dict):
        plain = {**{name: value for name, value in _LATER.items() if name in known}, **plain}
    if not isinstance(plain, dict) or set(plain) != known:
        raise ValueError(f"settings expects the names {', '.join(sorted(known))}, got {_short(plain)}.")
    for name, value in plain.items():
        if not (value is None or isinstance(value, (bool, int, float, str, list))):
            raise ValueError(f"settings expects a plain value for {name}, got {_short(value)}.")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"settings expects a finite {name}, got {value}.")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}


def plain_labels(labels: Array) -> dict[str, Any]:
    """Labels with their type."""
    values = labels.tolist()
    if labels.dtype.kind == "O" and all(isinstance(value, str) for value in values):
        return {"dtype": "object", "values": values}
    if labels.dtype.kind not in _LABEL_KINDS:
        raise TypeError(f"A model file holds labels that are text, numbers or bools, got {labels.dtype}.")
    return {"dtype": labels.dtype.str, "values": values}


def checked_labels(plain: Any) -> Array:
    """The inverse of `plain_labels`: sorted, all different, at least two."""
    if not isinstance(plain, dict) or set(plain) != {"dtype", "values"} or not isinstance(plain["values"], list):
        raise ValueError(f"labels expects a type and values, got {_short(plain)}.")
    kind, values = plain["dtype"], plain["values"]
    if not isinstance(kind, str):
        raise ValueError(f"labels expects the name of a type, got {_short(kind)}.")
    if kind == "object":
        if not all(isinstance(value, str) for value in values):
            raise ValueError("labels of type object are text, got others.")
        labels: Array = np.array(values, dtype=object)
    else:
        try:
            dtype = np.dtype(kind)
            labels = np.array(values, dtype=dtype)
        except (TypeError, ValueError, OverflowError, MemoryError) as error:
            raise ValueError(f"labels cannot be read: {error}.") from None
        same = labels.tolist() == values and [type(v) for v in labels.tolist()] == [type(v) for v in values]
        if dtype.kind not in _LABEL_KINDS or dtype.itemsize > 4_096 or not same:
            raise ValueError(f"labels expects text, numbers or bools of their own type, got {_short(kind)}.")
    if labels.ndim != 1 or len(labels) < 2 or not (labels[:-1] < labels[1:]).all():
        raise ValueError("labels expects at least two, sorted and different.")
    return labels


def checked_count(plain: Any, name: str, least: int = 1) -> int:
    """A whole number below 2³¹."""
    if isinstance(plain, bool) or not isinstance(plain, int) or not least <= plain < 2**31:
        raise ValueError(f"{name} expects a whole number from {least} to 2³¹, got {_short(plain)}.")
    return plain


def checked_number(plain: Any, name: str) -> float:
    """A finite number ≥ 0."""
    if isinstance(plain, bool) or not isinstance(plain, (int, float)) or not 0 <= plain < math.inf:
        raise ValueError(f"{name} expects a finite number ≥ 0, got {_short(plain)}.")
    return float(plain)


def checked_names(plain: Any, count: int) -> Array | None:
    """Names of features, or None."""
    if plain is None:
        return None
    if (
        not isinstance(plain, list)
        or not all(isinstance(name, str) for name in plain)
        or not len(plain) == len(set(plain)) == count
    ):
        raise ValueError(f"feature names expects {count} different texts, got {_short(plain)}.")
    return np.array(plain, dtype=object)


def checked_array(arrays: dict[str, Any], name: str, shape: tuple[int, ...]) -> Array:
    """A finite float64 array of that shape."""
    if name not in arrays:
        raise ValueError(f"{name} is missing.")
    array = np.asarray(arrays[name])
    if array.dtype != np.float64 or array.shape != shape or not np.isfinite(array).all():
        raise ValueError(f"{name} expects finite float64 numbers of shape {shape}, got {array.dtype} {array.shape}.")
    return array.copy()


def load_module(module: nn.Module, arrays: dict[str, Any], prefix: str) -> nn.Module:
    """Fill a module, made on the meta device, with the arrays `prefix.…`, whose names and shapes must be its own."""
    expected = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    found = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
    if set(found) != set(expected):
        raise ValueError(f"{prefix} expects the tensors {sorted(expected)}, got {sorted(found)}.")
    tensors = {name: torch.as_tensor(value) for name, value in found.items()}
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float32 or tuple(tensor.shape) != expected[name] or not tensor.isfinite().all():
            raise ValueError(f"{prefix}{name} expects finite float32 numbers of shape {expected[name]}.")
        if name.rpartition(".")[2].startswith("log_") and tensor.max() > _LARGEST_LOG:
            raise ValueError(f"{prefix}{name} expects logarithms up to {_LARGEST_LOG}.")
    module.load_state_dict({name: tensor.clone() for name, tensor in tensors.items()}, assign=True)
    return module


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
