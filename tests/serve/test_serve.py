"""A server on a real socket: what it answers, what it refuses and in which words, and many who ask at a time."""

from __future__ import annotations

import io
import json
import random
import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("prometheus_client", reason="the extra `serve` is not installed")

from support.serving import Client, frame, model, server

from torchnpn.serve import Limits
from torchnpn.serve import server as serving
from torchnpn.serve.rows import RowReader

ROW = {"x": 0.5, "colour": "red", "day": "2023-06-01"}
TARGETS = ("y", "count", "kind")


@pytest.fixture(scope="module")
def models():
    return {target: model(target) for target in TARGETS}


@pytest.fixture(scope="module")
def ports(models):
    with server(models["y"]) as y, server(models["count"]) as count, server(models["kind"]) as kind:
        yield {"y": y, "count": count, "kind": kind}


@pytest.fixture
def client(ports):
    return Client(ports["y"])


def rows(count: int) -> pd.DataFrame:
    return frame(count)[["x", "colour", "day"]]


def as_json(table: pd.DataFrame) -> list[dict]:
    return table.astype(object).where(table.notna(), None).to_dict("records")


def same(found: pd.DataFrame, expected: dict, rtol: float) -> None:
    assert list(found.columns) == list(expected)
    for name, column in expected.items():
        if column.dtype.kind in "fi":
            np.testing.assert_allclose(found[name].astype(float), column, rtol=rtol, atol=1e-9)
        else:
            assert found[name].tolist() == column.tolist()


@pytest.mark.parametrize("target", TARGETS)
def test_answers_are_predictions_of_the_model(models, ports, target):
    table, ask = rows(30), Client(ports[target])
    expected = models[target].predict(table, level=0.8)
    answer = ask.post("/predict?level=0.8", as_json(table))
    assert answer.status == 200
    same(pd.DataFrame(answer.json), expected, 1e-9)
    alone = [ask.post("/predict?level=0.8", row).json for row in as_json(table)]
    same(pd.DataFrame(alone), expected, 1e-9)
    answer = ask.post("/predict?level=0.8", table.to_csv(index=False).encode(), "text/csv; charset=utf-8")
    found = pd.read_csv(io.BytesIO(answer.body))
    pd.testing.assert_frame_equal(found[list(table.columns)], table)
    same(found[list(expected)], expected, 1e-6)  # seven digits


@pytest.mark.parametrize(
    "row",
    [
        ROW,
        {**ROW, "x": None, "colour": None, "day": None},
        {**ROW, "x": 3},
        {**ROW, "x": " 1,234.5 ", "colour": " red "},
        {**ROW, "colour": "never seen", "id": [1, 2]},
        {**ROW, "x": "n/a", "colour": "NA", "day": "?"},
        {**ROW, "x": -0.0, "day": "2023-06-01 12:30"},
    ],
)
def test_one_row_is_read_as_among_others(models, row):
    reader = RowReader(models["y"].schema)
    np.testing.assert_array_equal(reader.encode([row]), reader.encode([row, ROW])[:1])


def test_a_file_with_decimal_commas_is_read_as_the_command_reads_it(models, client):
    table = rows(20)
    text = table.to_csv(sep=";", decimal=",", index=False)
    answer = client.post("/predict", text.encode("cp1252"), "text/csv")
    assert answer.status == 200
    found = pd.read_csv(io.BytesIO(answer.body))
    np.testing.assert_allclose(found.y_mean, models["y"].predict(table)["y_mean"], rtol=1e-6)


