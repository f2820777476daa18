"""The paper to the letter: bins, averages, rules of acquisition, halves of documents, verdicts."""

from __future__ import annotations

import types

import numpy as np
import pytest
import torch
from committed import ROOT
from made_experiments import FULL
from npn_studies.experiments import (
    EXPERIMENTS,
    active,
    claims,
    completion,
    mnist_search,
    paper_claims,
    paper_digits,
    paper_networks,
    paper_page,
    paper_regression,
)
from npn_studies.experiments import record as records
from npn_studies.experiments.link_metrics import link_quality
from npn_studies.experiments.verdict import BETTER, HOLDS, NOT, OPEN, TUNED
from scipy.sparse import csr_matrix

from torchnpn import datasets


def test_first_weights_are_those_of_the_released_code():
    network = paper_networks.gaussian_network([300, 200], 0)
    (layer,) = network
    bound = (6 / 500) ** 0.5
    mean, variance = (part.detach() for part in layer.weight.moments)
    assert mean.abs().max() <= bound and mean.std() == pytest.approx(bound / 3**0.5, rel=0.02)
    assert variance.max() <= 0.01 * bound and variance.mean() == pytest.approx(0.005 * bound, rel=0.02)
    assert not layer.bias.moments.mean.any()
    natural = paper_networks.gaussian_network([300, 200], 0, coordinates="natural")[0].weight.moments
    torch.testing.assert_close(natural.variance, variance, rtol=1e-5, atol=0)


def test_bins_have_equal_width_and_the_last_holds_the_rest():
    variance = torch.tensor([0.0, 0.039, 0.041, 0.359, 0.361, 7.0])
    found = paper_digits.by_bins(variance, torch.tensor([True, False, True, True, False, True]))
    assert found["count"] == [2, 1, 0, 0, 0, 0, 0, 0, 1, 2]
    assert found["accuracy"][:3] == [50.0, 100.0, None] and found["accuracy"][-1] == 50.0


def test_the_two_averages_of_the_link_rank():
    scores = np.array([[5.0, 4.0, 3.0, 2.0], [1.0, 2.0, 3.0, 4.0]])
    quality = link_quality(scores, [(0, 0), (0, 1), (0, 3), (1, 0)])
    ranks = [(1 + 2 + 4) / 3, 4.0]  # of the first node's neighbours, of the second's
    assert quality.rank == pytest.approx(np.mean(ranks))
    assert quality.rank_of_links == pytest.approx((1 + 2 + 4 + 4) / 4)


