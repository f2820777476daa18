"""Uses of the variance that are compared in `links`, and their controls, against their formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from npn_studies.experiments.pair_features import CONTROLS, USES, square_root
from support.link_codes import (
    NODES,
    SIZE,
    TRAIN,
    assert_finite_where_certain,
    assert_symmetric,
    codes,
    features,
    joint_codes,
    outer,
    rank_and_auc,
    unit,
)

from torchnpn import LinkPredictor, Moments
from torchnpn.links.features import NORMALISATIONS
from torchnpn.moments import JointMoments


@pytest.mark.parametrize(("length", "scaled"), [("none", lambda values: values), ("cosine", unit)])
def test_features_are_their_formulas(length, scaled):
    x = codes()
    m, s = x.mean.numpy(), x.variance.numpy()
    center, t = m[:TRAIN].mean(0), m[:TRAIN].var(0)
    logs = np.log(s + 1e-6 * s[:TRAIN].mean(0))
    shrunk = center + (m - center) * t / (t + s)
    expected = {
        "none": outer(scaled(m)),
        "features": outer(np.hstack([scaled(m), scaled(logs)])),
        "predictive": outer(scaled(m)),
        "shrunk": outer(scaled(shrunk)),
        "weighted": outer(scaled(center + (m - center) / np.sqrt(1 + s / t))),
    }
    for use, value in expected.items():
        np.testing.assert_allclose(features(USES[use], length, x)[0], value, rtol=1e-9, atol=1e-12, err_msg=use)


@pytest.mark.parametrize("use", [use for use in USES if use not in ("predictive", "joint")])
def test_other_uses_see_variances_only(use):
    x = joint_codes()
    found = features(USES[use], "cosine", x)
    of_diagonal = features(USES[use], "cosine", Moments(x.mean, x.variance))
    assert [part is None for part in found] == [part is None for part in of_diagonal]
    for one, other in zip(found, of_diagonal, strict=True):
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_posterior_is_that_of_a_code_seen_with_noise():
    x = codes()
    m, s = x.mean.numpy(), x.variance.numpy()
    center, t = m[:TRAIN].mean(0), m[:TRAIN].var(0)
    precision = 1 / t + 1 / s
    known = Moments(*map(torch.tensor, ((center / t + m / s) / precision, 1 / precision)))
    mean, variance = features(USES["posterior"], "cosine", x)
    np.testing.assert_allclose(mean[..., : 2 * SIZE], features(USES["divergence"], "cosine", known)[0])
    np.testing.assert_allclose(variance, features(USES["predictive"], "cosine", known)[1])
    logs = np.log(s.mean(1) + 1e-6 * s[:TRAIN].mean())
    standard = (logs - logs[:TRAIN].mean()) / logs[:TRAIN].std()
    np.testing.assert_allclose(mean[..., -1], standard[:, None] + standard[None])


def test_sum_of_expected_cosine_is_the_cosine_of_draws():
    x = codes()
    m = x.mean.numpy() - x.mean.numpy()[:TRAIN].mean(0)
    draws = m + np.sqrt(x.variance.numpy()) * np.random.default_rng(0).normal(size=(20_000, NODES, SIZE))
    i, j = 3, 35
    product = (draws[:, i] * draws[:, j]).sum(1).mean()
    length = np.sqrt((draws[:, i] ** 2).sum(1).mean() * (draws[:, j] ** 2).sum(1).mean())
    found = features(USES["expected cosine"], "cosine", x)[0][i, j].sum() / SIZE
    assert found == pytest.approx(product / length, abs=0.01)


def test_divergence_is_torchs():
    x = codes()
    s = x.variance + x.mean[:TRAIN].var(0, correction=0)
    s = s + 1e-6 * s[:TRAIN].mean()
    one, other = (torch.distributions.Normal(x.mean.unsqueeze(axis), s.unsqueeze(axis).sqrt()) for axis in (1, 0))
    kl = torch.distributions.kl_divergence
    symmetric = kl(one, other) + kl(other, one)  # (nodes, nodes, n)
    found = features(USES["divergence"], "cosine", x)[0]
    np.testing.assert_allclose(found[..., SIZE:], symmetric + 1, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(found[..., :SIZE], features(USES["none"], "cosine", x)[0])


@pytest.mark.parametrize("length", NORMALISATIONS)
@pytest.mark.parametrize("use", USES)
def test_features_do_not_know_which_node_is_first(use, length):
    assert_symmetric(USES[use], length)


@pytest.mark.parametrize("use", USES)
def test_certain_and_constant_codes_have_finite_features(use):
    assert_finite_where_certain(USES[use])


@pytest.mark.parametrize("control", CONTROLS)
def test_controls_know_the_mean_only(control):
    x = codes()
    shuffled = Moments(x.mean, x.variance[torch.randperm(NODES, generator=torch.Generator().manual_seed(0))])
    one, other = (CONTROLS[control](given) for given in (x, shuffled))
    torch.testing.assert_close(one.variance, other.variance)
    torch.testing.assert_close(one.variance.mean(0), x.variance.mean(0))


@pytest.mark.parametrize("control", CONTROLS)
def test_controls_keep_mean_correlations(control):
    x = joint_codes()
    found = CONTROLS[control](x)
    variance = found.variance
    torch.testing.assert_close(variance, CONTROLS[control](Moments(x.mean, x.variance)).variance)
    mean = x.covariance.mean(0)
    size = mean.diagonal().sqrt()
    correlation = found.covariance / (variance[:, :, None] * variance[:, None, :]).sqrt()
    torch.testing.assert_close(correlation, (mean / torch.outer(size, size)).expand_as(correlation))


def test_square_roots_of_correlated_codes():
    """To first order, against small draws."""
    rng = np.random.default_rng(0)
    mean, covariance = np.array([2.0, 0.5]), 1e-4 * np.array([[1.0, 0.6], [0.6, 0.5]])
    draws = np.sqrt(rng.multivariate_normal(mean, covariance, 400_000))
    found = square_root(JointMoments(torch.tensor(mean)[None], torch.tensor(covariance)[None]))
    np.testing.assert_allclose(found.covariance[0], np.cov(draws.T), rtol=0.02)
    np.testing.assert_allclose(found.mean[0], draws.mean(0), rtol=1e-4)


def test_roots_have_the_moments_of_roots():
    """Against draws of gamma variables with these moments; to first order, so the spread must be small."""
    rng = np.random.default_rng(0)
    mean, variance = rng.gamma(2.0, size=(40, 3)) + 1, rng.gamma(1.0, 0.001, size=(40, 3))
    m, s = square_root(Moments(torch.tensor(mean), torch.tensor(variance)))
    shape, scale = mean**2 / variance, variance / mean
    drawn = np.sqrt(rng.gamma(shape, scale, size=(20_000, 40, 3)))
    np.testing.assert_allclose(m, drawn.mean(0), rtol=5e-3)
    np.testing.assert_allclose(s, drawn.var(0), rtol=0.08)


def test_the_root_of_nothing_is_nothing():
    m, s = square_root(Moments(torch.zeros(2), torch.tensor([0.0, 1.0])))
    assert m.tolist() == s.tolist() == [0.0, 0.0]
    assert square_root(Moments(torch.ones(2))).variance is None


def test_posterior_finds_more_where_codes_are_seen_with_noise():
    """Links come from codes z ~ N(0, 1), and what is known of each is z + N(0, s): the rank falls by a sixth."""
    rng = np.random.default_rng(0)
    count, train, test = 400, np.arange(300), np.arange(300, 400)
    z, s = rng.normal(size=(count, 8)), np.exp(rng.normal(-0.5, 1.5, size=(count, 8)))
    m = rng.normal(z, np.sqrt(s))
    chance = 1 / (1 + np.exp(6 - 3 / np.sqrt(8) * z @ z.T))
    links = np.argwhere(np.triu(rng.random((count, count)) < chance, 1))

    def rank(use, variance):
        model = LinkPredictor(USES[use], negatives=4_000, random_state=0).fit((m, variance), links, nodes=train)
        return rank_and_auc(model, links, test, train)[0]

    none, posterior = rank("none", s), rank("posterior", s)
    assert posterior < 0.88 * none and posterior < rank("shrunk", s)  # 84.7 of 99.1
    assert rank("posterior", s[rng.permutation(count)]) > none  # the variances of other nodes harm
