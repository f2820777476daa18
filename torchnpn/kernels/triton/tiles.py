"""How the products of a layer are computed: by which tiles of our kernels, or by the vendor's library.

Small products are bound by launches and memory: there the kernels of `products` do all of a pass at once, with tiles so
small that every processor gets one. Large ones are bound by arithmetic: there the library is hard to beat.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

PROCESSORS = 132  # of an H200, on which all of this was measured (benchmarks/gpu_tiles.py)
_LARGE = 2**28  # multiplications in a product, over all replicas, from which it is taken from the library
_LARGE_WEIGHT = 2**27  # the same for gradients by weights
_SHORT_SUM, _LONG_SUM = 64, 1024  # terms of a sum: never worth a call of the library; worth cutting in parts
_FEW = 16  # outputs, or rows, that fill no more than the smallest tile
_MANY = 1024  # rows
_WORK = 1, 4, 16  # tiles of 32 x 32 for each processor, up to which a tile of the list is taken


class Tile(NamedTuple):
    batch: int
    outputs: int
    inputs: int
    warps: int
    stages: int


class Tiles(NamedTuple):
    """Of one kernel."""

    few_outputs: Tile
    few_outputs_of_many: Tile  # rows
    few_rows: Tile
    one_row: Tile
    by_work: tuple[Tile, ...]  # from little to much


TILES = {
    "forward": Tiles(
        Tile(16, 16, 256, 4, 3),
        Tile(32, 16, 128, 4, 4),
        Tile(16, 32, 128, 4, 3),
        Tile(1, 16, 512, 8, 2),
        (Tile(16, 64, 128, 4, 3), Tile(64, 32, 64, 4, 4), Tile(128, 64, 32, 8, 3), Tile(128, 64, 32, 8, 3)),
    ),
    "input": Tiles(
        Tile(32, 16, 64, 4, 2),
        Tile(32, 16, 64, 4, 2),
        Tile(16, 64, 32, 4, 3),
        Tile(16, 64, 32, 4, 3),
        (Tile(32, 64, 32, 4, 3), Tile(32, 64, 64, 4, 3), Tile(32, 64, 64, 4, 3), Tile(128, 32, 64, 8, 3)),
    ),
    "weight": Tiles(
        Tile(64, 16, 64, 4, 2),
        Tile(64, 16, 64, 4, 2),
        Tile(16, 32, 64, 4, 2),
        Tile(16, 32, 64, 4, 2),
        (Tile(64, 32, 64, 4, 2), Tile(32, 32, 64, 4, 4), Tile(64, 32, 64, 4, 2), Tile(32, 64, 64, 4, 3)),
    ),
}


def tile(kernel: str, R: int, M: int, N: int, K: int) -> Tile:
    """For R replicas of a batch of M rows, N outputs and K inputs."""
    tiles = TILES[kernel]
    if M == 1:
        return tiles.one_row
    if N <= _FEW:
        return tiles.few_outputs_of_many if M >= _MANY else tiles.few_outputs
    if M <= _FEW:
        return tiles.few_rows
    return tiles.by_work[bisect_left(_WORK, _least_tiles(kernel, R, M, N, K) / PROCESSORS)]


def _least_tiles(kernel: str, R: int, M: int, N: int, K: int) -> int:
    height, width = {"forward": (M, N), "input": (M, K), "weight": (N, K)}[kernel]
    return R * -(-height // 32) * -(-width // 32)


def is_large(kernel: str, R: int, M: int, N: int, K: int) -> bool:
    """Whether a product is taken from the library: many multiplications, or few tiles with long sums.

    The library cuts such sums in parts: 108 µs in place of 592 for the gradient by the input of 256 rows, 20,000
    outputs and 100 inputs. A sum over the batch is cut in parts here, too.
    """
    terms = {"forward": K, "input": N, "weight": M}[kernel]
    if terms <= _SHORT_SUM:
        return False
    if kernel != "weight" and terms >= _LONG_SUM and _least_tiles(kernel, R, M, N, K) < PROCESSORS:
        return M > _FEW
    return (_LARGE_WEIGHT if kernel == "weight" else _LARGE) <= R * M * N * K
