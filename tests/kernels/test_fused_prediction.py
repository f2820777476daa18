"""Networks by Triton kernels, as on a CUDA device: they give what the maps give, and what they keep is fresh."""

from __future__ import annotations

import copy

import pytest
import torch

from torchnpn import kernels, nn
from torchnpn.moments import Moments
from torchnpn.sparse import SparseBatch

pytest.importorskip("triton")

from torchnpn.kernels.triton import layer, tiles
from torchnpn.kernels.triton import linear as fused


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def as_on_cuda(monkeypatch):
    """Tensors that take themselves for ones on a GPU; Triton's interpreter does the work."""
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True), raising=False)


@pytest.fixture
def calls(monkeypatch):
    """How often each function was called."""
    counts = {"network": 0, "linear": 0, "fill_pair_": 0}

    def count(module, name):
        function = getattr(module, name)

        def counted(*arguments, **settings):
            counts[name] += 1
            return function(*arguments, **settings)

        monkeypatch.setattr(module, name, counted)

    for module, name in ((fused, "network"), (fused, "linear"), (layer, "fill_pair_")):
        count(module, name)
    return counts


SIZES = [6, 9, 8, 3]


def noisy_head(**settings):
    """Whose second layer does not give zeros, as a new one does."""
    head = nn.MeanAndNoise(8, 2, generator=seeded(), **settings)
    with torch.no_grad():
        head.noise.weight.free[0].normal_(generator=seeded(3))
    return head


NETWORKS = {
    "relu": nn.mlp(SIZES, generator=seeded()),
    "tanh": nn.mlp(SIZES, activation="tanh", generator=seeded()),
    "sigmoid, dropout": nn.mlp(SIZES, activation="sigmoid", dropout=0.3, generator=seeded()),
    "dropout on the inputs": nn.Sequential(nn.Dropout(0.3), nn.Linear(6, 4, generator=seeded()), nn.Tanh()),
    "replicas": nn.mlp(SIZES, replicas=(2,), generator=seeded()),
    "tied": nn.mlp(SIZES, posterior="tied", replicas=(2,), generator=seeded()),
    "mean and noise": nn.Sequential(*nn.mlp(SIZES[:3], generator=seeded()), nn.ReLU(), noisy_head()),
    "tied mean and noise": nn.Sequential(nn.Linear(6, 8, generator=seeded()), nn.ReLU(), noisy_head(posterior="tied")),
    "mean and noise alone": nn.Sequential(nn.MeanAndNoise(6, 2, posterior="tied", generator=seeded())),
    "two dimensions of replicas": nn.mlp([6, 4, 2], replicas=(2, 2), generator=seeded()),
}
OTHERS = {  # no chain of Gaussian layers: layer by layer, where there is a kernel
    "gamma": nn.mlp(SIZES, "gamma", generator=seeded()),
    "poisson": nn.mlp(SIZES, "poisson", generator=seeded()),
    "gelu": nn.mlp(SIZES, activation="gelu", generator=seeded()),
    "no bias": nn.Sequential(nn.Linear(6, 4, bias=False, generator=seeded()), nn.ReLU()),
}
INPUTS = {"a point": False, "random": True}


def inputs(random, replicas=()):
    x = torch.rand(*replicas, 11, 6, generator=seeded(1)) + 0.1
    return Moments(x, 0.1 * torch.rand(x.shape, generator=seeded(2)) if random else None)


def double(a):
    return Moments(*(None if part is None else part.double() for part in a))


