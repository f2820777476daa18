"""What estimators are given, checked where it enters: rows, targets, weights of rows and random states."""

from __future__ import annotations

import math
import numbers
import warnings
from collections import Counter
from collections.abc import Iterable
from typing import Any, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, validate_data

Array = NDArray[Any]
_FEW = 10  # rows, below which there is a warning
_TOTAL_WEIGHT = 1e-6, 1e12
_ADVICE = {  # by how errors of numpy and pandas begin that scikit-learn passes on
    "could not convert string": "Encode text as numbers, for instance with scikit-learn's OneHotEncoder.",
    "fill value must be 0": "Make a sparse frame dense first: X.sparse.to_dense().",
}


def checked_data(estimator: Any, X: Any, *y: Any, reset: bool, **options: Any) -> Any:
    """X, or X and y, as arrays by scikit-learn's `validate_data`; masked values of X are missing values.

    Args:
        estimator: For which they are.
        X: Array, frame or sparse matrix.
        y: Targets, if any.
        reset: Whether a model is learnt from nothing, which takes two rows or more, or these are rows for an old one.
        options: Of `validate_data`.
    """
    X, y = plain_values(X), tuple(map(_plain_targets, y))
    _check_names(X)
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # it looks for infinities by sums, which may overflow
            return validate_data(estimator, X, *y, reset=reset, ensure_min_samples=2 if reset else 1, **options)
    except OverflowError:
        raise ValueError(
            "X and y expect numbers that float64 can hold, up to 1.8e308 in size, got a whole number beyond. Divide "
            "the column by a power of ten."
        ) from None
    except ValueError as error:
        advice = next((advice for words, advice in _ADVICE.items() if str(error).startswith(words)), None)
        if advice is None:
            raise
        raise ValueError(f"X and y expect numbers: {error}. {advice}") from None


def _check_names(X: Any) -> None:
    """Raise for a frame in which two columns have one name."""
    names = Counter(getattr(X, "columns", ()))
    if repeated := [name for name, count in names.items() if count > 1]:
        raise ValueError(f"X expects columns of different names, got {short(repeated)} more than once. Rename them.")


def plain_values(values: Any) -> Any:
    """Data as it was given, but tensors as arrays, and NaN in place of what is masked."""
    if isinstance(values, torch.Tensor):
        return _array_of(values)
    if not isinstance(values, np.ma.MaskedArray):
        return values
    mask = np.ma.getmaskarray(values)
    return np.where(mask, np.nan, np.ma.getdata(values).astype(np.float64)) if mask.any() else np.asarray(values)


def _array_of(tensor: torch.Tensor) -> Array:
    if tensor.layout != torch.strided or tensor.is_meta:
        kind = "one without values (meta)" if tensor.is_meta else f"one of layout {tensor.layout}"
        raise ValueError(f"Data expects a dense tensor, with its values, got {kind}. Use tensor.to_dense().")
    values = tensor.detach().cpu().resolve_conj().resolve_neg()
    array: Array = (values.float() if values.dtype == torch.bfloat16 else values).numpy()  # numpy has no bfloat16
    return array


def real_numbers(values: Any, name: str) -> Array:
    """What a user gives as numbers, of any shape, in float64."""
    plain = plain_values(values)
    try:
        array = np.asarray(plain)
        if array.dtype.kind in "biufO":
            return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):  # of objects that are no numbers, and of those beyond float64
        raise ValueError(f"{name} expects numbers that float64 can hold, got {short(values)}.") from None
    raise ValueError(f"{name} expects real numbers, got values of type {array.dtype}.")


def _plain_targets(y: Any) -> Any:
    if isinstance(y, np.ma.MaskedArray) and np.ma.getmaskarray(y).any():
        raise ValueError("y expects a target in every row, got masked ones. Leave out their rows.")
    plain = plain_values(y)
    if getattr(plain, "dtype", None) is not None and any(map(_is_missing, _objects(plain))):
        raise ValueError("y expects a target in every row, got None, NaN or pandas.NA. Leave out their rows.")
    return plain


