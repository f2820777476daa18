"""Likelihoods: from the moments of a network's output to a loss and the predictive distribution of the target."""

from torchnpn.likelihoods.base import Likelihood, VarianceParts
from torchnpn.likelihoods.categorical import Categorical
from torchnpn.likelihoods.classification import ScaledSoftmax, Sigmoids, SoftmaxMean
from torchnpn.likelihoods.counts import NegativeBinomialCounts, PoissonCounts
from torchnpn.likelihoods.gaussian import GaussianNoise, HeteroscedasticGaussian
from torchnpn.likelihoods.mixture import Mixture, mixed, mixture_parts
from torchnpn.likelihoods.paper import Direct, KLToTarget, SquaredError
from torchnpn.likelihoods.positive import GammaAmounts
from torchnpn.likelihoods.proportions import BetaProportions
from torchnpn.likelihoods.words import BernoulliPoisson, CrossEntropy, GammaWords, PoissonRate

__all__ = [
    "BernoulliPoisson",
    "BetaProportions",
    "Categorical",
    "CrossEntropy",
    "Direct",
    "GammaAmounts",
    "GammaWords",
    "GaussianNoise",
    "HeteroscedasticGaussian",
    "KLToTarget",
    "Likelihood",
    "Mixture",
    "NegativeBinomialCounts",
    "PoissonCounts",
    "PoissonRate",
    "ScaledSoftmax",
    "Sigmoids",
    "SoftmaxMean",
    "SquaredError",
    "VarianceParts",
    "mixed",
    "mixture_parts",
]
