"""Natural-parameter networks on PyTorch: networks whose inputs, weights, neurons and outputs are distributions."""

from torchnpn import families, likelihoods, maps, nn, priors, training
from torchnpn.moments import Moments
from torchnpn.priors import kl
from torchnpn.training import History, Recipe, train

__all__ = [
    "History",
    "Moments",
    "Recipe",
    "families",
    "kl",
    "likelihoods",
    "maps",
    "nn",
    "priors",
    "train",
    "training",
]
__version__ = "0.1.0"
