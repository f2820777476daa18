"""Same seed, same numbers, also for fits in several threads; and no fit touches a global random state."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from torchnpn import DocumentAutoencoder, NPNAutoencoder, NPNClassifier, NPNRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=60)
COUNTS = RNG.poisson(1.0, size=(60, 8))
QUICK = {"hidden": (6,), "max_epochs": 6}
CASES = {
    "dropout": (lambda seed: NPNRegressor(dropout=0.3, random_state=seed, **QUICK).fit(X, Y), X),
    "small": (
        lambda seed: NPNRegressor("poisson", random_state=seed, **QUICK, effort="quick").fit(X, np.arange(60) % 4),
        X,
    ),
    "ensemble": (lambda seed: NPNRegressor(n_estimators=3, dropout=0.1, random_state=seed, **QUICK).fit(X, Y), X),
    "classifier": (
        lambda seed: NPNClassifier(dropout=0.2, adversarial=0.5, random_state=seed, **QUICK).fit(X, Y > 0),
        X,
    ),
    "autoencoder": (lambda seed: NPNAutoencoder(dropout=0.2, random_state=seed, **QUICK).fit(X), X),
    "words": (lambda seed: DocumentAutoencoder("gamma", random_state=seed, **QUICK).fit(COUNTS), COUNTS),
    "masked words": (lambda seed: DocumentAutoencoder(random_state=seed, **QUICK).fit(COUNTS), COUNTS),
}


def answers(model, X):
    if isinstance(model, (NPNAutoencoder, DocumentAutoencoder)):
        return np.concatenate(model.transform_dist(X))
    return model.predict_proba(X) if isinstance(model, NPNClassifier) else np.stack(model.predict(X, return_std=True))


@pytest.mark.parametrize("name", CASES)
def test_threads_do_not_change_a_fit(name):
    fit, X = CASES[name]
    alone = [answers(fit(seed), X) for seed in range(6)]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda seed: answers(fit(seed), X), range(6)))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(alone[0], alone[1])


@pytest.mark.parametrize("seed", [0, None], ids=["seeded", "not seeded"])
@pytest.mark.parametrize("name", CASES)
def test_global_random_states_stay_as_they_are(name, seed):
    fit, X = CASES[name]
    torchs, numpys = torch.get_rng_state(), np.random.get_state()
    model = fit(seed)
    answers(model, X)
    assert torch.equal(torchs, torch.get_rng_state())
    np.testing.assert_equal(np.random.get_state(), numpys)


def test_one_model_answers_in_several_threads():
    model = NPNRegressor(n_estimators=2, random_state=0, **QUICK).fit(X, Y)
    rows = [X[i : i + 5] for i in range(50)]
    alone = [model.predict(part) for part in rows]
    with ThreadPoolExecutor(4) as pool:
        np.testing.assert_array_equal(list(pool.map(model.predict, rows)), alone)