REFUSED = {
    "no JSON": (b"[", 400, "not JSON"),
    "nothing": (b"", 400, "not JSON"),
    "other bytes": (b"\xff\xfe\x00", 400, "not JSON"),
    "deep": (b"[" * 100_000, 400, "nested too deeply"),
    "a long integer": (b"9" * 10_000, 400, "not JSON"),
    "a number": (b"5", 422, "got '5'"),
    "no rows": (b"[]", 422, "an empty list"),
    "no objects": (b"[1]", 422, "row 1 is '1'"),
    "NaN": (b'{"x": NaN}', 422, "send null"),
    "misspelt": ({"x": 1, "color": "red", "day": None}, 422, "'colour' is missing from row 1"),
    "text for a number": ({**ROW, "x": "abc"}, 422, "should hold numbers; row 1 holds 'abc'"),
    "a truth value for a number": ({**ROW, "x": True}, 422, "should hold numbers"),
    "text in the second row": ([ROW, {**ROW, "x": "abc"}], 422, "row 2 holds 'abc'"),
    "a list in a cell": ({**ROW, "x": [1]}, 422, "'x'"),
    "an object among numbers": ([ROW, {**ROW, "x": {}}], 422, "an object in row 2"),
    "half a character": ({**ROW, "colour": "\ud800"}, 422, "half a character"),
    "too large": ({**ROW, "x": 1e300}, 422, "3e38"),
    "far too large": ({**ROW, "x": 10**400}, 422, "3e38"),
    "too far out": ({**ROW, "x": 1e37}, 422, "standard deviations"),
    "no date": ({**ROW, "day": "the first of May"}, 422, "'day'"),
    "a number for a date": ({**ROW, "day": 5}, 422, "'day'"),
}


@pytest.mark.parametrize(("body", "status", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_predicted_is_refused_in_a_sentence(client, body, status, words):
    answer = client.post("/predict", body)
    assert answer.status == status
    assert words in answer.sentence


CSV_REFUSED = {
    "nothing": (b"", 422, "is empty"),
    "a header": (b"x,colour,day\n", 422, "no rows"),
    "ragged": (b"x,colour,day\n1,red\n", 422, "2 cells"),
    "zero bytes": (b"x,colour,day\n\0,red,2023-01-01\n", 422, "zero bytes"),
    "other columns": (b"a,b\n1,2\n", 422, "missing from the file"),
    "a name twice": (b"x,x,colour,day\n1,1,red,2023-01-01\n", 422, "two columns"),
    "columns of predictions": (b"x,colour,day,y_mean\n1,red,2023-01-01,5\n", 422, "already has a column"),
    "very wide": (b"," * 100_000, 413, "columns"),
}


@pytest.mark.parametrize(("body", "status", "words"), CSV_REFUSED.values(), ids=CSV_REFUSED)
def test_tables_that_cannot_be_read_are_refused_in_a_sentence(client, body, status, words):
    answer = client.post("/predict", body, "text/csv")
    assert answer.status == status
    assert words in answer.sentence


def test_requests_that_are_none_are_refused(client):
    assert "from 0.01 to 0.999, got '2'" in client.post("/predict?level=2", ROW).sentence
    assert client.post("/predict?level=nan", ROW).status == 422
    assert client.post("/predict", b"<row/>", "text/xml").status == 415
    assert client.post("/predict", ROW, "application/x-www-form-urlencoded").status == 200  # what curl -d says
    assert client.get("/predict").status == 405
    assert "GET /health" in client.get("/nothing").sentence
    assert "a list of 2" in client.post("/explain", [ROW, ROW]).sentence


def test_limits_hold(models):
    with server(models["y"], Limits(body=2_000, rows=5, columns=6, seconds=0.5)) as port:
        ask = Client(port)
        assert "at most 5 rows" in ask.post("/predict", [ROW] * 6).sentence
        assert ask.post("/predict", [ROW] * 5).status == 200
        assert "columns" in ask.post("/predict", {**ROW, **{f"c{i}": 0 for i in range(6)}}).sentence
        assert "2,000 bytes" in Client(port).post("/predict", b" " * 2_001).sentence
        lines = b"x,colour,day\n" + b"1,red,2023-01-01\n" * 6
        assert "at most 5 rows" in Client(port).post("/predict", lines, "text/csv").sentence
        head = b"POST /predict HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\n{"
        with socket.create_connection(("127.0.0.1", port)) as slow:
            slow.sendall(head)
            assert slow.recv(1000).startswith(b"HTTP/1.1 408")
        assert ask.get("/health").status == 200


def test_too_many_rows_wait(models):
    with server(models["y"], Limits(waiting=3)) as port:
        answer = Client(port).post("/predict", [ROW] * 4)
        assert answer.status == 503
        assert "waiting" in answer.sentence
        assert Client(port).post("/predict", [ROW] * 3).status == 200


@pytest.mark.parametrize("start", [b"", b"GET /health HTT", b"GET /health HTTP/1.1\r\nHost: here\r\n"])
def test_a_head_that_does_not_come_ends_the_connection(models, monkeypatch, start):
    monkeypatch.setattr(serving, "_HEAD_SECONDS", 0.2)
    with (
        server(models["y"]) as port,
        socket.create_connection(("127.0.0.1", port)) as slow,
    ):
        slow.sendall(start)
        assert ended(slow)


def test_a_head_without_end_ends_the_connection(ports):
    with socket.create_connection(("127.0.0.1", ports["y"])) as endless:
        try:
            endless.sendall(b"GET /health HTTP/1.1\r\n" + b"X-Name: value\r\n" * 100_000)
        except OSError:
            return  # it had ended before all was sent
        assert ended(endless)


def ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1000) == b""
    except ConnectionResetError:
        return True


def test_who_asks_at_a_time_gets_the_own_answer(models, ports):
    """Requests of one row and of many, at two levels, some of which are refused."""
    rng = np.random.default_rng(0)
    table = rows(60).assign(x=rng.normal(size=60))
    at = {level: models["y"].predict(table, level) for level in (0.5, 0.9)}
    every = as_json(table)

    def talk(number: int) -> int:
        ask, order = Client(ports["y"]), random.Random(number)
        for _ in range(25):
            level, size = order.choice([0.5, 0.9]), order.choice([1, 1, 1, 7])
            places = [order.randrange(60) for _ in range(size)]
            wrong = order.random() < 0.1
            body = [{**every[i], **({"x": 1e37} if wrong else {})} for i in places]
            answer = ask.post(f"/predict?level={level}", body)
            assert answer.status == (422 if wrong else 200)
            if not wrong:
                same(pd.DataFrame(answer.json), {name: column[places] for name, column in at[level].items()}, 1e-9)
        return number

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(talk, range(8))) == list(range(8))


