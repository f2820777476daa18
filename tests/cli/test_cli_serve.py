"""`npn serve` as a process: it says where it is, answers, and stops when it is told to; mistakes are one line."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

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


def test_mistakes_are_one_line(path, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port}: Address already in use" in refused("serve", path, "--port", port)
    assert "cannot listen at nowhere.invalid" in refused("serve", path, "--host", "nowhere.invalid")
    assert "cannot read" in refused("serve", tmp_path / "nothing.npn", "--port", 0)
