"""What a model was fitted on, and how it did: a few plain values that travel in its file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

NLL = "NLL (nats)"
_LESS_IS_BETTER = {"RMSE", NLL, "CRPS", "error rate", "Brier score"}


def people_read(number: float) -> str:
    """A number with about four digits, and without a power of ten where it can be avoided: 1987 and 10,460."""
    size = abs(number)
    return f"{number:,.0f}" if 9_999.5 <= size < 1e15 else f"{number:.4g}"


class Figure(NamedTuple):
    """One measure of a model, beside what the target's own distribution reaches without any column."""

    name: str
    model: float
    marginal: float
    is_share: bool = False  # shown in percent

    def shown(self) -> tuple[str, str, str]:
        """Name and both values as people read them."""
        form = "{:.1%}".format if self.is_share else people_read
        return self.name, form(self.model), form(self.marginal)

    @property
    def less_is_better(self) -> bool:
        return self.name in _LESS_IS_BETTER

    @property
    def wins(self) -> bool | None:
        """Whether the model does better than the baseline; None where less is not better, or both are equal."""
        if not self.less_is_better or self.model == self.marginal:
            return None
        return self.model < self.marginal


def nll_of(figures: Sequence[Figure]) -> Figure:
    """The figure that models are compared by."""
    return next(figure for figure in figures if figure.name == NLL)


def is_worse(figures: Sequence[Figure]) -> bool:
    """Whether the baseline gives the true values a higher likelihood."""
    return any(figure.name == NLL and not figure.model < figure.marginal for figure in figures)


class Record(NamedTuple):
    """Where a model comes from."""

    file: str  # name of the data file, without its folder
    rows: int  # it was fitted on
    held_out: int  # rows that the figures are about
    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()  # what a reader of the figures should know

    @property
    def is_worse(self) -> bool:
        return is_worse(self.figures)

    def state(self) -> dict[str, Any]:
        """Plain values, for a model file."""
        figures = [[one.name, repr(one.model), repr(one.marginal), one.is_share] for one in self.figures]
        plain = {"file": self.file, "rows": self.rows, "held_out": self.held_out, "figures": figures}
        return {**plain, "notes": list(self.notes)} if self.notes else plain

    @classmethod
    def from_state(cls, state: object) -> Record:
        """The inverse of `state`; a ValueError where it is something else."""
        match state:
            case {"file": str(file), "rows": int(rows), "held_out": int(held_out), "figures": list(figures), **rest}:
                return cls(file, rows, held_out, tuple(map(_figure, figures)), _notes(rest))
        raise ValueError("A record should have a file, rows, held_out rows and figures.")


def _notes(rest: object) -> tuple[str, ...]:
    match rest:
        case {"notes": list(notes), **more} if not more and all(isinstance(note, str) for note in notes):
            return tuple(notes)
        case {} if not rest:
            return ()
    raise ValueError("A record should have nothing else but notes.")


def _figure(state: object) -> Figure:
    """Numbers are text there: JSON has no infinity, and the NLL of a rash model may be infinite."""
    match state:
        case [str(name), str(model), str(marginal), bool(is_share)]:
            return Figure(name, float(model), float(marginal), is_share)
    raise ValueError("A figure should be a name, two numbers as text, and whether they are shares.")
