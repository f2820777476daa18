"""npn-runtime predicts what torchnpn predicts, from tables of every kind, and says in a line what is wrong."""

from __future__ import annotations

import csv
import datetime
import json
import math
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import npn_runtime
import numpy as np
import onnx
import pandas as pd
import pyarrow as pa
import pytest
from npn_runtime.command import main
from npn_runtime.server import MOST_BYTES, Server

import torchnpn as npn
from torchnpn.tables import TableModel

ROOT = Path(__file__).parents[2]


def table(rows: int, seed: int) -> pd.DataFrame:
    """Numbers, categories, dates, an exposure, and gaps in all but the last."""
    rng = np.random.default_rng(seed)
    x, kind, months = rng.normal(size=rows), rng.choice(["car", "van", "a 'bike'"], rows), rng.integers(1, 13, rows)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1_500, rows), "D")
    return pd.DataFrame(
        {
            "x": np.where(rng.random(rows) < 0.1, np.nan, x),
            "kind": np.where(rng.random(rows) < 0.1, None, kind),
            "day": [None if rng.random() < 0.1 else str(day.date()) for day in days],
            "months": months,
            "claims": rng.poisson(months / 6 * np.exp(0.3 * x)),
            "cost": 10 + x + (kind == "van") + rng.normal(0, 0.3, rows),
            "grade": np.array(["low", "mid", "high"])[np.digitize(x + rng.normal(0, 0.3, rows), [-0.5, 0.5])],
        }
    )


def export(model, path, **options):
    npn.export(model, path, **options)
    return npn_runtime.load(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runtime")


@pytest.fixture(scope="module")
def models(folder):
    """Models of a number, a count with exposure and a class: as torchnpn has them, and as the runtime."""
    rows = table(300, seed=0)
    made = {}
    for target, drop, more in (
        ("cost", ["claims", "grade", "months"], {}),
        ("claims", ["cost", "grade"], {"family": "poisson", "exposure": "months"}),
        ("grade", ["cost", "claims", "months"], {}),
    ):
        fitted = TableModel.fit(rows.drop(columns=drop), target, **more, effort="quick", max_epochs=10)
        npn.save(fitted, folder / f"{target}.npn")
        made[target] = fitted, export(fitted, folder / f"{target}.onnx", levels=(0.05, 0.25, 0.75, 0.95))
    return made


@pytest.fixture(scope="module")
def new():
    rows = table(40, seed=1)
    rows.loc[3, "kind"] = "spaceship"  # never met in training
    rows.loc[4, "x"] = 1e6
    return rows.drop(columns=["claims", "cost", "grade"])


def assert_close(found, expected, atol=1e-4):
    """The same columns in the same order; numbers in proportion to their spread."""
    assert list(found) == list(expected)
    for name, column in expected.items():
        if column.dtype.kind == "f":
            scale = np.std(column) + np.abs(column) + 1e-6
            np.testing.assert_allclose(found[name] / scale, column / scale, rtol=0, atol=atol, err_msg=name)
        else:
            assert list(found[name]) == list(column)


@pytest.mark.parametrize("target", ["cost", "grade"])
def test_predictions_are_those_of_torchnpn(models, new, target):
    fitted, model = models[target]
    assert_close(model.predict(new), fitted.predict(new))


def test_counts_in_proportion_to_an_exposure(models, new):
    """How near the ends of intervals of each family are is a matter of the file, and compared in tests/export."""
    fitted, model = models["claims"]
    (found, expected) = (
        {name: one.predict(new)[name] for name in ("claims_mean", "claims_std")} for one in (model, fitted)
    )
    assert_close(found, expected)
    with pytest.raises(npn_runtime.TableError, match="exposure 'months' should be a number above 0"):
        model.predict(new.assign(months=0))


def test_tables_of_every_kind_predict_the_same(models, new, folder):
    _, model = models["cost"]
    expected = model.predict(new)
    new.to_csv(folder / "rows.csv", index=False)
    new.to_csv(folder / "semicolons.csv.gz", index=False, sep=";", decimal=",", encoding="utf-16")
    lists = {name: [None if pd.isna(cell) else cell for cell in new[name]] for name in new}
    typed = new.assign(day=pd.to_datetime(new["day"]), kind=new["kind"].astype("category"), more=1)
    for kind in (
        new[["day", "x", "kind"]],  # in another order, without what it does not read
        typed,
        new.convert_dtypes(),
        pa.Table.from_pandas(typed, preserve_index=False),
        lists,
        {name: np.array(cells, object) for name, cells in lists.items()},
        folder / "rows.csv",
        str(folder / "semicolons.csv.gz"),
    ):
        assert_close(model.predict(kind), expected, atol=1e-12)


def test_a_frame_of_polars(models, new):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    _, model = models["cost"]
    assert_close(model.predict(polars.from_pandas(new)), model.predict(new))


def test_levels_that_the_file_has(models, new):
    fitted, model = models["cost"]
    assert_close(model.predict(new, level=0.5), fitted.predict(new, level=0.5), atol=1e-3)
    with pytest.raises(npn_runtime.ModelError, match=r"intervals of level 0\.9, .* Export it with an interval of 0\.8"):
        model.predict(new, level=0.8)


def test_all_outputs(models, new):
    _, model = models["cost"]
    found = model.outputs(new)
    np.testing.assert_allclose(found["epistemic"] + found["aleatoric"], found["variance"], rtol=1e-12)
    assert found["quantiles"].shape == (40, 4)


def test_estimators_from_arrays(folder):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.stack([X[:, 0], X[:, 1]], 1)
    both = npn.NPNRegressor(effort="quick", max_epochs=3, random_state=0).fit(X, y)
    found = export(both, folder / "both.onnx").predict(X)
    assert list(found) == [f"{part}_{k}" for k in (0, 1) for part in ("mean", "std", "low", "high")]
    np.testing.assert_allclose(found["mean_1"], both.predict(X)[:, 1], rtol=0, atol=1e-5)
    labels = npn.NPNClassifier(effort="quick", max_epochs=3, random_state=0).fit(X, (X[:, 0] > 0) + 7)
    found = export(labels, folder / "labels.onnx").predict(X)
    assert list(found) == ["predicted", "probability_7", "probability_8", "uncertainty"]
    assert found["predicted"].tolist() == labels.predict(X).tolist()
    with pytest.raises(npn_runtime.TableError, match="array with 3 columns, got 2"):
        npn_runtime.load(folder / "labels.onnx").predict(X[:, :2])


def test_the_most_likely_of_many_classes(folder):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.normal(size=600), "z": rng.normal(size=600)})
    rows["word"] = np.char.add("w", np.clip(rows["x"] * 8 + 12, 0, 24).astype(int).astype(str))
    fitted = TableModel.fit(rows, "word", family="class", effort="quick", max_epochs=5)
    model = export(fitted, folder / "many.onnx")
    assert_close(model.predict(rows[:20]), fitted.predict(rows[:20], top=5))
    assert_close(model.predict(rows[:20], top=0), fitted.predict(rows[:20]))


