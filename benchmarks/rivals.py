"""What `NPNRegressor` is compared with. Each model is a function of training rows that gives a function of new rows.

Nobody is tuned: every model is its library's default. Where a default would be no contest at all, what is changed is
said beside it: the linear models' penalty, and the units and the noise of the plain network.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import scoringrules
from ngboost import NGBRegressor, distns
from numpy.typing import NDArray
from scipy import optimize, special, stats
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import GammaRegressor, PoissonRegressor
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import torchnpn as npn

Array = NDArray[Any]
HIDDEN = (50,)  # of both networks
PENALTY = (
    1e-4  # of the linear models, since one-hot columns are collinear; their default 1.0 leaves little but a constant
)
HELD_OUT = 0.1  # of the training rows, where the noise of the plain network is measured


class Budget(NamedTuple):
    """How long models may train; None and the other values here are their defaults."""

    epochs: int | None = None  # of NPNRegressor
    trees: int = 500  # of NGBoost
    iterations: int = 200  # of the plain network, at most


class Forecast(NamedTuple):
    """Predictive distributions of rows; `npn.Predictive` has these methods too."""

    log_prob: Callable[[Array], Array]
    quantile: Callable[[float], Array]
    crps: Callable[[Array], Array]


class Model(Protocol):
    """Trains on rows, and gives what turns new rows into a `Forecast`."""

    def __call__(self, X: Array, y: Array, seed: int, budget: Budget, /) -> Callable[[Array], Any]: ...


# Distributions ---------------------------------------------------------------------------------------------------


def gaussian(mean: Array, std: Array) -> Forecast:
    p = stats.norm(mean, std)
    return Forecast(p.logpdf, p.ppf, lambda y: npn.metrics.crps_gaussian(mean, std, y))


def gamma(shape: Array, rate: Array) -> Forecast:
    p = stats.gamma(shape, scale=1 / rate)
    return Forecast(p.logpdf, p.ppf, lambda y: npn.families.Gamma(shape, rate).crps(y).numpy())


def log_normal(log_mean: Array, log_std: Array) -> Forecast:
    p = stats.lognorm(log_std, scale=np.exp(log_mean))
    return Forecast(p.logpdf, p.ppf, lambda y: scoringrules.crps_lognormal(y, log_mean, log_std, backend="numpy"))


def poisson(mean: Array) -> Forecast:
    p = stats.poisson(mean)
    return Forecast(p.logpmf, p.ppf, lambda y: crps_of_counts(p.cdf, int(max(y.max(), p.ppf(1 - 1e-12).max())), y))


def rounded_gaussian(mean: Array, std: float) -> Forecast:
    """max(0, z to the nearest whole number), z ~ N(mean, std²): what a Gaussian says about counts."""
    p = stats.norm(mean, std)

    def log_prob(y: Array) -> Array:
        above, beyond = p.logsf(y - 0.5), p.logsf(y + 0.5)  # logarithms: far counts have probabilities below 1e-300
        return np.where(y > 0, above + np.log1p(-np.exp(beyond - above)), p.logcdf(0.5))

    def quantile(q: float) -> Array:
        return np.maximum(0, np.ceil(p.ppf(q) - 0.5))

    def crps(y: Array) -> Array:
        return crps_of_counts(lambda k: p.cdf(k + 0.5), int(max(y.max(), quantile(1 - 1e-12).max())), y)

    return Forecast(log_prob, quantile, crps)


def crps_of_counts(cdf: Callable[[int], Array], largest: int, y: Array) -> Array:
    """Σ over k from 0 to `largest` of (P(target ≤ k) - 1{y ≤ k})², beyond which every term is zero."""
    return sum(((cdf(k) - (y <= k)) ** 2 for k in range(largest + 1)), np.zeros(len(y)))


# Models ----------------------------------------------------------------------------------------------------------


def npn_regressor(family: str) -> Model:
    def fit(X: Array, y: Array, seed: int, budget: Budget) -> Callable[[Array], Any]:
        model = npn.NPNRegressor(family, HIDDEN, max_epochs=budget.epochs, device="cpu", random_state=seed)
        return model.fit(X, y).predict_dist

    return fit


def ngboost(distribution: Any, forecast: Callable[[Any], Forecast]) -> Model:
    def fit(X: Array, y: Array, seed: int, budget: Budget) -> Callable[[Array], Any]:
        model = NGBRegressor(Dist=distribution, n_estimators=budget.trees, verbose=False, random_state=seed)
        model.fit(X, y)
        return lambda X: forecast(model.pred_dist(X))

    return fit


def poisson_regressor(X: Array, y: Array, seed: int, budget: Budget) -> Callable[[Array], Any]:
    model = make_pipeline(StandardScaler(), PoissonRegressor(alpha=PENALTY)).fit(X, y)
    return lambda X: poisson(model.predict(X))


def gamma_regressor(X: Array, y: Array, seed: int, budget: Budget) -> Callable[[Array], Any]:
    model = make_pipeline(StandardScaler(), GammaRegressor(alpha=PENALTY)).fit(X, y)
    shape = gamma_shape(y / model.predict(X))

    def predict(X: Array) -> Forecast:
        mean = model.predict(X)
        return gamma(np.full_like(mean, shape), shape / mean)

    return predict


def gamma_shape(ratio: Array) -> float:
    """The maximum likelihood shape c of ratios r = y/μ, μ known: log c - ψ(c) = mean of r - 1 - log r."""
    deviance = float(np.mean(ratio - 1 - np.log(ratio)))
    return float(optimize.brentq(lambda c: np.log(c) - special.digamma(c) - deviance, 1e-6, 1e6))


def plain_network(forecast: Callable[[Array, Any], Forecast]) -> Model:
    """A network of the same size for the mean; the noise is its error on a tenth of the rows, kept from it."""

    def fit(X: Array, y: Array, seed: int, budget: Budget) -> Callable[[Array], Any]:
        network = MLPRegressor(hidden_layer_sizes=HIDDEN, max_iter=budget.iterations, random_state=seed)
        model = TransformedTargetRegressor(make_pipeline(StandardScaler(), network), transformer=StandardScaler())
        X, X_held, y, y_held = train_test_split(X, y, test_size=HELD_OUT, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # all of its default 200 iterations, and no more
            model.fit(X, y)
        std = float(np.sqrt(np.mean((y_held - model.predict(X_held)) ** 2)))
        return lambda X: forecast(model.predict(X), std)

    return fit


MODELS: dict[str, dict[str, Model]] = {  # by the kind of target; differences are to the first of each
    "counts": {
        "NPN, negative binomial": npn_regressor("negative_binomial"),
        "NPN, Poisson": npn_regressor("poisson"),
        "NGBoost, Poisson": ngboost(distns.Poisson, lambda p: poisson(p.mu)),
        "PoissonRegressor": poisson_regressor,
        "MLP, rounded Gaussian": plain_network(rounded_gaussian),
    },
    "amounts": {
        "NPN, gamma": npn_regressor("gamma"),
        "NGBoost, gamma": ngboost(distns.Gamma, lambda p: gamma(p.alpha, p.beta)),
        "NGBoost, log-normal": ngboost(distns.LogNormal, lambda p: log_normal(p.loc, p.scale)),
        "GammaRegressor": gamma_regressor,
        "MLP, Gaussian": plain_network(gaussian),
    },
    "numbers": {
        "NPN, Gaussian": npn_regressor("gaussian"),
        "NGBoost, Gaussian": ngboost(distns.Normal, lambda p: gaussian(p.loc, p.scale)),
        "MLP, Gaussian": plain_network(gaussian),
    },
}
