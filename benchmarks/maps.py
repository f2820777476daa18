"""Cost of each map beside torch's own function of that name, in one process: ratios of median times.

    python benchmarks/maps.py [--no-compile] [--device cuda] [--only relu,sigmoid]

Writes maps_cpu.json (or maps_cuda.json) to studies/results.
The unit is torch's eager function throughout: one fused kernel.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import records
from torchnpn import families, maps
from torchnpn.moments import Moments

SHAPE, TAU = (128, 800), 0.5
SLOW_TO_COMPILE = {"softmax_mean"}  # minutes: measured eagerly alone
Function = Callable[..., Any]
ACTIVATIONS: dict[str, Function] = {  # by the name in maps: torch's own
    "relu": F.relu, "leaky_relu": F.leaky_relu, "abs": torch.abs, "relu6": F.relu6, "hardtanh": F.hardtanh,
    "heaviside": torch.sign,  # torch.heaviside has no gradient
    "sigmoid": torch.sigmoid, "accurate.sigmoid": torch.sigmoid, "cheap.sigmoid": torch.sigmoid,
    "paper.sigmoid": torch.sigmoid, "tanh": torch.tanh, "accurate.tanh": torch.tanh, "cheap.tanh": torch.tanh,
    "paper.tanh": torch.tanh, "erf": torch.erf, "elu": F.elu, "selu": F.selu, "gelu": F.gelu, "silu": F.silu,
    "softplus": F.softplus, "exp": torch.exp, "sin": torch.sin, "cos": torch.cos, "square": torch.square,
}  # fmt: skip


def named(name: str) -> Function:
    """`maps.accurate.sigmoid` for "accurate.sigmoid", called with mean and variance."""
    function = maps
    for part in name.split("."):
        function = getattr(function, part)
    return lambda m, s: function(Moments(m, s))


def saturating(family: type[families.ExponentialFamily], known: list[float]) -> Function:
    return lambda *parameters: maps.saturating(family.unchecked(*parameters, *known), TAU)


def cases(device: str) -> dict[str, tuple[Function, list[Tensor], Function, list[Tensor], str]]:
    """Name -> our function, its tensors, torch's function, its tensors, torch's name."""
    generator = torch.Generator(device).manual_seed(0)
    m, n = (torch.randn(SHAPE, generator=generator, device=device) for _ in range(2))
    s, t, p = (torch.rand(SHAPE, generator=generator, device=device) for _ in range(3))
    W_m = torch.randn(SHAPE[1], SHAPE[1], generator=generator, device=device) / SHAPE[1] ** 0.5
    W_s = 0.01 * torch.rand(W_m.shape, generator=generator, device=device)
    table = {
        name: (named(name), [m, s], twin, [m], getattr(twin, "__name__", name)) for name, twin in ACTIVATIONS.items()
    }
    ten = [x.reshape(-1, 10) for x in (m, s)]
    table["softmax_mean"] = (named("softmax_mean"), ten, lambda x: torch.softmax(x, -1), ten[:1], "softmax of 10")
    linear = lambda m, s, W_m, W_s: maps.linear(Moments(m, s), Moments(W_m, W_s))  # noqa: E731
    table["linear"] = (linear, [m, s, W_m, W_s], F.linear, [m, W_m], "F.linear")
    max2 = lambda m, s, n, t: maps.max2(Moments(m, s), Moments(n, t))  # noqa: E731
    table["max2"] = (max2, [m, s, n, t], torch.maximum, [m, n], "maximum")
    for name, family in families.BY_NAME.items():
        learnt = [part for part in family.__match_args__ if not hasattr(family, part)]
        known = [getattr(family, part) for part in family.__match_args__ if hasattr(family, part)]
        values = [p if part == "p" else 0.1 + x for part, x in zip(learnt, (s, t), strict=False)]
        table[f"saturating {name}"] = (saturating(family, known), values, torch.sigmoid, [m], "sigmoid")
    return table


def with_gradient(function: Function) -> Function:
    """Forward and backward: gradients of the sum of all outputs in all inputs."""

    def step(*inputs: Tensor) -> tuple[Tensor, ...]:
        output = function(*inputs)
        outputs = [output] if isinstance(output, Tensor) else list(output)
        return torch.autograd.grad(outputs, inputs, [torch.ones_like(x) for x in outputs], allow_unused=True)

    return step


def seconds(function: Function, inputs: list[Tensor], device: str) -> float:
    if device == "cuda":
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        function(*inputs)
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3
    start = time.perf_counter()
    function(*inputs)
    return time.perf_counter() - start


def compare(ours: Function, x: list[Tensor], twin: Function, y: list[Tensor], device: str) -> dict[str, float]:
    """Ratio of medians over interleaved runs, and torch's own time."""
    for _ in range(3):
        seconds(ours, x, device), seconds(twin, y, device)
    pairs, start = [], time.perf_counter()
    while len(pairs) < 15 or (time.perf_counter() - start < 0.4 and len(pairs) < 500):
        pairs.append((seconds(ours, x, device), seconds(twin, y, device)))
    a, b = (statistics.median(column) for column in zip(*pairs, strict=True))
    return {"ratio": round(a / b, 2), "torch_us": round(1e6 * b, 1)}


def measure(case: tuple[Function, list[Tensor], Function, list[Tensor], str], device: str, compiled: bool) -> dict:
    ours, x, twin, y, _ = case
    if compiled:
        torch.compiler.reset()
        ours = torch.compile(ours)
    with torch.no_grad():
        forward = compare(ours, x, twin, y, device)
    x, y = ([tensor.clone().requires_grad_() for tensor in side] for side in (x, y))
    return {"forward": forward, "gradient": compare(with_gradient(ours), x, with_gradient(twin), y, device)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out (it takes minutes)")
    parser.add_argument("--only", help="names, separated by commas; nothing is then written")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    modes = ["eager"] if arguments.no_compile else ["eager", "compiled"]
    print(f"{'':30}{'beside':15}" + "".join(f"{mode:>11}{'+ gradient':>11}" for mode in modes))
    rows, start = [], time.perf_counter()
    wanted = arguments.only.split(",") if arguments.only else None
    for name, case in [item for item in cases(arguments.device).items() if not wanted or item[0] in wanted]:
        measured = modes[:1] if name in SLOW_TO_COMPILE else modes
        row = {"name": name, "beside": case[-1]}
        row |= {mode: measure(case, arguments.device, mode == "compiled") for mode in measured}
        rows.append(row)
        ratios = [row[mode][part]["ratio"] for mode in measured for part in ("forward", "gradient")]
        print(f"{name:30}{case[-1]:15}" + "".join(f"{ratio:11.1f}" for ratio in ratios), flush=True)
    if not arguments.only:
        configuration = {"shape": SHAPE, "type": "float32", "tau": TAU, "threads": 1, "device": arguments.device}
        record = {"configuration": configuration, **records.circumstances(arguments.device)}
        record |= {"duration_s": round(time.perf_counter() - start), "rows": rows}
        records.write_json(records.RESULTS / f"maps_{arguments.device}.json", record)


if __name__ == "__main__":
    main()
