"""How estimators train: length, batch size, weight of the KL, optimizers, streams, and what they tell meanwhile."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from torchnpn import NPNRegressor
from torchnpn.estimators.learning import Plan, ramp
from torchnpn.likelihoods import GaussianNoise

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Y = np.exp(0.6 * X[:, 0] + 0.3 * np.sin(2 * X[:, 1])) + 0.3 * RNG.normal(size=200)


def test_partial_fit_learns_from_a_stream():
    model = NPNRegressor(random_state=0, effort="quick")
    for _ in range(60):
        x = RNG.normal(size=(100, 3))
        model.partial_fit(x, 2 * x[:, 0] + 5)
    assert model.score(X, 2 * X[:, 0] + 5) > 0.95
    assert model.n_iter_ == 60
    with pytest.raises(ValueError, match="1 targets"):
        model.partial_fit(X, np.ones((200, 2)))
    after = NPNRegressor(max_epochs=5, random_state=0, effort="quick").fit(X, Y)
    before = after.predict(X)
    assert not np.array_equal(after.partial_fit(X, Y).predict(X), before)


def test_verbose_prints(capsys):
    NPNRegressor(max_epochs=20, verbose=1, effort="quick").fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10 and lines[-1].startswith("[NPNRegressor] epoch 20/20: loss")


def test_plan():
    assert Plan.of(500, None, None) == (32, 625)
    assert Plan.of(20, None, None) == (32, 1000)
    assert Plan.of(8000, None, None).batch_size == 64
    assert Plan.of(10**6, None, None) == (1024, 10)
    assert Plan.of(10**6, 7, 3) == (7, 3)
    assert ramp(0.0, lambda: 0.3)(0.5) == 0.0
    rising = ramp(2.0, lambda: 0.3)
    np.testing.assert_allclose([rising(0.0), rising(0.4), rising(0.8), rising(1.0)], [0.6, 0.6, 2.0, 2.0])
    np.testing.assert_allclose(ramp(2.0, lambda: 0.0)(0.0), 0.1)
    each = ramp(2.0, lambda: np.array([0.3, 0.0]))  # one for each replica
    np.testing.assert_allclose([each(0.0), each(1.0)], [[0.6, 0.1], [2.0, 2.0]])


def test_the_least_weight_of_the_kl_follows_the_noise_of_each_replica():
    """Half the mean over targets of the noise, and at most a half."""
    noise = [[0.1, 0.3], [4.0, 0.01], [0.5, 0.5]]
    likelihood = GaussianNoise(2, replicas=(3,))
    alone = GaussianNoise(2)
    with torch.no_grad():
        likelihood.log_noise.copy_(torch.tensor(noise).log())
        alone.log_noise.copy_(torch.tensor(noise[0]).log())
    np.testing.assert_allclose(likelihood.least_kl(), [0.1, 0.5, 0.25], rtol=1e-6)
    assert isinstance(alone.least_kl(), float) and alone.least_kl() == pytest.approx(0.1)


def test_estimators_take_optimizers_by_name():
    x = np.linspace(-1, 1, 60)[:, None]
    model = NPNRegressor(hidden=(20,), optimizer="adadelta", learning_rate=1.0, max_epochs=200, random_state=0)
    model.fit(x, x[:, 0] ** 2)
    assert model.score(x, x[:, 0] ** 2) > 0.9
    again = model.partial_fit(x, x[:, 0] ** 2)  # goes on with the same optimizer
    assert set(again._averages[0]["state"][0]) >= {"square_avg", "acc_delta"}
    with pytest.raises(ValueError, match='optimizer expects one of "adam", "adadelta"'):
        NPNRegressor(optimizer="adagrab").fit(x, x[:, 0])
