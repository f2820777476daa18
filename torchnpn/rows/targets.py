"""Targets as networks learn them: labels as numbers, and numbers that floating point can hold, others refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from torch.distributions import constraints

from torchnpn.likelihoods import Likelihood, Units
from torchnpn.settings import short

Array = NDArray[Any]
_LARGEST, _SMALLEST = 1e130, 1e-130  # of targets and their spread: variances are float64 numbers yet
_LARGEST_COUNT = 1e12  # means of counts are taken as they are up to 1e13
_LARGEST_STANDARDISED = 1e15  # whose square is a float32 number yet
_LEAST_POSITIVE = 1e-30  # of a proportion, or of an amount over the mean one; its logarithm counts
_BELOW_ONE = np.nextafter(np.float32(1), np.float32(0))


def check_size(likelihood: Likelihood, family: str, y: Array) -> None:
    """Raise for targets (rows, targets) that are in the likelihood's support, but too large."""
    is_count = likelihood.support.is_discrete
    limit = _LARGEST_COUNT if is_count else _LARGEST
    largest = np.abs(y).max(axis=0)
    if not (largest <= limit).all():
        column = int(largest.argmax())
        advice = 'Take family="gamma".' if is_count else "Divide y by a power of ten."
        raise ValueError(
            f'family="{family}" expects targets up to {limit:g} in size, got {largest[column]:.4g} in column {column} '
            f"of y (from 0). {advice}"
        )


def check_units(units: Units) -> None:
    """Raise for a spread whose square floating point cannot hold."""
    column = int(units.scale.argmin())
    if units.scale[column] < _SMALLEST:
        raise ValueError(
            f"y expects targets that vary by {_SMALLEST:g} or more, or not at all, got a spread of "
            f"{units.scale[column]:.4g} in column {column} (from 0). Multiply y by a power of ten."
        )


def in_network_units(likelihood: Likelihood, y: Array, units: Units) -> Array:
    """t of y = shift + scale · t in float32; proportions are rounded to float32 numbers below 1."""
    with np.errstate(over="ignore"):
        t = (y - units.shift) / units.scale
    is_share = likelihood.support is constraints.unit_interval
    is_positive = is_share or likelihood.support is constraints.positive
    wrong = ~(np.abs(t) <= _LARGEST_STANDARDISED)
    has_zeros = likelihood.support is constraints.nonnegative
    if is_positive or has_zeros:
        wrong |= (t < _LEAST_POSITIVE) & ((t != 0) | is_positive)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        low = f"from {_LEAST_POSITIVE:g} " if is_positive else f"of 0 or from {_LEAST_POSITIVE:g} " if has_zeros else ""
        unit = " times their spread" if units.shift.any() else " times their mean" if (units.scale != 1).any() else ""
        high = 1.0 if is_share else _LARGEST_STANDARDISED
        raise ValueError(
            f"y expects targets {low}up to {high:g}{unit} in the first training rows, got {y[row, column]:.4g} in row "
            f"{row}, column {column} (both from 0). Look for a wrong unit or a code for missing values."
        )
    rounded: Array = t.astype(np.float32)
    return np.minimum(rounded, _BELOW_ONE) if is_share else rounded


def distinct_labels(labels: Any, name: str = "y") -> Array:
    """Labels in order, each once.

    Raises:
        ValueError: If they cannot be sorted together.
    """
    array = np.asarray(labels)
    try:
        return np.unique(array)
    except TypeError:
        raise ValueError(
            f"{name} expects labels that can be sorted together, such as only text or only whole numbers, got "
            f"{_types(array)}. Make them one type, for instance with y.astype(str), and leave out rows without a label."
        ) from None


def check_labels(y: Array) -> None:
    """Raise for targets that scikit-learn does not take for labels, such as numbers with fractions."""
    try:
        check_classification_targets(y)
    except ValueError as error:
        found = str(error).partition(". Maybe")[0]  # what follows takes dates for continuous values
        raise ValueError(
            f"{found}, got {_types(y)} such as {short(y.reshape(-1)[0])}. Take NPNRegressor for numbers; make labels "
            "text or whole numbers, for instance with y.astype(str)."
        ) from None


def places_among(classes: Array, labels: Array) -> tuple[Array, Array]:
    """For each label its place in the sorted `classes`, and whether it is there at all.

    Raises:
        ValueError: If the labels cannot be compared with the classes.
    """
    try:
        place = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    except TypeError:
        raise ValueError(
            f"y expects labels of the type of the classes, which are {_types(classes)}, got {_types(labels)}."
        ) from None
    return place, classes[place] == labels


def _types(values: Array) -> str:
    """The types of labels, in words."""
    return " and ".join(sorted({type(value).__name__ for value in values.reshape(-1).tolist()})[:5])
