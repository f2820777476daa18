"""Every map and family on a device: values and gradients against float64 on the CPU, compiled, vmapped, exported.

    python benchmarks/device.py --device cuda

CI has no GPU; this script is run on one by hand, and its record says on which and with which torch.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from records import RESULTS, circumstances, write_json
from torch import Tensor

from torchnpn import families, maps, nn
from torchnpn.moments import Moments

UNARY = (
    "relu leaky_relu abs relu6 hardtanh heaviside sigmoid tanh erf elu selu gelu silu softplus exp sin cos square"
).split()


def functions() -> dict[str, Callable[[Tensor, Tensor], tuple[Tensor, ...]]]:
    """Each as a function of (mean, variance) tensors."""
    table: dict[str, Any] = {name: lambda m, s, f=getattr(maps, name): tuple(f(Moments(m, s))) for name in UNARY}
    for variant in (maps.accurate, maps.cheap, maps.paper):
        for name in ("sigmoid", "tanh"):
            f = getattr(variant, name)
            table[f"{variant.__name__.rpartition('.')[2]}.{name}"] = lambda m, s, f=f: tuple(f(Moments(m, s)))
    table["max2"] = lambda m, s: tuple(maps.max2(Moments(m, s), Moments(0.3 - 0.5 * m, 0.1 + 0.7 * s)))
    table["softmax_mean"] = lambda m, s: (maps.softmax_mean(Moments(m[..., :5], s[..., :5])),)
    table["dropout"] = lambda m, s: tuple(maps.dropout(Moments(m, s), 0.25))
    for name, family in families.BY_NAME.items():
        table[f"saturating {name}"] = lambda m, s, family=family: tuple(
            maps.saturating(family.project(Moments(0.05 + torch.sigmoid(m), 0.01 + 0.1 * torch.sigmoid(s))), 0.5)
        )
    return table


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--record", default=None)
    arguments = parser.parse_args()
    generator = torch.Generator().manual_seed(0)
    m = 5 * torch.randn(64, 8, generator=generator)
    s = 10 ** (6 * torch.rand(64, 8, generator=generator) - 4)
    rows = {}
    for name, f in functions().items():
        try:
            rows[name] = check(
                f,
                m if name not in ("exp", "square") else 0.2 * m,
                s.clamp_max(20.0),
                arguments.device,
                not arguments.no_compile,
            )
        except Exception as error:  # a report of what fails, too
            rows[name] = {"error": f"{type(error).__name__}: {str(error)[:200]}"}
        print(
            f"{name:28s}",
            "  ".join(f"{k} {v:.1e}" if isinstance(v, float) else f"{k} {v}" for k, v in rows[name].items()),
        )
    network = nn.mlp([20, 64, 64, 5]).to(arguments.device)
    o = network(torch.randn(32, 20, device=arguments.device))
    print("network", o.mean.shape, bool(torch.isfinite(o.variance).all()))
    if arguments.record:
        write_json(RESULTS / arguments.record, {**circumstances(arguments.device), "rows": rows})


if __name__ == "__main__":
    main()
