"""The logistic model against scikit-learn, scores against single pairs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from scipy.special import expit
from scipy.stats import chisquare
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from support.link_codes import rank_and_auc

from torchnpn import BayesianLogisticRegression, Moments
from torchnpn.links import LinkPredictor, predictor
from torchnpn.links.features import FEATURES, NORMALISATIONS, uncertain_products
from torchnpn.links.pairs import negative_pairs
from torchnpn.logistic.posterior import Rows, fit_posterior
from torchnpn.moments import JointMoments

MAPS = {**{name: name for name in FEATURES}, "a function": uncertain_products}


def communities(nodes: int = 120, groups: int = 4, seed: int = 0):
    """Codes near the centre of a node's group, variances without meaning, links within groups mostly."""
    rng = np.random.default_rng(seed)
    group = np.arange(nodes) % groups
    mean = rng.normal(size=(groups, 8))[group] + 0.5 * rng.normal(size=(nodes, 8))
    pairs = np.argwhere(np.triu(np.ones((nodes, nodes)), 1))
    chance = np.where(group[pairs[:, 0]] == group[pairs[:, 1]], 0.3, 0.01)
    links = pairs[rng.random(len(pairs)) < chance]
    return Moments(torch.tensor(mean), torch.tensor(rng.gamma(2.0, 0.1, mean.shape))), links


# Pairs without a link


@pytest.mark.parametrize("nodes", [5, 6])
def test_negatives_are_uniform(nodes):
    links = np.array([[0, 1], [2, 4]])
    drawn = Counter()
    rng = np.random.default_rng(0)
    for _ in range(3_000):
        pairs = negative_pairs(nodes, links, 3, rng)
        assert len(pairs) == 3 and len(np.unique(pairs, axis=0)) == 3
        drawn.update(map(tuple, pairs.tolist()))
    expected = {(i, j) for i in range(nodes) for j in range(i + 1, nodes)} - {(0, 1), (2, 4)}
    assert set(drawn) == expected
    assert chisquare(list(drawn.values())).pvalue > 1e-3


def test_number_of_negatives():
    links, rng = np.array([[0, 1]]), np.random.default_rng(0)
    assert len(negative_pairs(1_000, links, 0.001, rng)) == 500  # of 499,499, rounded up
    assert len(negative_pairs(4, links, 100, rng)) == 5  # no more than there are


# The logistic model


def problem(rows: int = 400, size: int = 5):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, size))
    y = rng.random(rows) < expit(x @ [1.0, -2.0, 0.0, 0.5, 0.0] - 0.5)
    return x, y


def fitted_posterior(x, y, precision):
    """As a LinkPredictor has it."""
    labels = torch.tensor(y).double()
    rows = Rows(torch.tensor(x), None, labels, torch.ones_like(labels), intercept=True)
    return fit_posterior(rows, precision, first_precision=1.0, max_iter=30, precision_tol=1e-2)


def test_posterior_with_given_precision_is_scikit_learns():
    x, y = problem()
    found = fitted_posterior(x, y, 2.0)
    other = LogisticRegression(C=0.5, tol=1e-10, max_iter=1000).fit(x, y)
    np.testing.assert_allclose(found.mean, np.append(other.coef_, other.intercept_), atol=1e-5)
    p = other.predict_proba(x)[:, 1]
    z = np.column_stack([x, np.ones(len(x))])
    curvature = (z.T * p * (1 - p)) @ z + np.diag([2.0] * 5 + [1e-6])
    np.testing.assert_allclose(found.covariance, np.linalg.inv(curvature), rtol=1e-4, atol=1e-8)


def test_learnt_precision_is_that_of_the_other_estimator():
    x, y = problem()
    found = fitted_posterior(x, y, "evidence")
    other = BayesianLogisticRegression().fit(x, y)
    assert float(found.precision[0]) == pytest.approx(other.precision_[0, 0], rel=0.02)
    np.testing.assert_allclose(found.mean[:-1], other.coef_[0], rtol=2e-3, atol=1e-3)


def test_separable_pairs_do_no_harm():
    x = torch.linspace(-1, 1, 50)[:, None]
    found = fitted_posterior(x.numpy(), (x[:, 0] > 0).numpy(), 1e-3)
    assert torch.isfinite(found.mean).all() and found.mean[0] > 5


