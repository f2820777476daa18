"""What every likelihood offers, and the three parts of a predictive variance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions import constraints
from torch.distributions.constraints import Constraint

from torchnpn._torch import has_values
from torchnpn.families import Distribution, Parametric, checks, mean_and_variance, zero_if_point
from torchnpn.finite import clamped
from torchnpn.kernels import cpu
from torchnpn.likelihoods import targets
from torchnpn.likelihoods.guards import narrowed, widened
from torchnpn.likelihoods.targets import Units, unchanged
from torchnpn.maps import check_moments
from torchnpn.moments import Moments

Array = NDArray[Any]


class VarianceParts(NamedTuple):
    """Law of total variance: Var y = Var E[y | latent] + E Var[y | latent]."""

    total: Tensor
    epistemic: Tensor  # Var E[y | latent]: what more data would take away
    aleatoric: Tensor  # E Var[y | latent]: what no data takes away

    @classmethod
    def of(cls, epistemic: Tensor, aleatoric: Tensor) -> VarianceParts:
        """Both parts in one shape, and their sum."""
        epistemic, aleatoric = torch.broadcast_tensors(epistemic, aleatoric)
        return cls(clamped(epistemic + aleatoric), epistemic, aleatoric)

    @classmethod
    def split(cls, total: Tensor, share: Tensor) -> VarianceParts:
        """A total, of which a share is epistemic."""
        return cls(total, share * total, (1 - share) * total)

    @classmethod
    def all_epistemic(cls, variance: Tensor) -> VarianceParts:
        """That of an output which is the target itself."""
        return cls.of(variance, torch.zeros_like(variance))

    def scaled(self, scale: Tensor) -> VarianceParts:
        """Those of scale · y."""
        return VarianceParts(*(clamped(part * scale**2) for part in self))


def mixture_parts(parts: VarianceParts, means: Tensor, weights: Tensor | None = None) -> VarianceParts:
    """Variance of a mixture and its parts: what members disagree on is epistemic, since more data would settle it.

    Args:
        parts: Of the members, (K, …).
        means: Of the members' predictive distributions, (K, …).
        weights: Of the members, (K,); equal ones if there are none.
    """
    epistemic = mean_and_variance(parts.epistemic, weights)[0] + mean_and_variance(means, weights)[1]
    aleatoric = mean_and_variance(parts.aleatoric, weights)[0]
    return VarianceParts.of(*(clamped(part, means.dtype) for part in (epistemic, aleatoric)))


class Likelihood(nn.Module):
    """Turns the latent output `o` of a network, Gaussian with the moments it has, into the distribution of a target y.

    `o` has shape (*replicas, batch, outputs), y (batch, targets), or (batch,) for labels. Learnt numbers such as a
    noise have shape (*replicas, targets); with targets=1 all targets share them. `loss` looks at no values, so that a
    GPU need not wait: `check_targets` does, once, where the data enter. Losses and their gradients are finite for
    every finite latent mean and variance ≥ 0 of the type; what lies beyond its largest number saturates. A negative
    variance is an error on the CPU; on a GPU, which would have to wait for the look, the result is undefined.

    A likelihood says what kind of target it is for. Training, estimators, tables, the command and model files read the
    facts below, and know no likelihood by name.
    """

    name: ClassVar[str] = ""  # `family=` of NPNRegressor and `--family`; without one it is for networks of your own
    words: ClassVar[str] = ""  # what such a target is, as the command says it
    support: ClassVar[Constraint] = constraints.real  # where targets lie
    predicts: ClassVar[type[Parametric] | None] = None  # the family of its predictions
    mostly_noise: ClassVar[bool] = False  # as amounts, counts and proportions are, however much is known of them
    separable: ClassVar[bool] = False
    """Whether the loss is a sum over targets of terms with one output each: wide outputs then train in parts."""
    log_link: ClassVar[bool] = False
    """Whether the first outputs are logarithms of what grows in proportion to an exposure: its log is added."""
    takes_bounds: ClassVar[bool] = False  # whether targets of which only a range is known have a loss, too
    noise_apart: ClassVar[bool] = False
    """Whether the second half of the outputs is a noise that forms no features, so that `nn.MeanAndNoise` is last."""
    varying_noise: ClassVar[type[Likelihood] | None] = None
    """The same kind of target with a noise that depends on the features, if there is one."""
    gains_from_steps: ClassVar[bool] = False  # whether large tables gain from longer training
    limits_means: ClassVar[bool] = False  # whether predicted means take note of the largest target that was seen
    simpler: ClassVar[str] = ""  # name of what to try where this kind does worse than no model
    settings: ClassVar[Mapping[str, Any]] = {}  # of the constructor, as estimators train it
    arguments: ClassVar[Mapping[str, type]] = {}
    """Arguments of the constructor that a model file holds, each also an attribute, with its type."""
    later: ClassVar[Mapping[str, Any]] = {}  # arguments that early model files lack, and what they mean there

    @classmethod
    def for_targets(cls, targets: int, replicas: tuple[int, ...] = ()) -> Self:
        """One for so many targets, as estimators train it."""
        sizes = {"targets": targets, "replicas": replicas}
        return cls(**{name: size for name, size in sizes.items() if name in cls.arguments}, **cls.settings)

    @classmethod
    def marginal(cls, x: Moments) -> Distribution:
        """The distribution of this kind with these moments: what is known of a target without any features."""
        if cls.predicts is None:
            raise NotImplementedError(f"{cls.__name__} needs `predicts`, its family, or a class method `marginal(x)`.")
        return cls.predicts.from_moments(x)

    @staticmethod
    def units(y: Array, weight: Array | None) -> Units:  # (rows, targets), (rows,)
        """Units in which estimators train it; predictions come back by `Distribution.scaled`."""
        return unchanged(y, weight)

    @staticmethod
    def start(y: Array, weight: Array | None) -> Array:  # (rows, targets) in units, (rows,) -> (outputs,)
        """Latent values at which the outputs start, those of a noise apart aside: of the best constant, or near it."""
        return np.zeros(y.shape[1])

    def least_kl(self) -> float | Array:
        """Share of its final weight that the KL has at least, from the start; one for each replica, if any.

        Where much of the target is noise there is little to find and much to overfit.
        """
        return 0.3 if self.mostly_noise else 0.0

    @property
    def targets(self) -> int:
        """How many targets have learnt numbers of their own; 1 where all share them."""
        return self._learnt_shape[-1]

    @property
    def replicas(self) -> tuple[int, ...]:
        """Leading dimensions of the learnt numbers."""
        return tuple(self._learnt_shape[:-1])

    @property
    def _learnt_shape(self) -> tuple[int, ...]:
        return next((tuple(parameter.shape) for parameter in self.parameters()), (1,))

    def extra_repr(self) -> str:
        shown = ((name, getattr(self, name)) for name, kind in self.arguments.items() if kind in (int, float))
        return ", ".join(f"{name}={value:g}" for name, value in shown)

    def outputs(self, targets: int) -> int:
        """How many outputs the network needs for that many targets, or classes."""
        return targets

    def loss(
        self, o: Moments, y: Tensor
    ) -> Tensor:  # (*replicas, batch, outputs), (batch, targets) -> (*replicas, batch)
        """Loss of each row, summed over its targets."""
        self._check_shapes(o, y)
        return self._row_loss(o, y)

    def closed_form(self) -> cpu.ClosedForm | None:
        """Its loss with gradients in plain numpy (`kernels.cpu.losses`), if any; for training small networks."""
        return None

    def interval_loss(self, o: Moments, lower: Tensor, upper: Tensor) -> Tensor:
        """-log P(lower < y ≤ upper) of each target, in float64."""
        loss: Tensor = -self.predict(o).log_mass(lower, upper)
        return loss

    def interval_form(self) -> cpu.ClosedForm | None:
        """The same with gradients in plain numpy, of the logarithms (…, 2) of both ends, for one target."""
        return None

    def predict(self, o: Moments) -> Distribution:
        """Predictive distribution of the target."""
        raise NotImplementedError(f"{type(self).__name__} needs a method `predict(o)`.")

    def variance_parts(self, o: Moments) -> VarianceParts:
        """Predictive variance, and how much of it comes from the latent and how much from the target itself."""
        raise NotImplementedError(f"{type(self).__name__} needs a method `variance_parts(o)`.")

    def log_prob(self, o: Moments, y: Tensor) -> Tensor:  # (*replicas, batch, outputs) -> (*replicas, batch)
        """log p(y) of each row, as predicted, summed over its targets."""
        logs = self.predict(o).log_prob(y)
        return logs.sum(-1) if logs.ndim == o.mean.ndim else logs  # of labels there is one in each row

    def know_largest(self, y: Array) -> None:
        """Take note of the largest targets (targets,) of the training rows, in units, if it limits means."""

    def check_targets(self, y: Tensor) -> None:
        """Raise unless `y` holds targets for this likelihood."""
        targets.check(type(self).__name__, y, self.support)

    def _row_loss(self, o: Moments, y: Tensor) -> Tensor:
        """-log p(y)."""
        return of_rows(-self.predict(o).log_prob(y), o)

    def _check_shapes(self, o: Moments, y: Tensor) -> None:
        """Raise where broadcasting would hide that rows or columns do not belong together."""
        check_moments(type(self).__name__, o)
        if o.mean.ndim < 2 or y.ndim < 2 or y.shape[-2] != o.mean.shape[-2]:
            expected = "outputs of shape (*replicas, batch, outputs) and targets of shape (batch, targets)"
        elif self.outputs(y.shape[-1]) != o.mean.shape[-1]:
            expected = f"{self.outputs(y.shape[-1])} outputs for {y.shape[-1]} targets"
        else:
            return
        raise ValueError(
            f"{type(self).__name__} expects {expected}, got o.mean of shape {tuple(o.mean.shape)} and y of shape "
            f"{tuple(y.shape)}. For a single target write y[:, None]."
        )


def latent(o: Moments) -> tuple[Tensor, Tensor]:
    """Mean and variance of `o` in one shape, zeros for a point, in at least float32."""
    m, s = torch.broadcast_tensors(o.mean, zero_if_point(o))
    _check_variance(s)
    if m.dtype in (torch.float32, torch.float64) and s.dtype == m.dtype:
        return m, s
    return widened(m, torch.float32), widened(s, torch.promote_types(m.dtype, torch.float32))


def wide_latent(o: Moments, at_least: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """The same in at least the given type, with gradients that saturate."""
    m, s = torch.broadcast_tensors(o.mean, zero_if_point(o))
    _check_variance(s)
    return widened(m, at_least), widened(s, at_least)


def of_rows(losses: Tensor, o: Moments) -> Tensor:  # (*replicas, batch, targets) -> (*replicas, batch)
    """Losses of targets summed to those of rows, in at least float32."""
    return narrowed(losses.double().sum(-1), torch.promote_types(o.mean.dtype, torch.float32))


def _check_variance(s: Tensor) -> None:
    """Raise for a negative variance, where a look costs nothing; NaN is left to the training, which names its cause."""
    if s.device.type == "cpu" and not torch.compiler.is_compiling() and has_values(s) and bool((s < 0).any()):
        checks.require(~(s < 0), s, "A likelihood expects latent variances ≥ 0", "Pass variances, e.g. std ** 2.")


def learnt_parameter(value: float, targets: int, replicas: tuple[int, ...]) -> nn.Parameter:
    """A number to learn for each target, of shape (*replicas, targets)."""
    if targets < 1:
        raise ValueError(f"A likelihood expects targets ≥ 1, got {targets}.")
    return nn.Parameter(torch.full((*replicas, targets), float(value)))


def mixed_loss(predictive: Tensor, bound: Tensor, elbo: float) -> Tensor:
    """The loss of a prediction as a whole, and a share of the ELBO's data term."""
    return (1 - elbo) * predictive + elbo * bound


def share_of_elbo(elbo: float) -> float:
    """The ELBO's share in a loss, checked."""
    if not 0 <= elbo <= 1:
        raise ValueError(f"A likelihood expects elbo, the ELBO's share in the loss, in [0, 1], got {elbo}.")
    return elbo
