"""Classification with probabilities that take their uncertainty into account."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight

from torchnpn.conformal import HeldOut, class_scores, class_sets, softened, temperature
from torchnpn.estimators import calibration, state
from torchnpn.estimators.learning import all_or_nothing
from torchnpn.estimators.predictive import ArrayVarianceParts, ClassPredictive
from torchnpn.estimators.supervised import SupervisedEstimator
from torchnpn.families import Distribution
from torchnpn.io import checks
from torchnpn.likelihoods import Likelihood, OrderedClasses, ScaledSoftmax
from torchnpn.moments import Moments
from torchnpn.rows import check_labels, checked_weight, distinct_labels, places_among, real_numbers, score_weight
from torchnpn.settings import check_class_weight, check_flag, short

Array = NDArray[Any]
_LEAST = np.finfo(np.float64).tiny


class ProbabilisticClassifier(ClassifierMixin):  # type: ignore[misc]
    """What follows from `predict_proba` and `classes_`."""

    classes_: Array

    @abstractmethod
    def predict_proba(self, X: Any, X_variance: Any = None) -> Array:
        """Probabilities (rows, classes), in the order of `classes_`."""

    def predict_log_proba(self, X: Any, X_variance: Any = None) -> Array:
        """Logarithms of `predict_proba`; -708 for a probability that is too small for float64."""
        logs: Array = np.log(np.maximum(self.predict_proba(X, X_variance=X_variance), _LEAST))
        return logs

    def predict(self, X: Any, X_variance: Any = None) -> Array:
        """The most probable label of each row."""
        probs = self.predict_proba(X, X_variance=X_variance)
        labels: Array = self.classes_[probs.argmax(axis=1)]
        return labels

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose most probable label is theirs."""
        distinct_labels(y)  # which says in words what cannot be compared
        return float(super().score(X, y, score_weight(sample_weight)))


