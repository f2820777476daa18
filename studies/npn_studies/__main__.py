"""`python -m npn_studies NAME …`: what `npn reproduce` does, without its optional dependencies."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from npn_studies.experiments import EXPERIMENTS
from npn_studies.experiments.experiment import Options, Progress
from npn_studies.experiments.run import LIST_HEADER, Screen, choose, folder_for, listing, reproduce
from torchnpn.training import resolve_device


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, or list, experiments; the exit status is 0 if all of them ran."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        options = Options(resolve_device(given.device), given.quick, given.seeds)
        folder = folder_for(options, given.out)
        if given.list:
            print(_aligned([list(LIST_HEADER), *listing(EXPERIMENTS, folder)]))
            return 0
        chosen = choose(given.names, EXPERIMENTS)
    except ValueError as error:
        parser.error(str(error))
    left_out = reproduce(chosen, options, folder, given.again, Screen(print, _dots))
    if left_out:
        print(f"Left out for want of data: {', '.join(left_out)}.", file=sys.stderr)
    return 1 if left_out else 0


def positive(text: str) -> int:
    """A number of seeds."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expects 1 or more, got {number}")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m npn_studies", description="Run experiments of the paper.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of experiments, or all")
    parser.add_argument("--seeds", type=positive, help="how many; by default each experiment's own number")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: whether it runs")
    parser.add_argument("-o", "--out", type=Path, help="folder of the records (results, or results/quick)")
    parser.add_argument("--again", action="store_true", help="run anew what the record holds already")
    parser.add_argument("--list", action="store_true", help="show what there is")
    return parser


@contextmanager
def _dots() -> Iterator[Callable[[str], Progress]]:
    """A line of dots on the error stream, twenty for the whole work; silent without a terminal."""
    shown = 0

    def progress(share: float) -> None:
        nonlocal shown
        if sys.stderr.isatty():
            print("." * (int(20 * share) - shown), end="", file=sys.stderr, flush=True)
        shown = max(shown, int(20 * share))

    yield lambda name: progress
    if sys.stderr.isatty():
        print(file=sys.stderr)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


if __name__ == "__main__":
    sys.exit(main())
