"""Learning from rows and their targets: what the regressor and the classifier share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self

import scipy.sparse
import torch

from torchnpn.columns import Bins
from torchnpn.conformal import HeldOut
from torchnpn.estimators import calibration, stacking
from torchnpn.estimators.base import Array, NPNEstimator
from torchnpn.estimators.forward import outputs
from torchnpn.estimators.learning import Member, Plan, Progress, all_or_nothing, part_of, ramp, reporter
from torchnpn.moments import Moments
from torchnpn.nn import leading
from torchnpn.priors import EmpiricalBayes
from torchnpn.rows import (
    Inputs,
    check_enough_rows,
    check_progress,
    checked_rows,
    checked_subsets,
    checked_weight,
)
from torchnpn.settings import check_choice, short
from torchnpn.training import RowStream, train

_OF_A_NETWORK = (  # settings that describe one
    "hidden", "activation", "dropout", "adversarial", "kl_weight", "optimizer", "learning_rate", "batch_size",
    "n_estimators",
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
    calibration_: HeldOut | None = None
    _kl_weights: tuple[float, ...]  # that are tried

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        X_variance: Any = None,
        progress: Progress | None = None,
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
            progress: Called with the share of training that is done, from 0 to 1.
            subsets: (n_estimators, n) numbers of the rows that each network may see, as for a bootstrap or
                cross-validation; None: all see all. Scales of features and targets are those of all rows.
        """
        check_progress(progress)
        X, y, weight = self._checked(X, y, sample_weight, reset=True)
        self.calibration_ = None
        learn = self._learn if self.calibrate is None else partial(calibration.learn, self)
        learn(X, y, weight, X_variance, progress, subsets)
        return self

    @all_or_nothing
    def fit_stream(
        self,
        X: Any,
        y: Any,
        stream: RawStream,
        exposure: int | None = None,
        progress: Progress | None = None,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Learn one network, or `n_estimators`, from rows that do not lie in memory, read anew in each of `max_epochs`.

        Args:
            X: Some of the rows, by which scales are learnt; as for `fit`.
            y: Their targets.
            stream: All rows.
            exposure: Of a regression, the number of the column of X with exposures.
            progress: As for `fit`.
            checkpoint: As for `training.train`.
        """
        if self.calibrate is not None or self.effort == "best":
            raise ValueError("fit_stream learns one network: take calibrate=None, and not effort='best'.")
        check_progress(progress)
        X, y, weight = self._rows_of_stream(X, y, exposure, first=True)
        self.calibration_ = self._mixing = self._bins = None
        _, targets = self._begin(X, y, weight, stream.count)
        self._start(stream.count, targets)
        network, likelihood = self.network_, self._observed(self.likelihood_)
        steps, kl_weight = self._one_network_steps(stream.count), float(self.kl_weight)
        plan = Plan.of(stream.count, self.batch_size, self.max_epochs, steps, self._most_epochs, least_epochs=1)
        plan = plan._replace(epochs=plan.epochs * stream.parts)

        def learnable(X: Array, y: Array) -> tuple[Any, Array]:
            X, y, _ = self._rows_of_stream(X, y, exposure, first=False)
            return self._inputs(X, None), self._targets_of_stream(y)

        self.history_ = train(
            network,
            stream.learnable(learnable),
            likelihood,
            EmpiricalBayes() if kl_weight else None,
            self._recipe(plan, self._seed, kl_weight=ramp(kl_weight, partial(self._least_kl, likelihood))),
            callback=reporter(type(self).__name__, plan.epochs, progress, bool(self.verbose)),
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
    def _targets_of_stream(self, y: Array) -> Array:
        """Targets that have been checked, as the network learns them."""

    def _learn(
        self, X: Any, y: Array, weight: Array | None, X_variance: Any, progress: Progress | None, subsets: Any
    ) -> None:
        """Learn from rows that have been checked."""
        self._mixing = self._bins = None
        chosen = self._chooses(X, subsets)
        if chosen or self.calibrate == "cross":
            self._learn_mixture(X, y, weight, X_variance, progress, chosen)
            return
        rows = checked_subsets(subsets, self.n_estimators or 1, X.shape[0], weight)
        seen = X.shape[0] if rows is None else rows.shape[1]  # by each network
        t, targets = self._begin(X, y, weight, seen)
        check_enough_rows(self, X, weight)
        self._start(seen, targets)
        whole = Member(self.network_, self.likelihood_, self._seed)
        data = self._inputs(X, X_variance), t, weight
        self.history_ = self._train(whole, data, self._plan(seen), progress, self.kl_weight, rows)
        self._rows_seen = seen if weight is None else float(weight.sum())

    def _checked(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> tuple[Any, Array, Array | None]:
        """Rows, targets and weights, once settings make sense."""
        self._check_settings()
        X, y = checked_rows(self, X, y, reset=reset, **self._target_options)
        return X, y, checked_weight(sample_weight, X)

    def _learn_mixture(
        self, X: Any, y: Array, weight: Array | None, X_variance: Any, progress: Progress | None, chosen: bool
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
        data = self._inputs(X, X_variance), t, weight
        same = stacking.copies(X, y)
        repeated = rows / (int(same.max()) + 1)  # copies say no more than the row that they are of
        every = [self._one(seen)]
        if chosen:
            every = stacking.candidates(seen, self._features, self._width, self._kl_weights, self.effort)
        parts: list[stacking.Trained] = []
        for tried in every:
            told = None if progress is None else part_of(progress, len(parts), len(every))
            kl_weight = repeated * tried.member_kl_weights if chosen else self.kl_weight
            parts.append(self._trained(tried, data, targets, same, kl_weight, told))
        self.network_, self.likelihood_, self._mixing = stacking.mixture(parts, weight, self._new_likelihood)
        self._rows_seen = rows if weight is None else float(weight.sum())

    def _trained(
        self,
        tried: stacking.Candidates,
        data: tuple[Any, Array, Array | None],
        targets: int,
        same: Array,
        kl_weight: float | Array,
        progress: Progress | None = None,
    ) -> stacking.Trained:
        """Networks of one kind, and what they say of the rows that they have left out."""
        x, t, weight = data
        inputs = self._width if tried.encoded else self._features
        x = leading(x, inputs)
        folds = stacking.Folds.draw(same, len(tried.kl_weights), self._seed)
        plan = Plan.of(folds.subsets.shape[1], self.batch_size, self.max_epochs, tried.steps)
        whole = self._new_network(targets, [inputs, *tried.units], (tried.members,), plan)
        rate = min(self.learning_rate, tried.most_rate)
        self.history_ = self._train(whole, (x, t, weight), plan, progress, kl_weight, folds.subsets, rate)
        with torch.no_grad():
            observed = self._observed(whole.likelihood)
            logs = observed.log_prob(outputs(whole.network, x), torch.from_numpy(t))  # (members, rows)
        return stacking.Trained(tried, inputs, whole.network, whole.likelihood, folds.left_out(logs.numpy()))

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
                f'effort="best" chooses {name} by itself, got {name}={short(getattr(self, name))}. Leave {name} '
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
