"""Checkpoints of `train`: the file, the fingerprint of a training, and one state of optimizers for all engines."""

from torchnpn.training.checkpoints import files, optimizer_state
from torchnpn.training.checkpoints.files import CheckpointError
from torchnpn.training.checkpoints.fingerprint import fingerprint_of

__all__ = ["CheckpointError", "files", "fingerprint_of", "optimizer_state"]
