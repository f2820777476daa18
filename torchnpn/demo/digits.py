"""Handwritten digits from few examples: right answers, and uncertainty about the others.

scikit-learn's bundled digits, 8 × 8 pixels. All networks have the same layers and the same training; beside ours stand
a plain network with dropout, and one whose answers are averaged over dropout masks (MC dropout). Each has the settings
with the lowest NLL of nine that were tried on the splits of seeds 5 to 7: dropout and the KL's weight for ours, dropout
and weight decay for the plain ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from torchnpn import metrics, nn
from torchnpn.demo.plain import PlainNetwork
from torchnpn.demo.progress import Progress, no_progress, part
from torchnpn.likelihoods import ScaledSoftmax
from torchnpn.metrics import AccuracyByUncertainty, RiskCoverage
from torchnpn.priors import IsotropicGaussian
from torchnpn.training import Recipe, constant, train

Array = NDArray[Any]
CLASSES = 10


@dataclass(frozen=True)
class Settings:
    seed: int = 0
    training_rows: int = 300  # of 1,797
    hidden: int = 100
    epochs: int = 150
    batch_size: int = 50
    learning_rate: float = 3e-3
    prior_precision: float = 100.0
    kl_weight: float = 1e-3
    dropout: float = 0.5
    plain_dropout: float = 0.6
    mc_dropout: float = 0.3
    passes: int = 50  # of MC dropout
    groups: int = 9


@dataclass(frozen=True)
class Model:
    """Predicted class probabilities for the test rows, and how they do."""

    name: str
    probs: Array  # (rows, classes)
    accuracy: float
    nll: float
    by_uncertainty: AccuracyByUncertainty
    risk_coverage: RiskCoverage


@dataclass(frozen=True)
class Result:
    settings: Settings
    labels: Array  # of the test rows
    images: Array  # (rows, 8, 8), of the test rows, in [0, 1]
    npn: Model
    plain: Model
    dropout: Model

    @property
    def models(self) -> tuple[Model, ...]:
        return self.npn, self.plain, self.dropout


def run(settings: Settings | None = None, progress: Progress = no_progress) -> Result:
    """Train all networks on the same rows and judge them on the rest.

    Args:
        settings: What to run.
        progress: Called with the share of the work that is done.
    """
    s = Settings() if settings is None else settings
    pixels, labels = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split(
        pixels / 16.0, labels, train_size=s.training_rows, random_state=s.seed, stratify=labels
    )
    centre = x.mean()
    data = torch.as_tensor(x - centre, dtype=torch.float32), torch.as_tensor(y)
    test = torch.as_tensor(x_test - centre, dtype=torch.float32)
    sizes = [x.shape[1], s.hidden, CLASSES]
    recipe = Recipe(
        epochs=s.epochs,
        batch_size=s.batch_size,
        learning_rate=s.learning_rate,
        kl_weight=constant(s.kl_weight),
        seed=s.seed,
    )
    likelihood = ScaledSoftmax(CLASSES)

    network = nn.mlp(sizes, dropout=s.dropout, generator=torch.Generator().manual_seed(s.seed))
    prior = IsotropicGaussian(s.prior_precision)
    train(network, data, likelihood, prior, recipe, callback=part(progress, s.epochs, 0.0, 0.5), device="cpu")
    plain, sampled = (PlainNetwork(sizes, rate, s.seed) for rate in (s.plain_dropout, s.mc_dropout))
    train(plain, data, likelihood, None, recipe, callback=part(progress, s.epochs, 0.5, 0.75), device="cpu")
    train(sampled, data, likelihood, None, recipe, callback=part(progress, s.epochs, 0.75, 1.0), device="cpu")
    with torch.no_grad():
        ours = likelihood.predict(network(test)).probs
        theirs = likelihood.predict(plain(test)).probs
    averaged = torch.softmax(sampled.samples(test, s.passes, s.seed), -1).mean(0)
    return Result(
        s,
        y_test,
        x_test.reshape(-1, 8, 8),
        npn=_judge("NPN", ours, y_test, s.groups),
        plain=_judge("Dropout network", theirs, y_test, s.groups),
        dropout=_judge("MC dropout", averaged, y_test, s.groups),
    )


def _judge(name: str, predicted: torch.Tensor, labels: Array, groups: int) -> Model:
    """Uncertainty is the predictive variance of the class, summed over classes: Σ p(1 - p)."""
    probs = predicted.double().numpy()
    correct, uncertainty = probs.argmax(1) == labels, (probs * (1 - probs)).sum(1)
    return Model(
        name,
        probs,
        accuracy=float(correct.mean()),
        nll=metrics.categorical_nll(probs, labels),
        by_uncertainty=metrics.accuracy_by_uncertainty(correct, uncertainty, groups),
        risk_coverage=metrics.risk_coverage(correct, uncertainty),
    )
