"""Fused layers on a device against the plain maps in float64 on the CPU: values and every gradient, in each precision.

    python benchmarks/device_kernels.py --device cuda --record kernels_cuda.json

CI has no GPU: there Triton's interpreter runs the kernels. This script is run on a GPU by hand, and its record says on
which and with which torch. On a CPU it checks the CPU's own kernels.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import sys
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torchnpn as npn
from benchmarks.records import RESULTS, circumstances, write_json
from torchnpn import kernels

ACTIVATIONS = {
    "none": None,
    "relu": npn.nn.ReLU(),
    "sigmoid": npn.nn.Sigmoid(),
    "tanh": npn.nn.Tanh(),
    "gamma": npn.nn.Saturating("gamma"),
}
BOUNDS = {"fast": 1e-2, "float32": 1e-4}  # of a relative error


class Size(NamedTuple):
    replicas: tuple[int, ...]
    batch: int
    inputs: int
    outputs: int


SIZES = {
    "small": Size((), 128, 784, 800),
    "few outputs": Size((), 100, 800, 10),
    "odd": Size((), 77, 45, 29),
    "replicas": Size((5,), 64, 50, 60),
    "large": Size((), 2048, 1024, 1024),
    "many replicas": Size((20,), 128, 800, 800),
}


def layer(size: Size, activation: str) -> npn.nn.Sequential:
    family = "gamma" if activation == "gamma" else "gaussian"
    generator = torch.Generator().manual_seed(0)
    linear = npn.nn.Linear(size.inputs, size.outputs, family=family, replicas=size.replicas, generator=generator)
    after = ACTIVATIONS[activation]
    return npn.nn.Sequential(linear) if after is None else npn.nn.Sequential(linear, copy.deepcopy(after))


def results(model: npn.nn.Sequential, a: npn.Moments) -> dict[str, Tensor]:
    """Mean and variance, and the gradients of a sum in which each output has a weight of its own."""
    a = npn.Moments(*(None if part is None else part.detach().requires_grad_() for part in a))
    o = model(a)
    generator = torch.Generator().manual_seed(1)
    up = [torch.randn(part.shape, generator=generator).to(part) for part in o]
    named = {**{f"a_{i}": part for i, part in enumerate(a) if part is not None}, **dict(model.named_parameters())}
    found = torch.autograd.grad(list(o), list(named.values()), up)
    return {"mean": o.mean.detach(), "variance": o.variance.detach(), **dict(zip(named, found, strict=True))}


def errors(size: Size, activation: str, point: bool, precision: str, device: torch.device) -> dict[str, float]:
    """‖found - exact‖/‖exact‖ of each result."""
    generator = torch.Generator().manual_seed(2)
    shape = (*size.replicas, size.batch, size.inputs)
    mean, variance = torch.randn(shape, generator=generator), torch.rand(shape, generator=generator)
    mean = mean.abs() if activation == "gamma" else mean
    model = layer(size, activation)
    exact = results(copy.deepcopy(model).double(), npn.Moments(mean.double(), None if point else variance.double()))
    on_device = npn.Moments(mean.to(device), None if point else variance.to(device))
    with kernels.precision(precision):
        found = results(model.to(device), on_device)
    return {name: float((found[name].double().cpu() - exact[name]).norm() / exact[name].norm()) for name in exact}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--size", action="append", choices=SIZES)
    parser.add_argument("--record", default=None)
    arguments = parser.parse_args()
    device = npn.training.resolve_device(arguments.device)
    rows: list[dict[str, Any]] = []
    cases = itertools.product(arguments.size or SIZES, ACTIVATIONS, (True, False), BOUNDS)
    for size, activation, point, precision in cases:
        found = errors(SIZES[size], activation, point, precision, device)
        about = {
            "size": size,
            "activation": activation,
            "input": "point" if point else "random",
            "precision": precision,
        }
        rows.append({**about, "errors": found})
        worst = max(found, key=lambda name: found[name])
        verdict = "ok" if found[worst] < BOUNDS[precision] else "TOO LARGE"
        print(*about.values(), f"{worst} {found[worst]:.1e}", verdict, flush=True)
    if arguments.record:
        write_json(RESULTS / arguments.record, {**circumstances(device.type), "rows": rows})


if __name__ == "__main__":
    main()
