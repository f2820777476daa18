"""Training on a GPU as a whole: the paper's 2,000 epochs of MNIST by the clock, and what low precision changes.

    python benchmarks/gpu_training.py --device cuda [--part epochs] [--part precision] [-o RECORD.json]

Needs mnist.npz and naval-propulsion-plant.npz under TORCHNPN_DATA. `--quick` is a trial of a few seconds on a CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torchnpn as npn
from benchmarks import records, summaries
from torchnpn import kernels

RECORD = records.RESULTS / "gpu_training.json"
PAGE = records.DOCS / "speed.md"
PRECISIONS = "fast", "float32"


class Plan(NamedTuple):
    hidden: int
    epochs: int  # of the long training
    short: int  # epochs of each training in the comparison of precisions
    replicas: int
    rows: int


FULL, QUICK = Plan(800, 2_000, 20, 10, 50_000), Plan(16, 2, 2, 2, 600)


class Images(NamedTuple):
    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor


def find(name: str) -> Any:
    """A file of the data folder, in whatever folder it is."""
    return np.load(next(Path(os.environ["TORCHNPN_DATA"]).rglob(name)))


def mnist(rows: int, device: torch.device) -> Images:
    stored = find("mnist.npz")
    x, x_test = (torch.from_numpy(stored[part].reshape(-1, 784) / np.float32(255)) for part in ("x_train", "x_test"))
    y, y_test = (torch.from_numpy(stored[part].astype(np.int64)) for part in ("y_train", "y_test"))
    return Images(x[:rows].to(device), y[:rows].to(device), x_test.to(device), y_test.to(device))


def recipe(epochs: int, precision: str = "fast") -> npn.training.Recipe:
    return npn.training.Recipe(
        epochs=epochs, batch_size=128, learning_rate=1e-3, kl_weight=npn.training.constant(1e-3), precision=precision
    )


def judge(model: npn.nn.Sequential, images: Images, precision: str) -> dict[str, list[float]]:
    """Test error in percent and NLL of each replica."""
    with torch.no_grad(), kernels.precision(precision):
        probs = npn.likelihoods.ScaledSoftmax(10).predict(model.eval()(images.x_test)).mean
    probs = probs.view(-1, *probs.shape[-2:])
    right = probs.argmax(-1) == images.y_test
    own = probs.gather(-1, images.y_test.expand(len(probs), -1).unsqueeze(-1)).clamp_min(1e-30)
    return {
        "error_percent": (100 * (1 - right.double().mean(-1))).tolist(),
        "nll": (-own.log().double().mean((-2, -1))).tolist(),
    }


def epochs(plan: Plan, device: torch.device) -> dict[str, Any]:
    """The paper's training: 2,000 epochs on 50,000 images, the test images evaluated after each."""
    images = mnist(plan.rows, device)
    model = npn.nn.mlp([784, plan.hidden, plan.hidden, 10], generator=torch.Generator().manual_seed(0))
    start = time.perf_counter()
    history = npn.train(
        model,
        (images.x, images.y),
        npn.likelihoods.ScaledSoftmax(10),
        npn.priors.IsotropicGaussian(100.0),
        recipe(plan.epochs),
        validation=(images.x_test, images.y_test),
        device=device,
    )
    seconds = time.perf_counter() - start
    return {
        "epochs": plan.epochs,
        "rows": plan.rows,
        "seconds": seconds,
        "milliseconds_per_epoch": 1e3 * float(np.median([epoch.seconds for epoch in history.epochs])),
        "best_epoch": history.best_epoch,
        **judge(model, images, "fast"),
    }


def precision(plan: Plan, device: torch.device) -> dict[str, Any]:
    """Moments of one layer, error and NLL on MNIST, and a regression with little noise, in each precision."""
    return {
        name: {
            "layer": layer_errors(name, device),
            "mnist": digits(plan, name, device),
            "naval": naval(plan, name, device),
        }
        for name in PRECISIONS
    }


def layer_errors(name: str, device: torch.device) -> dict[str, float]:
    """‖fast - exact‖/‖exact‖ of mean and variance after a layer of 800 ReLUs, exact being float64."""
    generator = torch.Generator().manual_seed(0)
    layer = npn.nn.Sequential(npn.nn.Linear(800, 800, generator=generator), npn.nn.ReLU())
    x = npn.Moments(torch.randn(128, 800, generator=generator), torch.rand(128, 800, generator=generator))
    with torch.no_grad():
        exact = layer.double()(npn.Moments(*(part.double() for part in x)))
        with kernels.precision(name):
            found = layer.float().to(device)(npn.Moments(*(part.to(device) for part in x)))
    pairs = zip(("mean", "variance"), found, exact, strict=True)
    return {which: float((a.cpu().double() - b).norm() / b.norm()) for which, a, b in pairs}


