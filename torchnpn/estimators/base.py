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
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.optim import Optimizer

from torchnpn.columns import Bins, Columns
from torchnpn.estimators import state
from torchnpn.estimators.forward import outputs
from torchnpn.estimators.learning import Member, Plan, new_network, ramp, train_members
from torchnpn.estimators.stacking import Mixing
from torchnpn.families import Distribution
from torchnpn.io import StoredEstimator, checks
from torchnpn.likelihoods import Likelihood, VarianceParts, mixed, mixture_parts
from torchnpn.moments import Moments
from torchnpn.nn import (
    ACTIVATIONS,
    POSTERIORS,
    Ensemble,
    Linear,
    MeanAndNoise,
    Sequential,
    check_network_size,
    member,
    mlp,
    replicas_of,
)
from torchnpn.priors import EmpiricalBayes
from torchnpn.progress import Watch
from torchnpn.rows import (
    Beyond,
    Inputs,
    check_categorical,
    check_number_columns,
    checked_rows,
    checked_variance,
)
from torchnpn.settings import (
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
from torchnpn.training import OPTIMIZERS, History, Recipe, constant, join, resolve_device, why_not_numpy

Array = NDArray[Any]
_BIAS_SPREAD = 0.5  # standard deviation of the first biases at the start, in those of the features


class NPNEstimator(StoredEstimator):
    """Network, training and latent output of the estimators; subclasses say what the target is."""

    hidden: tuple[int, ...]
    activation: str
    categorical_features: Any
    missing: str
    dropout: float
    adversarial: float = 0.0
    kl_weight: float
    posterior: str
    optimizer: str = "adam"
    learning_rate: float
    batch_size: int | None
    max_epochs: int | None
    n_estimators: int | None = None
    patience: int | None = None
    device: str
    random_state: Any
    verbose: int

    columns_: Columns | None
    inputs_: Inputs
    network_: Any  # Sequential, or an Ensemble of several
    likelihood_: Likelihood
    history_: History
    n_features_in_: int
    _seed: int
    _least_scale: Array | float  # of an input
    _rows_seen: float
    _averages: list[dict[str, Any]]  # of the optimizer, between calls of partial_fit; one for each trainee
    _bins: Bins | None = None  # that stand beside the features
    _beyond: Beyond | None = None  # where the rows were that a mixture learnt from
    _largest: Array | None = None  # target in the training rows, in units, where it limits means
    _mixing: Mixing | None = None  # of networks of several shapes; None for networks of one shape that count the same
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
        check_count("n_estimators", self.n_estimators, 1_000, optional=True)
        ranges = {"learning_rate": RATE, "kl_weight": WEIGHT, "dropout": SHARE, "adversarial": WEIGHT}
        for name, among in ranges.items():
            check_number(name, getattr(self, name), among)
        check_choice("missing", self.missing, ("marginal", "conditional"))
        check_choice("activation", self.activation, ACTIVATIONS)
        check_choice("posterior", self.posterior, POSTERIORS)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_verbose(self.verbose)
        check_categorical(self.categorical_features)

    def _check_hidden(self, hidden: Any) -> None:
        check_hidden(hidden)

    # Training ----------------------------------------------------------------------------------------------------

    @property
    def _replicas(self) -> tuple[int, ...]:
        """Leading dimensions of the tensors of network and likelihood, where all members have one shape."""
        return () if self.n_estimators in (None, 1) else (int(self.n_estimators),)

    @property
    def _layers(self) -> list[int]:
        """Units of all hidden layers."""
        return [*map(int, self.hidden)]

    def _start(self, rows: int, targets: int) -> None:
        """A new network to be trained on so many rows, its random numbers drawn from `random_state`."""
        self._start_again()
        sizes = [self._width, *self._layers]
        made = self._new_network(targets, sizes, self._replicas, self._plan(rows))
        self.network_, self.likelihood_, _ = made

    def _start_again(self) -> None:
        resolve_device(self.device)
        self._seed = join().from_first(lambda: seed_of(self.random_state))
        self.history_, self._rows_seen, self._averages = History(), 0.0, []

    def _new_network(self, targets: int, sizes: list[int], replicas: tuple[int, ...], plan: Plan) -> Member:
        """A network with these sizes of inputs and hidden layers, or several, and the likelihood of its outputs."""
        likelihood = self._new_likelihood(replicas)
        check_network_size([*sizes, likelihood.outputs(targets)], plan.batch_size, math.prod(replicas))
        build = partial(self._build, likelihood, targets, sizes)
        return Member(new_network(build, replicas, self._seed), likelihood, self._seed)

    def _new_likelihood(self, replicas: tuple[int, ...]) -> Likelihood:
        """What turns outputs into predictions, for so many networks."""
        raise NotImplementedError

    def _build(
        self,
        likelihood: Likelihood,
        targets: int,
        sizes: list[int],
        generator: torch.Generator | None = None,
        replicas: tuple[int, ...] = (),
    ) -> Sequential:
        """Layers of these sizes, whose outputs the likelihood takes; kinks of the first start spread over the rows."""
        common: dict[str, Any] = {"posterior": self.posterior, "replicas": replicas, "generator": generator}
        sizes = [*sizes, targets if likelihood.noise_apart else likelihood.outputs(targets)]
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
        whole: Member,
        data: tuple[Any, Any, Array | None],
        plan: Plan,
        watch: Watch,
        kl_weight: float | Array,
        subsets: Array | None = None,
        learning_rate: float | None = None,
        validation: tuple[Any, Any, Array | None] | None = None,
    ) -> History:
        """From the start, until rows held out get no better; with one weight of the KL, or one for each network."""
        rate = self.learning_rate if learning_rate is None else learning_rate

        def recipe(trained: Member, k: int, count: int) -> Recipe:
            beta = ramp(kl_weight, partial(self._least_kl, trained.likelihood))
            patience = None if validation is None else self.patience
            return self._recipe(plan, trained.seed, kl_weight=beta, learning_rate=rate, patience=patience)

        report = partial(watch.training, plan.epochs)
        prior = EmpiricalBayes() if np.any(kl_weight) else None
        return self._train_members(whole, data, prior, recipe, report, subsets, np.ndim(kl_weight) > 0, validation)

    def _train_on(self, x: Any, y: Any, weight: Array | None) -> None:
        """One pass over more rows, from where the weights are; the KL counts once over all rows seen."""
        if self._mixing is not None:
            raise ValueError(
                'partial_fit goes on with one network: make the estimator with effort="quick". The networks of a '
                "mixture each left out other rows."
            )
        before = self.network_, self.likelihood_
        self.network_, self.likelihood_ = copy.deepcopy(before)  # the old ones stay as they are
        rows = len(y) if weight is None else float(weight.sum())
        self._rows_seen += rows
        plan, averages = self._plan(y.shape[0])._replace(epochs=1), self._averages
        made: list[Optimizer] = []

        def resumed(before: dict[str, Any] | None, parameters: Iterable[Tensor], lr: float) -> Optimizer:
            """The optimizer, with the averages of the calls before."""
            made.append(OPTIMIZERS[self.optimizer](parameters, lr))
            if before is not None:
                made[-1].load_state_dict(copy.deepcopy(before))
            return made[-1]

        def recipe(trained: Member, k: int, count: int) -> Recipe:
            kl_weight, seed = constant(self.kl_weight * rows / self._rows_seen), trained.seed + int(self._rows_seen)
            optimizer = partial(resumed, averages[k] if len(averages) == count else None)
            return self._recipe(plan, seed, kl_weight=kl_weight, optimizer=optimizer, scheduler=None)

        whole = Member(self.network_, self.likelihood_, self._seed)
        history = self._train_members(whole, (x, y, weight), EmpiricalBayes(), recipe)
        self._averages = [optimizer.state_dict() for optimizer in made]
        self.history_ = History([*self.history_.epochs, *history.epochs])

    def _recipe(self, plan: Plan, seed: int, **others: Any) -> Recipe:
        own = {"optimizer": OPTIMIZERS[self.optimizer], "learning_rate": self.learning_rate}
        settings = {**own, "adversarial": self.adversarial, **others}
        return Recipe(seed=seed, batch_size=plan.batch_size, epochs=plan.epochs, **settings)

    def _train_members(self, whole: Member, *arguments: Any) -> History:
        observed = whole._replace(likelihood=self._observed(whole.likelihood))
        return train_members(observed, self._place(whole.network), *arguments)

    def _observed(self, likelihood: Likelihood) -> Likelihood:
        """The likelihood of targets as training sees them, which may carry more than what it predicts."""
        return likelihood

    def _place(self, network: Sequential) -> torch.device:
        """Where to train; "auto" keeps a small network on the CPU: it is done before a GPU has compiled its kernels."""
        if self.device == "auto":
            alone = member(network, 0) if replicas_of(network) else network
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
        return self._outputs(checked_rows(self, X, reset=False), X_variance, modules)

    def _outputs(self, X: Any, X_variance: Any, modules: int | None = None) -> Moments:
        """The same of rows that have been checked."""
        o = outputs(self.network_, self._inputs(X, X_variance), modules)
        return o if self._beyond is None else self._beyond.widened(o, self.inputs_.distances(X))

    def _inputs(self, X: Any, X_variance: Any) -> Any:  # (rows, features) -> (rows, inputs of the network)
        """Rows that have been checked, as the network takes them."""
        check_number_columns(self.columns_, X_variance)
        z = self.inputs_.moments(X, checked_variance(X_variance, X))
        return z if self._bins is None else self._bins.beside(z)

    def _mixed(self, members: Distribution) -> Distribution:
        """What all members together predict."""
        return mixed(members, self._weights) if replicas_of(self.network_) else members

    @property
    def _weights(self) -> Tensor | None:
        """Of the members in the mixture; None where all count the same."""
        return None if self._mixing is None else torch.from_numpy(self._mixing.weights)

    @torch.no_grad()
    def _variance_parts(self, o: Moments) -> VarianceParts:
        """Parts of the predictive variance given the latent output, of one network or of all members."""
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
            **({} if self._mixing is None else {"mixture": self._mixing.plain_shapes()}),
            **self._plain_target(),
        }
        arrays: dict[str, Any] = self.inputs_.to_arrays()
        if self._mixing is not None:
            arrays |= {"weights": self._mixing.weights}
        if self._bins is not None:
            arrays |= self._bins.to_arrays()
        if self._beyond is not None:
            arrays |= self._beyond.to_arrays()
        if self._largest is not None:
            arrays |= {"largest": self._largest}
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
        if "mixture" in plain:
            model._mixing = Mixing.from_file(plain["mixture"], arrays)
        if "bins.feature" in arrays:
            model._bins = Bins.from_arrays(arrays, model._features)
        if "beyond.least" in arrays:
            model._beyond = Beyond.from_arrays(arrays, model._features)
        targets = model._read_target(plain, arrays)
        with torch.device("meta"):
            network, likelihood = model._empty(targets)
        model.network_ = state.load_module(network, arrays, "network.")
        model.likelihood_ = state.load_module(likelihood, arrays, "likelihood.")
        if "largest" in arrays:
            model._largest = checks.array("largest", arrays, (targets,))
            model.likelihood_.know_largest(model._largest)
        state.check_complete(plain, arrays, model)
        return model

    @property
    def _features(self) -> int:
        """Columns of X, or what becomes of them if they are not all numbers."""
        return self.n_features_in_ if self.columns_ is None else self.columns_.width

    def _empty(self, targets: int) -> tuple[Sequential | Ensemble, Likelihood]:
        """Network and likelihood of the right shapes, yet without numbers."""
        if self._mixing is None:
            likelihood = self._new_likelihood(self._replicas)
            sizes = [self._width, *self._layers]
            return self._build(likelihood, targets, sizes, replicas=self._replicas), likelihood
        likelihood = self._new_likelihood((len(self._mixing.weights),))
        shapes = self._mixing.shapes
        if wrong := [sizes[0] for sizes, _ in shapes if sizes[0] not in (self._features, self._width)]:
            raise ValueError(f"networks should have {self._features} or {self._width} inputs, got {wrong[0]}")
        return Ensemble(self._build(likelihood, targets, list(sizes), replicas=(k,)) for sizes, k in shapes), likelihood

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

    def _read_target(self, plain: dict[str, Any], arrays: dict[str, Any]) -> int:
        """Take up what the two above wrote; how many targets or classes there are."""
        raise NotImplementedError