def test_weights_are_those_of_a_regression_on_products():
    x, links = communities()
    model = LinkPredictor(normalisation="none", negatives=10**6, precision=1e-6).fit(x.mean, links)
    pairs = np.argwhere(np.triu(np.ones((120, 120)), 1))
    linked = np.isin(pairs @ [120, 1], links @ [120, 1])
    z = (x.mean[pairs[:, 0]] * x.mean[pairs[:, 1]]).numpy()
    other = LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000).fit(z, linked)
    np.testing.assert_allclose(model.coef_, other.coef_[0], rtol=1e-3, atol=1e-4)
    assert model.intercept_ == pytest.approx(other.intercept_[0], abs=1e-3)
    assert model.pairs_ == (len(links), len(pairs) - len(links))


# The estimator


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@pytest.mark.parametrize("features", MAPS.values(), ids=MAPS)
def test_scores_are_the_log_odds_of_pairs(features, normalisation, monkeypatch):
    x, links = communities()
    model = LinkPredictor(features, normalisation, negatives=500, random_state=0).fit(x, links, nodes=np.arange(90))
    rows, columns = [100, 3, 119], [0, 50, 7, 89]
    every = [(i, j) for i in rows for j in columns]
    expected = model.decision_moments(every).mean
    if features in ("joint", uncertain_products):  # without what the variance of the weights adds
        of_codes = model.features_.variance.of(torch.tensor(every)).numpy()
        weights = (model.weights_.mean**2 + model.weights_.covariance.diagonal())[: of_codes.shape[1]].numpy()
        expected = expected / np.sqrt(1 + np.pi / 8 * of_codes @ weights)
    found = model.scores(rows, columns)
    np.testing.assert_allclose(found.ravel(), expected, rtol=2e-4, atol=2e-4)
    monkeypatch.setattr(predictor, "_ELEMENTS", 8)  # two rows at a time
    blocks = list(model.score_blocks(rows, columns))
    assert [tuple(block.shape) for block in blocks] == [(2, 4), (1, 4)]
    np.testing.assert_allclose(torch.cat(blocks).numpy(), found, rtol=1e-5, atol=1e-5)


def test_probability_is_an_average_over_weights_and_codes():
    x, links = communities()
    model = LinkPredictor(uncertain_products, "none", negatives=500, random_state=0).fit(x, links)
    i, j, rng = 0, 4, np.random.default_rng(0)
    w = rng.multivariate_normal(model.weights_.mean.numpy(), model.weights_.covariance.numpy(), 100_000)
    one, other = (
        x.mean[node].numpy() + np.sqrt(x.variance[node].numpy()) * rng.normal(size=(100_000, 8)) for node in (i, j)
    )
    drawn = expit((w[:, :-1] * one * other).sum(1) + w[:, -1]).mean()
    probs = model.predict_proba([(i, j)])
    assert probs[0, 1] == pytest.approx(drawn, abs=0.02)  # the log-odds are taken to be Gaussian
    assert probs.sum() == pytest.approx(1.0)


def test_independent_dimensions_are_a_case_of_covariances():
    x, links = communities()
    diagonal = JointMoments(x.mean, torch.diag_embed(x.variance))
    for features in MAPS.values():
        one, other = (
            LinkPredictor(features, negatives=500, random_state=0).fit(given, links) for given in (x, diagonal)
        )
        np.testing.assert_allclose(
            one.scores([0, 7], range(120)), other.scores([0, 7], range(120)), rtol=1e-3, atol=1e-4
        )


def test_log_odds_know_that_dimensions_are_correlated():
    """The variance of a score against draws of both codes."""
    x, links = communities()
    root = 0.3 * np.random.default_rng(1).normal(size=(120, 8, 8))
    covariance = root @ root.swapaxes(1, 2)
    model = LinkPredictor(uncertain_products, "none", negatives=500, random_state=0)
    model.fit((x.mean, covariance), links)
    i, j, rng = 0, 4, np.random.default_rng(0)
    one, other = (rng.multivariate_normal(x.mean[node].numpy(), covariance[node], 200_000) for node in (i, j))
    w = rng.multivariate_normal(model.weights_.mean.numpy(), model.weights_.covariance.numpy(), 200_000)
    drawn = (w[:, :-1] * one * other).sum(1) + w[:, -1]
    found = model.decision_moments([(i, j)])
    assert found.mean[0] == pytest.approx(drawn.mean(), abs=0.03)
    assert found.variance[0] == pytest.approx(drawn.var(), rel=0.03)
    alone = LinkPredictor(uncertain_products, "none", negatives=500, random_state=0)
    alone.fit((x.mean, covariance.diagonal(0, 1, 2)), links)
    assert abs(alone.decision_moments([(i, j)]).variance[0] / drawn.var() - 1) > 0.05