def _objects(values: Any) -> list[Any]:
    """Those of an array or a column that holds Python objects; of numbers scikit-learn takes care itself."""
    array = np.asarray(values)
    return array.reshape(-1).tolist() if array.dtype.kind == "O" and array.ndim else []


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # of pandas.NA, which is neither true nor false
        return True


def checked_weight(sample_weight: Any, X: Any) -> Array | None:
    """Weights of the rows as an array of float64, or None."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, np.ma.MaskedArray) and np.ma.getmaskarray(sample_weight).any():
        raise ValueError("sample_weight expects a weight for every row, got masked ones. Put 0 there.")
    given = real_numbers(sample_weight, "sample_weight")
    each = given if given.ndim else float(given)
    weight: Array = _check_sample_weight(each, X, dtype=np.float64, ensure_non_negative=True)
    with np.errstate(over="ignore"):
        total = float(weight.sum())
    low, high = _TOTAL_WEIGHT
    if total == 0:
        raise ValueError("sample_weight expects some rows with a weight above zero, got only zeros.")
    if not low <= total <= high:
        raise ValueError(
            f"sample_weight expects to say how many rows each row stands for, with a sum from {low:g} to {high:g}, "
            f"got a sum of {total:.3g}. Divide the weights by their mean."
        )
    return weight


def score_weight(sample_weight: Any) -> Array | None:
    """Weights of the rows of a score, which scikit-learn computes."""
    return None if sample_weight is None else real_numbers(sample_weight, "sample_weight")


def check_progress(progress: Any) -> None:
    """Raise unless `progress` can be called."""
    if progress is not None and not callable(progress):
        raise ValueError(f"progress expects a function of the share that is done, or None, got {short(progress)}.")


def check_enough_rows(estimator: Any, X: Any, weight: Array | None) -> None:
    """Raise for fewer than two rows that count, and warn of fewer than ten; to be called by `fit` itself."""
    rows = X.shape[0] if weight is None else int(np.count_nonzero(weight))
    for_many = 0.0 if weight is None else float(weight.sum())  # rows that these stand for
    name = type(estimator).__name__
    if rows < 2:
        raise ValueError(f"{name} expects at least two rows with a weight above zero to learn from, got {rows}.")
    if max(rows, for_many) < _FEW:
        warnings.warn(
            f"{name} learns from {rows} rows only. Fewer than {_FEW} rows say little about how much values vary: do "
            "not rely on the predicted uncertainty, and collect more rows if you can.",
            UserWarning,
            stacklevel=4,
        )


def seed_of(random_state: Any) -> int:
    """A seed drawn from `random_state`: the same for the same number, another one in each call for a generator."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if (is_whole(random_state) and 0 <= int(random_state) < 2**32) or isinstance(random_state, np.random.RandomState):
        return int(check_random_state(random_state).randint(2**31 - 1))
    if random_state is None or random_state is np.random:
        return int(np.random.default_rng().integers(2**31 - 1))  # not numpy's global generator: fits leave it alone
    raise ValueError(
        "random_state expects a whole number from 0 to 4294967295, a numpy RandomState or Generator, or None for "
        f"another result every time, got {short(random_state)}."
    )


def generator_of(random_state: Any) -> np.random.Generator:
    """Where chance comes from; a whole number is numpy's own seed."""
    seed = seed_of(random_state)  # which refuses what is none
    return np.random.default_rng(int(random_state) if isinstance(random_state, numbers.Integral) else seed)


def check_choice(name: str, value: Any, options: Iterable[str]) -> None:
    """Raise unless a setting is one of some words."""
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(f'"{option}"' for option in options)
        raise ValueError(f"{name} expects one of {listed}, got {short(value)}.")


def check_flag(name: str, value: Any) -> None:
    """Raise unless a setting is true or false."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} expects True or False, got {short(value)}.")


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a setting is a real number that float64 can hold: neither NaN nor a truth value, an array or text."""
    try:
        return isinstance(value, numbers.Real) and not isinstance(value, bool) and not math.isnan(float(value))
    except OverflowError:
        return False


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether a setting is a whole number."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def short(value: Any) -> str:
    """A value as it is shown in an error message."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print whole numbers of more than some thousand digits
        text = "a number of many thousand digits"
    return text if len(text) <= 80 else text[:77] + "…"
