"""Which kind of column each column of a table is."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from torchnpn._text import shown
from torchnpn.columns.category import Category, counted
from torchnpn.columns.cells import Cells, Texts, Times, as_texts
from torchnpn.columns.date import Date
from torchnpn.columns.dates import orders
from torchnpn.columns.encoder import Column, Columns
from torchnpn.columns.frames import Frame
from torchnpn.columns.number import Number

_FEW_TEXTS = 20  # beyond, texts that all are numbers are rarely meant as categories


def learn(frame: Frame, categories: Collection[int] = ()) -> Columns | None:
    """The kinds of the columns of a table: text that is not dates, and what is of a type for categories, is a category.

    Args:
        frame: The training rows.
        categories: Places of columns that hold categories, too, whatever their type.

    Returns:
        None where all are of types of numbers.

    Raises:
        ValueError: A column holds something else, or text from which nothing can be learnt.
    """
    if frame.is_plain and not categories:
        return None
    return Columns(
        tuple(
            _column(name, frame.cells(place), place in categories or frame.is_category(place))
            for place, name in enumerate(frame.names)
        )
    )


def _column(name: str, cells: Cells, is_category: bool) -> Column:
    if is_category:
        return Category.learn(name, counted(as_texts(cells)))
    if isinstance(cells, Times):
        return Date.learn(name, cells)
    if not isinstance(cells, Texts):
        return Number(name)
    counts = counted(cells)
    different = [text for text, count in counts.items() if count]
    match orders(different):
        case [order]:
            return Date.learn(name, cells, order)
        case [_, *_]:
            raise ValueError(
                f"Column {name!r} holds dates that can be read with the day or with the month first, such as "
                f"{shown(different[0])}. Make them dates: pandas.to_datetime(X[{name!r}], dayfirst=True), or False."
            )
    _check_texts(name, different, sum(counts.values()))
    return Category.learn(name, counts)


def _check_texts(name: str, different: list[str], rows: int) -> None:
    """Raise for texts that are no categories."""
    if len(different) > _FEW_TEXTS and all(map(_is_number, different)):
        raise ValueError(
            f"Column {name!r} holds numbers as text, such as {shown(different[0])}, {len(different):,} different ones. "
            f"Make them numbers: X[{name!r}].astype(float). If they are codes: categorical_features=[{name!r}, …]."
        )
    if len(different) > max(10, rows / 2):
        raise ValueError(
            f"Column {name!r} holds a different text in nearly every row, such as {shown(different[0])}: nothing can "
            f"be learnt from it for other rows. Leave it out: X.drop(columns={name!r})."
        )


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False
