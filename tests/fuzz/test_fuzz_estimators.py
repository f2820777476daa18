"""Estimators on odd data and odd settings: finite answers, or an error in words; never a warning of torch or numpy."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning
from support.fuzzing import generator, rounds

from torchnpn import (
    BayesianLogisticRegression,
    DocumentAutoencoder,
    NPNAutoencoder,
    NPNClassifier,
    NPNRegressor,
)

HURDLES = ("hurdle_gamma", "hurdle_lognormal")
ZERO_INFLATED = ("zero_inflated_poisson", "zero_inflated_negative_binomial")
FAMILIES = (
    "gaussian",
    "student_t",
    "gamma",
    "lognormal",
    "poisson",
    "negative_binomial",
    "beta",
    *ZERO_INFLATED,
    *HURDLES,
)
WORDS = (("gaussian", "bce"), ("gaussian", "l2"), ("gamma", None), ("gamma", "gamma"), ("poisson", None))


def pick(rng, *options):
    return options[rng.integers(len(options))]


# Data ----------------------------------------------------------------------------------------------------------------


def magnitude(rng):
    """Mostly ordinary, sometimes anywhere in float64."""
    return 10.0 ** (rng.integers(-320, 309) if rng.random() < 0.4 else rng.integers(-3, 4))


def column(rng, rows):
    """One feature, ordinary or not."""
    kind = rng.integers(9)
    with np.errstate(over="ignore", under="ignore"):
        x = rng.normal(size=rows) * magnitude(rng)
        if kind == 0:
            x = np.full(rows, x[0])
        elif kind == 1:
            x = np.where(rng.random(rows) < 0.4, np.nan, x)
        elif kind == 2:
            x = np.full(rows, np.nan)
        elif kind == 3:
            x[rng.integers(rows)] = magnitude(rng) * pick(rng, -1, 1)
        elif kind == 4:
            x = x + magnitude(rng)
        elif kind == 5:
            x = np.round(rng.normal(size=rows)).astype(float)
    return np.nan_to_num(x, nan=np.nan, posinf=1e308, neginf=-1e308)


def container(rng, X):
    """The same numbers as people hand them over."""
    kind = rng.integers(14)
    with np.errstate(over="ignore", invalid="ignore"):
        if kind == 0:
            return X.astype(np.float32)
        if kind == 1:
            return X.astype(np.float16)
        if kind == 2:
            return X.astype(object)
        if kind == 3:
            return np.nan_to_num(X).clip(-9e18, 9e18).astype(np.int64)
        if kind == 4:
            return X > 0
    if kind == 5:
        return X[::-1]
    if kind == 6:
        X.flags.writeable = False
        return X
    if kind == 7:
        return np.asfortranarray(X)[:, ::-1]
    if kind == 8:
        return pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
    if kind == 9:
        return pd.DataFrame(X).rename(columns=str).astype("Float64")
    if kind == 10:
        return np.ma.masked_array(X, np.isnan(X) | (np.arange(X.shape[1]) == 0))
    if kind == 11:
        return pick(rng, scipy.sparse.csr_matrix, scipy.sparse.coo_array, scipy.sparse.csc_matrix)(np.nan_to_num(X))
    if kind == 12:
        return X.tolist()
    return X


def features(rng, rows):
    X = np.stack([column(rng, rows) for _ in range(rng.integers(1, 5))], axis=1)
    return container(rng, X[rng.integers(rows, size=rows)] if rng.random() < 0.1 else X)


def targets(rng, rows, family):
    size = magnitude(rng)
    with np.errstate(over="ignore"):
        y = {
            "gaussian": lambda: rng.normal(size=rows) * size + pick(rng, 0.0, 1.0, magnitude(rng)),
            "student_t": lambda: rng.standard_t(pick(rng, 0.5, 2.0, 30.0), rows) * size,
            "gamma": lambda: rng.gamma(1.0, size=rows) * size,
            "lognormal": lambda: rng.lognormal(0.0, pick(rng, 0.01, 1.0, 4.0), rows) * size,
            "poisson": lambda: np.floor(rng.poisson(1.0, rows) * max(size, 1.0)),
            "negative_binomial": lambda: np.floor(rng.poisson(rng.gamma(0.5, size=rows)) * max(size, 1.0)),
            **dict.fromkeys(ZERO_INFLATED, lambda: np.floor(rng.poisson(rng.gamma(0.1, size=rows)) * max(size, 1.0))),
            **dict.fromkeys(HURDLES, lambda: rng.poisson(1.0, rows) * rng.lognormal(0.0, 1.0, rows) * size),
            "beta": lambda: 0.5 + 0.5 * rng.uniform(-1, 1, rows) * (1 - min(size, 0.5)),
        }[family]()
    if rng.random() < 0.2:
        y[rng.integers(rows)] = pick(rng, 0.0, 1.0, -1.0, 1e-320, 1e300, 1e6, np.nan, np.inf, 1 - 1e-13)
    if rng.random() < 0.1:
        y = np.stack([y, y[::-1]], axis=1)
    kind = rng.integers(8)
    if kind == 0:
        return y[::-1]
    if kind == 1:
        y.flags.writeable = False
    if kind == 2 and y.ndim == 1:
        return pd.Series(y)
    if kind == 3:
        return y.astype(object)
    if kind == 4:
        return y.tolist()
    if kind == 5:
        return np.ma.masked_array(y, rng.random(y.shape) < 0.05)
    return y


def labels(rng, rows):
    kind = rng.integers(6)
    count = pick(rng, 1, 2, 2, 3, rows)
    y = rng.integers(count, size=rows)
    if kind == 0:
        return np.array(["no", "yes", "perhaps"] + [f"label {i}" for i in range(rows)])[y]
    if kind == 1:
        return pd.Series(y == 0)
    if kind == 2:
        return y[::-1].astype(object)
    if kind == 3:
        return (y * 10**18).tolist()
    if kind == 4:
        return pd.Series(y).astype("category")
    return y


def weights(rng, rows):
    kind = rng.integers(8)
    if kind > 4:
        return None
    with np.errstate(over="ignore"):
        w = rng.random(rows) * pick(rng, 1.0, 1.0, magnitude(rng))
    if kind == 0:
        w = np.where(rng.random(rows) < 0.5, 0.0, w)
    return pick(rng, w, w[::-1], w.tolist(), 0.0 * w, w.clip(0, 1e30).astype(np.float32)) if kind < 4 else 1.0


# Settings ------------------------------------------------------------------------------------------------------------


def settings(rng):
    """Quick ones, and now and then one that makes no sense."""
    made = {"max_epochs": int(rng.integers(1, 4)), "random_state": int(rng.integers(100)), "hidden": (4,)}
    odd = {
        "hidden": [
            (),
            (1,),
            (3, 2),
            [5],
            (0,),
            (10**12,),
            (10**8,),
            (5,) * 200,
            (2.0,),
            "50",
            (10**5000,),
            (2**17,) * 3,
        ],
        "activation": ["tanh", "silu", "softplus", "sigmoid", "nothing", 3],
        "missing": ["conditional", "mean"],
        "dropout": [0.0, 0.5, 0.999, 1.0, -1, "a", np.nan],
        "kl_weight": [0.0, 1.0, 1e3, 1e300, -1.0, np.inf, 1e-300],
        "learning_rate": [1e-300, 1e-5, 1.0, 10.0, 1e30, 0, np.nan],
        "batch_size": [1, 3, 10**9, 10**30, 0, -1, 2.5],
        "max_epochs": [1, 10**12, 0, -1, "3", None, True],
        "device": ["cpu", "auto", "meta", "cuda:99", "nothing", 3, None],
        "random_state": [None, 2**32, -1, np.random.default_rng(0), np.random.RandomState(0), "a", 1.5, 2**70],
        "verbose": [0],
    }
    for name in rng.permutation(list(odd))[: pick(rng, 0, 0, 1, 1, 2)]:
        value = pick(rng, *odd[name])
        made[str(name)] = 1 if name == "max_epochs" and value is None else value
    return made


# Promises ------------------------------------------------------------------------------------------------------------


class Refused(Exception):
    """The error was one in words."""


def tried(function, *args, **options):
    """What a call returns; `Refused` for an error in words. All warnings but those we promise are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message=".*rows only")
        warnings.filterwarnings("ignore", message="Sparse CS[RC] tensor support is in beta")  # of torch
        warnings.filterwarnings("ignore", message="The number of unique classes is greater than 50%")  # scikit-learn's
        try:
            return function(*args, **options)
        except (ValueError, TypeError, AttributeError) as error:
            if len(str(error).split()) < 3:  # not a sentence
                raise
            raise Refused from error


