"""The column to predict: what kind of thing it is, and which distribution fits such things."""

from __future__ import annotations

import math
from dataclasses import dataclass
from shlex import quote as quoted
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from scipy import stats

from torchnpn._text import counted, did_you_mean, shown
from torchnpn.columns import orders
from torchnpn.estimators import is_count
from torchnpn.likelihoods import BY_NAME, Likelihood, in_support, words_of_support
from torchnpn.table_files import USUAL_NOTATION, Notation, Survey, SurveyedColumn, TableError, column_numbers

Array = NDArray[np.float64]
CLASS = "class"
LEAST_ROWS = 10
_MOST_CLASSES = 1000  # that can be asked for
_MANY_CLASSES, _FEW_CLASSES, _DIFFERENT_SHARE = 50, 5, 0.2  # beyond these, classes must be asked for
_LARGEST, _LEAST_STD = 1e100, 1e-100  # of numbers whose squares float64 holds with room to spare
_LEAST_DISPERSION = 0.75  # of counts: variance over mean, 1 for a Poisson
_SKEWED = 1.0  # half of an exponential distribution's skewness


@dataclass(frozen=True)
class Target:
    """The column to predict.

    `marginal` is what can be said of it without a look at any other column: the mean and variance of the training
    rows, or the share of each class. It is what a model has to beat.
    """

    name: str
    family: str  # name of a likelihood, or CLASS
    classes: tuple[str, ...] = ()  # in the order of their codes 0, 1, …
    of_numbers: bool = True  # its cells are numbers; classes can be numbers too
    marginal: tuple[float, ...] = ()
    notation: Notation = USUAL_NOTATION  # of its numbers
    exposure: str = (
        ""  # name of the column to which it is in proportion, the last of the inputs; `marginal` is per unit
    )

    @property
    def is_class(self) -> bool:
        return self.family == CLASS

    @property
    def is_count(self) -> bool:
        return not self.is_class and self.likelihood.support.is_discrete

    @property
    def likelihood(self) -> type[Likelihood]:
        """The kind of a target that is a number."""
        return BY_NAME[self.family]

    def exposures(self, X: NDArray[Any]) -> Array | None:  # (rows, inputs) -> (rows,)
        """What the target of each row is in proportion to; None where there is no such column."""
        return X[:, -1].astype(np.float64) if self.exposure else None

    def encode(self, found: pa.Array, first_row: int) -> Array:  # (rows,) -> (rows,)
        """Numbers, or codes of classes; NaN where missing.

        Raises:
            TableError: A cell is text where it should be a number, infinite, or of an unknown class.
        """
        if not self.is_class:
            return self._numbers(found, first_row)
        labels = _labels(self._numbers(found, first_row)) if self.of_numbers else _texts(found)
        codes = {label: code for code, label in enumerate(self.classes)} | {None: math.nan}
        for row, label in enumerate(labels):
            if label not in codes:
                raise TableError(
                    f"Column {self.name!r} holds {shown(label)} in row {first_row + row:,}, "
                    f"which is none of the model's classes.{did_you_mean(label, self.classes)}"
                )
        return np.array([codes[label] for label in labels], np.float64)

    def _numbers(self, found: pa.Array, first_row: int) -> Array:
        return column_numbers(found, self.name, first_row, self.notation)

    def state(self) -> dict[str, Any]:
        """Plain values, for a model file."""
        return {
            "name": self.name,
            "family": self.family,
            "classes": list(self.classes),
            "of_numbers": self.of_numbers,
            "marginal": list(self.marginal),
            **({"exposure": self.exposure} if self.exposure else {}),
            **self.notation.state(),
        }

    @classmethod
    def from_state(cls, state: object) -> Target:
        """The inverse of `state`; a ValueError where it is something else."""
        match state:
            case {
                "name": str(name),
                "family": str(family),
                "classes": list(classes),
                "of_numbers": bool(of_numbers),
                "marginal": list(marginal),
                **rest,
            } if family in (*BY_NAME, CLASS):
                texts = all(isinstance(label, str) for label in classes) and len(set(classes)) == len(classes)
                size = len(classes) if family == CLASS else 2
                finite = all(isinstance(x, float) and math.isfinite(x) for x in marginal) and len(marginal) == size
                exposure = str(rest.pop("exposure", ""))
                fits = not exposure or (family != CLASS and BY_NAME[family].log_link)
                if texts and finite and fits and (len(classes) > 1) == (family == CLASS):
                    notation = Notation.from_state(rest)
                    return cls(name, family, tuple(classes), of_numbers, tuple(marginal), notation, exposure)
        raise ValueError(f"A target should have a name, a family, classes and a marginal, got {shown(state)}.")


class Kind(NamedTuple):
    """A family for a target, and why it was chosen."""

    family: str
    because: str


