"""MC dropout tuned as Gal and Ghahramani tune it: rate and noise by the log-likelihood of rows held out."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from npn_studies.baselines.dropout import DropoutNetwork, MCDropout
from npn_studies.baselines.interface import Settings
from npn_studies.baselines.tasks import Regression


@dataclasses.dataclass(frozen=True)
class DropoutGrid:
    """Pairs of a dropout rate and a noise, to choose from; all pairs of all replicas are trained in one fit.

    Attributes:
        settings: The network and its training.
        rates: Of dropping, inputs included.
        noise_stds: τ^-½, in the units of y.
        length_scale: l in `prior_precision` = (1 - rate) l².
        held_out: Share of the rows by which a pair is chosen.
        samples: Passes in prediction.
    """

    settings: Settings
    rates: Sequence[float] = (0.005, 0.01, 0.05, 0.1)
    noise_stds: Sequence[float] = (0.5, 0.3, 0.2)
    length_scale: float = 1e-2
    held_out: float = 0.2
    samples: int = 100

    def chosen(self, x: Tensor, y: Tensor) -> MCDropout:  # (replicas, rows, inputs), (replicas, rows, 1)
        """The pair of each replica that is best on its held-out rows; fit it to all rows next.

        Raises:
            ValueError: If x has no replicas, or not two rows for each.
        """
        if x.dim() != 3 or x.shape[1] < 2:
            raise ValueError(
                f"DropoutGrid expects x (replicas, rows, inputs), at least two rows, got shape {tuple(x.shape)}. "
                "Pass x[None] and y[None] for one data set."
            )
        replicas, rows = x.shape[:2]
        pairs = list(itertools.product(self.rates, self.noise_stds))
        generator = torch.Generator().manual_seed(self.settings.seed)
        order = torch.rand(replicas, rows, generator=generator).argsort(1).to(x.device)
        held_out = max(1, round(self.held_out * rows))
        taken = [
            each[torch.arange(replicas, device=x.device)[:, None], order].repeat(len(pairs), 1, 1) for each in (x, y)
        ]
        (x_out, x_in), (y_out, y_in) = (t.split([held_out, rows - held_out], 1) for t in taken)
        fitted = self.baseline([pair for pair in pairs for _ in range(replicas)]).fit(x_in, y_in)
        predicted = fitted.predict(x_out)
        scores = predicted.log_prob(y_out.to(self.settings.device)).mean(-1).view(len(pairs), replicas)
        return self.baseline([pairs[best] for best in scores.argmax(0).tolist()])

    def baseline(self, pairs: Sequence[tuple[float, float]]) -> MCDropout:
        """MC dropout with one (rate, noise_std) for each replica."""
        rates, noise_stds = zip(*pairs, strict=True)
        precision = tuple((1 - rate) * self.length_scale**2 for rate in rates)
        network = DropoutNetwork(Regression(noise_stds), self.settings, rates, rates, precision)
        return MCDropout(network, self.samples)
