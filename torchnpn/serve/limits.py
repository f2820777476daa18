"""How much one request may ask for, and how one that cannot be answered is refused."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """Bounds that keep memory and waiting times small, whatever is sent."""

    body: int = 8 << 20  # bytes of one body
    bodies: int = 64 << 20  # bytes of all bodies that are worked on
    rows: int = 20_000  # of one request
    columns: int = 2_000  # of one row, those that the model does not read included
    waiting: int = 50_000  # rows of all requests that wait
    seconds: float = 30.0  # for the body to arrive, and again for the answer
    connections: int = 1_000  # at a time


class Refused(Exception):  # it is an answer, not a failure
    """A request that gets a status from 400 on, and one sentence that says why."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence
