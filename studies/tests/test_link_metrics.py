"""Link rank and AUC against loops over candidates, scipy's ranks and scikit-learn's area under the curve."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from npn_studies.experiments import link_metrics
from npn_studies.experiments.link_metrics import link_auc, link_positions, link_quality, link_rank
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score


def made(rows: int, columns: int, seed: int, levels: int | None = None, share: float = 0.1):
    """Scores, with ties if there are few levels, links (every row that is no multiple of 5 may have some), left out."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(rows, columns))
    if levels is not None:
        scores = np.round(scores * levels) / levels
    chance = rng.random((rows, columns))
    linked = (chance < share) & (np.arange(rows)[:, None] % 5 > 0)
    linked[1, 0] = True
    return scores, np.argwhere(linked), np.argwhere(chance > 1 - share)


def by_hand(scores, links, left_out):
    """A loop over rows; the candidates are ranked by scipy, the area is scikit-learn's."""
    ranks, aucs = [], []
    for row in range(len(scores)):
        candidate = np.setdiff1d(np.arange(scores.shape[1]), left_out[left_out[:, 0] == row, 1])
        true = np.isin(candidate, links[links[:, 0] == row, 1])
        if true.any():
            ranks.append(rankdata(-scores[row, candidate])[true].mean())
            aucs.append(roc_auc_score(true, scores[row, candidate]))
    return np.array(ranks), np.array(aucs)


CASES = {"plain": (12, 30, None), "ties": (12, 30, 1), "one column more": (3, 7, 2), "wide": (6, 400, None)}


@pytest.mark.parametrize("some_left_out", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_quality_is_what_loops_find(case, some_left_out):
    rows, columns, levels = CASES[case]
    scores, links, left_out = made(rows, columns, seed=len(case), levels=levels)
    left_out = left_out if some_left_out else np.empty((0, 2), int)
    ranks, aucs = by_hand(scores, links, left_out)
    found = link_quality(scores, links[::-1], left_out)  # in any order
    np.testing.assert_array_equal(found.nodes, np.unique(links[:, 0]))
    np.testing.assert_allclose(found.ranks, ranks, rtol=1e-12)
    np.testing.assert_allclose(found.aucs, aucs, rtol=1e-12)
    assert link_rank(scores, links, left_out) == pytest.approx(ranks.mean())
    assert link_auc(scores, links, left_out) == pytest.approx(aucs.mean())


@pytest.mark.parametrize("size", [1, 4, 100])
def test_blocks_of_rows_are_the_whole_matrix(size, monkeypatch):
    scores, links, left_out = made(13, 40, seed=3, levels=2)
    whole = link_quality(scores, links, left_out)
    monkeypatch.setattr(link_metrics, "_ELEMENTS", 100)  # two links at a time
    blocks = (torch.from_numpy(scores[start : start + size]) for start in range(0, 13, size))
    parts = link_quality(blocks, links, left_out)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_perfect_and_worst_scores():
    scores = np.tile(np.arange(10.0), (2, 1))
    assert link_rank(scores, [[0, 9], [1, 9], [1, 8]]) == (1 + 1.5) / 2
    assert link_auc(scores, [[0, 9], [1, 9], [1, 8]]) == 1.0
    assert link_rank(scores, [[0, 0]]) == 10
    assert link_auc(scores, [[0, 0]]) == 0.0
    assert link_rank(np.zeros((1, 10)), [[0, 3]]) == 5.5  # chance


def test_node_linked_to_all_candidates_has_a_rank_and_no_auc():
    found = link_quality(np.arange(6.0).reshape(2, 3), [[0, 0], [0, 1], [0, 2], [1, 2]])
    assert found.rank == (2 + 1) / 2
    assert np.isnan(found.aucs[0]) and found.auc == 1.0
    assert np.isnan(link_auc(np.ones((1, 1)), [[0, 0]]))


def test_scores_are_not_changed():
    scores, links, left_out = made(4, 6, seed=1)
    before = scores.copy()
    link_quality(scores, links, left_out)
    np.testing.assert_array_equal(scores, before)


@pytest.mark.parametrize(
    ("links", "left_out", "message"),
    [
        (np.empty((0, 2)), None, "at least one link"),
        ([[0, 6]], None, "columns from 0 to 5"),
        ([[4, 0]], None, "rows from 0 to 3"),
        ([[0, -1]], None, "columns from 0"),
        ([[0, 1], [0, 1]], None, "each pair once"),
        ([[0, 1]], [[0, 1]], "each pair once"),
        ([0, 1], None, r"pairs of whole numbers \(pairs, 2\)"),
        ([[0, 0.5]], None, "whole numbers"),
    ],
)
def test_wrong_pairs_are_refused(links, left_out, message):
    with pytest.raises(ValueError, match=message):
        link_quality(made(4, 6, seed=0)[0], links, left_out)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_are_refused(bad):
    scores = np.zeros((2, 3))
    scores[0, 1] = bad
    with pytest.raises(ValueError, match="finite scores"):
        link_rank(scores, [[0, 0]])


def test_positions_are_those_of_a_dense_graph():
    rng = np.random.default_rng(0)
    links = np.argwhere(np.triu(rng.random((20, 20)) < 0.2, 1))
    graph = np.zeros((20, 20), bool)
    graph[tuple(links.T)] = True
    graph |= graph.T
    rows, columns = rng.permutation(20)[:8], rng.permutation(20)[:12]
    expected = np.argwhere(graph[np.ix_(rows, columns)])
    np.testing.assert_array_equal(link_positions(links, rows, columns), expected)
    assert link_positions([[0, 1]], [2], [3]).shape == (0, 2)
