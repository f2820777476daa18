"""The settings of the MNIST experiments: the best of searches with equal budgets, and pages that name them."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
import torch
from npn_studies.experiments import (
    budgets,
    digit_grids,
    digits,
    mnist,
    mnist_search,
    mnist_size,
    mnist_size_search,
    mnist_variance,
)
from npn_studies.experiments.digit_settings import CHOSEN, CHOSEN_BY_SIZE, STEPS, training

ROOT = Path(__file__).parent.parent


def test_seeds_and_subsets_of_searches_are_not_reported():
    assert mnist.SEED != mnist_search.SEED and mnist_size.SEED != mnist_search.SEED
    assert set(mnist_size_search.NUMBERS).isdisjoint(range(100))
    first, again = digits.subsets(50, range(3)), digits.subsets(80, range(3))
    torch.testing.assert_close(first, again[:, :50])
    assert all(len(set(rows)) == 50 for rows in first.tolist())
    assert len({tuple(rows) for rows in first.tolist()}) == 3


def test_training_takes_the_steps_that_it_should():
    for size, steps in STEPS.items():
        setting = training(size)
        in_epoch = size / setting["batch_size"]
        assert steps <= setting["epochs"] * in_epoch < steps + in_epoch
        assert all(one.keys() >= setting.keys() for one in CHOSEN_BY_SIZE[size].values())


@pytest.mark.parametrize("name", ["npn", "dropout", "bbb", "bdk"])
def test_budgets_of_the_search_are_equal(name):
    """104 networks: all settings of a grid learn for some epochs, its best again for more; and three twice for luck."""
    rounds = zip(digit_grids.GRIDS[name], digit_grids.ROUNDS[name], strict=True)
    counts = [
        min(count, mnist_search.trained([{"settings": one} for one in digit_grids.settings_of(grid)]))
        for grid, of_grid in rounds
        for count, _ in of_grid
    ]
    assert sum(counts) == 104
    for final in digit_grids.FINALS[name]:
        settings = [one for grid in final for one in digit_grids.settings_of(grid)]
        assert mnist_search.trained([{"settings": one} for one in settings]) == 3


def test_budgets_of_the_size_search_are_equal():
    for size in STEPS:
        for name, grids in mnist_size_search.grids(size).items():
            counts = [len(digit_grids.settings_of(grid)) for grid in grids]
            more = {"npn": [2, 24, 16], "dropout": [12, 8]}  # the NPN is asked with masks and without
            assert counts == [16, 16, *more.get(name, [20])]


def test_a_network_that_is_asked_twice_is_one_trial():
    settings = [{"rate": 0.1, "epochs": 5}, {"epochs": 5, "rate": 0.1, "masks": True}, {"rate": 0.1, "epochs": 9}]
    assert mnist_search.trained([{"settings": setting} for setting in settings]) == 2


def test_pages_name_those_that_learn_against_an_adversary():
    """In their rows, and in the words of `mnist_size` and `mnist_variance`."""
    for row in mnist.ROWS.values():
        assert ("adversarial" in row.label) == ("adversarial" in CHOSEN[row.chosen])
    for chosen in CHOSEN_BY_SIZE.values():
        assert {name for name, setting in chosen.items() if "adversarial" in setting} == {"npn", "dropout"}
    opposed = {name for name, setting in mnist_variance.SETTINGS.items() if "adversarial" in setting}
    assert opposed == set(mnist_variance.SETTINGS) - {"ensemble"}


ASKED = {"samples": None}  # the search asks fewer


def committed(name: str) -> dict:
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


@pytest.mark.parametrize("name", digit_grids.GRIDS)
def test_chosen_settings_are_the_best_of_the_search(name):
    assert CHOSEN[name] | ASKED == mnist_search.best(committed("mnist_search"), name) | ASKED


@pytest.mark.parametrize("name", ["npn", "dropout", "bbb"])
def test_rows_without_an_adversary_have_the_best_settings_that_do_without(name):
    best = mnist_search.best(committed("mnist_search"), name, adversary=False)
    assert CHOSEN[f"{name}_unopposed"] | ASKED == best | ASKED


def test_dropout_alone_has_the_best_settings_without_weight_decay():
    """The searches with weight decay have some without; none of these was among the best, and learnt for 200 epochs."""
    trials = mnist_search.trials_of(committed("mnist_search"), "dropout")
    alone = [trial for trial in trials if trial["settings"]["prior_precision"] == 0]
    best = min(alone, key=lambda trial: mnist_search.score(trial["error"], trial["nll"]))["settings"]
    assert CHOSEN["dropout_alone"] == best | {"epochs": 200}


@pytest.mark.parametrize("size", STEPS)
def test_the_npn_without_an_adversary_has_the_best_settings_that_do_without(size):
    best = budgets.unopposed(committed("mnist_size_search"), "npn", size)["settings"]
    assert CHOSEN_BY_SIZE[size]["npn_unopposed"] == best


@pytest.mark.parametrize(("size", "name"), list(itertools.product(STEPS, mnist_size_search.grids(100))))
def test_chosen_settings_of_a_size_are_the_best_of_its_search(size, name):
    assert CHOSEN_BY_SIZE[size][name] == mnist_size_search.best(committed("mnist_size_search"), name, size)


@pytest.mark.parametrize("size", STEPS)
def test_the_network_that_is_asked_with_masks_is_the_best_of_both_grids(size):
    record = committed("mnist_size_search")
    plain = {"cells": {key: record["cells"][key] for key in (f"npn/{size}/1", f"npn/{size}/2")}}
    asked = digit_grids.settings_of(mnist_size_search.grids(size)["npn"][2])
    best = mnist_size_search.best(plain, "npn", size)
    assert [one | training(size) for one in asked] == [best | {"masks": masks} for masks in (False, True)]


def trial(nll: float, **settings) -> dict:
    return {"settings": {"epochs": 200, **settings}, "error": 1.0, "nll": nll}


def test_finals_decide_where_there_are_some():
    once = {"figures": {"trials": [trial(0.1, a=1), trial(0.2, a=2)]}}
    again = {
        "figures": {
            "finals": [{**trial(0, a=n), "error": [1.0, 1.0], "nll": [0.1, x]} for n, x in ((1, 0.4), (2, 0.3))]
        }
    }
    best = mnist_search.best
    assert best({"cells": {"npn/1": once}}, "npn")["a"] == 1
    cells = {"npn/1": once, "npn/final/1": again, "dropout/1": once}
    assert best({"cells": cells}, "npn")["a"] == 2
    against = {**trial(0, a=3, adversarial=1.0), "error": [1.0, 1.0], "nll": [0.1, 0.1]}
    cells["npn/final/2"] = {"figures": {"finals": [against]}}
    assert best({"cells": cells}, "npn")["a"] == 3
    assert best({"cells": cells}, "npn", adversary=False)["a"] == 2


def test_masks_are_chosen_by_networks_that_learn_alike():
    def of(nll: float, **settings) -> dict:
        return {**trial(nll, **settings), "error": [1.0, 1.0], "nll": [nll, nll]}

    lucky = {"figures": {"trials": [of(0.1, a=1), of(0.3, a=2)]}}
    for with_masks, without, wanted in ((0.2, 0.3, True), (0.3, 0.2, False)):
        pair = {"figures": {"trials": [of(without, a=1, masks=False), of(with_masks, a=1, masks=True)]}}
        record = {"cells": {"npn/100/1": lucky, "npn/100/3": pair}}
        assert mnist_size_search.best(record, "npn", 100) == {"epochs": 200, "a": 1, "masks": wanted}
