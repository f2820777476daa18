"""What is guaranteed of rows in random order, whatever the model: by simulation, within binomial bounds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import optimize, special, stats

from torchnpn import conformal
from torchnpn.conformal import HeldOut
from torchnpn.estimators import Predictive
from torchnpn.families import Gamma, Gaussian, Poisson, ZeroInflated

REPEATS, HELD_OUT = 800, 39
F64 = torch.float64


def column(values):
    return torch.tensor(np.asarray(values, dtype=np.float64).reshape(-1, 1))


def hurdle(s):
    return ZeroInflated(Gamma(column(np.full(s.shape, 2.0)), column(2 / s)), column(np.full(s.shape, 0.5)))


WRONG = {  # what a model says of rows with spread s, and what is true
    "heteroscedastic": (
        lambda s: Gaussian(column(0 * s), column((s / 2) ** 2)),
        lambda s, rng: s * rng.normal(size=s.shape),
    ),
    "skewed": (lambda s: Gaussian(column(0 * s), column(s**2)), lambda s, rng: s * rng.exponential(size=s.shape)),
    "misspecified": (
        lambda s: Gaussian(column(s - 1), column(0 * s + 4)),
        lambda s, rng: s**2 * rng.standard_t(2, size=s.shape),
    ),
    "counts": (
        lambda s: Poisson(column(2 * s)),
        lambda s, rng: rng.poisson(s * rng.gamma(1.0, 2.0, size=s.shape)).astype(float),
    ),
    "zeros": (
        hurdle,
        lambda s, rng: np.where(rng.random(s.shape) < 0.2, 0.0, s * rng.lognormal(0, 1, size=s.shape)),
    ),
}


def binomial_bounds(least, most):
    """Shares of `REPEATS` that a probability from `least` to `most` gives, but for one case in 20,000."""
    low, high = stats.binom.ppf(2.5e-5, REPEATS, least), stats.binom.ppf(1 - 2.5e-5, REPEATS, min(most, 1))
    return low / REPEATS, high / REPEATS


@pytest.mark.parametrize("name", WRONG)
def test_intervals_hold_their_share_whatever_the_model(name):
    """One new row for each set of held-out ones: not below the level, and for densities not above by 2/(n + 1)."""
    predict, draw = WRONG[name]
    rng, level = np.random.default_rng(0), 0.8
    inside = 0
    for _ in range(REPEATS):
        s = rng.uniform(0.5, 3, size=HELD_OUT + 1)
        y = draw(s, rng)
        u = conformal.levels(predict(s[:-1]), y[:-1, None], rng)
        held_out = HeldOut(u, np.zeros(HELD_OUT, np.int64))
        low, high = Predictive(conformal.calibrated([predict(s[-1:])], held_out)).interval(level)
        inside += low[0] <= y[-1] <= high[0]
    least, most = binomial_bounds(level, level + 2 / (HELD_OUT + 1) if name not in ("counts", "zeros") else 1.0)
    assert least <= inside / REPEATS <= most


def test_folds_hold_at_least_twice_the_level_less_one_and_about_the_level():
    """Each part of a model is wrong in its own way, as networks of different folds are."""
    rng, level, n = np.random.default_rng(1), 0.8, 40
    part = np.arange(n) % 2
    inside = 0
    repeats, new = 60, 20
    for _ in range(repeats):
        y, bias = rng.normal(size=n + new), rng.normal(0, 0.3, size=2)
        parts = [Gaussian(column(np.full(n, b)), column(np.full(n, 0.25))) for b in bias]
        u = np.stack([conformal.levels(one, y[:n, None], rng) for one in parts])[part, np.arange(n)]
        d = conformal.calibrated([one[:new] for one in parts], HeldOut(u, part))
        low, high = Predictive(d).interval(level)
        inside += ((low <= y[n:]) & (y[n:] <= high)).sum()
    assert level - 0.05 <= inside / (repeats * new) <= level + 0.08


def test_levels_of_a_right_model_are_uniform():
    s = np.random.default_rng(2).uniform(0.5, 3, size=3_000)
    for d in (Poisson(column(s)), hurdle(s), Gaussian(column(s), column(s))):
        y = d.sample(1, torch.Generator().manual_seed(0))[0].numpy()
        u = conformal.levels(d, y, np.random.default_rng(0))
        assert stats.kstest(u[:, 0], "uniform").pvalue > 1e-3


# Classes -------------------------------------------------------------------------------------------------------------

CLASSES = 4


def labels_and_probs(rng, rows, sure):
    """Labels by their true probabilities, and what a model says that is too sure of itself or too little."""
    logits = 1.5 * rng.normal(size=(rows, CLASSES))
    p = special.softmax(logits, axis=1)
    labels = (rng.random((rows, 1)) > p.cumsum(1)).sum(1).clip(max=CLASSES - 1)
    return labels, special.softmax(sure * logits, axis=1)


@pytest.mark.parametrize("sure", [0.3, 1.0, 4.0])
def test_a_temperature_makes_labels_most_likely(sure):
    labels, probs = labels_and_probs(np.random.default_rng(0), 4_000, sure)
    found = conformal.temperature(probs, labels)

    def loss(t):
        p = probs ** (1 / t)
        return -np.log((p / p.sum(1, keepdims=True))[np.arange(len(labels)), labels]).mean()

    best = optimize.minimize_scalar(loss, bounds=(0.1, 15), method="bounded").x
    np.testing.assert_allclose(found, best, rtol=1e-3)
    np.testing.assert_allclose(found, sure, rtol=0.1)
    softened = conformal.softened(probs, found)
    np.testing.assert_allclose(softened.sum(1), 1)
    np.testing.assert_allclose(softened, probs ** (1 / found) / (probs ** (1 / found)).sum(1, keepdims=True), rtol=1e-9)


def test_probabilities_of_zero_have_a_temperature():
    probs = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert np.isfinite(conformal.temperature(probs, np.array([0, 1, 1])))
    assert np.isfinite(conformal.softened(probs, 2.0)).all()


@pytest.mark.parametrize("sure", [0.3, 4.0])
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_sets_hold_their_share_whatever_the_model(sure, level):
    rng, inside = np.random.default_rng(0), 0
    for _ in range(REPEATS):
        labels, probs = labels_and_probs(rng, HELD_OUT + 1, sure)
        held_out = HeldOut(conformal.class_scores(probs[:-1], labels[:-1]), np.zeros(HELD_OUT, np.int64))
        inside += conformal.class_sets(probs[None, -1:], held_out, level)[0, labels[-1]]
    assert inside / REPEATS >= binomial_bounds(level, 1)[0]
    if level > 0.6:  # below, the most probable class, which is always in, holds more
        assert inside / REPEATS <= binomial_bounds(level, level + 1 / (HELD_OUT + 1))[1]


def test_sets_grow_with_the_level_and_hold_the_most_probable_class():
    rng = np.random.default_rng(0)
    labels, probs = labels_and_probs(rng, 500, 1.0)
    part = np.arange(400) % 5
    held_out = HeldOut(conformal.class_scores(probs[:400], labels[:400]), part)
    new = np.stack([probs[400:]] * 5)
    sets = [conformal.class_sets(new, held_out, level) for level in (0.05, 0.5, 0.8, 0.9, 0.99)]
    for small, large in itertools.pairwise(sets):
        assert (large >= small).all()
    assert sets[0][np.arange(100), probs[400:].argmax(1)].all()
    assert sets[-1].sum() > sets[0].sum()


def test_equal_scores_count_as_high():
    held_out = HeldOut(np.full((9, 1), 0.5), np.zeros(9, np.int64))
    assert conformal.class_sets(np.full((1, 1, 2), 0.5), held_out, 0.8).all()


@pytest.mark.parametrize(("level", "needed"), [(0.9, 9), (0.95, 19), (0.99, 99)])
def test_too_few_rows_are_refused(level, needed):
    probs = np.full((1, 1, 2), 0.5)
    enough = HeldOut(np.full((needed, 1), 0.4), np.zeros(needed, np.int64))
    conformal.class_sets(probs, enough, level)
    with pytest.raises(ValueError, match=f"at least {needed} held-out rows, got {needed - 1}"):
        conformal.class_sets(probs, HeldOut(enough.values[1:], enough.part[1:]), level)
