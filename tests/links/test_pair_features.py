"""Pair features against their formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.link_codes import (
    ALL,
    NODES,
    SIZE,
    TRAIN,
    assert_finite_where_certain,
    assert_symmetric,
    codes,
    features,
    joint_codes,
    outer,
    unit,
)

from torchnpn import Moments
from torchnpn.links import Products
from torchnpn.links.features import NORMALISATIONS, joint, products, uncertain_products

MAPS = {
    "means": lambda x, *options: products(Moments(x.mean), *options),
    "products": products,
    "uncertain products": uncertain_products,
    "joint": joint,
}


@pytest.mark.parametrize(("length", "scaled"), [("none", lambda values: values), ("cosine", unit)])
def test_features_are_their_formulas(length, scaled):
    x = codes()
    m, s = x.mean.numpy(), x.variance.numpy()
    logs = np.log(s + 1e-6 * s[:TRAIN].mean(0))
    expected = {
        "means": outer(scaled(m)),
        "products": outer(np.hstack([scaled(m), scaled(logs)])),
        "uncertain products": outer(scaled(m)),
    }
    for use, value in expected.items():
        np.testing.assert_allclose(features(MAPS[use], length, x)[0], value, rtol=1e-9, atol=1e-12, err_msg=use)


def test_variance_is_that_of_a_product():
    x = codes()
    m, s = x.mean.numpy(), x.variance.numpy()
    expected = (s + m**2)[:, None] * (s + m**2)[None] - outer(m) ** 2
    np.testing.assert_allclose(features(MAPS["uncertain products"], "none", x)[1], expected, rtol=1e-9)
    centred = m - m[:TRAIN].mean(0)
    factor = SIZE / (centred**2).sum(1, keepdims=True)
    m, s = unit(m), s * factor
    expected = (s + m**2)[:, None] * (s + m**2)[None] - outer(m) ** 2
    np.testing.assert_allclose(features(MAPS["uncertain products"], "cosine", x)[1], expected, rtol=1e-9)


@pytest.mark.parametrize(("length", "scaled"), [("none", lambda values: values), ("cosine", unit)])
def test_covariance_is_that_of_products(length, scaled):
    """E φ_k φ_l - E φ_k E φ_l of independent nodes, whose second moments are C + m mᵀ."""
    x = joint_codes()
    m, C = x.mean.numpy(), x.covariance.numpy()
    factor = scaled(m) / (m - (0 if length == "none" else m[:TRAIN].mean(0)))
    m, C = scaled(m), C * factor[:, :1, None] ** 2  # one factor for all dimensions of a node
    second = C + m[:, :, None] * m[:, None, :]
    expected = second[:, None] * second[None] - outer(m)[..., :, None] * outer(m)[..., None, :]
    found = MAPS["uncertain products"](x, torch.arange(TRAIN), NORMALISATIONS[length])
    k, other = found.entries.T.numpy()
    twice = np.where(k == other, 1, 2)
    values = found.variance.of(ALL).view(NODES, NODES, -1).numpy()
    np.testing.assert_allclose(values, expected[..., k, other] * twice, rtol=1e-8, atol=1e-8)
    assert len(k) == SIZE * (SIZE + 1) // 2


def test_joint_has_sums_of_all_that_is_known_of_a_node():
    x = joint_codes()
    m, s = unit(x.mean.numpy()), x.variance.numpy()
    known = np.hstack([m, m**2, np.log(s + 1e-6 * s[:TRAIN].mean(0))])
    known = (known - known[:TRAIN].mean(0)) / known[:TRAIN].std(0)
    mean, variance = features(MAPS["joint"], "cosine", x)
    np.testing.assert_allclose(mean[..., :SIZE], outer(m), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(mean[..., SIZE:], known[:, None] + known[None], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(variance, features(MAPS["uncertain products"], "cosine", x)[1], rtol=1e-9)


def test_products_use_variances_only():
    x = joint_codes()
    found, _ = features(MAPS["products"], "cosine", x)
    np.testing.assert_allclose(found, features(MAPS["products"], "cosine", Moments(x.mean, x.variance))[0], rtol=1e-12)


@pytest.mark.parametrize("length", NORMALISATIONS)
@pytest.mark.parametrize("use", MAPS)
def test_features_do_not_know_which_node_is_first(use, length):
    assert_symmetric(MAPS[use], length)


@pytest.mark.parametrize("use", MAPS)
def test_certain_and_constant_codes_have_finite_features(use):
    assert_finite_where_certain(MAPS[use])


@pytest.mark.parametrize("use", MAPS)
def test_weighted_sum_is_one_product(use):
    made = MAPS[use](codes(), torch.arange(TRAIN), NORMALISATIONS["cosine"]).mean
    weight = torch.linspace(-1, 1, made.features, dtype=torch.float64)
    rows, columns = torch.tensor([5, 0, 7]), torch.tensor([1, 39])
    expected = made.of(torch.cartesian_prod(rows, columns)) @ weight
    torch.testing.assert_close(made.weighted(rows, columns, weight), expected.view(3, 2))


def test_features_side_by_side():
    one, other = Products.hadamard(codes(0).mean), Products.hadamard(codes(1).mean[:, :2])
    both = one.beside(other).of(ALL)
    torch.testing.assert_close(both, torch.cat([one.of(ALL), other.of(ALL)], 1))
