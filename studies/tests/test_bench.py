"""`npn bench`: contestants do what their names say, clocks and memory measure what they should, failures are rows."""

from __future__ import annotations

import itertools
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from npn_studies.bench import clock, contest, ours, plan, rivals, table, task, ways
from torch.nn import functional
from typer.testing import CliRunner

import torchnpn as npn

CPU = torch.device("cpu")
CLASSES = task.make_task(task.Size((6, 8, 7, 3), 5), CPU)
SPARSE = task.make_task(task.Size((20, 6, 20), 5, "tanh", 4), CPU)
TASKS = {"classes": CLASSES, "autoencoder": SPARSE}
ON_CPU = [name for name in contest.ENTRIES if not name.endswith(("compiled", "graph", "replayed", "tied-replicas"))]
ROOT = Path(__file__).parents[2]
RUNNER = CliRunner()


# Tasks


def test_a_batch_is_the_same_rows_of_dense_and_sparse_data():
    x, y = SPARSE.batch()
    assert SPARSE.x.shape[0] % SPARSE.size.batch == 0 and len(set(SPARSE.rows.tolist())) == 5
    np.testing.assert_array_equal(x.numpy(), SPARSE.data.x.toarray()[SPARSE.rows.numpy()])
    torch.testing.assert_close(x, y)
    assert ((SPARSE.x != 0).sum(-1) == 4).all()


def test_members_are_judged_one_by_one():
    o = torch.randn(3, 5, 3)
    _, y = CLASSES.batch()
    expected = np.mean([-torch.log_softmax(member, -1)[range(5), y].mean() for member in o])
    assert float(CLASSES.loss(o, y)) == pytest.approx(expected)


# Contestants


def test_a_step_is_adam_on_the_gradient_of_the_loss():
    weight = torch.nn.Parameter(torch.zeros(3, 6))
    twin = torch.nn.Parameter(torch.zeros(3, 6))
    made = ways.training_step(lambda x, y: functional.cross_entropy(x @ weight.T, y), [weight], CLASSES, ways.EAGER)
    optimizer = torch.optim.Adam([twin], 1e-3)
    for _ in range(3):
        made()
        optimizer.zero_grad()
        functional.cross_entropy(CLASSES.x[CLASSES.rows] @ twin.T, CLASSES.y[CLASSES.rows]).backward()
        optimizer.step()
    torch.testing.assert_close(weight, twin)


@pytest.mark.parametrize("replicas", [(), (2,)])
@pytest.mark.parametrize("name", TASKS)
def test_our_step_is_adam_on_the_objective(name, replicas, monkeypatch):
    """Mean loss of the rows plus KL/N, whatever the way; its prediction is the likelihood's."""
    work = TASKS[name]
    network, twin = (ours._network(work, replicas) for _ in range(2))
    monkeypatch.setattr(ours, "_network", lambda *_: network)
    contestant = ours.npn(work, ways.EAGER, replicas)
    made = contestant.training()
    optimizer = torch.optim.Adam([*twin.model.parameters(), *twin.likelihood.parameters()], 1e-3)
    x, y = work.x[work.rows], work.y[work.rows]
    for _ in range(2):
        made()
        optimizer.zero_grad()
        loss = twin.likelihood.loss(twin.model(x), y).mean(-1)
        divergence = npn.kl(twin.model, npn.priors.IsotropicGaussian(100.0))
        (loss + divergence / len(work.y)).sum().backward()
        optimizer.step()
    for ours_, theirs in zip(network.model.parameters(), twin.model.parameters(), strict=True):
        torch.testing.assert_close(ours_, theirs, rtol=1e-4, atol=1e-5)
    mean, variance = contestant.prediction()()
    predicted = twin.likelihood.predict(twin.model(x))
    torch.testing.assert_close(mean, predicted.mean.detach(), rtol=1e-3, atol=1e-4)
    assert variance.shape == mean.shape and (variance > 0).all()


def test_members_are_separate_networks():
    layer = rivals.MemberLinear(3, 6, 2)
    x = torch.randn(5, 6)
    first = layer(x)  # all see the same rows
    second = layer(torch.stack([x, 2 * x, 3 * x]))
    for i in range(3):
        expected = lambda x: functional.linear(x, layer.weight[i].T, layer.bias[i, 0])
        torch.testing.assert_close(first[i], expected(x))
        torch.testing.assert_close(second[i], expected((i + 1) * x))


def test_sampled_weights_have_their_moments():
    layer = rivals.SampledLinear(6, 2)
    x = torch.randn(4, 6)
    drawn = torch.stack([layer(x) for _ in range(4000)])
    ones = torch.cat([x, torch.ones(4, 1)], 1)
    std = torch.sqrt(ones**2 @ torch.exp(2 * layer.log_std).T)
    assert ((drawn.mean(0) - ones @ layer.mean.T).abs() < 5 * std / 4000**0.5).all()
    assert (drawn.std(0) / std - 1).abs().max() < 0.1


