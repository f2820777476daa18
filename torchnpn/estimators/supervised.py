"""Learning from rows and their targets: what the regressor and the classifier share."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import scipy.sparse
import torch
from sklearn.base import is_classifier
from torch.distributions import constraints

from torchnpn.columns import Bins
from torchnpn.conformal import HeldOut
from torchnpn.estimators import calibration, stacking
from torchnpn.estimators.base import Array, NPNEstimator
from torchnpn.estimators.forward import mean_square_slopes, outputs
from torchnpn.estimators.learning import FitOptions, Member, Plan, all_or_nothing, ramp
from torchnpn.moments import Moments
from torchnpn.nn import leading
from torchnpn.priors import EmpiricalBayes
from torchnpn.progress import Callback, Watch, watching
from torchnpn.rows import (
    Beyond,
    HeldOutRows,
    Inputs,
    check_enough_rows,
    checked_rows,
    checked_subsets,
    checked_weight,
    copies,
    distinct_labels,
    split_for_patience,
    variance_of_rows,
)
from torchnpn.settings import PROPER_SHARE, check_choice, check_count, check_flag, check_number, seed_of, short
from torchnpn.training import RowStream, train

_OF_A_NETWORK = (  # settings that describe one
    "hidden", "activation", "dropout", "adversarial", "kl_weight", "optimizer", "learning_rate", "batch_size",
    "n_estimators", "warm_start",
)  # fmt: skip


class RawStream(Protocol):
    """Rows that do not lie in memory, as they are in their files."""

    @property
    def count(self) -> int:
        """All of them."""

    @property
    def parts(self) -> int:
        """Epochs that a pass over them is divided into."""

    def learnable(self, change: Callable[[Array, Array], tuple[Any, Array]]) -> RowStream:
        """The same for `training.train`, each part of them and of their targets changed by a function."""


class SupervisedEstimator(NPNEstimator):
    """`fit` for any target; subclasses say what targets are to the network."""

    effort: str
    calibrate: str | None
    validation_fraction: float
    warm_start: bool
    calibration_: HeldOut | None = None
    _kl_weights: tuple[float, ...]  # that are tried
    classes_: Array
    n_outputs_: int

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        X_variance: Any = None,
        callbacks: Iterable[Callback] = (),
        subsets: Any = None,
    ) -> Self:
        """Learn from rows X (rows, features) and their targets.

        Args:
            X: Array, CSR matrix, or frame (pandas, polars, Arrow) with columns of every kind; NaN or None where a value
                is missing.
            y: Numbers (rows,) or (rows, targets) for a regressor; labels (rows,) of any type that can be sorted for a
                classifier.
            sample_weight: (rows,) how many rows each one stands for.
            X_variance: Variances of measurement errors: a number, one for each feature, or the shape of X.
            callbacks: Functions, called with an `EpochRecord` after each epoch; True ends the training under way.
            subsets: (n_estimators, n) numbers of the rows that each network may see, as for a bootstrap or
                cross-validation; None: all see all. Scales of features and targets are those of all rows.
        """
        X, y, weight = self._checked(X, y, sample_weight, reset=not self._goes_on)
        self.calibration_, validation = None, None
        if self.patience is not None:
            if subsets is not None:
                raise ValueError("subsets goes with patience=None: rows that patience holds out would be among them.")
            X, y, weight, X_variance, validation = self._without_held_out(X, y, weight, X_variance)
        learn = self._learn if self.calibrate is None else partial(calibration.learn, self)
        with watching(type(self).__name__, callbacks, self.verbose) as watch:
            learn(X, y, weight, X_variance, FitOptions(watch, subsets, validation))
        return self

    def _without_held_out(
        self, X: Any, y: Array, weight: Array | None, X_variance: Any
    ) -> tuple[Any, Array, Array | None, Any, HeldOutRows]:
        """Rows to learn from, and those that say when to stop; a row of each class is learnt from."""
        of_classes = is_classifier(self) and len(distinct_labels(y)) > 0  # which says in words what cannot be sorted
        learnt: Any = np.unique(y, return_index=True)[1] if of_classes else []
        same, seed = copies(X, y), seed_of(self.random_state)
        parts = split_for_patience(same, self.validation_fraction, seed, np.asarray(learnt, np.int64))
        seen, out = (
            (X[rows], y[rows], None if weight is None else weight[rows], variance_of_rows(X_variance, rows, X.shape))
            for rows in parts
        )
        if out[2] is not None and not out[2].sum() > 0:
            raise ValueError("patience holds out some rows, got sample_weight 0 for all of these. Take patience=None.")
        return *seen, HeldOutRows(*out)

    @all_or_nothing
    def fit_stream(
        self,
        X: Any,
        y: Any,
        stream: RawStream,
        exposure: int | None = None,
        callbacks: Iterable[Callback] = (),
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Learn one network, or `n_estimators`, from rows that do not lie in memory, read anew in each of `max_epochs`.

        Args:
            X: Some of the rows, by which scales are learnt; as for `fit`.
            y: Their targets.
            stream: All rows.
            exposure: Of a regression, the number of the column of X with exposures.
            callbacks: As for `fit`.
            checkpoint: As for `training.train`.
        """
        if self.calibrate is not None or self.effort == "best" or self.patience is not None or self.warm_start:
            raise ValueError(
                "fit_stream learns one network from all rows: take calibrate=None, patience=None, warm_start=False, "
                'and not effort="best".'
            )
        X, y, weight = self._rows_of_stream(X, y, exposure, first=True)
        self.calibration_ = self._mixing = self._bins = self._beyond = self._largest = None
        _, targets = self._begin(X, y, weight, stream.count)
        self._start(stream.count, targets)
        network, likelihood = self.network_, self._observed(self.likelihood_)
        steps, kl_weight = self._one_network_steps(stream.count), float(self.kl_weight)
        plan = Plan.of(stream.count, self.batch_size, self.max_epochs, steps, self._most_epochs, least_epochs=1)
        plan = plan._replace(epochs=plan.epochs * stream.parts)

        def learnable(X: Array, y: Array) -> tuple[Any, Array]:
            X, y, _ = self._rows_of_stream(X, y, exposure, first=False)
            return self._inputs(X, None), self._learnable_targets(y)

        with watching(type(self).__name__, callbacks, self.verbose) as watch:
            self.history_ = train(
                network,
                stream.learnable(learnable),
                likelihood,
                EmpiricalBayes() if kl_weight else None,
                self._recipe(plan, self._seed, kl_weight=ramp(kl_weight, partial(self._least_kl, likelihood))),
                callback=watch.training(plan.epochs),
                checkpoint=checkpoint,
                device=self._place(network),
            )
        likelihood.cpu()
        self._rows_seen = stream.count
        return self

    def _rows_of_stream(self, X: Any, y: Any, exposure: int | None, first: bool) -> tuple[Any, Array, Array | None]:
        """Some of the rows, and their targets, checked."""
        return self._checked(X, y, None, reset=first)

    @abstractmethod
    def _learnable_targets(self, y: Array) -> Array:
        """Targets that have been checked, as the network learns them."""

    def _learn(self, X: Any, y: Array, weight: Array | None, X_variance: Any, options: FitOptions) -> None:
        """Learn from rows that have been checked."""
        chosen = self._chooses(X, options.subsets)
        if chosen or self.calibrate == "cross":
            self._mixing = self._bins = self._beyond = self._largest = None
            self._learn_mixture(X, y, weight, X_variance, options, chosen)
            return
        rows = checked_subsets(options.subsets, self.n_estimators or 1, X.shape[0], weight)
        seen = X.shape[0] if rows is None else rows.shape[1]  # by each network
        if self._goes_on:
            self._start_from_before()
            t = self._learnable_targets(y)
            check_enough_rows(self, X, weight)
        else:
            self._mixing = self._bins = self._beyond = self._largest = None
            t, targets = self._begin(X, y, weight, seen)
            check_enough_rows(self, X, weight)
            self._start(seen, targets)
        whole = Member(self.network_, self.likelihood_, self._seed)
        data, validation = (self._inputs(X, X_variance), t, weight), self._learnable_validation(options)
        plan = self._plan(seen)
        self.history_ = self._train(whole, data, plan, options.watch, self.kl_weight, rows, validation=validation)
        self._rows_seen = seen if weight is None else float(weight.sum())

    @property
    def _goes_on(self) -> bool:
        """Whether `fit` begins with the network of the fit before."""
        check_flag("warm_start", self.warm_start)
        return bool(self.warm_start) and hasattr(self, "network_")

    def _start_from_before(self) -> None:
        """The network of the fit before, to be trained on; the old one stays as it is."""
        if self._mixing is not None:
            raise ValueError("warm_start goes on with one network, got a mixture. Make it with warm_start=True, too.")
        targets, sizes = len(self.classes_) if is_classifier(self) else self.n_outputs_, [self._width, *self._layers]
        likelihood = self._new_likelihood(self._replicas)
        with torch.device("meta"):
            network = self._build(likelihood, targets, sizes, replicas=self._replicas)
        for new, old in ((network, self.network_), (likelihood, self.likelihood_)):
            shapes = [{name: one.shape for name, one in part.state_dict().items()} for part in (new, old)]
            if type(new) is not type(old) or shapes[0] != shapes[1]:
                raise ValueError(
                    "warm_start goes on with the network of the fit before, got settings of another one. Take "
                    "warm_start=False, or the same family, hidden, noise, posterior, dropout and n_estimators."
                )
        network, likelihood = copy.deepcopy((self.network_, self.likelihood_))
        self._start_again()
        self.network_, self.likelihood_ = network, likelihood

    def _learnable_validation(self, options: FitOptions) -> tuple[Any, Array, Array | None] | None:
        """Rows that say when to stop, as the network takes them."""
        if options.validation is None:
            return None
        X, y, weight, X_variance = options.validation
        return self._inputs(X, X_variance), self._learnable_targets(y), weight

    def _checked(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> tuple[Any, Array, Array | None]:
        """Rows, targets and weights, once settings make sense."""
        self._check_settings()
        X, y = checked_rows(self, X, y, reset=reset, **self._target_options)
        return X, y, checked_weight(sample_weight, X)

    def _learn_mixture(
        self, X: Any, y: Array, weight: Array | None, X_variance: Any, options: FitOptions, chosen: bool
    ) -> None:
        """Learn networks that each leave out a fifth of the rows, and how much each of them counts.

        Networks of several kinds are tried where the estimator has chosen them, else the one that settings describe.
        """
        rows = X.shape[0]
        seen = rows - -(-rows // stacking.FOLDS)  # by each network
        t, targets = self._begin(X, y, weight, seen)
        check_enough_rows(self, X, weight)
        self._start_again()
        if chosen:
            self._bins = Bins.learn(self.inputs_.standardised(X))
        data, validation = (self._inputs(X, X_variance), t, weight), self._learnable_validation(options)
        same = copies(X, y)
        repeated = rows / (int(same.max()) + 1)  # copies say no more than the row that they are of
        every = [self._one(seen)]
        if chosen:
            every = stacking.candidates(seen, self._features, self._width, self._kl_weights, self.effort)
        parts: list[stacking.Trained] = []
        for tried in every:
            watch = options.watch.part(len(parts), len(every))
            kl_weight = repeated * tried.member_kl_weights if chosen else self.kl_weight
            parts.append(self._trained(tried, data, targets, same, kl_weight, watch, validation))
        self.network_, self.likelihood_, self._mixing = stacking.mixture(parts, weight, self._new_likelihood)
        if chosen:
            self._look_beyond(X, targets)
            self._know_largest(t, weight)
        self._rows_seen = rows if weight is None else float(weight.sum())

    def _trained(
        self,
        tried: stacking.Candidates,
        data: tuple[Any, Array, Array | None],
        targets: int,
        same: Array,
        kl_weight: float | Array,
        watch: Watch,
        validation: tuple[Any, Array, Array | None] | None = None,
    ) -> stacking.Trained:
        """Networks of one kind, and what they say of the rows that they have left out."""
        x, t, weight = data
        inputs = self._width if tried.encoded else self._features
        x = leading(x, inputs)
        if validation is not None:
            validation = leading(validation[0], inputs), *validation[1:]
        folds = stacking.Folds.draw(same, len(tried.kl_weights), self._seed)
        plan = Plan.of(folds.subsets.shape[1], self.batch_size, self.max_epochs, tried.steps)
        whole = self._new_network(targets, [inputs, *tried.units], (tried.members,), plan)
        rate = min(self.learning_rate, tried.most_rate)
        self.history_ = self._train(whole, (x, t, weight), plan, watch, kl_weight, folds.subsets, rate, validation)
        with torch.no_grad():
            observed = self._observed(whole.likelihood)
            logs = observed.log_prob(outputs(whole.network, x), torch.from_numpy(t))  # (members, rows)
        return stacking.Trained(tried, inputs, whole.network, whole.likelihood, folds.left_out(logs.numpy()))

    def _look_beyond(self, X: Array, targets: int) -> None:
        """Learn where predictions of a number are beyond the rows that a mixture learnt from.

        Logarithms and logits are left as they are: there a small doubt more is many times as much, or as likely.
        """
        family = self.likelihood_.predicts
        if self._mixing is None or family is None or family.support is not constraints.real:
            return
        z = self.inputs_.standardised(X)
        self._beyond = Beyond.learn(z, mean_square_slopes(self.network_, self._bins, self._mixing.weights, z, targets))

    def _know_largest(self, t: Array, weight: Array | None) -> None:
        """Take note of the largest of the targets that a mixture learnt from, where it limits means.

        The means of targets with an exposure stay in proportion to it, and of censored ones the largest are not known.
        """
        if self.likelihood_.limits_means and self._observed(self.likelihood_) is self.likelihood_:
            self._largest = np.asarray(t if weight is None else t[weight > 0], np.float64).max(0)
            self.likelihood_.know_largest(self._largest)

    def _one(self, rows: int) -> stacking.Candidates:
        """The networks that settings describe."""
        kl_weights = (float(self.kl_weight),) * (self.n_estimators or 1)
        return stacking.Candidates(tuple(self._layers), kl_weights, self._one_network_steps(rows))

    def _chooses(self, X: Any, subsets: Any) -> bool:
        """Whether `fit` makes a mixture of its own choice, rather than the networks that settings describe."""
        default: Any = type(self)()
        described = [name for name in _OF_A_NETWORK if getattr(self, name) != getattr(default, name)]
        if self.effort == "best" and described:
            name = described[0]
            raise ValueError(
                f'effort="best" chooses networks by itself, got {name}={short(getattr(self, name))}. Leave {name} '
                'out, or take effort="quick".'
            )
        if self.effort == "best" and subsets is not None:
            raise ValueError('subsets go with effort="quick": "best" chooses itself which rows each network sees.')
        few = X.shape[0] < stacking.LEAST_ROWS
        return not (self.effort == "quick" or described or few or subsets is not None or scipy.sparse.issparse(X))

    def _plan(self, rows: int) -> Plan:
        return Plan.of(rows, self.batch_size, self.max_epochs, self._one_network_steps(rows), self._most_epochs)

    def _one_network_steps(self, rows: int) -> int:
        """Of the training of a network that settings describe."""
        return self._steps if self.effort != "quick" else self._steps * 2 // 5

    def _learn_inputs(self, X: Any, weight: Array | None) -> None:
        """How features are scaled."""
        self.inputs_ = Inputs.learn(X, weight, self.missing, self._least_scale)

    def _check_settings(self) -> None:
        super()._check_settings()
        calibration.check(self.calibrate)
        check_choice("effort", self.effort, ("quick", "default", "best"))
        check_number("validation_fraction", self.validation_fraction, PROPER_SHARE)
        check_count("patience", self.patience, optional=True, none="train to the end")
        check_flag("warm_start", self.warm_start)
        if self.warm_start and self.calibrate is not None:
            raise ValueError("warm_start goes with calibrate=None: rows held out now were learnt from before.")

    @property
    def _target_options(self) -> dict[str, bool]:
        """Of scikit-learn's `validate_data`, for targets."""
        return {}

    @abstractmethod
    def _begin(self, X: Any, y: Array, weight: Array | None, seen: int) -> tuple[Array, int]:
        """Learn scales for networks that each see so many rows; the targets as these learn them, and how many."""

    @abstractmethod
    def _hold_out(self, o: Moments, y: Array, part: Array) -> None:
        """Calibrate by outputs for some rows, their targets, and the part of the networks that has not seen each."""

    def _train_on(self, x: Any, y: Any, weight: Array | None) -> None:
        if self.calibrate is not None:
            raise ValueError(f"partial_fit goes with calibrate=None: no rows are held out, got {self.calibrate!r}.")
        super()._train_on(x, y, weight)
