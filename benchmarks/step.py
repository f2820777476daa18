"""What a probabilistic network costs beside a plain one: training step, prediction, memory; ratios from one process.

Both networks are 784-800-800-10 with ReLU, batch 128, float32, fused Adam, cross-entropy. Times are process CPU time with
one thread and wall-clock time with two, the median over rounds in which plain and probabilistic steps alternate.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable

import torch
from records import write
from torch import Tensor

import torchnpn as npn

SIZES, BATCH = (784, 800, 800, 10), 128


def plain_network() -> torch.nn.Module:
    layers: list[torch.nn.Module] = []
    for n_in, n_out in zip(SIZES[:-1], SIZES[1:], strict=True):
        layers += [torch.nn.Linear(n_in, n_out), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def contestants(x: Tensor, y: Tensor) -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """For each network, a training step and a prediction."""
    plain, network = plain_network(), npn.nn.mlp(SIZES)
    head, prior = npn.likelihoods.ScaledSoftmax(SIZES[-1]), npn.priors.IsotropicGaussian(100.0)

    def step(parameters: list[Tensor], loss: Callable[[], Tensor]) -> Callable[[], object]:
        optimizer = torch.optim.Adam(parameters, 1e-3, fused=True)

        def one() -> None:
            optimizer.zero_grad(set_to_none=True)
            loss().backward()
            optimizer.step()

        return one

    def predict(model: torch.nn.Module, head: Callable[[object], object]) -> Callable[[], object]:
        def one() -> object:
            model.eval()
            with torch.no_grad():
                return head(model(x))

        return one

    weights, random = list(plain.parameters()), list(network.parameters())
    nll = lambda: head.loss(network.train()(x), y).mean()  # noqa: E731
    return {
        "plain": (
            step(weights, lambda: torch.nn.functional.cross_entropy(plain.train()(x), y)),
            predict(plain, lambda o: torch.softmax(o, -1)),  # type: ignore[call-overload]
        ),
        "NPN": (step(random, nll), predict(network, head.predict)),  # type: ignore[arg-type]
        "NPN with KL": (step(random, lambda: nll() + 1e-7 * npn.kl(network, prior)), lambda: None),
    }


def measure(functions: dict[str, Callable[[], object]], clock: Callable[[], float], rounds: int) -> dict[str, float]:
    """Median microseconds of each function, in turns."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for i in range(rounds + 3):
        for name, function in functions.items():
            start = clock()
            function()
            if i >= 3:
                times[name].append((clock() - start) * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}


def peak_megabytes(static: list[Tensor], step: Callable[[], object]) -> float:
    """Parameters, optimizer state, and the most that one step allocates on top of them."""
    step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        step()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]  # type: ignore[union-attr]
    alive = itertools.accumulate(event.nbytes() for event in sorted(events, key=lambda event: event.start_ns()))
    return (3 * sum(t.nbytes for t in static) + max(alive)) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--record", default="results/step_cpu.json")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    x, y = torch.randn(BATCH, SIZES[0]), torch.randint(SIZES[-1], (BATCH,))
    rows = []
    for threads, clock in ((1, time.process_time), (2, time.perf_counter)):
        torch.set_num_threads(threads)
        pairs = contestants(x, y)
        steps = measure({name: pair[0] for name, pair in pairs.items()}, clock, arguments.rounds)
        predictions = measure({name: pair[1] for name, pair in pairs.items()}, clock, arguments.rounds)
        for name in pairs:
            rows.append(
                (threads, name, steps[name], steps[name] / steps["plain"], predictions[name] / predictions["plain"])
            )
            print(
                f"{threads} thread(s)  {name:12s} step {steps[name]:8.0f} us  {steps[name] / steps['plain']:.2f}x   "
                f"predict {predictions[name]:8.0f} us {predictions[name] / predictions['plain']:.2f}x"
            )


if __name__ == "__main__":
    main()
