"""Modules of torch beside ours: refused with advice, or taken over as means."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from torchnpn import maps, nn
from torchnpn.moments import Moments


class _Own(torch.nn.Module):
    """A module that a user wrote."""

    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, o):
        return self.call(o)


@pytest.mark.parametrize(
    ("module", "position", "advice"),
    [
        (torch.nn.ReLU(), "1, torch.nn.ReLU", r"Use npn\.nn\.ReLU\(\) in its place"),
        (torch.nn.Linear(4, 2), "1, torch.nn.Linear", r"Use npn\.nn\.Linear\.from_torch\(module\)"),
        (torch.nn.BatchNorm1d(4), "1, torch.nn.BatchNorm1d", r"no counterpart in npn\.nn\. Write a module"),
        (torch.nn.Sequential(nn.ReLU(), torch.nn.Tanh()), "1.1, torch.nn.Tanh", r"Use npn\.nn\.Tanh\(\)"),
        (lambda x: x, "1, a function", r"npn\.maps\.quadrature\(f, moments\)"),
    ],
)
def test_foreign_modules_are_refused_with_their_counterpart(module, position, advice):
    message = rf"module {position}, does not take npn\.Moments\. .*{advice}"
    with pytest.raises(TypeError, match=message):
        nn.Sequential(nn.Linear(3, 4), module)
    if isinstance(module, torch.nn.Module) and not isinstance(module, torch.nn.Sequential):
        network = nn.Sequential(nn.Linear(3, 4))
        with pytest.raises(TypeError, match=message):
            network.append(module)
        network._modules["1"] = module
        with pytest.raises(TypeError, match=message):
            network(torch.zeros(2, 3))


def test_own_modules_and_containers_are_welcome():
    mish = _Own(lambda o: maps.quadrature(F.mish, o))
    network = nn.Sequential(nn.Linear(3, 4), torch.nn.Identity(), torch.nn.Sequential(nn.ReLU()), mish)
    assert isinstance(network(torch.zeros(2, 3)), Moments)
    with pytest.raises(TypeError, match="must be Tensor") as caught:
        nn.Sequential(nn.Linear(3, 4), _Own(F.relu))(torch.zeros(2, 3))
    assert "Module 1 of npn.nn.Sequential, _Own, was given npn.Moments" in caught.value.__notes__[0]


def test_a_negative_variance_is_refused_at_the_border():
    network, x = nn.mlp([3, 4, 1]), torch.zeros(2, 3)
    with pytest.raises(ValueError, match=r"input variances ≥ 0, got -0\.5"):
        network(Moments(x, x - 0.5))
    assert network(Moments(x, x)).variance.isfinite().all()


@pytest.mark.parametrize("sizes", [(0, 3), (3, -1), (2.5, 1), (3, None)])
def test_bad_sizes_are_refused(sizes):
    with pytest.raises(ValueError, match=r"Linear expects (in|out)_features, a whole number ≥ 1, got"):
        nn.Linear(*sizes)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_layer_of_torch_becomes_the_means(bias, dtype):
    plain, x = torch.nn.Linear(3, 2, bias=bias).to(dtype), torch.ones(4, 3, dtype=dtype)
    state = torch.random.get_rng_state()
    layer = nn.Linear.from_torch(plain, std=0.5)
    assert torch.equal(torch.random.get_rng_state(), state)
    o = layer(x)
    torch.testing.assert_close(o.mean, plain(x))
    torch.testing.assert_close(o.variance, torch.full_like(o.mean, 0.25 * (3 + bias)))
    assert nn.Linear.from_torch(plain).weight.moments.variance[0, 0].item() == pytest.approx(0.01 / 3)


def test_bad_layers_of_torch_are_refused():
    plain = torch.nn.Linear(3, 2)
    for std in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="expects a finite standard deviation"):
            nn.Linear.from_torch(plain, std=std)
    with pytest.raises(TypeError, match=r"expects a torch\.nn\.Linear, got Conv1d"):
        nn.Linear.from_torch(torch.nn.Conv1d(1, 1, 1))
    with torch.no_grad():
        plain.weight[0, 0] = torch.nan
    with pytest.raises(ValueError, match="expects finite weights"):
        nn.Linear.from_torch(plain)


def test_the_state_of_a_torch_network_loads_as_means():
    plain = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    network = nn.mlp([3, 4, 1])
    spread = network[0].weight.log_std.clone()
    state = plain.state_dict()
    network.load_state_dict(state)
    assert torch.equal(network[2].bias.mean, plain[2].bias) and torch.equal(network[0].weight.log_std, spread)
    assert list(state) == ["0.weight", "0.bias", "2.weight", "2.bias"]  # left as it was
    network.load_state_dict(network.state_dict())  # ours still loads
    with pytest.raises(RuntimeError, match=r"size mismatch for weight\.mean"):
        nn.Linear(5, 4).load_state_dict(plain[0].state_dict())
    with pytest.raises(RuntimeError, match=r'Unexpected key.*"bias"'):
        nn.Linear(3, 4, bias=False).load_state_dict(plain[0].state_dict())
    with pytest.raises(ValueError, match="Gaussian weights, not of Gamma ones"):
        nn.Linear(3, 4, family="gamma").load_state_dict(plain[0].state_dict())
