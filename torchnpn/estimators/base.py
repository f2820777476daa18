"""What all estimators share: settings, the network, its training and its latent output."""

from __future__ import annotations

import copy
import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch.optim import Optimizer

from torchnpn.estimators import state
from torchnpn.estimators.ensemble import members_to_train, new_network, write_back_
from torchnpn.estimators.inputs import Inputs, check_variance
from torchnpn.estimators.plan import Plan, ramp
from torchnpn.estimators.precise import in_float64
from torchnpn.estimators.validation import check_choice, checked_data, is_number, is_whole, seed_of, short
from torchnpn.likelihoods import Likelihood, VarianceParts, mixture_parts
from torchnpn.moments import Moments
from torchnpn.nn import ACTIVATIONS, Linear, Sequential, member, mlp, replicas_of
from torchnpn.priors import EmpiricalBayes
from torchnpn.training import (
    History,
    Recipe,
    adam,
    check_network_size,
    constant,
    mean_history,
    resolve_device,
    train,
    why_not_numpy,
)

Array = NDArray[Any]
Progress = Callable[[float], None]
_CHUNK = 8192  # rows that pass through the network at a time
_BIAS_SPREAD = 0.5  # standard deviation of the first biases at the start, in those of the features
_MOST_LAYERS, _MOST_UNITS, _MOST_MEMBERS, _MOST_EPOCHS = 100, 10**8, 1_000, 100_000
_RANGES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "learning_rate": (lambda x: 1e-30 <= x <= 10, "above 0 (1e-30) and up to 10"),
    "kl_weight": (lambda x: 0 <= x <= 1e6, "from 0 to 1e6"),
    "dropout": (lambda x: 0 <= x < 1, "from 0 to below 1"),
    "adversarial": (lambda x: 0 <= x <= 1e6, "from 0 to 1e6"),
}


