"""class_weight counts rows of each class more or less, as scikit-learn defines it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import torchnpn as npn
from torchnpn import NPNClassifier

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2))
Y = np.where(X[:, 0] + RNG.normal(size=120) > 1.5, "rare", "usual")
SHORT = {"max_epochs": 3, "effort": "quick", "random_state": 0}
SHARE = (Y == "rare").mean()


@pytest.mark.parametrize(
    ("weight", "same"),
    [
        ("balanced", np.where(Y == "rare", 0.5 / SHARE, 0.5 / (1 - SHARE))),
        ({"rare": 3.0, "usual": 0.5}, np.where(Y == "rare", 3.0, 0.5)),
        ({"rare": 3.0, "usual": 1.0}, np.where(Y == "rare", 3.0, 1.0)),
    ],
    ids=str,
)
def test_it_is_a_sample_weight_and_multiplies_one(weight, same):
    own = RNG.uniform(0.5, 2, 120)
    for given in (None, own):
        found = NPNClassifier(class_weight=weight, **SHORT).fit(X, Y, given).predict_proba(X)
        want = NPNClassifier(**SHORT).fit(X, Y, same if given is None else same * own).predict_proba(X)
        np.testing.assert_allclose(found, want, rtol=1e-4)


def test_balanced_probabilities_are_those_of_equal_shares():
    model = NPNClassifier((), class_weight="balanced", max_epochs=60, random_state=0).fit(X, Y)
    want = LogisticRegression(class_weight="balanced", C=10).fit(X, Y).predict_proba(X)
    assert abs(model.predict_proba(X).mean(0) - want.mean(0)).max() < 0.05


def test_files_and_calls(tmp_path):
    balanced = NPNClassifier(class_weight="balanced", **SHORT).fit(X, Y)
    by_label = NPNClassifier(class_weight={"rare": 2.0, "usual": 1.0}, **SHORT).fit(X, Y)
    for model, setting in ((balanced, "balanced"), (by_label, None)):
        npn.save(model, tmp_path / "m.npn")
        found = npn.load(tmp_path / "m.npn")
        assert found.class_weight == setting
        np.testing.assert_array_equal(found.predict_proba(X), model.predict_proba(X))
    with pytest.raises(ValueError, match="goes with fit"):
        NPNClassifier(class_weight="balanced", **SHORT).partial_fit(X, Y, ["rare", "usual"])
    for wrong in ("even", {"rare": -1.0}, 3):
        with pytest.raises(ValueError, match='class_weight expects None, "balanced" or a dict'):
            NPNClassifier(class_weight=wrong, **SHORT).fit(X, Y)
