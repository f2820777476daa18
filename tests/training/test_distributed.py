"""Several processes that torchrun starts train what one process trains."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support import ranks

import torchnpn as npn
from torchnpn import likelihoods, training
from torchnpn.training import Processes, Recipe, train

TESTS = Path(__file__).parents[1]
CASES = [
    *("-".join(case) for case in product(ranks.ENGINES, ranks.TARGETS)),
    *("-".join([*case, "weighted"]) for case in product(ranks.ENGINES, ranks.TARGETS)),
    "replicas-chain", "loader", "estimators",
]  # fmt: skip


def torchrun(processes: int, *arguments: object, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """A command in several processes of this machine."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    paths = os.pathsep.join([str(TESTS.parent), str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    return subprocess.run([*command, *options, *map(str, arguments)], env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_processes_train_what_one_trains(tmp_path):
    """Two and four, none of which has equal parts of the rows: the same losses, KL, early stopping and predictions."""
    (folder := tmp_path / "rows").mkdir()
    x = np.random.default_rng(0).normal(size=(600, 2))
    for k, part in enumerate(np.split(x, [100, 350])):  # files of different sizes
        pd.DataFrame({"a": part[:, 0], "b": part[:, 1], "y": part.sum(1)}).to_csv(folder / f"{k}.csv", index=False)
    cases = [*CASES, f"folder-{folder}"]
    expected = ranks.results(cases)
    for processes in (2, 4):
        done = torchrun(processes, ranks.__file__, tmp_path / "found.npz", *cases)
        assert done.returncode == 0, done.stderr
        found = np.load(tmp_path / "found.npz")
        for name, array in expected.items():
            bound = 1e-5 if name.endswith("curve") else 1e-4
            np.testing.assert_allclose(found[name], array, rtol=bound, atol=bound, err_msg=f"{name}, {processes}")


@pytest.mark.slow
def test_layers_can_be_sharded_in_a_loop_of_ones_own(tmp_path):
    done = torchrun(4, ranks.__file__, tmp_path / "found.npz", "sharded")
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "found.npz")
    for name, array in ranks.results(["sharded"]).items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.slow
def test_a_killed_process_loses_the_work_since_the_last_checkpoint(tmp_path):
    case = f"killed-{tmp_path / 'run.ckpt'}"
    done = torchrun(2, ranks.__file__, tmp_path / "found.npz", case, options=("--max-restarts=2",))
    assert done.returncode == 0, done.stderr
    found, expected = np.load(tmp_path / "found.npz"), ranks.trained("chain", "regression", True)
    for name, array in expected.items():
        np.testing.assert_allclose(found[f"{case} {name}"], array, rtol=1e-5, atol=1e-5)
    assert found[f"{case} restarts"] == 2
    assert found[f"{case} computed"][0] in (5, 6)  # the second one was killed after five epochs


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_parts_are_whole_and_alike(count):
    every = [Processes(rank, count) for rank in range(count)]
    for rows in range(40):
        parts = [list(range(rows))[one.part(rows)] for one in every]
        assert [row for part in parts for row in part] == list(range(rows))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        assert all(
            len(range(rows + 1)[one.part(rows + 1)]) >= len(part) for one, part in zip(every, parts, strict=True)
        )


def test_one_process_joins_nobody():
    assert training.join() == Processes()
    with pytest.raises(ValueError, match="torchrun --nproc-per-node=2"):
        training.join("ddp")
    with pytest.raises(ValueError, match="'auto', 'ddp'"):
        training.join("both")
    with pytest.raises(ValueError, match=r"'fsdp'\. To shard weights"):
        training.join("fsdp")


def test_processes_with_other_rows_are_told(monkeypatch):
    """Each has rows of its own, and takes a part of them: most rows would never be seen."""
    monkeypatch.setattr(Processes, "all_of", lambda self, value: [value, {**value, "data": "others"}])
    monkeypatch.setattr("torchnpn.training.loop.join", lambda strategy: Processes(0, 2, connected=True))
    net, (_, y, _) = ranks.network("tape", 1), ranks.TARGETS["regression"]
    with pytest.raises(ValueError, match=r"the same in all processes, got another data.*DataLoader"):
        train(net, (ranks.X, y), likelihoods.GaussianNoise(), None, Recipe(epochs=1))


def test_triton_says_why_not():
    rows = training.Rows(ranks.X, ranks.TARGETS["regression"][1])
    reason = training.chain.why_not_triton(ranks.network("chain", 1), rows, None, Recipe(), True, Processes(0, 2, True))
    assert reason is not None and "several processes sum their gradients" in reason


@pytest.mark.slow
def test_the_command_fits_with_several_processes(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    lines = [f"{a:.4f},{b:.4f},{a + b * b + 0.1 * e:.4f}" for (a, b), e in zip(x, rng.normal(size=300), strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,y", *lines]))
    common = [tmp_path / "rows.csv", "-t", "y", "--epochs", "5", "--device", "cpu", "--no-report"]
    done = torchrun(2, "-m", "torchnpn", "fit", *common, "-o", tmp_path / "two.npn")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Model:") == 1  # the first process speaks for both
    alone = [sys.executable, "-m", "torchnpn", "fit", *map(str, common), "-o", str(tmp_path / "one.npn")]
    subprocess.run(alone, check=True, capture_output=True)
    one, two = (npn.load(tmp_path / f"{name}.npn").estimator for name in ("one", "two"))
    np.testing.assert_allclose(one.predict(x), two.predict(x), atol=1e-4)
