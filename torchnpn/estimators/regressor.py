"""Regression with a choice of the target's family."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from torch.distributions import constraints

from torchnpn.estimators.learning import Member, Plan, all_or_nothing, regression_steps, regression_units
from torchnpn.estimators.predictive import ArrayMoments, ArrayVarianceParts, Interval, Predictive
from torchnpn.estimators.settings import check_choice
from torchnpn.estimators.supervised import SupervisedEstimator
from torchnpn.estimators.targets import check_size, check_units, in_network_units
from torchnpn.estimators.validation import real_numbers, score_weight
from torchnpn.families import Distribution
from torchnpn.io import checks
from torchnpn.likelihoods import BY_NAME, Likelihood, Units
from torchnpn.nn import Linear, MeanAndNoise, replicas_of

Array = NDArray[Any]


class NPNRegressor(RegressorMixin, SupervisedEstimator):  # type: ignore[misc]
    """A network with Gaussian weights that predicts a distribution of the target for every row, in one pass.

    Features are standardised inside. NaN in X is a missing value: a distribution takes its place, by default the
    training mean and variance of its feature. Sparse X is scaled, not centred.

    Args:
        family: What the target is: "gaussian" (any number), "student_t" (any number, with outliers), "gamma" (positive
            amounts), "lognormal" (positive amounts over several powers of ten), "hurdle_gamma" or "hurdle_lognormal"
            (the same with zeros), "poisson" or "negative_binomial" (counts, the second with more spread than chance
            gives), "zero_inflated_poisson" or "zero_inflated_negative_binomial" (counts where many rows cannot be but
            0), "beta" (proportions).
        hidden: Units of each hidden layer; None chooses one layer by the number of rows: of 50 units, or of 100 from
            20,000 rows on.
        activation: Name of a map, such as "relu", "tanh", "silu".
        effort: "default" for a mixture of networks that check each other: several values of `kl_weight`, small
            networks, a straight line and, from some thousands of rows on, wide networks, on features encoded by bins.
            Each is trained on four fifths of the rows, and the rows left out say how much it counts. "best" tries more,
            for about four times as long; "quick" is one network, in a fifth of the time. Where you describe a network
            by `hidden`, `activation`, `dropout`, `kl_weight`, `learning_rate`, `batch_size` or
            `n_estimators`, or where there are fewer than
            20 rows, the default trains that network, on all rows, and no mixture.
        noise: For the families "gaussian", "student_t" and "lognormal": "varying", to learn how the noise depends on
            the features, or "constant". The mean, of the log for the last, is learnt in the same way either way; the
            other families have a spread of their own.
        categorical_features: Which columns hold categories: "from_dtype" for those of text or a type for them; a list
            of names, of numbers, or of True and False adds others, such as codes that are numbers. Dates and times are
            recognised. An array of strings needs the list.
        missing: What NaN in X stands for: "marginal", the mean and variance of its feature in the training rows; or
            "conditional", those given the other values of its row, better where features say much about each other.
        dropout: Probability of dropping a hidden unit in training.
        kl_weight: Weight of the KL from the weights' prior at the end of training; 1 is Bayes' rule, less trusts the
            data more.
        learning_rate: Of Adam; falls to zero along half a cosine.
        batch_size: Rows in a minibatch; None chooses by the number of rows.
        max_epochs: Passes over the rows; None chooses by the number of rows.
        n_estimators: Networks of one kind to train, each from its own start and with its own order of rows; several
            predict a mixture, and what they disagree on counts as epistemic.
        device: "auto" (a GPU, if there is one and the network is not small), "cpu", "cuda", …
        random_state: Seed, for the same result every time.
        verbose: 1 prints ten lines on the way.

    Examples:
        >>> import numpy as np
        >>> X = np.linspace(-2, 2, 80)[:, None]
        >>> y = X[:, 0] ** 3 + np.random.default_rng(0).normal(0, 0.5, 80)
        >>> model = NPNRegressor(random_state=0).fit(X, y)
        >>> mean, std = model.predict([[1.0], [4.0]], return_std=True)
        >>> bool(std[1] > 2 * std[0])  # 4 is far from all it has seen
        True
    """

    _kl_weights = 0.1, 0.3, 1.0, 3.0

    def __init__(
        self,
        family: str = "gaussian",
        hidden: tuple[int, ...] | None = None,
        activation: str = "relu",
        *,
        effort: str = "default",
        noise: str = "varying",
        categorical_features: Any = "from_dtype",
        missing: str = "marginal",
        dropout: float = 0.0,
        kl_weight: float = 1.0,
        learning_rate: float = 1e-2,
        batch_size: int | None = None,
        max_epochs: int | None = None,
        n_estimators: int | None = None,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.family, self.activation, self.effort, self.noise = family, activation, effort, noise
        self.hidden = hidden  # type: ignore[assignment]  # None is for this estimator alone
        self.categorical_features = categorical_features
        self.missing, self.dropout = missing, dropout
        self.kl_weight, self.learning_rate = kl_weight, learning_rate
        self.batch_size, self.max_epochs, self.n_estimators = batch_size, max_epochs, n_estimators
        self.device, self.random_state, self.verbose = device, random_state, verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        kind = BY_NAME.get(self.family) if isinstance(self.family, str) else None
        tags.target_tags.positive_only = kind is not None and kind.support is constraints.positive
        return tags

    # Learning ----------------------------------------------------------------------------------------------------

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, X_variance: Any = None) -> Self:
        """One pass over more rows, from where the weights are; scales of features and targets stay as first learnt."""
        first = not hasattr(self, "network_")
        X, y, weight = self._checked(X, y, sample_weight, reset=first)
        if first:
            t, targets = self._begin(X, y, weight, X.shape[0])
            self._start(X.shape[0], targets)
        else:
            t = in_network_units(self.likelihood_, self._checked_columns(y, self.likelihood_), self.units_)
        self._train_on(self._inputs(X, X_variance), t, weight)
        return self

    @property
    def _target_options(self) -> dict[str, bool]:
        return {"multi_output": True, "y_numeric": True}

    @property
    def _kind(self) -> type[Likelihood]:
        check_choice("family", self.family, BY_NAME)
        check_choice("noise", self.noise, ("constant", "varying"))
        kind = BY_NAME[self.family]
        return kind.varying_noise or kind if self.noise == "varying" else kind

    def _begin(self, X: Any, y: Array, weight: Array | None, seen: int) -> tuple[Array, int]:
        kind = self._kind
        self._flat = y.ndim == 1
        self.n_outputs_ = 1 if self._flat else int(y.shape[1])
        columns = self._checked_columns(y, kind.for_targets(self.n_outputs_))
        self.hidden_ = regression_units(seen) if self.hidden is None else tuple(self.hidden)
        self._learn_inputs(X, weight)
        self.units_ = kind.units(columns, weight)
        check_units(self.units_)
        t = in_network_units(kind.for_targets(self.n_outputs_), columns, self.units_)
        self._first_outputs = torch.from_numpy(kind.start(t, weight))
        return t, self.n_outputs_

    def _new_likelihood(self, replicas: tuple[int, ...]) -> Likelihood:
        return self._kind.for_targets(self.n_outputs_, replicas)

    @torch.no_grad()
    def _new_network(self, targets: int, units: list[int], replicas: tuple[int, ...], plan: Plan) -> Member:
        """Networks whose outputs start at the mean of the targets."""
        made = super()._new_network(targets, units, replicas, plan)
        last = made.network[-1]
        last = last.mean if isinstance(last, MeanAndNoise) else last
        assert isinstance(last, Linear) and last.bias is not None
        last.bias.free[0].copy_(self._first_outputs)
        return made

    @property
    def _layers(self) -> list[int]:
        return [*map(int, self.hidden_)]

    def _check_hidden(self, hidden: Any) -> None:
        if hidden is not None:
            super()._check_hidden(hidden)

    def _one_network_steps(self, rows: int) -> int:
        steps = regression_steps(rows) if self._kind.gains_from_steps else self._steps
        return steps if self.effort != "quick" else steps * 2 // 5

    def _checked_columns(self, y: Array, likelihood: Likelihood) -> Array:
        """(rows, targets) in float64, in memory of their own: torch takes neither read-only nor reversed arrays."""
        columns = np.array(y, dtype=np.float64, order="C").reshape(len(y), -1)
        if columns.shape[1] != self.n_outputs_:
            raise ValueError(f"y expects {self.n_outputs_} targets, as in the first call, got {columns.shape[1]}.")
        likelihood.check_targets(torch.from_numpy(columns))
        check_size(likelihood, self.family, columns)
        return columns

    # Predicting --------------------------------------------------------------------------------------------------

    def predict(self, X: Any, return_std: bool = False, *, X_variance: Any = None) -> Any:
        """Mean of the target for each row; with `return_std`, also its standard deviation."""
        predictive = self.predict_dist(X, X_variance=X_variance)
        return (predictive.mean, predictive.std) if return_std else predictive.mean

    def predict_dist(self, X: Any, *, X_variance: Any = None) -> Predictive:
        """The predictive distribution of each row."""
        each = self._each_predicts(X, X_variance)
        return Predictive(self._mixed(each), self._flat)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination R² of the predicted means."""
        return float(super().score(X, real_numbers(y, "y"), score_weight(sample_weight)))

    def predict_members(self, X: Any, *, X_variance: Any = None) -> ArrayMoments:
        """Mean and variance that each network alone predicts, as arrays (n_estimators, rows) or (…, rows, targets)."""
        each = self._each_predicts(X, X_variance)
        parts = (
            part.numpy() if replicas_of(self.network_) else part.numpy()[None] for part in (each.mean, each.variance)
        )
        return ArrayMoments(*(part[..., 0] if self._flat else part for part in parts))

    @torch.no_grad()
    def _each_predicts(self, X: Any, X_variance: Any) -> Distribution:  # (*replicas, rows, targets)
        """What the network, or each of several, predicts, in the units of y."""
        o = self._latent(X, X_variance)
        return self.likelihood_.predict(o).scaled(*map(torch.from_numpy, self.units_))

    def predict_interval(self, X: Any, level: float = 0.9, *, X_variance: Any = None) -> Interval:
        """Central intervals that hold a new target with probability `level`, as (low, high)."""
        return self.predict_dist(X, X_variance=X_variance).interval(level)

    def predict_quantile(self, X: Any, q: ArrayLike = 0.5, *, X_variance: Any = None) -> Array:
        """Quantiles of each row: (rows,) for a number q, (rows, len(q)) for several."""
        return self.predict_dist(X, X_variance=X_variance).quantile(q)

    def predict_variance(self, X: Any, *, X_variance: Any = None) -> ArrayVarianceParts:
        """Variance of each row, and its parts: epistemic, which more data would take away, and aleatoric."""
        parts = self._variance_parts(X, X_variance).scaled(torch.from_numpy(self.units_.scale))
        return ArrayVarianceParts(*(part[:, 0].numpy() if self._flat else part.numpy() for part in parts))

    def log_likelihood(self, X: Any, y: Any, *, X_variance: Any = None) -> Array:
        """log p(y) of each row in nats, summed over its targets."""
        logs = self.predict_dist(X, X_variance=X_variance).log_prob(y)
        return logs if logs.ndim == 1 else logs.sum(axis=1)

    # Model files -------------------------------------------------------------------------------------------------

    def _plain_target(self) -> dict[str, Any]:
        chosen: dict[str, Any] = {} if self.hidden is not None else {"hidden": list(self.hidden_)}
        return {"targets": self.n_outputs_, "flat": self._flat, **chosen}

    def _target_arrays(self) -> dict[str, Array]:
        return {f"units.{name}": array for name, array in self.units_._asdict().items()}

    def _read_target(self, plain: dict[str, Any], arrays: dict[str, Any]) -> int:
        self.n_outputs_ = checks.size("targets", plain.get("targets"))
        self._flat = checks.flag("flat", plain.get("flat"))
        if self._flat and self.n_outputs_ != 1:
            raise ValueError(f"flat should be true for a single target only, got {self.n_outputs_} targets")
        hidden = plain.get("hidden") if self.hidden is None else self.hidden
        super()._check_hidden(hidden)
        self.hidden_ = tuple(hidden)
        self.units_ = Units(*(checks.array(f"units.{name}", arrays, (self.n_outputs_,)) for name in Units._fields))
        checks.scale_with_square("units", self.units_.scale, self.units_.shift)
        return self.n_outputs_
