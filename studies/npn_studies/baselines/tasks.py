"""What is to be predicted: each task gives a head that reads a network's outputs as a distribution of y."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from npn_studies.baselines.predicted import Predicted, PredictedClasses, PredictedReal, gaussian_log_prob
from npn_studies.baselines.replicas import Number, Replicas

_LEAST_VARIANCE = 1e-6  # of the noise that a network predicts, as in Lakshminarayanan et al. (2017)


class Head(Protocol):
    """Reads the outputs of a network.

    Attributes:
        outputs: How many a network must have.
        parameters: What the head learns itself.
    """

    outputs: int
    parameters: list[Tensor]

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:  # (..., rows, outputs), targets -> (..., rows)
        """log p(y | outputs) of each row."""

    def cross_entropy(self, outputs: Tensor, truth: Any) -> Tensor:  # (..., rows, outputs) -> (..., rows)
        """-E log p(y | outputs) under `truth`, what another head of the task `predicted`."""

    def predicted(self, outputs: Tensor) -> Predicted:  # (samples, networks, rows, outputs)
        """The mixture over samples."""


class Task(Protocol):
    """A kind of target."""

    def check(self, y: Tensor, rows: tuple[int, ...]) -> None:
        """Whether these are targets of the task.

        Args:
            y: Targets.
            rows: Shape of x without the inputs: (rows,) or (replicas, rows).

        Raises:
            ValueError: If they are not.
        """

    def head(self, replicas: Replicas) -> Head:
        """A new `Head` for so many networks, with its parameters."""


@dataclass(frozen=True)
class Regression:
    """y = f(x) + noise of one variance for all rows.

    Attributes:
        noise_std: Standard deviation of the noise, τ^-½ for a noise precision τ; a tuple has one for each replica;
            None: learned with the network.
        targets: How many real numbers a row's y has.
    """

    noise_std: Number | None = None
    targets: int = 1

    def check(self, y: Tensor, rows: tuple[int, ...]) -> None:
        """See `Task`."""
        _check_real(y, (*rows, self.targets))

    def head(self, replicas: Replicas) -> Head:
        """See `Task`."""
        if self.noise_std is None:
            log_std = replicas.zeros(1, 1).requires_grad_()
            return GaussianHead(log_std, self.targets, [log_std])
        return GaussianHead(replicas.number("noise_std", self.noise_std).log(), self.targets, [])


@dataclass(frozen=True)
class HeteroscedasticRegression:
    """y = f(x) + noise whose variance depends on x: the network has an output for it, too.

    Attributes:
        targets: How many real numbers a row's y has.
    """

    targets: int = 1

    def check(self, y: Tensor, rows: tuple[int, ...]) -> None:
        """See `Task`."""
        _check_real(y, (*rows, self.targets))

    def head(self, replicas: Replicas) -> Head:
        """See `Task`."""
        return VaryingGaussianHead(self.targets)


@dataclass(frozen=True)
class Classes:
    """One of `count` labels 0, 1, …, by softmax."""

    count: int

    def check(self, y: Tensor, rows: tuple[int, ...]) -> None:
        """See `Task`."""
        if y.dtype != torch.int64 or y.shape != rows:
            raise ValueError(f"Classes expects int64 labels of shape {rows}, got {y.dtype} of shape {tuple(y.shape)}.")
        if not 0 <= int(y.min()) <= int(y.max()) < self.count:
            raise ValueError(
                f"Classes({self.count}) expects labels from 0 to {self.count - 1}, got {int(y.min())} to "
                f"{int(y.max())}. Number the classes from 0."
            )

    def head(self, replicas: Replicas) -> Head:
        """See `Task`."""
        return SoftmaxHead(self.count)


class _RealHead:
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
    """N(o, std²), std known or learned: log_std is (networks, 1, 1), or (1, 1, 1) for all."""

    def __init__(self, log_std: Tensor, targets: int, parameters: list[Tensor]) -> None:
        self.log_std, self.outputs, self.parameters = log_std, targets, parameters

    def moments(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        return outputs, torch.exp(2 * self.log_std).expand_as(outputs)


class VaryingGaussianHead(_RealHead):
    """N(o₁, softplus(o₂) + 10⁻⁶)."""

    def __init__(self, targets: int) -> None:
        self.outputs, self.parameters = 2 * targets, list[Tensor]()

    def moments(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw = outputs.chunk(2, -1)
        return mean, functional.softplus(raw) + _LEAST_VARIANCE


class SoftmaxHead:
    """Classes by softmax(o)."""

    def __init__(self, classes: int) -> None:
        self.outputs, self.parameters = classes, list[Tensor]()

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        logs = outputs.log_softmax(-1)
        return logs.gather(-1, y.expand(logs.shape[:-1])[..., None]).squeeze(-1)

    def cross_entropy(self, outputs: Tensor, truth: PredictedClasses) -> Tensor:
        """-Σ_k p*_k log p_k."""
        return -(truth.probs * outputs.log_softmax(-1)).sum(-1)

    def predicted(self, outputs: Tensor) -> PredictedClasses:
        return PredictedClasses(outputs.softmax(-1))


def _check_real(y: Tensor, shape: tuple[int, ...]) -> None:
    if y.shape != shape or not y.is_floating_point():
        raise ValueError(
            f"A regression expects floating-point y of shape {shape}, one target for each row of x; got {y.dtype} of "
            f"shape {tuple(y.shape)}. Add the last dimension with y[..., None]."
        )
    if not y.isfinite().all():
        raise ValueError("A regression expects finite y, got NaN or infinite ones.")
