"""A deep ensemble whose training is chosen for each split by rows held out."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from npn_studies.baselines import DeepEnsemble, HeteroscedasticRegression, Settings
from npn_studies.baselines.predicted import PredictedReal


class EnsembleGrid(NamedTuple):
    """Lengths of training and learning rates, to choose from.

    Attributes:
        plans: Settings that differ in their epochs.
        rates: Learning rates; all of them are trained in one fit.
        members: Networks of an ensemble.
        held_out: Share of the rows by which a pair is chosen.
    """

    plans: Sequence[Settings]
    rates: Sequence[float]
    members: int
    held_out: float = 0.2

    def tuned(self, x: Tensor, y: Tensor, x_test: Tensor) -> tuple[PredictedReal, list[tuple[int, float]]]:
        """The prediction of each replica's best pair, fitted to all rows; and the pairs (number of plan, rate)."""
        pairs = list(itertools.product(range(len(self.plans)), self.rates))
        scores = self._scores(x, y)
        chosen = [pairs[best] for best in scores.argmax(0).tolist()]
        rates = tuple(rate for _, rate in chosen)
        parts: list[list[Tensor]] = [[], []]
        fitted = {
            plan: self._ensemble(self.plans[plan], rates).fit(x, y).predict(x_test)
            for plan in sorted({plan for plan, _ in chosen})
        }
        for replica, (plan, _) in enumerate(chosen):
            for found, part in zip(parts, fitted[plan], strict=True):
                found.append(part[:, replica])
        return PredictedReal(*(torch.stack(part, 1) for part in parts)), chosen

    def _scores(self, x: Tensor, y: Tensor) -> Tensor:  # (pairs, replicas)
        """Mean log-likelihood of rows held out."""
        replicas, rows = x.shape[:2]
        order = torch.rand(replicas, rows, generator=torch.Generator().manual_seed(0)).argsort(1)
        taken = [each[torch.arange(replicas)[:, None], order].repeat(len(self.rates), 1, 1) for each in (x, y)]
        held_out = max(1, round(self.held_out * rows))
        (x_out, x_in), (y_out, y_in) = (part.split([held_out, rows - held_out], 1) for part in taken)
        rates = tuple(rate for rate in self.rates for _ in range(replicas))
        found = []
        for plan in self.plans:
            predicted = self._ensemble(plan, rates).fit(x_in, y_in).predict(x_out)
            score = predicted.log_prob(y_out.to(plan.device)).mean(-1)
            found.append(score.nan_to_num(nan=-torch.inf).view(len(self.rates), replicas))  # NaN: it has diverged
        return torch.cat(found)

    def _ensemble(self, plan: Settings, rates: tuple[float, ...]) -> DeepEnsemble:
        return DeepEnsemble(HeteroscedasticRegression(), dataclasses.replace(plan, learning_rate=rates), self.members)
