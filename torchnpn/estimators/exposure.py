"""Exposure of rows, to which targets are in proportion: where it stands, what it may be, and the unit networks know."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from torchnpn.columns import Encoded
from torchnpn.io import checks
from torchnpn.likelihoods import BY_NAME, Likelihood
from torchnpn.rows import plain_values, real_numbers
from torchnpn.settings import short

Array = NDArray[Any]
_LARGEST_RATIO = 1e12  # of exposures, from one row to another


class GivenTarget(NamedTuple):
    """A target as `fit` is given it."""

    values: Any
    exposure: Any
    column: str | int | None  # that exposures stood in


class Exposure(NamedTuple):
    """What a model knows of exposures: e of a row enters the log mean of its target as log e/unit."""

    column: str | int | None  # of X; None where exposures are given beside it
    unit: float  # mean exposure of the first rows, so that nothing depends on the unit in which exposures are written

    @classmethod
    def learn(cls, column: str | int | None, values: Array, weight: Array | None) -> Self:
        with np.errstate(over="ignore"):
            return cls(column, float(np.average(values, weights=weight)))

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """The inverse of `_asdict`, of a model file."""
        plain = checks.with_keys("exposure", checks.mapping("exposure", plain), cls._fields)
        column, unit = plain["column"], plain["unit"]
        if column is not None:
            column = checks.text("exposure", column) if isinstance(column, str) else checks.size("exposure", column, 0)
        if not (isinstance(unit, float) and 0 < unit < math.inf):
            raise ValueError(f"exposure should have a unit above 0, got {checks.shown(unit)}")
        return cls(column, unit)

    def logarithms(self, values: Array) -> Array:  # (rows,) -> (rows, 1)
        """log e/unit."""
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            ratio = values / self.unit
        if ((ratio > _LARGEST_RATIO) | (ratio < 1 / _LARGEST_RATIO)).any():
            row = int(np.abs(np.log(values) - math.log(self.unit)).argmax())
            raise ValueError(
                f"exposure expects numbers of about the size of their mean, {self.unit:g}, got {values[row]:g} in row "
                f"{row} (from 0). Look for a wrong unit or a code for missing values."
            )
        logs: Array = np.log(ratio)[:, None]
        return logs

    def of_rows(self, X: Any, exposure: Any, features: int) -> tuple[Any, Array]:
        """Rows without the column of exposures, if they have it, and what networks add to the log mean (rows, 1).

        Args:
            X: Rows to predict.
            exposure: A number, one for each row, or None for those in the column of `X`.
            features: How many columns the network reads.
        """
        column = exposure if isinstance(exposure, str) else self.column
        there = column is not None and _has_column(X, column, features)
        rest, own = _split(X, column) if there else (X, None)  # type: ignore[arg-type]  # a column is there
        if own is None and (exposure is None or isinstance(exposure, str)):
            where = "" if self.column is None else f", or in the column {self.column!r} of X"
            raise ValueError(
                f"The model predicts for an exposure of each row, got none. Pass exposure=, a number or one for each "
                f"row{where}; exposure=1.0 asks for predictions per unit."
            )
        values = checked_exposure(own if exposure is None or isinstance(exposure, str) else exposure, _rows(rest))
        return rest, self.logarithms(values)


def split_exposure(X: Any, exposure: Any) -> tuple[Any, Any, str | int | None]:
    """Rows without exposures, exposures as `fit` is given them, and the column that they stood in, if any."""
    if not isinstance(exposure, (str, int, np.integer)) or isinstance(exposure, bool):
        return X, exposure, None
    column = exposure if isinstance(exposure, str) else int(exposure)
    if not _has_column(X, column):
        what = f"columns {short(list(X.columns))}" if hasattr(X, "columns") else f"X of shape {np.shape(X)}"
        raise ValueError(
            "exposure expects the name of a column of a frame, the number of a column of an array, or a number above 0 "
            f"for each row, got {short(exposure)} and {what}."
        )
    return *_split(X, column), column


def checked_exposure(exposure: Any, rows: int) -> Array:  # (rows,)
    """Exposures of rows in float64."""
    values = real_numbers(exposure, "exposure")
    if values.shape not in ((), (rows,)):
        raise ValueError(f"exposure expects a number above 0 for each of {rows} rows, got shape {values.shape}.")
    values = np.broadcast_to(values, (rows,))
    wrong = ~(np.isfinite(values) & (values > 0))
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"exposure expects numbers above 0, got {values[row]:g} in row {row} (from 0). Leave out rows that were "
            "not exposed, or for which it is not known."
        )
    return values


def rates(t: Array, targets: int, weight: Array | None) -> tuple[Array, Array | None]:
    """Targets per exposure, and weights by which their mean is that of all targets over all exposures."""
    if t.shape[1] == targets:
        return t, weight
    exposure = np.exp(t[:, targets:], dtype=np.float64)
    return t[:, :targets] / exposure, exposure[:, 0] if weight is None else exposure[:, 0] * weight


def check_link(kind: type[Likelihood], family: str) -> None:
    """Raise for a kind of target that is in proportion to nothing."""
    if not kind.log_link:
        names = ", ".join(f'"{name}"' for name, one in BY_NAME.items() if one.log_link)
        raise ValueError(f'exposure goes with families whose mean it can multiply: {names}; got family="{family}".')


def _rows(X: Any) -> int:
    shape = getattr(X, "shape", None)
    return int(shape[0]) if shape else len(X)


def _has_column(X: Any, column: str | int, features: int | None = None) -> bool:
    """Whether X has the column; an array of which `features` columns are read has it if there is one more."""
    names = getattr(X, "columns", None)
    if isinstance(column, str):
        return names is not None and column in list(names)
    shape = np.shape(X) if not hasattr(X, "shape") else X.shape
    if names is not None or len(shape) != 2:
        return False
    return bool(0 <= column < shape[1] if features is None else shape[1] == features + 1)


def _split(X: Any, column: str | int) -> tuple[Any, Any]:
    """The other columns, and this one."""
    if isinstance(column, str):
        return X[[name for name in X.columns if name != column]], X[column]
    if isinstance(X, Encoded):
        rest, own = _split(X.rows, column)
        return Encoded(rest, np.delete(X.least_scale, column)), own
    X = plain_values(X)
    X = X if hasattr(X, "shape") else np.asarray(X)
    others = [k for k in range(X.shape[1]) if k != column]
    own = X[:, [column]]
    return X[:, others], (own.toarray() if hasattr(own, "toarray") else own)[:, 0]
