"""Random parameters: tensors of free numbers, and the family they stand for.

A family is learnt in coordinates in which every real number is allowed and a step of one size means about the same
everywhere:

| values            | free tensors                | mean, variance                                        |
|-------------------|-----------------------------|-------------------------------------------------------|
| any real number   | `mean`, `log_std`           | mean, exp(2 log_std)                                  |
| positive          | `log_mean`, `log_cv`        | exp(log_mean), (mean · exp(log_cv))²                  |
| counts            | `log_mean`, `log_cv`        | exp(log_mean), mean + (mean · exp(log_cv))²           |
| between 0 and 1   | `logit_mean`, `logit_spread`| σ(logit_mean), mean (1 - mean) σ(logit_spread)        |
| one parameter     | `log_…`, `logit_…` or itself| those of the family                                   |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import constraints

from torchnpn import families
from torchnpn._torch import version
from torchnpn.families import ExponentialFamily
from torchnpn.finite import entering, exp, largest_log, saturated
from torchnpn.kernels import choose
from torchnpn.moments import Moments


class Coordinates(NamedTuple):
    """How free tensors become moments and back."""

    names: tuple[str, ...]
    moments: Callable[..., Moments]
    free: Callable[[Moments], tuple[Tensor, ...]]


_REAL = Coordinates(
    ("mean", "log_std"),
    lambda mean, log_std: Moments(mean, exp(2 * log_std)),
    lambda x: (x.mean, 0.5 * x.variance.log()),  # type: ignore[union-attr]
)


def _positive_moments(log_mean: Tensor, log_cv: Tensor) -> Moments:
    return Moments(exp(log_mean), exp(2 * (log_mean + log_cv)))


_POSITIVE = Coordinates(
    ("log_mean", "log_cv"),
    _positive_moments,
    lambda x: (x.mean.log(), 0.5 * x.variance.log() - x.mean.log()),  # type: ignore[union-attr]
)


def _count_moments(log_mean: Tensor, log_cv: Tensor) -> Moments:
    rate = _positive_moments(log_mean, log_cv)
    return Moments(rate.mean, saturated(rate.mean + rate.variance))  # type: ignore[operator]


_COUNT = Coordinates(
    ("log_mean", "log_cv"),
    _count_moments,
    lambda x: _POSITIVE.free(Moments(x.mean, x.variance - x.mean)),  # type: ignore[operator]
)


def _unit_moments(logit_mean: Tensor, logit_spread: Tensor) -> Moments:
    mean = logit_mean.sigmoid()
    return Moments(mean, mean * (1 - mean) * logit_spread.sigmoid())


_UNIT = Coordinates(
    ("logit_mean", "logit_spread"),
    _unit_moments,
    lambda x: (x.mean.logit(), (x.variance / (x.mean * (1 - x.mean))).logit()),  # type: ignore[operator, arg-type]
)


def _one_parameter(family: type[ExponentialFamily]) -> Coordinates:
    """A family with a single field: that field, freed by log or logit."""
    (name,) = (field.name for field in fields(family) if field.default is MISSING)
    transform = torch.distributions.transform_to(family.domain[0].constraint)
    prefix = {constraints.real: "", constraints.unit_interval: "logit_"}.get(family.domain[0].constraint, "log_")
    constants = [field.default for field in fields(family) if field.default is not MISSING]
    return Coordinates(
        (prefix + name,),
        lambda free: family.unchecked(exp(free) if prefix == "log_" else transform(free), *constants).moments,
        lambda x: (transform.inv(getattr(family.project(x), name)),),
    )


def coordinates(family: type[ExponentialFamily]) -> Coordinates:
    """The coordinates in which `family` is learnt, by its number of parameters and its support."""
    if sum(field.default is MISSING for field in fields(family)) == 1:
        return _one_parameter(family)
    by_support = {constraints.real: _REAL, constraints.unit_interval: _UNIT, constraints.nonnegative_integer: _COUNT}
    return by_support.get(family.support, _POSITIVE)


def initial_moments(
    family: type[ExponentialFamily], shape: tuple[int, ...], fan_in: int, generator: torch.Generator | None
) -> Moments:
    """Moments at which learning starts well, for a weight that is one of `fan_in` terms of a sum.

    Real weights: mean N(0, 1/fan_in), standard deviation 0.1/√fan_in, so that sums have unit scale. Positive weights:
    a sparse draw from Gamma(½) of mean 1/fan_in with coefficient of variation 0.3, so that units differ from the start
    and sums stay near one; counts have such a weight as their rate. Weights in [0, 1]: σ(N(0, 1)) with a tenth of the
    largest variance.
    """
    if family is families.Pareto:
        raise ValueError("Pareto weights are all above x_min = 1: their sums cannot start near one. Take gamma ones.")
    support = family.support
    noise = torch.randn(shape, generator=generator)
    if support is constraints.real:
        return Moments(noise / math.sqrt(fan_in), torch.full(shape, 0.01 / fan_in))
    if support in (constraints.unit_interval, constraints.boolean):
        mean = noise.sigmoid()
        return Moments(mean, 0.1 * mean * (1 - mean))
    mean = (noise**2 + 0.01) / fan_in  # the square of a standard normal variable is 2 · Gamma(½)
    variance = (0.3 * mean) ** 2
    return Moments(mean, mean + variance if support is constraints.nonnegative_integer else variance)


class _Cached(NamedTuple):
    """A value, and the addresses and versions of the free tensors it was computed from."""

    state: tuple[int, ...]
    value: Any
    free: list[Tensor]  # while these live, no other tensor can come to lie at their addresses


def _is_tracked(free: Tensor) -> bool:
    """Whether torch counts the changes of a tensor: not under transforms, nor of one made in inference mode."""
    return type(free) is nn.Parameter and not free.is_inference()


class RandomParameter(nn.Module):
    """A learnable tensor of independent random variables of one family, of shape (*replicas, *outputs, *inputs).

    Args:
        family: A family or its name.
        initial: Moments to start from.
        out_dims: How many dimensions belong to the outputs of a layer.
        in_dims: How many of the last dimensions belong to its inputs, over which the layer sums; none for a bias. By
            default all that are left, so that there are no replicas.
        posterior: What the weights of one tensor know of each other: "mean_field" for nothing.
    """

    def __init__(
        self,
        family: str | type[ExponentialFamily],
        initial: Moments,
        out_dims: int = 1,
        in_dims: int | None = None,
        posterior: str = "mean_field",
    ) -> None:
        super().__init__()
        if posterior != "mean_field":
            raise ValueError(f'RandomParameter expects posterior="mean_field", got {posterior!r}.')
        self.family = families.resolve(family)
        if not initial.mean.is_meta:  # a place holder for values to come
            self.family.check_moments(initial)
        dims = initial.mean.dim()
        self.out_dims = min(out_dims, dims)
        self.in_dims = dims - self.out_dims if in_dims is None else in_dims
        self.posterior = posterior
        self._coordinates = coordinates(self.family)
        for name, value in zip(self._coordinates.names, self._coordinates.free(initial), strict=True):
            self.register_parameter(name, nn.Parameter(value.detach().clone()))
        self._cache: dict[str, _Cached] = {}
        self._workspaces: dict[str, Tensor] = {}

    @property
    def free(self) -> list[Tensor]:
        """The free tensors, in the order of their names."""
        return [getattr(self, name) for name in self._coordinates.names]

    @property
    def moments(self) -> Moments:
        """Mean and variance; in evaluation mode, without gradients, cached while the free tensors do not change.

        torch does not count the changes made by a fused optimizer, nor those through `.data`. Therefore nothing is
        cached in training mode, nor across a pass with gradients, nor across a call of `train()` or `eval()`.
        """
        if torch.compiler.is_compiling():
            return self._moments()
        moments: Moments = self.cached("moments", self._moments)
        return moments

    def _moments(self) -> Moments:
        return self._coordinates.moments(*map(entering, self.free))

    def cached(self, name: str, compute: Callable[[], Any]) -> Any:
        """What `compute` makes of the free tensors, cached under a name as `moments` are."""
        free = self.free
        if self.training or torch.is_grad_enabled() or not all(map(_is_tracked, free)):
            self._cache.clear()
            return compute()
        state = tuple(number for t in free for number in (t.data_ptr(), version(t)))
        if name not in self._cache or self._cache[name].state != state:
            self._cache[name] = _Cached(state, compute(), [t.detach() for t in free])
        return self._cache[name].value

    @property
    def is_plain_on_cpu(self) -> bool:
        """Whether this is a Gaussian parameter on a CPU, neither traced nor transformed: for `detached_moments`."""
        return choose.is_plain_gaussian_on_cpu(self.family, self.free)

    @property
    def detached_moments(self) -> Moments:
        """For Gaussian parameters: the mean itself, and the variance without a graph, always in the same memory."""
        self._cache.clear()
        log_std = self.free[1].detach()
        place = self.workspace("variance", log_std.shape, log_std.dtype)
        return Moments(self.free[0], torch.mul(log_std, 2, out=place).clamp_(max=largest_log(place.dtype)).exp_())

    def workspace(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Memory under a name, the same in every call, so that a CUDA graph may go on reading it."""
        found, device = self._workspaces.get(name), self.free[0].device
        if found is None or (found.shape, found.dtype, found.device) != (torch.Size(shape), dtype, device):
            found = self._workspaces[name] = torch.empty(shape, dtype=dtype, device=device)
        return found

    @property
    def distribution(self) -> ExponentialFamily:
        """The member of the family with these moments."""
        return self.family.project(self.moments)

    @property
    def shape(self) -> torch.Size:
        return self.free[0].shape

    @property
    def event_dims(self) -> int:
        """How many of the last dimensions belong to one network."""
        return self.out_dims + self.in_dims

    @property
    def replicas(self) -> tuple[int, ...]:
        """The leading dimensions: independent copies."""
        return tuple(self.shape[: len(self.shape) - self.event_dims])

    def train(self, mode: bool = True) -> RandomParameter:
        self._cache.clear()
        return super().train(mode)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_cache": {}, "_workspaces": {}, "_coordinates": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        super().__setstate__(state)
        self._coordinates = coordinates(self.family)

    def extra_repr(self) -> str:
        return f"{self.family.__name__.lower()}, shape={tuple(self.shape)}"