def test_the_authors_split_of_boston_ends_with_the_last_fifty_rows(monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.gamma(4.0, 5.0, size=506)
    table = types.SimpleNamespace(X=rng.normal(size=(506, 13)), y=y)
    monkeypatch.setattr(datasets, "load", {"boston": table}.__getitem__)  # tests need no data
    task = paper_regression.task("authors")
    assert task.x.shape[1] == len(y) - 50 and task.x_test.shape[1] == 50
    back = (task.y_test * task.scale)[0, :, 0] + y[:-50].mean()
    np.testing.assert_allclose(back, y[-50:], rtol=1e-6)


def test_the_rows_with_the_highest_scores_are_labelled_next():
    asked: list[list[int]] = []

    def learn(rows, seed):
        asked.append(sorted(int(row) for row in rows))
        return active.Scores(np.zeros(30), {"entropy": np.arange(30.0)}), 1.0

    settings = {"start": 3, "batch": 4, "rounds": 2}
    assert active.curve(active.Problem(30, learn), "entropy", settings, 0) == [1.0, 1.0, 1.0]
    new = set(asked[1]) - set(asked[0])
    assert new == set([row for row in range(29, -1, -1) if row not in asked[0]][:4])
    assert len(asked[2]) == len(set(asked[2])) == 11
    by_chance = list(asked)
    active.curve(active.Problem(30, learn), "random", settings, 0)
    assert asked[3] == by_chance[0] and asked[4] != by_chance[1]


def test_halves_of_documents_add_up():
    counts = csr_matrix(np.random.default_rng(0).poisson(3.0, (40, 20)).astype(np.float32))
    first, second = completion.halves(counts, 0)
    assert ((first + second) != counts).nnz == 0
    assert min(first.data.min(), second.data.min()) > 0
    assert first.sum() == pytest.approx(counts.sum() / 2, rel=0.05)


def test_perplexity_is_that_of_the_words_left_out():
    there = csr_matrix([[2.0, 0.0, 1.0]])
    shares, expected = np.array([0.5, 0.3, 0.2]), np.array([[6.0, 2.0, 2.0]])
    p = 0.9 * np.array([0.6, 0.2, 0.2]) + 0.1 * shares
    wanted = (2 * np.log(p[0]) + np.log(p[2])) / 3
    assert completion.log_probabilities(expected, shares, there, 0.1) == pytest.approx(wanted)
    nothing = completion.log_probabilities(np.zeros((1, 3)), shares, there, 0.1)  # a document without any word seen
    assert nothing == pytest.approx((2 * np.log(0.5) + np.log(0.2)) / 3)


def found() -> dict:
    every = {name: records.read(one, ROOT / "results") for name, one in EXPERIMENTS.items()}
    return {name: one for name, one in every.items() if one is not None and (records.is_whole(one) or name in IN_PARTS)}


IN_PARTS = {name for name, one in EXPERIMENTS.items() if one.in_parts}


CURVE = next(claim for claim in claims.CLAIMS if claim.text.startswith("Most of the curve"))


def test_every_claim_has_a_verdict_and_the_summary_ten_lines():
    shown = found()
    words = [claim.verdict(shown).word for claim in claims.CLAIMS]
    assert {HOLDS, NOT, TUNED} <= set(words) and all(words)
    assert len(claims.summary(shown).splitlines()) == 10
    assert all(claim.verdict({}).word == OPEN for claim in claims.CLAIMS)


def test_a_verdict_follows_the_record():
    """With the figures of both methods exchanged, the claim no longer holds."""
    shown = found()
    toy = shown["toy"]
    assert CURVE.verdict(shown).word == HOLDS
    narrow = {**toy["cells"]["npn"]["figures"], "held_inside": [0.5] * 5}
    cells = {**toy["cells"], "npn": {**toy["cells"]["npn"], "figures": narrow}}
    assert CURVE.verdict({**shown, "toy": {**toy, "cells": cells}}).word == NOT


def test_the_page_says_what_was_not_run():
    shown = found()
    empty = {"cells": {}, "planned": 49}
    page = paper_page.page(empty, shown)
    assert page.count(paper_page.NOT_RUN) > 10 and "0 of its 49 pieces" in page
    assert "nan" not in page


def test_pieces_for_a_gpu_are_left_out_on_a_cpu():
    cells = {cell.key: cell for cell in EXPERIMENTS["paper"].cells(FULL)}
    for key in ("mnist/50000/full", "mnist/10000/none", "mnist/50000/gamma/adam", "links/arxiv/poisson/full"):
        with pytest.raises(paper_digits.MissingData, match="need a GPU"):
            cells[key].run(lambda share: None)
    assert cells["mnist/50000/full"].settings["epochs"] == 2_000


def of_paper(**errors: list[float]) -> dict:
    cells = {
        key: {"figures": {"error": error}, "settings": {"epochs": 9, "images": int(key.split("/")[1])}}
        for key, error in errors.items()
    }
    return {"paper": {"cells": cells}}


def test_printed_errors_are_judged_by_the_protocol_that_they_come_from():
    table_2, table_3 = paper_claims.table_2, paper_claims.table_3
    assert table_2(of_paper()).word == table_3(of_paper()).word == OPEN
    assert table_2(of_paper(**{"mnist/50000/none": [1.3, 1.4], "mnist/50000/full": [90.0]})).word == HOLDS
    assert table_2(of_paper(**{"mnist/50000/none": [1.5]})).word == NOT
    assert table_3(of_paper(**{"mnist/100/none": [20.0]})).word == BETTER
    assert table_3(of_paper(**{"mnist/100/none": [20.0], "mnist/500/none": [19.0]})).word == HOLDS
    pair = {"mnist/100/none": [20.0], "mnist/100/full": [90.0]}
    assert paper_claims.prior(of_paper(**pair)).word == NOT
    assert paper_claims.dropout_helps(of_paper(**pair, **{"mnist/100/dropout": [19.0]})).word == HOLDS
    gamma = {"mnist/1000/gamma/adam/none": [17.0]}
    assert paper_claims.table_2_gamma(of_paper(**gamma)).word == OPEN
    gamma["mnist/50000/gamma/adam"] = [90.0]
    judged = paper_claims.table_2_gamma(of_paper(**gamma))
    assert judged.word == NOT and "17 % (1,000 images, adam without the KL, 9 epochs)" in judged.evidence


def errors(record: dict, key: str) -> float:
    return float(np.mean(record["cells"][key]["figures"]["error"]))


def of_gamma_networks(shown: dict) -> bool:
    cells = shown["paper"]["cells"]
    with_kl = [key for key in cells if "/gamma/" in key and not key.endswith("/none")]
    return bool(with_kl) and all(errors(shown["paper"], key) > 80 for key in with_kl)


def of_mixtures(shown: dict) -> bool:
    trials = mnist_search.trials_of(shown["mnist_search"], "bbb")
    free = [one for one in trials if "adversarial" not in one["settings"]]
    best = min(free, key=lambda one: mnist_search.score(one["error"], one["nll"]))
    return best["settings"]["prior"] == "gaussian"


SENTENCES = {  # of docs/paper.md, and whether the records agree
    "with the KL it does not learn": of_gamma_networks,
    "a mixture of two Gaussians, which lost to one in our search": of_mixtures,
    "teachers sample forty times as long": lambda shown: (
        shown["mnist"]["cells"]["bdk"]["settings"]["epochs"] * 40 == paper_networks.EPOCHS
    ),
    "After 2,000 epochs the full KL has erased the network": lambda shown: (
        shown["paper"]["cells"]["boston/authors/full"]["figures"]["rmse"][0] > 9  # the spread of the prices
    ),
}


@pytest.mark.parametrize("words", SENTENCES)
def test_sentences_of_the_page_agree_with_the_records(words):
    assert words in (ROOT.parent / "docs" / "paper.md").read_text(encoding="utf-8")
    assert SENTENCES[words](found())
