"""Ensembles: members are the networks that would be trained alone, and predictions are their equal mixture."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.base import clone
from support import target_cases

from torchnpn import io
from torchnpn.estimators import EpochRecord, NPNClassifier, NPNRegressor, learning
from torchnpn.likelihoods import GaussianNoise, Mixture
from torchnpn.moments import Moments
from torchnpn.nn import Dropout, Linear, mlp
from torchnpn.nn.replicas import assemble_, member
from torchnpn.training.history import Epoch, History, mean_history

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
RATE = np.exp(0.6 * X[:, 0] + 0.3 * np.sin(2 * X[:, 1]))
TARGETS = target_cases.drawn(RNG, RATE)
LABELS = np.array(["low", "middle", "high"])[np.digitize(RATE, [0.8, 1.3])]
SEED = 12345


class Seed(np.random.RandomState):
    """A random state that gives the seed of the k-th member."""

    def __init__(self, k: int) -> None:
        super().__init__(0)
        self.k = k

    def randint(self, *_: object) -> int:
        return SEED + self.k


QUICK = {"hidden": (8,), "max_epochs": 8, "device": "cpu"}


@pytest.fixture(scope="module", params=TARGETS)
def regressors(request):
    """An ensemble of three, and its members, each trained alone."""
    family, y = request.param, TARGETS[request.param]
    alone = [NPNRegressor(family, random_state=Seed(k), **QUICK, effort="quick").fit(X, y) for k in range(3)]
    return NPNRegressor(family, n_estimators=3, random_state=Seed(0), **QUICK).fit(X, y), alone, y


# Predictions -----------------------------------------------------------------------------------------------------


def test_predictions_are_the_mean_of_the_members(regressors):
    model, alone, y = regressors
    predicted = model.predict_dist(X)
    assert isinstance(predicted.distribution, Mixture) and "Mixture of 3" in repr(predicted)
    np.testing.assert_allclose(predicted.mean, np.mean([one.predict(X) for one in alone], 0), rtol=1e-9)
    np.testing.assert_allclose(predicted.cdf(y), np.mean([one.predict_dist(X).cdf(y) for one in alone], 0), rtol=1e-7)
    densities = [np.exp(one.log_likelihood(X, y)) for one in alone]
    np.testing.assert_allclose(model.log_likelihood(X, y), np.log(np.mean(densities, 0)), rtol=1e-7, atol=1e-9)


def test_spread_of_the_members_is_epistemic(regressors):
    model, alone, _ = regressors
    total, epistemic, aleatoric = model.predict_variance(X)
    parts = [one.predict_variance(X) for one in alone]
    spread = np.var([one.predict(X) for one in alone], axis=0)
    np.testing.assert_allclose(epistemic, np.mean([part.epistemic for part in parts], 0) + spread, rtol=1e-8)
    np.testing.assert_allclose(aleatoric, np.mean([part.aleatoric for part in parts], 0), rtol=1e-8)
    np.testing.assert_allclose(total, model.predict_dist(X).variance, rtol=1e-6)
    np.testing.assert_allclose(model.predict(X, return_std=True)[1], np.sqrt(total), rtol=1e-6)


def test_intervals_samples_and_scores(regressors):
    model, alone, y = regressors
    predicted = model.predict_dist(X)
    low, high = model.predict_interval(X, 0.8)
    np.testing.assert_allclose(model.predict_quantile(X, [0.1, 0.9]), np.stack([low, high], 1), rtol=1e-12)
    assert (predicted.cdf(high) >= 0.9 - 1e-9).all() and (predicted.cdf(low - 1e-6) <= 0.1 + 1e-4).all()
    own = np.array([one.predict_quantile(X, 0.9) for one in alone])
    assert (own.min(0) <= high + 1e-9).all() and (high <= own.max(0) + 1e-9).all()
    draws = predicted.sample(2000, random_state=0)
    assert draws.shape == (2000, 120)
    np.testing.assert_allclose(draws.mean(0), predicted.mean, atol=5 * predicted.std.max() / np.sqrt(2000))
    score, worst = predicted.crps(y), np.mean([one.predict_dist(X).crps(y) for one in alone], 0)
    assert (score > 0).all() and (score <= worst + 1e-9).all()  # a mixture is never worse than its members' mean


def test_classes():
    alone = [NPNClassifier(random_state=Seed(k), **QUICK, effort="quick").fit(X, LABELS) for k in range(3)]
    model = NPNClassifier(n_estimators=3, random_state=Seed(0), **QUICK).fit(X, LABELS)
    probs = np.array([one.predict_proba(X) for one in alone])
    np.testing.assert_allclose(model.predict_proba(X), probs.mean(0), rtol=1e-7)
    total, epistemic, aleatoric = model.predict_variance(X)
    np.testing.assert_allclose(total, probs.mean(0) * (1 - probs.mean(0)), rtol=1e-6)
    np.testing.assert_allclose(
        epistemic, np.mean([one.predict_variance(X).epistemic for one in alone], 0) + probs.var(0), rtol=1e-6
    )
    np.testing.assert_allclose(aleatoric, np.mean([one.predict_variance(X).aleatoric for one in alone], 0), rtol=1e-6)
    assert set(model.predict(X)) <= set(LABELS)


# Members ---------------------------------------------------------------------------------------------------------


def test_members_do_not_depend_on_their_number():
    y = TARGETS["gaussian"]
    one, two, three = (NPNRegressor(n_estimators=n, random_state=7, **QUICK).fit(X, y) for n in (1, 2, 3))
    for k in (0, 1):
        for a, b in zip(member(two.network_, k).parameters(), member(three.network_, k).parameters(), strict=True):
            torch.testing.assert_close(a, b)
    for a, b in zip(one.network_.parameters(), member(three.network_, 0).parameters(), strict=True):
        torch.testing.assert_close(a, b)
    torch.testing.assert_close(one.likelihood_.log_noise, three.likelihood_.log_noise[0])
    first, second = (member(three.network_, k)[0].weight.mean for k in (0, 1))
    assert not torch.allclose(first, second)


def test_member_and_assemble_are_inverse():
    network = mlp([3, 5, 2], dropout=0.1, replicas=(4,), generator=torch.Generator().manual_seed(0)).eval()
    likelihood = GaussianNoise(2, replicas=(4,))
    with torch.no_grad():
        likelihood.log_noise.normal_()
    x = torch.randn(6, 3)
    together = network(x)
    alone = [member(network, k) for k in range(4)]
    for k, one in enumerate(alone):
        assert one[0].replicas == () and isinstance(one[2], Dropout)
        torch.testing.assert_close(one(x), Moments(together.mean[k], together.variance[k]))
    other = mlp([3, 5, 2], dropout=0.1, replicas=(4,), generator=torch.Generator().manual_seed(1)).eval()
    assemble_(other, alone)
    torch.testing.assert_close(other(x), together)
    back = GaussianNoise(2, replicas=(4,))
    assemble_(back, [member(likelihood, k) for k in range(4)])
    assert torch.equal(back.log_noise, likelihood.log_noise)
    with torch.no_grad():
        alone[0][0].weight.mean.zero_()
    assert network[0].weight.mean[0].any()  # memory of its own


def test_members_keep_what_is_frozen():
    layer = Linear(2, 1, replicas=(3,))
    layer.weight.log_std.requires_grad_(False)
    assert [p.requires_grad for p in member(layer, 1).parameters()] == [True, False, True, True]


def test_history_is_the_mean_over_members():
    histories = [History([Epoch(1, loss, 2 * loss, 0.1, None, 3.0)]) for loss in (1.0, 2.0)]
    assert mean_history(histories).epochs == [Epoch(1, 1.5, 3.0, 0.1, None, 6.0)]


@pytest.mark.slow
@pytest.mark.parametrize("family", TARGETS)
def test_all_members_at_once(family, monkeypatch):
    """What a GPU does, here on a CPU: one training along a leading dimension learns as well as one by one."""
    y = TARGETS[family]
    settings = {"hidden": (8,), "max_epochs": 25, "n_estimators": 3, "random_state": 0, "device": "cpu"}
    apart = NPNRegressor(family, **settings, effort="quick").fit(X, y)
    monkeypatch.setattr(learning, "trains_one_by_one", lambda device: False)
    together = NPNRegressor(family, **settings, effort="quick").fit(X, y)
    gap = together.log_likelihood(X, y).mean() - apart.log_likelihood(X, y).mean()
    assert abs(gap) < 0.15
    together.partial_fit(X, y).partial_fit(X, y)
    assert np.isfinite(together.log_likelihood(X, y)).all()


# The rest of the contract ----------------------------------------------------------------------------------------


def test_streams_weights_gaps_and_sparse_rows():
    y, weight = TARGETS["gaussian"], np.linspace(0.5, 2, 120)
    gappy = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
    settings = {**QUICK, "n_estimators": 2, "random_state": Seed(0)}
    for fit in ("fit", "partial_fit"):
        for rows, more in [
            (X, {"sample_weight": weight}),
            (gappy, {"X_variance": 0.1}),
            (scipy.sparse.csr_matrix(X), {}),
        ]:
            model, alone = (
                NPNRegressor(**settings, effort="quick"),
                [NPNRegressor(random_state=Seed(k), **QUICK, effort="quick") for k in (0, 1)],
            )
            for one in (model, *alone):
                for _ in range(1 if fit == "fit" else 3):
                    getattr(one, fit)(rows, y, **more)
            np.testing.assert_allclose(model.predict(rows), np.mean([one.predict(rows) for one in alone], 0), rtol=1e-9)
            assert model.n_iter_ == alone[0].n_iter_


def test_several_targets_and_varying_noise():
    y = np.stack([TARGETS["gaussian"], -TARGETS["gamma"]], 1)
    for noise in ("constant", "varying"):
        model = NPNRegressor(noise=noise, n_estimators=2, random_state=0, **QUICK).fit(X, y)
        predicted = model.predict_dist(X)
        assert model.predict_quantile(X, [0.1, 0.5, 0.9]).shape == (120, 2, 3)
        assert (
            predicted.crps(y).shape == predicted.log_prob(y).shape == model.predict_variance(X).total.shape == y.shape
        )


def test_pickle_clone_and_seeds():
    y = TARGETS["gamma"]
    model = NPNRegressor("gamma", n_estimators=2, random_state=3, **QUICK).fit(X, y)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X), rtol=1e-9)
    assert clone(model).get_params() == model.get_params()
    np.testing.assert_array_equal(clone(model).fit(X, y).predict(X), model.predict(X))
    later = clone(model).set_params(n_estimators=5)
    assert later.fit(X, y).network_[0].replicas == (5,)


def test_progress_is_told_over_all_members(capsys):
    told: list[EpochRecord] = []
    settings = {**QUICK, "max_epochs": 2, "n_estimators": 2}
    NPNRegressor(verbose=1, **settings, effort="quick").fit(X, TARGETS["gaussian"], callbacks=[told.append])
    assert [one.share for one in told] == [0.25, 0.5, 0.75, 1.0]
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        f"[NPNRegressor] member {k}/2, epoch {epoch}/2" for k in (1, 2) for epoch in (1, 2)
    ]


# Model files -----------------------------------------------------------------------------------------------------


def test_ensembles_come_back(regressors, tmp_path):
    model, _, _ = regressors
    io.save(model, tmp_path / "model.npn")
    loaded = io.load(tmp_path / "model.npn")
    assert loaded.n_estimators == 3
    np.testing.assert_allclose(loaded.predict(X), model.predict(X), rtol=1e-9)
    for one, other in zip(loaded.predict_variance(X), model.predict_variance(X), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert "n_estimators=3" in io.describe(tmp_path / "model.npn")["architecture"][0]


def test_classifiers_come_back(tmp_path):
    model = NPNClassifier(n_estimators=2, random_state=0, **QUICK).fit(X, LABELS)
    io.save(model, tmp_path / "model.npn")
    np.testing.assert_allclose(io.load(tmp_path / "model.npn").predict_proba(X), model.predict_proba(X), rtol=1e-9)


def test_files_without_the_setting_hold_one_network(tmp_path):
    """As they did before there were ensembles; and other versions can read what says no more."""
    model = NPNRegressor(random_state=0, **QUICK, n_estimators=1, effort="quick").fit(X, TARGETS["gaussian"])
    io.save(model, tmp_path / "model.npn")
    assert "n_estimators" not in io.describe(tmp_path / "model.npn")["plain"]["settings"]
    loaded = io.load(tmp_path / "model.npn")
    assert loaded.n_estimators == 1
    np.testing.assert_allclose(loaded.predict(X), model.predict(X), rtol=1e-9)


@pytest.mark.parametrize("members", [1, 2, 4, 0, -3, 2.0, True, None, "3", 2**40])
def test_files_with_another_number_of_members_are_refused(members):
    plain, arrays = NPNRegressor(n_estimators=3, random_state=0, **QUICK).fit(X, TARGETS["gaussian"])._state()
    plain["settings"]["n_estimators"] = members
    with pytest.raises((ValueError, RuntimeError)):
        NPNRegressor._from_state(plain, arrays)


# Rows of their own ----------------------------------------------------------------------------------------------------

SEVERAL = {
    "regressor": (
        NPNRegressor(n_estimators=2, max_epochs=3, batch_size=5, random_state=0),
        lambda x: x[:, 0] - x[:, 1],
    ),
    "classifier": (
        NPNClassifier(n_estimators=2, max_epochs=3, batch_size=5, random_state=0),
        lambda x: (x[:, 0] > 0).astype(int),
    ),
}


@pytest.mark.parametrize("kind", SEVERAL)
def test_members_that_see_all_rows_are_those_of_a_plain_fit(kind):
    model, target = SEVERAL[kind]
    x = np.random.default_rng(0).normal(size=(40, 2))
    plain, rowwise = (
        clone(model).fit(x, target(x), subsets=subsets) for subsets in (None, np.stack([np.arange(40)] * 2))
    )
    for a, b in zip(plain.network_.parameters(), rowwise.network_.parameters(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kind", SEVERAL)
def test_a_member_does_not_see_the_rows_of_another(kind):
    model, target = SEVERAL[kind]
    x = np.random.default_rng(0).normal(size=(40, 2))
    x[20:] = -x[:20]  # so that scales stay as they are when rows of one half change places
    shuffled = np.concatenate([x[:20], x[20:][::-1]])
    subsets = np.arange(40).reshape(2, 20)
    models = [clone(model).fit(rows, target(rows), subsets=subsets) for rows in (x, shuffled)]
    assert [model._rows_seen for model in models] == [20, 20]  # by which `partial_fit` weighs the KL
    fitted = [model.network_ for model in models]
    first, second = ([p[k] for p in fitted[0].parameters()] for k in (0, 1))
    for k, mine in enumerate((first, second)):
        theirs = [p[k] for p in fitted[1].parameters()]
        same = all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(mine, theirs, strict=True))
        assert same == (k == 0)


@pytest.mark.parametrize(
    ("subsets", "message"),
    [
        ([[0, 1]], r"\(2, n\), for each of n_estimators=2 networks, got int64 of shape \(1, 2\)"),
        ([[0.0], [1.0]], "got float64"),
        ([[0, 1], [2, 9]], "from 0 to 8, got 0 to 9"),
        ([[0, -1], [2, 3]], "from 0 to 8, got -1 to 3"),
        (np.empty((2, 0), int), r"shape \(2, 0\)"),
    ],
)
def test_subsets_that_make_no_sense_are_refused(subsets, message):
    with pytest.raises(ValueError, match=message):
        NPNRegressor(n_estimators=2).fit(np.eye(9), np.arange(9.0), subsets=subsets)


def test_subsets_and_weights_do_not_go_together():
    with pytest.raises(ValueError, match="Repeat rows in subsets"):
        NPNRegressor(n_estimators=1).fit(np.eye(9), np.arange(9.0), np.ones(9), subsets=[[0, 1]])


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("members", [1, 3])
def test_predictions_of_members_average_to_those_of_the_mixture(members, targets):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 3)), rng.normal(size=(50, targets)).squeeze()
    model = NPNRegressor(n_estimators=members, max_epochs=2, random_state=0).fit(x, y)
    mean, variance = model.predict_members(x)
    assert mean.shape == variance.shape == (members, *y.shape)
    whole = model.predict_dist(x)
    np.testing.assert_allclose(mean.mean(0), whole.mean, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(variance.mean(0) + mean.var(0), whole.variance, rtol=1e-6)
