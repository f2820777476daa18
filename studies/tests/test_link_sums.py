"""Features of pairs beside products: sums of two codes, and numbers that are known of nodes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from npn_studies.experiments.pair_features import with_sums, with_traits

from torchnpn import LinkPredictor
from torchnpn.links.features import NORMALISATIONS, joint, products
from torchnpn.moments import Moments

FEATURES = {"products": products, "joint": joint}
RNG = np.random.default_rng(0)
NODES, SIZE = 40, 3
MEAN, VARIANCE = RNG.gamma(2.0, size=(NODES, SIZE)), RNG.gamma(1.0, 0.01, size=(NODES, SIZE))
CODES = Moments(torch.tensor(MEAN), torch.tensor(VARIANCE))
TRAIN = torch.arange(30)
PAIRS = torch.tensor([(0, 1), (5, 35), (39, 2)])


@pytest.mark.parametrize("use", FEATURES)
def test_sums_stand_beside_the_other_features(use):
    without = FEATURES[use](CODES, TRAIN, NORMALISATIONS["cosine"])
    features = with_sums(without, CODES, TRAIN)
    found = features.mean.of(PAIRS).numpy()
    first = without.mean.features
    np.testing.assert_allclose(found[:, :first], without.mean.of(PAIRS))
    values = np.concatenate([MEAN, MEAN**2], 1)
    standard = (values - values[:30].mean(0)) / values[:30].std(0)
    np.testing.assert_allclose(found[:, first:], standard[PAIRS[:, 0]] + standard[PAIRS[:, 1]])
    assert features.variance is without.variance  # sums are certain


def test_a_code_that_never_varies_adds_nothing():
    codes = Moments(torch.ones(NODES, SIZE), CODES.variance.float())
    features = with_sums(FEATURES["products"](codes, TRAIN, NORMALISATIONS["cosine"]), codes, TRAIN).mean.of(PAIRS)
    assert (features[:, 2 * SIZE :] == 0).all()


def test_a_node_that_links_to_all_is_found_by_sums():
    """Products of codes know who is alike; that some link to everyone needs the sums."""
    rng = np.random.default_rng(1)
    popular = rng.random(200) < 0.2
    codes = np.stack([popular + 0.1 * rng.normal(size=200), rng.normal(size=200)], 1)
    links = [(i, j) for i in range(200) for j in range(i) if rng.random() < 0.3 * (popular[i] + popular[j])]
    pairs = rng.integers(0, 200, (4_000, 2))
    want = popular[pairs].sum(1)

    def sums_too(x, nodes, normalise):
        return with_sums(products(x, nodes, normalise), x, nodes)

    correlation = [
        np.corrcoef(
            LinkPredictor(features, negatives=2_000, random_state=0).fit(codes, links).decision_moments(pairs).mean,
            want,
        )[0, 1]
        for features in ("products", sums_too)
    ]
    assert correlation[1] > 0.9 > 0.6 > correlation[0]


def test_traits_stand_beside_as_products_and_sums():
    traits = RNG.gamma(2.0, size=(NODES, 2))
    without = FEATURES["joint"](CODES, TRAIN, NORMALISATIONS["cosine"])
    features = with_traits(without, torch.tensor(traits), TRAIN)
    found = features.mean.of(PAIRS).numpy()
    first = without.mean.features
    np.testing.assert_allclose(found[:, :first], without.mean.of(PAIRS))
    z = (traits - traits[:30].mean(0)) / traits[:30].std(0)
    squares = (z**2 - (z**2)[:30].mean(0)) / (z**2)[:30].std(0)
    one, other = PAIRS.numpy().T
    expected = [z[one] * z[other], z[one] + z[other], squares[one] + squares[other]]
    np.testing.assert_allclose(found[:, first:], np.concatenate(expected, 1))
    assert features.variance is without.variance  # traits are certain


def test_a_trait_that_decides_about_links_is_learnt():
    rng = np.random.default_rng(2)
    old = rng.random(200) < 0.5
    links = [(i, j) for i in range(200) for j in range(i) if old[i] == old[j] and rng.random() < 0.2]
    codes = rng.normal(size=(200, 2))
    settings = {"negatives": 2_000, "random_state": 0}
    pairs = rng.integers(0, 200, (2_000, 2))
    alike = old[pairs[:, 0]] == old[pairs[:, 1]]

    def with_age(x, nodes, normalise):
        return with_traits(products(x, nodes, normalise), torch.tensor(old)[:, None].to(x.mean), nodes)

    known = LinkPredictor(with_age, **settings).fit(codes, links).predict_proba(pairs)[:, 1]
    unknown = LinkPredictor(**settings).fit(codes, links).predict_proba(pairs)[:, 1]
    assert known[alike].min() > 2 * known[~alike].max()
    assert abs(unknown[alike].mean() / unknown[~alike].mean() - 1) < 0.2
