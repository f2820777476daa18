"""Estimators that hold out rows: what they promise, what files hold, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

import torchnpn as npn
from torchnpn import NPNClassifier, NPNRegressor
from torchnpn.estimators import stacking

RNG = np.random.default_rng(0)
ROWS = 200
X = RNG.uniform(-2, 2, size=(ROWS, 3))
Y = np.sin(2 * X[:, 0]) + np.abs(X[:, 1]) * RNG.normal(size=ROWS)
COUNTS = RNG.poisson(np.exp(X[:, 0])).astype(float)
LABELS = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + RNG.normal(size=ROWS), [-1, 1])]
NEW = RNG.uniform(-2, 2, size=(1_000, 3))
NEW_Y = np.sin(2 * NEW[:, 0]) + np.abs(NEW[:, 1]) * RNG.normal(size=len(NEW))
SHORT = {"max_epochs": 8, "random_state": 0}
ways = pytest.mark.parametrize("calibrate", ["split", "cross"])
efforts = pytest.mark.parametrize("effort", ["quick", "best"])


@ways
@efforts
def test_a_network_that_is_hardly_trained_has_intervals_that_hold_their_share(calibrate, effort):
    """Eight epochs are far too few. Given 40 held-out rows, the coverage of new ones is 0.9 up to 0.047 (one std)."""
    model = NPNRegressor(calibrate=calibrate, effort=effort, **SHORT).fit(X, Y)
    low, high = model.predict_interval(NEW, 0.9)
    assert 0.8 < ((low <= NEW_Y) & (high >= NEW_Y)).mean() < 0.98
    assert len(model.calibration_.part) == (40 if calibrate == "split" else ROWS)


@ways
@efforts
@pytest.mark.parametrize("kind", ["numbers", "counts", "two targets", "labels", "ordered labels"])
def test_files_keep_the_calibration(tmp_path, calibrate, effort, kind):
    common = {"calibrate": calibrate, "effort": effort, **SHORT}
    y = {"numbers": Y, "counts": COUNTS, "two targets": np.stack([Y, COUNTS], 1)}.get(kind, LABELS)
    if "labels" in kind:
        model = NPNClassifier(ordered=kind == "ordered labels", **common).fit(X, y)
    else:
        model = NPNRegressor("poisson" if kind == "counts" else "gaussian", **common).fit(X, y)
    npn.save(model, tmp_path / "model.npn")
    again = npn.load(tmp_path / "model.npn")
    if "labels" in kind:
        np.testing.assert_array_equal(again.predict_proba(NEW[:9]), model.predict_proba(NEW[:9]))
        np.testing.assert_array_equal(again.predict_set(NEW[:9], 0.8), model.predict_set(NEW[:9], 0.8))
    else:
        for ours, theirs in zip(
            again.predict_interval(NEW[:9], 0.8), model.predict_interval(NEW[:9], 0.8), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)
            assert np.isfinite(ours).all()
        assert model.predict_interval(NEW[:9], 0.8).low.shape == ((9, 2) if kind == "two targets" else (9,))
        at = model.predict_dist(NEW[:9])
        for value in (at.log_prob(1.0), at.crps(1.0), at.cdf(1.0), at.quantile(0.3), at.sample(3, 0)):
            assert np.isfinite(value).all()


@efforts
def test_cross_levels_are_of_networks_that_have_not_seen_the_row(effort):
    """Rebuilt from the networks' own means and variances: of row i, those whose subsets lack it."""
    model = NPNRegressor(calibrate="cross", effort=effort, noise="constant", **SHORT).fit(X, Y)

    means, variances = model.predict_members(X)
    fold = stacking.Folds.draw(ROWS, 1, model._seed).fold
    for i in range(0, ROWS, 17):
        blind = np.arange(len(means)) % stacking.FOLDS == fold[i]
        w = model._weights.numpy()[blind]
        u = stats.norm.cdf(Y[i], means[blind, i], np.sqrt(variances[blind, i])) @ (w / w.sum())
        np.testing.assert_allclose(model.calibration_.values[i, 0], u, rtol=1e-6, atol=1e-12)
    np.testing.assert_array_equal(model.calibration_.part, fold)


def test_split_trains_on_the_other_rows_alone():
    """Held-out rows that are all wrong change intervals, and nothing else."""
    model = NPNRegressor(calibrate="split", **SHORT).fit(X, Y)
    out = np.random.default_rng(model._seed).permutation(ROWS)[:40]
    wrong = Y.copy()
    wrong[out] += 100.0
    other = clone(model).fit(X, wrong)
    np.testing.assert_array_equal(other.predict(NEW), model.predict(NEW))
    assert (other.predict_interval(NEW).low > model.predict_interval(NEW).low).all()


