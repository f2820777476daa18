"""What a probabilistic network costs beside a plain one: training step, prediction, memory; ratios from one process.

python benchmarks/step.py

Both networks are 784-800-800-10 with ReLU, batch 128, float32, fused Adam and a softmax head. Rounds of plain and
probabilistic work alternate; a figure is the smallest over the rounds, of process CPU time with one thread and of the
wall clock with two, because everything else on a machine can only add to it.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torchnpn as npn
from benchmarks import records

SIZES, BATCH = (784, 800, 800, 10), 128
PAGE = records.RESULTS.parent / "docs" / "networks.md"
CLOCKS = {1: time.process_time, 2: time.perf_counter}  # by the number of threads


class Contestant:
    """A network with its loss and head: a training step, a prediction."""

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Callable[[Any], Tensor],
        predict: Callable[[Any], object],
        prior: npn.priors.Prior | None = None,
    ) -> None:
        self.model, self.loss, self.head, self.prior = model, loss, predict, prior
        self.x = torch.randn(BATCH, SIZES[0], generator=torch.Generator().manual_seed(0))
        self.optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True)

    def step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(self.model(self.x)).backward()
        if self.prior is not None:
            npn.priors.add_kl_gradient_(self.model, self.prior, 1e-7)
        self.optimizer.step()

    def predict(self) -> object:
        with torch.no_grad():
            return self.head(self.model(self.x))

    def peak_megabytes(self) -> float:
        """Parameters, Adam's two moments, what layers keep, and the most that one step has allocated on top of them."""
        self.step()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            self.step()
        events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]  # type: ignore[union-attr]
        events.sort(key=lambda event: event.start_ns())
        alive = max(itertools.accumulate(event.nbytes() for event in events))
        kept = [m._memory for m in self.model.modules() if isinstance(m, npn.nn.RandomParameter)]
        static = 3 * sum(p.nbytes for p in self.model.parameters()) + sum(t.nbytes for t in kept if t is not None)
        return (static + alive) / 2**20


def contestants() -> dict[str, Contestant]:
    y = torch.randint(SIZES[-1], (BATCH,), generator=torch.Generator().manual_seed(1))
    layers = [layer for a, b in itertools.pairwise(SIZES) for layer in (torch.nn.Linear(a, b), torch.nn.ReLU())]
    head, prior = npn.likelihoods.ScaledSoftmax(SIZES[-1]), npn.priors.IsotropicGaussian(100.0)
    return {
        "plain": Contestant(
            torch.nn.Sequential(*layers[:-1]), lambda o: functional.cross_entropy(o, y), lambda o: torch.softmax(o, -1)
        ),
        "NPN": Contestant(npn.nn.mlp(SIZES), lambda o: head.loss(o, y).mean(), head.predict),
        "NPN with KL": Contestant(npn.nn.mlp(SIZES), lambda o: head.loss(o, y).mean(), head.predict, prior),
    }


def fastest(functions: dict[str, Callable[[], object]], clock: Callable[[], float], rounds: int) -> dict[str, float]:
    """Milliseconds of each function, in turns."""
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, function in functions.items():
            start = clock()
            function()
            best[name] = min(best[name], 1e3 * (clock() - start))
    return best


def measure(threads: int, rounds: int) -> list[dict[str, Any]]:
    torch.set_num_threads(threads)
    all_, clock = contestants(), CLOCKS[threads]
    memory = {name: contestant.peak_megabytes() for name, contestant in all_.items()}
    steps = fastest({name: contestant.step for name, contestant in all_.items()}, clock, rounds)
    for contestant in all_.values():
        contestant.model.eval()
    predictions = fastest({name: contestant.predict for name, contestant in all_.items()}, clock, rounds)
    figures = {"step_ms": steps, "predict_ms": predictions, "peak_mb": memory}
    return [{"threads": threads, "network": name, **{k: v[name] for k, v in figures.items()}} for name in all_]


def with_table(page: str, record: dict[str, Any]) -> str:
    """The page with the table between its two comments rendered from `record`."""
    start, end = "by benchmarks/step.py: do not edit -->\n", "<!-- end of rendered part -->"
    lines = [
        "| threads | network | step, ms | ratio | predict, ms | ratio | peak, MB | ratio |",
        "|---:|---|" + "---:|" * 6,
    ]
    for row in record["rows"]:
        plain = next(r for r in record["rows"] if (r["threads"], r["network"]) == (row["threads"], "plain"))
        cells = (f"{row[key]:.1f} | {row[key] / plain[key]:.2f}" for key in ("step_ms", "predict_ms", "peak_mb"))
        lines.append(f"| {row['threads']} | {row['network']} | " + " | ".join(cells) + " |")
    before, _, rest = page.partition(start)
    return before + start + "\n" + "\n".join(lines) + "\n\n" + end + rest.partition(end)[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    rows = [row for threads in CLOCKS for row in measure(threads, arguments.rounds)]
    print("784-800-800-10, batch 128, float32, fused Adam; times in ms, and as ratios to the plain network")
    headings = "  ".join(f"{heading:>7} {'ratio':>6}" for heading in ("step", "predict", "peak MB"))
    print(f"threads  {'network':12} {headings}")
    for row in rows:
        plain = next(r for r in rows if r["threads"] == row["threads"] and r["network"] == "plain")
        cells = (f"{row[key]:7.1f} {row[key] / plain[key]:6.2f}" for key in ("step_ms", "predict_ms", "peak_mb"))
        print(f"{row['threads']:>7}  {row['network']:12} " + "  ".join(cells))
    configuration = {"sizes": SIZES, "batch": BATCH, "rounds": arguments.rounds, "optimizer": "fused Adam"}
    record = {**records.circumstances(), "configuration": configuration, "rows": rows}
    records.write_json(records.RESULTS / "step_cpu.json", record)
    records.write(PAGE, with_table(PAGE.read_text(encoding="utf-8"), record))


if __name__ == "__main__":
    main()
