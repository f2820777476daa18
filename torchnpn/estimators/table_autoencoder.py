"""The autoencoder of a table: standardised rows that are reconstructed with a learnt noise."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray

from torchnpn.estimators.autoencoder_progress import tell
from torchnpn.estimators.base import NPNEstimator, Progress
from torchnpn.estimators.inputs import Inputs, check_variance
from torchnpn.estimators.precise import in_float64
from torchnpn.estimators.validation import checked_weight
from torchnpn.likelihoods import GaussianNoise, Likelihood
from torchnpn.moments import Moments
from torchnpn.training import History

Array = NDArray[Any]


class TableAutoencoder(NPNEstimator):
    """What `NPNAutoencoder` is with the loss "noise"; its settings have that class's names."""

    _steps, _most_epochs = 1_000, 200  # its tanh takes ten times as long as ReLU

    def __init__(
        self,
        hidden: tuple[int, ...] = (100, 50),
        activation: str = "tanh",
        *,
        missing: str = "marginal",
        dropout: float = 0.0,
        kl_weight: float = 1.0,
        learning_rate: float = 1e-3,
        batch_size: int | None = None,
        max_epochs: int | None = None,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.hidden, self.activation = hidden, activation
        self.missing, self.dropout = missing, dropout
        self.kl_weight, self.learning_rate = kl_weight, learning_rate
        self.batch_size, self.max_epochs = batch_size, max_epochs
        self.device, self.random_state, self.verbose = device, random_state, verbose

    def fit(self, X: Any, sample_weight: Any, X_variance: Any, progress: Progress | None) -> Self:
        """Learn to reconstruct the rows X."""
        self._check_settings()
        X = self._check_rows(X, reset=True)
        weight = checked_weight(sample_weight, X)
        self.inputs_ = Inputs.learn(X, weight, self.missing)
        x = self.inputs_.moments(X, check_variance(X_variance, X))
        self._start(X.shape[0], X.shape[1], X.shape[1], GaussianNoise())
        self._train(x, x if scipy.sparse.issparse(x) else x.mean, weight, progress)
        return self

    def _sizes(self, n_in: int, n_out: int) -> list[int]:
        hidden = list(map(int, self.hidden))
        return [n_in, *hidden, *reversed(hidden[:-1]), n_out]

    def _report(self, epochs: int, progress: Progress | None, k: int, count: int, history: History) -> None:
        tell(self.verbose, epochs, progress, history)

    @property
    def _encoder_modules(self) -> int:
        """How many modules lead to the code: a linear layer and an activation each, and perhaps dropout."""
        return len(self.hidden) * (3 if self.dropout else 2)

    def transform_dist(self, X: Any, X_variance: Any) -> Moments:
        """Codes, as arrays (rows, code)."""
        code = self._latent(X, X_variance, self._encoder_modules)
        return Moments(code.mean.numpy(), code.variance.numpy())  # type: ignore[arg-type, union-attr]

    def inverse_transform(self, Z: Array) -> Array:
        """Rows decoded from codes, in the units of X."""
        network = in_float64(self.network_)
        codes = torch.from_numpy(np.array(Z)).to(next(network.parameters()))
        with torch.no_grad():
            z = network[self._encoder_modules :](codes).mean.cpu().double().numpy()
        rows: Array = z * self.inputs_.scale + self.inputs_.center
        return rows

    def score_samples(self, X: Any, X_variance: Any) -> Array:
        """log p(row) of each row's reconstruction, in standardised units."""
        X = self._check_rows(X, reset=False)
        x = self.inputs_.moments(X, None)
        target = torch.from_numpy(x.toarray()) if scipy.sparse.issparse(x) else x.mean
        with torch.no_grad():
            predictive = self.likelihood_.predict(self._latent(X, X_variance))
            logs: Array = predictive.log_prob(target.double()).sum(-1).numpy()
        return logs

    # Model files -------------------------------------------------------------------------------------------------

    @property
    def _targets(self) -> int:
        return int(self.n_features_in_)

    def _read_target(self, plain: dict[str, Any], arrays: dict[str, Any]) -> Likelihood:
        return GaussianNoise()
