"""Training steps for a device: fused, by autograd, and a plain loop written here agree; by Triton's interpreter."""

from __future__ import annotations

import copy
import functools
import math

import pytest
import torch
from support.device_cases import FEATURES, OUTPUTS, ROWS, dataset, network, normal, reason, recipe, seeded

from torchnpn import likelihoods, nn, priors
from torchnpn._cuda import CapturedCall, SideStreams, captured
from torchnpn.moments import Moments
from torchnpn.training import adadelta, constant, cosine
from torchnpn.training.chain import TritonChainSteps
from torchnpn.training.engine import device_engine
from torchnpn.training.tape import TapeSteps, TorchUpdate

pytest.importorskip("triton")

# A plain loop --------------------------------------------------------------------------------------------------------


def textbook_kl(net, prior):
    """Σ ½ (λ (m² + s) - 1 - log λ - log s) over weights and biases of Gaussian layers."""
    total = 0.0
    for i, layer in enumerate(module for module in net.modules() if isinstance(module, nn.Linear)):
        for parameter, bias in ((layer.weight, False), (layer.bias, True)):
            m, s = parameter.moments
            if isinstance(prior, priors.IsotropicGaussian):
                precision = torch.tensor(prior.precision, dtype=m.dtype)
            elif bias:
                precision = torch.ones((), dtype=m.dtype)
            else:
                precision = 1 / (m**2 + s).detach().mean(0 if i == 0 else (0, 1))
            total = total + 0.5 * (precision * (m**2 + s) - 1 - precision.log() - s.log()).sum()
    return total


def plain_training(net, likelihood, data, prior, settings, rate, radius, orders):
    """One network in float64, batch by batch, with torch's optimizer; the mean loss of each epoch."""
    x, y, *weight = data
    x = Moments(*(None if t is None else t.double() for t in (x if isinstance(x, Moments) else Moments(x))))
    y = y if y.dtype == torch.int64 else y.double()
    weight = weight[0].double() if weight else torch.ones(ROWS, dtype=torch.float64)
    parameters = [*net.parameters(), *likelihood.parameters()]
    adam = functools.partial(torch.optim.Adam, betas=(0.9, 0.99), eps=1e-8)
    optimizer = (torch.optim.Adadelta if settings.optimizer is adadelta else adam)(parameters, rate)
    steps = math.ceil(ROWS / settings.batch_size)
    total = settings.epochs * steps
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)
    losses = []
    for epoch, order in enumerate(orders):
        sums = torch.zeros(2, dtype=torch.float64)
        for step, rows in enumerate(order.split(settings.batch_size)):
            inputs = Moments(x.mean[rows], None if x.variance is None else x.variance[rows])
            if radius:
                at = inputs.mean.clone().requires_grad_()
                likelihood.loss(net(inputs._replace(mean=at)), y[rows]).sum().backward()
                inputs = inputs._replace(mean=inputs.mean + radius * torch.nn.functional.normalize(at.grad, dim=-1))
            loss = (likelihood.loss(net(inputs), y[rows]) * weight[rows]).sum() / weight[rows].sum()
            sums += torch.stack([(loss * weight[rows].sum()).detach(), weight[rows].sum()])
            if prior is not None:
                beta = settings.kl_weight((epoch * steps + step) / total)
                loss = loss + beta / float(weight.sum()) * textbook_kl(net, prior)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if settings.scheduler is not None:
                falling.step()
        losses.append(sums)
    return losses


def alone(module, make, replica):
    """One network, or likelihood, of several, in float64."""
    state = module.state_dict()
    lone = make().double()
    lone.load_state_dict({name: value if replica is None else value[replica] for name, value in state.items()})
    return lone


