"""Settings of small, quick autoencoders of counts, one row for every kind of network; and odd documents for them."""

from __future__ import annotations

from typing import Any

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


def odd_documents(counts: Any, case: str) -> Any:
    """Documents, of which some are out of the ordinary."""
    odd = counts.tolil()
    if case == "one document":
        odd = odd[:1]
    elif case == "empty documents":
        odd[[0, 7]] = 0
    elif case == "all empty":
        odd[:] = 0
    elif case == "a word that never occurs":
        odd[:, 3] = 0
    elif case == "wide":
        odd.resize(odd.shape[0], 2**16 + 9)
        odd[0, 2**16 + 5] = 3
    else:
        raise ValueError(f"There is no case {case!r}.")
    return odd.tocsr()
