"""Which tiles suit which products on a GPU: each pass of a layer by each tile, and by the vendor's library.

    python benchmarks/gpu_tiles.py --prepare 3 --of 16    compile every 16th tile from the third on
    python benchmarks/gpu_tiles.py -o tiles.json          measure; the best of each and today's choice are printed

`torchnpn/kernels/triton/tiles.py` was chosen from what this prints. With `--device cpu` under TRITON_INTERPRET=1 it
runs through, at a tiny size.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from torchnpn.kernels.triton import layer, tiles
from torchnpn.kernels.triton.signals import FAST, Activation, Forward, Gradient, Weights
from torchnpn.kernels.triton.tiles import Tile, Tiles


class Case(NamedTuple):
    """A batch of M rows, N outputs, K inputs; the first layer of a network takes points."""

    M: int
    N: int
    K: int
    point: bool = False
    tied: bool = True
    predicts: bool = False


CASES = {
    "mnist, first": Case(128, 800, 784, point=True),
    "mnist, second": Case(128, 800, 800),
    "1,024 rows, first": Case(1024, 800, 784, point=True),
    "1,024 rows, second": Case(1024, 800, 800),
    "1,024 rows, not tied": Case(1024, 800, 800, tied=False),
    "8,192 rows, first": Case(8192, 800, 784, point=True, predicts=True),
    "8,192 rows, second": Case(8192, 800, 800, predicts=True),
    "8,192 rows, last": Case(8192, 10, 800, predicts=True),
    "one row, first": Case(1, 800, 784, point=True, predicts=True),
    "one row, second": Case(1, 800, 800, predicts=True),
    "one row, last": Case(1, 10, 800, predicts=True),
    "deep": Case(256, 512, 512),
    "odd, first": Case(192, 1111, 301, point=True),
    "odd, second": Case(192, 777, 1111),
    "wide, first": Case(4096, 2048, 2048, point=True),
    "wide, second": Case(4096, 2048, 2048),
    "wider, second": Case(8192, 4096, 4096),
}
LIBRARY = "library"
CANDIDATES = {
    "forward": (
        *(Tile(1, 16, 512, 8, 2), Tile(1, 16, 256, 4, 2), Tile(1, 16, 1024, 8, 2), Tile(1, 32, 256, 8, 2)),
        *(Tile(16, 16, 256, 4, 3), Tile(16, 16, 128, 4, 4), Tile(16, 32, 128, 4, 3), Tile(32, 16, 128, 4, 4)),
        *(Tile(32, 32, 64, 2, 4), Tile(32, 32, 128, 4, 3), Tile(32, 64, 64, 4, 4), Tile(64, 32, 64, 4, 4)),
        *(Tile(64, 64, 32, 4, 4), Tile(64, 64, 64, 4, 3), Tile(128, 64, 32, 8, 3), Tile(128, 64, 32, 4, 4)),
        *(Tile(64, 128, 32, 4, 4), Tile(128, 128, 32, 8, 3), Tile(128, 128, 32, 4, 3), Tile(128, 128, 32, 8, 4)),
        *(Tile(128, 128, 64, 8, 2), Tile(128, 256, 32, 8, 2), Tile(256, 64, 32, 8, 3), Tile(16, 64, 128, 4, 3)),
    ),
    "input": (
        *(Tile(32, 64, 32, 4, 3), Tile(64, 32, 64, 4, 3), Tile(32, 64, 64, 4, 3), Tile(64, 64, 64, 4, 3)),
        *(Tile(128, 32, 64, 8, 3), Tile(64, 32, 128, 4, 3), Tile(128, 32, 64, 4, 3), Tile(128, 32, 128, 8, 3)),
        *(Tile(32, 32, 32, 2, 4), Tile(32, 64, 32, 2, 4), Tile(32, 128, 32, 4, 3)),
    ),
    "weight": (
        *(Tile(64, 32, 64, 4, 2), Tile(32, 64, 64, 4, 3), Tile(64, 64, 64, 4, 3), Tile(64, 32, 32, 4, 3)),
        *(Tile(32, 128, 64, 8, 3), Tile(32, 128, 128, 8, 3), Tile(32, 64, 128, 4, 3), Tile(64, 64, 128, 8, 2)),
        *(Tile(32, 32, 64, 4, 4), Tile(64, 32, 32, 2, 3)),
    ),
}


@contextmanager
def only(kernel: str, tile: Tile | str) -> Iterator[None]:
    """One kernel by one tile, whatever the size; or by the library."""
    of_kernel, is_large = tiles.TILES[kernel], tiles.is_large
    if not isinstance(tile, str):
        tiles.TILES[kernel] = Tiles(*[tile] * 4, (tile,) * len(of_kernel.by_work))
    tiles.is_large = lambda *size: tile == LIBRARY
    try:
        yield
    finally:
        tiles.TILES[kernel], tiles.is_large = of_kernel, is_large


def passes(case: Case, device: torch.device) -> dict[str, Callable[[], Any]]:
    """The passes of a layer of that size, inside a network with ReLU."""
    M, N, K, point, tied, predicts = case
    w, above, below = (_weights(*size, tied, device) for size in ((N, K, point), (16, N, False), (K, 16, False)))
    m, s = torch.randn(1, M, K, device=device), torch.rand(1, M, K, device=device)
    a, relu = layer.signal(m, None if point else s, w, FAST), Activation("relu")
    known: dict[str, Any] = {"above": above, "keep": not predicts, "precision": FAST}
    found: dict[str, Callable[[], Any]] = {"forward": lambda: layer.forward(a, w, relu, **known)}
    if predicts:
        return found
    o = layer.forward(a, w, relu, above=above, precision=FAST)
    g = layer.with_u(Gradient(torch.randn_like(o.o_m), torch.randn_like(o.o_m).to(FAST.variance)), w)
    under = Forward(a, torch.randn_like(a.m), torch.rand_like(a.m))
    r2 = None if below.tied is None else below.tied.r2
    found["weight"] = lambda: layer.weight_products(g, a, w, FAST.variance, FAST)
    if not point:
        found["input"] = lambda: layer.input_gradient(g, a, w, under, relu, None, FAST, r2)
    return found


def _weights(N: int, K: int, point: bool, tied: bool, device: torch.device) -> Weights:
    W = [torch.randn(1, N, K, device=device) / K**0.5]
    W += [torch.zeros(1, n, device=device) - 2 for n in (N, K)] if tied else [torch.zeros(1, N, K, device=device) - 3]
    w = layer.weights(W, (torch.zeros(1, N, device=device), torch.zeros(1, N, device=device)), True, point, FAST)
    layer.fill_pair_(w)
    return w


def suits(case: Case, tile: Tile | str) -> bool:
    """Whether it is worth a try: no large tiles for few rows, no small ones for many products."""
    if isinstance(tile, str):
        return case.M > 16
    if tile.batch == 1:
        return case.M == 1
    if case.M <= 16:
        return tile.batch <= 16
    work = case.M * case.N
    return (tile.batch * tile.outputs >= 4096 if work >= 2**21 else True) and tile.batch <= 2 * case.M


def microseconds(function: Callable[[], Any], device: torch.device, compile_only: bool) -> float:
    if compile_only:
        function()
        torch.cuda.synchronize()
        return 0.0
    if device.type != "cuda":
        start = time.perf_counter()
        function()
        return 1e6 * (time.perf_counter() - start)
    from triton.testing import do_bench_cudagraph

    return 1e3 * float(do_bench_cudagraph(function, rep=6, return_mode="median"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepare", type=int, metavar="K", help="compile every tile K, K + N, ...")
    parser.add_argument("--of", type=int, default=1, metavar="N")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("-o", "--out", type=Path, default=Path("tiles.json"))
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    cases = CASES if device.type == "cuda" else {"tiny": Case(17, 5, 9), "point": Case(3, 5, 9, True, predicts=True)}
    found: dict[str, dict[str, dict[str, float]]] = {}
    number = -1
    for name, case in cases.items():
        for kernel, function in passes(case, device).items():
            times: dict[str, float] = {}
            for tile in ("chosen", LIBRARY, *CANDIDATES[kernel]):
                if not suits(case, tile):
                    continue
                number += 1
                if arguments.prepare is not None and number % arguments.of != arguments.prepare:
                    continue
                try:
                    if tile == "chosen":
                        times["chosen"] = microseconds(function, device, arguments.prepare is not None)
                    else:
                        with only(kernel, tile):
                            label = tile if isinstance(tile, str) else " ".join(map(str, tile))
                            times[label] = microseconds(function, device, arguments.prepare is not None)
                except Exception as error:  # one that does not fit a GPU's memory shall not end the others
                    times[f"{tile}: {type(error).__name__}"] = float("inf")
            found.setdefault(name, {})[kernel] = times
            if arguments.prepare is None:
                arguments.out.write_text(json.dumps(found, indent=1))
                best = sorted(times, key=times.__getitem__)[:3]
                words = ", ".join(f"{one}: {times[one]:.1f}" for one in ("chosen", LIBRARY, *best) if one in times)
                print(f"{name}, {kernel}: {words}", flush=True)


if __name__ == "__main__":
    if os.environ.get("TRITON_INTERPRET") != "1" and not torch.cuda.is_available():
        sys.exit("gpu_tiles.py expects a CUDA GPU, or TRITON_INTERPRET=1 and --device cpu.")
    main()
