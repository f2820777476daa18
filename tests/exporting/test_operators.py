"""Networks of every layer, and operations that onnxruntime does not have, in float64."""

from __future__ import annotations

import copy

import numpy as np
import onnxruntime
import pytest
import torch
from scipy import special

import torchnpn as npn
from torchnpn.exporting import distribution_functions
from torchnpn.nn import ACTIVATIONS


class OneOperation(torch.nn.Module):
    """A network of one function, which sees the mean."""

    def __init__(self, function):
        super().__init__()
        self.linear = npn.nn.Linear(1, 1)  # says how many inputs there are
        self.function = function

    def forward(self, x):
        return npn.Moments(self.function(x.mean), x.variance)


def gave(network, path, mean, variance):
    """Outputs of the exported network."""
    npn.export(network, path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {"input_mean": mean, "input_variance": variance})


LARGE = np.concatenate([-np.logspace(-12, 1.4, 40)[::-1], np.logspace(-12, 1.4, 40)])
OPERATIONS = {
    "log1p": (torch.log1p, np.log1p, np.concatenate([-np.logspace(-12, -0.01, 20), np.logspace(-12, 30, 40)])),
    "expm1": (torch.expm1, np.expm1, LARGE),
    "erfc": (torch.erfc, special.erfc, LARGE / 4),
    "lgamma": (torch.lgamma, special.gammaln, np.logspace(-3, 6, 50)),
    "softplus": (torch.nn.functional.softplus, lambda x: np.logaddexp(0, x), LARGE),
    "log_ndtr": (torch.special.log_ndtr, special.log_ndtr, LARGE / 4),
    "atan": (lambda x: torch.atan2(x, torch.ones_like(x)), np.arctan, LARGE),
}


@pytest.mark.parametrize(("function", "reference", "x"), OPERATIONS.values(), ids=OPERATIONS.keys())
def test_no_digits_are_lost(function, reference, x, tmp_path):
    x = x.astype(np.float32)[:, None]
    found, _ = gave(OneOperation(function), tmp_path / "one.onnx", x, np.zeros_like(x))
    np.testing.assert_allclose(found, reference(x.astype(np.float64)), rtol=1e-6, atol=1e-7)


def two_layers(activation):
    return npn.nn.Sequential(npn.nn.Linear(4, 8), activation, npn.nn.Linear(8, 2))


def neurons(family):
    return npn.nn.mlp([4, 8, 2], family=family)


NETWORKS = {
    **{name: lambda kind=kind: two_layers(kind()) for name, kind in ACTIVATIONS.items()},
    "gamma neurons": lambda: neurons("gamma"),
    "beta neurons": lambda: neurons("beta"),
    "poisson neurons": lambda: neurons("poisson"),
    "rayleigh neurons": lambda: neurons("rayleigh"),
    "kl neurons": lambda: npn.nn.Sequential(npn.nn.Linear(4, 8, family="poisson"), npn.nn.SaturatingKL()),
    "bernoulli": lambda: two_layers(npn.nn.Bernoulli()),
    "tied": lambda: npn.nn.Sequential(npn.nn.Linear(4, 8, posterior="tied"), npn.nn.ReLU(), npn.nn.Linear(8, 2)),
    "masked": lambda: npn.nn.with_masks(npn.nn.mlp([4, 8, 2], dropout=0.3)),
    "noise": lambda: npn.nn.Sequential(npn.nn.InputNoise(0.1), npn.nn.Linear(4, 8), npn.nn.MeanAndNoise(8)),
    "replicas": lambda: npn.nn.mlp([4, 8, 2], replicas=(3,)),
    "complement": lambda: npn.nn.Sequential(npn.nn.Complement(), npn.nn.Linear(8, 2)),
}
FAST = ("relu", "gamma neurons", "replicas", "complement")


@pytest.mark.parametrize(
    "name", [one if one in FAST else pytest.param(one, marks=pytest.mark.slow) for one in NETWORKS]
)
def test_every_layer(name, tmp_path):
    torch.manual_seed(0)
    network = NETWORKS[name]().eval()
    mean, variance = torch.rand(30, 4), 0.1 * torch.rand(30, 4)
    variance[:5] = 0.0
    m, s = gave(network, tmp_path / "network.onnx", mean.numpy(), variance.numpy())
    with torch.no_grad():
        expected = copy.deepcopy(network).double()(npn.Moments(mean.double(), variance.double()))
    std = expected.variance.sqrt().numpy()
    np.testing.assert_allclose(m / std, expected.mean.numpy() / std, rtol=0, atol=1e-5)
    np.testing.assert_allclose(s, expected.variance.numpy(), rtol=1e-5)


@pytest.mark.parametrize("std", [1e-6, 1e-3, 1.0])
def test_a_rectifier_between_linear_layers_is_right_however_sure_its_input_is(std, tmp_path):
    """From units that are always on or off to ones that nobody knows; onnxruntime has an erf of its own."""
    torch.manual_seed(0)
    layers = (npn.nn.Linear.from_torch(torch.nn.Linear(*sizes), std=std) for sizes in ((1, 20), (20, 20), (20, 3)))
    network = npn.nn.Sequential(*(part for layer in layers for part in (layer, npn.nn.ReLU())))[:-1].eval()
    sizes = np.logspace(-6, 6, 25)
    mean = np.concatenate([-sizes, sizes])[:, None].astype(np.float32)
    variance = (1e-3 * np.abs(mean)) ** 2
    variance[::3] = 0
    m, s = gave(network, tmp_path / "network.onnx", mean, variance)
    with torch.no_grad():
        x = npn.Moments(*(torch.from_numpy(part).double() for part in (mean, variance)))
        expected_m, expected_s = (part.numpy() for part in copy.deepcopy(network).double()(x))
    size = 1 + np.abs(mean)  # of what the layers add up, in float32
    np.testing.assert_allclose(m / size, expected_m / size, rtol=0, atol=1e-6)
    np.testing.assert_allclose(s, expected_s, rtol=1e-5)


@pytest.mark.parametrize("c", np.logspace(-3, 8, 12))
def test_gamma_probabilities(c):
    x = special.gammaincinv(c, np.linspace(1e-4, 1 - 1e-4, 99))
    t = np.log(np.maximum(x, 1e-300))
    found = distribution_functions.gamma(torch.full((99,), c, dtype=torch.float64))(torch.from_numpy(t))
    np.testing.assert_allclose(found, special.gammainc(c, np.exp(t)), rtol=0, atol=1e-7)


@pytest.mark.parametrize("b", np.logspace(-2, 8, 6))
@pytest.mark.parametrize("a", np.logspace(-2, 8, 6))
def test_beta_probabilities(a, b):
    x = special.betaincinv(a, b, np.linspace(1e-3, 1 - 1e-3, 49))
    x = x[(x > 1e-250) & (x < 1 - 1e-12)]
    parameters = (torch.full((len(x),), number, dtype=torch.float64) for number in (a, b))
    found = distribution_functions.beta(*parameters)(torch.from_numpy(np.log(x) - np.log1p(-x)))
    np.testing.assert_allclose(found, special.betainc(a, b, x), rtol=0, atol=1e-6)
