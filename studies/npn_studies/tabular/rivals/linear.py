"""Linear models: ridge with Gaussian residuals, gamma and Poisson regression, logistic regression."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special
from sklearn import linear_model

from npn_studies.tabular.predictions import Counts, Gamma, NormalMixture
from npn_studies.tabular.rivals.interface import Inputs, Method, Predict, Standard, Task, folds

Array = NDArray[Any]
_GLM_PENALTIES = (1e-4, 1e-2, 1.0)


def _fit(task: Task) -> Predict:
    standard = Standard.of(task.inputs.X)
    X = standard(task.inputs.X)
    if task.kind == "classes":
        model = linear_model.LogisticRegression(max_iter=2000).fit(X, task.y)
        return lambda inputs: np.asarray(model.predict_proba(standard(inputs.X)))
    predict = _ridge(task, X) if task.kind == "gaussian" else _generalised(task, X)
    return lambda inputs: predict(inputs._replace(X=standard(inputs.X)))


def _ridge(task: Task, X: Array) -> Predict:
    model = linear_model.RidgeCV(np.logspace(-2, 4, 13)).fit(X, task.y)
    held = np.zeros(len(task.y))
    for train, rest in folds(task):
        held[rest] = linear_model.Ridge(model.alpha_).fit(X[train], task.y[train]).predict(X[rest])
    std = float(np.sqrt(np.mean((task.y - held) ** 2))) + 1e-12

    def predict(inputs: Inputs) -> NormalMixture:
        m = model.predict(inputs.X)[None]
        return NormalMixture(m, np.full(m.shape, std))

    return predict


def _generalised(task: Task, X: Array) -> Predict:
    """A penalty of three by cross-validation; the gamma shape by maximum likelihood on rows held out."""
    amounts = task.kind == "amounts"
    kind = linear_model.GammaRegressor if amounts else linear_model.PoissonRegressor
    unit = float(task.y.mean()) if amounts else 1.0
    t = task.y / unit

    def held(penalty: float) -> Array:
        found = np.zeros(len(t))
        for train, rest in folds(task):
            found[rest] = kind(alpha=penalty, max_iter=300).fit(X[train], t[train]).predict(X[rest])
        return np.clip(found, 1e-6, 1e6)

    def loss(mu: Array) -> float:
        return float(np.mean(t / mu + np.log(mu) if amounts else mu - t * np.log(mu)))

    tried = {penalty: held(penalty) for penalty in _GLM_PENALTIES}
    best = min(tried, key=lambda penalty: loss(tried[penalty]))
    model = kind(alpha=best, max_iter=300).fit(X, t)
    shape = _gamma_shape(t / tried[best]) if amounts else 0.0

    def predict(inputs: Inputs) -> Gamma | Counts:
        mu = np.clip(model.predict(inputs.X), 1e-9, 1e6)
        return Gamma(mu * unit, shape) if amounts else Counts(mu[None], np.zeros((1, len(mu))))

    return predict


def _gamma_shape(ratio: Array) -> float:
    """The k that makes these most likely under gamma with mean 1: log k - ψ(k) = mean(r - 1 - log r)."""
    excess = max(float(np.mean(ratio - 1 - np.log(ratio))), 1e-9)
    return float(np.exp(optimize.brentq(lambda a: a - special.digamma(np.exp(a)) - excess, -8, 20)))


LINEAR = Method("linear", _fit)
