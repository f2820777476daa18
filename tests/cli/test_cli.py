"""The `npn` command as people meet it: what it prints and writes."""

from __future__ import annotations

import gzip
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.commands import BARE, QUICK, done, filled, frame, refused, run
from support.pages import BROWSER, DARK, assert_stands_alone, looked_at

import torchnpn as npn
from torchnpn import datasets, io, table_files, tables


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return filled(tmp_path_factory.mktemp("cli"))


@pytest.mark.parametrize(
    ("target", "taken", "figures"),
    [
        ("y", "a real number (gaussian)", ["RMSE", "NLL", "CRPS", "in the 90% interval", "width"]),
        ("count", "a count (negative binomial)", ["RMSE", "CRPS"]),
        ("amount", "a positive amount (gamma)", ["RMSE", "CRPS"]),
        ("share", "a proportion (beta)", ["RMSE", "CRPS"]),
        ("size", "3 classes", ["error rate", "NLL", "Brier score", "calibration error"]),
    ],
)
def test_fit_says_what_it_does(folder, tmp_path, target, taken, figures):
    out = tmp_path / "m.npn"
    text = done("fit", folder / "data.csv", "-t", target, "-o", out, *BARE)
    assert f"{target} is taken as {taken}" in text
    assert "data.csv: 120 rows" in text and "left out: 'id' holds a different text in nearly every row." in text
    assert "Learning from 100 rows; 20 are held out for testing" in text
    for word in (*figures, "model", "baseline", str(out)):
        assert word in text.replace("\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["m.npn"]
    assert isinstance(io.load(out), tables.TableModel)


@pytest.mark.slow
@pytest.mark.parametrize(("target", "images"), [("y", 6), ("size", 8)])
def test_fit_writes_a_report(folder, tmp_path, target, images):
    done("fit", folder / "data.csv", "-t", target, "-o", tmp_path / "m.npn", *QUICK)
    assert {path.name for path in tmp_path.iterdir()} == {"m.npn", "m.html"}
    assert_stands_alone(text := (tmp_path / "m.html").read_text(encoding="utf-8"))
    assert f"Predicting {target}" in text and text.count("<img") == images
    for words in (
        "What was learnt",
        "Which columns matter",
        "Along ",
        "Where it is most uncertain",
        "left out: holds a different text",
        "one of 3: ",
    ):
        assert words in text
    if BROWSER is not None:
        seen = looked_at(text, tmp_path, 390, DARK)
        assert seen["reach"] <= 390 and all(pixels for pixels, _ in seen["images"])


def test_the_figures_are_those_of_the_held_out_rows(folder, tmp_path):
    """`npn evaluate` on exactly these rows prints what `npn fit` printed."""
    data, out = pd.read_csv(folder / "data.csv"), tmp_path / "m.npn"
    printed = done("fit", folder / "data.csv", "-t", "y", "--validation", 0.2, "--seed", 3, "-o", out, *BARE)
    _, held_out = tables.split_rows(data["y"].to_numpy(), 0.2, seed=3)
    data.iloc[held_out].to_csv(tmp_path / "held_out.csv", index=False)
    judged = done("evaluate", out, tmp_path / "held_out.csv")
    assert "held_out.csv: 24 rows with a target, of 24." in judged
    names = {figure.name for figure in io.load(out).record.figures}
    table = [line for line in judged.splitlines() if line.strip().partition("  ")[0] in names]
    assert len(table) == 5 and all(line in printed for line in table)
    rows = data.iloc[np.setdiff1d(np.arange(120), held_out)]["y"]
    baseline = np.sqrt(np.mean((data.iloc[held_out]["y"] - rows.mean()) ** 2))
    assert f"{baseline:.4g}" in table[0]


@pytest.mark.parametrize("target", ["y", "count", "size"])
def test_several_members_make_one_model(folder, tmp_path, target):
    out = tmp_path / "m.npn"
    printed = done("fit", folder / "data.csv", "-t", target, "--members", 2, "-o", out, *BARE)
    assert io.load(out).estimator.n_estimators == 2
    assert ("error rate" if target == "size" else "CRPS") in printed
    done("predict", out, folder / "new.parquet", "-o", tmp_path / "out.csv")
    assert len(pd.read_csv(tmp_path / "out.csv")) == 40


def test_the_same_seed_gives_the_same_model(folder, tmp_path):
    outputs = []
    for name in ("a.npn", "b.npn"):
        done("fit", folder / "data.csv", "-t", "y", "-o", tmp_path / name, *BARE)
        outputs.append(done("predict", tmp_path / name, folder / "new.parquet"))
    assert outputs[0] == outputs[1]


def test_predictions_stand_beside_the_input(folder, tmp_path):
    text = done("predict", folder / "number.npn", folder / "new.csv", "-o", tmp_path / "out.csv", "--level", 0.8)
    assert "40 rows: " in text
    out, new = pd.read_csv(tmp_path / "out.csv"), pd.read_csv(folder / "new.csv")
    pd.testing.assert_frame_equal(out[new.columns], new)
    assert list(out.columns[-4:]) == ["y_mean", "y_std", "y_low", "y_high"]
    z = 1.2815515655446004  # of the 90% quantile
    np.testing.assert_allclose(out["y_low"], out["y_mean"] - z * out["y_std"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(out["y_high"], out["y_mean"] + z * out["y_std"], rtol=1e-5, atol=1e-5)
    assert (tmp_path / "out.csv").read_text().splitlines()[1].startswith("row 0,")  # no needless quotation marks


def test_parquet_from_csv_has_numbers(folder, tmp_path):
    done("predict", folder / "number.npn", folder / "new.csv", "-o", tmp_path / "out.parquet")
    out, new = pd.read_parquet(tmp_path / "out.parquet"), pd.read_csv(folder / "new.csv")
    pd.testing.assert_series_equal(out["x"], new["x"])
    assert out["colour"].tolist() == new["colour"].tolist()


def test_predicted_classes(folder, tmp_path):
    done("predict", folder / "class.npn", folder / "new.parquet", "-o", tmp_path / "out.parquet", "--keep", "id")
    out = pd.read_parquet(tmp_path / "out.parquet")
    probabilities = [f"size_probability_{name}" for name in ("large", "middle, or so", "small")]
    assert list(out.columns) == ["id", "size_predicted", *probabilities, "size_uncertainty"]
    np.testing.assert_allclose(out[probabilities].sum(axis=1), 1, atol=1e-6)
    best = out[probabilities].idxmax(axis=1).str.removeprefix("size_probability_")
    assert (best == out["size_predicted"]).all()
    assert out["size_uncertainty"].between(0, 1).all()


def test_predictions_do_not_depend_on_batches_formats_or_order(folder, tmp_path, monkeypatch):
    whole = done("predict", folder / "number.npn", folder / "new.csv", "--bare")
    assert whole.splitlines()[0] == "y_mean,y_std,y_low,y_high" and len(whole.splitlines()) == 41
    other = pd.read_csv(folder / "new.csv").iloc[:, ::-1].assign(more=1)
    other.to_csv(tmp_path / "other.csv", index=False)
    monkeypatch.setattr(table_files.read, "_BLOCK_BYTES", 600)
    monkeypatch.setattr(table_files.read, "BATCH_ROWS", 7)
    for again in (tmp_path / "other.csv", folder / "new.parquet"):
        text = done("predict", folder / "number.npn", again, "--bare")
        both = [np.array([line.split(",") for line in t.splitlines()[1:]], float) for t in (whole, text)]
        np.testing.assert_allclose(*both, rtol=1e-5, atol=1e-6)


def test_evaluate_classes_leaves_out_rows_without_a_target(folder, tmp_path):
    data = frame(50)
    data.loc[:9, "size"] = None
    data.to_csv(tmp_path / "test.csv", index=False)
    text = done("evaluate", folder / "class.npn", tmp_path / "test.csv")
    assert "test.csv: 40 rows with a target, of 50." in text
    assert "error rate" in text


def test_info(folder, tmp_path):
    text = done("info", folder / "class.npn")
    for words in (
        "TableModel",
        "Predicts size (one of 3 classes), learnt from 100 rows of data.csv.",
        "colour",
        "Brier",
    ):
        assert words in text
    io.save(npn.nn.mlp([2, 3, 1]), tmp_path / "net.npn")
    assert "Sequential" in done("info", tmp_path / "net.npn")


def test_names_are_shown_as_they_are(tmp_path):
    data = frame(40)[["x", "y"]].rename(columns={"x": "[red]x[/red] :smile:"})
    data.to_csv(tmp_path / "data.csv", index=False)
    done("fit", tmp_path / "data.csv", "-t", "y", "-o", tmp_path / "m.npn", *BARE)
    assert "[red]x[/red] :smile:" in done("info", tmp_path / "m.npn")


def test_large_files_are_sampled_and_rows_without_target_dropped(folder, tmp_path):
    data = frame(300)
    data.loc[::3, "y"] = np.nan
    data.to_csv(tmp_path / "data.csv", index=False)
    text = done("fit", tmp_path / "data.csv", "-t", "y", "--max-rows", 50, "-o", tmp_path / "m.npn", *BARE)
    assert "not used: 100 rows without a target." in text
    assert "a random sample of 50 of the 200 rows is used (--max-rows)." in text
    assert "Learning from 40 rows; 10 are held out for testing" in text


def test_tables_come_through_a_pipe(folder, tmp_path):
    """In every format; a model that learnt from a pipe is the one that learnt from the file."""
    out, data = tmp_path / "m.npn", (folder / "data.csv").read_bytes()
    assert "standard input: 120 rows" in done("fit", "-", "-t", "y", "-o", out, *BARE, input=data)
    whole = done("predict", out, folder / "new.parquet", "--bare")
    assert done("predict", out, "-", "--bare", input=(folder / "new.parquet").read_bytes()) == whole
    done("fit", folder / "data.csv", "-t", "y", "-o", out, *BARE)
    assert done("predict", out, folder / "new.parquet", "--bare") == whole
    assert "120 rows with a target" in done("evaluate", out, "-", input=gzip.compress(data))


def test_german_tables_from_fit_to_predict(tmp_path):
    """The notation of the training table is that of new tables, in which plain numbers are welcome too."""
    data = frame(60)[["x", "y"]] * 1000
    text = data.to_csv(sep=";", decimal=",", index=False, float_format="%.2f")
    (path := tmp_path / "data.csv").write_bytes(("Größe;Preis" + text[3:]).encode("cp1252"))
    printed = done("fit", path, "-t", "Preis", "-o", tmp_path / "m.npn", *BARE)
    assert "Preis: read as numbers with decimal comma" in printed and "not UTF-8" in printed
    assert "Preis is taken as a real number" in printed
    german = done("predict", tmp_path / "m.npn", path, "--bare")
    data.round(2).rename(columns={"x": "Größe"}).to_csv(tmp_path / "plain.csv", index=False)
    assert done("predict", tmp_path / "m.npn", tmp_path / "plain.csv", "--bare") == german
    assert "60 rows with a target" in done("evaluate", tmp_path / "m.npn", path)
    assert "numbers with a decimal comma" in done("info", tmp_path / "m.npn")


def test_words_for_missing_and_identifiers_can_be_named(tmp_path):
    data = frame(60)[["x", "y"]].assign(x=lambda f: f["x"].astype(object).fillna("void of"), number=range(60))
    data.to_csv(tmp_path / "data.csv", index=False)
    args = ["fit", tmp_path / "data.csv", "-t", "y", "-o", tmp_path / "m.npn", *BARE]
    printed = done(*args, "--na", "void of", "--use", "number")
    assert "columns to learn from: 2." in printed and "left out" not in printed
    assert "columns to learn from: 1." in (printed := done(*args, "--na", "void of"))
    assert "left out: 'number' numbers the rows from 0 to 59; to use it: --use number." in printed
    assert len(done("predict", tmp_path / "m.npn", tmp_path / "data.csv", "--bare").splitlines()) == 61


def test_a_file_without_a_header_keeps_its_first_row(tmp_path):
    data = frame(60)[["x", "colour", "y"]]
    data.to_csv(tmp_path / "data.csv", index=False, header=False)
    out = tmp_path / "m.npn"
    printed = done("fit", tmp_path / "data.csv", "-t", "3", "--drop", "2", "-o", out, *BARE)
    assert "data.csv: 60 rows, columns to learn from: 1." in printed and "column_1 to column_3" in printed
    predicted = done("predict", out, "-", input=b"0.5,violet,1\n").splitlines()
    assert predicted[0].startswith("column_1,column_2,column_3,column_3_mean,") and len(predicted) == 2
    assert "60 rows with a target" in done("evaluate", out, tmp_path / "data.csv")
    data.to_csv(tmp_path / "named.csv", index=False, header=["column_1", "column_2", "column_3"])
    bare = (done("predict", out, tmp_path / name, "--bare") for name in ("data.csv", "named.csv"))
    assert len(set(bare)) == 1


def test_numbers_far_outside_the_training_values_are_named(tmp_path):
    data = pd.DataFrame({"x": np.linspace(5, 25, 60), "y": np.sin(np.arange(60))})
    data.to_csv(tmp_path / "data.csv", index=False)
    done("fit", tmp_path / "data.csv", "-t", "y", "-o", tmp_path / "m.npn", *BARE)
    for cells, words in {
        ("12.345", "225"): "",
        ("7", "226"): "'x' is 226 in row 2, far outside the training values (5 to 25)",
        ("-196", "7"): "'x' is -196 in row 1",
        ("12,345", "7,5"): "writes 'x' with a decimal comma",
    }.items():
        (tmp_path / "new.csv").write_text("\n".join(["x;y", *(f"{cell};1" for cell in cells), ""]))
        for command in (["predict", "--bare"], ["evaluate"]):
            result = run(*command[:1], tmp_path / "m.npn", tmp_path / "new.csv", *command[1:])
            assert result.exit_code == 0 and words in result.stderr and bool(words) == bool(result.stderr)


def test_an_exposure_is_read_wherever_the_model_goes(tmp_path):
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.normal(size=80), "years": rng.uniform(0.1, 5, 80)})
    data["claims"] = rng.poisson(data["years"] * np.exp(0.3 * data["x"]))
    data.to_csv(path := tmp_path / "data.csv", index=False)
    model, new = tmp_path / "m.npn", tmp_path / "new.csv"
    text = done("fit", path, "-t", "claims", "--exposure", "years", "-o", model, *BARE)
    assert "a count (negative binomial), in proportion to years: whole numbers from 0" in text
    assert "in proportion to years" in done("info", model) and "NLL" in done("evaluate", model, path)
    data.assign(years=2 * data["years"]).to_csv(new, index=False)
    one, two = (pd.read_csv(StringIO(done("predict", model, table, "--bare"))) for table in (path, new))
    np.testing.assert_allclose(two["claims_mean"], 2 * one["claims_mean"], rtol=1e-5)
    data.assign(years=data["years"].where(data.index != 6, 0)).to_csv(new, index=False)
    assert "'years' should be a number above 0 in every row; row 7 holds 0" in refused("predict", model, new)
    assert "'years' is missing" in refused("predict", model, _without(new, "years"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-t", "y", "--exposure", "cuont"], "Did you mean 'count'?"),
        (["-t", "y", "--exposure", "size"], "The exposure 'size' should hold numbers"),
        (["-t", "y", "--exposure", "y"], "can be neither the target nor dropped"),
        (["-t", "y", "--exposure", "share", "--drop", "share"], "can be neither the target nor dropped"),
        (["-t", "y", "--exposure", "share", "--family", "gaussian"], "goes with counts and positive amounts"),
        (["-t", "size", "--exposure", "share"], "is taken as class"),
    ],
)
def test_no_exposure_is_refused(folder, tmp_path, arguments, words):
    assert words in refused("fit", folder / "data.csv", *arguments, "-o", tmp_path / "m.npn", *BARE)


def _without(path: Path, column: str) -> Path:
    pd.read_csv(path).drop(columns=column).to_csv(path, index=False)
    return path


def test_a_total_is_neither_learnt_from_nor_judged(tmp_path):
    text = frame(60)[["colour", "x", "y"]].to_csv(index=False)
    (tmp_path / "data.csv").write_text(text)
    (tmp_path / "total.csv").write_text(text + "Total,1000,1000\n")
    printed = []
    for name in ("data", "total"):
        out = tmp_path / f"{name}.npn"
        done("fit", tmp_path / f"{name}.csv", "-t", "y", "-o", out, *BARE)
        printed.append(done("evaluate", out, tmp_path / f"{name}.csv").replace("total.csv", "data.csv"))
    assert printed[0] == printed[1] and "60 rows with a target, of 60" in printed[0]
    assert len(done("predict", out, tmp_path / "total.csv").splitlines()) == 62  # every row of the input has its own


def test_a_model_worse_than_none_says_so(tmp_path):
    """Columns without any information: what was tried and kept is said in words, in the report too."""
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.normal(size=(60, 9)), columns=[*"abcdefgh", "y"])
    data.to_csv(tmp_path / "data.csv", index=False)
    out = tmp_path / "m.npn"
    printed = done("fit", tmp_path / "data.csv", "-t", "y", "-o", out, "--epochs", 2, "--hidden", 4)
    worse = "Worse than predicting the same distribution for every row"
    assert "Also tried: a stronger prior" in printed and "were used to choose" in printed
    record = io.load(out).record
    assert (worse in printed) == record.is_worse == (worse in (text := (tmp_path / "m.html").read_text()))
    assert 'class="warning"' in text
    nll = next(figure for figure in record.figures if figure.name == "NLL (nats)")
    assert record.is_worse == (nll.model >= nll.marginal)
    assert f'<td class="best">{nll.shown()[2 if record.is_worse else 1]}</td>' in text
    assert record.notes[0] in done("info", out)