def test_correlated_codes_link_better_by_their_covariances():
    """Noise along one direction, large and another one for each node: by variances alone it looks like any noise."""
    rng = np.random.default_rng(0)
    z, along = rng.normal(size=(500, 6)), rng.normal(size=(500, 6))
    along *= 2.5 * rng.random((500, 1)) / np.linalg.norm(along, axis=1, keepdims=True)
    seen = z + along * rng.normal(size=(500, 1))
    covariance = along[:, :, None] * along[:, None, :]
    links = np.argwhere(np.triu(rng.random((500, 500)) < expit(1.5 * z @ z.T - 5), 1))
    train, test = np.arange(400), np.arange(400, 500)

    def rank(second) -> float:
        model = LinkPredictor("joint", negatives=5_000, random_state=0).fit((seen, second), links, nodes=train)
        return rank_and_auc(model, links, test, train)[0]

    together, alone = rank(covariance), rank(covariance.diagonal(0, 1, 2))
    assert together < 0.99 * alone < 0.99 * rank(np.zeros((500, 6))), (together, alone)


def test_a_pair_of_uncertain_codes_ranks_below_one_of_certain_codes():
    """Of two pairs with equal means the surer one is first, if a link is likely, and last if it is not."""
    x, links = communities()
    x.mean[116:] = x.mean[0]  # of the community of node 0
    x.variance[116:118], x.variance[118:] = 1e-4, 4.0
    model = LinkPredictor(uncertain_products, negatives=500, random_state=0).fit(x, links, nodes=np.arange(116))
    near, far = model.scores([0, 1], [117, 119])
    assert near[0] > near[1] > 0 > far[1] > far[0]


@pytest.mark.parametrize("features", MAPS.values(), ids=MAPS)
@pytest.mark.parametrize("variance", [0.0, 2.0])
def test_codes_that_are_all_alike_say_nothing(features, variance):
    _, links = communities()
    x = Moments(torch.ones(120, 3), torch.full((120, 3), variance))
    model = LinkPredictor(features, negatives=500, random_state=0).fit(x, links)
    np.testing.assert_allclose(model.scores([0, 7], [1, 2, 119]), model.intercept_, atol=1e-6)


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@pytest.mark.parametrize("features", MAPS.values(), ids=MAPS)
def test_finds_the_links_of_communities(features, normalisation):
    x, links = communities()
    train, test = np.split(np.random.default_rng(0).permutation(120), [96])
    model = LinkPredictor(features, normalisation, negatives=1_000, random_state=0).fit(x, links, train)
    assert rank_and_auc(model, links, test, train)[1] > 0.8  # 0.847 to 0.861; knowing the communities gives 0.871


def test_learns_from_training_nodes_only():
    x, links = communities()
    train = np.arange(90)
    model = LinkPredictor(negatives=300, random_state=0)
    changed = Moments(x.mean.clone(), x.variance.clone())
    changed.mean[90:] += 5.0
    others = links[(links < 90).all(1)]
    np.testing.assert_allclose(
        model.fit(x, links, train).coef_, clone(model).fit(changed, others[:, ::-1], train[::-1]).coef_, rtol=1e-6
    )


def test_takes_arrays_pairs_and_frames_of_numbers():
    x, links = communities()
    model = LinkPredictor(negatives=300, random_state=0)
    arrays = (x.mean.numpy(), x.variance.numpy())
    np.testing.assert_allclose(model.fit(x, links).coef_, clone(model).fit(arrays, links.tolist()).coef_, rtol=1e-6)


def test_settings_are_scikit_learns():
    model = LinkPredictor("joint", "none", negatives=7, precision=2.0, device="cpu", random_state=3)
    assert clone(model).get_params() == model.get_params()
    assert model.get_params()["features"] == "joint"


def test_a_node_without_links_is_no_problem():
    x, links = communities()
    links = links[(links != 5).all(1)]
    model = LinkPredictor(negatives=300, random_state=0).fit(x, links)
    assert np.isfinite(model.scores([5], range(120))).all()


GOOD, VARIED = np.ones((4, 2)), np.eye(4, 2)


def with_one(covariance) -> np.ndarray:
    """Covariances of four nodes, of which one is given."""
    return np.stack([np.eye(2), np.zeros((2, 2)), np.array(covariance), np.eye(2)])


