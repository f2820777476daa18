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
_LONGEST = 1_000  # entries of a list of settings, and characters of a text
_LABEL_BYTES = 2**24, 16  # that labels may take in memory: so many, and so many for each character of theirs
_LARGEST_NUMBER = 1e12  # of a weight's mean and standard deviation, in absolute value
_LARGEST_UNIT = 1e150  # whose square is still a number
_LARGEST_ORIGIN = 1e15  # in units of the scale: zero itself would be refused as too far from it
_ROUNDING = 1e-6  # of correlations


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
        if isinstance(value, (str, list)) and len(value) > _LONGEST:
            raise ValueError(f"settings expects at most {_LONGEST} entries or characters of {name}, got {len(value)}.")
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
        labels = _labels_of_type(_checked_type(kind, values), values)
    if labels.ndim != 1 or len(labels) < 2 or not (labels[:-1] < labels[1:]).all():
        raise ValueError("labels expects at least two, sorted and different.")
    return labels


def _checked_type(name: str, values: list[Any]) -> np.dtype[Any]:
    """The type called `name`, if it is one of labels, and so many of it take no more memory than their text does."""
    try:
        dtype = np.dtype(name)
    except (TypeError, ValueError, SyntaxError) as error:
        raise ValueError(f"labels cannot be read: {error}.") from None
    plain = dtype.kind in _LABEL_KINDS and dtype.subdtype is None and dtype.itemsize <= 4_096
    characters = sum(len(value) for value in values if isinstance(value, str))
    if not plain or dtype.itemsize * len(values) > _LABEL_BYTES[0] + _LABEL_BYTES[1] * characters:
        raise ValueError(f"labels expects text, numbers or bools of their own type, got {_short(name)}.")
    return dtype


def _labels_of_type(dtype: np.dtype[Any], values: list[Any]) -> Array:
    if not all(isinstance(value, (str, bool, int, float)) for value in values):  # a list would be another dimension
        raise ValueError("labels expects text, numbers or bools, got others.")
    try:
        labels: Array = np.array(values, dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"labels cannot be read: {error}.") from None
    back = labels.tolist()
    if back != values or [type(value) for value in back] != [type(value) for value in values]:
        raise ValueError(f"labels expects text, numbers or bools of their own type, got {_short(dtype.str)}.")
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
        or not all(len(name) <= _LONGEST for name in plain)
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


def check_scale(scale: Array, origin: Array, name: str) -> None:
    """Raise a ValueError unless numbers can be measured from `origin` in units of `scale`."""
    if not (scale > 0).all():
        raise ValueError(f"{name} expects scales above 0, got others.")
    with np.errstate(over="ignore"):
        near = np.abs(origin) / scale <= _LARGEST_ORIGIN
    if not near.all():
        raise ValueError(f"{name} expects values of at most {_LARGEST_ORIGIN:g} scales.")


def check_squares(scale: Array, name: str) -> None:
    """Raise a ValueError unless the squares of scales, as variances have them, are ordinary numbers."""
    if not ((scale >= 1 / _LARGEST_UNIT) & (scale <= _LARGEST_UNIT)).all():
        raise ValueError(f"{name} expects scales from {1 / _LARGEST_UNIT:g} to {_LARGEST_UNIT:g}.")


def check_covariance(covariance: Array, name: str) -> None:
    """Raise a ValueError unless the matrices (…, n, n) are symmetric and, but for rounding, positive semi-definite."""
    variances = np.diagonal(covariance, axis1=-2, axis2=-1)
    if not ((variances >= 0) & (variances <= _LARGEST_UNIT)).all():
        raise ValueError(f"{name} expects variances from 0 to {_LARGEST_UNIT:g}, got others.")
    std = np.sqrt(variances)
    unit = np.where(std > 0, std, 1.0)
    correlation = covariance / unit[..., :, None] / unit[..., None, :]
    nearly = torch.from_numpy(correlation + _ROUNDING * np.eye(correlation.shape[-1]))
    if np.abs(correlation - correlation.swapaxes(-1, -2)).max(initial=0.0) > _ROUNDING or bool(
        torch.linalg.cholesky_ex(nearly).info.any()
    ):
        raise ValueError(f"{name} expects the covariance of some variables, got a matrix that is none.")


def check_same_names(found: tuple[Any, Any], expected: tuple[Any, Any], what: str = "An estimator") -> None:
    """Raise a ValueError where plain values and arrays have other names than those that `what` writes."""
    for kind, one, other in zip(("values", "arrays"), found, expected, strict=True):
        if set(one) != set(other):
            raise ValueError(f"{what} expects the {kind} {sorted(other)}, got {sorted(one)}.")


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
        if tensor.abs().max() > _LARGEST_NUMBER:
            raise ValueError(f"{prefix}{name} expects numbers of at most ±{_LARGEST_NUMBER:g}.")
    module.load_state_dict({name: tensor.clone() for name, tensor in tensors.items()}, assign=True)
    return module


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
