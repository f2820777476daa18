"""An estimator as plain values and arrays, for model files, and back; nothing in them is trusted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from torchnpn.columns import Columns
from torchnpn.io import checks, modules

Array = NDArray[Any]
E = TypeVar("E")
M = TypeVar("M", bound=nn.Module)
# Settings that early files lack; left out where they say no more than these do.
_LATER: dict[str, Any] = {
    "n_estimators": 1,
    "ordered": False,
    "class_weight": None,
    "effort": "quick",
    "calibrate": None,
    "posterior": "mean_field",
    "validation_fraction": 0.1,
    "patience": None,
    "warm_start": False,
}
_LATER |= {"categorical_features": "from_dtype", "optimizer": "adam", "r": 1.0, "scaling": None}
_LABEL_KINDS = "biufU"  # numpy's letters for bool, integers, floats and text
_LABEL_BYTES = 2**24, 16  # that labels may take in memory: so many, and so many for each character of theirs


def plain_model(model: Any) -> dict[str, Any]:
    """Settings and features of an estimator."""
    names, columns = getattr(model, "feature_names_in_", None), getattr(model, "columns_", None)
    return {
        "settings": plain_settings(model.get_params(deep=False)),
        "features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        **({} if columns is None else {"columns": columns.state()}),
    }


def new_model(kind: Callable[..., E], plain: dict[str, Any]) -> E:
    """An estimator with the settings, and the features if there are any, of a file."""
    default: Any = kind()
    model: Any = kind(**checked_settings(plain.get("settings"), set(default.get_params(deep=False))))
    model._check_settings()
    if "features" in plain:
        model.n_features_in_ = checks.size("features", plain["features"])
        if (names := plain.get("feature_names")) is not None:
            model.feature_names_in_ = np.array(checks.names("feature_names", names, model.n_features_in_), dtype=object)
    return model  # type: ignore[no-any-return]


def checked_columns(plain: dict[str, Any], model: Any) -> Columns | None:
    """The columns of a frame with more than numbers, where a file has them."""
    if "columns" not in plain:
        return None
    columns = Columns.from_state(plain["columns"])
    if columns.names != tuple(getattr(model, "feature_names_in_", columns.names)):
        raise ValueError("columns should have the names of the features")
    checks.names("names of columns", list(columns.names), model.n_features_in_)
    return columns


def check_complete(plain: dict[str, Any], arrays: dict[str, Any], model: Any) -> None:
    """Raise a ValueError where plain values and arrays have other names than those that the model writes itself."""
    for kind, found, expected in zip(("values", "arrays"), (plain, arrays), model._state(), strict=True):
        checks.with_keys(f"the {kind} of a {type(model).__name__}", dict(found), expected)


def load_module(module: M, arrays: dict[str, Any], prefix: str) -> M:
    """Fill a module, made on the meta device, with the arrays `prefix…`, whose names and shapes must be its own."""
    found = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
    tensors = {name: torch.as_tensor(value).clone() for name, value in found.items()}
    return modules.load_weights_(module, tensors, torch.float32)


def plain_settings(params: dict[str, Any]) -> dict[str, Any]:
    """Settings as JSON has them; left out is what predictions do not need: generators, and weights of labels."""
    plain: dict[str, Any] = {}
    for name, value in params.items():
        if name == "random_state" and not (value is None or isinstance(value, (int, np.integer))):
            value = None
        if name == "class_weight" and isinstance(value, dict):
            value = None
        if isinstance(value, (tuple, list, np.ndarray)):
            value = [one.item() if isinstance(one, np.generic) else one for one in value]
        if isinstance(value, np.generic):
            value = value.item()
        if not (value is None or isinstance(value, (bool, int, float, str, list))):
            raise TypeError(f"A model file holds plain settings only, got {name}={value!r}.")
        if name not in _LATER or value != _LATER[name]:
            plain[name] = value
    return plain


def checked_settings(plain: Any, known: set[str]) -> dict[str, Any]:
    """Settings for the constructor, from plain values."""
    later = {name: value for name, value in _LATER.items() if name in known}
    plain = checks.with_keys("settings", {**later, **checks.mapping("settings", plain)}, sorted(known))
    for name, value in plain.items():
        if not (value is None or isinstance(value, (bool, int, float, str, list))):
            raise ValueError(f"settings should have a plain value for {name}, got {checks.shown(value)}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"settings should have a finite {name}, got {value}")
        if isinstance(value, (str, list)) and len(value) > checks.LONGEST_NAME:
            raise ValueError(
                f"settings should have at most {checks.LONGEST_NAME} entries or characters of {name}, got {len(value)}"
            )
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
    plain = checks.with_keys("labels", plain, ("dtype", "values"))
    kind, values = checks.text("labels' type", plain["dtype"]), checks.entries("labels' values", plain["values"])
    if kind == "object":
        if not all(isinstance(value, str) for value in values):
            raise ValueError("labels of type object should be text, got others")
        labels: Array = np.array(values, dtype=object)
    else:
        labels = _labels_of_type(_checked_type(kind, values), values)
    if labels.ndim != 1 or len(labels) < 2 or not (labels[:-1] < labels[1:]).all():
        raise ValueError("labels should be two or more, sorted and different")
    return labels


def _checked_type(name: str, values: list[Any]) -> np.dtype[Any]:
    """The type called `name`, if it is one of labels, and so many of it take no more memory than their text does."""
    try:
        dtype = np.dtype(name)
    except (TypeError, ValueError, SyntaxError) as error:
        raise ValueError(f"labels cannot be read: {error}") from None
    plain = dtype.kind in _LABEL_KINDS and dtype.subdtype is None and dtype.itemsize <= 4_096
    characters = sum(len(value) for value in values if isinstance(value, str))
    if not plain or dtype.itemsize * len(values) > _LABEL_BYTES[0] + _LABEL_BYTES[1] * characters:
        raise ValueError(f"labels should be text, numbers or bools of their own type, got {checks.shown(name)}")
    return dtype


def _labels_of_type(dtype: np.dtype[Any], values: list[Any]) -> Array:
    if not all(isinstance(value, (str, bool, int, float)) for value in values):  # a list would be another dimension
        raise ValueError("labels should be text, numbers or bools, got others")
    try:
        labels: Array = np.array(values, dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"labels cannot be read: {error}") from None
    back = labels.tolist()
    if back != values or [type(value) for value in back] != [type(value) for value in values]:
        raise ValueError(f"labels should be text, numbers or bools of their own type, got {checks.shown(dtype.str)}")
    return labels
