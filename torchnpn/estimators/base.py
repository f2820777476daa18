"""What all estimators share: settings, the network, its training, its latent output, and what files hold of it."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.optim import Optimizer

from torchnpn.columns import Columns
from torchnpn.estimators import state
from torchnpn.estimators.bins import Bins
from torchnpn.estimators.encoding import check_categorical, check_number_columns
from torchnpn.estimators.forward import outputs
from torchnpn.estimators.inputs import Inputs
from torchnpn.estimators.learning import Member, Plan, Progress, new_network, ramp, reporter, train_members
from torchnpn.estimators.settings import (
    RATE,
    SHARE,
    WEIGHT,
    check_choice,
    check_count,
    check_hidden,
    check_number,
    check_verbose,
    seed_of,
)
from torchnpn.estimators.validation import checked_rows, checked_variance
from torchnpn.families import Distribution
from torchnpn.io import checks
from torchnpn.likelihoods import Likelihood, VarianceParts, mixed, mixture_parts
from torchnpn.moments import Moments
from torchnpn.nn import ACTIVATIONS, Linear, MeanAndNoise, Sequential, member, mlp, replicas_of
from torchnpn.priors import EmpiricalBayes
from torchnpn.training import History, Recipe, adam, check_network_size, constant, resolve_device, why_not_numpy

Array = NDArray[Any]
_BIAS_SPREAD = 0.5  # standard deviation of the first biases at the start, in those of the features


class NPNEstimator(BaseEstimator):  # type: ignore[misc]
    """Network, training and latent output of the estimators; subclasses say what the target is."""

    hidden: tuple[int, ...]
    activation: str
    categorical_features: Any
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

    columns_: Columns | None
    inputs_: Inputs
    network_: Sequential
    likelihood_: Likelihood
    history_: History
    n_features_in_: int
    _seed: int
    _least_scale: Array | float  # of an input
    _rows_seen: float
    _averages: list[dict[str, Any]]  # of Adam, between calls of partial_fit; one for each trainee
    _bins: Bins | None = None  # that stand beside the features
    _weights: Tensor | None = None  # of members in the mixture; None where all count the same
    _steps: int = 10_000  # of training, after which sets of every size have settled
    _most_epochs: int = 1_000

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.non_deterministic = False
        return tags

    def _check_settings(self) -> None:
        """Raise for settings that no network can be made of."""
        self._check_hidden(self.hidden)
        check_count("batch_size", self.batch_size, optional=True)
        check_count("max_epochs", self.max_epochs, 100_000, optional=True)
        check_count("n_estimators", self.n_estimators, 1_000)
        ranges = {"learning_rate": RATE, "kl_weight": WEIGHT, "dropout": SHARE, "adversarial": WEIGHT}
        for name, among in ranges.items():
            check_number(name, getattr(self, name), among)
        check_choice("missing", self.missing, ("marginal", "conditional"))
        check_choice("activation", self.activation, ACTIVATIONS)
        check_verbose(self.verbose)
        check_categorical(self.categorical_features)

    def _check_hidden(self, hidden: Any) -> None:
        check_hidden(hidden)

    # Training ----------------------------------------------------------------------------------------------------

    @property
    def _replicas(self) -> tuple[int, ...]:
        """Leading dimensions of the tensors of network and likelihood."""
        members = int(self.n_estimators) if self._weights is None else len(self._weights)
        return () if members == 1 else (members,)

    @property
    def _layers(self) -> list[int]:
        """Units of all hidden layers."""
        return [*map(int, self.hidden)]

    def _start(self, rows: int, n_in: int, targets: int, likelihood: Likelihood) -> None:
        """A new network to be trained on so many rows, its random numbers drawn from `random_state`."""
        resolve_device(self.device)
        self._seed, self.likelihood_ = seed_of(self.random_state), likelihood
        sizes = [n_in, *self._layers, likelihood.outputs(targets)]
        check_network_size(sizes, self._plan(rows).batch_size, math.prod(self._replicas))
        self.network_ = new_network(partial(self._build, n_in, targets), self._replicas, self._seed)
        self.history_, self._rows_seen, self._averages = History(), 0.0, []

    def _build(
        self, n_in: int, targets: int, generator: torch.Generator | None = None, replicas: tuple[int, ...] = ()
    ) -> Sequential:
        """Layers whose outputs the likelihood takes; the kinks of the first start spread over the rows."""
        common: dict[str, Any] = {"replicas": replicas, "generator": generator}
        likelihood = self.likelihood_
        sizes = [n_in, *self._layers, targets if likelihood.noise_apart else likelihood.outputs(targets)]
        network = mlp(sizes, activation=self.activation, dropout=float(self.dropout), **common)
        first, last = network[0], network[-1]
        assert isinstance(first, Linear) and first.bias is not None and isinstance(last, Linear)
        if len(sizes) > 2 and not first.bias.free[0].is_meta:
            with torch.no_grad():
                first.bias.free[0].normal_(0, _BIAS_SPREAD, generator=generator)
        if likelihood.noise_apart:  # one more for the noise of each target
            network[-1] = MeanAndNoise(last.in_features, targets, **common)
            network[-1].mean = last  # it starts, and is learnt, as with constant noise
        return network

    def _plan(self, rows: int) -> Plan:
        return Plan.of(rows, self.batch_size, self.max_epochs, self._steps, self._most_epochs)

    def _least_kl(self, likelihood: Likelihood) -> float | Array:
        """The share of `kl_weight` that the KL has at least, from the start; one for each replica, if any."""
        return likelihood.least_kl()

    def _train(
        self,
        x: Any,
        y: Any,
        weight: Array | None,
        progress: Progress | None,
        subsets: Array | None = None,
        kl_weight: float | Array | None = None,
    ) -> None:
        """All epochs, from the start; with one weight of the KL, or one for each of the networks."""
        wanted = self.kl_weight if kl_weight is None else kl_weight
        rows = y.shape[0] if subsets is None else subsets.shape[1]  # that one network sees
        plan = self._plan(rows)

        def recipe(trained: Member, k: int, count: int) -> Recipe:
            kl_weight = ramp(wanted, partial(self._least_kl, trained.likelihood))
            return self._recipe(trained.seed, plan.batch_size, epochs=plan.epochs, kl_weight=kl_weight)

        report = partial(reporter, type(self).__name__, plan.epochs, progress, bool(self.verbose))
        prior = EmpiricalBayes() if np.any(wanted) else None
        self.history_ = self._train_members((x, y, weight), prior, recipe, report, subsets, np.ndim(wanted) > 0)
        self._rows_seen = rows if weight is None else float(weight.sum())

    def _train_on(self, x: Any, y: Any, weight: Array | None) -> None:
        """One pass over more rows, from where the weights are; the KL counts once over all rows seen."""
        if self._weights is not None:
            raise ValueError('partial_fit goes with effort="quick": with "best", each member left out other rows.')
        before = self.network_, self.likelihood_
        self.network_, self.likelihood_ = copy.deepcopy(before)  # the old ones stay as they are
        rows = len(y) if weight is None else float(weight.sum())
        self._rows_seen += rows
        batch_size, averages = self._plan(y.shape[0]).batch_size, self._averages
        made: list[Optimizer] = []

        def resumed(before: dict[str, Any] | None, parameters: Iterable[Tensor], lr: float) -> Optimizer:
            """Adam, with the averages of the calls before."""
            made.append(adam(parameters, lr))
            if before is not None:
                made[-1].load_state_dict(copy.deepcopy(before))
            return made[-1]

        def recipe(trained: Member, k: int, count: int) -> Recipe:
            kl_weight, seed = constant(self.kl_weight * rows / self._rows_seen), trained.seed + int(self._rows_seen)
            optimizer = partial(resumed, averages[k] if len(averages) == count else None)
            return self._recipe(seed, batch_size, epochs=1, kl_weight=kl_weight, optimizer=optimizer, scheduler=None)

        history = self._train_members((x, y, weight), EmpiricalBayes(), recipe)
        self._averages = [optimizer.state_dict() for optimizer in made]
        self.history_ = History([*self.history_.epochs, *history.epochs])

    def _recipe(self, seed: int, batch_size: int, **others: Any) -> Recipe:
        others |= {"learning_rate": self.learning_rate, "adversarial": self.adversarial}
        return Recipe(seed=seed, batch_size=batch_size, **others)

    def _train_members(self, *arguments: Any) -> History:
        return train_members(Member(self.network_, self.likelihood_, self._seed), self._place(), *arguments)

    def _place(self) -> torch.device:
        """Where to train; "auto" keeps a small network on the CPU: it is done before a GPU has compiled its kernels."""
        if self.device == "auto":
            alone = member(self.network_, 0) if self._replicas else self.network_
            if why_not_numpy(alone, EmpiricalBayes(), torch.device("cpu")) is None:
                return torch.device("cpu")
        return resolve_device(self.device)

    @property
    def n_iter_(self) -> int:
        """Passes over the training rows."""
        check_is_fitted(self, "history_")
        return len(self.history_.epochs)

    # Prediction --------------------------------------------------------------------------------------------------

    def _latent(self, X: Any, X_variance: Any = None, modules: int | None = None) -> Moments:
        """Moments of the network's output, or that of its first modules, (*replicas, rows, outputs), in float64."""
        check_is_fitted(self, "network_")
        return outputs(self.network_, self._inputs(checked_rows(self, X, reset=False), X_variance), modules)

    def _inputs(self, X: Any, X_variance: Any) -> Any:  # (rows, features) -> (rows, inputs of the network)
        """Rows that have been checked, as the network takes them."""
        check_number_columns(self.columns_, X_variance)
        z = self.inputs_.moments(X, checked_variance(X_variance, X))
        return z if self._bins is None else self._bins.beside(z)

    def _mixed(self, members: Distribution) -> Distribution:
        """What all members together predict."""
        return mixed(members, self._weights) if replicas_of(self.network_) else members

    @torch.no_grad()
    def _variance_parts(self, X: Any, X_variance: Any) -> VarianceParts:
        """Parts of the predictive variance, of one network or of all members."""
        o = self._latent(X, X_variance)
        parts = self.likelihood_.variance_parts(o)
        if not replicas_of(self.network_):
            return parts
        return mixture_parts(parts, self.likelihood_.predict(o).mean, self._weights)

    # Model files -------------------------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """All that predictions need, as plain values and arrays."""
        check_is_fitted(self, "network_")
        plain = {
            **state.plain_model(self),
            "rows_seen": float(self._rows_seen),
            "seed": self._seed,
            **self._plain_target(),
        }
        arrays: dict[str, Any] = self.inputs_.to_arrays()
        if self._weights is not None:
            arrays |= {"weights": self._weights.numpy()}
        if self._bins is not None:
            arrays |= self._bins.to_arrays()
        for prefix, module in (("network.", self.network_), ("likelihood.", self.likelihood_)):
            arrays |= {prefix + name: value.detach().cpu() for name, value in module.state_dict().items()}
        return plain, {**arrays, **self._target_arrays()}

    @classmethod
    def _from_state(cls, plain: dict[str, Any], arrays: dict[str, Any]) -> Self:
        """The inverse of `_state`; a ValueError for anything that `_state` cannot have written."""
        model = state.new_model(cls, plain)
        model._seed = checks.size("seed", plain.get("seed"), least=0)
        model._rows_seen = checks.not_negative("rows_seen", plain.get("rows_seen"))
        model.history_, model._averages = History(), []
        model.columns_ = state.checked_columns(plain, model)
        model.inputs_ = Inputs.from_arrays(arrays, model._features)
        model._read_mixture(arrays)
        with torch.device("meta"):
            model.likelihood_, targets = model._read_target(plain, arrays)
            network = model._build(model._width, targets, replicas=model._replicas)
        model.network_ = state.load_module(network, arrays, "network.")
        state.load_module(model.likelihood_, arrays, "likelihood.")
        state.check_complete(plain, arrays, model)
        return model

    def _read_mixture(self, arrays: dict[str, Any]) -> None:
        """Take up bins and the weights of members, where a file has them."""
        if "weights" in arrays:
            weights = checks.array("weights", arrays, (np.asarray(arrays["weights"]).size,))
            if not ((weights > 0).all() and abs(weights.sum() - 1) < 1e-6):
                raise ValueError("weights should be above zero, with a sum of one")
            self._weights = torch.from_numpy(weights)
        if "bins.feature" in arrays:
            self._bins = Bins.from_arrays(arrays, self._features)

    @property
    def _features(self) -> int:
        """Columns of X, or what becomes of them if they are not all numbers."""
        return self.n_features_in_ if self.columns_ is None else self.columns_.width

    @property
    def _width(self) -> int:
        """Inputs of the network."""
        return self._features + (0 if self._bins is None else len(self._bins.feature))

    def _plain_target(self) -> dict[str, Any]:
        """What is known of the target, as plain values."""
        return {}

    def _target_arrays(self) -> dict[str, Array]:
        """What is known of the target, as arrays."""
        return {}

    def _read_target(self, plain: dict[str, Any], arrays: dict[str, Any]) -> tuple[Likelihood, int]:
        """Take up what the two above wrote; the likelihood, yet without numbers, and how many targets or classes."""
        raise NotImplementedError
