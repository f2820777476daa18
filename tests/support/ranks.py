"""Trainings that the tests of several processes run in each of them: `torchrun tests/support/ranks.py OUT CASE…`.

The first process writes what came of each case to OUT, as one file of numpy.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import torchnpn as npn
from torchnpn import likelihoods, nn, table_files, tables, training
from torchnpn.training import Processes, Recipe, join, train

ROWS, FEATURES = 203, 4  # of which no number of processes takes equal parts
RNG = np.random.default_rng(0)
X = torch.tensor(RNG.normal(size=(ROWS, FEATURES)), dtype=torch.float32)
LATENT = torch.sin(X.sum(-1))
NOISE = torch.tensor(RNG.normal(size=ROWS), dtype=torch.float32)
WEIGHT = torch.tensor(RNG.gamma(1.0, size=ROWS), dtype=torch.float32)
COUNTS = torch.tensor(RNG.poisson(LATENT.exp()), dtype=torch.float32)
LABELS = (LATENT + NOISE > 0).long() + (LATENT + NOISE > 1).long()
TARGETS = {
    "regression": (likelihoods.GaussianNoise, (LATENT + 0.1 * NOISE)[:, None], 1),
    "counts": (likelihoods.PoissonCounts, COUNTS[:, None], 1),
    "classes": (partial(likelihoods.ScaledSoftmax, 3), LABELS, 3),
}
ENGINES = {"chain": "relu", "tape": "tanh"}


def network(engine: str, outputs: int, **arguments: object) -> nn.Sequential:
    """A small one that the engine trains."""
    generator = torch.Generator().manual_seed(0)
    return nn.mlp([FEATURES, 16, outputs], activation=ENGINES[engine], generator=generator, **arguments)


def figures(net: nn.Module, history: training.History) -> dict[str, np.ndarray]:
    """The curve of losses, and the predictions."""
    curve = [(one.loss, one.kl, one.validation or 0.0) for one in history.epochs]
    with torch.no_grad():
        return {"curve": np.array(curve), "mean": net(X).mean.numpy(), "variance": net(X).variance.numpy()}


def trained(engine: str, target: str, weighted: bool, epochs: int = 12, **arguments: object):
    """Rows that all processes have, of which each takes its part; early stopping included."""
    make, y, outputs = TARGETS[target]
    net, likelihood = network(engine, outputs), make()
    data = (X, y, WEIGHT) if weighted else (X, y)
    recipe = Recipe(epochs=epochs, batch_size=16, learning_rate=1e-2, patience=6)
    prior = npn.priors.EmpiricalBayes()
    history = train(net, data, likelihood, prior, recipe, validation=(X[:50], y[:50]), **arguments)
    return figures(net, history)


def killed(checkpoint: str):
    """A process is killed twice, another one each time; torchrun starts all of them again."""
    training.checkpoint.SECONDS = -1.0  # after every epoch
    start, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), join().rank

    computed = []

    def callback(history: training.History) -> None:
        computed.append(len(history.epochs))
        if rank == start and len(history.epochs) == 2 + 3 * start:
            os.kill(os.getpid(), signal.SIGKILL)

    found = trained("chain", "regression", True, checkpoint=checkpoint, callback=callback)
    return {**found, "restarts": np.array(start), "computed": np.array(computed)}


def of_replicas(engine: str):
    """Several networks at once, each of which sees other rows."""
    _, y, _ = TARGETS["regression"]
    subsets = torch.stack([torch.randperm(ROWS, generator=torch.Generator().manual_seed(k))[:150] for k in range(3)])
    net, likelihood = network(engine, 1, replicas=(3,)), likelihoods.GaussianNoise(1, replicas=(3,))
    recipe = Recipe(epochs=6, batch_size=16, learning_rate=1e-2)
    return figures(net, train(net, (X, y), likelihood, npn.priors.EmpiricalBayes(), recipe, subsets=subsets))


def of_loader(processes: Processes):
    """Rows that a sampler deals out; in one batch, so that any number of processes has the same."""
    _, y, _ = TARGETS["regression"]
    data = TensorDataset(X[:200], y[:200])
    sampler = DistributedSampler(data, processes.count, processes.rank)
    net, likelihood = network("tape", 1), likelihoods.GaussianNoise()
    loader = DataLoader(data, batch_size=200 // processes.count, sampler=sampler)
    history = train(net, loader, likelihood, npn.priors.EmpiricalBayes(), Recipe(epochs=6, learning_rate=1e-2))
    return figures(net, history)


def of_a_loop_of_ones_own(processes: Processes):
    """Without `train`: torch's FSDP2 deals out the weights, and sums the gradients."""
    make, y, outputs = TARGETS["regression"]
    net, likelihood = network("tape", outputs), make()
    if processes.connected:
        for module in [*(one for one in net if [*one.parameters()]), net]:
            fully_shard(module)
    optimizer = torch.optim.Adam([*net.parameters()], 1e-2)
    rows = torch.arange(ROWS)[processes.part(ROWS)]
    for _ in range(5):
        optimizer.zero_grad()
        losses = likelihood.loss(net(X[rows]), y[rows])
        (losses.sum() * processes.count / ROWS).backward()  # FSDP2 takes the mean over processes
        optimizer.step()
    with torch.no_grad():
        return {"mean": net(X).mean.numpy(), "variance": net(X).variance.numpy()}


def of_estimators():
    """The default mixture, and members of an ensemble."""
    X_, y = X.numpy(), TARGETS["regression"][1].numpy().ravel()
    mixture = npn.NPNRegressor(max_epochs=3, random_state=0).fit(X_, y)
    ensemble = npn.NPNClassifier(n_estimators=3, max_epochs=3, random_state=0).fit(X_, TARGETS["classes"][1].numpy())
    return {"mixture": mixture.predict(X_), "classes": ensemble.predict_proba(X_)}


def of_a_folder(folder: str):
    """Rows that are read piece by piece, as those of a table that is larger than memory."""
    large = tables.read_large(table_files.open_folder(Path(folder)), tables.Question("y"))
    model, _ = tables.fit_large(large, {"hidden": (8,), "max_epochs": 4, "batch_size": 64, "random_state": 0})
    return {"mean": model.predict(large.held_out.X), "curve": np.array([one.loss for one in model.history_.epochs])}


def results(cases: list[str]) -> dict[str, np.ndarray]:
    """What comes of each case, by its name and what it is."""
    found = {}
    for case in cases:
        match case.split("-"):
            case ["loader"]:
                one = of_loader(join())
            case ["replicas", engine]:
                one = of_replicas(engine)
            case ["killed", *path]:
                one = killed("-".join(path))
            case ["sharded"]:
                one = of_a_loop_of_ones_own(join())
            case ["estimators"]:
                one = of_estimators()
            case ["folder", *path]:
                one = of_a_folder("-".join(path))
            case [engine, target, *weighted]:
                one = trained(engine, target, bool(weighted))
        found |= {f"{case} {name}": array for name, array in one.items()}
    return found


if __name__ == "__main__":
    out, *cases = sys.argv[1:]
    found = results(cases)
    if join().is_first:
        np.savez(out, **found)
    if "sharded" in cases:
        os._exit(0)  # torch's FSDP2 leaves threads of gloo, which now and then abort a process that ends by itself
