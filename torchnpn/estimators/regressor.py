"""Regression with a choice of the target's family."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch.distributions import constraints

from torchnpn.censoring import bounds_of
from torchnpn.conformal import HeldOut, calibrated, levels
from torchnpn.estimators import calibration, comparison
from torchnpn.estimators.exposure import Exposure, GivenTarget, check_link, checked_exposure, rates, split_exposure
from torchnpn.estimators.learning import Member, Plan, all_or_nothing, regression_steps, regression_units
from torchnpn.estimators.predictive import ArrayMoments, ArrayVarianceParts, DistributionRegressor, Predictive
from torchnpn.estimators.supervised import SupervisedEstimator
from torchnpn.families import Distribution
from torchnpn.io import checks
from torchnpn.likelihoods import BY_NAME, Censored, Exposed, Likelihood, Units, with_offset
from torchnpn.moments import Moments
from torchnpn.nn import Linear, MeanAndNoise, replicas_of
from torchnpn.progress import Callback
from torchnpn.rows import censored, check_size, check_units, in_network_units
from torchnpn.settings import check_choice

Array = NDArray[Any]


class NPNRegressor(DistributionRegressor, SupervisedEstimator):
    """A network with Gaussian weights that predicts a distribution of the target for every row, in one pass.

    Features are standardised inside; NaN in X is a missing value. Sparse X is scaled, not centred.

    Args:
        family: What the target is: "gaussian" (any number), "student_t" (any number, with outliers), "gamma" (positive
            amounts), "lognormal" (positive amounts over several powers of ten), "weibull" (durations), "hurdle_gamma"
            or "hurdle_lognormal" (amounts with zeros), "poisson" or "negative_binomial" (counts, the second with more
            spread than chance gives), "zero_inflated_poisson" or "zero_inflated_negative_binomial" (counts where many
            rows cannot be but 0), "beta" (proportions). "auto" compares those that the targets may be of, by what small
            networks say of rows that they leave out, and takes the best: `family_`; `families_` says how all did.
        hidden: Units of each hidden layer; None chooses one layer: of 50 units, or of 100 from 20,000 rows on.
        activation: Name of a map, such as "relu", "tanh", "silu".
        effort: "default" for a mixture of networks that check each other: several values of `kl_weight`, small
            networks, a straight line and, from some thousands of rows on, wide networks, on features encoded by bins.
            Each is trained on four fifths of the rows, and the rows left out say how much it counts. "best" tries more,
            for about four times as long; "quick" is one network, in a fifth of the time. Where you describe a network
            by `hidden`, `activation`, `dropout`, `kl_weight`, `optimizer`, `learning_rate`, `batch_size` or
            `n_estimators`, or have fewer than 20 rows, the default trains that network, on all rows, and no mixture.
        calibrate: None; or "split" or "cross", to correct intervals, quantiles and scores by rows that networks have
            not seen, so that intervals of new rows hold their share of targets whatever the model
            (`families.Calibrated`). "split" learns from four fifths of the rows only; "cross" uses every row, by five
            networks in place of one, each of which leaves out a fifth; those of a mixture do so anyway.
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
        calibrate: str | None = None,
        noise: str = "varying",
        categorical_features: Any = "from_dtype",
        missing: str = "marginal",
        dropout: float = 0.0,
        kl_weight: float = 1.0,
        posterior: str = "mean_field",
        optimizer: str = "adam",
        learning_rate: float = 1e-2,
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
        self.family, self.activation, self.effort, self.noise = family, activation, effort, noise
        self.calibrate = calibrate
        self.hidden = hidden  # type: ignore[assignment]  # None is for this estimator alone
        self.categorical_features = categorical_features
        self.missing, self.dropout = missing, dropout
        self.kl_weight, self.posterior = kl_weight, posterior
        self.optimizer, self.learning_rate = optimizer, learning_rate
        self.batch_size, self.max_epochs, self.n_estimators = batch_size, max_epochs, n_estimators
        self.validation_fraction, self.patience, self.warm_start = validation_fraction, patience, warm_start
        self.device, self.random_state, self.verbose = device, random_state, verbose

    family_: str  # the one named, or chosen
    families_: dict[str, float]  # what was compared: log-likelihood of a row left out, the mean, in nats
    exposure_: Exposure | None = None
    _censored: bool = False  # whether the targets in hand are both ends of what is known

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        kind = BY_NAME.get(self.family) if isinstance(self.family, str) else None
        tags.target_tags.positive_only = kind is not None and kind.support is constraints.positive
        return tags

    # Learning ----------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        X_variance: Any = None,
        callbacks: Iterable[Callback] = (),
        subsets: Any = None,
        exposure: Any = None,
    ) -> Self:
        """Learn from rows X (rows, features) and their targets.

        Args:
            X: Array, frame or CSR matrix; NaN where a value is missing.
            y: Numbers (rows,) or (rows, targets); durations of which some had not ended are
                `npn.censored(time, observed)`, for the families "lognormal" and "weibull".
            sample_weight: (rows,) how many rows each one stands for.
            X_variance: Variances of measurement errors: a number, one for each feature, or the shape of X.
            callbacks: Functions, called with an `EpochRecord` after each epoch; True ends the training under way.
            subsets: (n_estimators, n) numbers of the rows that each network may see, as for a bootstrap or
                cross-validation; None: all see all. Scales of features and targets are those of all rows.
            exposure: What the target is in proportion to, such as months insured, for counts and positive amounts: the
                name of a column of a frame, the number of a column of an array, or a number above 0 for each row. Its
                logarithm is added to the log mean. A column of exposures is no feature.
        """
        rest, *exposed = split_exposure(X, exposure)
        super().fit(rest, GivenTarget(y, *exposed), sample_weight, X_variance, callbacks, subsets)
        return self

    @all_or_nothing
    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, X_variance: Any = None, exposure: Any = None
    ) -> Self:
        """One pass over more rows, from where the weights are; scales of features and targets stay as first learnt."""
        first = not hasattr(self, "network_")
        if self._compares:
            raise ValueError('partial_fit expects a family by its name, such as "gaussian", got family="auto".')
        X, *exposed = split_exposure(X, exposure)
        X, y, weight = self._checked(X, GivenTarget(y, *exposed), sample_weight, reset=first)
        if first:
            t, targets = self._begin(X, y, weight, X.shape[0])
            self._start(X.shape[0], targets)
        else:
            t = self._learnable(*self._parts(y), self.likelihood_)
        self._train_on(self._inputs(X, X_variance), t, weight)
        return self

    def _rows_of_stream(self, X: Any, y: Any, exposure: int | None, first: bool) -> tuple[Any, Array, Array | None]:
        rest, *exposed = split_exposure(X, exposure)
        return self._checked(rest, GivenTarget(y, *exposed), None, reset=first)

    def _learnable_targets(self, y: Array) -> Array:
        return self._learnable(*self._parts(y), self.likelihood_)

    def _checked(self, X: Any, y: GivenTarget, sample_weight: Any, reset: bool) -> tuple[Any, Array, Array | None]:
        """As for any target, with log exposures as the last column of y, or with both ends of what is censored."""
        bounds = bounds_of(y.values)
        X, values, weight = super()._checked(X, y.values if bounds is None else bounds.lower, sample_weight, reset)
        self._censored = bounds is not None
        if reset:
            self._flat = values.ndim == 1
            self.family_, self.families_, self.exposure_ = self.family, {}, None
        if not reset and not self._compares and self.family != self.family_:
            raise ValueError(f"family expects {self.family_!r}, as in the fit before, got {self.family!r}.")
        if not reset and (y.exposure is None) != (self.exposure_ is None):
            raise ValueError("exposure goes with all calls of partial_fit, or with none.")
        if bounds is not None:
            if y.exposure is not None:
                raise ValueError("exposure goes with targets that are known, got censored ones.")
            ends = np.column_stack(bounds)
            if not self._compares:
                censored.check_kind(self._kind, self.family, ends)
            return X, ends, weight
        if y.exposure is None:
            return X, values.reshape(len(values), -1), weight
        if not self._compares:
            check_link(self._kind, self.family)
        exposure = checked_exposure(y.exposure, len(values))
        if self.exposure_ is None:
            self.exposure_ = Exposure.learn(y.column, exposure, weight)
        return X, np.column_stack([values, self.exposure_.logarithms(exposure)]), weight

    def _parts(self, y: Array) -> tuple[Array, Array]:
        """Targets and log exposures, if any, in float64, in memory of their own: torch takes no read-only arrays."""
        columns = np.array(y, dtype=np.float64, order="C")
        count = columns.shape[1] - (self.exposure_ is not None)
        return columns[:, :count], columns[:, count:]

    @property
    def _target_options(self) -> dict[str, bool]:
        return {"multi_output": True, "y_numeric": True}

    @property
    def _compares(self) -> bool:
        return isinstance(self.family, str) and self.family == comparison.AUTO

    @property
    def _kind(self) -> type[Likelihood]:
        check_choice("family", self.family_, (*BY_NAME, comparison.AUTO))
        check_choice("noise", self.noise, ("constant", "varying"))
        kind = BY_NAME[self.family_]
        return kind.varying_noise or kind if self.noise == "varying" else kind

    def _begin(self, X: Any, y: Array, weight: Array | None, seen: int) -> tuple[Array, int]:
        if self._compares:
            self.family_, self.families_ = comparison.choice(self, X, y, weight)
        return self._begin_family(X, y, weight, seen)

    def _begin_family(self, X: Any, y: Array, weight: Array | None, seen: int) -> tuple[Array, int]:
        """The same for a family that is known."""
        kind = self._kind
        columns, offset = self._parts(y)
        self.n_outputs_ = 1 if self._censored else int(columns.shape[1])
        likelihood = kind.for_targets(self.n_outputs_)
        self._check_columns(columns, likelihood)
        self.hidden_ = regression_units(seen) if self.hidden is None else tuple(self.hidden)
        self._learn_inputs(X, weight)
        self.units_ = kind.units(censored.points(columns) if self._censored else columns, weight)
        check_units(self.units_)
        t = self._learnable(columns, offset, likelihood)
        start = censored.start(kind, t, weight) if self._censored else kind.start(*rates(t, self.n_outputs_, weight))
        self._first_outputs = torch.from_numpy(start)
        return t, self.n_outputs_

    def _new_likelihood(self, replicas: tuple[int, ...]) -> Likelihood:
        return self._kind.for_targets(self.n_outputs_, replicas)

    @torch.no_grad()
    def _new_network(self, targets: int, sizes: list[int], replicas: tuple[int, ...], plan: Plan) -> Member:
        """Networks whose outputs start at the mean of the targets."""
        made = super()._new_network(targets, sizes, replicas, plan)
        last = made.network[-1]
        last = last.mean if isinstance(last, MeanAndNoise) else last
        assert isinstance(last, Linear) and last.bias is not None
        last.bias.free[0].copy_(self._first_outputs)
        return made

    @property
    def _layers(self) -> list[int]:
        return [*map(int, self.hidden_ if self.hidden is None else self.hidden)]

    def _check_hidden(self, hidden: Any) -> None:
        if hidden is not None:
            super()._check_hidden(hidden)

    def _one_network_steps(self, rows: int) -> int:
        steps = regression_steps(rows) if self._kind.gains_from_steps else self._steps
        return steps if self.effort != "quick" else steps * 2 // 5

    def _check_columns(self, columns: Array, likelihood: Likelihood) -> None:
        if columns.shape[1] != self.n_outputs_ + self._censored:
            raise ValueError(f"y expects {self.n_outputs_} targets, as in the first call, got {columns.shape[1]}.")
        observed = Censored(likelihood) if self._censored else likelihood
        observed.check_targets(torch.from_numpy(columns))
        check_size(likelihood, self.family_, censored.points(columns) if self._censored else columns)

    def _learnable(self, columns: Array, offset: Array, likelihood: Likelihood) -> Array:
        """Targets in units of the network, and log exposures beside them."""
        self._check_columns(columns, likelihood)
        if self._censored:
            return censored.in_units(likelihood, columns, self.units_)
        return np.column_stack([in_network_units(likelihood, columns, self.units_), offset.astype(np.float32)])

    def _observed(self, likelihood: Likelihood) -> Likelihood:
        if self._censored:
            return Censored(likelihood)
        return likelihood if self.exposure_ is None else Exposed(likelihood)

    def _hold_out(self, o: Moments, y: Array, part: Array) -> None:
        if self._censored:
            raise ValueError("calibrate expects targets that are known, got censored ones. Take calibrate=None.")
        columns, offset = self._parts(y)
        if self.exposure_ is not None:
            o = with_offset(o, torch.from_numpy(offset), self.n_outputs_)
        generator, found = np.random.default_rng(self._seed), np.empty(columns.shape)
        for k, one in enumerate(calibration.parts(self, self._each_of(o), int(part.max()) + 1)):
            rows = np.flatnonzero(part == k)
            found[rows] = levels(one[rows], columns[rows], generator)
        self.calibration_ = HeldOut.of(found, part, self._seed)

    # Predicting --------------------------------------------------------------------------------------------------

    def predict_dist(self, X: Any, *, X_variance: Any = None, exposure: Any = None) -> Predictive:
        """The predictive distribution of each row."""
        each = self._each_predicts(X, X_variance, exposure)
        if self.calibration_ is None:
            return Predictive(self._mixed(each), self._flat)
        count = len(self.calibration_.by_part)
        return Predictive(calibrated(calibration.parts(self, each, count), self.calibration_), self._flat)

    def predict_members(self, X: Any, *, X_variance: Any = None, exposure: Any = None) -> ArrayMoments:
        """Mean and variance that each network alone predicts, as arrays (n_estimators, rows) or (…, rows, targets)."""
        each = self._each_predicts(X, X_variance, exposure)
        parts = (
            part.numpy() if replicas_of(self.network_) else part.numpy()[None] for part in (each.mean, each.variance)
        )
        return ArrayMoments(*(part[..., 0] if self._flat else part for part in parts))

    @torch.no_grad()
    def _each_predicts(self, X: Any, X_variance: Any, exposure: Any) -> Distribution:  # (*replicas, rows, targets)
        """What the network, or each of several, predicts, in the units of y."""
        return self._each_of(self._latent_for(X, X_variance, exposure))

    def _each_of(self, o: Moments) -> Distribution:
        return self.likelihood_.predict(o).scaled(*map(torch.from_numpy, self.units_))

    def _latent_for(self, X: Any, X_variance: Any, exposure: Any) -> Moments:
        """The latent output for an exposure of each row, if the model knows any."""
        check_is_fitted(self, "network_")
        if self.exposure_ is not None:
            X, offset = self.exposure_.of_rows(X, exposure, self.n_features_in_)
            return with_offset(self._latent(X, X_variance), torch.from_numpy(offset), self.n_outputs_)
        if exposure is not None:
            raise ValueError("exposure goes with a model that was fitted with exposures; this one was not.")
        return self._latent(X, X_variance)

    def predict_variance(self, X: Any, *, X_variance: Any = None, exposure: Any = None) -> ArrayVarianceParts:
        """Variance of each row, and its parts: epistemic, which more data would take away, and aleatoric."""
        parts = self._variance_parts(self._latent_for(X, X_variance, exposure))
        parts = parts.scaled(torch.from_numpy(self.units_.scale))
        return ArrayVarianceParts(*(part[:, 0].numpy() if self._flat else part.numpy() for part in parts))

    # Model files -------------------------------------------------------------------------------------------------

    def _plain_target(self) -> dict[str, Any]:
        chosen: dict[str, Any] = {} if self.hidden is not None else {"hidden": list(self.hidden_)}
        chosen |= {"family": self.family_, "families": self.families_} if self._compares else {}
        exposed = {} if self.exposure_ is None else {"exposure": self.exposure_._asdict()}
        return {"targets": self.n_outputs_, "flat": self._flat, **chosen, **exposed}

    def _target_arrays(self) -> dict[str, Array]:
        units = {f"units.{name}": array for name, array in self.units_._asdict().items()}
        return units if self.calibration_ is None else units | self.calibration_.to_arrays()

    def _read_target(self, plain: dict[str, Any], arrays: dict[str, Any]) -> int:
        self.n_outputs_ = checks.size("targets", plain.get("targets"))
        self._flat = checks.flag("flat", plain.get("flat"))
        if self._flat and self.n_outputs_ != 1:
            raise ValueError(f"flat should be true for a single target only, got {self.n_outputs_} targets")
        self.family_, self.families_ = self.family, {}
        if self._compares:
            self.family_, self.families_ = comparison.from_plain(plain)
        if "exposure" in plain:
            check_link(self._kind, self.family)
            self.exposure_ = Exposure.from_plain(plain["exposure"])
        hidden = plain.get("hidden") if self.hidden is None else self.hidden
        super()._check_hidden(hidden)
        self.hidden_ = tuple(hidden)
        self.units_ = Units(*(checks.array(f"units.{name}", arrays, (self.n_outputs_,)) for name in Units._fields))
        checks.scale_with_square("units", self.units_.scale, self.units_.shift)
        if "held_out.part" in arrays:
            members = 1 if self._mixing is None else len(self._mixing.weights)
            self.calibration_ = HeldOut.from_arrays(arrays, self.n_outputs_, members)
        return self.n_outputs_
