"""The data that estimators are given, checked where they enter: rows, targets, weights and subsets of rows."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight, validate_data

from torchnpn.columns import Encoded, is_missing
from torchnpn.rows.encoding import encoded
from torchnpn.settings import short

Array = NDArray[Any]
_FEW = 10  # rows, below which there is a warning
_TOTAL_WEIGHT = 1e-6, 1e12
_ADVICE = {  # by how errors of numpy, pandas and scikit-learn begin
    "could not convert string": "X and y expect numbers. Give a frame, of which NPN estimators read text (polars needs "
    "pyarrow for it), or encode text as numbers, for instance with scikit-learn's OneHotEncoder.",
    "fill value must be 0": "Make a sparse frame dense first: X.sparse.to_dense().",
    "Input X contains inf": "Correct these values; one that is missing is NaN.",
    "Input y contains": "Leave out rows whose target is not known, and correct infinite ones.",
    "Complex data not supported": "Give real and imaginary parts as two columns of numbers.",
    "Expected 2D array, got": "",
    "setting an array element": "Give all rows the same number of values, and each cell one number.",
    "float() argument must be": "Give an array, a list of rows of numbers, or a frame: pd.DataFrame(X).",
    "Cannot cast array data": "Make a frame of an array with named fields: pd.DataFrame(X).",
    "at least one array or dtype": "Give X at least one column: 0 feature(s) were found.",
    "The feature names should match": "Give X[model.feature_names_in_]: the columns of fit, in their order.",
    "Input should have at least 1 dim": "y is an array, a list or a column, with a target for each row.",
    "y should be a 1d array": "Give one label for each row; for several labels fit a classifier for each.",
}


def checked_data(estimator: Any, X: Any, *y: Any, reset: bool, **options: Any) -> Any:
    """X, or X and y, as floating-point arrays by scikit-learn's `validate_data`; masked values of X are missing values.

    Args:
        estimator: For which they are.
        X: Array, frame or sparse matrix.
        y: Targets, if any.
        reset: Whether a model is learnt from nothing, which takes two rows or more, or these are rows for an old one.
        options: Of `validate_data`.
    """
    options = {"dtype": [np.float64, np.float32], "ensure_min_samples": 2 if reset else 1, **options}
    with _advised(), np.errstate(over="ignore", invalid="ignore"):  # it sums, to find infinities
        X, y = plain_values(X), tuple(map(_plain_targets, y))
        _check_names(X)
        if options.get("y_numeric"):
            for given in y:
                _check_numbers(given)
        return validate_data(estimator, X, *y, reset=reset, **options)


@contextmanager
def _advised() -> Iterator[None]:
    """Errors of numpy, pandas and scikit-learn about data, with what to do."""
    try:
        yield
    except OverflowError:
        raise ValueError(
            "X and y expect numbers that float64 can hold, up to 1.8e308 in size, got a whole number beyond. Divide "
            "the column by a power of ten."
        ) from None
    except (ValueError, TypeError) as error:
        advice = next((advice for words, advice in _ADVICE.items() if str(error).startswith(words)), None)
        if advice is None:
            raise
        said = _without_data(str(error)).rstrip(".\n")
        raise type(error)(f"{said}. {advice}".rstrip()) from None


def checked_rows(estimator: Any, X: Any, *y: Any, reset: bool, **options: Any) -> Any:
    """The same where values of X may be missing, which is NaN, where CSR matrices stay what they are, and where frames
    may have columns of every kind.
    """
    _check_names(X)
    X, options = plain_values(X), {"ensure_all_finite": "allow-nan", **options}
    with _advised():
        rows = encoded(estimator, X, reset=reset)
    if rows is not None:  # scikit-learn has checked the features, of which there are more now
        return checked_data(copy.copy(estimator), rows, *y, reset=True, ensure_min_samples=2 if reset else 1, **options)
    X = X.rows if isinstance(X, Encoded) else X
    checked = checked_data(estimator, X, *y, reset=reset, accept_sparse="csr", **options)
    rows = checked[0] if y else checked
    if scipy.sparse.issparse(rows) and np.isnan(rows.data).any():
        raise ValueError("Sparse X expects numbers, got NaN. Missing values need a dense array: X.toarray().")
    return checked


def _without_data(message: str) -> str:
    """An error of scikit-learn's without the values of X that it shows in full."""
    first, *lines = message.split("\n")
    if first.startswith(("Expected 2D", "Complex")):
        return first.removesuffix(" instead:") + "".join(f". {line}" for line in lines if line.startswith("Reshape"))
    return message