def finite(*arrays):
    for array in arrays:
        assert np.isfinite(np.asarray(array, dtype=np.float64)).all(), array


def check_regressor(rng, model, X):
    mean, std = tried(model.predict, X, return_std=True)
    finite(mean, std)
    assert (std >= 0).all()
    parts = tried(model.predict_variance, X)
    finite(*parts)
    assert all((part >= 0).all() for part in parts)
    low, high = tried(model.predict_interval, X, pick(rng, 0.5, 0.9, 1e-9, 1 - 1e-9))
    finite(low, high)
    assert (low <= high).all()
    finite(tried(model.predict_quantile, X, [0.1, 0.5, 0.9]))


def check_classifier(rng, model, X):
    probs = tried(model.predict_proba, X)
    assert ((probs >= 0) & (probs <= 1 + 1e-9)).all()
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-6)
    finite(tried(model.predict_log_proba, X))
    assert set(tried(model.predict, X)) <= set(model.classes_)


def check_autoencoder(rng, model, X):
    code = tried(model.transform_dist, X)
    finite(*code, tried(model.score_samples, X), tried(model.inverse_transform, code.mean))
    assert (code.variance >= 0).all()


def check_logistic(rng, model, X):
    finite(*tried(model.decision_moments, X))
    check_classifier(rng, model, X)


