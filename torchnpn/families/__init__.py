"""Exponential families: what a distribution is, its moments, its densities, and divergences between two of them."""

from __future__ import annotations

from torchnpn._text import did_you_mean
from torchnpn.families.base import ExponentialFamily
from torchnpn.families.bernoulli import Bernoulli
from torchnpn.families.beta import Beta
from torchnpn.families.calibrated import Calibrated
from torchnpn.families.distribution import Distribution
from torchnpn.families.divergence import kl
from torchnpn.families.gamma import Gamma
from torchnpn.families.gaussian import Gaussian
from torchnpn.families.gumbel import Gumbel
from torchnpn.families.inverse_gamma import InverseGamma
from torchnpn.families.inverse_gaussian import InverseGaussian
from torchnpn.families.log_normal import LogNormal
from torchnpn.families.negative_binomial import NegativeBinomial
from torchnpn.families.parametric import Parametric
from torchnpn.families.pareto import Pareto
from torchnpn.families.poisson import Poisson
from torchnpn.families.rayleigh import Rayleigh
from torchnpn.families.scale_mixture import GaussianScaleMixture
from torchnpn.families.student_t import StudentT
from torchnpn.families.weibull import Weibull
from torchnpn.families.zero_inflated import ZeroInflated

__all__ = [
    "BY_NAME",
    "Bernoulli",
    "Beta",
    "Calibrated",
    "Distribution",
    "ExponentialFamily",
    "Gamma",
    "Gaussian",
    "GaussianScaleMixture",
    "Gumbel",
    "InverseGamma",
    "InverseGaussian",
    "LogNormal",
    "NegativeBinomial",
    "Parametric",
    "Pareto",
    "Poisson",
    "Rayleigh",
    "StudentT",
    "Weibull",
    "ZeroInflated",
    "kl",
    "resolve",
]

# For other packages of torchnpn:
from torchnpn.families import checks as checks
from torchnpn.families.base import zero_if_point as zero_if_point
from torchnpn.families.categorical import Categorical as Categorical
from torchnpn.families.categorical import at_label as at_label
from torchnpn.families.limits import eps as eps
from torchnpn.families.limits import positive_moments as positive_moments
from torchnpn.families.log_normal import LimitedLogNormal as LimitedLogNormal
from torchnpn.families.masses import normal_log_mass as normal_log_mass
from torchnpn.families.mixture import Mixture as Mixture
from torchnpn.families.mixture import mean_and_variance as mean_and_variance
from torchnpn.families.mixture import mixed as mixed

BY_NAME: dict[str, type[ExponentialFamily]] = {
    "bernoulli": Bernoulli,
    "beta": Beta,
    "gamma": Gamma,
    "gaussian": Gaussian,
    "gumbel": Gumbel,
    "inverse_gamma": InverseGamma,
    "inverse_gaussian": InverseGaussian,
    "negative_binomial": NegativeBinomial,
    "pareto": Pareto,
    "poisson": Poisson,
    "rayleigh": Rayleigh,
    "weibull": Weibull,
}


def resolve(family: str | type[ExponentialFamily]) -> type[ExponentialFamily]:
    """The family that a `family=` argument means: a class, or the lower-case name of one that comes with the library.

    >>> resolve("negative_binomial").__name__
    'NegativeBinomial'
    """
    if isinstance(family, type) and issubclass(family, ExponentialFamily):
        return family
    if not isinstance(family, str):
        raise TypeError(f"family expects a name or a subclass of ExponentialFamily, got {family!r}.")
    if family not in BY_NAME:
        raise ValueError(f"family expects a name or a class, got {family!r}.{did_you_mean(family, BY_NAME)}")
    return BY_NAME[family]