class NPNClassifier(ProbabilisticClassifier, SupervisedEstimator):
    """A network with Gaussian weights whose logits are distributions: their uncertainty softens the probabilities.

    Features are treated as by `NPNRegressor`: standardised, NaN as a missing value.

    Args:
        hidden: Units of each hidden layer.
        activation: Name of a map, such as "relu", "tanh", "silu".
        ordered: Whether the sorted labels have an order, as grades from 1 to 5 have: one latent quality and thresholds
            between one class and the next then take the place of a logit for each class.
        class_weight: How much rows of each class count: a dict, or "balanced" for all classes the same, as in
            scikit-learn; multiplied by `sample_weight`. Probabilities are then those in a population of such shares.
            Model files hold "balanced" but no dict, which predictions do not need.
        effort: "default" for a mixture of networks that check each other: several values of `kl_weight`, small
            networks, a straight line and, from some thousands of rows on, wide networks, on features encoded by bins.
            Each is trained on four fifths of the rows, and the rows left out say how much it counts. "best" tries more,
            for about four times as long; "quick" is one network, in a fifth of the time. Where you describe a network
            by `hidden`, `activation`, `dropout`, `adversarial`, `kl_weight`, `learning_rate`, `batch_size`
            or `n_estimators`, or where there are fewer than
            20 rows, the default trains that network, on all rows, and no mixture.
        categorical_features: Which columns hold categories: "from_dtype" for those of text or a type for them; a list
            of names, of numbers, or of True and False adds others, such as codes that are numbers. Dates and times are
            recognised. An array of strings needs the list.
        calibrate: None; or "split" or "cross", to calibrate by rows that networks have not seen: probabilities are
            softened or sharpened by a temperature, and `predict_set` gives sets of classes that hold the right one.
            "split" learns from four fifths of the rows only; "cross" uses every row, by five networks in place of one,
            each of which leaves out a fifth; those of a mixture do so anyway.
        missing: What NaN in X stands for: "marginal", the mean and variance of its feature in the training rows; or
            "conditional", those given the other values of its row, better where features say much about each other.
        dropout: Probability of dropping a hidden unit in training.
        adversarial: How far each row is moved against its label before it is learnt from, in standard deviations of the
            features (`Recipe`); about 1 helps where many features say the same, as pixels do. Training takes twice as
            long.
        kl_weight: Weight of the KL from the weights' prior at the end of training; Bayes' rule would be 1, which leaves
            probabilities too timid.
        posterior: Of the weights: "mean_field", a standard deviation for each; or "tied", an outer product of a number
            for each output of a layer and one for each input, with which wide networks learn in less time and memory.
        optimizer: Name of one of `training.OPTIMIZERS`: "adam", the paper's "adadelta" (with learning_rate=1.0), …
        learning_rate: Of the optimizer; falls to zero along half a cosine.
        batch_size: Rows in a minibatch; None chooses by the number of rows.
        max_epochs: Passes over the rows; None chooses by the number of rows.
        n_estimators: Networks of one kind to train, each from its own start and with its own order of rows; several
            predict a mixture, and what they disagree on counts as epistemic.
        validation_fraction: Share of the rows that `patience` holds out.
        patience: Epochs without a better loss on rows held out before training ends, with the weights of the best one;
            None for all epochs, on all rows. Learning rate and KL follow a plan of `max_epochs`: its end is often best.
        warm_start: Whether `fit` begins with the network of the fit before, whose scales stay; this makes one network.
        device: "auto" (a GPU, if there is one and the network is not small), "cpu", "cuda", …
        random_state: Seed, for the same result every time.
        verbose: 1 shows how far it is: a bar on a terminal, elsewhere ten lines for each training.

    Examples:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = NPNClassifier(random_state=0, max_epochs=300).fit(X, y)
        >>> model.score(X, y) > 0.95
        True
        >>> bool(model.predict_dist([[5.0, 5.0, 5.0, 5.0]]).entropy > model.predict_dist(X[:1]).entropy)
        True
    """

    _kl_weights = 0.03, 0.1, 0.3, 1.0

    def __init__(
        self,
        hidden: tuple[int, ...] = (50,),
        activation: str = "relu",
        *,
        ordered: bool = False,
        class_weight: Any = None,
        effort: str = "default",
        categorical_features: Any = "from_dtype",
        calibrate: str | None = None,
        missing: str = "marginal",
        dropout: float = 0.0,
        adversarial: float = 0.0,
        kl_weight: float = 0.2,
        posterior: str = "mean_field",
        optimizer: str = "adam",
        learning_rate: float = 3e-3,
        batch_size: int | None = None,
        max_epochs: int | None = None,
        n_estimators: int | None = None,
        validation_fraction: float = 0.1,
        patience: int | None = None,
        warm_start: bool = False,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.hidden, self.activation = hidden, activation
        self.ordered, self.class_weight, self.effort = ordered, class_weight, effort
        self.calibrate, self.categorical_features = calibrate, categorical_features
        self.missing, self.dropout, self.adversarial = missing, dropout, adversarial
        self.kl_weight, self.posterior = kl_weight, posterior
        self.optimizer, self.learning_rate = optimizer, learning_rate
        self.batch_size, self.max_epochs, self.n_estimators = batch_size, max_epochs, n_estimators
        self.validation_fraction, self.patience, self.warm_start = validation_fraction, patience, warm_start
        self.device, self.random_state, self.verbose = device, random_state, verbose

    def _check_settings(self) -> None:
        super()._check_settings()
        check_flag("ordered", self.ordered)
        check_class_weight(self.class_weight)

    def _checked(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> tuple[Any, Array, Array | None]:
        X, y, weight = super()._checked(X, y, sample_weight, reset)
        if self.class_weight is None:
            return X, y, weight
        distinct_labels(y)  # which says in words what cannot be sorted
        of_classes = compute_sample_weight(self.class_weight, y)
        return X, y, checked_weight(of_classes if weight is None else of_classes * weight, X)

    # Learning ----------------------------------------------------------------------------------------------------

    @all_or_nothing
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, X_variance: Any = None
    ) -> Self:
        """One pass over more rows, from where the weights are.

        Args:
            X: As for `fit`; scales of features stay as first learnt.
            y: Labels.
            classes: All labels that will ever come; needed in the first call.
            sample_weight: As for `fit`.
            X_variance: As for `fit`.
        """
        if isinstance(self.class_weight, str):
            raise ValueError('class_weight="balanced" goes with fit: here, give a dict, or sample_weight.')
        first = not hasattr(self, "network_")
        X, y, weight = self._checked(X, y, sample_weight, reset=first)
        if first:
            if classes is None:
                raise ValueError("partial_fit expects classes= in its first call: all labels that will ever come.")
            t, targets = self._begin(X, y, weight, X.shape[0], classes)
            self._start(X.shape[0], targets)
        elif classes is not None and not np.array_equal(distinct_labels(classes, "classes"), self.classes_):
            raise ValueError(
                f"partial_fit expects the classes of its first call, {short(self.classes_)}, got {short(classes)}."
            )
        else:
            t = self._numbers(y)
        self._train_on(self._inputs(X, X_variance), t, weight)
        return self

    def _begin(self, X: Any, y: Array, weight: Array | None, seen: int, classes: Any = None) -> tuple[Array, int]:
        found = distinct_labels(y)  # which says in words what cannot be sorted
        check_labels(y)
        self.classes_ = found if classes is None else distinct_labels(classes, "classes")
        if len(self.classes_) < 2:
            raise ValueError(f"A classifier expects at least two classes, got one class: {self.classes_.tolist()}.")
        self._learn_inputs(X, weight)
        return self._numbers(y), len(self.classes_)

    def _learnable_targets(self, y: Array) -> Array:
        return self._numbers(y)

    def _new_likelihood(self, replicas: tuple[int, ...]) -> Likelihood:
        if self.ordered:
            return OrderedClasses(len(self.classes_), replicas=replicas)
        return ScaledSoftmax(len(self.classes_))

    def _numbers(self, y: Array) -> Array:
        """Labels as numbers from zero."""
        place, known = places_among(self.classes_, y)
        if not known.all():
            raise ValueError(
                f"y expects labels among {short(self.classes_.tolist())}, got {short(y[~known][:10].tolist())}."
            )
        return place.astype(np.int64)

    # Predicting --------------------------------------------------------------------------------------------------

    def predict_proba(self, X: Any, X_variance: Any = None) -> Array:
        """Probabilities (rows, classes), in the order of `classes_`."""
        return self.predict_dist(X, X_variance=X_variance).probs

    def predict_dist(self, X: Any, *, X_variance: Any = None) -> ClassPredictive:
        """The predictive distribution over the classes of each row."""
        each = self._each_predicts(X, X_variance)
        if self.calibration_ is None:
            return ClassPredictive(self.classes_, self._mixed(each).mean.numpy())
        by_part = self._by_part(each, len(self.calibration_.by_part))
        return ClassPredictive(self.classes_, softened(by_part, self.temperature_).mean(0))

    def predict_set(self, X: Any, level: float = 0.9, *, X_variance: Any = None) -> Array:
        """Which classes may be the right one (rows, classes): the right one is among them with probability `level`.

        The order is that of `classes_`. Needs `calibrate=`. Each class whose probability is no lower than those of most
        labels of held-out rows is in; so is the most probable one. See "Calibration" for what is guaranteed.
        """
        inside = real_numbers(level, "predict_set")
        if inside.ndim or not 0 < inside < 1:
            raise ValueError(f"A set expects a level between 0 and 1, such as 0.9, got {short(level)}.")
        each = self._each_predicts(X, X_variance)
        if self.calibration_ is None:
            raise ValueError('predict_set expects a classifier with calibrate="cross" or "split", got calibrate=None.')
        by_part = self._by_part(each, len(self.calibration_.by_part))
        return class_sets(by_part, self.calibration_, float(inside))

    @torch.no_grad()
    def _each_predicts(self, X: Any, X_variance: Any) -> Distribution:
        o = self._latent(X, X_variance)  # which says where nothing is fitted
        return self.likelihood_.predict(o)

    def _by_part(self, each: Distribution, count: int) -> Array:  # (parts, rows, classes)
        """Probabilities by the networks of each fold, or by all where none left out a fold."""
        return np.stack([part.mean.numpy() for part in calibration.parts(self, each, count)])

    def _hold_out(self, o: Moments, y: Array, part: Array) -> None:
        by_part, labels = self._by_part(self.likelihood_.predict(o), int(part.max()) + 1), self._numbers(y)
        probs = by_part[part, np.arange(len(part))]
        self.temperature_ = temperature(probs, labels)
        self.calibration_ = HeldOut.of(class_scores(probs, labels), part, self._seed)

    def predict_variance(self, X: Any, *, X_variance: Any = None) -> ArrayVarianceParts:
        """Variance p (1 - p) of each class (rows, classes), and its epistemic and aleatoric parts."""
        return ArrayVarianceParts(*(part.numpy() for part in self._variance_parts(self._latent(X, X_variance))))

    def log_likelihood(self, X: Any, y: Any, *, X_variance: Any = None) -> Array:
        """log p(label) of each row in nats."""
        return self.predict_dist(X, X_variance=X_variance).log_prob(y)

    # Model files -------------------------------------------------------------------------------------------------

    def _plain_target(self) -> dict[str, Any]:
        heat = {} if self.calibration_ is None else {"temperature": self.temperature_}
        return {"classes": state.plain_labels(self.classes_), **heat}

    def _target_arrays(self) -> dict[str, Array]:
        return {} if self.calibration_ is None else self.calibration_.to_arrays()

    def _read_target(self, plain: dict[str, Any], arrays: dict[str, Any]) -> int:
        self.classes_ = state.checked_labels(plain.get("classes"))
        if "held_out.part" in arrays:
            members = 1 if self._mixing is None else len(self._mixing.weights)
            self.calibration_ = HeldOut.from_arrays(arrays, 1, members)
            self.temperature_ = checks.positive("temperature", plain.get("temperature"))
        return len(self.classes_)
