"""Settings of small, quick autoencoders of counts: one row for every kind of network."""

from __future__ import annotations

import pytest

FAST = {"hidden": (8, 4), "max_epochs": 2, "batch_size": 16, "device": "cpu", "random_state": 0}
NETWORKS = {
    "gaussian": {"family": "gaussian", "loss": "bce"},
    "codes over masks": {"family": "gaussian", "loss": "bce", "encoding_noise": 0.7},
    "learnt prior": {"family": "gaussian", "loss": "bce", "prior_precision": "evidence", "weight_decay": 0.1},
    "sigmoid and the paper's loss": {"family": "gaussian", "loss": "gaussian", "activation": "sigmoid"},
    "gamma": {"family": "gamma"},
    "factors": {"family": "gamma", "activation": "identity", "bias": False, "loss": "gamma"},
    "poisson": {"family": "poisson"},
    "poisson by KL": {"family": "poisson", "activation": "saturating_kl", "loss": "l2"},
}
each_network = pytest.mark.parametrize("settings", NETWORKS.values(), ids=NETWORKS)
