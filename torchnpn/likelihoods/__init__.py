"""Likelihoods: from the moments of a network's output to a loss and the predictive distribution of the target."""

from torchnpn.families import Categorical, Mixture, mixed
from torchnpn.likelihoods.base import Likelihood, VarianceParts, mixture_parts
from torchnpn.likelihoods.classification import ScaledSigmoids, ScaledSoftmax, Sigmoids, SoftmaxMean
from torchnpn.likelihoods.counts import NegativeBinomialCounts, PoissonCounts
from torchnpn.likelihoods.gaussian import GaussianNoise, HeteroscedasticGaussian
from torchnpn.likelihoods.hurdle import HurdleGamma, HurdleLogNormal
from torchnpn.likelihoods.log_normal import HeteroscedasticLogNormal, LogNormalAmounts
from torchnpn.likelihoods.ordered import OrderedClasses
from torchnpn.likelihoods.paper import Direct, KLToTarget, PoissonKL, SquaredError
from torchnpn.likelihoods.positive import GammaAmounts
from torchnpn.likelihoods.proportions import BetaProportions
from torchnpn.likelihoods.student_t import HeteroscedasticStudentT, StudentTNoise
from torchnpn.likelihoods.targets import Units
from torchnpn.likelihoods.weibull import WeibullDurations
from torchnpn.likelihoods.words import BernoulliPoisson, CrossEntropy, GammaWords, PoissonRate
from torchnpn.likelihoods.zero_inflated import ZeroInflatedNegativeBinomial, ZeroInflatedPoisson

__all__ = [
    "BY_NAME",
    "BernoulliPoisson",
    "BetaProportions",
    "Categorical",
    "CrossEntropy",
    "Direct",
    "GammaAmounts",
    "GammaWords",
    "GaussianNoise",
    "HeteroscedasticGaussian",
    "HeteroscedasticLogNormal",
    "HeteroscedasticStudentT",
    "HurdleGamma",
    "HurdleLogNormal",
    "KLToTarget",
    "Likelihood",
    "LogNormalAmounts",
    "Mixture",
    "NegativeBinomialCounts",
    "OrderedClasses",
    "PoissonCounts",
    "PoissonKL",
    "PoissonRate",
    "ScaledSigmoids",
    "ScaledSoftmax",
    "Sigmoids",
    "SoftmaxMean",
    "SquaredError",
    "StudentTNoise",
    "Units",
    "VarianceParts",
    "WeibullDurations",
    "ZeroInflatedNegativeBinomial",
    "ZeroInflatedPoisson",
    "mixed",
    "mixture_parts",
]

# For other packages of torchnpn:
from torchnpn.likelihoods.censored import Censored as Censored
from torchnpn.likelihoods.exposure import Exposed as Exposed
from torchnpn.likelihoods.exposure import with_offset as with_offset
from torchnpn.likelihoods.gradients import loss_gradient as loss_gradient
from torchnpn.likelihoods.guards import LOG_VARIANCE as LOG_VARIANCE
from torchnpn.likelihoods.targets import in_support as in_support
from torchnpn.likelihoods.targets import words_of_support as words_of_support

ALL: tuple[type[Likelihood], ...] = tuple(
    kind
    for name in __all__
    if isinstance(kind := globals().get(name), type) and issubclass(kind, Likelihood) and kind is not Likelihood
)
BY_NAME: dict[str, type[Likelihood]] = {kind.name: kind for kind in ALL if kind.name}
"""Kinds of targets of `NPNRegressor(family=...)` and `npn fit --family`."""
