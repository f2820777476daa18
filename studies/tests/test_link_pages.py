"""What a search chose for links, and what the page of links says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from committed import recorded
from npn_studies.experiments import (
    link_methods,
    links,
    links_page,
    links_search,
)
from npn_studies.experiments import record as records
from npn_studies.experiments.link_grids import FINALS
from npn_studies.experiments.link_methods import (
    DISTANCES,
    MEAN,
    METHODS,
    PRODUCTS,
    USES,
    View,
)
from npn_studies.experiments.link_settings import CHOSEN, EPOCHS, Choice, chosen
from npn_studies.experiments.links_page import Difference, Scores
from scipy import stats

from torchnpn import plots

CPU = torch.device("cpu")


# Settings


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
    assert CHOSEN[name][key] == links_search.best(recorded("links_search"), name, key)


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, grids in FINALS.items() for key in grids])
def test_finals_are_of_the_two_best_settings(name, key):
    found = links_search.trials(recorded("links_search"), name, key)
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


# Page


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