TIED = {"posterior": "tied"}
EMPIRICAL, ISOTROPIC = priors.EmpiricalBayes(), priors.IsotropicGaussian(10.0)
CASES = {  # settings of the network and of the data; the prior; settings of the recipe
    "labels": ({"hidden": (70, 2)}, {}, None, {"epochs": 1}),
    "labels, isotropic": ({}, {}, ISOTROPIC, {"epochs": 1}),
    "labels, empirical Bayes": ({"activation": "tanh"}, {}, EMPIRICAL, {}),
    "labels, one layer": ({"hidden": ()}, {}, EMPIRICAL, {}),
    "labels, weights, uncertain inputs, one layer": ({"hidden": ()}, {"variance": True, "weight": True}, None, {}),
    "amounts": (
        {"activation": "sigmoid"},
        {"kind": "amounts"},
        EMPIRICAL,
        {"epochs": 1, "scheduler": None, "kl_weight": constant(0.3)},
    ),
    "amounts, weights, uncertain inputs": (
        {},
        {"kind": "amounts", "variance": True, "weight": True},
        ISOTROPIC,
        {"epochs": 1},
    ),
    "replicas": ({"replicas": (2,)}, {}, EMPIRICAL, {"epochs": 1}),
    "replicas, rates, amounts": (
        {"replicas": (2,), "hidden": (7,)},
        {"kind": "amounts", "variance": True, "weight": True},
        EMPIRICAL,
        {"learning_rate": [2e-2, 1e-3]},
    ),
    "tied": ({**TIED, "hidden": (70, 2)}, {}, None, {"epochs": 1}),
    "tied, isotropic, uncertain inputs": (TIED, {"variance": True}, ISOTROPIC, {}),
    "tied, empirical Bayes, replicas": ({**TIED, "replicas": (2,)}, {"weight": True}, EMPIRICAL, {}),
    "tied, one layer": ({**TIED, "hidden": ()}, {}, EMPIRICAL, {"adversarial": 0.5}),
    "tied, amounts, noise": (
        {**TIED, "noise": True, "activation": "tanh"},
        {"kind": "amounts"},
        EMPIRICAL,
        {"epochs": 1},
    ),
    "amounts, noise": ({"noise": True}, {"kind": "amounts", "weight": True}, EMPIRICAL, {"epochs": 1}),
    "amounts, noise, replicas, adversarial": (
        {"noise": True, "hidden": (7,), "replicas": (2,)},
        {"kind": "amounts"},
        ISOTROPIC,
        {"epochs": 1, "adversarial": 0.5},
    ),
    "labels, adversarial": ({}, {}, ISOTROPIC, {"epochs": 1, "adversarial": 0.5}),
    "labels, adversarial, one layer": ({"hidden": ()}, {}, None, {"adversarial": 0.5}),
    "amounts, adversarial, replicas, radii": (
        {"replicas": (2,), "hidden": (7,)},
        {"kind": "amounts", "variance": True, "weight": True},
        EMPIRICAL,
        {"epochs": 1, "adversarial": [0.5, 0.0]},
    ),
    "sigmoids": ({"replicas": (2,)}, {"kind": "sigmoids"}, EMPIRICAL, {"epochs": 1}),
    "sigmoids, tied": (TIED, {"kind": "sigmoids"}, None, {"epochs": 1}),
    "adadelta": ({}, {}, ISOTROPIC, {"optimizer": adadelta, "learning_rate": 1.0}),
    "adadelta, tied, amounts, noise, replicas": (
        {**TIED, "noise": True, "replicas": (2,)},
        {"kind": "amounts"},
        EMPIRICAL,
        {"optimizer": adadelta, "learning_rate": 1.0, "scheduler": None},
    ),
    "many replicas": ({"replicas": (8,), "hidden": (3,)}, {}, EMPIRICAL, {"epochs": 1}),
}


def likelihood_for(shape, data, replicas=()):
    if data.get("kind") != "amounts":
        return (likelihoods.ScaledSigmoids if "kind" in data else likelihoods.ScaledSoftmax)(OUTPUTS)
    kind = likelihoods.HeteroscedasticGaussian if shape.get("noise") else likelihoods.GaussianNoise
    return kind(OUTPUTS, replicas=replicas)


