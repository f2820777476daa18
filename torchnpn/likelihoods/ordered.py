"""Classes that have an order: a latent quality, and thresholds between one class and the next."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import numpy as np
import torch
from scipy import special
from torch import Tensor, nn

from torchnpn.families import Categorical, normal_log_mass
from torchnpn.kernels import cpu
from torchnpn.likelihoods import targets
from torchnpn.likelihoods.base import Likelihood, VarianceParts, wide_latent
from torchnpn.likelihoods.guards import narrowed, soft_clamp, widened
from torchnpn.moments import Moments

_LOG_GAP = 10.0  # between thresholds: they are taken as they are from 5e-5 to 2e4 apart


class OrderedClasses(Likelihood):
    """The class is k where o + e, with e ~ N(0, 1), lies between the thresholds t_k-1 and t_k: cumulative probit.

    One output for K classes, labels y of shape (batch,) from 0 to K - 1. It is exact for an uncertain latent: with
    o ~ N(m, s),  P(y ≤ k) = Φ((t_k - m)/√(1 + s)).  The loss is -log P(y). Learnt are the first threshold and the
    logarithms of the gaps between one and the next. Few rows suffice for many classes, and a miss by one class costs
    less than a miss by two.

    Args:
        classes: Number of classes K ≥ 2.
        replicas: Leading dimensions of the network's replicas.
    """

    arguments: ClassVar = {"classes": int, "replicas": tuple}

    def __init__(self, classes: int, *, replicas: tuple[int, ...] = ()) -> None:
        super().__init__()
        if classes < 2:
            raise ValueError(f"OrderedClasses expects at least 2 classes, got {classes}.")
        self.classes = classes
        even = special.ndtri(np.arange(1, classes) / classes)  # all classes alike at the start
        free = torch.tensor(np.concatenate([even[:1], np.log(np.diff(even))]), dtype=torch.get_default_dtype())
        self.first_and_log_gaps = nn.Parameter(free.expand(*replicas, classes - 1).clone())

    @property
    def thresholds(self) -> Tensor:  # (*replicas, K - 1)
        """t, rising."""
        free = widened(self.first_and_log_gaps)
        return torch.cat([free[..., :1], torch.exp(soft_clamp(free[..., 1:], _LOG_GAP))], -1).cumsum(-1)

    def outputs(self, targets: int) -> int:
        return 1

    def check_targets(self, y: Tensor) -> None:
        targets.check_labels(type(self).__name__, y, self.classes)

    def predict(self, o: Moments) -> Categorical:
        logs = self._log_probs(o)
        return Categorical(torch.softmax(logs, -1))

    def variance_parts(self, o: Moments) -> VarianceParts:
        """Total p (1 - p) of each class, of which Var P(class | o) is epistemic: E Φ(u - o) Φ(v - o) by Owen's T."""
        m, s = (part.detach().cpu().numpy() for part in wide_latent(o))
        z = (self.thresholds.detach().cpu().numpy()[..., None, :] - m) / np.sqrt(1 + s)  # (*replicas, batch, K - 1)
        below = special.ndtr(z)
        own = below * special.ndtr(-z) - 2 * special.owens_t(z, 1 / np.sqrt(1 + 2 * s))
        with_next = _both_below(z[..., :-1], z[..., 1:], s) - below[..., :-1] * below[..., 1:]
        none = np.zeros((*own.shape[:-1], 1))
        of_class = np.concatenate([none, own], -1) + np.concatenate([own, none], -1)
        of_class[..., 1:-1] -= 2 * with_next
        total = self.predict(o).variance
        epistemic = torch.as_tensor(of_class).to(total).clamp_min(0.0)
        epistemic = torch.minimum(epistemic, total)
        return VarianceParts(total, epistemic, total - epistemic)

    def closed_form(self) -> cpu.ClosedForm:
        return partial(cpu.losses.ordered_classes, limit=_LOG_GAP)

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        logs = self._log_probs(o)
        index = y.long().expand(logs.shape[:-1]).unsqueeze(-1)
        return narrowed(-logs.gather(-1, index).squeeze(-1), torch.promote_types(o.mean.dtype, torch.float32))

    def _log_probs(self, o: Moments) -> Tensor:  # (*replicas, batch, K)
        """log (Φ(b) - Φ(a)) of each class between a and b."""
        m, s = wide_latent(o)
        z = (self.thresholds.unsqueeze(-2) - m) * torch.rsqrt(1 + s)
        end = torch.full_like(z[..., :1], torch.inf)
        return normal_log_mass(torch.cat([-end, z], -1), torch.cat([z, end], -1))

    def _check_shapes(self, o: Moments, y: Tensor) -> None:
        shape = o.mean.shape
        if len(shape) < 2 or shape[-1] != 1 or y.ndim < 1 or y.shape[-1] != shape[-2]:
            raise ValueError(
                "OrderedClasses expects outputs of shape (*replicas, batch, 1) and labels of shape (batch,), got "
                f"o.mean of shape {tuple(shape)} and y of shape {tuple(y.shape)}."
            )


def _both_below(h: np.ndarray, k: np.ndarray, s: np.ndarray) -> np.ndarray:
    """P(u ≤ h, v ≤ k) of standard normal u, v with correlation ρ = s/(1 + s), for h < k.

    ½ (Φ(h) + Φ(k) - 1{h < 0 ≤ k}) - T(h, (k - ρ h)/(h √(1 - ρ²))) - T(k, (h - ρ k)/(k √(1 - ρ²))).
    """
    tiny = np.finfo(np.float64).tiny
    h, k = (np.where(np.abs(x) < tiny, tiny, x) for x in (h, k))
    across, root = 1 + s, np.sqrt(1 + 2 * s)  # of ρ = s/(1+s): √(1 - ρ²) = root/across
    with np.errstate(over="ignore"):  # T(h, ∞) is known
        first = special.owens_t(h, ((k - h) * across / h + 1) / root)
        second = special.owens_t(k, ((h - k) * across / k + 1) / root)
    return np.asarray(0.5 * (special.ndtr(h) + special.ndtr(k) - ((h < 0) & (k > 0))) - first - second)
