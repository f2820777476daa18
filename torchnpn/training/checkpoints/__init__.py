"""Checkpoints of `train`: the file, the fingerprint of a training, and one state of optimizers for all engines."""