def _check_numbers(y: Any) -> None:
    """Raise for targets of a regression that are text, dates or lengths of time."""
    array = np.asarray(y)
    try:
        if array.dtype.kind in "US":
            array.astype(np.float64)
    except ValueError:
        raise ValueError(
            f"y expects numbers, got text such as {short(array.reshape(-1)[0].item())}. For classes take NPNClassifier."
        ) from None
    if array.dtype.kind in "mM":
        raise ValueError(
            f"y expects numbers, got {array.dtype}. Give lengths of time as numbers, such as days: "
            "y / np.timedelta64(1, 'D'); for dates those since a first one."
        )


def _check_names(X: Any) -> None:
    """Raise for a frame in which two columns have one name."""
    names = Counter(getattr(X, "column_names", getattr(X, "columns", ())))  # of Arrow, and of other frames
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
    if getattr(plain, "dtype", None) is not None and any(map(is_missing, _objects(plain))):
        raise ValueError("y expects a target in every row, got None, NaN or pandas.NA. Leave out their rows.")
    return plain


def _objects(values: Any) -> list[Any]:
    """Those of an array or a column that holds Python objects; of numbers scikit-learn takes care itself."""
    array = np.asarray(values)
    return array.reshape(-1).tolist() if array.dtype.kind == "O" and array.ndim else []


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


def checked_variance(X_variance: Any, X: Any) -> Array | None:
    """Measurement variances as an array of the shape of X, or None."""
    if X_variance is None:
        return None
    if scipy.sparse.issparse(X):
        raise ValueError("X_variance expects dense X, got a sparse matrix. Convert with X.toarray().")
    s = real_numbers(X_variance, "X_variance")
    if s.shape not in ((), X.shape[1:], X.shape):
        raise ValueError(
            f"X_variance expects a number, one for each of the {X.shape[1]} features, or the shape of X {X.shape}, "
            f"got shape {s.shape}."
        )
    if not (np.isfinite(s) & (s >= 0)).all():
        raise ValueError("X_variance expects finite variances ≥ 0, got others. A value that is missing is NaN in X.")
    return np.broadcast_to(s, X.shape)


def score_weight(sample_weight: Any) -> Array | None:
    """Weights of the rows of a score, which scikit-learn computes."""
    return None if sample_weight is None else real_numbers(sample_weight, "sample_weight")


def checked_subsets(subsets: Any, members: int, rows: int, weight: Array | None) -> Array | None:
    """Numbers of the rows that each of several networks may see, (members, n)."""
    if subsets is None:
        return None
    if weight is not None:
        raise ValueError("subsets and sample_weight do not go together. Repeat rows in subsets instead.")
    chosen = np.asarray(subsets)
    if chosen.ndim != 2 or len(chosen) != members or not chosen.size or chosen.dtype.kind not in "iu":
        raise ValueError(
            f"subsets expects row numbers ({members}, n), for each of n_estimators={members} networks, got "
            f"{chosen.dtype} of shape {chosen.shape}."
        )
    if chosen.min() < 0 or chosen.max() >= rows:
        raise ValueError(f"subsets expects row numbers from 0 to {rows - 1}, got {chosen.min()} to {chosen.max()}.")
    return chosen.astype(np.int64)


def check_enough_rows(estimator: Any, X: Any, weight: Array | None) -> None:
    """Raise for fewer than two rows that count, and warn of fewer than ten."""
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
            stacklevel=_caller(),
        )


def _caller() -> int:
    """The `stacklevel` of the first frame, as seen by who calls this, that is not the library's own."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith("torchnpn."):
        frame, level = frame.f_back, level + 1
    return level
