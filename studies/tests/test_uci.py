"""The experiment on nine regression tables: figures against formulas rebuilt here, on made tables."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from npn_studies.baselines import Settings
from npn_studies.baselines.predicted import PredictedReal
from npn_studies.experiments import uci, uci_page, uci_search
from npn_studies.experiments.experiment import Options
from npn_studies.experiments.uci_ensemble import EnsembleGrid
from npn_studies.experiments.uci_page import Entry
from scipy import stats

from torchnpn.datasets import Dataset, Split

QUICK = Options(torch.device("cpu"), quick=True)
RNG = np.random.default_rng(0)


@pytest.fixture
def made(monkeypatch):
    """A table of three splits, whose first column is constant and whose target has a unit of its own."""
    X = np.column_stack([np.full(60, 3.0), RNG.normal(5, 2, size=(60, 2))])
    y = 100 + 30 * X[:, 1] + 3 * RNG.normal(size=60)
    splits = tuple(Split(order[:50], order[50:]) for order in (RNG.permutation(60) for _ in range(3)))
    data = Dataset("made", X, y, ("a", "b", "c"), {"y": y}, splits=splits)
    monkeypatch.setattr(uci.datasets, "load", lambda name: data)
    return data


def test_splits_are_standardised_by_their_training_rows(made):
    task = uci.Task.of("made", 2)
    assert task.x.shape == (2, 50, 3) and task.y_test.shape == (2, 10, 1) and task.scale.shape == (2, 1, 1)
    train, test = made.splits[1]
    mean, std = made.y[train].mean(), made.y[train].std()
    np.testing.assert_allclose(task.y[1, :, 0], (made.y[train] - mean) / std, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(task.y_test[1, :, 0], (made.y[test] - mean) / std)
    np.testing.assert_allclose(task.scale[1], std)
    assert (task.x[..., 0] == 0).all() and (task.x_test[..., 0] == 0).all()


def test_figures_are_in_the_unit_of_the_table(made):
    task = uci.Task.of("made", None)
    means, variances = torch.randn(4, 3, 10, 1), torch.rand(4, 3, 10, 1) + 0.1
    figures = uci.judged(PredictedReal(means, variances), task.y_test, task.scale)
    for split, (train, test) in enumerate(made.splits):
        shift, scale = made.y[train].mean(), made.y[train].std()
        m = shift + scale * means[:, split, :, 0].double().numpy()
        std = scale * variances[:, split, :, 0].double().sqrt().numpy()
        rmse = np.sqrt(((m.mean(0) - made.y[test]) ** 2).mean())
        logs = np.log(stats.norm(m, std).pdf(made.y[test]).mean(0)).mean()
        np.testing.assert_allclose(figures["rmse"][split], rmse, rtol=1e-5)
        np.testing.assert_allclose(figures["log_likelihood"][split], logs, rtol=1e-5)


def test_the_networks_are_those_of_the_default_estimator(made):
    task = uci.Task.of("made", 2)
    predicted, _ = uci.members(task, {"max_epochs": 2}, 3, lambda share: None)
    x, y, x_test = (part[0].double().numpy() for part in (task.x, task.y[..., 0], task.x_test))
    alone = uci.NPNRegressor(max_epochs=2, random_state=0, effort="quick").fit(x, y)
    np.testing.assert_allclose(predicted.member_means[0, 0, :, 0], alone.predict(x_test), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(predicted.member_variances[0, 0, :, 0], alone.predict_variance(x_test).total, rtol=1e-4)
    assert predicted.member_means.shape == (3, 2, *task.y_test.shape[1:])


def test_a_network_learns_from_the_rows_of_its_split(made):
    """The targets of the second split are turned round, and so are the predictions of its networks alone."""
    task = uci.Task.of("made", 2)
    turned = task._replace(y=task.y * torch.tensor([1.0, -1.0])[:, None, None])
    as_is, other = (
        uci.members(each, {"max_epochs": 20}, 2, lambda share: None)[0].member_means for each in (task, turned)
    )
    torch.testing.assert_close(as_is[:, 0], other[:, 0])
    assert torch.corrcoef(torch.stack([as_is[0, 1, :, 0], other[0, 1, :, 0]]))[0, 1] < -0.5


def test_npn_has_figures_of_one_and_of_the_mixture(made):
    told = []
    figures = uci.planned("npn", "boston", 2, QUICK).run(told.append)
    assert told[-1] == 1
    for part in ("single", "mixture"):
        assert len(figures[part]["rmse"]) == len(figures[part]["log_likelihood"]) == 2
        assert np.isfinite(figures[part]["rmse"] + figures[part]["log_likelihood"]).all()


@pytest.mark.parametrize("method", ["dropout", "ensemble", "pbp"])
def test_baselines_give_a_figure_for_each_split(method, made):
    cell = uci.planned(method, "boston", 2, QUICK)
    figures = cell.run(lambda share: None)
    assert len(figures["rmse"]) == len(figures["log_likelihood"]) == 2
    assert np.isfinite(figures["rmse"] + figures["log_likelihood"]).all()
    assert figures["trials"] == {"dropout": 2, "ensemble": 2, "pbp": 1}[method]


def test_an_ensemble_takes_the_better_rate_for_each_split():
    """One learning rate is far too small to learn anything, in any split."""
    x = torch.randn(2, 80, 1, generator=torch.Generator().manual_seed(0))
    plans = [Settings(hidden=(10,), epochs=epochs, batch_size=40) for epochs in (1, 60)]
    grid = EnsembleGrid(plans, (1e-9, 1e-2), 2)
    predicted, chosen = grid.tuned(x, x, x[:, :5])
    assert chosen == [(1, 1e-2)] * 2
    assert predicted.mean.shape == (2, 5, 1)
    assert (predicted.mean - x[:, :5]).abs().mean() < 0.3


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"NPN": (1.0, 0.1), "b": (0.95, 0.01), "(c)": (0.5, None)}, {"(c)"}),
        ({"NPN": (1.0, 0.1), "b": (0.95, 0.01), "(c)": (1.04, None)}, {"NPN", "b", "(c)"}),
        ({"NPN": (1.0, 0.01), "b": (0.95, 0.01), "(c)": (1.04, None)}, {"b"}),
        ({"NPN": (1.0, 0.01), "b": (0.9, 0.01), "(c)": (0.8, 0.2)}, {"NPN", "b", "(c)"}),  # its error was printed
        ({"NPN": (1.0, 0.01), "b": (0.95, 0.06), "(c)": (0.0, None)}, {"NPN", "b"}),  # printed as 0.00: unknown
    ],
)
def test_what_is_within_one_standard_error_leads(figures, expected):
    row = {label: Entry("", *figure, printed=label.startswith("(")) for label, figure in figures.items()}
    assert uci_page.leading(row, -1, row["NPN"].error) == expected
    upside_down = {label: entry._replace(value=-entry.value) for label, entry in row.items()}
    assert uci_page.leading(upside_down, 1, row["NPN"].error) == expected


def test_the_page_counts_where_npn_leads():
    good, bad = (
        {"rmse": [2.5, 2.7], "log_likelihood": [-2.2, -2.3]},
        {"rmse": [9.0, 9.1], "log_likelihood": [-4.0, -4.1]},
    )
    cells = {
        "npn/boston": {"figures": {"single": good, "mixture": bad, "trials": 1}},
        "pbp/boston": {"figures": {**bad, "trials": 1}},
        "npn/yacht": {"figures": {"single": bad, "mixture": bad, "trials": 1}},
    }
    page = uci_page.section({"cells": cells})
    told = [row[-1] for row in uci_page.headline({"cells": cells})]
    assert [text.partition(" beside")[0] for text in told] == ["1 / 1 of 2", "0 / 0 of 2"]
    better = {"figures": {"rmse": [1.0, 1.1], "log_likelihood": [-2.2, -2.3], "trials": 1}}
    told = uci_page.headline({"cells": cells | {"pbp/boston": better}})[0][-1]
    assert told == "1 / 1 of 2 beside published methods, 0 / 1 beside those tuned here, too"
    assert page.count("- NPN: best, or within one standard error of the best, of the published rows on 1 of 2") == 2
    assert (
        page.count("- NPN, mixture of 5: best, or within one standard error of the best, of the published rows on 0")
        == 2
    )
    assert "| boston | **2.60 ± 0.10** | 9.050 ± 0.050 | 9.050 ± 0.050 | 4.32 ± 0.29 |" in page
    assert (
        "| yacht | 9.050 ± 0.050 | 9.050 ± 0.050 | – | 6.89 ± 0.67 | 1.02 ± 0.05 | 1.11 (std 0.38) | **0.67 ± 0.05** |"
        in page
    )


def test_every_printed_figure_has_its_column():
    for metric, rows in uci_page.PRINTED.items():
        assert tuple(rows) == uci.SETS, metric
        assert {len(row.split()) for row in rows.values()} == {len(uci_page.PUBLISHED)}
        for label, errors in uci_page.PRINTED_ERRORS[metric].items():
            assert label in uci_page.PUBLISHED and len(errors.split()) == len(uci.SETS), label


def test_a_printed_deviation_is_called_one_and_compared_as_an_error():
    row = uci_page.entries({"cells": {}}, "boston", "rmse")
    assert row["(PBP)"].text == "3.01 ± 0.18" and row["(PBP)"].error == 0.18
    assert row["(MC dropout)"].text == "2.97 (std 0.85)"
    assert row["(MC dropout)"].error == pytest.approx(0.85 / 20**0.5)
    assert uci_page.entries({"cells": {}}, "protein", "rmse")["(deep ensemble)"].error == pytest.approx(0.06 / 5**0.5)
    assert uci_page.entries({"cells": {}}, "kin8nm", "rmse")["(PBP)"].error is None  # printed as 0.00


def test_cells_name_all_that_they_depend_on():
    cells = uci.cells(Options(torch.device("cpu")))
    assert len(cells) == 36 and len({cell.key for cell in cells}) == 36
    by_key = {cell.key: cell.settings for cell in cells}
    assert by_key["pbp/protein"]["hidden"] == 100 and by_key["pbp/wine"]["hidden"] == 50
    assert uci.cells(QUICK)[0].settings != by_key["npn/boston"]


def test_the_search_sees_training_rows_alone(made):
    task = uci.Task.of("made", 2)
    held = uci_search.cut(task)
    assert held.x.shape == (2, 45, 3) and held.x_test.shape == (2, 5, 3)
    for split in range(2):
        together = torch.cat([held.y[split], held.y_test[split].float()]).sort(0).values
        torch.testing.assert_close(together, task.y[split].sort(0).values)


def test_the_search_compares_each_variant_where_it_differs():
    keys = [cell.key for cell in uci_search.cells(Options(torch.device("cpu")))]
    assert len(keys) == 20 and [key for key in keys if "units" in key] == ["50 units/protein"]
    figures = {"rmse": [1.0, 1.2], "log_likelihood": [-1.0, -1.1]}
    page = uci_search.section({"cells": {"default/wine": {"figures": figures}}})
    assert "| wine | default | 1.10 ± 0.10 | -1.050 ± 0.050 |" in page
