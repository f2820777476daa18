"""Pair features against their formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from torchnpn import Moments
from torchnpn.links.pair_features import CONTROLS, LENGTHS, USES, Products, rooted

NODES, SIZE, TRAIN = 40, 6, 30
ALL = torch.cartesian_prod(torch.arange(NODES), torch.arange(NODES))


def codes(seed: int = 0) -> Moments:
    rng = np.random.default_rng(seed)
    return Moments(torch.tensor(rng.normal(1.0, 2.0, (NODES, SIZE))), torch.tensor(rng.gamma(1.0, 1.0, (NODES, SIZE))))


def features(use: str, length: str, x: Moments):
    """All features (nodes, nodes, features) of a use, and their variances."""
    found = USES[use](x, torch.arange(TRAIN), LENGTHS[length])
    return [None if part is None else part.of(ALL).view(NODES, NODES, -1).numpy() for part in found[:2]]


def outer(values):  # (nodes, n) -> (nodes, nodes, n)
    return values[:, None] * values[None]


def unit(values):
    centred = values - values[:TRAIN].mean(0)
    return np.sqrt(values.shape[1]) * centred / np.linalg.norm(centred, axis=1, keepdims=True)


@pytest.mark.parametrize(("length", "scaled"), [("hadamard", lambda values: values), ("cosine", unit)])
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
        np.testing.assert_allclose(features(use, length, x)[0], value, rtol=1e-9, atol=1e-12, err_msg=use)


def test_predictive_variance_is_that_of_a_product():
    x = codes()
    m, s = x.mean.numpy(), x.variance.numpy()
    expected = (s + m**2)[:, None] * (s + m**2)[None] - outer(m) ** 2
    np.testing.assert_allclose(features("predictive", "hadamard", x)[1], expected, rtol=1e-9)
    centred = m - m[:TRAIN].mean(0)
    factor = SIZE / (centred**2).sum(1, keepdims=True)
    m, s = unit(m), s * factor
    expected = (s + m**2)[:, None] * (s + m**2)[None] - outer(m) ** 2
    np.testing.assert_allclose(features("predictive", "cosine", x)[1], expected, rtol=1e-9)


def together(seed: int = 0) -> Moments:
    """Codes with covariances."""
    root = np.random.default_rng(seed).normal(size=(NODES, SIZE, SIZE))
    return Moments(codes(seed).mean, torch.tensor(root @ root.swapaxes(1, 2)))


@pytest.mark.parametrize(("length", "scaled"), [("hadamard", lambda values: values), ("cosine", unit)])
def test_predictive_covariance_is_that_of_products(length, scaled):
    """E φ_k φ_l - E φ_k E φ_l of independent nodes, whose second moments are C + m mᵀ."""
    x = together()
    m, C = x.mean.numpy(), x.variance.numpy()
    factor = scaled(m) / (m - (0 if length == "hadamard" else m[:TRAIN].mean(0)))
    m, C = scaled(m), C * factor[:, :1, None] ** 2  # one factor for all dimensions of a node
    second = C + m[:, :, None] * m[:, None, :]
    expected = second[:, None] * second[None] - outer(m)[..., :, None] * outer(m)[..., None, :]
    found = USES["predictive"](x, torch.arange(TRAIN), LENGTHS[length])
    k, other = found.entries.T.numpy()
    twice = np.where(k == other, 1, 2)
    values = found.variance.of(ALL).view(NODES, NODES, -1).numpy()
    np.testing.assert_allclose(values, expected[..., k, other] * twice, rtol=1e-8, atol=1e-8)
    assert len(k) == SIZE * (SIZE + 1) // 2


def test_joint_has_sums_of_all_that_is_known_of_a_node():
    x = together()
    m, s = unit(x.mean.numpy()), x.variance.numpy().diagonal(0, 1, 2)
    known = np.hstack([m, m**2, np.log(s + 1e-6 * s[:TRAIN].mean(0))])
    known = (known - known[:TRAIN].mean(0)) / known[:TRAIN].std(0)
    mean, variance = features("joint", "cosine", x)
    np.testing.assert_allclose(mean[..., :SIZE], outer(m), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(mean[..., SIZE:], known[:, None] + known[None], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(variance, features("predictive", "cosine", x)[1], rtol=1e-9)


@pytest.mark.parametrize("use", [use for use in USES if use not in ("predictive", "joint")])
def test_other_uses_see_variances_only(use):
    x = together()
    found = features(use, "cosine", x)
    of_diagonal = features(use, "cosine", Moments(x.mean, x.variance.diagonal(dim1=1, dim2=2)))
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
    mean, variance = features("posterior", "cosine", x)
    np.testing.assert_allclose(mean[..., : 2 * SIZE], features("divergence", "cosine", known)[0])
    np.testing.assert_allclose(variance, features("predictive", "cosine", known)[1])
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
    found = features("expected cosine", "cosine", x)[0][i, j].sum() / SIZE
    assert found == pytest.approx(product / length, abs=0.01)


def test_divergence_is_torchs():
    x = codes()
    s = x.variance + x.mean[:TRAIN].var(0, correction=0)
    s = s + 1e-6 * s[:TRAIN].mean()
    one, other = (torch.distributions.Normal(x.mean.unsqueeze(axis), s.unsqueeze(axis).sqrt()) for axis in (1, 0))
    kl = torch.distributions.kl_divergence
    symmetric = kl(one, other) + kl(other, one)  # (nodes, nodes, n)
    found = features("divergence", "cosine", x)[0]
    np.testing.assert_allclose(found[..., SIZE:], symmetric + 1, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(found[..., :SIZE], features("none", "cosine", x)[0])


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("use", USES)
def test_features_do_not_know_which_node_is_first(use, length):
    for part in features(use, length, codes()):
        if part is not None:
            np.testing.assert_allclose(part, part.swapaxes(0, 1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("use", USES)
def test_certain_and_constant_codes_have_finite_features(use):
    mean = torch.ones(NODES, SIZE, dtype=torch.float64)
    mean[1, 0] = 2.0
    for part in features(use, "cosine", Moments(mean, torch.zeros_like(mean))):
        assert part is None or np.isfinite(part).all()


@pytest.mark.parametrize("use", USES)
def test_weighted_sum_is_one_product(use):
    products = USES[use](codes(), torch.arange(TRAIN), LENGTHS["cosine"]).mean
    weight = torch.linspace(-1, 1, products.features, dtype=torch.float64)
    rows, columns = torch.tensor([5, 0, 7]), torch.tensor([1, 39])
    expected = products.of(torch.cartesian_prod(rows, columns)) @ weight
    torch.testing.assert_close(products.weighted(rows, columns, weight), expected.view(3, 2))


def test_features_side_by_side():
    one, other = Products.hadamard(codes(0).mean), Products.hadamard(codes(1).mean[:, :2])
    both = one.beside(other).of(ALL)
    torch.testing.assert_close(both, torch.cat([one.of(ALL), other.of(ALL)], 1))


@pytest.mark.parametrize("control", CONTROLS)
def test_controls_know_the_mean_only(control):
    x = codes()
    shuffled = Moments(x.mean, x.variance[torch.randperm(NODES, generator=torch.Generator().manual_seed(0))])
    one, other = (CONTROLS[control](given) for given in (x, shuffled))
    torch.testing.assert_close(one.variance, other.variance)
    torch.testing.assert_close(one.variance.mean(0), x.variance.mean(0))


@pytest.mark.parametrize("control", CONTROLS)
def test_controls_keep_mean_correlations(control):
    x = together()
    found = CONTROLS[control](x)
    variance = found.variance.diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(
        variance, CONTROLS[control](Moments(x.mean, x.variance.diagonal(dim1=1, dim2=2))).variance
    )
    mean = x.variance.mean(0)
    size = mean.diagonal().sqrt()
    correlation = found.variance / (variance[:, :, None] * variance[:, None, :]).sqrt()
    torch.testing.assert_close(correlation, (mean / torch.outer(size, size)).expand_as(correlation))


def test_roots_of_codes_that_err_together():
    """To first order, against small draws."""
    rng = np.random.default_rng(0)
    mean, covariance = np.array([2.0, 0.5]), 1e-4 * np.array([[1.0, 0.6], [0.6, 0.5]])
    draws = np.sqrt(rng.multivariate_normal(mean, covariance, 400_000))
    found = rooted(Moments(torch.tensor(mean)[None], torch.tensor(covariance)[None]))
    np.testing.assert_allclose(found.variance[0], np.cov(draws.T), rtol=0.02)
    np.testing.assert_allclose(found.mean[0], draws.mean(0), rtol=1e-4)