@ways
def test_same_seed_same_bits(calibrate):
    one, two = (NPNRegressor(calibrate=calibrate, **SHORT).fit(X, Y).predict_interval(NEW[:20]) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_mean_std_and_variance_parts_stay_those_of_the_networks():
    model = NPNRegressor(calibrate="cross", **SHORT).fit(X, Y)
    mean, std = model.predict(NEW, return_std=True)
    members = model.predict_members(NEW).mean
    np.testing.assert_allclose(mean, np.tensordot(model._mixing.weights, members, 1))
    np.testing.assert_allclose(std**2, model.predict_variance(NEW).total)


def test_fit_without_forgets_the_calibration():
    model = NPNRegressor(calibrate="cross", **SHORT).fit(X, Y).set_params(calibrate=None).fit(X, Y)
    assert model.calibration_ is None
    assert model.predict_interval(NEW, 0.9999).low.shape == (1_000,)


def test_a_temperature_mends_probabilities_that_are_too_sure():
    """A network that has learnt noise by heart."""
    y = RNG.integers(2, size=ROWS)
    kwargs = {"hidden": (100,), "kl_weight": 0.0, "random_state": 0, "max_epochs": 150}
    plain, mended = (NPNClassifier(calibrate=way, **kwargs).fit(X, y) for way in (None, "cross"))
    labels = RNG.integers(2, size=len(NEW))
    assert mended.temperature_ > 2
    assert mended.log_likelihood(NEW, labels).mean() > plain.log_likelihood(NEW, labels).mean() + 0.05


@ways
def test_sets_hold_the_label(calibrate):
    model = NPNClassifier(calibrate=calibrate, **SHORT).fit(X, LABELS)
    labels = np.digitize(NEW[:, 0] + RNG.normal(size=len(NEW)), [-1, 1])
    inside = model.predict_set(NEW, 0.9)
    assert inside.dtype == bool
    assert inside.shape == (1_000, 3)
    assert inside[np.arange(1_000), labels].mean() > 0.8
    assert inside.sum(1).mean() < 3


@pytest.mark.parametrize(
    ("settings", "options", "words"),
    [
        ({"calibrate": "both"}, {}, 'calibrate expects "split", "cross", or None for neither, got \'both\''),
        ({"calibrate": True}, {}, "calibrate expects"),
        ({"calibrate": "split"}, {"sample_weight": np.ones(ROWS)}, "does not go with sample_weight"),
        ({"calibrate": "cross"}, {"subsets": np.arange(10)[None]}, "does not go with subsets"),
    ],
)
def test_what_does_not_go_together_is_refused(settings, options, words):
    for model, y in ((NPNRegressor, Y), (NPNClassifier, LABELS)):
        with pytest.raises(ValueError, match=words):
            model(**settings, **SHORT).fit(X, y, **options)


def test_few_rows_are_refused_in_words():
    for model, y in ((NPNRegressor, Y), (NPNClassifier, LABELS)):
        with pytest.raises(ValueError, match="at least 38 rows, of which it holds out 19, got 37"):
            model(calibrate="split", **SHORT).fit(X[:37], y[:37])
        with pytest.raises(ValueError, match='calibrate="cross" expects at least 20 rows, got 19'):
            model(calibrate="cross", **SHORT).fit(X[:19], y[:19])
    model = NPNRegressor(calibrate="split", **SHORT).fit(X[:38], Y[:38])
    assert np.isfinite(model.predict_interval(NEW, 0.9)).all()
    with pytest.raises(
        ValueError, match=r"level 0\.95 expects at least 39 held-out rows, got 19\. Take a level of at most"
    ):
        model.predict_interval(NEW, 0.95)
    classes = NPNClassifier(calibrate="split", **SHORT).fit(X[:38], LABELS[:38])
    with pytest.raises(ValueError, match=r"level 0\.99 expects at least 99 held-out rows, got 19"):
        classes.predict_set(NEW, 0.99)
    for level in (0.0, 1.0, 1.5, [0.9]):
        with pytest.raises(ValueError, match="level between 0 and 1"):
            classes.predict_set(NEW, level)
    with pytest.raises(ValueError, match="got calibrate=None"):
        NPNClassifier(**SHORT).fit(X, LABELS).predict_set(NEW)


@ways
def test_partial_fit_is_refused(calibrate):
    with pytest.raises(ValueError, match="partial_fit goes with calibrate=None"):
        NPNRegressor(calibrate=calibrate).partial_fit(X, Y)


@pytest.mark.parametrize("shape", [(), (3,), (ROWS, 3)])
def test_measurement_errors_follow_their_rows(shape):
    model = NPNRegressor(calibrate="split", **SHORT).fit(X, Y, X_variance=np.full(shape, 0.01))
    assert np.isfinite(model.predict_interval(NEW, X_variance=0.01)).all()


HOSTILE = {
    "values above one": {"held_out.values": lambda a: a + 1},
    "no numbers": {"held_out.values": lambda a: a * np.nan},
    "values of other targets": {"held_out.values": lambda a: np.tile(a, 2)},
    "fewer values": {"held_out.values": lambda a: a[1:]},
    "no rows": {"held_out.values": lambda a: a[:0], "held_out.part": lambda a: a[:0]},
    "a part that is none": {"held_out.part": lambda a: a + 1},
    "many parts": {"held_out.part": lambda a: a * 1e300},
    "half a part": {"held_out.part": lambda a: a / 2},
    "parts that are no shares of the networks": {"held_out.part": lambda a: np.minimum(a, 2)},
}


@pytest.mark.parametrize("model", [NPNRegressor, NPNClassifier])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(model, name):
    plain, arrays = (
        model(calibrate="cross", **SHORT).fit(X[:40], (Y if model is NPNRegressor else LABELS)[:40])._state()
    )
    for key, change in HOSTILE[name].items():
        arrays[key] = change(np.asarray(arrays[key]))
    with pytest.raises(ValueError, match="held_out"):
        model._from_state(plain, arrays)


@pytest.mark.parametrize("temperature", [0.0, -1.0, "hot", None, float("nan")])
def test_hostile_temperatures_are_refused(temperature):
    plain, arrays = NPNClassifier(calibrate="split", **SHORT).fit(X, LABELS)._state()
    with pytest.raises(ValueError, match="temperature"):
        NPNClassifier._from_state({**plain, "temperature": temperature}, arrays)
