"""Representations with a second order: mean and variance of a hidden layer for every row or document."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted

from torchnpn.documents import GAMMA, GAUSSIAN, POISSON, Autoencoder, JointMoments, Reconstruction
from torchnpn.estimators import state
from torchnpn.estimators.atomic import all_or_nothing
from torchnpn.estimators.autoencoder_progress import tell
from torchnpn.estimators.base import Progress
from torchnpn.estimators.table_autoencoder import TableAutoencoder
from torchnpn.estimators.validation import (
    check_choice,
    check_enough_rows,
    check_flag,
    check_progress,
    checked_data,
    checked_weight,
    is_number,
    real_numbers,
    seed_of,
    short,
)
from torchnpn.estimators.word_autoencoder import WordAutoencoder, refuse_for_words
from torchnpn.likelihoods import Likelihood
from torchnpn.moments import Moments
from torchnpn.nn import Sequential
from torchnpn.nn.activation import BY_NAME
from torchnpn.training import History

Array = NDArray[Any]
_PRESETS = {"gaussian": GAUSSIAN, "gamma": GAMMA, "poisson": POISSON}
_LOSSES = ("noise", "bce", "gaussian", "l2", "gamma", "poisson")
_ACTIVATIONS = (*BY_NAME, "saturating", "saturating_kl", "identity")
# Settings that tables do not have:
_OF_WORDS = ("masking", "input_noise", "encoding_noise", "tau", "bias", "prior_precision", "weight_decay")
_LATER = ("family", "loss", *_OF_WORDS)  # settings that early model files lack
_NUMBERS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "masking": (lambda x: 0 <= x < 1, "from 0 to below 1"),
    "input_noise": (lambda x: 0 <= x < 1, "from 0 to below 1"),
    "encoding_noise": (lambda x: 0 <= x < 1, "from 0 to below 1"),
    "tau": (lambda x: 0 < x < math.inf, "above 0"),
    "weight_decay": (lambda x: 0 <= x < math.inf, "≥ 0"),
}
_FOR_COUNTS = 'This is there for counts only, not with the loss "noise", which is for tables.'
_FEWEST_STEPS, _LEAST_BATCH = 32, 16  # of an epoch: with fewer, 60 epochs of some hundred documents learn little


def _has_words(estimator: NPNAutoencoder) -> bool:
    """Whether there are topics and the like."""
    if not estimator._of_words:
        raise AttributeError(_FOR_COUNTS)
    return True


class NPNAutoencoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """An autoencoder of distributions (paper, Section 4.3): the last hidden layer is the code, a mirror decodes it.

    It is made for one of two kinds of rows. Those of a table, with columns of any units and sign, are standardised and
    reconstructed with a learnt noise: the loss "noise", the default. Those of counts ≥ 0, such as bags of words, are
    scaled each by itself, so that a document's length says nothing: the other losses. A setting that is None is chosen
    by the family, as `torchnpn.documents` has it.

    Args:
        family: Of weights and neurons: "gaussian", or for counts also "gamma" and "poisson", whose weights are gamma.
        hidden: Units of the encoder's layers; the last is the size of the code.
        activation: Of all layers but the output. Gaussian networks: a name of `nn`'s activations, "tanh" by default.
            Gamma and Poisson ones: "saturating", v(x) = 1 - exp(-τ x); "saturating_kl", for Poisson, the same with the
            paper's KL map. For counts also "identity".
        loss: None chooses "noise", "bce" and "poisson" for the three families. "noise": -log N(x; o_m, o_s + σ²) with a
            learnt σ². For counts: "bce", cross-entropy; "gaussian", the paper's KL to N(y, ε); "l2", E (y - o)²; and in
            gamma and Poisson networks "gamma" and "poisson", -log p(y) of whole counts.
        masking: For counts, share of a document's words that is dropped in training.
        input_noise: For counts, p of an input variance p/(1 - p) x², the same noise in closed form.
        encoding_noise: For counts, p of that variance when rows are encoded; None: as in training. With the share that
            was masked, a code is the mean over all masks.
        tau: τ of "saturating".
        bias: For counts, whether layers have biases. family="gamma", activation="identity", bias=False is a nonnegative
            matrix factorisation.
        missing: What NaN in a table stands for: "marginal", the mean and variance of its feature in the training rows;
            or "conditional", those given the other values of its row, better where features say much about each other.
        dropout: For tables, probability of dropping a hidden unit in training.
        kl_weight: Weight of the KL from the weights' prior; for tables at the end of training, 1 by default.
        prior_precision: For counts, of that prior: a number above 0, 10 by default; or, in Gaussian networks,
            "evidence", which learns one for each word and each later layer, as it is for tables: weights of words that
            are rarely seen stay as uncertain as they are. The more words, the smaller should be its kl_weight.
        weight_decay: For counts, of AdamW, for means of weights; 0 by default.
        learning_rate: Of Adam; falls to zero along half a cosine. 1e-3 by default for tables.
        batch_size: Rows in a minibatch; None chooses by the number of rows.
        max_epochs: Passes over the rows; None chooses by the number of rows of a table, and 60 for counts.
        device: "auto" (a GPU, if there is one; but a small network for tables stays on the CPU), "cpu", "cuda", …
        random_state: Seed, for the same result every time.
        verbose: 1 prints ten lines on the way.

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
        >>> from scipy.sparse import csr_matrix
        >>> counts = csr_matrix(X)  # a pixel is a word
        >>> encoder = NPNAutoencoder("gamma", hidden=(32, 8), max_epochs=2, random_state=0).fit(counts)
        >>> encoder.transform(counts).shape
        (1797, 8)
    """

    network_: Sequential
    likelihood_: Likelihood
    history_: History
    n_features_in_: int
    body_: TableAutoencoder | WordAutoencoder

    def __init__(
        self,
        family: str = "gaussian",
        hidden: tuple[int, ...] = (100, 50),
        activation: str | None = None,
        *,
        loss: str | None = None,
        masking: float | None = None,
        input_noise: float | None = None,
        encoding_noise: float | None = None,
        tau: float | None = None,
        bias: bool | None = None,
        missing: str = "marginal",
        dropout: float = 0.0,
        kl_weight: float | None = None,
        prior_precision: float | str | None = None,
        weight_decay: float | None = None,
        learning_rate: float | None = None,
        batch_size: int | None = None,
        max_epochs: int | None = None,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.family, self.hidden, self.activation, self.loss = family, hidden, activation, loss
        self.masking, self.input_noise, self.encoding_noise = masking, input_noise, encoding_noise
        self.tau, self.bias = tau, bias
        self.missing, self.dropout = missing, dropout
        self.kl_weight, self.prior_precision = kl_weight, prior_precision
        self.weight_decay, self.learning_rate = weight_decay, learning_rate
        self.batch_size, self.max_epochs = batch_size, max_epochs
        self.device, self.random_state, self.verbose = device, random_state, verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = not self._of_words
        tags.input_tags.positive_only = self._of_words
        return tags

    @property
    def _of_words(self) -> bool:
        of_a_table = (self.family, "gaussian") if self.loss is None else (self.loss, "noise")
        return not isinstance(of_a_table[0], str) or of_a_table[0] != of_a_table[1]

    # Training ----------------------------------------------------------------------------------------------------

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        X_variance: Any = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn to reconstruct the rows X.

        Args:
            X: Array, frame or CSR matrix. In a table, NaN where a value is missing: its mean is what it should give
                back. Counts are numbers ≥ 0, whole ones for the losses "gamma" and "poisson"; they are made dense for
                no more than a batch at a time.
            y: Ignored.
            sample_weight: For tables, (rows,) how many rows each one stands for.
            X_variance: For tables, variances of measurement errors: a number, one for each feature, or the shape of X.
            progress: Called with the share of training that is done, from 0 to 1.
        """
        self._check_settings()
        check_progress(progress)
        X = self._check_rows(X, reset=True)
        if self._of_words:
            refuse_for_words(sample_weight=sample_weight, X_variance=X_variance)
        check_enough_rows(self, X, checked_weight(sample_weight, X))
        if self._of_words:
            settings = self._word_settings(seed_of(self.random_state), X.shape[0])
            told = self.verbose or progress is not None
            callback = partial(tell, self.verbose, settings.epochs, progress) if told else None
            self._take(WordAutoencoder.fit(X, settings, callback))
        else:
            self._take(TableAutoencoder(**self._table_settings()).fit(X, sample_weight, X_variance, progress))
        return self

    def _take(self, body: TableAutoencoder | WordAutoencoder) -> None:
        self.body_, self.network_ = body, body.network_
        self.likelihood_, self.history_ = body.likelihood_, body.history_

    @property
    def n_iter_(self) -> int:
        """Passes over the training rows."""
        check_is_fitted(self, "body_")
        return len(self.history_.epochs)

    # Settings ----------------------------------------------------------------------------------------------------

    def _given(self, names: Sequence[str]) -> dict[str, Any]:
        """Those of the settings that are not left to be chosen."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def _table_settings(self) -> dict[str, Any]:
        return self._given(TableAutoencoder._get_param_names())

    def _word_settings(self, seed: int, documents: int) -> Autoencoder:
        """The family's settings, changed as asked for; where documents are few, in smaller batches."""
        preset = _PRESETS[self.family]
        batch_size = self.batch_size or min(preset.batch_size, max(documents // _FEWEST_STEPS, _LEAST_BATCH))
        names = ("activation", "loss", "kl_weight", "learning_rate", *_OF_WORDS)
        given = {name: float(value) if is_number(value) else value for name, value in self._given(names).items()}
        return replace(
            preset,
            hidden=tuple(map(int, self.hidden)),
            batch_size=int(batch_size),
            epochs=int(self.max_epochs or preset.epochs),
            seed=seed,
            device=self.device,
            **given,  # type: ignore[arg-type]
        )

    def _check_settings(self) -> None:
        """Raise for settings that no network can be made of, or that mean nothing for such rows."""
        check_choice("family", self.family, _PRESETS)
        for name, options in (("loss", _LOSSES), ("activation", _ACTIVATIONS)):
            if getattr(self, name) is not None:
                check_choice(name, getattr(self, name), options)
        if not isinstance(self.hidden, (tuple, list)) or not self.hidden:
            raise ValueError(
                f"hidden expects at least one layer, the code, such as (100, 50), got {short(self.hidden)}."
            )
        for name, (fits, words) in _NUMBERS.items():
            value = getattr(self, name)
            if value is not None and not (is_number(value) and fits(value)):
                raise ValueError(f"{name} expects a number {words}, or None to choose it, got {short(value)}.")
        if self.bias is not None:
            check_flag("bias", self.bias)
        precision = self.prior_precision
        named = isinstance(precision, str) and precision == "evidence"
        if not (precision is None or named or (is_number(precision) and 0 < precision < math.inf)):
            raise ValueError(f'prior_precision expects a number above 0, "evidence" or None, got {short(precision)}.')
        known = {"activation": "tanh"} if self._of_words else {}  # activations of words are checked with their family
        TableAutoencoder(**{**self._table_settings(), **known})._check_settings()
        if self._of_words:
            self._check_word_settings()
        else:
            self._check_no_word_settings()

    def _check_word_settings(self) -> None:
        self._word_settings(seed=0, documents=1)  # which checks the loss and the activation
        for name, usual in (("missing", "marginal"), ("dropout", 0.0)):
            if getattr(self, name) != usual:
                raise ValueError(
                    f'{name}={getattr(self, name)!r} is for tables, that is for the loss "noise": counts have no '
                    "missing values, and masking is their dropout. Leave it out."
                )

    def _check_no_word_settings(self) -> None:
        if self.family != "gaussian":
            raise ValueError(
                f'loss="noise" expects family="gaussian", got {self.family!r}. For counts take loss="bce" or None.'
            )
        if given := self._given(_OF_WORDS):
            raise ValueError(
                f'{", ".join(given)} is for counts, not for the loss "noise", which is for tables. Take loss="bce" for '
                "counts; for a table give fit X_variance, and dropout."
            )

    # Codes -------------------------------------------------------------------------------------------------------

    def _check_rows(self, X: Any, reset: bool) -> Any:
        words = self._of_words if reset else isinstance(self.body_, WordAutoencoder)
        return checked_data(
            self,
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=True if words else "allow-nan",
            ensure_non_negative=words,
            reset=reset,
        )

    @property
    def _n_features_out(self) -> int:
        return int(self.hidden[-1])

    def transform(self, X: Any, *, X_variance: Any = None) -> Array:
        """Means of the code, (rows, code)."""
        return self.transform_dist(X, X_variance=X_variance).mean  # type: ignore[return-value]

    def transform_dist(self, X: Any, *, X_variance: Any = None) -> Moments:
        """Means and variances of the code: the paper's second-order representation, as arrays (rows, code)."""
        return self._fitted(X_variance).transform_dist(self._check_rows(X, reset=False), X_variance)

    def inverse_transform(self, Z: Any) -> Array:
        """Rows decoded from codes, in the units of X.

        For counts they are the expected words of scaled documents, as the loss has its targets: with "bce" the
        probability that a word is there; else counts over the largest one of a document or, in gamma and Poisson
        networks, with a sum of about 10.
        """
        body = self._fitted(None)
        with np.errstate(over="ignore", invalid="ignore"):  # what is too large is refused in words
            Z = check_array(real_numbers(Z, "inverse_transform"))
            if Z.shape[1] != self._n_features_out:
                raise ValueError(f"inverse_transform expects codes of {self._n_features_out} units, got {Z.shape[1]}.")
            rows = body.inverse_transform(Z)
        if not np.isfinite(rows).all():
            raise ValueError(
                "inverse_transform expects codes whose rows are floating-point numbers, got some that are too large. "
                "Take codes such as `transform` gives them."
            )
        return rows

    def score_samples(self, X: Any, *, X_variance: Any = None) -> Array:
        """How well each row is reconstructed, (rows,); low for rows unlike those seen.

        In a table it is log p(row) in nats, in standardised units; for counts minus the loss.
        """
        return self._fitted(X_variance).score_samples(self._check_rows(X, reset=False), X_variance)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of `score_samples`."""
        return float(self.score_samples(X).mean())

    def _fitted(self, X_variance: Any) -> TableAutoencoder | WordAutoencoder:
        check_is_fitted(self, "body_")
        if isinstance(self.body_, WordAutoencoder):
            refuse_for_words(X_variance=X_variance)
        return self.body_

    # Words -------------------------------------------------------------------------------------------------------

    @available_if(_has_words)  # type: ignore[untyped-decorator]
    def transform_joint(self, X: Any) -> JointMoments:
        """For counts, in Gaussian networks: codes with the covariances of their units, for all see the same words."""
        check_is_fitted(self, "body_")
        return self._words.transform_joint(self._check_rows(X, reset=False))

    @available_if(_has_words)  # type: ignore[untyped-decorator]
    def reconstruction(self, X: Any) -> Reconstruction:
        """For counts: the loss of each document, and the summed variance of its words: the network's uncertainty."""
        check_is_fitted(self, "body_")
        return self._words.reconstruction(self._check_rows(X, reset=False))

    @available_if(_has_words)  # type: ignore[untyped-decorator]
    def topics(self, vocabulary: Sequence[str] | None = None, words: int = 10) -> list[list[str]]:
        """For counts: the words of largest weight of each unit of the code.

        Only in gamma and Poisson networks do positive weights make topics to be read.

        Args:
            vocabulary: Names of the features; None takes those of the frame it was fitted on.
            words: How many of each topic.
        """
        check_is_fitted(self, "body_")
        if vocabulary is None and (vocabulary := getattr(self, "feature_names_in_", None)) is None:
            raise ValueError("topics expects a vocabulary, a name for each feature: it was fitted without names.")
        return self._words.encoder.topics(vocabulary, words)

    @property
    def components_(self) -> Array:  # (code, words)
        """For counts: what a unit of the code adds to each word, the product of the decoder's mean weights."""
        return self._words.encoder.components

    @property
    def _words(self) -> WordAutoencoder:
        if not isinstance(self.body_, WordAutoencoder):
            raise AttributeError(_FOR_COUNTS)
        return self.body_

    # Model files -------------------------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """All that codes need, as plain values and arrays."""
        check_is_fitted(self, "body_")
        plain, arrays = self.body_._state()
        names = getattr(self, "feature_names_in_", None)
        own = {
            "settings": state.plain_settings(self.get_params(deep=False)),
            "feature_names": None if names is None else [str(name) for name in names],
        }
        return {**plain, **own}, arrays

    @classmethod
    def _from_state(cls, plain: dict[str, Any], arrays: dict[str, Any]) -> Self:
        """The inverse of `_state`; a ValueError for anything that `_state` cannot have written."""
        usual, given = cls().get_params(deep=False), plain.get("settings")
        if isinstance(given, dict):
            given = {**{name: usual[name] for name in _LATER}, **given}
        model = cls(**state.checked_settings(given, set(usual)))
        model._check_settings()
        features = model.n_features_in_ = state.checked_count(plain.get("features"), "features")
        names = state.checked_names(plain.get("feature_names"), features)
        if names is not None:
            model.feature_names_in_ = names
        if model._of_words:
            seed = state.checked_count(plain.get("seed"), "seed", least=0)
            settings = model._word_settings(seed, documents=1)
            model._take(WordAutoencoder._from_state(settings, features, arrays))
        else:
            table = TableAutoencoder(**model._table_settings())
            own = {"settings": state.plain_settings(table.get_params()), "feature_names": None}
            model._take(TableAutoencoder._from_state({**plain, **own}, arrays))
        for kind, found, expected in zip(("values", "arrays"), (plain, arrays), model._state(), strict=True):
            if set(found) != set(expected):
                raise ValueError(f"An autoencoder expects the {kind} {sorted(expected)}, got {sorted(found)}.")
        return model
