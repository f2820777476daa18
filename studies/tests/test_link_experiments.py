"""The experiments on documents, on made ones with known communities: they run, and their figures are right."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse
import torch
from committed import recorded
from made_experiments import QUICK, assert_runs_from_end_to_end
from npn_studies.datasets.documents import Documents
from npn_studies.experiments import (
    link_methods,
    links,
    links_search,
    reconstruction,
    topics,
    topics_search,
)
from npn_studies.experiments.link_methods import (
    DIRECTIONS,
    DISTANCES,
    MEAN,
    MEANS,
    METHODS,
    PAPER,
    PAPER_MEAN,
    SUMS,
    USES,
    Codes,
    View,
    controls,
    prepared,
)
from npn_studies.experiments.link_settings import Choice
from scipy import stats

from torchnpn import Moments, datasets
from torchnpn.datasets import Split
from torchnpn.moments import JointMoments

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
    "experiment",
    [part.EXPERIMENT for part in (links, links_search, reconstruction, topics, topics_search)],
    ids=lambda experiment: experiment.name,
)
def test_runs_from_end_to_end(experiment, documents, tmp_path):
    assert_runs_from_end_to_end(experiment, tmp_path)


# Links: tasks


def ends(task, positions) -> set:
    return {frozenset((int(task.rows[i]), int(task.columns[j]))) for i, j in positions.tolist()}


def test_tasks_do_not_show_what_is_to_be_found(documents):
    graph = {frozenset(pair) for pair in documents.links.tolist()}
    found = links.tasks(DOCUMENTS, documents.links, seed=0)
    for task in (found["nodes"], *links_search.validation(DOCUMENTS, documents.links)):
        assert not set(task.nodes) & set(task.rows) and set(task.columns) == set(task.nodes)
        assert ends(task, task.true) <= graph
    task = found["links"]
    known, true = {frozenset(pair) for pair in task.links.tolist()}, ends(task, task.true)
    assert known | true == graph and not known & true
    assert len(task.true) == 2 * len(true)  # from both ends
    near = {pair for pair in known if pair & set(task.rows.tolist())}
    assert ends(task, task.left_out) == {frozenset([int(row)]) for row in task.rows} | near


def test_the_search_sees_no_document_that_is_tested(documents):
    tested = {row for seed in range(links.SEEDS) for row in links.tasks(DOCUMENTS, documents.links, seed)["nodes"].rows}
    cuts = links_search.validation(DOCUMENTS, documents.links)
    assert len(cuts) == len(links_search.CUTS) and set(cuts[0].rows) != set(cuts[1].rows)
    for cut in cuts:
        seen = set(cut.rows) | set(cut.nodes)
        assert not seen & tested and len(seen) == DOCUMENTS - len(tested)
    assert links_search.SEED not in range(links.SEEDS)


# Links: views of codes


def of_groups(documents, seed: int = 0) -> Moments:
    """Codes near the document's community, variances without meaning."""
    rng = np.random.default_rng(seed)
    mean = np.eye(GROUPS)[documents.labels] + 0.3 * rng.normal(size=(DOCUMENTS, GROUPS))
    return Moments(torch.tensor(mean).float(), torch.tensor(rng.gamma(1.0, 0.1, mean.shape)).float())


def test_cosine_is_that_of_dense_vectors(documents):
    codes, _ = links.learnt(METHODS["tfidf"].settings, documents.counts, CPU)
    dense = codes.own.mean.toarray()
    task = links.tasks(DOCUMENTS, documents.links, 0)["nodes"]
    scores = dense[task.rows] @ dense[task.columns].T
    ranks = []
    for row in np.unique(task.true[:, 0]):
        of_row = stats.rankdata(-scores[row].astype(np.float32))
        ranks.append(of_row[task.true[task.true[:, 0] == row, 1]].mean())
    found = links.judge(documents, "vae", 0, QUICK).found(codes, MEAN, task)
    assert found.rank == pytest.approx(np.mean(ranks), rel=0.01)


@pytest.mark.parametrize("name", ["svd", "tfidf"])
def test_codes_find_communities(name, documents, monkeypatch):
    monkeypatch.setattr(links, "QUICK_NEGATIVES", 1_000)
    found = links.figures(documents, name, Choice({}), 1, QUICK, lambda share: None)
    for task in ("nodes", "links"):
        assert found[task][DISTANCES.label]["auc"][0] > 0.7  # .736 to .847; knowing the communities gives .851 and .859


@pytest.mark.slow
def test_figures_have_controls_for_documents_only(documents):
    use = View("cosine", "shrunk", 3.0)
    found = links.figures(documents, "vae", Choice({"beta": 0.3}, use), 2, QUICK, lambda share: None)
    assert set(found["links"]) == {DISTANCES.label, use.label}
    means = (*MEANS, PAPER_MEAN)
    assert set(found["nodes"]) == {view.label for view in (*means, PAPER, use, *controls(use))}
    figures = [figure for split in ("nodes", "links") for view in found[split].values() for figure in view.values()]
    assert all(len(values) == 2 for values in (*figures, found["seconds_per_epoch"], found["peak_bytes"]))