def digits(plan: Plan, name: str, device: torch.device) -> dict[str, Any]:
    images = mnist(plan.rows, device)
    sizes, generator = [784, plan.hidden, plan.hidden, 10], torch.Generator().manual_seed(0)
    model = npn.nn.mlp(sizes, replicas=(plan.replicas,), generator=generator)
    likelihood, prior = npn.likelihoods.ScaledSoftmax(10), npn.priors.IsotropicGaussian(100.0)
    npn.train(model, (images.x, images.y), likelihood, prior, recipe(plan.short, name), device=device)
    return judge(model, images, name)


def naval(plan: Plan, name: str, device: torch.device) -> dict[str, Any]:
    """One hidden layer of 50, targets standardised: test RMSE in standard deviations, and NLL."""
    stored = find("naval-propulsion-plant.npz")
    table = np.column_stack([stored["X"], stored["y"].reshape(len(stored["X"]), -1)[:, 0]]).astype(np.float64)
    table = table[:, table.std(0) > 0][np.random.default_rng(0).permutation(len(table))]
    table = torch.from_numpy((table - table.mean(0)) / table.std(0)).float().to(device)
    x, y = table[:, :-1], table[:, -1:]
    train, test = slice(0, min(10_000, plan.rows)), slice(10_000, None)
    sizes, replicas = [x.shape[1], 50, 1], (plan.replicas,)
    model = npn.nn.mlp(sizes, replicas=replicas, generator=torch.Generator().manual_seed(0))
    likelihood = npn.likelihoods.GaussianNoise(elbo=0.1, replicas=replicas)
    settings = npn.training.Recipe(
        epochs=5 * plan.short,
        batch_size=64,
        learning_rate=1e-2,
        kl_weight=npn.training.geometric_ramp(0.05),
        precision=name,
    )
    npn.train(model, (x[train], y[train]), likelihood, npn.priors.EmpiricalBayes(), settings, device=device)
    with torch.no_grad(), kernels.precision(name):
        o = model.eval()(x[test])
        nll = likelihood.loss(o, y[test]).double().mean(-1)
        rmse = (o.mean - y[test]).double().square().mean((-2, -1)).sqrt()
    return {"rmse": rmse.tolist(), "nll": nll.tolist()}


def with_tables(page: str, record: dict[str, Any]) -> str:
    """docs/speed.md with the long training and the comparison of precisions."""
    long = record["epochs"]
    head = (
        f"{long['epochs']:,} epochs on {long['rows']:,} images with an evaluation of 10,000 after each: "
        f"{long['seconds']:.0f} s in all, {long['milliseconds_per_epoch']:.0f} ms an epoch ({record['device']}); "
        f"the weights of the best epoch have a test error of {long['error_percent'][0]:.2f} % and an NLL of "
        f"{long['nll'][0]:.3f} (no recipe: see the experiments)."
    )
    rows = []
    for name, found in record.get("precision", {}).items():
        layer = (f"{found['layer'][part]:.1e}" for part in ("mean", "variance"))
        studies = ("mnist", "error_percent", 2), ("mnist", "nll", 4), ("naval", "rmse", 4), ("naval", "nll", 3)
        rows.append([name, *layer, *(_spread(found[study][figure], digits) for study, figure, digits in studies)])
    heading = ["precision", "mean", "variance", "MNIST error, %", "MNIST NLL", "naval RMSE", "naval NLL"]
    table = summaries.table(heading, rows, words=1) if rows else "The effect of precision is not measured yet."
    return summaries.with_table(page, "gpu_training.py", f"{head}\n\n{table}")


def _spread(values: list[float], digits: int) -> str:
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1) / len(values) ** 0.5:.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--part", action="append", choices=["epochs", "precision"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--render", action="store_true", help="render the record that is there")
    parser.add_argument("-o", type=Path, default=RECORD)
    arguments = parser.parse_args()
    if not arguments.render:
        device, plan = npn.training.resolve_device(arguments.device), QUICK if arguments.quick else FULL
        record = json.loads(arguments.o.read_text()) if arguments.o.exists() else {}
        for part in arguments.part or ["epochs", "precision"]:
            found = {"epochs": epochs, "precision": precision}[part](plan, device)
            record |= {**records.circumstances(device.type), "plan": plan._asdict(), part: found}
            records.write_json(arguments.o, record)
            print(part, json.dumps(found), flush=True)
    if arguments.render or (arguments.o.parent == records.RESULTS and not arguments.quick):
        records.render(PAGE, arguments.o, with_tables)


if __name__ == "__main__":
    main()
