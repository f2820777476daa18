"""Learning that either succeeds or changes nothing."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
E = TypeVar("E")


def all_or_nothing(fit: Callable[Concatenate[E, P], Any]) -> Callable[Concatenate[E, P], E]:
    """A method that learns on a copy of its estimator, which takes the estimator's place once it is done.

    Whatever ends it early, an error or Ctrl-C, leaves the estimator as it was: unfitted, or with its old model. A
    shallow copy is enough for methods that assign what they learn and do not change the values of old attributes.

    Gradients are recorded, whatever torch's mode is outside, and that mode is put back: Ctrl-C at the first instant of
    a `with torch.no_grad()` would leave them switched off.
    """

    @functools.wraps(fit)
    def learn(self: E, *args: P.args, **options: P.kwargs) -> E:
        learner = copy.copy(self)
        with torch.inference_mode(False), torch.enable_grad():
            fit(learner, *args, **options)
        self.__dict__ = learner.__dict__  # one assignment: nothing can come between
        return self

    return learn  # type: ignore[return-value]  # the first argument has the name self
