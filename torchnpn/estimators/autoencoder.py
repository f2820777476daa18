"""Codes of rows with a second order: mean and variance of a hidden layer for every row of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from torchnpn.estimators.base import NPNEstimator
from torchnpn.estimators.forward import in_float64
from torchnpn.estimators.learning import Member, all_or_nothing
from torchnpn.estimators.predictive import ArrayMoments
from torchnpn.likelihoods import GaussianNoise, Likelihood
from torchnpn.progress import Callback, watching
from torchnpn.rows import (
    Inputs,
    check_enough_rows,
    checked_rows,
    checked_weight,
    real_numbers,
)
from torchnpn.settings import check_hidden

Array = NDArray[Any]


def decoded(Z: Any, units: int, decode: Callable[[Array], Array]) -> Array:
    """Rows from codes of so many units: checked before and after."""
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large is refused in words
        codes = check_array(real_numbers(Z, "inverse_transform"), copy=True)
        if codes.shape[1] != units:
            raise ValueError(f"inverse_transform expects codes of {units} units, got {codes.shape[1]}.")
        rows = decode(codes)
    if not np.isfinite(rows).all():
        raise ValueError(
            "inverse_transform expects codes whose rows are floating-point numbers, got some that are too large. "
            "Take codes such as `transform` gives them."
        )
    return rows


class NPNAutoencoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, NPNEstimator):  # type: ignore[misc]
    """An autoencoder of distributions for tables: the last hidden layer is the code, a mirror decodes it.

    Columns may have any units and sign. Rows are standardised, and reconstructed with a learnt noise: the loss is
    -log N(x; o_m, o_s + σ²). For counts, such as bags of words, there is `DocumentAutoencoder`.

    Args:
        hidden: Units of the encoder's layers; the last is the size of the code.
        activation: Of all layers but the output: a name of `nn`'s activations.
        categorical_features: Which columns hold categories: "from_dtype" for those of text or a type for them; a list
            of names, of numbers, or of True and False adds others, such as codes that are numbers. Dates and times are
            recognised. An array of strings needs the list.
        missing: What NaN stands for: "marginal", the mean and variance of its feature in the training rows; or
            "conditional", those given the other values of its row, better where features are correlated.
        dropout: Probability of dropping a hidden unit in training.
        kl_weight: Weight of the KL from the weights' prior, at the end of training.
        posterior: Of the weights: "mean_field", a standard deviation for each; or "tied", an outer product of a number
            for each output of a layer and one for each input, with which wide networks learn in less time and memory.
        optimizer: Name of one of `training.OPTIMIZERS`: "adam", the paper's "adadelta" (with learning_rate=1.0), …
        learning_rate: Of the optimizer; falls to zero along half a cosine.
        batch_size: Rows in a minibatch; None chooses by the number of rows.
        max_epochs: Passes over the rows; None chooses by the number of rows.
        device: "auto" (a GPU, if there is one; but a small network stays on the CPU), "cpu", "cuda", …
        random_state: Seed, for the same result every time.
        verbose: 1 shows how far it is: a bar on a terminal, elsewhere ten lines for each training.

    Attributes:
        network_: From rows to rows.
        likelihood_: Of the rows.
        history_: Of training.

    Examples:
        >>> from sklearn.datasets import load_digits
        >>> X, _ = load_digits(return_X_y=True)
        >>> encoder = NPNAutoencoder(hidden=(32, 8), max_epochs=5, random_state=0).fit(X)
        >>> code = encoder.transform_dist(X[:3])
        >>> code.mean.shape, code.variance.shape
        ((3, 8), (3, 8))
    """

    _steps, _most_epochs = 1_000, 200  # its tanh takes ten times as long as ReLU

    def __init__(
        self,
        hidden: tuple[int, ...] = (100, 50),
        activation: str = "tanh",
        *,
        categorical_features: Any = "from_dtype",
        missing: str = "marginal",
        dropout: float = 0.0,
        kl_weight: float = 1.0,
        posterior: str = "mean_field",
        optimizer: str = "adam",
        learning_rate: float = 1e-3,
        batch_size: int | None = None,
        max_epochs: int | None = None,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.hidden, self.activation = hidden, activation
        self.categorical_features = categorical_features
        self.missing, self.dropout = missing, dropout
        self.kl_weight, self.posterior = kl_weight, posterior
        self.optimizer, self.learning_rate = optimizer, learning_rate
        self.batch_size, self.max_epochs = batch_size, max_epochs
        self.device, self.random_state, self.verbose = device, random_state, verbose

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        X_variance: Any = None,
        callbacks: Iterable[Callback] = (),
    ) -> Self:
        """Learn to reconstruct the rows X.

        Args:
            X: Array, frame or CSR matrix; NaN where a value is missing, of which the mean should be reconstructed.
            y: Ignored.
            sample_weight: (rows,) how many rows each one stands for.
            X_variance: Variances of measurement errors: a number, one for each feature, or the shape of X.
            callbacks: Functions, called with an `EpochRecord` after each epoch; True ends the training.
        """
        self._check_settings()
        X = checked_rows(self, X, reset=True)
        weight = checked_weight(sample_weight, X)
        check_enough_rows(self, X, weight)
        self.inputs_ = Inputs.learn(X, weight, self.missing, self._least_scale)
        x = self._inputs(X, X_variance)
        self._start(X.shape[0], X.shape[1])
        y = x if scipy.sparse.issparse(x) else x.mean
        whole = Member(self.network_, self.likelihood_, self._seed)
        with watching(type(self).__name__, callbacks, self.verbose) as watch:
            self.history_ = self._train(whole, (x, y, weight), self._plan(X.shape[0]), watch, self.kl_weight)
        self._rows_seen = X.shape[0] if weight is None else float(weight.sum())
        return self

    def _new_likelihood(self, replicas: tuple[int, ...]) -> Likelihood:
        return GaussianNoise()

    def _check_hidden(self, hidden: Any) -> None:
        check_hidden(hidden, with_code=True)

    def _least_kl(self, likelihood: Likelihood) -> float:
        return 0.0

    @property
    def _layers(self) -> list[int]:
        encoder = super()._layers
        return [*encoder, *reversed(encoder[:-1])]

    @property
    def _encoder_modules(self) -> int:
        """How many modules lead to the code: a linear layer and an activation each, and perhaps dropout."""
        return len(self.hidden) * (3 if self.dropout else 2)

    @property
    def _n_features_out(self) -> int:
        return int(self.hidden[-1])

    def transform(self, X: Any, *, X_variance: Any = None) -> Array:
        """Means of the code, (rows, code)."""
        return self.transform_dist(X, X_variance=X_variance).mean

    def transform_dist(self, X: Any, *, X_variance: Any = None) -> ArrayMoments:
        """Means and variances of the code, (rows, code): the paper's second-order representation."""
        code = self._latent(X, X_variance, self._encoder_modules)
        return ArrayMoments(code.mean.numpy(), code.variance.numpy())  # type: ignore[union-attr]

    def inverse_transform(self, Z: Any) -> Array:
        """Rows decoded from codes, in the units of X."""
        check_is_fitted(self, "network_")
        return decoded(Z, self._n_features_out, self._decoded)

    @torch.no_grad()
    def _decoded(self, Z: Array) -> Array:
        network = in_float64(self.network_)
        codes = torch.from_numpy(Z).to(next(network.parameters()))
        z = network[self._encoder_modules :](codes).mean.cpu().double().numpy()
        rows: Array = z * self.inputs_.scale + self.inputs_.center
        return rows

    def score_samples(self, X: Any, *, X_variance: Any = None) -> Array:
        """log p(row) of each row's reconstruction, (rows,), in standardised units; low for rows unlike those seen."""
        check_is_fitted(self, "network_")
        x = self.inputs_.moments(checked_rows(self, X, reset=False))
        target = torch.from_numpy(x.toarray()) if scipy.sparse.issparse(x) else x.mean
        with torch.no_grad():
            predictive = self.likelihood_.predict(self._latent(X, X_variance))
            logs: Array = predictive.log_prob(target.double()).sum(-1).numpy()
        return logs

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of `score_samples`."""
        return float(self.score_samples(X).mean())

    # Model files -------------------------------------------------------------------------------------------------

    def _read_target(self, plain: dict[str, Any], arrays: dict[str, Any]) -> int:
        return self._features