def find_column(found: Survey, name: str, family: str) -> SurveyedColumn:
    """The target's column.

    Args:
        found: What the file holds.
        name: Of the column.
        family: "auto", CLASS or the name of a likelihood.

    Raises:
        TableError: It is not there, or nothing can be learnt from it.
    """
    if name in found.unreadable:
        raise TableError(f"The target {name!r} holds {found.unreadable[name]}; expected numbers or text.")
    if name not in found.columns:
        raise TableError(f"There is no column {name!r} to predict.{did_you_mean(name, found.columns)}")
    column = found.columns[name]
    if column.filled == 0:
        raise TableError(f"The target {name!r} is missing in all {found.rows:,} rows.")
    if column.filled < LEAST_ROWS:
        raise TableError(f"Only {counted(column.filled)} with a target; expected at least {LEAST_ROWS}.")
    if column.is_constant:
        raise TableError(f"The target {name!r} is the same in every row: there is nothing to learn.")
    if not column.is_number:
        if family not in ("auto", CLASS) and column.first_text:
            row, text = column.first_text
            raise TableError(
                f"Family {family!r} needs numbers; the target {name!r} holds text (row {row:,}: {shown(text)}). "
                f"If this means that it is missing: --na {quoted(text)}."
            )
        _check_classes(name, len(column.counts), column)
        if family == "auto":
            _check_few_classes(column)
    elif _LARGEST < max(-column.low, column.high) < math.inf:
        raise TableError(
            f"The target {name!r} holds numbers up to {max(-column.low, column.high):g}; expected at most "
            f"{_LARGEST:g}. Divide the column by a large number."
        )
    return column


def find_kind(values: Array, family: str = "auto") -> Kind:
    """The family for a target of numbers.

    In this order: two different values are classes; whole numbers from 0 to 1000, some below 10, that vary about as
    much as a Poisson count or more (variance ≥ ¾ mean) are counts; values between 0 and 1 are proportions; positive
    values with a long tail to the right (skewness > 1) are amounts; all else is a real number.

    Args:
        values: The target, without missing rows.
        family: "auto", or what the user asked for.
    """
    if family != "auto":
        return Kind(family, "as asked")
    low, high = float(values.min()), float(values.max())
    whole = bool((values == np.rint(values)).all())
    if np.isin(values, (low, high)).all():
        return Kind(CLASS, "it has two different values")
    if is_count(values) and values.var() >= _LEAST_DISPERSION * values.mean():
        return Kind("negative_binomial", "whole numbers from 0 up that vary like counts")
    if low > 0 and high < 1:
        return Kind("beta", "all values lie between 0 and 1")
    if low > 0 and stats.skew(values) > _SKEWED:
        return Kind("gamma", "all values are positive, with a long tail of large ones")
    if whole:
        return Kind("gaussian", "whole numbers that do not vary like counts")
    return Kind("gaussian", "it does not look like classes, counts, proportions or skewed amounts")


def find_exposed_kind(values: Array, family: str = "auto") -> Kind:
    """The same for a target that is in proportion to an exposure: a count or a positive amount."""
    if family != "auto":
        return Kind(family, "as asked")
    if (values == np.rint(values)).all() and values.min() >= 0:
        return Kind("negative_binomial", "whole numbers from 0, with an exposure")
    return Kind("gamma", "an amount, with an exposure")


def make_target(column: SurveyedColumn, values: Array, family: str, exposure: str = "") -> tuple[Target, Array, Kind]:
    """The target, its values as a network needs them, and why it is seen so.

    Args:
        column: From `find_column`.
        values: Of the rows to learn from: numbers, or codes of the sorted texts.
        family: "auto", or what the user asked for.
        exposure: Name of the column to which it is in proportion, if there is one.
    """
    find = find_exposed_kind if exposure else find_kind
    kind = find(values, family) if column.is_number else Kind(CLASS, "it holds text")
    if exposure and not (kind.family in BY_NAME and BY_NAME[kind.family].log_link):
        names = ", ".join(name for name, one in BY_NAME.items() if one.log_link)
        raise TableError(
            f"An exposure goes with counts and positive amounts (--family {names}); the target {column.name!r} is "
            f"taken as {kind.family}. Leave --exposure out, or choose another --family."
        )
    notation = column.notation or USUAL_NOTATION
    if kind.family != CLASS:
        _check_support(column.name, values, kind.family)
        if not values.std() > _LEAST_STD:
            raise TableError(
                f"The target {column.name!r} varies by less than {_LEAST_STD:g}. Multiply the column by a large number."
            )
        return Target(column.name, kind.family, notation=notation, exposure=exposure), values, kind
    different, codes = np.unique(values, return_inverse=True)  # a sample may lack a rare class
    _check_classes(column.name, len(different), column)
    if 2 * len(different) > len(values):
        raise TableError(
            f"The target {column.name!r} has {len(different)} different values in {len(values)} rows. "
            "Classes need several rows each."
        )
    texts = sorted(column.counts)
    labels = _labels(different) if column.is_number else [texts[int(code)] for code in different]
    target = Target(column.name, CLASS, tuple(map(str, labels)), column.is_number, notation=notation)
    return target, codes.astype(np.float64), kind


