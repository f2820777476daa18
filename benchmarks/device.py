"""Every map and family on a device: values and gradients against float64 on the CPU, compiled, vmapped, exported.

    python benchmarks/device.py --device cuda

CI has no GPU; this script is run on one by hand, and its record says on which and with which torch.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import torch
from records import RESULTS, circumstances, write_json
from torch import Tensor

from torchnpn import families, maps
from torchnpn.moments import Moments

UNARY = [
    "relu",
    "leaky_relu",
    "abs",
    "relu6",
    "hardtanh",
    "heaviside",
    "sigmoid",
    "tanh",
    "erf",
    "elu",
    "selu",
    "gelu",
    "silu",
    "softplus",
    "exp",
    "sin",
    "cos",
    "square",
]

SLOW_TO_COMPILE = ("softmax_mean",)  # a recursion over pairs of classes: right when compiled (tests), but takes minutes


def functions() -> dict[str, Callable[[Tensor, Tensor], tuple[Tensor, ...]]]:
    """Each as a function of (mean, variance) tensors."""
    table: dict[str, Any] = {name: partial(_unary, getattr(maps, name)) for name in UNARY}
    for variant in (maps.accurate, maps.cheap, maps.paper):
        for name in ("sigmoid", "tanh"):
            table[f"{variant.__name__.rpartition('.')[2]}.{name}"] = partial(_unary, getattr(variant, name))
    table["max2"] = lambda m, s: tuple(maps.max2(Moments(m, s), Moments(0.3 - 0.5 * m, 0.1 + 0.7 * s)))
    table["softmax_mean"] = lambda m, s: (maps.softmax_mean(Moments(m[..., :5], s[..., :5])),)
    table["dropout"] = lambda m, s: tuple(maps.dropout(Moments(m, s), 0.25))
    for name, family in families.BY_NAME.items():
        table[f"saturating {name}"] = partial(_saturating, family)
    return table


def _unary(f: Callable[[Moments], Moments], m: Tensor, s: Tensor) -> tuple[Tensor, ...]:
    return tuple(f(Moments(m, s)))


def _saturating(family: type[families.ExponentialFamily], m: Tensor, s: Tensor) -> tuple[Tensor, ...]:
    positive = Moments(0.05 + torch.sigmoid(m), 0.01 + 0.1 * torch.sigmoid(s))
    return tuple(maps.saturating(family.project(positive), 0.5))


def largest_error(got: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> float:
    """Largest |Δ| / (1 + |expected|)."""
    pairs = zip(got, expected, strict=True)
    return max(float(((a.double().cpu() - b).abs() / (1 + b.abs())).nan_to_num(torch.inf).max()) for a, b in pairs)


def gradients(f: Callable[..., tuple[Tensor, ...]], m: Tensor, s: Tensor) -> tuple[Tensor, ...]:
    m, s = m.clone().requires_grad_(), s.clone().requires_grad_()
    return torch.autograd.grad(sum(out.sum() for out in f(m, s)), (m, s), allow_unused=True, materialize_grads=True)


def check(f: Callable[..., tuple[Tensor, ...]], m: Tensor, s: Tensor, device: str, compiled: bool) -> dict[str, Any]:
    """Errors in float32 on the device, and whether each transform gives the same."""

    class Module(torch.nn.Module):
        def forward(self, m: Tensor, s: Tensor) -> tuple[Tensor, ...]:
            return f(m, s)

    M, S = m.float().to(device), s.float().to(device)
    values = f(M, S)
    row: dict[str, Any] = {
        "value": largest_error(values, f(M.double().cpu(), S.double().cpu())),
        "gradient": largest_error(gradients(f, M, S), gradients(f, M.double().cpu(), S.double().cpu())),
        "bfloat16": bool(all(torch.isfinite(out).all() for out in f(M.bfloat16(), S.bfloat16()))),
        "vmap": largest_error(torch.func.vmap(f)(M, S), tuple(out.double().cpu() for out in values)),
    }
    exported = torch.export.export(Module(), (M, S)).module()(M, S)
    row["export"] = largest_error(exported, tuple(out.double().cpu() for out in values))
    if compiled:
        torch.compiler.reset()
        g = torch.compile(f, fullgraph=True)
        row["compile"] = largest_error(g(M, S), tuple(out.double().cpu() for out in values))
        row["compile gradient"] = largest_error(gradients(g, M, S), tuple(x.double().cpu() for x in gradients(f, M, S)))
    return row


def report(name: str, device: str, compiled: bool) -> dict[str, Any]:
    """What `check` finds for one function, or the error it ends with."""
    generator = torch.Generator().manual_seed(0)
    m = 5 * torch.randn(64, 8, generator=generator)
    s = 10 ** (6 * torch.rand(64, 8, generator=generator) - 4)
    scale = 0.2 if name in ("exp", "square") else 1.0
    try:
        row = check(functions()[name], scale * m, s.clamp_max(20.0), device, compiled and name not in SLOW_TO_COMPILE)
    except Exception as error:  # what fails belongs into the record, too
        row = {"error": f"{type(error).__name__}: {str(error)[:200]}"}
    cells = (f"{key} {value:.1e}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items())
    print(f"{name:28s}", "  ".join(cells), flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--workers", type=int, default=1, help="processes that check side by side")
    parser.add_argument("--record", default=None)
    arguments = parser.parse_args()
    names = list(functions())
    compiled = not arguments.no_compile
    with ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn")) as pool:
        found = pool.map(report, names, [arguments.device] * len(names), [compiled] * len(names))
        rows = dict(zip(names, found, strict=True))
    if arguments.record:
        write_json(RESULTS / arguments.record, {**circumstances(arguments.device), "rows": rows})


if __name__ == "__main__":
    main()