def test_no_rows(models):
    found = models["cost"][1].predict({"x": [], "kind": [], "day": []})
    assert {name: len(column) for name, column in found.items()} == dict.fromkeys(found, 0)


# The command ---------------------------------------------------------------------------------------------------------


def npn_command(*arguments):
    subprocess.run([sys.executable, "-m", "torchnpn", *map(str, arguments)], check=True, cwd=ROOT)


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cost", "grade"])
def test_the_command_writes_what_npn_predict_writes(models, new, folder, target):
    rows = new.assign(note=['=HYPERLINK("x")', "a,b", 'say "hi"', "-5", "two\nlines", *[""] * 35])
    rows.to_csv(folder / "in.csv", index=False)
    npn_command("predict", folder / f"{target}.npn", folder / "in.csv", "-o", folder / "theirs.csv")
    main(["predict", str(folder / f"{target}.onnx"), str(folder / "in.csv"), "-o", str(folder / "ours.csv")])
    theirs, ours = rows_of(folder / "theirs.csv"), rows_of(folder / "ours.csv")
    assert [list(row) for row in ours] == [list(row) for row in theirs]
    for one, other in zip(ours, theirs, strict=True):
        for name, cell in other.items():
            if name.startswith(target) and not name.endswith("predicted"):
                assert float(one[name]) == pytest.approx(float(cell), rel=1e-3, abs=1e-4), name
            else:
                assert one[name] == cell


