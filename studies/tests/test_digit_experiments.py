"""The MNIST experiments on made digits: they run and go on, and their figures are what textbooks say."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from made_experiments import QUICK, assert_runs_from_end_to_end, ran
from npn_studies.experiments import (
    EXPERIMENTS,
    digit_methods,
    digit_scores,
    digits,
    mnist,
    mnist_search,
    mnist_size,
    mnist_size_search,
    mnist_variance_page,
)
from npn_studies.experiments import record as records
from npn_studies.experiments.digit_methods import METHODS, Answer, Method, Work
from npn_studies.experiments.digit_settings import CHOSEN
from scipy import stats

from torchnpn import datasets, nn
from torchnpn.datasets import Dataset, Split
from torchnpn.moments import Moments

CPU = torch.device("cpu")
NAMES = "mnist", "mnist_size", "mnist_size_search", "mnist_variance"
TRAIN, VALIDATION, TEST = 600, 200, 300


@pytest.fixture
def made(monkeypatch):
    """Ten faint patterns under noise in place of MNIST, noise alone in place of the other two sets."""
    rng = np.random.default_rng(0)
    patterns = rng.random((10, 784)) < 0.2
    y = rng.integers(0, 10, TRAIN + VALIDATION + TEST)
    X = np.clip(0.5 * patterns[y] + 0.3 * rng.random((len(y), 784)), 0, 1).astype(np.float32)
    names = tuple(map(str, range(784)))
    split = Split(np.arange(TRAIN + VALIDATION), np.arange(TRAIN + VALIDATION, len(y)))
    noise = rng.random((400, 784)).astype(np.float32)
    sets = {
        "mnist": Dataset("mnist", X, y, names, {"y": y}, splits=(split,)),
        "fashion-mnist": Dataset("fashion-mnist", noise, y[:400], names, {"y": y[:400]}),
        "notmnist": Dataset("notmnist", noise**2, y[:400], names, {"y": y[:400]}),
    }
    monkeypatch.setattr(datasets, "load", sets.__getitem__)
    monkeypatch.setattr(digits, "TRAINING", TRAIN)
    digits.digits.cache_clear()
    yield sets
    digits.digits.cache_clear()


# Whole experiments


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_runs_from_end_to_end(name, made, tmp_path):
    assert_runs_from_end_to_end(EXPERIMENTS[name], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["npn", "dropout", "bbb", "ensemble"])
def test_methods_learn(name, made):
    data = digits.digits(CPU)
    assert [len(part.y) for part in data] == [TRAIN, VALIDATION, TEST]
    setting = CHOSEN[name] | {"hidden": [32, 32], "epochs": 20, "batch_size": 60, "learning_rate": 0.01, "samples": 5}
    answer = METHODS[name].fit(Work(data.train, None, 0, CPU), [setting] * 2)(data.test.x)
    assert max(digits.judged(answer.probs, data.test.y)["error"]) < 20


def test_the_size_search_keeps_settings_and_subsets_together(made, monkeypatch):
    """A method whose networks are right with the share of its setting, and sure by the first row of its subset."""
    labels = digits.digits(CPU).validation.y
    rows = digits.subsets(100, mnist_size_search.NUMBERS)

    def fit(work, settings):
        def answer(x):
            probs = []
            for one, subset in zip(settings, work.subsets, strict=True):
                sure = 0.5 + 0.4 * (subset[0] == rows[1, 0]).double()
                said = torch.where(torch.arange(len(labels)) < one["right"] * len(labels), labels, (labels + 1) % 10)
                probs.append((1 - sure) / 9 + (sure - (1 - sure) / 9) * torch.nn.functional.one_hot(said, 10))
            return Answer(torch.stack(probs), None)

        return answer

    monkeypatch.setitem(METHODS, "made", Method("made", ("group",), fit))
    candidates = [{"right": right, "group": i % 2} for i, right in enumerate((0.5, 1.0, 0.75))]
    found = mnist_size_search.trials("made", 100, candidates, QUICK)
    assert [trial["settings"] for trial in found] == candidates
    assert [trial["error"] for trial in found] == [[50, 50], [0, 0], [25, 25]]
    assert found[1]["nll"] == pytest.approx([-np.log(0.5), -np.log(0.9)], rel=1e-5)
    record = {"cells": {"made/100/1": {"figures": {"trials": found}}}}
    assert mnist_size_search.best(record, "made", 100)["right"] == 1.0


# Scores


def logits(variance: float) -> Moments:
    """(2 networks, 8 images, 10 classes)."""
    generator = torch.Generator().manual_seed(0)
    means = 2 * torch.randn(2, 8, 10, generator=generator)
    return Moments(means, variance * (0.5 + torch.rand(2, 8, 10, generator=generator)))


def rows_of(o: Moments):
    """A network that gives these outputs for the images 0, 1, …"""
    return lambda x: Moments(o.mean[:, x[:, 0].long()], o.variance[:, x[:, 0].long()])


@pytest.mark.parametrize(("variance", "off"), [(0.05, 0.1), (0.3, 0.3)])
def test_scores_match_monte_carlo(variance, off):
    o = logits(variance)
    told = digit_scores.of_npn(rows_of(o))(torch.arange(8.0)[:, None])
    draws = np.random.default_rng(0).normal(o.mean, o.variance.sqrt(), (20_000, 2, 8, 10))
    p = np.exp(draws) / np.exp(draws).sum(-1, keepdims=True)
    np.testing.assert_allclose(told.scores["output_variance"], o.variance.mean(-1), rtol=1e-6)
    np.testing.assert_allclose(told.scores["entropy"], stats.entropy(told.probs, axis=-1), rtol=1e-6)
    np.testing.assert_allclose(told.scores["entropy"], stats.entropy(p.mean(0), axis=-1), rtol=off)
    np.testing.assert_allclose(told.scores["probability_variance"], p.var(0).sum(-1), rtol=off)
    information = stats.entropy(p.mean(0), axis=-1) - stats.entropy(p, axis=-1).mean(0)
    np.testing.assert_allclose(told.scores["information"], information, rtol=off)


def test_without_variance_it_is_a_torch_network():
    network = nn.Sequential(nn.Dropout(0.3), *nn.mlp([5, 7, 10], dropout=0.2, replicas=(2,)))
    network.eval()
    x = torch.rand(6, 5)
    told = digit_scores.without_variance(network)(x)
    first, last = (module for module in network if isinstance(module, nn.Linear))
    for k in range(2):
        hidden = torch.relu(x @ first.weight.moments.mean[k].T + first.bias.moments.mean[k])
        expected = torch.softmax(hidden @ last.weight.moments.mean[k].T + last.bias.moments.mean[k], -1)
        torch.testing.assert_close(told.probs[k].float(), expected)
    assert list(told.scores) == ["entropy"]
    with torch.no_grad():
        for parameter in (first.weight, first.bias, last.weight, last.bias):
            parameter.free[1].fill_(-20.0)  # log of the standard deviation
    certain = digit_scores.of_npn(network)(x)
    torch.testing.assert_close(certain.probs, told.probs, rtol=1e-5, atol=1e-6)
    assert certain.scores["probability_variance"].max() < 1e-12


def test_point_networks_have_the_entropy_alone():
    probs = torch.softmax(logits(1.0).mean, -1)
    for variance, names in ((None, {"entropy"}), (probs.sum(-1), {"entropy", "probability_variance"})):
        told = digit_scores.of_method(lambda x, variance=variance: Answer(probs, variance))(torch.zeros(8, 1))
        assert told.scores.keys() == names
        np.testing.assert_allclose(told.scores["entropy"], stats.entropy(probs, axis=-1), rtol=1e-5)


def test_worth_of_a_score():
    rng = np.random.default_rng(1)
    doubt, far = rng.random((2, 200)), rng.random((2, 50)) + 0.3
    correct = rng.random((2, 200)) > doubt**2
    found = digit_scores.judged_score(*map(torch.tensor, (correct, doubt)), {"far": torch.tensor(far)})
    for k in range(2):
        right = correct[k][np.argsort(doubt[k])]
        groups = np.array_split(right, 9)
        np.testing.assert_allclose(found["accuracy"][k], [group.mean() for group in groups], rtol=1e-5)
        risks = [1 - right[:kept].mean() for kept in range(1, 201)]
        np.testing.assert_allclose(found["area"][k], np.mean(risks), rtol=1e-5)
        np.testing.assert_allclose(found["auroc"]["far"][k], (far[k][:, None] > doubt[k]).mean(), rtol=1e-5)
    assert found["risk"][-1] == pytest.approx(1 - correct.mean(), rel=1e-5)
    assert found["risk"][49] == pytest.approx(
        np.mean([1 - correct[k][np.argsort(doubt[k])][:100].mean() for k in range(2)]), rel=1e-5
    )


TINY = {"hidden": [8], "epochs": 1, "batch_size": 30}


@pytest.mark.parametrize("name", ["npn", "dropout"])
def test_a_mixture_is_the_mean_of_networks(made, name):
    images, setting = digits.digits(CPU).train.first(60), CHOSEN[name] | TINY
    work, settings = Work(images, None, 0, CPU), [setting, setting | {"learning_rate": 0.05}, setting]
    mixture = METHODS[f"{name}_mixture"].fit(work, settings)(images.x)
    each = METHODS[name].fit(work, settings)(images.x).probs
    torch.testing.assert_close(mixture.probs, each.mean(0, keepdim=True))
    torch.testing.assert_close(mixture.variance, each.var(0, correction=0).sum(-1)[None])


@pytest.mark.parametrize("train", [digit_methods.gaussian_network, digit_methods.dropout_network])
def test_networks_are_taken_again_only_where_that_is_asked_for_and_they_are_the_same(made, train):
    images, setting = digits.digits(CPU).train, CHOSEN["npn"] | TINY
    work = Work(images.first(60), None, 0, CPU)
    first = train(work, [setting])
    again = work._replace(again=True)
    assert train(again, [setting]) is first
    assert train(again, [setting | {"masks": False, "samples": 3}]) is first  # of asking, not of training
    assert train(work, [setting]) is not first
    others = (
        (again, [setting, setting]),
        (again, [setting | {"learning_rate": 0.05}]),
        (again._replace(seed=1), [setting]),
        (again._replace(images=images.first(61)), [setting]),
        (again._replace(subsets=torch.arange(50)[None]), [setting]),
    )
    for other in others:
        assert train(*other) is not first
        assert train(*other) is train(*other)


# Pages


def test_goals_of_mnist_are_told():
    def page(error: float) -> str:
        figures = {"error": [error, error], "nll": [0.03, 0.03], "calibration": [0.01, 0.01], "seconds_per_epoch": 0.1}
        dropout, bbb = {**figures, "error": [1.1, 1.3]}, {**figures, "error": [0.9, 0.9]}
        found = {"npn": figures, "dropout": dropout, "bbb": bbb}
        return mnist.section({"cells": {name: {"figures": one} for name, one in found.items()}})

    assert "Both are reached" in page(0.95)
    assert "Missed: the error is 1.050 %." in page(1.05)
    assert "all with adversarial training: minus dropout, error -0.25 ± 0.10, NLL 0" in page(0.95)
    assert "; minus Bayes by Backprop, error 0.05, NLL 0." in page(0.95)


def test_differences_are_taken_on_the_same_subset():
    figures = {"npn": [1.0, 2.0, 4.0], "dropout": [2.0, 3.0, 6.0]}
    record = {"cells": {f"{name}/100": {"figures": {"error": values}} for name, values in figures.items()}}
    mean, error = mnist_size.paired(record, ("npn", "dropout"), 100, "error")
    assert mean == pytest.approx(-4 / 3)
    assert error == pytest.approx(np.std([-1, -1, -2], ddof=1) / np.sqrt(3))


@pytest.mark.slow
def test_the_page_of_variance_says_who_is_above(made, tmp_path):
    experiment = EXPERIMENTS["mnist_variance"]
    ran(experiment, tmp_path, QUICK)
    record = records.read(experiment, tmp_path)
    made_up = {"npn": 0.9, "mc_dropout": 0.8, "ensemble": 0.95, "dropout_mixture": 0.7}
    scores = {name: record["cells"][name]["figures"]["scores"]["entropy"] for name in made_up}
    for name, auroc in made_up.items():
        scores[name]["auroc"] = {"fashion-mnist": [auroc] * 2, "notmnist": [0.9 - auroc / 2] * 2}
    scores["npn"]["accuracy"] = [[1.0, 0.9, 0.9], [1.0, 1.0, 0.7]]
    page = experiment.section(record)
    assert "on Fashion-MNIST above MC dropout and mixture of 5 dropout networks, not above ensemble of 5" in page
    assert "on notMNIST above ensemble of 5, not above MC dropout and mixture of 5 dropout networks" in page
    rows = {row.label: row for row in mnist_variance_page.rows(record)}
    assert rows["Gaussian NPN: entropy"].accuracy == pytest.approx([1.0, 0.95, 0.8])
    assert "| Gaussian NPN: entropy | 100.00 | 95.00 | 80.00 | yes |" in page
    # NPN, its two ablations, mixture, MC dropout, ensemble, dropout, its mixture
    assert len(rows) == 4 + 4 + 1 + 2 + 2 + 2 + 1 + 2


def test_answers_in_parts_are_those_in_one(monkeypatch):
    network = nn.mlp([5, 7, 10], replicas=(2,)).eval()
    x = torch.rand(7, 5)
    with torch.no_grad():
        whole = network(x)
    monkeypatch.setattr(digit_methods, "_ROWS", 3)
    for part, expected in zip(digit_methods.outputs(network, x), whole, strict=True):
        torch.testing.assert_close(part, expected)


def test_a_network_that_diverged_comes_last():
    """Its answer is NaN: no figure can be made of it, and the others' figures are as without it."""
    y = torch.tensor([0, 1, 1])
    good = torch.tensor([[0.8, 0.2], [0.4, 0.6], [0.7, 0.3]])
    found = digits.judged(torch.stack([good, torch.full_like(good, math.nan)]), y)
    assert found["error"] == [pytest.approx(100 / 3, abs=1e-3), 100.0]
    assert found["nll"] == [pytest.approx(-(math.log(0.8) + math.log(0.6) + math.log(0.3)) / 3, rel=1e-5), None]
    scores = [mnist_search.score(*pair) for pair in zip(found["error"], found["nll"], strict=True)]
    assert scores[1] == math.inf > scores[0]


def test_a_network_that_rules_out_a_label_has_no_likelihood():
    """Minus the logarithm of zero is no number that a record can hold; error and calibration are as ever."""
    found = digits.judged(torch.tensor([[[1.0, 0.0], [1.0, 0.0]]]), torch.tensor([0, 1]))
    assert found == {"error": [50.0], "nll": [None], "calibration": [0.5]}
