"""Training: one loop for all networks, with recipes, early stopping and checkpoints."""

from torchnpn.training.checkpoint import CheckpointError
from torchnpn.training.explanation import Explanation, explain
from torchnpn.training.graph import captured
from torchnpn.training.history import Epoch, History
from torchnpn.training.machine import resolve_device
from torchnpn.training.recipe import Ramp, Recipe, adam, constant, cosine, geometric_ramp, linear_ramp
from torchnpn.training.train import TrainingDiverged, train

__all__ = [
    "CheckpointError",
    "Epoch",
    "Explanation",
    "History",
    "Ramp",
    "Recipe",
    "TrainingDiverged",
    "adam",
    "captured",
    "constant",
    "cosine",
    "explain",
    "geometric_ramp",
    "linear_ramp",
    "resolve_device",
    "train",
]