def test_columns_to_keep(models, new, folder, capsys):
    new.to_csv(folder / "in.csv", index=False)
    main(["predict", str(folder / "cost.onnx"), str(folder / "in.csv"), "--keep", "months"])
    assert capsys.readouterr().out.startswith("months,cost_mean,cost_std,cost_low,cost_high\n")
    main(["predict", str(folder / "cost.onnx"), str(folder / "in.csv"), "--bare"])
    assert capsys.readouterr().out.startswith("cost_mean,cost_std,cost_low,cost_high\n")


def test_info_and_version(models, folder, capsys):
    main(["info", str(folder / "claims.onnx")])
    shown = capsys.readouterr().out
    assert "predicts claims (poisson, with intervals of 90%)" in shown
    assert "numbers above 0" in shown
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"npn-runtime {npn_runtime.__version__}\n"


def _changed(source, path, about):
    """A file with other metadata."""
    model = onnx.load(source)
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, about)
    onnx.save(model, path)


@pytest.fixture(scope="module")
def bad(models, new, folder):
    """Files that are wrong, each in its own way."""
    (folder / "text.onnx").write_text("no model")
    _changed(folder / "cost.onnx", folder / "stranger.onnx", {"author": "somebody"})
    about = models["cost"][1].about
    _changed(folder / "cost.onnx", folder / "future.onnx", {"torchnpn": json.dumps({**about, "format": 2})})
    _changed(folder / "cost.onnx", folder / "broken.onnx", {"torchnpn": json.dumps({**about, "columns": [{}]})})
    new.to_csv(folder / "good.csv", index=False)
    new.drop(columns="kind").rename(columns={"x": "X"}).to_csv(folder / "lacking.csv", index=False)
    new.assign(x="much").to_csv(folder / "words.csv", index=False)
    new.assign(cost_mean=1).to_csv(folder / "taken.csv", index=False)
    (folder / "ragged.csv").write_text("x,kind,day\n1,car,2024-01-01\n1,car\n")
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("x,kind,day\n")
    (folder / "twice.csv").write_text("x,x,kind,day\n1,2,car,\n")
    (folder / "quote.csv").write_text('x,kind,day\n1,"car,2024-01-01\n')
    (folder / "table.csv").write_bytes(b"PAR1 and so on")
    (folder / "not.csv.gz").write_text("x,kind,day\n")
    return folder


@pytest.mark.parametrize(
    ("model", "rows", "words"),
    [
        ("text.onnx", "good.csv", "is no ONNX file that onnxruntime can run"),
        ("cost.npn", "good.csv", "is a model file of torchnpn. Make an ONNX file of it with `npn export"),
        ("nowhere.onnx", "good.csv", "nowhere.onnx: No such file or directory"),
        ("stranger.onnx", "good.csv", "is an ONNX file, but not one of torchnpn"),
        ("future.onnx", "good.csv", "is of format '2'; this npn-runtime reads format 1"),
        ("broken.onnx", "good.csv", "its metadata do not describe a model ('name')"),
        ("cost.onnx", "nowhere.csv", "nowhere.csv: No such file or directory"),
        (
            "cost.onnx",
            "lacking.csv",
            "'x' and 1 more of those that the model reads are missing from the table. Did",
        ),
        ("cost.onnx", "words.csv", "Column 'x' should hold numbers; row 1 holds 'much'"),
        ("cost.onnx", "taken.csv", "The table already has a column 'cost_mean'"),
        ("cost.onnx", "ragged.csv", "the row with '1' in its first cell has 2 cells, the header 3"),
        ("cost.onnx", "empty.csv", "is empty. Expected a first line"),
        ("cost.onnx", "header.csv", "has a header and no rows"),
        ("cost.onnx", "twice.csv", "two columns have the name 'x'"),
        ("cost.onnx", "quote.csv", "cannot be read: unexpected end of data"),
        ("cost.onnx", "table.csv", "is a Parquet file. Expected a CSV file"),
        ("cost.onnx", "not.csv.gz", "is not a whole gzip file"),
    ],
)
def test_what_is_wrong_is_one_line(bad, capsys, model, rows, words):
    with pytest.raises(SystemExit, match="2"):
        main(["predict", str(bad / model), str(bad / rows), "-o", str(bad / "never.csv")])
    shown = capsys.readouterr()
    assert shown.err.startswith("npn-runtime: ")
    assert shown.err.count("\n") == 1
    assert words in shown.err
    assert not (bad / "never.csv").exists()
    assert not list(bad.glob(".never*"))