def check_case(case, fused):
    shape, data, prior, settings = case
    settings, data_, replicas = recipe(**settings), dataset(**data), shape.get("replicas", ())
    net, likelihood = network(**shape), likelihood_for(shape, data, replicas)
    single = [None] if not replicas else range(*replicas)
    lone_shape = {**shape, "replicas": ()}
    lone_nets = [alone(net, lambda: network(**lone_shape), k) for k in single]
    lone_likelihoods = [alone(likelihood, lambda: likelihood_for(shape, data), k) for k in single]
    training = device_engine(net, data_, likelihood, prior, settings, fused=fused)
    assert isinstance(training.stepper, TritonChainSteps if fused else TapeSteps)
    losses, orders = [], []
    for number in range(settings.epochs):
        loss, beta, divergence, broken = training.epoch(number)
        assert not broken
        assert beta == pytest.approx(settings.kl_weight((number + 1 - 1 / training.plan.steps) / settings.epochs))
        losses.append(loss)
        orders.append(training.plan.order[:, :ROWS].clone())
    sums = 0.0
    for k, (lone, noise) in enumerate(zip(lone_nets, lone_likelihoods, strict=True)):
        rate, radius = (
            value if isinstance(value, float) else value[k] for value in (settings.learning_rate, settings.adversarial)
        )
        of_replica = plain_training(lone, noise, data_, prior, settings, rate, radius, [order[k] for order in orders])
        sums = sums + torch.stack(of_replica)
        for module, exact in ((net, lone), (likelihood, noise)):
            for name, want in exact.state_dict().items():
                got = module.state_dict()[name]
                torch.testing.assert_close((got[k] if replicas else got).double(), want, rtol=0, atol=2e-5)
    torch.testing.assert_close(torch.tensor(losses), (sums[:, 0] / sums[:, 1]).float(), rtol=2e-6, atol=0)
    kls = [0.0 if prior is None else float(textbook_kl(lone, prior).detach()) for lone in lone_nets]
    assert divergence == pytest.approx(sum(kls) / len(kls), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_fused_training_is_the_plain_loop(case):
    check_case(case, fused=True)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_training_by_autograd_is_the_plain_loop(case):
    check_case(case, fused=False)


WAYS = {  # constants of `layer` that lead through the other branches
    "library's products": {"tiles.is_large": lambda *sizes: True},
    "sums added up before": {"update._MOST_PARTS": 0, "layer.MOST_PARTS": 1},
    "loss of many classes": {"step._FEW_CLASSES": 1},
    "products and update in two kernels, batches in parts": {
        "update._FEW_ROWS": 0,
        "update._ROWS": 4,
        "layer._LEAST_PART": 4,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("posterior", "data"), [("mean_field", {}), ("mean_field", {"kind": "sigmoids"}), ("tied", {})], ids=str
)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_way_through_a_fused_step_is_the_plain_loop(way, posterior, data, monkeypatch):
    for name, value in way.items():
        monkeypatch.setattr(f"torchnpn.kernels.triton.{name}", value)
    shape = {"replicas": (2,), "hidden": (40,), "posterior": posterior}
    check_case((shape, data, EMPIRICAL, {"epochs": 1}), fused=True)


@pytest.mark.parametrize("prior", [None, ISOTROPIC])
def test_an_epoch_ends_without_a_copy_from_the_host(prior):
    """A CUDA graph cannot hold one: what ends an epoch are tensors of the device."""
    training = device_engine(network(), dataset(), likelihoods.ScaledSoftmax(OUTPUTS), prior, recipe())
    training.epoch(0)
    assert isinstance(training.stepper.divergence(), torch.Tensor)


def test_an_activation_may_be_last():
    net = nn.Sequential(*network(hidden=(4,)), nn.Tanh())
    trained = []
    for fused in (True, False):
        trained.append(copy.deepcopy(net))
        device_engine(trained[-1], dataset("amounts"), likelihoods.SquaredError(), None, recipe(), fused=fused).epoch(0)
    for a, b in zip(*(module.parameters() for module in trained), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=2e-6)


@pytest.mark.parametrize("after", [[nn.Linear(40, 40)], []], ids=["hidden", "last"])
def test_a_unit_that_is_dropped_does_not_learn(after):
    """One row, one step: biases of dropped units stay, those of the others move."""
    net = nn.Sequential(nn.Linear(FEATURES, 40, generator=seeded()), nn.Sigmoid(), nn.Dropout(0.5), *after)
    trained, data = copy.deepcopy(net), (normal(1, FEATURES), normal(1, 40))
    fused = reason(net, data) is None
    device_engine(trained, data, likelihoods.SquaredError(), None, recipe(), fused=fused).epoch(0)
    moved = trained[0].bias.mean != net[0].bias.mean
    assert 8 <= int(moved.sum()) <= 32


def test_dropout_of_a_fused_training_is_repeated_by_the_seed():
    trained = []
    for seed in (0, 0, 1):
        net = network(hidden=(20,), dropout=0.4)
        device_engine(net, dataset(), likelihoods.ScaledSoftmax(3), None, recipe(seed=seed), fused=True).epoch(0)
        trained.append(net[0].weight.mean.detach())
    assert torch.equal(trained[0], trained[1])
    assert not torch.equal(trained[0], trained[2])


# Optimizers, files, graphs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", [cosine, None], ids=["cosine", "none"])
def test_any_optimizer_that_can_be_recorded_is_stepped(scheduler):
    """AdamW without decay is Adam; with torch's scheduler it goes the way of the schedule."""
    weightless = functools.partial(torch.optim.AdamW, betas=(0.9, 0.99), weight_decay=0.0, foreach=False)
    trained = []
    for settings in ({"optimizer": weightless}, {}):
        net = network()
        rules = recipe(scheduler=scheduler, clip_norm=1.0, **settings)
        training = device_engine(net, dataset(), likelihoods.ScaledSoftmax(3), EMPIRICAL, rules, fused=False)
        assert isinstance(training.stepper.update, TorchUpdate) == bool(settings)
        for number in range(2):
            training.epoch(number)
        trained.append(net)
    for a, b in zip(*(net.parameters() for net in trained), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("fused", "settings"),
    [(True, {}), (False, {}), (False, {"optimizer": torch.optim.NAdam})],
    ids=["fused", "by autograd", "with an optimizer of torch's"],
)
def test_steps_are_stored_and_taken_up_again(fused, settings):
    make = lambda net, noise: device_engine(net, dataset("amounts"), noise, EMPIRICAL, recipe(**settings), fused=fused)
    net, noise = network(hidden=(4,)), likelihoods.GaussianNoise(OUTPUTS)
    first = make(net, noise)
    first.epoch(0)
    stored = copy.deepcopy((net, noise, first.stepper.optimizer_state()))
    want = first.epoch(1)
    second = make(*stored[:2])
    second.stepper.load_optimizer_(stored[2], first.plan.steps, 2 * first.plan.steps)
    assert second.epoch(1) == want
    for a, b in zip(
        (*net.parameters(), *noise.parameters()), (*stored[0].parameters(), *stored[1].parameters()), strict=True
    ):
        assert torch.equal(a, b)


def test_on_a_cpu_nothing_is_recorded():
    calls = []
    repeated = CapturedCall(lambda: calls.append(1) or len(calls), torch.device("cpu"))
    assert [repeated() for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    assert captured(torch.sin, torch.ones(3)) is torch.sin
    assert captured(torch.sin) is torch.sin
    beside = SideStreams(torch.device("cpu"))
    beside(calls.append, 2)
    beside.join()
    assert calls[-1] == 2
