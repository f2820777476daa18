"""Bayesian logistic regression against optimisers, quadrature, Monte Carlo and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import torch
from scipy.special import expit, log_expit, logsumexp
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from torchnpn import BayesianLogisticRegression
from torchnpn.logistic import posterior as logistic_posterior
from torchnpn.logistic import regression as bayesian_logistic

METHODS = ("laplace", "variational")
NODES, MASSES = np.polynomial.hermite_e.hermegauss(80)
MASSES = MASSES / MASSES.sum()


def made(rows: int, weights: list[float], seed: int = 0, intercept: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, len(weights)))
    return X, (generator.random(rows) < expit(X @ weights + intercept)).astype(int)


def log_likelihood(X: np.ndarray, y: np.ndarray, w: np.ndarray, variance: float = 0.0) -> float:
    """Σ E log p(y | w·x): by a rule in a ~ N(w·x, variance |w|²) for uncertain features."""
    a = (X @ w)[:, None] + np.sqrt(variance * (w @ w)) * NODES
    return float((log_expit(np.where(y == 1, 1, -1)[:, None] * a) @ MASSES).sum())


def exact_log_evidence(X: np.ndarray, y: np.ndarray, *precisions: float, variance: float = 0.0) -> np.ndarray:
    """log ∫ N(w | 0, 1/precision) exp(Σ E log p) dw on a grid of one or two dimensions, without an intercept."""
    features = X.shape[1]
    axis = np.linspace(-9, 9, 2001 if features == 1 else 301)
    w = np.stack([part.ravel() for part in np.meshgrid(*[axis] * features)], axis=1)
    if variance:
        logs = np.array([log_likelihood(X, y, one, variance) for one in w])
    else:
        logs = log_expit(np.where(y == 1, 1, -1) * (w @ X.T)).sum(1)
    cell = features * np.log(axis[1] - axis[0])
    return np.array(
        [
            logsumexp(logs - 0.5 * precision * (w**2).sum(1)) + 0.5 * features * np.log(precision / (2 * np.pi)) + cell
            for precision in precisions
        ]
    )


@pytest.mark.slow
@parametrize_with_checks(
    [
        BayesianLogisticRegression(),
        BayesianLogisticRegression("variational"),
        BayesianLogisticRegression(precision="ard"),
        BayesianLogisticRegression(precision=0.1, fit_intercept=False),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


# Laplace


@pytest.mark.parametrize("precision", [0.1, 5.0])
def test_laplace_is_optimum_and_curvature(precision):
    X, y = made(80, [1.0, -2.0, 0.5], intercept=0.7)
    model = BayesianLogisticRegression(precision=precision).fit(X, y)
    design = np.column_stack([X, np.ones(80)])
    prior = np.array([precision] * 3 + [1e-6])

    def loss(w):
        return -log_likelihood(design, y, w) + 0.5 * prior @ w**2

    w = scipy.optimize.minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-8, "xrtol": 1e-12}).x
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), w, atol=1e-5)
    step = 1e-3 * np.eye(4)
    hessian = [
        [(loss(w + a + b) - loss(w + a - b) - loss(w - a + b) + loss(w - a - b)) / 4e-6 for a in step] for b in step
    ]
    np.testing.assert_allclose(model.covariance_[0], np.linalg.inv(hessian), rtol=1e-4, atol=1e-6)
    evidence = -loss(w) + 0.5 * np.log(prior).sum() - 0.5 * np.linalg.slogdet(hessian)[1]
    np.testing.assert_allclose(model.log_evidence_, evidence, atol=1e-4)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("precision", [1e-3, 1.0, 30.0])
def test_laplace_has_the_weights_of_scikit_learn(precision, intercept):
    X, y = made(300, [1.0, -2.0, 0.0, 0.3], intercept=-1.0)
    weight = np.random.default_rng(1).random(300)
    ours = BayesianLogisticRegression(precision=precision, fit_intercept=intercept).fit(X, y, weight)
    theirs = LogisticRegression(C=1 / precision, fit_intercept=intercept, tol=1e-10, max_iter=1000).fit(X, y, weight)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)


def test_laplace_with_uncertain_features_is_the_optimum():
    X, y = made(60, [1.0, -1.0])
    variance = 0.8
    model = BayesianLogisticRegression(precision=0.5, fit_intercept=False).fit(X, y, X_variance=variance)

    def loss(w):
        return -log_likelihood(X, y, w, variance) + 0.25 * w @ w

    w = scipy.optimize.minimize(loss, np.full(2, 0.1), method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-12}).x
    np.testing.assert_allclose(model.coef_[0], w, atol=2e-5)
    assert np.abs(model.coef_).sum() < np.abs(BayesianLogisticRegression(precision=0.5).fit(X, y).coef_).sum()


@pytest.mark.parametrize("spread", [0.0, 0.3, 2.0, 12.0])
def test_expectations_under_uncertain_features(spread):
    m = np.linspace(-15, 15, 13)
    found = logistic_posterior._expected(torch.from_numpy(m), torch.full((13,), spread**2, dtype=torch.float64))
    z = np.linspace(-9, 9, 4001)
    mass = np.exp(-0.5 * z**2) / np.exp(-0.5 * z**2).sum()
    a = m[:, None] + spread * z
    for ours, exact in zip(found, (np.logaddexp(0, a), expit(a), expit(a) * expit(-a)), strict=True):
        np.testing.assert_allclose(ours, exact @ mass, atol=1e-7)


# Evidence


@pytest.mark.parametrize("weights", [[1.5], [1.0, -0.5]])
@pytest.mark.parametrize("precision", [0.2, 1.0, 10.0])
def test_evidence_against_quadrature(weights, precision):
    X, y = made(40, weights)
    exact = exact_log_evidence(X, y, precision)[0]
    laplace, bound = (
        BayesianLogisticRegression(method, precision, fit_intercept=False, tol=1e-8).fit(X, y).log_evidence_[0]
        for method in METHODS
    )
    assert abs(laplace - exact) < 0.1
    assert exact - 1.0 < bound < exact


@pytest.mark.parametrize("variance", [0.1, 1.0])
def test_bound_with_uncertain_features_is_below_quadrature(variance):
    X, y = made(30, [1.5])
    exact = exact_log_evidence(X, y, 1.0, variance=variance)[0]
    laplace, bound = (
        BayesianLogisticRegression(method, 1.0, fit_intercept=False, tol=1e-8)
        .fit(X, y, X_variance=variance)
        .log_evidence_[0]
        for method in METHODS
    )
    assert abs(laplace - exact) < 0.1
    assert exact - 3.0 < bound < exact


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("rows", "weights"), [(40, [1.5]), (60, [1.0, -0.5]), (60, [0.2, 0.1])])
def test_learnt_precision_is_where_the_evidence_is_largest(method, rows, weights):
    X, y = made(rows, weights, seed=3)
    learnt = BayesianLogisticRegression(method, fit_intercept=False, tol=1e-7).fit(X, y)
    here, *elsewhere = exact_log_evidence(X, y, learnt.precision_[0, 0], *np.geomspace(0.05, 300, 60))
    assert here > max(elsewhere) - 0.03
    for factor in (0.5, 2.0):
        there = BayesianLogisticRegression(method, learnt.precision_[0, 0] * factor, fit_intercept=False, tol=1e-7)
        assert there.fit(X, y).log_evidence_[0] < learnt.log_evidence_[0] + 1e-3


@pytest.mark.parametrize("method", METHODS)
def test_ard_finds_the_features_that_matter(method):
    X, y = made(400, [2.0, 0.0, -1.5, 0.0, 0.0])
    one, each = (BayesianLogisticRegression(method, precision).fit(X, y) for precision in ("evidence", "ard"))
    assert each.precision_[0, [0, 2]].max() < 5 < 25 < each.precision_[0, [1, 3, 4]].min()
    assert np.ptp(one.precision_) == 0
    assert each.log_evidence_ > one.log_evidence_


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("precision", ["evidence", "ard"])
def test_no_signal_means_no_weights(method, precision):
    X, _ = made(200, [0.0, 0.0])
    y = np.tile([0, 1], 100)
    X[1::2] = X[::2]  # every row with either label
    model = BayesianLogisticRegression(method, precision).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(5 * X), 0.5, atol=1e-3)


# Predictions


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("variance", [None, 0.5])
def test_predictions_against_monte_carlo(method, variance):
    X, y = made(60, [2.0, -1.0], intercept=0.5)
    model = BayesianLogisticRegression(method).fit(X, y, X_variance=variance)
    new, draws = 3 * X[:6], 400_000
    generator = np.random.default_rng(0)
    w = generator.multivariate_normal(np.append(model.coef_, model.intercept_), model.covariance_[0], size=draws)
    x = new[:, None] + np.sqrt(variance or 0.0) * generator.normal(size=(6, draws, 2))
    a = (x * w[:, :2]).sum(-1) + w[:, 2]
    mean, spread = model.decision_moments(new, variance)
    np.testing.assert_allclose(mean, a.mean(1), atol=5 * a.std() / np.sqrt(draws))
    np.testing.assert_allclose(spread, a.var(1), rtol=0.02)
    error = 5e-3 if variance is None else 0.02  # w·x is no longer normal where both are uncertain
    np.testing.assert_allclose(model.predict_proba(new, variance)[:, 1], expit(a).mean(1), atol=error)


def test_predictive_is_close_to_the_rule_of_thumb():
    X, y = made(40, [2.0, -1.0])
    model = BayesianLogisticRegression().fit(X, y)
    mean, variance = model.decision_moments(X)
    thumb = expit(mean / np.sqrt(1 + np.pi * variance / 8))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], thumb, atol=0.02)


@pytest.mark.parametrize("method", METHODS)
def test_uncertainty_moves_probabilities_towards_half(method):
    X, y = made(50, [2.0, -1.0])
    model = BayesianLogisticRegression(method).fit(X, y)
    point, uncertain = (model.predict_proba(X, variance)[:, 1] for variance in (None, [1.0, 0.0]))
    plain = expit(model.decision_moments(X).mean)
    assert (np.abs(point - 0.5) < np.abs(plain - 0.5)).all()
    assert (np.abs(uncertain - 0.5) < np.abs(point - 0.5)).all()
    np.testing.assert_allclose(model.predict_proba(X, 0.0), model.predict_proba(X), rtol=1e-12)


def test_small_probabilities_keep_their_digits():
    X, y = np.array([[-1.0], [-1.0], [1.0], [1.0]]), [0, 1, 0, 1]
    model = BayesianLogisticRegression().fit(X, y, np.array([99.0, 1.0, 1.0, 99.0]) * 1000)
    low = model.predict_proba([[8.0]])[0, 0]
    mean, variance = model.decision_moments([[8.0]])
    z = np.linspace(-10, 10, 10_001) * np.sqrt(variance)
    density = np.exp(-0.5 * z**2 / variance) / np.sqrt(2 * np.pi * variance)
    assert 0 < low < 1e-14
    np.testing.assert_allclose(low, scipy.integrate.trapezoid(expit(-mean - z) * density, z), rtol=1e-6)


def test_classes_are_each_against_the_others():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = BayesianLogisticRegression(precision=1.0).fit(X, names)
    alone = [BayesianLogisticRegression(precision=1.0).fit(X, y == k).predict_proba(X)[:, 1] for k in range(3)]
    expected = np.stack(alone, axis=1) / np.sum(alone, axis=0)[:, None]
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-9)
    assert model.coef_.shape == (3, 4) and model.covariance_.shape == (3, 5, 5)
    assert model.decision_moments(X).variance.shape == (150, 3)
    assert model.score(X, names) > 0.9


# Data of all kinds


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("precision", [1e-2, "evidence", "ard"])
def test_separable_classes_do_no_harm(method, precision):
    X = np.concatenate([np.linspace(-2, -1, 20), np.linspace(1, 2, 20)])[:, None]
    y = (X[:, 0] > 0).astype(int)
    model = BayesianLogisticRegression(method, precision).fit(X, y)
    probs = model.predict_proba(X)[:, 1]
    assert np.isfinite(model.coef_).all() and np.abs(model.coef_).max() < 100
    assert ((probs > 0.5) == y).all() and 0.2 < model.predict_proba([[0.0]])[0, 1] < 0.8


def test_separable_classes_with_hardly_a_prior():
    X = np.concatenate([np.linspace(-2, -1e-3, 50), np.linspace(1e-3, 2, 50)])[:, None] * 1e3
    y = (X[:, 0] > 0).astype(int)
    model = BayesianLogisticRegression(precision=1e-12).fit(X, y)
    assert np.isfinite(model.coef_).all() and model.score(X, y) == 1.0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("precision", [1.0, "evidence", "ard"])
@pytest.mark.parametrize("value", [0.0, 3.0])
def test_a_constant_column_changes_little(method, precision, value):
    X, y = made(200, [1.0, -1.0])
    plain = BayesianLogisticRegression(method, precision).fit(X, y)
    wider = BayesianLogisticRegression(method, precision).fit(np.column_stack([X, np.full(200, value)]), y)
    probs = wider.predict_proba(np.column_stack([X, np.full(200, value)]))
    np.testing.assert_allclose(probs, plain.predict_proba(X), atol=0.03)
    if value == 0.0:
        assert wider.coef_[0, 2] == 0.0


@pytest.mark.parametrize("method", METHODS)
def test_weights_stand_for_rows(method):
    X, y = made(60, [1.0, -1.0])
    times = np.random.default_rng(0).integers(0, 4, size=60)
    variance = np.random.default_rng(1).random(X.shape)
    weighted = BayesianLogisticRegression(method).fit(X, y, times, variance)
    repeated = BayesianLogisticRegression(method).fit(
        X.repeat(times, 0), y.repeat(times), X_variance=variance.repeat(times, 0)
    )
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-7)
    np.testing.assert_allclose(weighted.covariance_, repeated.covariance_, rtol=1e-7)
    np.testing.assert_allclose(weighted.log_evidence_, repeated.log_evidence_, rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("variance", [None, 0.3])
def test_chunks_change_nothing(method, variance, monkeypatch):
    X, y = made(101, [1.0, -1.0])
    whole = BayesianLogisticRegression(method).fit(X, y, X_variance=variance)
    probs = whole.predict_proba(X, variance)
    monkeypatch.setattr(logistic_posterior, "_ELEMENTS", 30)  # ten rows at a time
    parts = BayesianLogisticRegression(method).fit(X, y, X_variance=variance)
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-9)
    np.testing.assert_allclose(parts.predict_proba(X, variance), probs, rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("variance", [None, 0.3])
def test_diagonal_posterior_is_exact_for_features_that_never_meet(method, variance, monkeypatch):
    X = np.eye(4).repeat(30, 0) * 2.0
    y = (np.random.default_rng(0).random(120) < X @ [0.45, 0.3, 0.2, 0.1]).astype(int)
    settings = {"method": method, "fit_intercept": False}
    full = BayesianLogisticRegression(**settings).fit(X, y, X_variance=variance)
    monkeypatch.setattr(bayesian_logistic, "_MOST_FEATURES", 3)
    diagonal = BayesianLogisticRegression(**settings).fit(X, y, X_variance=variance)
    assert diagonal.covariance_.shape == (1, 4)
    np.testing.assert_allclose(diagonal.coef_, full.coef_, atol=1e-5)
    np.testing.assert_allclose(diagonal.covariance_[0], np.diagonal(full.covariance_[0]), rtol=1e-4)
    np.testing.assert_allclose(diagonal.predict_proba(X, variance), full.predict_proba(X, variance), atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_diagonal_posterior_has_the_same_optimum(method, monkeypatch):
    X, y = made(200, [1.0, -1.0, 0.5], intercept=0.3)
    full = BayesianLogisticRegression(method, 1.0, tol=1e-9).fit(X, y)
    monkeypatch.setattr(bayesian_logistic, "_MOST_FEATURES", 2)
    diagonal = BayesianLogisticRegression(method, 1.0, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(diagonal.coef_, full.coef_, atol=1e-5 if method == "laplace" else 0.01)
    assert (diagonal.covariance_[0] <= np.diagonal(full.covariance_[0]) * 1.001).all()
    assert diagonal.log_evidence_ <= full.log_evidence_
