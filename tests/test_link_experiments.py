"""The experiments on documents, on made ones with known communities: they run, and their figures are right."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse
import torch
from scipy import stats
from test_experiments import QUICK, ran

from torchnpn import Moments, datasets, plots
from torchnpn.datasets.dataset import Split
from torchnpn.datasets.documents import Documents
from torchnpn.experiments import link_methods, links, links_page, reconstruction, topics
from torchnpn.experiments import record as records
from torchnpn.experiments.link_methods import CONTROL, MEAN, METHODS, VARIANCE

CPU = torch.device("cpu")
DOCUMENTS, TERMS, GROUPS = 240, 60, 4


def made(seed: int = 0) -> Documents:
    """Documents of four communities; each has fifteen words of its own and cites its own kind, mostly."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, GROUPS, DOCUMENTS)
    rates = np.full((GROUPS, TERMS), 0.05)
    for g in range(GROUPS):
        rates[g, g * TERMS // GROUPS : (g + 1) * TERMS // GROUPS] = 0.6
    counts = rng.poisson(rates[group] * rng.gamma(4.0, 0.25, (DOCUMENTS, 1)))
    counts[0] = 0  # an empty document
    pairs = np.argwhere(np.triu(np.ones((DOCUMENTS, DOCUMENTS)), 1))
    chance = np.where(group[pairs[:, 0]] == group[pairs[:, 1]], 0.1, 0.002)
    vocabulary = tuple(f"word{number}" for number in range(TERMS))
    row = np.arange(DOCUMENTS)
    return Documents(
        "made",
        scipy.sparse.csr_matrix(counts.astype(np.float32)),
        vocabulary,
        pairs[rng.random(len(pairs)) < chance],
        labels=group,
        splits=(Split(row[:180], row[180:]),),
    )


@pytest.fixture
def documents(monkeypatch) -> Documents:
    data = made()
    monkeypatch.setattr(datasets, "load", lambda name: data)
    return data


@pytest.mark.slow
@pytest.mark.parametrize(
    "experiment", [links.EXPERIMENT, reconstruction.EXPERIMENT, topics.EXPERIMENT], ids=lambda e: e.name
)
def test_runs_from_end_to_end(experiment, documents, tmp_path):
    ran(experiment, tmp_path, QUICK)
    record = records.read(experiment, tmp_path)
    assert records.is_whole(record)
    assert "|" in experiment.section(record) and "nan" not in experiment.section(record)
    if experiment.headline is not None:
        assert all(len(row) == 3 for row in experiment.headline(record))
    if experiment.figure is not None:
        assert plots.png(experiment.figure(record)).startswith(b"\x89PNG")
    assert f"{record['planned']} of {record['planned']} found" in ran(experiment, tmp_path, QUICK).lines[0]


# Links


def test_tasks_do_not_show_what_is_to_be_found(documents):
    graph = {frozenset(pair) for pair in documents.links.tolist()}
    found = links.tasks(DOCUMENTS, documents.links, seed=0)
    for name in ("validation", "nodes"):
        task = found[name]
        assert not set(task.nodes) & set(task.rows) and set(task.columns) == set(task.nodes)
        assert {frozenset((task.rows[i], task.columns[j])) for i, j in task.true.tolist()} <= graph
    assert not set(found["nodes"].rows) & set(found["validation"].nodes)
    assert not set(found["nodes"].rows) & set(found["validation"].rows)
    task = found["links"]
    known = {frozenset(pair) for pair in task.links.tolist()}
    true = {frozenset((int(task.rows[i]), int(task.columns[j]))) for i, j in task.true.tolist()}
    assert known | true == graph and not known & true
    assert len(task.true) == 2 * len(true)  # from both ends
    left_out = {frozenset((int(task.rows[i]), int(task.columns[j]))) for i, j in task.left_out.tolist()}
    assert left_out == {frozenset([int(row)]) for row in task.rows} | {
        pair for pair in known if pair & set(task.rows.tolist())
    }


def test_cosine_is_that_of_dense_vectors(documents):
    codes = METHODS["tfidf"].settings.fit(documents.counts)(documents.counts).mean
    dense = codes.toarray()
    task = links.tasks(DOCUMENTS, documents.links, 0)["nodes"]
    scores = dense[task.rows] @ dense[task.columns].T
    ranks = []
    for row in np.unique(task.true[:, 0]):
        of_row = stats.rankdata(-scores[row].astype(np.float32))
        ranks.append(of_row[task.true[task.true[:, 0] == row, 1]].mean())
    assert links.found_by_cosine(codes, task).rank == pytest.approx(np.mean(ranks), rel=0.01)


@pytest.mark.parametrize("name", ["svd", "tfidf"])
def test_codes_find_communities(name, documents):
    found = links.figures(documents, METHODS[name], 1, 1_000, QUICK, lambda share: None)
    assert set(found) == {"validation", "nodes", "links"}
    for task in ("nodes", "links"):
        assert found[task][MEAN.label]["auc"][0] > 0.7  # .736 to .847; knowing the communities gives .851 and .859


def test_a_control_does_not_see_the_variance(documents):
    rng = np.random.default_rng(0)
    mean = np.eye(GROUPS, dtype=np.float32)[documents.labels] + 0.3 * rng.normal(size=(DOCUMENTS, GROUPS)).astype("f4")
    one = rng.gamma(1.0, 0.1, mean.shape).astype("f4")
    task = links.tasks(DOCUMENTS, documents.links, 0)["nodes"]

    def rank(variance, view):
        return links.found(Moments(mean, variance), view, task, 0, 1_000, CPU).rank

    other = one[rng.permutation(DOCUMENTS)]
    assert all(rank(one, view) == pytest.approx(rank(other, view), rel=1e-3) for view in (MEAN, *CONTROL[::2]))
    assert all(rank(one, view) != pytest.approx(rank(other, view), rel=1e-3) for view in VARIANCE[-4:-2])


def test_entry_is_chosen_by_validation():
    views = VARIANCE[:2]
    kept = {
        views[0].label: {"rank": [10.0, 12.0], "auc": [0.9, 0.8]},
        views[1].label: {"rank": [5.0, 5.0], "auc": [1, 1]},
    }
    validation = {views[0].label: {"rank": [1.0, 2.0]}, views[1].label: {"rank": [3.0, 3.0]}}
    found = links_page.entry({"validation": validation, "nodes": kept}, "nodes", views)
    assert found.view == views[0] and found.rank == (11.0, pytest.approx(1.0)) and found.auc.mean == pytest.approx(0.85)
    assert links_page.entry({"validation": {}, "nodes": {}}, "nodes", views) is None


def test_settings_of_quick_runs_are_small():
    for method in METHODS.values():
        settings = dataclasses.asdict(link_methods.seeded(method, 3, CPU, quick=True))
        assert settings.get("seed", 3) == 3 and settings.get("epochs", 2) == 2 and settings.get("code", 10) == 10


# Reconstruction


def test_partial_correlation_is_that_of_residuals():
    rng = np.random.default_rng(0)
    words = rng.gamma(2.0, 20.0, 500)
    error, variance = words + rng.normal(0, 20, 500), words + rng.normal(0, 20, 500)
    found = reconstruction.correlations(error, variance, words)
    ranks = [stats.rankdata(values) for values in (error, variance, words)]
    left = [r - np.polyval(np.polyfit(ranks[2], r, 1), ranks[2]) for r in ranks[:2]]
    assert found["partial"] == pytest.approx(np.corrcoef(*left)[0, 1], abs=1e-5)
    assert found["correlation"] == pytest.approx(np.corrcoef(*ranks[:2])[0, 1], abs=1e-5)
    assert abs(found["partial"]) < 0.15 < 0.4 < found["correlation"]


def test_groups_are_by_rising_variance():
    variance = np.arange(90.0)[::-1]
    found = reconstruction.groups(2 * variance, variance)
    assert found["variance"] == [4.5 + 10 * number for number in range(9)]
    np.testing.assert_allclose(found["error"], 2 * np.asarray(found["variance"]))
    assert np.all(np.diff(found["variance"]) > 0)


# Topics


def test_coherence_of_words_that_are_together_or_apart():
    together = np.array([[1, 1, 0, 0]] * 5 + [[0, 0, 1, 0]] * 5)
    counts = scipy.sparse.csr_matrix(together)
    assert topics.coherence([[0, 1]], counts) == [1.0]
    assert topics.coherence([[0, 2]], counts) == [-1.0]
    rng = np.random.default_rng(0)
    independent = scipy.sparse.csr_matrix(rng.random((20_000, 3)) < 0.3)
    assert topics.coherence([[0, 1, 2]], independent)[0] == pytest.approx(0.0, abs=0.02)


def test_telling_words_are_those_of_one_topic():
    weights = np.array([[4.0, 3.0, 0.0, 1.0], [4.0, 0.0, 3.0, 1.0]])  # the first word is frequent in both
    assert topics.telling(weights, 2).tolist() == [[1, 0], [2, 0]]


@pytest.mark.slow
@pytest.mark.parametrize("method", topics.METHODS)
def test_topics_are_the_words_of_communities(method, documents):
    changes = {"hidden": (GROUPS,), "epochs": 50, "batch_size": 32, "warm_up": 5, "learning_rate": 0.1}
    train = documents.counts[documents.splits[0].train]
    weights = topics.METHODS[method][1](train, 0, changes, CPU)
    best = np.argsort(-weights, axis=1)[:, :8] // (TERMS // GROUPS)  # the community of each word
    pure = [(row == np.bincount(row).argmax()).mean() for row in best]
    assert np.mean(pure) > 0.8
