"""`npn serve` as a process: it says where it is, answers, and stops when it is told to; mistakes are one line."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import pandas as pd
import pytest
from support.commands import refused

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("prometheus_client", reason="the extra `serve` is not installed")

from support.serving import Client, model

import torchnpn as npn


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    npn.save(model("y"), file := tmp_path_factory.mktemp("serve") / "model.npn")
    return file


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_stop(path, number):
    command = [sys.executable, "-m", "torchnpn", "serve", str(path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        port = int(line.split("127.0.0.1:")[1].split("/")[0])
        assert line.startswith("Predicting y at http://")
        ask = Client(port)
        while ask.get("/health").status != 200:
            pass
        assert ask.post("/predict", {"x": 1, "colour": None, "day": None}).status == 200
        os.kill(process.pid, number)
        said, errors = process.communicate()
    assert (process.returncode, said, errors) == (0, "Stopped.\n", "")


@pytest.mark.slow
def test_an_exported_file_is_served_by_npn_runtime(path, tmp_path):
    for package in ("onnx", "onnxruntime", "npn_runtime"):
        pytest.importorskip(package)
    npn.export(fitted := npn.load(path), file := tmp_path / "model.onnx")
    command = [sys.executable, "-m", "torchnpn", "serve", str(file), "--port", "0"]
    row = {"x": 1.0, "colour": "red", "day": None}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert "predictions alone" in process.stdout.readline()
        port = int(process.stdout.readline().split("127.0.0.1:")[1].split("/")[0])
        answer = Client(port).post("/predict", row).json
        expected = fitted.predict(pd.DataFrame([row]))
        assert answer["y_mean"] == pytest.approx(expected["y_mean"][0], abs=1e-4)
        assert answer["y_high"] == pytest.approx(expected["y_high"][0], abs=1e-3)
        assert "There are POST /predict" in Client(port).post("/explain", row).sentence
        os.kill(process.pid, signal.SIGTERM)
        _, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")


def test_mistakes_are_one_line(path, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port}: Address already in use" in refused("serve", path, "--port", port)
    assert "cannot listen at nowhere.invalid" in refused("serve", path, "--host", "nowhere.invalid")
    assert "cannot read" in refused("serve", tmp_path / "nothing.npn", "--port", 0)
    assert "is no ONNX file" in refused("serve", _other(tmp_path / "other.onnx"), "--port", 0)


def _other(file):
    pytest.importorskip("npn_runtime")
    file.write_bytes(b"something else")
    return file