def marginal(target: Target, values: Array, exposures: Array | None = None) -> tuple[float, ...]:
    """The share of each class, or the mean and variance for one unit of exposure.

    With the rate r = Σ y/Σ e, rows vary by (y - r e)² around r e; a count for the exposure e varies as r e + α (r e)².
    """
    if target.is_class:
        return tuple((np.bincount(values.astype(np.int64), minlength=len(target.classes)) / len(values)).tolist())
    if exposures is None:
        return float(values.mean()), float(values.var())
    rate, of_counts = float(values.mean() / exposures.mean()), float(target.is_count)
    expected = rate * exposures
    excess = float(((values - expected) ** 2 - of_counts * expected).sum() / (exposures**2).sum())
    return rate, of_counts * rate + max(excess, 0.0)


def marginal_moments(target: Target, rows: int, exposures: Array | None = None) -> tuple[Array, Array]:  # (rows,)
    """Mean and variance of a number in each row, by the `marginal` for one unit of exposure."""
    rate, variance = target.marginal
    if exposures is None:
        return np.full(rows, rate), np.full(rows, variance)
    of_counts = rate if target.is_count else 0.0
    return rate * exposures, of_counts * exposures + (variance - of_counts) * exposures**2


def describe_target(target: Target, kind: Kind) -> str:
    """What the target was taken for, and how to say otherwise."""
    if target.is_class:
        what = f"{len(target.classes)} classes"
    else:
        what = f"{target.likelihood.words} ({target.family.replace('_', ' ')})"
    what += f", in proportion to {target.exposure}" if target.exposure else ""
    if kind.because == "as asked":
        return f"{target.name} is taken as {what}, as asked."
    other = "--family gaussian" if target.is_class and target.of_numbers else "--family class"
    way = f" If its numbers are {'measurements' if target.is_class else 'class labels'}: {other}."
    return f"{target.name} is taken as {what}: {kind.because}.{way if _is_ambiguous(target, kind) else ''}"


def _is_ambiguous(target: Target, kind: Kind) -> bool:
    return target.of_numbers and (target.is_class or "whole" in kind.because)


def _check_classes(name: str, different: int, column: SurveyedColumn) -> None:
    if different > _MOST_CLASSES or not (column.is_number or column.has_all_counts):
        raise TableError(
            f"The target {name!r} has {different:,} different values, too many for classes (at most {_MOST_CLASSES:,})."
        )


def _check_few_classes(column: SurveyedColumn) -> None:
    """Many different texts are rarely classes."""
    different = len(column.counts)
    share = different / column.filled
    if different <= _MANY_CLASSES and (different <= _FEW_CLASSES or share <= _DIFFERENT_SHARE):
        return
    what = f"The target {column.name!r} holds {different:,} different texts in {column.filled:,} rows"
    if column.is_mostly_numbers and column.first_text:
        row, text = column.first_text
        raise TableError(
            f"{what}: mostly numbers, but row {row:,} holds {shown(text)}. Correct such cells, or, if they mean that "
            f"the target is missing: --na {quoted(text)}. If all are classes: --family class."
        )
    if orders(column.counts):
        raise TableError(
            f"{what}, which are dates, such as {shown(min(column.counts))}. Expected numbers or classes: write how "
            "much time has passed since a first one, in days or hours. If they are classes: --family class."
        )
    advice = "--family gaussian" if column.code else "write them in one way (see --decimal)"
    raise TableError(
        f"{what}, such as {shown(column.code or min(column.counts))}: that is too many for classes. If they are "
        f"classes: --family class. If they are numbers: {advice}."
    )


def _check_support(name: str, values: Array, family: str) -> None:
    support = BY_NAME[family].support
    wrong = ~in_support(torch.from_numpy(values), support).numpy()
    if wrong.any():
        example = values[wrong][0]
        raise TableError(
            f"Family {family!r} needs {words_of_support(support).numbers}; the target {name!r} holds {example:g}, "
            f"and {int(wrong.sum()):,} such values in all. Choose another --family."
        )


def _labels(values: Array) -> list[str | None]:
    """Numbers as people write them: 1, not 1.0."""
    different, place = np.unique(values, return_inverse=True)
    names = [None if math.isnan(x) else str(int(x)) if x.is_integer() else repr(x) for x in different.tolist()]
    return [names[i] for i in place]


def _texts(found: pa.Array) -> list[Any]:
    return list(found.cast(pa.string()).to_pylist())
