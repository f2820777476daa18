"""Natural-parameter networks on PyTorch: networks whose inputs, weights, neurons and outputs are distributions."""

from torchnpn import datasets, estimators, families, io, likelihoods, maps, metrics, nn, priors, training
from torchnpn.estimators import (
    BayesianLogisticRegression,
    LinkPredictor,
    NPNAutoencoder,
    NPNClassifier,
    NPNRegressor,
    Predictive,
)
from torchnpn.io import load, save
from torchnpn.moments import Moments
from torchnpn.priors import kl
from torchnpn.training import History, Recipe, train

__all__ = [
    "BayesianLogisticRegression",
    "History",
    "LinkPredictor",
    "Moments",
    "NPNAutoencoder",
    "NPNClassifier",
    "NPNRegressor",
    "Predictive",
    "Recipe",
    "datasets",
    "estimators",
    "families",
    "io",
    "kl",
    "likelihoods",
    "load",
    "maps",
    "metrics",
    "nn",
    "priors",
    "save",
    "train",
    "training",
]
__version__ = "0.1.0"
