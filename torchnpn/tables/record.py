"""What a model was fitted on, and how it did: a few plain values that travel in its file."""

from __future__ import annotations

from typing import Any, NamedTuple


class Figure(NamedTuple):
    """One measure of a model, beside what the target's own distribution reaches without any column."""

    name: str
    model: float
    marginal: float
    is_share: bool = False  # shown in percent

    def shown(self) -> tuple[str, str, str]:
        """Name and both values as people read them."""
        form = ".1%" if self.is_share else ".4g"
        return self.name, format(self.model, form), format(self.marginal, form)


class Record(NamedTuple):
    """Where a model comes from."""

    file: str  # name of the data file, without its folder
    rows: int  # it was fitted on
    held_out: int  # rows that the figures are about
    figures: tuple[Figure, ...]

    def state(self) -> dict[str, Any]:
        """Plain values, for a model file."""
        figures = [[one.name, repr(one.model), repr(one.marginal), one.is_share] for one in self.figures]
        return {**self._asdict(), "figures": figures}

    @classmethod
    def from_state(cls, state: object) -> Record:
        """The inverse of `state`; a ValueError where it is something else."""
        match state:
            case {"file": str(file), "rows": int(rows), "held_out": int(held_out), "figures": list(figures), **rest}:
                if not rest:
                    return cls(file, rows, held_out, tuple(map(_figure, figures)))
        raise ValueError("A record should have a file, rows, held_out rows and figures.")


def _figure(state: object) -> Figure:
    """Numbers are text there: JSON has no infinity, and the NLL of a rash model may be infinite."""
    match state:
        case [str(name), str(model), str(marginal), bool(is_share)]:
            return Figure(name, float(model), float(marginal), is_share)
    raise ValueError("A figure should be a name, two numbers as text, and whether they are shares.")