def early_end(rng):
    """Settings of rows that say when to stop, now and then."""
    if rng.random() < 0.6:
        return {}
    return {
        "patience": pick(rng, 1, 1, 1, 2, 10**12, 0, "3", 1.5),
        "validation_fraction": pick(rng, 0.1, 0.1, 0.5, 0.999, 1e-300, 0.0, 1.0, "a", np.nan),
        "warm_start": pick(rng, False, False, True, "yes"),
    }


def one_case(rng):
    """An estimator, what it is fitted on, and the check of its answers."""
    rows, kind = int(pick(rng, 1, 2, 3, 12, 12, 40)), rng.integers(10)
    X, weight = features(rng, rows), weights(rng, rows)
    if kind < 4:
        family = pick(rng, *FAMILIES)
        model = NPNRegressor(family, **settings(rng), **early_end(rng), effort="quick")
        model.set_params(noise=pick(rng, "varying", "constant"))
        members = pick(rng, 1, 1, 1, 1, 1, 1, 2, 2, 2, 10**9, 0, "2")
        return model.set_params(n_estimators=members), (X, targets(rng, rows, family), weight), check_regressor
    if kind < 6:
        model = NPNClassifier(**settings(rng), **early_end(rng))
        model.set_params(adversarial=pick(rng, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1e300, -1))
        return model.set_params(n_estimators=pick(rng, 1, 1, 3)), (X, labels(rng, rows), weight), check_classifier
    if kind == 6:
        return NPNAutoencoder(**settings(rng)), (X, None, weight), check_autoencoder
    if kind == 7:
        family, loss = pick(rng, *WORDS)
        counts = np.floor(rng.poisson(1.0, (rows, 5)) * pick(rng, 1.0, 1.0, magnitude(rng)))
        made = {
            name: value for name, value in settings(rng).items() if name not in ("activation", "missing", "dropout")
        }
        return DocumentAutoencoder(family, loss=loss, **made), (counts,), check_autoencoder
    model = BayesianLogisticRegression(
        pick(rng, "laplace", "variational"),
        pick(rng, "evidence", "ard", 1.0, 1e-300, 1e300, 0),
        fit_intercept=bool(rng.integers(2)),
        max_iter=pick(rng, 1, 20, 10**9),
        tol=pick(rng, 1e-4, 1e-300),
    )
    return model, (X, labels(rng, rows), weight), check_logistic


@pytest.mark.slow
def test_odd_data_and_settings(record_property):
    rng, count = generator("estimators"), rounds(80)
    answered = sum(is_answered(rng) for _ in range(count))
    record_property("inputs", count)
    assert 0.1 * count < answered < count


def is_answered(rng):
    """Whether a case was learnt from; raises for a broken promise."""
    model, data, check = one_case(rng)
    try:
        tried(model.fit, *data)
    except Refused:
        return False
    for X in (data[0], elsewhere(rng, model)):
        try:
            check(rng, model, X)
        except Refused:
            pass
    return True


def elsewhere(rng, model):
    """Rows of any size, few of them near those it was fitted on."""
    with np.errstate(over="ignore"):
        X = rng.normal(size=(3, model.n_features_in_)) * magnitude(rng)
    X = np.nan_to_num(X, posinf=1e308, neginf=-1e308)
    return pd.DataFrame(X, columns=names) if (names := getattr(model, "feature_names_in_", None)) is not None else X
