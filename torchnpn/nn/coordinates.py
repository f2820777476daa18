"""The coordinates in which a family is learnt: any real number is allowed, and steps of one size mean about the same.

| values            | free tensors                | mean, variance                                        |
|-------------------|-----------------------------|-------------------------------------------------------|
| any real number   | `mean`, `log_std`           | mean, exp(2 log_std)                                  |
| the same, tied    | `mean`, `log_std_out`, `log_std_in` | mean, exp(2 (log_std_out + log_std_in))       |
| positive          | `log_mean`, `log_cv`        | exp(log_mean), (mean · exp(log_cv))²                  |
| counts            | `log_mean`, `log_cv`        | exp(log_mean), mean + (mean · exp(log_cv))²           |
| between 0 and 1   | `logit_mean`, `logit_spread`| σ(logit_mean), mean (1 - mean) σ(logit_spread)        |
| one parameter     | `log_…`, `logit_…` or itself| those of the family                                   |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.distributions import constraints

from torchnpn.families import ExponentialFamily, Gaussian
from torchnpn.finite import exp, saturated
from torchnpn.moments import Moments, TiedMoments

Posterior = Literal["mean_field", "tied"]
POSTERIORS: tuple[Posterior, ...] = ("mean_field", "tied")
DEFAULT_POSTERIOR: Posterior = "mean_field"  # of Gaussian weights


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


def _tied_variance(log_std_out: Tensor, log_std_in: Tensor) -> Tensor:  # (…, out, 1), (…, 1, in) -> (…, out, in)
    return exp(2 * (log_std_out + log_std_in))


def _tied_free(x: Moments) -> tuple[Tensor, ...]:
    """The outer product that is nearest in the logarithm: the mean of each row, and what is left of each column."""
    log_std = 0.5 * x.variance.log()  # type: ignore[union-attr]
    rows = log_std.mean(-1, keepdim=True)
    return x.mean, rows, (log_std - rows).nan_to_num(0.0).mean(-2, keepdim=True)


_TIED = Coordinates(
    ("mean", "log_std_out", "log_std_in"),
    lambda mean, *log_std: Moments(mean, _tied_variance(*log_std)),
    _tied_free,
)


def tied_moments(mean: Tensor, log_std_out: Tensor, log_std_in: Tensor) -> TiedMoments:
    """The same as factors, of which those of the inputs are at most one: none overflows unless a variance does."""
    largest = log_std_in.detach().amax(-1, keepdim=True).clamp_min(torch.finfo(log_std_in.dtype).min)
    return TiedMoments(mean, exp(2 * (log_std_out + largest)), exp(2 * (log_std_in - largest)))


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


def coordinates(family: type[ExponentialFamily], posterior: Posterior = "mean_field") -> Coordinates:
    """The coordinates in which `family` is learnt, by its number of parameters and its support."""
    if posterior == "tied":
        return _TIED
    if sum(field.default is MISSING for field in fields(family)) == 1:
        return _one_parameter(family)
    by_support = {constraints.real: _REAL, constraints.unit_interval: _UNIT, constraints.nonnegative_integer: _COUNT}
    return by_support.get(family.support, _POSITIVE)


def default_posterior(family: type[ExponentialFamily]) -> Posterior:
    """That of the weights of a layer where nobody asks for one."""
    return DEFAULT_POSTERIOR if family is Gaussian else "mean_field"


def check_posterior(posterior: str, family: type[ExponentialFamily], in_dims: int) -> None:
    """Raise unless there is such a posterior, and these weights can have it."""
    if posterior not in POSTERIORS:
        raise ValueError(f"posterior expects one of {', '.join(POSTERIORS)}, got {posterior!r}.")
    if posterior == "tied" and (family is not Gaussian or in_dims != 1):
        what = (
            f"{family.__name__} weights" if family is not Gaussian else f"a tensor with {in_dims} dimensions of inputs"
        )
        raise ValueError(
            f'posterior="tied" expects Gaussian weights of a matrix, got {what}. Take posterior="mean_field".'
        )
