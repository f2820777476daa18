"""Which training step a network gets on a device, and what is said where it is not the fast one."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
import scipy.sparse
import torch
from support.device_cases import FEATURES, OUTPUTS, ROWS, dataset, network, reason, recipe

from torchnpn import likelihoods, nn, priors
from torchnpn.training import cosine, engine
from torchnpn.training.data import Rows
from torchnpn.training.engine import device_engine
from torchnpn.training.epoch import HostPlan
from torchnpn.training.tape import Objective, TapeSteps

pytest.importorskip("triton")


def frozen():
    net = network()
    net[0].weight.mean.requires_grad_(False)
    return net


def listened():
    net = network()
    net[0].register_forward_hook(lambda *_: None)
    return net


REASONS = {
    "not made of Gaussian": [
        {"net": nn.mlp([FEATURES, 4, OUTPUTS], "gamma")},
        {"net": network(activation="gelu")},
        {"net": listened()},
        {"net": nn.Sequential(nn.Linear(FEATURES, OUTPUTS, bias=False))},
        {"net": torch.nn.Sequential(*network())},
    ],
    "not a dense float32 matrix": [{"data": (scipy.sparse.csr_matrix(dataset()[0].numpy()), dataset()[1])}],
    "frozen, or not float32": [{"net": frozen()}, {"net": network().double()}],
    "the prior is ScaleMixture": [{"prior": priors.ScaleMixture()}],
    "neither adam nor adadelta": [{"optimizer": torch.optim.SGD}, {"scheduler": lambda o, n: cosine(o, n)}],
    "clipping or compiling": [{"clip_norm": 1.0}, {"compile": True}],
}


@pytest.mark.parametrize("words", REASONS)
def test_a_fused_step_is_refused_in_words(words):
    for change in REASONS[words]:
        assert words in reason(**change)


def tied():
    layer = nn.Linear(FEATURES, FEATURES)
    return nn.Sequential(layer, nn.ReLU(), layer)


def listened_before():
    net = network()
    net.register_forward_pre_hook(lambda *_: None)
    return net


@pytest.mark.parametrize(
    "change",
    [
        {"net": tied()},
        {"net": listened_before()},
        {"data": (torch.ones(ROWS, FEATURES, dtype=torch.int64), dataset()[1])},
    ],
    ids=["a layer twice", "a hook before the network", "whole numbers as inputs"],
)
def test_a_fused_step_is_refused_where_it_would_go_wrong(change):
    assert reason(**change) is not None


def test_a_fused_step_needs_a_gpu(monkeypatch):
    assert reason() is None
    monkeypatch.delenv("TRITON_INTERPRET")
    assert "no CUDA device" in reason()
    with pytest.raises(ValueError, match=r"A fused training step does not apply: there is no CUDA device"):
        device_engine(network(), dataset(), likelihoods.ScaledSoftmax(3), None, recipe(), fused=True)


def test_on_a_cpu_a_fused_step_must_be_demanded():
    assert reason() is None
    training = device_engine(network(), dataset(), likelihoods.ScaledSoftmax(3), None, recipe())
    assert isinstance(training.stepper, TapeSteps)


def chosen_on_a_gpu(replicas=(), **settings):
    """The recorded engine for a device that calls itself a GPU, or why there is none."""
    device = SimpleNamespace(type="cuda")
    objective = Objective(network(replicas), likelihoods.ScaledSoftmax(OUTPUTS), None, recipe(**settings))
    return engine.recorded_engine(objective, Rows(*dataset()), device)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"optimizer": torch.optim.SGD}, "SGD cannot be recorded in a CUDA graph"),
        ({"replicas": (2, 2)}, "replicas have more than one leading dimension"),
    ],
)
def test_what_cannot_be_recorded_says_why(settings, words):
    assert chosen_on_a_gpu(**settings) == words


def test_what_can_be_recorded_is():
    assert isinstance(chosen_on_a_gpu(), engine.Engine)


def test_training_without_a_graph_on_a_gpu_is_logged_once(monkeypatch, caplog):
    """The host's plan is made on the CPU, for want of a GPU."""
    here = engine.HostPlan
    monkeypatch.setattr(engine, "HostPlan", lambda data, rules, *_: here(data, rules, torch.device("cpu")))
    objective = Objective(network((2, 2)), likelihoods.ScaledSoftmax(OUTPUTS), None, recipe())
    with caplog.at_level(logging.WARNING, "torchnpn"):
        chosen = engine.choose_engine(objective, Rows(*dataset()), SimpleNamespace(type="cuda"))
    assert chosen.name == "TapeSteps"
    reason = "replicas have more than one leading dimension"
    assert caplog.messages == [f"Training without a CUDA graph, which is slower: {reason}."]


def test_the_host_sums_up_losses_where_the_network_is():
    """Losses lie on the device, weights of rows on the host; on "meta" a mix of the two would fail as on a GPU."""
    plan = HostPlan(Rows(*dataset()), recipe(), torch.device("cpu"))
    plan.begin(0)
    plan.next()
    plan.device = torch.device("meta")
    plan.note(torch.zeros(8, device="meta"))
    assert plan.loss().device.type == "meta"
