"""The coordinates in which a family is learnt: any real number is allowed, and steps of one size mean about the same.

| values            | free tensors                | mean, variance                                        |
|-------------------|-----------------------------|-------------------------------------------------------|
| any real number   | `mean`, `log_std`           | mean, exp(2 log_std)                                  |
| the same, tied    | `mean`, `log_std_out`, `log_std_in` | mean, exp(2 (log_std_out + log_std_in))       |
| positive          | `log_mean`, `log_cv`        | exp(log_mean), (mean · exp(log_cv))²                  |
| counts            | `log_mean`, `log_cv`        | exp(log_mean), mean + (mean · exp(log_cv))²           |
| between 0 and 1   | `logit_mean`, `logit_spread`| σ(logit_mean), mean (1 - mean) σ(logit_spread)        |
| one parameter     | `log_…`, `logit_…` or itself| those of the family                                   |

These are the "usual" ones. To learn a family's own parameters, as the paper has it, see `chosen_coordinates`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.nn.functional import softplus

from torchnpn.families import Beta, ExponentialFamily, Gamma, Gaussian, Poisson, Rayleigh
from torchnpn.finite import clamped, exp, saturated
from torchnpn.moments import Moments, TiedMoments

Posterior = Literal["mean_field", "tied"]
POSTERIORS: tuple[Posterior, ...] = ("mean_field", "tied")
DEFAULT_POSTERIOR: Posterior = "mean_field"  # of Gaussian weights
CoordinateChoice = Literal[
    "usual", "proxy", "proxy_softplus", "proxy_shifted", "natural", "natural_softplus", "natural_shifted"
]
COORDINATES: tuple[CoordinateChoice, ...] = get_args(CoordinateChoice)
SHIFT = 10.0  # h of k(x) = exp(x - h)


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


def coordinates(
    family: type[ExponentialFamily], posterior: Posterior = "mean_field", choice: CoordinateChoice = "usual"
) -> Coordinates:
    """The coordinates in which `family` is learnt: the usual ones by its number of parameters and its support."""
    if choice != "usual":
        return chosen_coordinates(family, choice)
    if posterior == "tied":
        return _TIED
    if sum(field.default is MISSING for field in fields(family)) == 1:
        return _one_parameter(family)
    by_support = {constraints.real: _REAL, constraints.unit_interval: _UNIT, constraints.nonnegative_integer: _COUNT}
    return by_support.get(family.support, _POSITIVE)


class Positivity(NamedTuple):
    """A function k from all numbers to positive ones (paper, supplement), 1/k, and the inverse of k."""

    k: Callable[[Tensor], Tensor]
    reciprocal: Callable[[Tensor], Tensor]
    inverse: Callable[[Tensor], Tensor]


def _shifted_exp(shift: float) -> Positivity:
    return Positivity(
        lambda x: exp(x - shift).clamp_min(torch.finfo(x.dtype).tiny),
        lambda x: exp(shift - x),
        lambda k: k.log() + shift,
    )


def _reciprocal_softplus(x: Tensor) -> Tensor:
    """exp(-x) where that is all there is of it, and the quotient would lose its gradient."""
    far = x < _LEFT
    return torch.where(far, exp(-torch.where(far, x, 0.0)), 1 / softplus(torch.where(far, 0.0, x)))


_LEFT = -15.0  # log(1 + e^x) = e^x to the last digit of float32
_POSITIVITIES = {
    "": _shifted_exp(0.0),
    "softplus": Positivity(
        lambda x: softplus(x).clamp_min(torch.finfo(x.dtype).tiny),
        _reciprocal_softplus,
        lambda k: k + (-torch.expm1(-k)).log(),
    ),
    "shifted": _shifted_exp(SHIFT),
}


def chosen_coordinates(family: type[ExponentialFamily], choice: CoordinateChoice) -> Coordinates:
    """Coordinates in which a family's own parameters are learnt, as the paper does.

    "proxy" learns the parameters that the family has as fields, (c, d), or a mean and a variance for a Gaussian, for
    the families of the paper's Table 1; "natural" the natural parameters η, of Gaussian and gamma weights. What must be
    positive is k(x) of a free number x: k(x) = exp(x), "…_softplus" k(x) = log(1 + exp(x)), "…_shifted"
    k(x) = exp(x - 10). For gamma weights both choices take the same steps, because η = (c - 1, -d).
    """
    kind, _, how = choice.partition("_")
    known = (Gaussian, Gamma) if kind == "natural" else (Gaussian, Gamma, Beta, Poisson, Rayleigh)
    if family not in known:
        names = ", ".join(one.__name__ for one in known)
        raise ValueError(f'coordinates="{choice}" expects weights of {names}, got {family.__name__}. Take "usual".')
    positivity = _POSITIVITIES[how]
    return _natural_gaussian(positivity) if (kind, family) == ("natural", Gaussian) else _proxy(family, positivity)


def _natural_gaussian(positivity: Positivity) -> Coordinates:
    """η = (m/s, -1/2s): the free numbers are η₁ and that of which -η₂ is k."""

    def moments(eta_1: Tensor, free_2: Tensor) -> Moments:
        s = 0.5 * positivity.reciprocal(free_2)
        return Moments(clamped(eta_1 * s), s)

    def free(x: Moments) -> tuple[Tensor, ...]:
        return clamped(x.mean / x.variance), positivity.inverse(0.5 / x.variance)  # type: ignore[operator, arg-type]

    return Coordinates(("natural_1", "natural_2"), moments, free)


def _proxy(family: type[ExponentialFamily], positivity: Positivity) -> Coordinates:
    """The fields of a family: as they are where they may be any number, by k where they must be positive."""
    names = [field.name for field in fields(family)]
    is_real = [domain.constraint is constraints.real for domain in family.domain]

    def moments(*free: Tensor) -> Moments:
        values = (x if real else positivity.k(x) for x, real in zip(free, is_real, strict=True))
        return family.unchecked(*values).moments

    def free(x: Moments) -> tuple[Tensor, ...]:
        values = (getattr(family.project(x), name) for name in names)
        return tuple(value if real else positivity.inverse(value) for value, real in zip(values, is_real, strict=True))

    return Coordinates(tuple(f"proxy_{name}" for name in names), moments, free)


def default_posterior(family: type[ExponentialFamily]) -> Posterior:
    """That of the weights of a layer where nobody asks for one."""
    return DEFAULT_POSTERIOR if family is Gaussian else "mean_field"


def check_posterior(posterior: str, family: type[ExponentialFamily], in_dims: int, choice: str = "usual") -> None:
    """Raise unless there is such a posterior and such a choice of coordinates, and these weights can have both."""
    if choice not in COORDINATES:
        raise ValueError(f"coordinates expects one of {', '.join(COORDINATES)}, got {choice!r}.")
    if posterior == "tied" and choice != "usual":
        raise ValueError(
            f'posterior="tied" expects the usual coordinates, got {choice!r}. Take posterior="mean_field".'
        )
    if posterior not in POSTERIORS:
        raise ValueError(f"posterior expects one of {', '.join(POSTERIORS)}, got {posterior!r}.")
    if posterior == "tied" and (family is not Gaussian or in_dims != 1):
        what = (
            f"{family.__name__} weights" if family is not Gaussian else f"a tensor with {in_dims} dimensions of inputs"
        )
        raise ValueError(
            f'posterior="tied" expects Gaussian weights of a matrix, got {what}. Take posterior="mean_field".'
        )