def test_whoever_leaves_disturbs_nobody(ports):
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", ports["y"])) as rude:
            body = json.dumps(ROW).encode()
            rude.sendall(b"POST /predict HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert Client(ports["y"]).post("/predict", ROW).status == 200


def test_random_bodies_get_an_answer_or_a_sentence(ports):
    rng, ask = random.Random(0), Client(ports["y"])
    start = {"application/json": json.dumps([ROW, {**ROW, "x": None}]).encode(), "text/csv": rows(5).to_csv().encode()}
    cells = [None, True, -1, 1e9, 1e308, "", "red", "2023-01-01", "1e400", "\x00", "é" * 50, [], {}, [[1]], "=1+1", "-"]
    statuses = set()
    for turn in range(300):
        kind = rng.choice(list(start))
        if turn % 3 == 0:
            kind = "application/json"
            body = json.dumps([{name: rng.choice(cells) for name in ROW} for _ in range(rng.randrange(1, 4))]).encode()
        else:
            changed = bytearray(start[kind])
            for _ in range(rng.randrange(1, 6)):
                place = rng.randrange(len(changed))
                changed[place : place + rng.randrange(3)] = bytes(rng.randrange(256) for _ in range(rng.randrange(4)))
            body = bytes(changed)
        answer = ask.post("/predict", body, kind)
        statuses.add(answer.status)
        assert answer.status == 200 or answer.sentence
    assert statuses <= {200, 400, 413, 422}
    assert {200, 400, 422} <= statuses


@pytest.mark.parametrize("target", TARGETS)
def test_a_row_is_explained(models, ports, target):
    ask, fitted = Client(ports[target]), models[target]
    answer = ask.post("/explain?level=0.8", ROW).json
    table = pd.DataFrame([ROW] + [{**ROW, name: None} for name in ROW])
    predicted = fitted.predict(table, level=0.8)
    assert [cell["column"] for cell in answer["cells"]] == list(ROW)
    if target == "kind":
        best = answer["best"]
        values, spreads = predicted[f"kind_probability_{best}"], predicted["kind_uncertainty"]
        assert best == predicted["kind_predicted"][0]
        assert sum(answer["probabilities"].values()) == pytest.approx(1)
    else:
        values, spreads = predicted[f"{target}_mean"], predicted[f"{target}_std"]
        for name in ("mean", "std", "low", "high"):
            assert answer[name] == pytest.approx(predicted[f"{target}_{name}"][0])
        assert np.hypot(answer["noise"], answer["model"]) == pytest.approx(answer["std"], rel=1e-6)
        x, y = np.array(answer["shape"]["x"]), np.array(answer["shape"]["y"])
        assert (y.sum() if target == "count" else np.trapezoid(y, x)) == pytest.approx(1, abs=5e-3)
    for i, cell in enumerate(answer["cells"], 1):
        assert cell["mean"] == pytest.approx(values[0] - values[i], abs=1e-9)
        assert cell["spread"] == pytest.approx(spreads[0] - spreads[i], abs=1e-9)
    assert ask.post("/explain", {**ROW, "x": None}).json["cells"][0]["column"] == "colour"
    assert "far outside" in ask.post("/explain", {**ROW, "x": 1e4}).json["far"]


@pytest.mark.parametrize("target", TARGETS)
def test_it_says_what_it_is(ports, target):
    ask = Client(ports[target])
    about, api = ask.get("/model").json, ask.get("/openapi.json").json
    usual = {column["name"]: column["usual"] for column in about["columns"]}
    assert set(usual) == set(api["components"]["schemas"]["Row"]["required"])
    prediction = ask.post("/predict", usual).json
    assert set(api["components"]["schemas"]["Prediction"]["properties"]) <= set(prediction)
    for path, methods in api["paths"].items():
        assert "get" not in methods or ask.get(path).status == 200
    number, date = (next(one for one in about["columns"] if one["kind"] == kind) for kind in ("number", "date"))
    assert number["low"] <= number["usual"] <= number["high"]
    assert "2022-12-25" <= date["low"] < date["usual"] < date["high"] <= "2024-12-10"


def test_it_counts(models):
    with server(models["y"]) as port:
        ask = Client(port)
        ask.post("/predict", [ROW] * 3), ask.post("/predict", b"["), ask.get("/health"), ask.get("/nothing")
        text = ask.get("/metrics").body.decode()
    assert 'npn_requests_total{path="/predict",status="200"} 1.0' in text
    assert 'npn_requests_total{path="/predict",status="400"} 1.0' in text
    assert 'npn_requests_total{path="other",status="404"} 1.0' in text
    assert "npn_rows_total 3.0" in text
    assert "npn_waiting_rows 0.0" in text


def test_the_page_needs_nothing_from_elsewhere(client):
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    for path in ("/", "/style.css", "/page.js", "/controls.js", "/drawing.js"):
        answer = client.get(path)
        assert answer.status == 200
        text = answer.body.decode().replace("http://www.w3.org/2000/svg", "").replace("url(#inside)", "")
        assert not any(word in text for word in ("http:", "https:", "@import", "url("))


def test_servers_in_one_process_share_nothing(models):
    with server(models["y"]) as one, server(models["kind"]) as other:
        Client(one).post("/predict", ROW)
        assert "y_mean" in Client(one).post("/predict", ROW).json
        assert "kind_predicted" in Client(other).post("/predict", ROW).json
        assert "npn_rows_total 1.0" in Client(other).get("/metrics").body.decode()