def test_controls_do_not_see_the_variance(documents):
    codes, task = of_groups(documents), links.tasks(DOCUMENTS, documents.links, 0)["nodes"]
    order = torch.randperm(DOCUMENTS, generator=torch.Generator().manual_seed(0))
    shuffled = Moments(codes.mean, codes.variance[order])
    judge = links.judge(documents, "vae", 0, QUICK)

    def changed(view) -> float:
        one, other = (judge.found(Codes(given), view, task).rank for given in (codes, shuffled))
        return abs(one / other - 1)

    for use in (View("cosine", use) for use in ("features", "shrunk", "posterior", "joint")):
        assert changed(use) > 1e-3 and {view.control for view in controls(use)} >= {"m²", "log m", "length"}
        assert all(changed(view) < 1e-3 for view in controls(use) if view.control != "length")
    assert changed(MEAN) == 0 == changed(DISTANCES) == changed(DIRECTIONS)


def test_only_the_joint_use_sees_covariances():
    own, other = (Moments(torch.full((3, 2), value), torch.full((3, 2), value)) for value in (1.0, 2.0))
    codes = Codes(own, JointMoments(other.mean, torch.diag_embed(other.variance)))
    for view in (*MEANS, *USES):
        found = link_methods.seen(codes, torch.ones(3), view)
        assert float(found.mean[0, 0]) == (2.0 if view.variance == "joint" else 1.0), view
    assert link_methods.seen(Codes(own), torch.ones(3), USES[-1]) is own
    gaussian, _ = links.learnt(prepared(METHODS["gaussian"], {}, 0, CPU, quick=True), np.eye(30), CPU)
    assert gaussian.joint.covariance.shape == (30, 10, 10)
    assert links.learnt(prepared(METHODS["vae"], {}, 0, CPU, quick=True), np.eye(30), CPU)[0].joint is None


def test_a_view_with_length_knows_who_is_long():
    """Codes say nothing, and only long documents cite: the view with lengths finds links, the other does not."""
    rng = np.random.default_rng(0)
    words = torch.tensor(rng.permutation(np.repeat([10.0, 1000.0], 60)))
    long = np.flatnonzero(words.numpy() > 100)
    pairs = np.array([(i, j) for i in long for j in long if i < j and rng.random() < 0.3])
    codes = Codes(Moments(torch.tensor(rng.normal(size=(120, 2)))))
    task = links.between_nodes(pairs, np.arange(90), np.arange(90, 120))
    judge = links.Judge(words, 0, 2_000, False, CPU)
    assert judge.found(codes, MEAN, task).auc > 0.7 > 0.6 > judge.found(codes, SUMS, task).auc


def test_variance_by_length_is_a_fit_of_logarithms():
    rng = np.random.default_rng(0)
    words, mean = rng.integers(0, 200, 300), rng.normal(size=(300, 4))
    variance = np.exp(rng.normal(size=(300, 4)) - np.outer(np.log1p(words), rng.random(4)))
    variance[:, 3] = 0.0  # a dimension that is certain
    found = link_methods.known_by_length(Moments(*map(torch.tensor, (mean, variance))), torch.tensor(words)).variance
    for k in range(3):
        fitted = np.exp(np.polyval(np.polyfit(np.log1p(words), np.log(variance[:, k]), 2), np.log1p(words)))
        expected = fitted * variance[:, k].mean() / fitted.mean()
        np.testing.assert_allclose(found[:, k], expected, rtol=1e-4)  # it adds a millionth to the variance
    assert (found[:, 3] == 0).all()


def test_settings_of_quick_runs_are_small():
    for method in METHODS.values():
        settings = dataclasses.asdict(link_methods.prepared(method, {}, 3, CPU, quick=True))
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
    setting = topics.CHOSEN[method] | ({"epochs": 50, "batch_size": 32, "warm_up": 5} if method == "gamma" else {})
    task = topics.Task(documents.counts[documents.splits[0].train], GROUPS, 0, CPU)
    weights = topics.METHODS[method].factors(task, setting)
    best = np.argsort(-weights, axis=1)[:, :8] // (TERMS // GROUPS)  # the community of each word
    pure = [(row == np.bincount(row).argmax()).mean() for row in best]
    assert np.mean(pure) > 0.8


def test_topic_budgets_are_equal():
    assert len({len(grid) for grid in topics_search.GRIDS.values()}) == 1


@pytest.mark.parametrize("method", topics.METHODS)
def test_chosen_settings_of_topics_are_the_best_of_the_search(method):
    assert topics.CHOSEN[method] == topics_search.best(recorded("topics_search"), method)


def test_the_search_for_topics_judges_by_other_documents(documents, monkeypatch):
    seen = {}

    def factors(task, setting):
        seen["train"] = task.counts
        return np.random.default_rng(0).random((task.topics, task.counts.shape[1]))

    def coherence(words, counts):
        seen["judges"] = counts
        return [0.5] * len(words)

    monkeypatch.setitem(topics.METHODS, "nmf", topics.Method("made", factors))
    monkeypatch.setattr(topics, "coherence", coherence)
    cell = next(cell for cell in topics_search.cells(QUICK) if cell.key == "nmf/1")
    assert cell.run(lambda share: None)["coherence"] == 0.5
    both = scipy.sparse.vstack([seen["train"], seen["judges"]]).toarray()
    train = documents.counts[documents.splits[0].train].toarray()
    assert sorted(map(tuple, both)) == sorted(map(tuple, train))  # each training document once, no test document