@pytest.mark.parametrize(
    ("settings", "given", "message"),
    [
        ({"normalisation": "sum"}, {}, 'normalisation expects one of "cosine", "none"'),
        ({"features": "all"}, {}, 'features expects one of "products", "joint" or a function'),
        ({"features": None}, {}, "features expects"),
        ({"features": "joint"}, {}, "expects codes with variances"),
        ({"negatives": 0}, {}, "negatives expects"),
        ({"negatives": 1.5}, {}, "negatives expects"),
        ({"precision": "ard"}, {}, "precision expects"),
        ({}, {"codes": np.empty((0, 2))}, "codes expects means"),
        ({}, {"codes": (np.ones((4, 2)),) * 3}, "a pair of means and variances, got a tuple of 3"),
        ({}, {"codes": [[1.0], [1.0, 2.0]]}, "codes expects numbers"),
        ({}, {"codes": torch.ones(4, 2, device="meta")}, "expects a dense tensor, with its values"),
        ({}, {"codes": torch.ones(4, 2).to_sparse()}, "expects a dense tensor"),
        ({}, {"codes": torch.ones(4, 2, dtype=torch.complex64)}, "codes expects real numbers"),
        ({}, {"links": None}, "links expects numbers of nodes, got None"),
        ({}, {"links": [(0, 1), (2,)]}, "links expects numbers of nodes"),
        ({}, {"links": [(0, 10**30)]}, "links expects whole numbers from 0 to 3, got 0"),
        ({}, {"nodes": 3}, "nodes expects numbers of nodes, got 3"),
        ({}, {"nodes": [[0, 1]]}, "nodes expects a list of nodes, got shape"),
        ({}, {"codes": np.empty((4, 0))}, "codes expects means"),
        ({}, {"codes": np.where(np.eye(4, 2) > 0, np.nan, 1.0)}, "finite means, got others at node 0"),
        ({}, {"codes": (GOOD, -GOOD)}, "finite variances"),
        ({}, {"codes": (GOOD, np.ones(4))}, "finite variances"),
        ({}, {"codes": (GOOD, np.ones((4, 3, 3)))}, "or covariances with their last dimension twice"),
        ({}, {"codes": (GOOD, with_one([[1.0, np.nan], [np.nan, 1.0]]))}, "covariances that are finite.* at node 2"),
        ({}, {"codes": (GOOD, with_one([[1.0, 0.5], [0.1, 1.0]]))}, "symmetric.* at node 2"),
        ({}, {"codes": (GOOD, with_one([[1.0, 2.0], [2.0, 1.0]]))}, "without eigenvalues below 0, .* at node 2"),
        ({}, {"codes": (GOOD, with_one([[-1.0, 0.0], [0.0, 1.0]]))}, "without eigenvalues below 0, .* at node 2"),
        ({"normalisation": "none"}, {"codes": 1e20 * GOOD}, "products float32 can hold, got some of 2e"),
        ({"features": "joint"}, {"codes": (VARIED, 1e30 * with_one(np.eye(2)))}, "their variances by its square"),
        ({}, {"links": [[0, 4]]}, "links expects whole numbers from 0 to 3, got .*4"),
        ({}, {"links": [[0.5, 1]]}, "links expects whole numbers"),
        ({}, {"links": [0, 1]}, "links expects pairs of nodes"),
        ({}, {"links": np.empty((0, 2), int)}, "links expects at least one"),
        ({}, {"links": [[1, 1]]}, "got 0 with"),
        ({}, {"nodes": [0, 1]}, "0 without"),
        ({}, {"nodes": [2, 3]}, "got 0 with"),
        ({}, {"nodes": [-1]}, "nodes expects"),
        ({}, {"codes": [["a"], ["b"], ["c"], ["d"]]}, "codes expects real numbers, got values of type <U1"),
    ],
)
def test_what_cannot_be_learnt_from_is_refused(settings, given, message):
    model = LinkPredictor(**{"negatives": 2, **settings})
    with pytest.raises(ValueError, match=message):
        model.fit(**{"codes": GOOD, "links": [[0, 1]], **given})


@pytest.mark.parametrize("pairs", [[[0, 120]], [[-1, 0]], [[0, 1, 2]], []])
def test_unknown_pairs_are_refused(pairs):
    x, links = communities()
    model = LinkPredictor(negatives=300, random_state=0).fit(x, links)
    with pytest.raises(ValueError, match="pairs expects"):
        model.predict_proba(pairs)
