"""The experiments on documents, on made ones with known communities: they run, and their figures are right."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch
from scipy import stats
from test_experiments import QUICK, ran

from torchnpn import Moments, datasets, plots
from torchnpn.datasets.dataset import Split
from torchnpn.datasets.documents import Documents
from torchnpn.experiments import (
    link_methods,
    links,
    links_page,
    links_search,
    reconstruction,
    topics,
    topics_search,
)
from torchnpn.experiments import record as records
from torchnpn.experiments.link_grids import FINALS
from torchnpn.experiments.link_methods import (
    DISTANCES,
    MEAN,
    MEANS,
    METHODS,
    PAPER,
    PAPER_MEAN,
    PRODUCTS,
    SUMS,
    USES,
    View,
    controls,
)
from torchnpn.experiments.link_settings import CHOSEN, EPOCHS, Choice, chosen
from torchnpn.experiments.links_page import Difference, Scores

ROOT = Path(__file__).parent.parent
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
    ran(experiment, tmp_path, QUICK)
    record = records.read(experiment, tmp_path)
    assert records.is_whole(record)
    assert "|" in experiment.section(record) and "nan" not in experiment.section(record)
    if experiment.headline is not None:
        assert all(len(row) == 3 for row in experiment.headline(record))
    if experiment.figure is not None:
        assert plots.png(experiment.figure(record)).startswith(b"\x89PNG")
    assert f"{record['planned']} of {record['planned']} found" in ran(experiment, tmp_path, QUICK).lines[0]


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
    dense = codes.mean.toarray()
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
        one, other = (judge.found(given, view, task).rank for given in (codes, shuffled))
        return abs(one / other - 1)

    for use in (View("cosine", "features"), View("cosine", "shrunk"), View("cosine", "posterior")):
        assert changed(use) > 1e-3 and {view.control for view in controls(use)} >= {"m²", "log m", "length"}
        assert all(changed(view) < 1e-3 for view in controls(use) if view.control != "length")
    assert changed(MEAN) == 0 == changed(DISTANCES)


def test_a_view_with_length_knows_who_is_long():
    """Codes say nothing, and only long documents cite: the view with lengths finds links, the other does not."""
    rng = np.random.default_rng(0)
    words = torch.tensor(rng.permutation(np.repeat([10.0, 1000.0], 60)))
    long = np.flatnonzero(words.numpy() > 100)
    pairs = np.array([(i, j) for i in long for j in long if i < j and rng.random() < 0.3])
    codes = Moments(torch.tensor(rng.normal(size=(120, 2))))
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


# Links: settings


def committed(name: str) -> dict:
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def test_grids_are_of_equal_length_and_can_be_built():
    for grids in links_search.GRIDS.values():
        assert set(grids) == {method.searched for method in METHODS.values()} - {""}
        assert {key: len(grid) for key, grid in grids.items()} == dict.fromkeys(grids, 20)
        for key, grid in grids.items():
            every = [{"epochs": EPOCHS} | changes for changes in grid]
            built = [link_methods.prepared(METHODS[key], changes, 0, CPU, quick=False) for changes in every]
            assert len(set(built)) == len(grid)


def test_wide_networks_and_other_sets_take_what_was_chosen():
    assert set(CHOSEN["citeulike-t"]) == {method.searched for method in METHODS.values()} - {""}
    assert chosen("cora", "sdae_wide") is chosen("cora", "sdae") is CHOSEN["citeulike-t"]["sdae"]
    for name, choices in CHOSEN.items():
        wanted = choices["sdae"]._replace(changes={"epochs": EPOCHS} | choices["sdae"].changes)
        assert chosen(name, "sdae_wide") == chosen(name, "sdae") == wanted
    assert chosen("cora", "svd") == Choice({})
    for choices in CHOSEN.values():
        assert all((choice.use in USES) == METHODS[key].second_order for key, choice in choices.items())


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, choices in CHOSEN.items() for key in choices])
def test_chosen_settings_are_the_best_of_the_search(name, key):
    assert CHOSEN[name][key] == links_search.best(committed("links_search"), name, key)


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, grids in FINALS.items() for key in grids])
def test_finals_are_of_the_two_best_settings(name, key):
    found = links_search.trials(committed("links_search"), name, key)
    assert set(FINALS[name][key]) == {trial.number for trial in found[:2]}


def trial(changes, **ranks):
    named = {"mean": MEAN, "distances": DISTANCES, "products": PRODUCTS, "one": USES[0], "other": USES[5]}
    return {
        "settings": {"changes": changes},
        "figures": {"rank": {named[name].label: rank for name, rank in ranks.items()}},
    }


def test_the_search_takes_the_least_rank_of_means_and_uses():
    cells = {
        "cora/vae/1": trial({"beta": 0.1}, mean=9.0, one=8.0, products=1.0),
        "cora/vae/2": trial({"beta": 0.2}, mean=5.0, one=7.0, products=9.0),
        "cora/vae/3": trial({"beta": 0.3}, mean=7.0, one=6.0, products=9.0),
        "cora/vae/final/2": trial({"beta": 0.2}, mean=6.0, distances=5.5, one=8.0, other=7.0),
        "cora/vae/final/3": trial({"beta": 0.3}, mean=5.0, distances=5.2, one=6.0, other=6.5),
        "cora/vae_wide/final/1": trial({"beta": 0.4}, mean=1.0, distances=1.0, one=1.0, other=1.0),
    }
    assert [trial.number for trial in links_search.trials({"cells": cells}, "cora", "vae")] == [2, 3, 1]
    assert links_search.best({"cells": cells}, "cora", "vae") == Choice({"beta": 0.3}, USES[0], MEAN)
    cells["cora/vae/final/2"]["figures"]["rank"][DISTANCES.label] = 4.9  # best by its means; then the better use
    assert links_search.best({"cells": cells}, "cora", "vae") == Choice({"beta": 0.2}, USES[5], DISTANCES)


# Links: page


def scores(rank, auc, view=MEAN) -> Scores:
    return Scores(view, list(rank), list(auc))


def test_differences_are_in_pairs():
    rng = np.random.default_rng(0)
    split = 100 * rng.random(5)  # what is hard for one is hard for the other
    a, b = split + rng.normal(3, 1, 5), split + rng.normal(0, 1, 5)
    found = Difference.between(scores(a, a / 100), scores(b, b / 100))
    assert found.errors == pytest.approx(stats.ttest_rel(a, b).statistic)
    assert found.rank.mean == pytest.approx(np.mean(a - b)) and found.auc.mean == pytest.approx(np.mean(a - b) / 100)
    assert Difference.between(scores(a[:1], a[:1]), scores(b[:1], b[:1])).errors is None


USE = View("cosine", "weighted", 3.0)


def page_record(**ranks) -> dict:
    """Of citeulike-t, three seeds; a method's ranks are means, with variances and of a control."""
    cells = {}
    for method, values in ranks.items():
        shown = (MEAN, USE, USE._replace(control="length"))[: len(values)]
        kept = {
            view.label: {"rank": [value - 1.0, value, value + 1.0], "auc": [0.96 + 1e-6 * value] * 3}
            for view, value in zip(shown, values, strict=True)
        }
        cells[f"citeulike-t/{method}"] = {
            "settings": {"use": USE if len(values) > 1 else None, "mean": MEAN},
            "figures": {"nodes": kept, "links": kept, "seconds_per_epoch": [1.0, 2.0, 3.0]},
        }
    return {"cells": records.as_json(cells)}


