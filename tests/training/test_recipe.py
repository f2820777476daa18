"""The record of settings of a training refuses what no training can have."""

import math

import pytest

from torchnpn import Recipe


def test_bad_settings():
    huge = 10**400  # beyond float64
    wrong = {
        "epochs": [0, 1.5, huge, "many"],
        "batch_size": [-1, 2.0, huge, None],
        "learning_rate": [0.0, math.nan, math.inf, huge, "fast", [1e-3, -1e-3]],
        "adversarial": [-1.0, math.inf, huge, "a"],
        "clip_norm": [0.0, math.nan, huge, "a"],
        "patience": [1.5, "a"],
        "seed": [1.5, None, 2**63, huge],
    }
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(ValueError, match=f"Recipe expects .*{name}"):
                Recipe(**{name: value})
