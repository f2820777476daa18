"""Frames with text, categories, dates and times: their columns are learnt in `fit`, and encoded whenever rows come."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from torchnpn._text import did_you_mean
from torchnpn.columns import Columns, Encoded, Frame, Number, learn
from torchnpn.settings import short

Array = NDArray[Any]
FROM_TYPE = "from_dtype"


def encoded(estimator: Any, X: Any, *, reset: bool) -> Array | None:
    """Rows (rows, inputs) of X, once the columns are learnt; None where X is an array or a frame of numbers alone.

    Sets, and later checks, what scikit-learn keeps of features.

    Args:
        estimator: Has `categorical_features`, and gets `columns_` and the least scales of its inputs.
        X: What the user gave.
        reset: Whether to learn the columns.
    """
    if isinstance(X, Encoded):
        estimator.columns_, estimator._least_scale = None, X.least_scale
        return None
    frame = None if scipy.sparse.issparse(X) else Frame.of(X)
    if reset:
        places = _category_places(estimator.categorical_features, X, frame)
        if frame is None and places:
            frame = Frame.of_array(_two_dimensional(X))
        columns = None if frame is None else learn(frame, places)
        estimator.columns_, estimator._least_scale = columns, 0.0 if columns is None else columns.least_scale
    if estimator.columns_ is None:
        return None
    if frame is None:
        frame = Frame.of_array(_two_dimensional(X))
    elif not reset:
        _check_all_there(estimator, frame)
    validate_data(estimator, frame.content, reset=reset, skip_check_array=True)  # names, and the number of features
    rows: Array = estimator.columns_.encoded(frame.every(), frame.rows)
    return rows


def check_number_columns(columns: Columns | None, X_variance: Any) -> None:
    """Raise where measurement errors are given of columns that hold no measurements."""
    if X_variance is None or columns is None:
        return
    others = [column.name for column in columns.columns if not isinstance(column, Number)]
    if others:
        raise ValueError(
            f"X_variance expects X of numbers alone, got columns of other kinds, such as {others[0]!r}. Encode them "
            "first, for instance with scikit-learn's OneHotEncoder, or leave out X_variance."
        )


def check_categorical(categorical_features: Any) -> None:
    """Raise unless this names columns, or leaves it to their types."""
    if isinstance(categorical_features, str) and categorical_features == FROM_TYPE:
        return
    _listed(categorical_features)


def _listed(categorical_features: Any) -> list[Any]:
    listed = categorical_features
    if isinstance(listed, np.ndarray) and listed.ndim == 1:
        listed = listed.tolist()
    kinds = {type(one) for one in listed} if isinstance(listed, (list, tuple)) else {type(None)}
    if len(kinds) > 1 or kinds - {bool, int, str, np.str_}:
        raise ValueError(
            f'categorical_features expects "{FROM_TYPE}", names of columns, their numbers, or True or False for each '
            f"column, got {short(categorical_features)}."
        )
    return list(listed)


def _category_places(categorical_features: Any, X: Any, frame: Frame | None) -> list[int]:
    """The numbers of the columns that the user named."""
    if isinstance(categorical_features, str):
        return []
    listed = _listed(categorical_features)
    if not listed:
        return []
    if scipy.sparse.issparse(X):
        raise ValueError("categorical_features expects dense X, got a sparse matrix. Convert with X.toarray().")
    features = _two_dimensional(X).shape[1] if frame is None else len(frame.names)
    if isinstance(listed[0], bool):
        if len(listed) != features:
            raise ValueError(f"categorical_features expects True or False for {features} columns, got {len(listed)}.")
        return np.flatnonzero(listed).tolist()
    if isinstance(listed[0], str):
        names = () if frame is None else frame.names
        if unknown := [name for name in listed if name not in names]:
            close = did_you_mean(unknown[0], names) if names else " X is an array: give numbers of columns."
            raise ValueError(f"categorical_features expects names of columns of X, got {unknown[0]!r}.{close}")
        return [names.index(name) for name in listed]
    if wrong := [place for place in listed if not -features <= place < features]:
        raise ValueError(f"categorical_features expects numbers of the {features} columns of X, got {wrong[0]}.")
    return [place % features for place in listed]


def _two_dimensional(X: Any) -> Array:
    """Rows of an array or of lists, of any type."""
    array = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
    if array.ndim != 2:
        raise ValueError(f"X expects rows and columns, got an array of shape {array.shape}. Use X.reshape(-1, 1).")
    return array


def _check_all_there(estimator: Any, frame: Frame) -> None:
    known = getattr(estimator, "feature_names_in_", ())
    if missing := [name for name in known if name not in frame.names]:
        more = f" and {len(missing) - 1} more of those it was fitted with are" if len(missing) > 1 else " is"
        raise ValueError(
            f"{type(estimator).__name__} expects the columns that it was fitted with; {missing[0]!r}{more} missing."
            f"{did_you_mean(missing[0], frame.names)}"
        )