def test_a_network_is_refused(folder):
    npn.export(npn.nn.mlp([3, 4, 1]), folder / "network.onnx")
    with pytest.raises(npn_runtime.ModelError, match="holds a network, which reads no table"):
        npn_runtime.load(folder / "network.onnx")


@pytest.mark.parametrize("wrong", [5, [1, 2], {"x": "abc", "kind": [], "day": []}, {"x": [1], "kind": [], "day": []}])
def test_what_is_no_table_is_refused(models, wrong):
    with pytest.raises(npn_runtime.TableError):
        models["cost"][1].predict(wrong)


# The server ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address(models):
    with Server(models["cost"][1], ("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def ask(url, body=None, kind="application/json"):
    request = urllib.request.Request(url, body, {"content-type": kind})
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_server_answers_rows(models, new, address):
    expected = models["cost"][1].predict(new)
    rows = json.loads(new.to_json(orient="records"))
    status, text = ask(f"{address}/predict", json.dumps(rows).encode())
    assert status == 200
    assert [row["cost_mean"] for row in json.loads(text)] == expected["cost_mean"].tolist()
    status, text = ask(f"{address}/predict", json.dumps(rows[0]).encode())
    assert json.loads(text)["cost_std"] == pytest.approx(expected["cost_std"][0], rel=1e-6)
    status, text = ask(f"{address}/predict", new.to_csv(index=False).encode(), "text/csv")
    assert status == 200
    assert text.splitlines()[0] == "x,kind,day,months,cost_mean,cost_std,cost_low,cost_high"
    assert len(text.splitlines()) == 41
    half = models["cost"][1].predict(new, level=0.5)
    status, text = ask(f"{address}/predict?level=0.5", json.dumps(rows[0]).encode())
    assert json.loads(text)["cost_low"] == pytest.approx(half["cost_low"][0], rel=1e-6)
    for level, words in (("much", "a number such as 0.9"), ("0.77", "Export it with an interval of 0.77")):
        status, text = ask(f"{address}/predict?level={level}", json.dumps(rows[0]).encode())
        assert (status, words in json.loads(text)["error"]) == (422, True)
    assert json.loads(ask(f"{address}/health")[1])["status"] == "ok"
    assert json.loads(ask(f"{address}/model")[1])["target"]["name"] == "cost"


@pytest.mark.parametrize(
    ("body", "kind", "status", "words"),
    [
        (b"{", "application/json", 400, "not JSON"),
        (b"[" * 100_000, "application/json", 400, "not JSON"),
        (b"[]", "application/json", 422, "Expected a row"),
        (b"[1]", "application/json", 422, "Expected a row"),
        (b'{"x": 1, "day": null}', "application/json", 422, "Column 'kind' is missing from row 1; send null"),
        (b'{"x": "much", "kind": "car", "day": null}', "application/json", 422, "row 1 holds 'much'"),
        (b'{"x": [1], "kind": "car", "day": null}', "application/json", 422, "row 1 holds"),
        (b'{"x": 1e999, "kind": "car", "day": null}', "application/json", 422, "holds inf"),
        (b"\xff\xfe\x00", "text/csv", 422, "The body"),
        (b"x,kind\n1,car\n", "text/csv", 422, "Column 'day' is missing"),
        (b"x", "image/png", 415, "content-type"),
        (b"x" * (MOST_BYTES + 1), "text/csv", 413, "send the rows in parts"),
    ],
)
def test_the_server_refuses_in_a_sentence(address, body, kind, status, words):
    try:
        found, text = ask(f"{address}/predict", body, kind)
    except (urllib.error.URLError, ConnectionError):
        assert status == 413  # the server had answered and closed before all of the body was sent
        return
    assert found == status
    assert words in json.loads(text)["error"]


def test_the_server_answers_many_at_once(address):
    body = json.dumps({"x": 0.5, "kind": "car", "day": str(datetime.date(2021, 5, 1))}).encode()
    answers: list[tuple[int, str]] = []
    threads = [threading.Thread(target=lambda: answers.append(ask(f"{address}/predict", body))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 20
    assert len(set(answers)) == 1
    assert math.isfinite(json.loads(answers[0][1])["cost_mean"])
