"""A training that is killed again and again ends in the same bits as one that is left alone."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
KILLS = 20
EPOCHS = 300  # as many as kills times the most epochs between two of them

PROGRAM = """
import itertools
import os
import signal
import sys
import traceback

import torch
import torch._dynamo  # an optimizer's first step would, a second for each process
from torchnpn import likelihoods, nn, priors, training

torch.set_num_threads(1)
training.checkpoint.SECONDS = -1.0  # a write after every epoch, so that kills fall into them


def run(checkpoint, result, most):  # after `most` epochs it waits to be killed
    done = itertools.count(1)

    def callback(history):
        print("epoch", len(history.epochs), flush=True)
        if next(done) == int(most):
            signal.pause()

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(96, 6, generator=generator)
    y = x[:, :1] * x[:, 1:2] + 0.1 * torch.randn(96, 1, generator=generator)
    net, likelihood = nn.mlp([6, 16, 1], dropout=0.1, generator=generator), likelihoods.GaussianNoise()
    history = training.train(
        net,
        (x[:64], y[:64]),
        likelihood,
        priors.EmpiricalBayes(),
        training.Recipe(epochs=300, batch_size=16, learning_rate=1e-2),
        validation=(x[64:], y[64:]),
        callback=callback,
        checkpoint=checkpoint or None,
    )
    losses = [(epoch.loss, epoch.kl, epoch.validation) for epoch in history.epochs]
    torch.save({"net": net.state_dict(), "likelihood": likelihood.state_dict(), "losses": losses}, result)


for line in sys.stdin:  # each training is a process of its own; torch is imported once for all
    child = os.fork()
    if child == 0:
        try:
            run(*line.rstrip("\\n").split("\\t"))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print("process", child, flush=True)
    print("status", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Trainings:
    """Starts one training after another, and can kill them."""

    def __init__(self, folder):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", PROGRAM]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.server = subprocess.Popen(command, env=environment, cwd=folder, **pipes)

    def start(self, checkpoint, result, epochs=1, most=0):
        """Returns after so many epochs, or when training has ended; after `most` epochs, the training waits."""
        self.seen = {"process": [], "epoch": [], "status": []}
        self.server.stdin.write(f"{checkpoint}\t{result}\t{most}\n")
        self.server.stdin.flush()
        self._read(lambda: (self.seen["process"] and len(self.seen["epoch"]) >= epochs) or self.seen["status"])

    def kill(self):
        os.kill(self.seen["process"][0], signal.SIGKILL)

    def wait(self):
        """Exit status, and the epochs that were reported."""
        self._read(lambda: self.seen["status"])
        return self.seen["status"][0], self.seen["epoch"]

    def _read(self, enough):
        while not enough():
            what, number = self.server.stdout.readline().split()
            self.seen[what].append(int(number))

    def close(self):
        self.server.communicate()


@pytest.fixture
def trainings(tmp_path):
    server = Trainings(tmp_path)
    yield server
    server.close()


def equal(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


@pytest.mark.slow
def test_twenty_kills_change_no_bit(trainings, tmp_path):
    trainings.start("", "undisturbed.pt")
    assert trainings.wait() == (0, list(range(1, EPOCHS + 1)))
    chance, resumed = random.Random(0), []
    for _ in range(KILLS):
        epochs = chance.randint(1, 12)
        trainings.start("run.ckpt", "disturbed.pt", epochs, most=epochs + 3)  # however late the kill is
        time.sleep(chance.uniform(0.0, 0.02))  # which holds steps, a write, a rename
        trainings.kill()
        status, epochs = trainings.wait()
        assert status == -signal.SIGKILL
        resumed.append(epochs[0])
    assert resumed == sorted(resumed)
    assert 1 < resumed[-1] < EPOCHS  # it went on from where it was, and was not done
    trainings.start("run.ckpt", "disturbed.pt")
    status, epochs = trainings.wait()
    assert (status, epochs[-1]) == (0, EPOCHS)
    results = [torch.load(tmp_path / name) for name in ("disturbed.pt", "undisturbed.pt")]
    assert equal(*results)
    assert {path.name for path in tmp_path.iterdir()} == {"undisturbed.pt", "disturbed.pt", "run.ckpt"}