def test_many_classes_give_the_most_likely(tmp_path):
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.normal(size=400), "y": [f"class {i % 25}" for i in range(400)]})
    data.to_csv(tmp_path / "data.csv", index=False)
    done("fit", tmp_path / "data.csv", "-t", "y", "-o", tmp_path / "m.npn", *BARE)
    few = done("predict", tmp_path / "m.npn", tmp_path / "data.csv", "--bare").splitlines()
    assert few[0].startswith("y_predicted,y_top1,y_top1_probability,y_top2,") and len(few[0].split(",")) == 12
    every = done("predict", tmp_path / "m.npn", tmp_path / "data.csv", "--bare", "--top", 0)
    assert len(every.splitlines()[0].split(",")) == 27
    first = few[1].split(",")
    assert first[0] == first[1] and float(first[2]) >= float(first[4])
    assert all(len(cell.replace("0.", "").lstrip("0")) <= 7 for cell in first if cell[:2] == "0." and "e" not in cell)


def test_help_has_examples():
    for command in ("fit", "predict", "evaluate", "info"):
        assert "Example" in done(command, "--help") and f"  npn {command} " in done(command, "--help")


def test_data_commands(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHNPN_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    text = done("data", "list")
    assert all(one.name in text for one in datasets.available())
    assert "absent" in done("data", "verify")
    assert "there is no data set 'concret'" in refused("data", "fetch", "concret")
    path = datasets.available()[0].path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"junk")
    result = run("data", "verify")
    assert result.exit_code == 1 and result.stderr.startswith(f"npn: damaged: {datasets.available()[0].name}")


def test_data_that_cannot_be_fetched(monkeypatch):
    def unreachable(name, progress=None):
        raise datasets.DownloadError("The source cannot be reached.")

    monkeypatch.setattr(datasets, "fetch", unreachable)
    name = datasets.available()[0].name
    assert refused("data", "fetch", name, status=1) == "npn: The source cannot be reached."