class NPNEstimator(BaseEstimator):  # type: ignore[misc]
    """Network, training and latent output of the estimators; subclasses say what the target is."""

    hidden: tuple[int, ...]
    activation: str
    missing: str
    dropout: float
    adversarial: float = 0.0
    kl_weight: float
    learning_rate: float
    batch_size: int | None
    max_epochs: int | None
    n_estimators: int = 1
    device: str
    random_state: Any
    verbose: int

    inputs_: Inputs
    network_: Sequential
    likelihood_: Likelihood
    history_: History
    n_features_in_: int
    _seed: int
    _rows_seen: float
    _averages: list[dict[str, Any]]  # of Adam, between calls of partial_fit; one for each trainee
    _steps: int = 10_000  # of training, after which sets of every size have settled
    _most_epochs: int = 1_000

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.non_deterministic = False
        return tags

    # Data --------------------------------------------------------------------------------------------------------

    def _check_rows(self, X: Any, *y: Any, reset: bool, **options: Any) -> Any:
        """X, or X and y, as arrays: numbers, NaN for what is missing, CSR as it is."""
        common: dict[str, Any] = {
            "accept_sparse": "csr",
            "dtype": [np.float64, np.float32],
            "ensure_all_finite": "allow-nan",
            "reset": reset,
        }
        checked = checked_data(self, X, *y, **common, **options)
        rows = checked[0] if y else checked
        if scipy.sparse.issparse(rows) and np.isnan(rows.data).any():
            raise ValueError("Sparse X expects numbers, got NaN. Missing values need a dense array: X.toarray().")
        return checked

    def _check_subsets(self, subsets: Any, X: Any, weight: Array | None) -> Array | None:
        """Rows of each member, (members, n)."""
        if subsets is None:
            return None
        if weight is not None:
            raise ValueError("subsets and sample_weight do not go together. Repeat rows in subsets instead.")
        chosen = np.asarray(subsets)
        members, rows = self.n_estimators, X.shape[0]
        if chosen.ndim != 2 or len(chosen) != members or not chosen.size or chosen.dtype.kind not in "iu":
            raise ValueError(
                f"subsets expects row numbers ({members}, n), for each of n_estimators={members} networks, got "
                f"{chosen.dtype} of shape {chosen.shape}."
            )
        if chosen.min() < 0 or chosen.max() >= rows:
            raise ValueError(f"subsets expects row numbers from 0 to {rows - 1}, got {chosen.min()} to {chosen.max()}.")
        return chosen.astype(np.int64)

    def _check_settings(self) -> None:
        """Raise for settings that no network can be made of."""
        self._check_hidden(self.hidden)
        for name, most in (("batch_size", math.inf), ("max_epochs", _MOST_EPOCHS)):
            value = getattr(self, name)
            if value is not None and not (_is_count(value) and value <= most):
                limit = "above zero" if most == math.inf else f"from 1 to {most:,}"
                raise ValueError(f"{name} expects a whole number {limit}, or None to choose it, got {short(value)}.")
        if not (_is_count(self.n_estimators) and self.n_estimators <= _MOST_MEMBERS):
            raise ValueError(
                f"n_estimators expects a whole number from 1 to {_MOST_MEMBERS:,}, got {short(self.n_estimators)}."
            )
        for name, (fits, words) in _RANGES.items():
            value = getattr(self, name)
            if not is_number(value) or not fits(value):
                raise ValueError(f"{name} expects a number {words}, got {short(value)}.")
        check_choice("missing", self.missing, ("marginal", "conditional"))
        check_choice("activation", self.activation, ACTIVATIONS)
        if not isinstance(self.verbose, (np.bool_, numbers.Integral)):
            raise ValueError(f"verbose expects 0 to print nothing or 1 to print, got {short(self.verbose)}.")

    def _check_hidden(self, hidden: Any) -> None:
        sizes = hidden if isinstance(hidden, (tuple, list)) else [0]
        if len(sizes) > _MOST_LAYERS or not all(_is_count(size) and size <= _MOST_UNITS for size in sizes):
            raise ValueError(
                f"hidden expects a tuple of layer sizes such as (50,), at most {_MOST_LAYERS} layers of at most "
                f"{_MOST_UNITS:,} units, got {short(hidden)}."
            )

    # Training ----------------------------------------------------------------------------------------------------

    @property
    def _replicas(self) -> tuple[int, ...]:
        """Leading dimensions of the tensors of network and likelihood."""
        return () if self.n_estimators == 1 else (int(self.n_estimators),)

    def _start(self, rows: int, n_in: int, n_out: int, likelihood: Likelihood) -> None:
        """A new network to be trained on so many rows, its random numbers drawn from `random_state`."""
        resolve_device(self.device)
        self._seed = seed_of(self.random_state)
        check_network_size(self._sizes(n_in, n_out), self._plan(rows).batch_size, self.n_estimators)
        self.network_ = new_network(partial(self._build, n_in, n_out), self._replicas, self._seed)
        self.likelihood_ = likelihood
        self.history_, self._rows_seen, self._averages = History(), 0.0, []

    def _build(
        self, n_in: int, n_out: int, generator: torch.Generator | None = None, replicas: tuple[int, ...] = ()
    ) -> Sequential:
        return self._network(self._sizes(n_in, n_out), generator, replicas)

    def _sizes(self, n_in: int, n_out: int) -> list[int]:
        """Of inputs, hidden layers and outputs."""
        return [n_in, *map(int, self.hidden), n_out]

    def _network(
        self, sizes: Sequence[int], generator: torch.Generator | None, replicas: tuple[int, ...] = ()
    ) -> Sequential:
        """Layers of these sizes; the kinks of the first one start spread over the rows, not all at their mean."""
        network = mlp(
            sizes, activation=self.activation, dropout=float(self.dropout), replicas=replicas, generator=generator
        )
        first = network[0]
        assert isinstance(first, Linear) and first.bias is not None
        if len(sizes) > 2 and not first.bias.free[0].is_meta:
            with torch.no_grad():
                first.bias.free[0].normal_(0, _BIAS_SPREAD, generator=generator)
        return network

    def _plan(self, rows: int) -> Plan:
        return Plan.of(rows, self.batch_size, self.max_epochs, self._steps, self._most_epochs)

    def _train(
        self, x: Any, y: Any, weight: Array | None, progress: Progress | None, subsets: Array | None = None
    ) -> None:
        plan = self._plan(y.shape[0] if subsets is None else subsets.shape[1])
        data = (x, y) if weight is None else (x, y, weight)
        prior = EmpiricalBayes() if self.kl_weight else None
        told = self.verbose or progress is not None
        histories: list[History] = []
        place = self._place()
        every = members_to_train(self.network_, self.likelihood_, self._seed, place)
        for k, (network, likelihood, seed) in enumerate(every):
            recipe = Recipe(
                epochs=plan.epochs,
                batch_size=plan.batch_size,
                learning_rate=self.learning_rate,
                kl_weight=ramp(self.kl_weight, partial(self._least_kl, likelihood)),
                adversarial=self.adversarial,
                seed=seed,
            )
            callback = partial(self._report, plan.epochs, progress, k, len(every)) if told else None
            together = subsets if replicas_of(network) else None
            if subsets is not None and together is None:
                data = (_rows(x, subsets[k]), y[subsets[k]])
            histories.append(
                train(network, data, likelihood, prior, recipe, subsets=together, callback=callback, device=place)
            )
        write_back_(self.network_, self.likelihood_, every)
        self.history_ = mean_history(histories)
        rows = y.shape[0] if subsets is None else subsets.shape[1]  # those that one network has seen
        self._rows_seen = rows if weight is None else float(weight.sum())

    def _place(self) -> torch.device:
        """Where to train; "auto" keeps a small network on the CPU: it is done before a GPU has compiled its kernels."""
        if self.device == "auto":
            alone = member(self.network_, 0) if self._replicas else self.network_
            if why_not_numpy(alone, EmpiricalBayes(), torch.device("cpu")) is None:
                return torch.device("cpu")
        return resolve_device(self.device)

    def _report(self, epochs: int, progress: Progress | None, k: int, count: int, history: History) -> None:
        """Tell how far the k-th of so many trainings is."""
        done, last = len(history.epochs), history.last
        if progress is not None:
            progress((k + done / epochs) / count)
        if self.verbose and (done % max(1, epochs // 10) == 0 or done == epochs):
            which = "" if count == 1 else f"member {k + 1}/{count}, "
            figures = f"loss {last.loss:.4f}, KL {last.kl:.4f}"
            print(f"[{type(self).__name__}] {which}epoch {done}/{epochs}: {figures}")

    def _least_kl(self, likelihood: Likelihood) -> float | Array:
        """The share of `kl_weight` that the KL has at least, from the start; one for each replica, if any."""
        return 0.0

    def _train_on(self, x: Any, y: Any, weight: Array | None) -> None:
        """One pass over more rows, from where the weights are; the KL counts once over all rows seen."""
        self.network_, self.likelihood_ = copy.deepcopy(
            (self.network_, self.likelihood_)
        )  # the old ones stay as they are
        rows = len(y) if weight is None else float(weight.sum())
        self._rows_seen += rows
        data = (x, y) if weight is None else (x, y, weight)
        batch_size = self._plan(y.shape[0]).batch_size
        place = self._place()
        every = members_to_train(self.network_, self.likelihood_, self._seed, place)
        averages = self._averages if len(self._averages) == len(every) else [None] * len(every)
        histories: list[History] = []
        made: list[Optimizer] = []

        def resumed(before: dict[str, Any] | None, parameters: Iterable[torch.Tensor], lr: float) -> Optimizer:
            """Adam, with the averages of the calls before."""
            made.append(adam(parameters, lr))
            if before is not None:
                made[-1].load_state_dict(copy.deepcopy(before))
            return made[-1]

        for before, (network, likelihood, seed) in zip(averages, every, strict=True):
            recipe = Recipe(
                epochs=1,
                batch_size=batch_size,
                learning_rate=self.learning_rate,
                optimizer=partial(resumed, before),
                scheduler=None,
                kl_weight=constant(self.kl_weight * rows / self._rows_seen),
                adversarial=self.adversarial,
                seed=seed + int(self._rows_seen),
            )
            histories.append(train(network, data, likelihood, EmpiricalBayes(), recipe, device=place))
        write_back_(self.network_, self.likelihood_, every)
        self._averages = [optimizer.state_dict() for optimizer in made]
        self.history_ = History([*self.history_.epochs, *mean_history(histories).epochs])

    # Prediction --------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _latent(self, X: Any, X_variance: Any = None, modules: int | None = None) -> Moments:
        """Moments of the network's output, or that of its first modules, (*replicas, rows, outputs), in float64.

        On a CPU the network itself runs in float64, so that a row's prediction does not depend on its neighbours in
        the batch; on a GPU in float32.
        """
        X = self._check_rows(X, reset=False)
        x = self.inputs_.moments(X, check_variance(X_variance, X))
        network = in_float64(self.network_)
        like, called = next(network.parameters()), network if modules is None else network[:modules]
        parts = [called(_like(_rows(x, slice(i, i + _CHUNK)), like)) for i in range(0, X.shape[0], _CHUNK)]
        means, variances = (torch.cat([part[i].double().cpu() for part in parts], -2) for i in (0, 1))
        if not (means.isfinite().all() and variances.isfinite().all()):
            raise ValueError(
                "X expects values for which the network's output is a floating-point number, got some too far from the "
                "training rows. Look for a wrong unit or a code for missing values; what is missing is NaN."
            )
        return Moments(means, variances)

    def _variance_parts(self, o: Moments) -> VarianceParts:
        """Parts of the predictive variance for latent moments of one network or of all members."""
        parts = self.likelihood_.variance_parts(o)
        if not replicas_of(self.network_):
            return parts
        return mixture_parts(parts, self.likelihood_.predict(o).mean)

    # Model files -------------------------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """All that predictions need, as plain values and arrays."""
        check_is_fitted(self, "network_")
        names = getattr(self, "feature_names_in_", None)
        plain = {
            "settings": state.plain_settings(self.get_params(deep=False)),
            "features": int(self.n_features_in_),
            "feature_names": None if names is None else [str(name) for name in names],
            "rows_seen": float(self._rows_seen),
            "seed": self._seed,
            **self._plain_target(),
        }
        arrays: dict[str, Any] = {
            f"inputs.{name}": array for name, array in self.inputs_._asdict().items() if array.size
        }
        for prefix, module in (("network.", self.network_), ("likelihood.", self.likelihood_)):
            arrays |= {prefix + name: value.detach().cpu() for name, value in module.state_dict().items()}
        return plain, {**arrays, **self._target_arrays()}

    @classmethod
    def _from_state(cls, plain: dict[str, Any], arrays: dict[str, Any]) -> Self:
        """The inverse of `_state`; a ValueError for anything that `_state` cannot have written."""
        estimator = cls(**state.checked_settings(plain.get("settings"), set(cls().get_params(deep=False))))
        estimator._check_settings()
        n_in = state.checked_count(plain.get("features"), "features")
        names = state.checked_names(plain.get("feature_names"), n_in)
        if names is not None:
            estimator.feature_names_in_ = names
        estimator.n_features_in_ = n_in
        estimator._seed = state.checked_count(plain.get("seed"), "seed", least=0)
        estimator._rows_seen = state.checked_number(plain.get("rows_seen"), "rows_seen")
        estimator.history_, estimator._averages = History(), []
        named = dict.fromkeys(("center", "scale", "mean", "variance"), (n_in,))
        if "inputs.correlation" in arrays:
            named["correlation"] = (n_in, n_in)  # type: ignore[assignment]
        inputs = {name: state.checked_array(arrays, f"inputs.{name}", shape) for name, shape in named.items()}
        estimator.inputs_ = Inputs(**{"correlation": np.empty((0, 0)), **inputs})
        state.check_scale(estimator.inputs_.scale, estimator.inputs_.center, "inputs")
        if not ((estimator.inputs_.variance >= 0) & (estimator.inputs_.variance <= 1e12)).all():
            raise ValueError("inputs expects variances ≥ 0, in standard units.")
        if "correlation" in inputs:
            state.check_covariance(inputs["correlation"], "inputs.correlation")
        with torch.device("meta"):
            likelihood = estimator._read_target(plain, arrays)
            network = estimator._build(n_in, likelihood.outputs(estimator._targets), replicas=estimator._replicas)
        estimator.network_ = state.load_module(network, arrays, "network.").eval()  # type: ignore[assignment]
        estimator.likelihood_ = state.load_module(likelihood, arrays, "likelihood.")  # type: ignore[assignment]
        state.check_same_names((plain, arrays), estimator._state())
        return estimator

    def _plain_target(self) -> dict[str, Any]:
        """What is known of the target, as plain values."""
        return {}

    def _target_arrays(self) -> dict[str, Array]:
        """What is known of the target, as arrays."""
        return {}

    def _read_target(self, plain: dict[str, Any], arrays: dict[str, Any]) -> Likelihood:
        """Take up what the two above wrote; the likelihood, yet without numbers."""
        raise NotImplementedError

    @property
    def _targets(self) -> int:
        """Targets, or classes, of the likelihood."""
        raise NotImplementedError

    @property
    def n_iter_(self) -> int:
        """Passes over the training rows."""
        check_is_fitted(self, "history_")
        return len(self.history_.epochs)


def _is_count(value: Any) -> bool:
    return is_whole(value) and value > 0


def _rows(x: Any, rows: Any) -> Any:
    """Some rows of a CSR matrix, or of moments."""
    if scipy.sparse.issparse(x):
        return x[rows]
    return Moments(x.mean[rows], None if x.variance is None else x.variance[rows])


def _like(x: Any, like: torch.Tensor) -> Any:
    """Of the type of `like`, and where it is."""
    if scipy.sparse.issparse(x):
        return x.astype(np.float64 if like.dtype == torch.float64 else np.float32)
    return Moments(x.mean.to(like), None if x.variance is None else x.variance.to(like))
