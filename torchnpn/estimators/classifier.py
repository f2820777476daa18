"""Classification with probabilities that take their uncertainty into account."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from torchnpn.estimators import state
from torchnpn.estimators.atomic import all_or_nothing
from torchnpn.estimators.base import NPNEstimator, Progress
from torchnpn.estimators.inputs import Inputs, check_variance
from torchnpn.estimators.labels import distinct_labels, places_among
from torchnpn.estimators.predictive import ArrayVarianceParts, ClassPredictive
from torchnpn.estimators.validation import check_enough_rows, check_progress, checked_weight, score_weight, short
from torchnpn.likelihoods import Likelihood, ScaledSoftmax, mixed
from torchnpn.nn import replicas_of

Array = NDArray[Any]
_LEAST = np.finfo(np.float64).tiny


class NPNClassifier(ClassifierMixin, NPNEstimator):  # type: ignore[misc]
    """A network with Gaussian weights whose logits are distributions: their uncertainty softens the probabilities.

    Features are treated as by `NPNRegressor`: standardised, NaN as a missing value.

    Args:
        hidden: Units of each hidden layer.
        activation: Name of a map, such as "relu", "tanh", "silu".
        missing: What NaN in X stands for: "marginal", the mean and variance of its feature in the training rows; or
            "conditional", those given the other values of its row, better where features say much about each other.
        dropout: Probability of dropping a hidden unit in training.
        adversarial: How far each row is moved against its label before it is learnt from, in standard deviations of the
            features (`Recipe`); about 1 helps where many features say the same, as pixels do. Training takes twice as
            long.
        kl_weight: Weight of the KL from the weights' prior at the end of training; Bayes' rule would be 1, which leaves
            probabilities too timid.
        learning_rate: Of Adam; falls to zero along half a cosine.
        batch_size: Rows in a minibatch; None chooses by the number of rows.
        max_epochs: Passes over the rows; None chooses by the number of rows.
        n_estimators: Networks to train, each from its own start and with its own order of rows; several predict a
            mixture, and what they disagree on counts as epistemic.
        device: "auto" (a GPU, if there is one and the network is not small), "cpu", "cuda", …
        random_state: Seed, for the same result every time.
        verbose: 1 prints ten lines on the way.

    Examples:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = NPNClassifier(random_state=0, max_epochs=300).fit(X, y)
        >>> model.score(X, y) > 0.95
        True
        >>> bool(model.predict_dist([[5.0, 5.0, 5.0, 5.0]]).entropy > model.predict_dist(X[:1]).entropy)
        True
    """

    classes_: Array

    def __init__(
        self,
        hidden: tuple[int, ...] = (50,),
        activation: str = "relu",
        *,
        missing: str = "marginal",
        dropout: float = 0.0,
        adversarial: float = 0.0,
        kl_weight: float = 0.2,
        learning_rate: float = 3e-3,
        batch_size: int | None = None,
        max_epochs: int | None = None,
        n_estimators: int = 1,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.hidden, self.activation = hidden, activation
        self.missing, self.dropout, self.adversarial = missing, dropout, adversarial
        self.kl_weight, self.learning_rate = kl_weight, learning_rate
        self.batch_size, self.max_epochs, self.n_estimators = batch_size, max_epochs, n_estimators
        self.device, self.random_state, self.verbose = device, random_state, verbose

    # Learning ----------------------------------------------------------------------------------------------------

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        X_variance: Any = None,
        progress: Progress | None = None,
        subsets: Any = None,
    ) -> NPNClassifier:
        """Learn from rows X (rows, features) and labels y (rows,), of any type that can be sorted.

        Args:
            X: Array, frame or CSR matrix; NaN where a value is missing.
            y: Labels.
            sample_weight: (rows,) how many rows each one stands for.
            X_variance: Variances of measurement errors: a number, one for each feature, or the shape of X.
            progress: Called with the share of training that is done, from 0 to 1.
            subsets: (n_estimators, n) numbers of the rows that each network may see, as for a bootstrap or
                cross-validation; None: all see all. Scales of features and targets are those of all rows.
        """
        self._check_settings()
        check_progress(progress)
        X, y = self._check_rows(X, y, reset=True)
        classes = distinct_labels(y)
        check_classification_targets(y)
        weight = checked_weight(sample_weight, X)
        rows = self._check_subsets(subsets, X, weight)
        self._begin(X, classes, weight)
        x = self.inputs_.moments(X, check_variance(X_variance, X))
        check_enough_rows(self, X, weight)
        self._train(x, self._numbers(y), weight, progress, rows)
        return self

    @all_or_nothing
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, X_variance: Any = None
    ) -> NPNClassifier:
        """One pass over more rows, from where the weights are.

        Args:
            X: As for `fit`; scales of features stay as first learnt.
            y: Labels.
            classes: All labels that will ever come; needed in the first call.
            sample_weight: As for `fit`.
            X_variance: As for `fit`.
        """
        self._check_settings()
        first = not hasattr(self, "network_")
        X, y = self._check_rows(X, y, reset=first)
        distinct_labels(y)  # which says in words what cannot be sorted
        check_classification_targets(y)
        weight = checked_weight(sample_weight, X)
        if first:
            if classes is None:
                raise ValueError("partial_fit expects classes= in its first call: all labels that will ever come.")
            self._begin(X, distinct_labels(classes, "classes"), weight)
        elif classes is not None and not np.array_equal(distinct_labels(classes, "classes"), self.classes_):
            raise ValueError(
                f"partial_fit expects the classes of its first call, {short(self.classes_)}, got {short(classes)}."
            )
        self._train_on(self.inputs_.moments(X, check_variance(X_variance, X)), self._numbers(y), weight)
        return self

    def _begin(self, X: Any, classes: Array, weight: Array | None) -> None:
        if len(classes) < 2:
            raise ValueError(f"A classifier expects at least two classes, got one class: {classes.tolist()}.")
        self.classes_ = classes
        self.inputs_ = Inputs.learn(X, weight, self.missing)
        self._start(X.shape[0], X.shape[1], len(classes), ScaledSoftmax(len(classes)))

    def _numbers(self, y: Array) -> Array:
        """Labels as numbers from zero."""
        place, known = places_among(self.classes_, y)
        if not known.all():
            raise ValueError(
                f"y expects labels among {short(self.classes_.tolist())}, got {short(y[~known][:10].tolist())}."
            )
        return place.astype(np.int64)

    # Predicting --------------------------------------------------------------------------------------------------

    def predict(self, X: Any, *, X_variance: Any = None) -> Array:
        """The most probable label of each row."""
        probs = self.predict_proba(X, X_variance=X_variance)
        labels: Array = self.classes_[probs.argmax(axis=1)]
        return labels

    def predict_proba(self, X: Any, *, X_variance: Any = None) -> Array:
        """Probabilities (rows, classes), in the order of `classes_`."""
        return self.predict_dist(X, X_variance=X_variance).probs

    def predict_log_proba(self, X: Any, *, X_variance: Any = None) -> Array:
        """Logarithms of `predict_proba`; -708 for a probability that is too small for float64."""
        logs: Array = np.log(np.maximum(self.predict_proba(X, X_variance=X_variance), _LEAST))
        return logs

    def predict_dist(self, X: Any, *, X_variance: Any = None) -> ClassPredictive:
        """The predictive distribution over the classes of each row."""
        check_is_fitted(self, "network_")
        with torch.no_grad():
            classes = self.likelihood_.predict(self._latent(X, X_variance))
        return ClassPredictive(self.classes_, (mixed(classes) if replicas_of(self.network_) else classes).mean.numpy())

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose most probable label is theirs."""
        distinct_labels(y)  # which says in words what cannot be compared
        return float(super().score(X, y, score_weight(sample_weight)))

    def predict_variance(self, X: Any, *, X_variance: Any = None) -> ArrayVarianceParts:
        """Variance p (1 - p) of each class (rows, classes), and its epistemic and aleatoric parts."""
        check_is_fitted(self, "network_")
        with torch.no_grad():
            parts = self._variance_parts(self._latent(X, X_variance))
        return ArrayVarianceParts(*(part.numpy() for part in parts))

    def log_likelihood(self, X: Any, y: Any, *, X_variance: Any = None) -> Array:
        """log p(label) of each row in nats."""
        return self.predict_dist(X, X_variance=X_variance).log_prob(y)

    # Model files -------------------------------------------------------------------------------------------------

    @property
    def _targets(self) -> int:
        return len(self.classes_)

    def _plain_target(self) -> dict[str, Any]:
        return {"classes": state.plain_labels(self.classes_)}

    def _read_target(self, plain: dict[str, Any], arrays: dict[str, Any]) -> Likelihood:
        self.classes_ = state.checked_labels(plain.get("classes"))
        return ScaledSoftmax(len(self.classes_))
