"""Handwritten digits from 300 examples: which predictions can be relied on?

scikit-learn's bundled digits, 8 × 8 pixels. Dropout and the weight of the KL are the best of nine pairs, by NLL on the
splits of seeds 5 to 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import torchnpn as npn
from torchnpn.metrics import AccuracyByUncertainty, RiskCoverage
from torchnpn.training import constant

Array = NDArray[Any]
ROWS, CLASSES, GROUPS = 300, 10, 9  # rows to learn from, of 1,797; groups of test rows by uncertainty


@dataclass(frozen=True)
class Result:
    """Predicted class probabilities for the test rows, and how good they are."""

    labels: Array
    images: Array  # (rows, 8, 8), in [0, 1]
    probs: Array  # (rows, classes)
    accuracy: float
    nll: float
    by_uncertainty: AccuracyByUncertainty
    risk_coverage: RiskCoverage


def run(epochs: int = 150, seed: int = 0) -> Result:
    """Train a network of 100 ReLU units, and test it on the other rows."""
    pixels, labels = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split(pixels / 16, labels, train_size=ROWS, random_state=seed, stratify=labels)

    def centred(images: Array) -> torch.Tensor:
        return torch.as_tensor(images - x.mean(), dtype=torch.float32)

    network = npn.nn.mlp([64, 100, CLASSES], dropout=0.5, generator=torch.Generator().manual_seed(seed))
    likelihood = npn.likelihoods.ScaledSoftmax(CLASSES)
    npn.train(
        network,
        (centred(x), torch.as_tensor(y)),
        likelihood,
        npn.priors.IsotropicGaussian(100.0),
        npn.Recipe(epochs, batch_size=50, learning_rate=3e-3, kl_weight=constant(1e-3), seed=seed),
        device="cpu",
    )
    with torch.no_grad():
        probs = likelihood.predict(network(centred(x_test))).probs.double().numpy()
    correct, uncertainty = probs.argmax(1) == y_test, (probs * (1 - probs)).sum(1)  # Σ p(1 - p): variance of the class
    return Result(
        y_test,
        x_test.reshape(-1, 8, 8),
        probs,
        accuracy=float(np.mean(correct)),
        nll=npn.metrics.categorical_nll(probs, y_test),
        by_uncertainty=npn.metrics.accuracy_by_uncertainty(correct, uncertainty, GROUPS),
        risk_coverage=npn.metrics.risk_coverage(correct, uncertainty),
    )