def test_divergence_of_sampled_weights():
    layers = [rivals.SampledLinear(6, 2) for _ in range(2)]
    with torch.no_grad():
        layers[1].log_std += 0.7
    normal = torch.distributions.Normal
    exact = [
        torch.distributions.kl_divergence(normal(layer.mean, layer.log_std.exp()), normal(0.0, 0.1)).sum()
        for layer in layers
    ]
    torch.testing.assert_close(layers[1].divergence() - layers[0].divergence(), exact[1] - exact[0])


def test_dropout_samples_masks_of_hidden_units():
    """One hidden layer: with independent masks of rate ½ the logits' moments are known."""
    work = task.make_task(task.Size((20, 40, 20), 5, "tanh", 4), CPU)
    contestant = rivals.dropout(work, 4000)
    mean, variance = contestant.prediction()()
    model = rivals._network(work, torch.nn.Linear)  # the same initial weights
    a = torch.tanh(model[0](work.batch()[0]))
    expected_mean, expected_variance = model[2](a), a**2 @ (model[2].weight ** 2).T
    assert ((mean - expected_mean).abs() < 5 * torch.sqrt(expected_variance / 4000)).all()
    assert (variance / expected_variance - 1).abs().max() < 0.2


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("entry", ON_CPU)
def test_contestants_answer_with_probabilities_and_variances(entry, name):
    work = TASKS[name]
    contestant = contest.ENTRIES[entry].build(work)
    made = contestant.training()
    made()
    answer = contestant.prediction()()
    mean, variance = (answer, None) if entry.startswith("plain") else answer
    replicas = (20,) if entry == "npn-replicas" else ()
    assert mean.shape == (*replicas, 5, work.size.sizes[-1])
    assert variance is None or (variance.shape == mean.shape and (variance >= 0).all())
    if name == "classes":
        torch.testing.assert_close(mean.sum(-1), torch.ones(mean.shape[:-1]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # torch's own, while it traces
@pytest.mark.parametrize("entry", ["plain", "npn", "dropout-10", "ensemble-5", "bbb-10"])
def test_contestants_can_be_compiled_whole(entry, monkeypatch):
    """On a GPU they are: no part of a step or a prediction is left to the interpreter."""
    traced = lambda function: torch.compile(function, dynamic=False, fullgraph=True, backend="eager")
    monkeypatch.setattr(ways, "_compiled", traced)
    monkeypatch.setattr(rivals, "_best", lambda _: ways.COMPILED)
    torch.compiler.reset()
    build = contest.ENTRIES[entry].build
    contestant = build(CLASSES, way=ways.COMPILED) if entry in ("plain", "npn") else build(CLASSES)
    contestant.training()()
    contestant.prediction()()


def test_an_epoch_of_the_device_step_begins_before_its_steps(monkeypatch):
    calls = []
    plan = types.SimpleNamespace(steps=3)
    fake = types.SimpleNamespace(plan=plan, begin=lambda number: calls.append(number), run=lambda: calls.append("run"))
    monkeypatch.setattr(ours, "device_engine", lambda *_, **how: calls.append(how) or fake)
    call = ours._on_device(CLASSES, ours._network(CLASSES, ()), fused=True)
    for _ in range(5):
        call()
    assert calls == [{"fused": True}, 0, "run", "run", "run", 1, "run", "run"]


def test_the_device_step_trains():
    network = ours._network(CLASSES, (2,))
    before = [p.detach().clone() for p in network.model.parameters()]
    call = ours._on_device(CLASSES, network, fused=False)
    for _ in range(3):
        call()
    for old, new in zip(before, network.model.parameters(), strict=True):
        assert new.isfinite().all() and not torch.equal(old, new)


# Clocks and memory


def test_rounds_alternate_and_warm_ups_do_not_count():
    seen, ticks = [], itertools.count()
    calls = {name: lambda name=name: seen.append(name) for name in "ab"}
    counted = clock.Clock(lambda call: (call(), next(ticks))[1], min)
    assert clock.in_turns(calls, counted, clock.Limits(3, 60.0)) == {"a": 0.0, "b": 1e6}
    assert seen == ["a", "b"] * 4
    seen.clear()
    clock.in_turns(calls, counted, clock.Limits(100, 0.0))  # time is up at once
    assert seen == ["a", "b"] * 4


def test_a_clock_measures_what_a_call_takes(monkeypatch):
    """By a hand that only the calls move; a real one would also see what else the machine does."""
    now = [0.0]
    hand = lambda: now[0]
    monkeypatch.setattr(clock, "time", types.SimpleNamespace(process_time=hand, perf_counter=hand))
    takes = lambda seconds: lambda: now.append(now.pop() + seconds)
    calls = {"one": takes(1.0), "ten": takes(10.0)}
    assert clock.in_turns(calls, clock.clock(CPU), clock.Limits(5, 500.0)) == {"one": 1e6, "ten": 1e7}


@pytest.mark.parametrize("threads", [1, 2])
def test_a_clock_of_a_cpu_runs(threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    x = torch.randn(256, 256)
    (time,) = clock.in_turns({"product": lambda: x @ x}, clock.clock(CPU), clock.Limits(5, 5.0)).values()
    assert 0 < time < float("inf")


def test_peak_is_the_most_that_is_held_at_once():
    def action() -> torch.Tensor:
        kept = torch.zeros(2**18)  # a megabyte
        torch.zeros(2**19)  # two, and gone
        torch.zeros(2**18).clone()  # one and one
        return kept

    result, megabytes = clock.with_peak(action, CPU)
    assert result.shape == (2**18,)
    assert megabytes == pytest.approx(3.0, rel=0.01)


@pytest.mark.parametrize("entry", ["plain", "npn"])
def test_memory_of_training_holds_parameters_gradients_and_adam(entry):
    work = task.make_task(task.Size((300, 300, 300, 10), 8), CPU)
    (row,) = contest.contest(work, [entry], clock.Limits(1, 0.0))
    numbers = (300 * 301 * 2 + 301 * 10) * (2 if entry == "npn" else 1)
    least = 4 * 4 * numbers / 2**20
    assert least < row["peak_mb"] < 1.4 * least


# Tables


def test_a_failure_is_a_row(monkeypatch):
    def broken(work):
        raise RuntimeError(f"no compiler\n{'details ' * 100}")

    def full(work):
        return ways.Contestant(lambda: lambda: torch.zeros(3), lambda: (_ for _ in ()).throw(torch.OutOfMemoryError()))

    entries = {
        "plain": contest.ENTRIES["plain"],
        "broken": contest.Entry("broken", broken),
        "full": contest.Entry("full", full),
        "npn-graph": contest.ENTRIES["npn-graph"],
        "plain-graph": contest.ENTRIES["plain-graph"],
    }
    monkeypatch.setattr(contest, "ENTRIES", entries)
    shares = []
    rows = {r["contestant"]: r for r in contest.contest(CLASSES, list(entries), clock.Limits(3, 0.1), shares.append)}
    assert rows["plain"].keys() == {"contestant", "step_us", "predict_us", "peak_mb"}
    assert rows["broken"] == {"contestant": "broken", "why": "RuntimeError: no compiler"}
    assert rows["full"]["why"] == "out of memory" and "predict_us" not in rows["full"]
    assert rows["npn-graph"]["why"] == rows["plain-graph"]["why"] == "needs a CUDA GPU"
    assert shares == sorted(shares) and shares[-1] == 1.0


def test_reasons_are_short():
    assert contest.reason(ValueError("")) == "ValueError"
    assert len(contest.reason(ValueError("x" * 500))) == 90
    assert contest.reason(ValueError("inputs are not dense")) == "inputs are not dense"
    assert contest.reason(ModuleNotFoundError("\n no module")) == "ModuleNotFoundError: no module"


def test_ratios_are_to_the_best_plain_network():
    rows = [
        {"contestant": "plain", "step_us": 200.0, "predict_us": 50.0},
        {"contestant": "plain-compiled", "step_us": 100.0, "predict_us": 60.0},
        {"contestant": "plain-graph", "why": "needs a CUDA GPU"},
        {"contestant": "npn", "step_us": 250.0, "predict_us": 12.5},
    ]
    assert table.header(rows) == ["network", "step, µs", "ratio", "predict, µs", "ratio"]
    assert table.cells(rows) == [
        ["plain", "200", "2.00", "50", "1.00"],
        ["plain, compiled", "100", "1.00", "60", "1.20"],
        ["plain, compiled, graph: needs a CUDA GPU", "–", "–", "–", "–"],
        ["NPN", "250", "2.50", "12.5", "0.25"],
    ]
    assert table.cells(rows[-1:]) == [["NPN", "250", "–", "12.5", "–"]]


def test_names_choose_parts_and_contestants():
    assert plan.choose([]) == (list(plan.PARTS), list(contest.ENTRIES))
    assert plan.choose(["latency"]) == (["latency"], list(contest.ENTRIES))
    parts, names = plan.choose(["npn", "mnist", "wide"])
    assert (parts, names) == (["mnist", "wide"], [*contest.PLAIN, "npn"])
    with pytest.raises(ValueError, match=r"parts \(mnist, .*contestants \(plain, .*got nonsense"):
        plan.choose(["mnist", "nonsense"])


def test_tf32_is_put_back():
    before = torch.backends.cuda.matmul.allow_tf32
    with plan.fast_products(torch.device("cuda")):
        assert torch.backends.cuda.matmul.allow_tf32
    assert torch.backends.cuda.matmul.allow_tf32 == before
    with plan.fast_products(CPU):
        assert torch.backends.cuda.matmul.allow_tf32 == before
    assert torch.backends.cuda.matmul.allow_tf32 == before


def test_points_vary_one_number():
    sweep = plan.FULL.sweep
    assert sweep.size("depth", 3) == task.Size((784, 800, 800, 800, 10), 128)
    assert sweep.size("width", 64) == task.Size((784, 64, 64, 10), 128)
    assert sweep.size("batch", 1) == task.Size((784, 800, 800, 10), 1)
