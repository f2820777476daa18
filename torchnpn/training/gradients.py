"""The gradient of a minibatch's loss and of the KL, left in the parameters' `.grad`; by autograd, for any network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from torchnpn.likelihoods import Likelihood
from torchnpn.moments import Moments
from torchnpn.priors import Prior, add_kl_gradient_, kl
from torchnpn.training.data import Batch
from torchnpn.training.wide import weighted_loss


class BatchLoss(NamedTuple):
    """Loss of a minibatch."""

    weight: Tensor | float  # of all its rows
    loss: Tensor | float  # weighted mean over rows and replicas


class Gradients(Protocol):
    """Fills the gradient of `mean loss of the batch + kl_weight · KL` into the parameters."""

    def __call__(self, batch: Batch, kl_weight: Any, /) -> BatchLoss: ...

    def divergence(self) -> float:
        """The KL as it is now, the mean over replicas."""
        ...


class Autograd:
    """By torch's tape.

    Args:
        model: The network, whose random parameters the prior is on.
        forward: The network as it is called: itself, or a compiled twin.
        likelihood: Of the targets.
        prior: On the weights, or None.
        adversary: Moves the rows of a batch before they are learnt from, or None.
    """

    def __init__(
        self,
        model: nn.Module,
        forward: Callable[..., Moments],
        likelihood: Likelihood,
        prior: Prior | None,
        adversary: Callable[[Batch], Batch] | None = None,
    ) -> None:
        self.model, self.forward, self.likelihood, self.prior = model, forward, likelihood, prior
        self.adversary = adversary
        self.parameters = [p for module in (model, likelihood) for p in module.parameters() if p.requires_grad]

    def __call__(self, batch: Batch, kl_weight: Any) -> BatchLoss:
        for parameter in self.parameters:
            parameter.grad = None
        weight = torch.ones(batch.rows, device=self.parameters[0].device) if batch.weight is None else batch.weight
        total = weight.sum()
        share = weight / total.clamp_min(1e-12)
        batch = batch if self.adversary is None else self.adversary(batch)
        loss, rows = weighted_loss(self.forward, self.likelihood, batch, share)
        loss.backward()
        if self.prior is not None:
            add_kl_gradient_(self.model, self.prior, kl_weight)
        return BatchLoss(total, (rows * share).sum(-1).mean())

    @torch.no_grad()
    def divergence(self) -> float:
        return 0.0 if self.prior is None else float(kl(self.model, self.prior).mean())
