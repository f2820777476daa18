"""What is to be predicted: each task gives a head that reads a network's outputs as a distribution of y."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchnpn.baselines.predicted import Predicted, PredictedClasses, PredictedReal, gaussian_log_prob

_LEAST_VARIANCE = 1e-6  # of the noise that a network predicts, as in Lakshminarayanan et al. (2017)


class Head(Protocol):
    """Reads the outputs of a network.

    Attributes:
        outputs: How many a network must have.
    """

    outputs: int

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:  # (..., rows, outputs), targets -> (..., rows)
        """log p(y | outputs) of each row."""

    def cross_entropy(self, outputs: Tensor, truth: Any) -> Tensor:  # (rows, outputs) -> (rows,)
        """-E log p(y | outputs) under `truth`, what another head of the task `predicted`."""

    def predicted(self, outputs: Tensor) -> Predicted:  # (members, rows, outputs)
        """The mixture over members."""


class Task(Protocol):
    """A kind of target."""

    def checked(self, y: Tensor) -> Tensor:
        """`y`, if these are targets of the task.

        Raises:
            ValueError: If they are not.
        """

    def head(self) -> Head:
        """A new `Head`, with its parameters."""


@dataclass(frozen=True)
class Regression:
    """y = f(x) + noise of one variance for all rows.

    Attributes:
        noise_std: Standard deviation of the noise, τ^-½ for a noise precision τ; None: learned with the network.
        targets: How many real numbers a row's y has.
    """

    noise_std: float | None = None
    targets: int = 1

    def checked(self, y: Tensor) -> Tensor:
        """See `Task`."""
        return _checked_real(y, self.targets)

    def head(self) -> Head:
        """See `Task`."""
        return GaussianHead(self.noise_std, self.targets)


@dataclass(frozen=True)
class HeteroscedasticRegression:
    """y = f(x) + noise whose variance depends on x: the network has an output for it, too.

    Attributes:
        targets: How many real numbers a row's y has.
    """

    targets: int = 1

    def checked(self, y: Tensor) -> Tensor:
        """See `Task`."""
        return _checked_real(y, self.targets)

    def head(self) -> Head:
        """See `Task`."""
        return VaryingGaussianHead(self.targets)


@dataclass(frozen=True)
class Classes:
    """One of `count` labels 0, 1, …, by softmax."""

    count: int

    def checked(self, y: Tensor) -> Tensor:
        """See `Task`."""
        if y.dim() != 1 or y.dtype != torch.int64:
            raise ValueError(f"Classes expects int64 labels (rows,), got {y.dtype} of shape {tuple(y.shape)}.")
        if y.numel() and not 0 <= int(y.min()) <= int(y.max()) < self.count:
            raise ValueError(
                f"Classes({self.count}) expects labels from 0 to {self.count - 1}, got {int(y.min())} to "
                f"{int(y.max())}. Number the classes from 0."
            )
        return y

    def head(self) -> Head:
        """See `Task`."""
        return SoftmaxHead(self.count)


class _RealHead(nn.Module):
    def moments(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        return gaussian_log_prob(y, *self.moments(outputs)).sum(-1)

    def cross_entropy(self, outputs: Tensor, truth: PredictedReal) -> Tensor:
        """½ Σ log 2πv + (v* + (m* - m)²)/v for a truth with the moments m*, v*."""
        mean, variance = self.moments(outputs)
        extra = 0.5 * (truth.variance / variance).sum(-1)
        return extra - gaussian_log_prob(truth.mean, mean, variance).sum(-1)

    def predicted(self, outputs: Tensor) -> PredictedReal:
        return PredictedReal(*self.moments(outputs))


class GaussianHead(_RealHead):
    """N(o, std²), std known or learned."""

    def __init__(self, noise_std: float | None, targets: int) -> None:
        super().__init__()
        self.outputs = targets
        log_std = torch.tensor(0.0 if noise_std is None else math.log(noise_std))
        self.log_std = nn.Parameter(log_std, requires_grad=noise_std is None)

    def moments(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        return outputs, torch.exp(2 * self.log_std).expand_as(outputs)


class VaryingGaussianHead(_RealHead):
    """N(o₁, softplus(o₂) + 10⁻⁶)."""

    def __init__(self, targets: int) -> None:
        super().__init__()
        self.outputs = 2 * targets

    def moments(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw = outputs.chunk(2, -1)
        return mean, functional.softplus(raw) + _LEAST_VARIANCE


class SoftmaxHead(nn.Module):
    """Classes by softmax(o)."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.outputs = classes

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        logs = outputs.log_softmax(-1)
        return logs.gather(-1, y.expand(logs.shape[:-1])[..., None]).squeeze(-1)

    def cross_entropy(self, outputs: Tensor, truth: PredictedClasses) -> Tensor:
        """-Σ_k p*_k log p_k."""
        return -(truth.probs * outputs.log_softmax(-1)).sum(-1)

    def predicted(self, outputs: Tensor) -> PredictedClasses:
        return PredictedClasses(outputs.softmax(-1))


def _checked_real(y: Tensor, targets: int) -> Tensor:
    if y.dim() != 2 or y.shape[-1] != targets or not y.is_floating_point():
        raise ValueError(
            f"A regression expects floating-point y (rows, {targets}), got {y.dtype} of shape {tuple(y.shape)}. "
            "Add the last dimension with y[:, None]."
        )
    if not y.isfinite().all():
        raise ValueError("A regression expects finite y, got NaN or infinite ones.")
    return y
