"""Labels of classes: which there are, and where given ones stand among them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


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