@pytest.mark.slow
@pytest.mark.parametrize("random", INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_prediction_in_one_go_is_that_of_the_maps(name, random, as_on_cuda, calls):
    net = copy.deepcopy(NETWORKS[name]).eval()
    replicas = next(module.replicas for module in net if isinstance(module, nn.Linear | nn.MeanAndNoise))
    for a in (inputs(random), inputs(random, replicas)):  # shared by all replicas, and one for each
        with torch.no_grad():
            got, want = net(a), copy.deepcopy(net).double()(double(a))
        torch.testing.assert_close(double(got), want, rtol=2e-5, atol=2e-6)
    assert calls["network"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("random", INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize("name", [*NETWORKS, *OTHERS])
def test_gradients_layer_by_layer_are_those_of_the_maps(name, random, as_on_cuda, calls):
    net = copy.deepcopy({**NETWORKS, **OTHERS}[name]).eval()
    exact = copy.deepcopy(net).double()
    gradients = []
    for module, a in ((net, inputs(random)), (exact, double(inputs(random)))):
        out = module(a)
        (out.mean.square().sum() + out.variance.sum()).backward()
        gradients.append([p.grad.double() for p in module.parameters()])
    for got, want in zip(*gradients, strict=True):
        assert (got - want).norm() <= 5e-5 * want.norm() + 1e-7  # float64 has a finer tanh
    assert calls["linear"] > 0
    assert calls["network"] == 0


def test_layers_after_a_sparse_one_are_fused_with_their_activations(as_on_cuda, calls):
    x = torch.eye(6)[:4]
    rows = SparseBatch(x.nonzero()[:, 1:].int(), torch.ones(4, 1), 6)
    net = copy.deepcopy(NETWORKS["relu"])
    torch.testing.assert_close(tuple(net(rows)), tuple(net(x)), rtol=1e-4, atol=1e-5)
    assert calls["linear"] == 2 + 3  # all but the first layer of the sparse pass, each with its activation


def test_without_a_gpu_no_kernel_of_triton_is_called(calls):
    with torch.no_grad():
        NETWORKS["relu"].eval()(inputs(True))
    assert not any(calls.values())


def test_a_hook_hears_every_layer(as_on_cuda, calls):
    net = copy.deepcopy(NETWORKS["relu"]).eval()
    heard = []
    net[1].register_forward_hook(lambda module, given, output: heard.append(output))
    with torch.no_grad():
        net(inputs(False))
    assert len(heard) == 1
    assert calls["network"] == 0


def test_dropout_in_training_mode_drops_within_a_network_that_predicts(as_on_cuda):
    """Samples by dropout, a habit of many: only the dropout is set to training."""
    net = copy.deepcopy(NETWORKS["sigmoid, dropout"]).eval()
    for module in net:
        module.train(isinstance(module, nn.Dropout))
    with torch.no_grad():
        assert not torch.equal(net(inputs(False)).mean, net(inputs(False)).mean)


# What is kept --------------------------------------------------------------------------------------------------------


def change_in_place(net):
    with torch.no_grad():
        net[0].weight.log_std.add_(0.5)


def load(net):
    net.load_state_dict({name: value + 0.1 for name, value in net.state_dict().items()})


def train_through_data(net):
    """torch does not count such changes; `train` and `eval` around them say that there were some."""
    net.train()
    net[0].weight.log_std.data.add_(0.5)
    net.eval()


def replace(net):
    net[0].weight.log_std = torch.nn.Parameter(net[0].weight.log_std.detach() + 0.5)


CHANGES = [change_in_place, load, train_through_data, replace]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_weights_are_prepared_once_and_anew_after_a_change(change, as_on_cuda, calls):
    net = copy.deepcopy(NETWORKS["relu"]).eval()
    with torch.no_grad():
        first = net(inputs(True))
        prepared = calls["fill_pair_"]
        assert prepared == 3  # one a layer
        torch.testing.assert_close(net(inputs(True)), first, rtol=0, atol=0)
        assert calls["fill_pair_"] == prepared
    change(net)
    with torch.no_grad():
        got, want = net(inputs(True)), copy.deepcopy(net).double()(double(inputs(True)))
    assert calls["fill_pair_"] > prepared
    assert not torch.equal(got.variance, first.variance)
    torch.testing.assert_close(double(got), want, rtol=2e-5, atol=2e-6)


def test_points_and_precisions_have_preparations_of_their_own(as_on_cuda, monkeypatch):
    monkeypatch.setattr(tiles, "is_large", lambda *sizes: True)  # the interpreter has no fast small products
    net = copy.deepcopy(NETWORKS["relu"]).eval()
    exact = copy.deepcopy(net).double()
    with torch.no_grad():
        for random, name, bound in [(True, "float32", 1e-5), (False, "fast", 2e-2), (False, "float32", 1e-5)] * 2:
            with kernels.precision(name):
                got, want = net(inputs(random)), exact(double(inputs(random)))
            assert ((got.mean - want.mean).norm() / want.mean.norm()) < bound
            assert ((got.variance - want.variance).norm() / want.variance.norm()) < bound