def test_page_says_which_goals_are_reached():
    good = links_page.section(page_record(gaussian=(790, 770, 775), gamma=(1060, 1051, 1100), sdae=(800,), svd=(900,)))
    assert "Gaussian NPN: rank ≤ 780, reached (770.0), AUC ≥ 0.963, missed (0.9608)" in good
    assert "gamma NPN: rank ≤ 1050, missed (1051.0)" in good
    assert "best baseline (SDAE) by more than two standard errors: missed (-30.0 ± 0.0 ranks)" in good  # no spread
    assert "| Gaussian NPN, with variance − mean | -20 |" in good
    assert "| Gaussian NPN, variance − control “length” | -5 |" in good
    record = page_record(gaussian=(790, 770, 775), sdae=(800,))
    record["cells"]["citeulike-t/gaussian"]["figures"]["nodes"][USE.label]["rank"] = [770.0, 772.0, 771.0]
    assert "standard errors: reached (-29.0 ± 0.6 ranks)" in links_page.section(record)
    record["cells"]["citeulike-t/gaussian"]["figures"]["nodes"][USE.label]["rank"] = [770.0, 790.0, 810.0]
    assert "standard errors: missed (-10.0 ± 11.0 ranks)" in links_page.section(record)


def test_headline_and_figure_show_what_was_chosen():
    record = page_record(gaussian=(790, 770, 775), sdae=(800,))
    assert links_page.headline(record) == [
        ("Citeulike-t: link rank and AUC of Gaussian NPN", "1280.4, .940", "770 ± 1, 0.961")
    ]
    (panel,) = links_page.plotted(record).values()
    assert panel["Gaussian NPN"][1].mean == 770 and panel["SDAE"] == ((800, pytest.approx(3**-0.5)), None)
    assert plots.png(links.figure(record)).startswith(b"\x89PNG")


def test_parts_of_a_record_make_a_page_and_a_figure():
    record = page_record(gaussian=(790, 770, 775), sdae=(800,))
    for left_out in ("gaussian", "sdae"):  # no method with a variance; no baseline
        cells = {key: cell for key, cell in record["cells"].items() if not key.endswith(left_out)}
        assert "|" in links_page.section(record | {"cells": cells})
        assert plots.png(links.figure(record | {"cells": cells})).startswith(b"\x89PNG")


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
    assert topics.CHOSEN[method] == topics_search.best(committed("topics_search"), method)


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
