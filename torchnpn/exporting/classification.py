"""From the latent output of a classifier to what a graph gives of its classes."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from torchnpn.estimators import NPNClassifier
from torchnpn.exporting.regression import shares_of, with_members
from torchnpn.likelihoods import OrderedClasses, mixture_parts
from torchnpn.moments import Moments
from torchnpn.nn import replicas_of


class Classification(nn.Module):
    """Probabilities (rows, classes), their entropy (rows,), and the parts of the variance p (1 - p) if asked for.

    Args:
        model: A fitted classifier.
        variance_parts: Whether to give these: of many classes they take some hundred times the operations of the rest.
    """

    def __init__(self, model: NPNClassifier, variance_parts: bool) -> None:
        super().__init__()
        self.likelihood = copy.deepcopy(model.likelihood_).double().eval()
        if variance_parts and isinstance(self.likelihood, OrderedClasses):
            raise ValueError(
                "variance_parts are not exported for ordered classes: they take Owen's T function, which no graph has. "
                "Leave variance_parts out; probabilities are exported, and so is their entropy."
            )
        self.replicated, self.variance_parts = bool(replicas_of(model.network_)), variance_parts
        self.shares = shares_of(model)
        self.parts = 0 if model.calibration_ is None else len(model.calibration_.by_part)
        self.temperature = 1.0 if model.calibration_ is None else float(model.temperature_)

    @property
    def names(self) -> tuple[str, ...]:
        parts = ("variance", "epistemic", "aleatoric") if self.variance_parts else ()
        return ("probabilities", "uncertainty", *parts)

    def forward(self, o: Moments) -> tuple[Tensor, ...]:
        o = with_members(o, self.replicated)
        each = self.likelihood.predict(o).mean  # (members, rows, classes)
        probs = self._mixed(each)
        entropy = -torch.xlogy(probs, probs).sum(-1) / math.log(probs.shape[-1])
        if not self.variance_parts:
            return probs, entropy
        return probs, entropy, *mixture_parts(self.likelihood.variance_parts(o), each, self.shares)

    def _mixed(self, each: Tensor) -> Tensor:
        """What all networks together say; of a calibrated model, those of each fold by themselves, then their mean."""
        if not self.parts:
            return _weighted(each, self.shares)
        by_fold = self.parts if len(self.shares) > 1 else 1
        softened = []
        for k in range(by_fold):
            own = self.shares[k::by_fold]
            probs = _weighted(each[k::by_fold], own / own.sum())
            softened.append(torch.softmax(torch.log(probs.clamp_min(1e-300)) / self.temperature, -1))
        return torch.stack(softened).mean(0)


def _weighted(each: Tensor, shares: Tensor) -> Tensor:  # (members, rows, classes), (members,) -> (rows, classes)
    return (each * shares.reshape(-1, 1, 1)).sum(0)
