"""Logistic regression with a posterior over its weights, on features that may be distributions."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from torchnpn import settings
from torchnpn.estimators import ArrayMoments, ProbabilisticClassifier, all_or_nothing, state
from torchnpn.io import StoredEstimator, checks
from torchnpn.logistic.posterior import Posterior, Rows, fit_posterior, linear_moments
from torchnpn.maps import accurate
from torchnpn.moments import Moments
from torchnpn.rows import distinct_labels, largest_of, validation

Array = NDArray[Any]
_LARGEST = 1e60  # of a feature: its square, times a variance of its weight, is a float64 number yet
_MOST_ROUNDS = 100_000
_MOST_FEATURES = 1000  # with a full covariance
_METHODS, _PRIORS = ("laplace", "variational"), ("evidence", "ard")


class BayesianLogisticRegression(ProbabilisticClassifier, StoredEstimator):
    """Logistic regression p(y = 1 | x, w) = σ(w·x + b) with a Gaussian posterior over w and b (Bishop 2006, 4.5, 10.6).

    Features may be uncertain: given their variances, training maximises the expected log-likelihood, and a
    prediction is E σ(a) with the mean and variance of a = w·x + b over both the weights and the features,

        a_m = m_w·m_x + m_b,    a_s = m_xᵀ S m_x + s_x·(m_w² + diag S).

    Several classes are one problem each against the others, and their probabilities are scaled to one. The posterior
    has a full covariance up to 1,000 features, and a diagonal one beyond. The prior does not know the units of the
    features: scale them alike first. The intercept's prior has a standard deviation of 1,000.

    Args:
        method: "laplace", a Gaussian at the posterior's maximum with the curvature there; or "variational", the best
            Gaussian under the local bound of Jaakkola and Jordan, whose evidence is a lower bound.
        precision: Of the weights' prior N(0, 1/precision): "evidence" learns one for all features, "ard" one for each;
            or a number above 0.
        fit_intercept: Whether there is b.
        max_iter: Most rounds of learning the prior, or of the bound.
        tol: A gain in log evidence, in nats, that is too small to go on for.

    Attributes:
        classes_: Labels.
        coef_: Posterior means of the weights, (problems, features); one problem for two classes.
        intercept_: Those of the intercepts, (problems,).
        covariance_: Of weights and then intercept, (problems, n, n); or variances (problems, n).
        precision_: Of the prior, (problems, features).
        log_evidence_: log p(y) or its bound, (problems,).
        n_iter_: Rounds of the longest problem.

    Examples:
        >>> from sklearn.datasets import load_breast_cancer
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> X = (X - X.mean(0)) / X.std(0)
        >>> model = BayesianLogisticRegression().fit(X, y)
        >>> model.score(X, y) > 0.97
        True
        >>> sure, unsure = model.predict_proba(X[:1])[0, 0], model.predict_proba(X[:1], X_variance=4.0)[0, 0]
        >>> bool(sure > unsure > 0.5)
        True
    """

    coef_: Array
    intercept_: Array
    covariance_: Array
    precision_: Array
    log_evidence_: Array
    n_iter_: int
    n_features_in_: int

    def __init__(
        self,
        method: str = "laplace",
        precision: str | float = "evidence",
        *,
        fit_intercept: bool = True,
        max_iter: int = 500,
        tol: float = 1e-4,
    ) -> None:
        self.method, self.precision, self.fit_intercept = method, precision, fit_intercept
        self.max_iter, self.tol = max_iter, tol

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None, X_variance: Any = None) -> Self:
        """Learn from rows X (rows, features) and labels y (rows,).

        Args:
            X: Features, or their means.
            y: Labels of two classes or more.
            sample_weight: (rows,) how many rows each one stands for.
            X_variance: Variances of the features: a number, one for each feature, or the shape of X.
        """
        self._check_settings()
        X, y = validation.checked_data(self, X, y, reset=True)
        _check_size(X)
        distinct_labels(y)  # which says in words what cannot be sorted
        check_classification_targets(y)
        given = validation.checked_weight(sample_weight, X)
        weight = np.ones(len(X)) if given is None else given
        self.classes_ = distinct_labels(y[weight > 0])
        if len(self.classes_) < 2:
            raise ValueError(f"A classifier expects at least two classes, got one class: {self.classes_.tolist()}.")
        variance = _variance_of_size(X_variance, X)
        validation.check_enough_rows(self, X, given)
        positive = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        posteriors = [self._fit_one(X, variance, y == label, weight) for label in positive]
        features = X.shape[1]
        means = np.stack([posterior.mean.numpy() for posterior in posteriors])
        self.coef_ = means[:, :features]
        self.intercept_ = means[:, features] if self.fit_intercept else np.zeros(len(positive))
        self.covariance_ = np.stack([posterior.covariance.numpy() for posterior in posteriors])
        self.precision_ = np.stack([posterior.precision[:features].numpy() for posterior in posteriors])
        self.log_evidence_ = np.array([posterior.log_evidence for posterior in posteriors])
        self.n_iter_ = max(posterior.iterations for posterior in posteriors)
        return self

    def _fit_one(self, X: Array, variance: Array | None, is_class: Array, weight: Array) -> Posterior:
        """The posterior for one class against the others."""
        labels, weights = (torch.from_numpy(values.astype(np.float64)) for values in (is_class, weight))
        posterior = fit_posterior(
            Rows(X, variance, labels, weights, bool(self.fit_intercept)),
            self.precision if isinstance(self.precision, str) else float(self.precision),
            self.method,
            diagonal=X.shape[1] > _MOST_FEATURES,
            max_iter=int(self.max_iter),
            tol=float(self.tol),
        )
        if not posterior.converged:
            warnings.warn(
                f"The evidence still changes by more than {self.tol} nats after {self.max_iter} iterations. Scale the "
                "features alike, or raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=5,
            )
        return posterior

    def _check_settings(self) -> None:
        settings.check_choice("method", self.method, _METHODS)
        settings.check_flag("fit_intercept", self.fit_intercept)
        settings.check_number("precision", self.precision, settings.POSITIVE, words=_PRIORS)
        settings.check_count("max_iter", self.max_iter, _MOST_ROUNDS)
        settings.check_number("tol", self.tol, settings.POSITIVE)

    def decision_moments(self, X: Any, X_variance: Any = None) -> ArrayMoments:
        """Mean and variance of a = w·x + b for each row, (rows,); (rows, classes) for more than two."""
        return ArrayMoments(*(part.numpy() for part in self._decision(X, X_variance)))  # type: ignore[union-attr]

    def _decision(self, X: Any, X_variance: Any) -> Moments:
        check_is_fitted(self, "coef_")
        X = validation.checked_data(self, X, reset=False)
        _check_size(X)
        none = torch.empty(0)
        rows = Rows(X, _variance_of_size(X_variance, X), none, none, bool(self.fit_intercept))
        weights = np.column_stack([self.coef_, self.intercept_]) if self.fit_intercept else self.coef_
        mean, variance = torch.empty(2, len(X), len(weights), dtype=torch.float64)
        for part, x, s in rows.chunks():
            for k, posterior in enumerate(zip(weights, self.covariance_, strict=True)):
                mean[part, k], variance[part, k] = linear_moments(x, s, *map(torch.tensor, posterior))
        if not bool(mean.isfinite().all() & variance.isfinite().all()):
            raise ValueError(
                "X expects features whose log-odds are floating-point numbers, got some that are too large. Scale "
                "the features alike, or take a larger precision."
            )
        return Moments(mean[:, 0], variance[:, 0]) if len(self.classes_) == 2 else Moments(mean, variance)

    def predict_proba(self, X: Any, X_variance: Any = None) -> Array:
        """E σ(a) of each row, (rows, classes), in the order of `classes_`."""
        a = self._decision(X, X_variance)
        probs: Array = accurate.sigmoid(a).mean.numpy()
        if len(self.classes_) == 2:
            other: Array = accurate.sigmoid(-a).mean.numpy()  # not 1 - p, which loses the digits of small ones
            return np.stack([other, probs], axis=1)
        if (lost := probs.sum(axis=1) == 0).any():  # far from all classes E σ(a) → exp(a_m + a_s/2), below all numbers
            probs[lost] = torch.softmax(a.mean + 0.5 * a.variance, 1).numpy()[lost]  # type: ignore[operator]
        scaled: Array = probs / probs.sum(axis=1, keepdims=True)
        return scaled

    # Model files -------------------------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """All that predictions need, as plain values and arrays."""
        check_is_fitted(self, "coef_")
        plain = {
            **state.plain_model(self),
            "classes": state.plain_labels(self.classes_),
            "iterations": int(self.n_iter_),
        }
        learnt_names = ("coef", "intercept", "covariance", "precision", "log_evidence")
        return plain, {name: getattr(self, f"{name}_") for name in learnt_names}

    @classmethod
    def _from_state(cls, plain: dict[str, Any], arrays: dict[str, Any]) -> Self:
        """The inverse of `_state`; a ValueError for anything that `_state` cannot have written."""
        model = state.new_model(cls, plain)
        features = model.n_features_in_
        model.classes_ = state.checked_labels(plain.get("classes"))
        model.n_iter_ = checks.size("iterations", plain.get("iterations"))
        problems = 1 if len(model.classes_) == 2 else len(model.classes_)
        size = features + bool(model.fit_intercept)
        shapes = {
            "coef": (problems, features),
            "intercept": (problems,),
            "covariance": (problems, size, size) if features <= _MOST_FEATURES else (problems, size),
            "precision": (problems, features),
            "log_evidence": (problems,),
        }
        for name, shape in shapes.items():
            setattr(model, f"{name}_", checks.array(name, arrays, shape))
        if features <= _MOST_FEATURES:
            checks.covariance("covariance", model.covariance_)
        elif (model.covariance_ < 0).any():
            raise ValueError("covariance should have variances ≥ 0, got others")
        state.check_complete(plain, arrays, model)
        return model


def _variance_of_size(X_variance: Any, X: Array) -> Array | None:
    variance = validation.checked_variance(X_variance, X)
    if variance is not None and (largest := largest_of(variance)) > _LARGEST**2:
        raise ValueError(f"X_variance expects variances up to {_LARGEST**2:g}, got {largest:.4g}. Scale the features.")
    return variance


def _check_size(X: Array) -> None:
    """Raise for features whose squares are too large."""
    largest = largest_of(X)
    if largest > _LARGEST:
        column = int(np.abs(X).max(axis=0).argmax())
        raise ValueError(
            f"X expects features up to {_LARGEST:g} in size, got {largest:.4g} in column {column} (from 0). Scale the "
            "features alike, for instance to unit variance."
        )
