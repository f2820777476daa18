"""Codes of documents with a second order: mean and variance of a hidden layer for every bag of words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch.optim import Optimizer

from torchnpn import settings
from torchnpn.documents import joint
from torchnpn.documents.architecture import Architecture
from torchnpn.documents.counts import Counts, checked_counts, word_means
from torchnpn.documents.joint import JointArrayMoments
from torchnpn.documents.layers import WordLinear
from torchnpn.documents.schedule import adam_with_own_rates, warm_cosine
from torchnpn.documents.settings import FAMILIES, check_settings
from torchnpn.documents.start import linear_layers
from torchnpn.estimators import ArrayMoments, all_or_nothing, decoded, in_float64, state
from torchnpn.io import StoredEstimator, checks
from torchnpn.likelihoods import Likelihood
from torchnpn.moments import Moments
from torchnpn.nn import Sequential, check_network_size
from torchnpn.priors import EmpiricalBayes, IsotropicGaussian, Prior
from torchnpn.progress import Callback, watching
from torchnpn.rows import validation
from torchnpn.sparse import SparseBatch, SparseRows
from torchnpn.training import OPTIMIZERS, History, Recipe, constant, train

Array = NDArray[Any]
_BATCH, _FEWEST_STEPS, _LEAST_BATCH = 256, 32, 16  # with fewer steps, 60 epochs of some hundred documents learn little
_ENCODED, _DECODED, _JOINT = 1_024, 128, 64  # documents at a time: codes, every word of them, codes with covariances


class Reconstruction(NamedTuple):
    """How well each document was reconstructed, and how certain the network was of it."""

    error: Array  # (documents,) the loss
    variance: Array  # (documents,) Σ o_s over all words: the paper's measure of uncertainty


class DocumentAutoencoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, StoredEstimator):  # type: ignore[misc]
    """An autoencoder of distributions for counts ≥ 0, such as bags of words (paper, Section 4.3).

    The last hidden layer is the code, a mirror decodes it. Each document is scaled by itself, so that its length does
    not matter. A setting that is None is chosen by the family.

    Args:
        family: Of weights and neurons: "gaussian", "gamma", or "poisson", whose weights are gamma.
        hidden: Units of the encoder's layers; the last is the size of the code.
        activation: Of all layers but the output. Gaussian networks: a name of `nn`'s activations, "tanh" by default.
            Gamma and Poisson ones: "saturating", v(x) = 1 - exp(-τ x); "saturating_kl", for Poisson, the same with the
            paper's KL map. "identity" for any.
        loss: "bce", cross-entropy, by default for Gaussian and gamma networks; "gaussian", the paper's KL to N(y, ε);
            "l2", E (y - o)²; and in gamma and Poisson networks "gamma" and "poisson", -log p(y) of whole counts.
        masking: Share of a document's words that is dropped in training.
        input_noise: p of an input variance p/(1 - p) x², the same noise in closed form.
        encoding_noise: p of that variance when documents are encoded; None: as in training. With the share that was
            masked, a code is the mean over all masks, instead of that of a whole document, which training never sees.
        tau: τ of "saturating".
        r: What "saturating" approaches, r (1 - exp(-τ x)).
        bias: Whether layers have biases. family="gamma", activation="identity", bias=False is a nonnegative matrix
            factorisation.
        binary: Whether a word counts once in a document, however often it occurs.
        scaling: Of each document: "max" divides by its largest count, for numbers from 0 to 1, by default in Gaussian
            networks; "sum" gives it a sum of 10, by default in the others; "none" takes counts as they are.
        epsilon: ε of the loss "gaussian"; added to the targets of "gamma".
        initial_variance: Of the weights at the start, times the number of inputs, or relative to the squared mean.
        kl_weight: Weight of the KL from the weights' prior N(0, 1/prior_precision).
        prior_precision: A number above 0; or, in Gaussian networks, "evidence", which learns one for each word and each
            later layer: weights of rare words stay as uncertain as they are. The more words, the smaller should be
            kl_weight.
        optimizer: "adam" for AdamW; or another name of `training.OPTIMIZERS`, such as the paper's "adadelta" (with
            learning_rate=1.0), which has one constant rate for all weights, and no decay.
        learning_rate: Of the optimizer, for means of weights; rises over `warm_up` steps and falls along half a cosine.
        spread_learning_rate: The same for the logarithms of standard deviations or of coefficients of variation.
        weight_decay: Of AdamW, for means of weights.
        warm_up: Steps over which the rates rise, a tenth of all at most.
        batch_size: Documents in a minibatch; None: 256, or fewer for less than 8,192 documents.
        max_epochs: Passes over the documents.
        device: "auto" (a GPU, if there is one), "cpu", "cuda", …
        random_state: Seed, for the same result every time.
        verbose: 1 shows how far it is: a bar on a terminal, elsewhere ten lines for each training.

    Attributes:
        network_: From words to words.
        likelihood_: Of the words.
        history_: Of training.

    Examples:
        >>> from scipy.sparse import csr_matrix
        >>> counts = csr_matrix(np.random.default_rng(0).poisson(0.1, (100, 500)))
        >>> encoder = DocumentAutoencoder("gamma", hidden=(32, 8), max_epochs=2, random_state=0).fit(counts)
        >>> code = encoder.transform_dist(counts[:3])
        >>> code.mean.shape, code.variance.shape
        ((3, 8), (3, 8))
    """

    network_: Sequential
    likelihood_: Likelihood
    history_: History
    n_features_in_: int
    _seed: int

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
        r: float = 1.0,
        bias: bool = True,
        binary: bool = False,
        scaling: str | None = None,
        epsilon: float = 0.01,
        initial_variance: float | None = None,
        kl_weight: float | None = None,
        prior_precision: float | str = 10.0,
        optimizer: str = "adam",
        learning_rate: float | None = None,
        spread_learning_rate: float = 1e-2,
        weight_decay: float = 0.0,
        warm_up: int = 100,
        batch_size: int | None = None,
        max_epochs: int = 60,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.family, self.hidden, self.activation, self.loss = family, hidden, activation, loss
        self.masking, self.input_noise, self.encoding_noise = masking, input_noise, encoding_noise
        self.tau, self.r, self.bias, self.binary, self.scaling = tau, r, bias, binary, scaling
        self.epsilon, self.optimizer = epsilon, optimizer
        self.initial_variance, self.kl_weight, self.prior_precision = initial_variance, kl_weight, prior_precision
        self.learning_rate, self.spread_learning_rate = learning_rate, spread_learning_rate
        self.weight_decay, self.warm_up = weight_decay, warm_up
        self.batch_size, self.max_epochs = batch_size, max_epochs
        self.device, self.random_state, self.verbose = device, random_state, verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.positive_only = True
        return tags

    # Training ----------------------------------------------------------------------------------------------------

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, callbacks: Iterable[Callback] = ()) -> Self:
        """Learn to reconstruct documents.

        Args:
            X: Counts (documents, terms), an array, frame or CSR matrix of numbers ≥ 0; whole ones for the losses
                "gamma" and "poisson". Sparse ones are made dense for no more than a batch of targets at a time.
            y: Ignored.
            callbacks: Functions, called with an `EpochRecord` after each epoch; True ends the training.
        """
        self._check_settings()
        counts = self._check_counts(X, reset=True)
        validation.check_enough_rows(self, counts, None)
        documents, terms = counts.shape
        architecture, self._seed = self._architecture, settings.seed_of(self.random_state)
        batch_size = int(self.batch_size or min(_BATCH, max(documents // _FEWEST_STEPS, _LEAST_BATCH)))
        check_network_size(architecture.sizes(terms), min(batch_size, documents))
        x, y = architecture.inputs(counts), architecture.targets(counts)
        self.network_ = architecture.network(x, word_means(y), self._chosen("initial_variance"), self._seed)
        self.likelihood_ = architecture.likelihood()
        recipe = Recipe(
            epochs=int(self.max_epochs),
            batch_size=batch_size,
            learning_rate=self._chosen("learning_rate"),
            optimizer=self._optimizer(),
            scheduler=warm_cosine(int(self.warm_up)) if self.optimizer == "adam" else None,
            kl_weight=constant(self._chosen("kl_weight")),
            seed=self._seed,
        )
        with watching(type(self).__name__, callbacks, self.verbose) as watch:
            what = self.network_, (x, y), self.likelihood_, self._prior(), recipe
            self.history_ = train(*what, callback=watch.training(recipe.epochs), device=self.device)
        self.network_.eval()
        return self

    def _optimizer(self) -> Callable[[Iterable[torch.Tensor], float], Optimizer]:
        if self.optimizer != "adam":
            return OPTIMIZERS[self.optimizer]
        return adam_with_own_rates(self.network_, float(self.spread_learning_rate), float(self.weight_decay))

    def _check_settings(self) -> None:
        check_settings(self.get_params(deep=False))

    def _prior(self) -> Prior | None:
        """Of the weights; None where it has no weight."""
        if not self._chosen("kl_weight"):
            return None
        if isinstance(self.prior_precision, str):
            return EmpiricalBayes()
        return IsotropicGaussian(float(self.prior_precision))

    def _chosen(self, name: str) -> Any:
        """A setting, or what the family has where it is None."""
        value = getattr(self, name)
        value = FAMILIES[self.family][name] if value is None else value
        return value if isinstance(value, str) else float(value)

    @property
    def _architecture(self) -> Architecture:
        named = ("activation", "tau", "scaling", "loss", "masking", "input_noise")
        return Architecture(
            family=self.family,
            hidden=tuple(map(int, self.hidden)),
            r=float(self.r),
            bias=bool(self.bias),
            epsilon=float(self.epsilon),
            binary=bool(self.binary),
            **{name: self._chosen(name) for name in named},
        )

    @property
    def n_iter_(self) -> int:
        """Passes over the training documents."""
        check_is_fitted(self, "network_")
        return len(self.history_.epochs)

    # Codes -------------------------------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return int(self.hidden[-1])

    def transform(self, X: Any) -> Array:
        """Means of the code, (documents, code)."""
        return self.transform_dist(X).mean

    @torch.no_grad()
    def transform_dist(self, X: Any) -> ArrayMoments:
        """Means and variances of the code, (documents, code): the paper's second-order representation."""
        network, x = self._fitted(), self._architecture.inputs(self._check_counts(X))
        parts = [self._code(network, batch) for batch in _batches(network, x, _ENCODED)]
        return ArrayMoments(*(torch.cat([part[i] for part in parts]).cpu().numpy() for i in (0, 1)))  # type: ignore[misc]

    @torch.no_grad()
    def transform_joint(self, X: Any) -> JointArrayMoments:
        """Codes with the covariances of their units, in Gaussian networks; see `torchnpn.documents.joint`."""
        network, x = self._fitted(), self._architecture.inputs(self._check_counts(X))
        if self.family != "gaussian":
            raise ValueError(
                f"transform_joint expects a Gaussian network, got a {self.family} one. Take its means and variances."
            )
        encoder = list(network)[1 : self._architecture.encoder_modules]
        parts = [joint.code(encoder, batch, self._noise) for batch in _batches(network, x, _JOINT)]
        return JointArrayMoments(*(torch.cat(part).cpu().numpy() for part in zip(*parts, strict=True)))

    def inverse_transform(self, Z: Any) -> Array:
        """The words that are expected for codes, scaled as the loss has its targets.

        With "bce" they are probabilities that a word occurs; else counts over the largest one of a document or, in
        gamma and Poisson networks, with a sum of about 10.
        """
        check_is_fitted(self, "network_")
        return decoded(Z, self._n_features_out, self._decoded)

    @torch.no_grad()
    def _decoded(self, Z: Array) -> Array:
        if self.family != "gaussian" and (Z < 0).any():
            raise ValueError(f"Codes of a {self.family} network are ≥ 0, got {Z.min()}.")
        network = self._fitted()
        decoder, like = network[self._architecture.encoder_modules :], next(network.parameters())
        shift = self.epsilon if self._chosen("loss") == "gamma" else 0.0  # it is y + ε that is gamma
        parts = [
            self.likelihood_.predict(decoder(part)).mean.double().cpu().numpy() - shift
            for part in torch.from_numpy(Z).to(like).split(_DECODED)
        ]
        return np.concatenate(parts)

    @torch.no_grad()
    def reconstruction(self, X: Any) -> Reconstruction:
        """The loss of each document, and the summed variance of its words: the network's uncertainty."""
        network, architecture, counts = self._fitted(), self._architecture, self._check_counts(X)
        decoder = network[architecture.encoder_modules :]
        scaled = architecture.inputs(counts), architecture.targets(counts)
        errors, variances = [], []
        for x, y in zip(*(_batches(network, rows, _DECODED) for rows in scaled), strict=True):
            o = decoder(self._code(network, x))
            errors.append(self.likelihood_.loss(o, y.dense()).cpu())
            variances.append(o.variance.sum(-1).cpu())
        return Reconstruction(torch.cat(errors).numpy(), torch.cat(variances).numpy())

    def score_samples(self, X: Any) -> Array:
        """Minus the loss of each document, (documents,); low for documents unlike those seen."""
        return -self.reconstruction(X).error

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of `score_samples`."""
        return float(self.score_samples(X).mean())

    @property
    def components_(self) -> Array:  # (code, terms)
        """What a unit of the code adds to each word: the product of the decoder's mean weights."""
        if not hasattr(self, "network_"):
            raise AttributeError("components_ is there after fit only.")
        product, *others = (
            layer.weight.moments.mean for layer in linear_layers(self.network_[self._architecture.encoder_modules :])
        )
        for weight in others:
            product = weight @ product
        return product.detach().mT.cpu().numpy()

    def topics(self, vocabulary: Sequence[str] | None = None, words: int = 10) -> list[list[str]]:
        """The words of largest weight of each unit of the code.

        Only in gamma and Poisson networks do positive weights make topics to be read.

        Args:
            vocabulary: Names of the features; None takes those of the frame it was fitted on.
            words: How many of each topic.
        """
        check_is_fitted(self, "network_")
        if vocabulary is None and (vocabulary := getattr(self, "feature_names_in_", None)) is None:
            raise ValueError("topics expects a vocabulary, a name for each feature: it was fitted without names.")
        if len(vocabulary) != self.n_features_in_:
            raise ValueError(f"topics expects a vocabulary of {self.n_features_in_} words, got {len(vocabulary)}.")
        order = np.argsort(-self.components_, axis=1, kind="stable")[:, :words]
        return [[vocabulary[word] for word in row] for row in order]

    @property
    def _noise(self) -> float:
        return self._chosen("input_noise" if self.encoding_noise is None else "encoding_noise")  # type: ignore[no-any-return]

    def _fitted(self) -> Sequential:
        """The network; on a CPU in float64, where a code is then the same whatever documents are beside it."""
        check_is_fitted(self, "network_")
        return in_float64(self.network_)

    def _code(self, network: Sequential, x: SparseBatch) -> Moments:
        first = network[1]
        assert isinstance(first, WordLinear)
        code: Moments = network[2 : self._architecture.encoder_modules](first.noisy(x, self._noise))
        return code

    def _check_counts(self, X: Any, reset: bool = False) -> Counts:
        options = {"accept_sparse": "csr", "ensure_non_negative": True}
        checked = validation.checked_data(self, X, reset=reset, **options)
        return checked_counts(checked, whole=self._architecture.needs_whole_counts)

    # Model files -------------------------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """All that codes need, as plain values and arrays."""
        check_is_fitted(self, "network_")
        plain = {**state.plain_model(self), "seed": self._seed}
        return plain, {f"network.{name}": value for name, value in self.network_.state_dict().items()}

    @classmethod
    def _from_state(cls, plain: dict[str, Any], arrays: dict[str, Any]) -> Self:
        """The inverse of `_state`; a ValueError for anything that `_state` cannot have written."""
        model = state.new_model(cls, plain)
        model._seed = checks.size("seed", plain.get("seed"), least=0)
        with torch.device("meta"):  # nothing of this size is in memory before the arrays are known to have it
            network = model._architecture.layers(model.n_features_in_)
        model.network_ = state.load_module(network, arrays, "network.")
        model.likelihood_, model.history_ = model._architecture.likelihood(), History()
        state.check_complete(plain, arrays, model)
        return model


def _batches(network: Sequential, scaled: Counts, size: int) -> Iterator[SparseBatch]:
    device = next(network.parameters()).device
    for start in range(0, scaled.shape[0], size):
        yield SparseRows.from_csr(scaled[start : start + size], device).all()
