"""Model files: weights come back to the bit, and what is not a model is refused with a reason."""

from __future__ import annotations

import base64
import json
import math
import sys
import types
from collections import OrderedDict

import numpy as np
import pytest
import safetensors.torch
import torch
from support import layer_cases

import torchnpn
from torchnpn import families, io, likelihoods, nn
from torchnpn.io import ModelFileError, allowed

# The first file of format 1: Sequential(Linear(2, 1), LeakyReLU(0.25)), all weights 1, 2, …, 6. It must load for ever.
FIRST_FILE = (
    "AAMAAAAAAAB7Il9fbWV0YWRhdGFfXyI6eyJ0b3JjaG5wbiI6IntcImZvcm1hdF92ZXJzaW9uXCI6IDEsIFwic2F2ZWRcIjogXCIyMDI2LTExLTE1"
    "VDE5OjI0OjU5KzAwOjAwXCIsIFwidmVyc2lvbnNcIjoge1widG9yY2hucG5cIjogXCIwLjEuMFwiLCBcInRvcmNoXCI6IFwiMi4xMy4wK2NwdVwi"
    "fSwgXCJvYmplY3RcIjoge1widHlwZVwiOiBcIlNlcXVlbnRpYWxcIiwgXCJsYXllcnNcIjoge1wiMFwiOiB7XCJ0eXBlXCI6IFwiTGluZWFyXCIs"
    "IFwiaW5fZmVhdHVyZXNcIjogMiwgXCJvdXRfZmVhdHVyZXNcIjogMSwgXCJiaWFzXCI6IHRydWUsIFwiZmFtaWx5XCI6IFwiZ2F1c3NpYW5cIiwg"
    "XCJyZXBsaWNhc1wiOiBbXX0sIFwiMVwiOiB7XCJ0eXBlXCI6IFwiTGVha3lSZUxVXCIsIFwic2xvcGVcIjogMC4yNX19fX0iLCJmb3JtYXQiOiJw"
    "dCIsInNoYTI1NiI6ImExZDc3NTc5ZDc2Zjg5MTEwZTQxNTMxMzdlZjhjZWU0ODQ5NTE0NzAyOGU5YzY0NzUwMDAzYjEyOTMzYzA4YTYifSwiMC5i"
    "aWFzLmxvZ19zdGQiOnsiZHR5cGUiOiJGMzIiLCJzaGFwZSI6WzFdLCJkYXRhX29mZnNldHMiOlswLDRdfSwiMC5iaWFzLm1lYW4iOnsiZHR5cGUi"
    "OiJGMzIiLCJzaGFwZSI6WzFdLCJkYXRhX29mZnNldHMiOls0LDhdfSwiMC53ZWlnaHQubG9nX3N0ZCI6eyJkdHlwZSI6IkYzMiIsInNoYXBlIjpb"
    "MSwyXSwiZGF0YV9vZmZzZXRzIjpbOCwxNl19LCIwLndlaWdodC5tZWFuIjp7ImR0eXBlIjoiRjMyIiwic2hhcGUiOlsxLDJdLCJkYXRhX29mZnNl"
    "dHMiOlsxNiwyNF19fSAgICAgICAAAMBAAACgQAAAQEAAAIBAAACAPwAAAEA="
)


def networks() -> dict[str, torch.nn.Module]:
    """One of each kind, with constants that are not the defaults."""
    torch.manual_seed(0)
    named = OrderedDict(head=nn.Linear(3, 2), inner=nn.Sequential(nn.ReLU(), nn.Sequential(nn.Linear(2, 1))))
    linear = {f"linear {f}": nn.Linear(3, 2, family=f) for f in families.BY_NAME if f != "pareto"}
    activation = {name: kind() for name, kind in nn.ACTIVATIONS.items()}
    return {
        **linear,
        **activation,
        "no bias": nn.Linear(3, 2, bias=False),
        "replicas": nn.Linear(3, 2, replicas=(4, 2), gain=1.5),
        "tied": nn.mlp([3, 4, 2], posterior="tied", replicas=(2,)),
        "two heads": nn.MeanAndNoise(3, 2, replicas=(2,)),
        "double": nn.Linear(3, 2).double(),
        "half": nn.Linear(3, 2).bfloat16(),
        "transposed": transposed(nn.Linear(3, 3)),
        "slope": nn.LeakyReLU(1 / 3),
        "hard": nn.Hardtanh(-0.1, 1e-300),
        "alpha": nn.ELU(alpha=2),
        "saturating": nn.Saturating("gamma", tau=0.3, r=2.0),
        "height": nn.Saturating("rayleigh", tau=0.3, r=2.0, q=-0.7),
        "statistic": nn.Saturating("gamma", tau=0.1, statistic=0),
        "kl map": nn.SaturatingKL(0.3, r=2.0),
        "power": nn.Power(0.7),
        "binary": nn.Bernoulli(),
        "dropout": nn.Dropout(0.1),
        "analytic": nn.AnalyticDropout(0.2),
        "masked": nn.MaskedUnits(0.2),
        "noise": nn.InputNoise(0.3),
        "empty": nn.Sequential(),
        "named": nn.Sequential(named),
        "twice": nn.Sequential(
            nn.Flatten(), relu := nn.ReLU(), nn.Linear(3, 3), relu, nn.Sequential(), nn.Complement()
        ),
        "mlp": nn.mlp([3, 8, 8, 2], dropout=0.1),
        "beta mlp": nn.mlp([3, 8, 2], family="beta"),
        "poisson mlp": nn.mlp([3, 8, 2], family="poisson"),
    }


def transposed(linear: nn.Linear) -> nn.Linear:
    """Weights that do not lie in memory in the usual order."""
    linear.weight.mean = torch.nn.Parameter(linear.weight.mean.detach().T)
    return linear


HEADS = {
    **{kind.__name__: kind(2, replicas=(3,)) for kind in likelihoods.ALL if "targets" in kind.arguments},
    "noise": likelihoods.GaussianNoise(3, elbo=0.25, replicas=(2,)),
    "heteroscedastic": likelihoods.HeteroscedasticGaussian(2, elbo=1.0),
    "amounts": likelihoods.GammaAmounts(2),
    "proportions": likelihoods.BetaProportions(2),
    "counts": likelihoods.PoissonCounts(elbo=0.25),
    "wide counts": likelihoods.NegativeBinomialCounts(3, initial_log_overdispersion=-1.25),
    "zeros": likelihoods.ZeroInflatedPoisson(elbo=0.25),
    "ordered": likelihoods.OrderedClasses(4),
    "ordered twice": likelihoods.OrderedClasses(3, replicas=(2,)),
    "softmax mean": likelihoods.SoftmaxMean(3),
    "softmax": likelihoods.ScaledSoftmax(4),
    "sigmoids": likelihoods.Sigmoids(5),
    "scaled sigmoids": likelihoods.ScaledSigmoids(5),
    "kl of counts": likelihoods.PoissonKL(),
    "kl": likelihoods.KLToTarget(0.1),
    "squared": likelihoods.SquaredError(),
    "words": likelihoods.CrossEntropy(),
    "links of words": likelihoods.BernoulliPoisson(),
    "rates": likelihoods.PoissonRate(),
    "gamma words": likelihoods.GammaWords(0.05),
    "direct": likelihoods.Direct("poisson"),
    "known": likelihoods.Direct("weibull", shape=1.7),
}


def same(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    """Alike in architecture and, to the bit, in weights."""
    one, other = a.state_dict(), b.state_dict()
    equal = all(torch.equal(one[name], other[name]) and one[name].dtype == other[name].dtype for name in one)
    return repr(a) == repr(b) and list(one) == list(other) and equal


# What comes back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", networks())
def test_networks_come_back(name, tmp_path):
    network = networks()[name]
    io.save(network, tmp_path / "network.npn")
    loaded = io.load(tmp_path / "network.npn")
    assert type(loaded) is type(network)
    assert same(network, loaded)
    assert not any(module.training for module in loaded.modules())
    assert all(type(p) is torch.nn.Parameter and p.requires_grad for p in loaded.parameters())
    if "half" not in name:
        dtype = next((p.dtype for p in network.parameters()), torch.float32)
        x = torch.rand(5, 3, generator=torch.Generator().manual_seed(1), dtype=dtype)
        before, after = network.eval()(x), loaded(x)
        torch.testing.assert_close(after, before)  # another layout in memory may be summed in another order


@pytest.mark.parametrize("name", HEADS)
def test_likelihoods_come_back(name, tmp_path):
    io.save(HEADS[name], tmp_path / "head.npn")
    loaded = io.load(tmp_path / "head.npn")
    assert same(HEADS[name], loaded)
    constants = {k: v for k, v in vars(HEADS[name]).items() if isinstance(v, (int, float, dict, type)) and k[0] != "_"}
    assert {k: getattr(loaded, k) for k in constants} == constants | {"training": False}


def test_every_module_of_the_library_can_be_saved():
    public = {getattr(nn, name) for name in nn.__all__}
    modules = {kind for kind in public if isinstance(kind, type)} - {nn.Activation, nn.RandomParameter}
    heads = {kind for name in likelihoods.__all__ if isinstance(kind := getattr(likelihoods, name), type)}
    heads = {kind for kind in heads if issubclass(kind, likelihoods.Likelihood)} - {likelihoods.Likelihood}
    assert set(allowed.BY_NAME.values()) == modules | heads
    assert len(allowed.BY_NAME) == len(allowed.ARGUMENTS) + 1  # no two share a name
    tested = {type(module) for network in networks().values() for module in network.modules()} | set(
        map(type, HEADS.values())
    )
    tested |= {type(case.layer()) for case in layer_cases.LAYERS}  # by tests/nn/test_layers.py
    assert modules | heads <= tested | {nn.RandomParameter}


def test_weights_without_variance_come_back(tmp_path):
    """A standard deviation of zero is an infinite logarithm, and no error."""
    network = nn.Linear(2, 2)
    network.weight.log_std.data.fill_(-torch.inf)
    io.save(network, tmp_path / "exact.npn")
    assert same(network, io.load(tmp_path / "exact.npn"))


def test_loaded_network_trains_on(tmp_path):
    io.save(nn.mlp([2, 4, 1]), tmp_path / "network.npn")
    network = io.load(str(tmp_path / "network.npn")).train()
    before = network.state_dict()["0.weight.mean"].clone()
    recipe = torchnpn.Recipe(epochs=1, batch_size=5)
    data = (torch.rand(10, 2), torch.rand(10, 1))
    torchnpn.train(network, data, likelihoods.GaussianNoise(), torchnpn.priors.EmpiricalBayes(), recipe)
    assert not torch.equal(before, network.state_dict()["0.weight.mean"])


def test_file_is_plain_safetensors(tmp_path):
    network = nn.mlp([3, 4, 2])
    io.save(network, path := tmp_path / "network.npn")
    stored = safetensors.torch.load_file(path)
    assert all(torch.equal(tensor, stored[name]) for name, tensor in network.state_dict().items())
    with safetensors.safe_open(path, "pt") as opened:
        document = json.loads(opened.metadata()["torchnpn"])
    assert document["format_version"] == 1
    assert document["object"]["layers"]["0"] == {
        "type": "Linear", "in_features": 3, "out_features": 4, "bias": True, "family": "gaussian", "replicas": [],
    }  # fmt: skip


def test_first_file_still_loads(tmp_path):
    (tmp_path / "first.npn").write_bytes(base64.b64decode(FIRST_FILE))
    network = io.load(tmp_path / "first.npn")
    expected = {
        "0.weight.mean": [[1.0, 2.0]], "0.weight.log_std": [[3.0, 4.0]], "0.bias.mean": [5.0], "0.bias.log_std": [6.0],
    }  # fmt: skip
    assert {name: tensor.tolist() for name, tensor in network.state_dict().items()} == expected
    assert repr(network[1]) == "LeakyReLU(slope=0.25)"


def test_describe(tmp_path):
    io.save(nn.mlp([3, 4, 2], family="gamma", output_family="gaussian"), path := tmp_path / "network.npn")
    told = io.describe(path)
    assert told["type"] == "Sequential"
    assert told["families"] == ["gamma", "gaussian"]
    assert told["parameters"] == 2 * (3 * 4 + 4 + 4 * 2 + 2)
    assert told["architecture"][1:3] == [
        "  Linear(in_features=3, out_features=4, bias=True, family=gamma)",
        "  Saturating(family=gamma, tau=1.0, r=1.0, q=None)",
    ]
    assert told["versions"] == {"torchnpn": torchnpn.__version__, "torch": str(torch.__version__)}
    assert told["saved"].endswith("+00:00")


# Estimators and tables: whatever has `_state` and `_from_state` ------------------------------------------------


class TableModel:
    """Stands for an estimator: plain values and arrays."""

    def __init__(self, plain, arrays):
        self.plain, self.arrays = plain, arrays

    def _state(self):
        return self.plain, self.arrays

    @classmethod
    def _from_state(cls, plain, arrays):
        if "names" not in plain:
            raise ValueError("names are missing")
        if plain["names"] is None:
            raise TypeError("no names " * 1000)
        return cls(plain, arrays)


@pytest.fixture
def tables(monkeypatch):
    """A module `torchnpn.tables` that has the class above, which cannot be asked for predictions."""
    monkeypatch.setattr("torchnpn.io.objects.check_answers", lambda model: None)
    module = types.ModuleType("torchnpn.tables")
    module.TableModel = TableModel
    monkeypatch.setitem(sys.modules, "torchnpn.tables", module)


@pytest.mark.usefixtures("tables")
def test_arrays_come_back(tmp_path):
    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    shared = torch.arange(6.0)
    arrays = {
        "frozen": frozen,
        "backwards": np.arange(4)[::-1],
        "swapped": np.arange(3, dtype=">f8"),
        "columns": np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        "flags": np.array([True, False]),
        "scalar": np.array(3.0),
        "empty": np.empty((0, 4)),
        "shared": shared,
        "again": shared[2:],
        "grad": torch.ones(2, requires_grad=True),
    }
    plain = {
        "names": ["a", "é", "\ud800", ""],
        "float": 0.1 + 0.2,
        "none": None,
        "large": 2**60,
        "nested": {"x": [[1]]},
    }
    io.save(TableModel(plain, arrays), tmp_path / "table.npn")
    loaded = io.load(tmp_path / "table.npn")
    assert loaded.plain == plain
    assert loaded.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        expected = array.detach().numpy() if isinstance(array, torch.Tensor) else array
        np.testing.assert_array_equal(loaded.arrays[name].numpy(), expected, strict=name != "swapped")


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    ("plain", "arrays", "error", "words"),
    [
        ({"x": math.nan}, {}, ValueError, "not JSON compliant"),
        ({"x": object()}, {}, TypeError, "not JSON serializable"),
        ({"x": ["label"] * 2_000_000}, {}, ValueError, "has room for 16777216 bytes"),
        ({}, {"x": np.array([math.nan])}, ValueError, "x holds NaN"),
        ({}, {"x": np.array([1j])}, TypeError, "x should have a type among"),
        ({}, {"x": np.array(["text"])}, TypeError, "can't convert"),
    ],
)  # fmt: skip
def test_state_that_does_not_fit(plain, arrays, error, words, tmp_path):
    with pytest.raises(error, match=words):
        io.save(TableModel(plain, arrays), tmp_path / "table.npn")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("tables")
def test_what_an_estimator_refuses_is_a_bad_file(tmp_path):
    io.save(TableModel({}, {}), tmp_path / "table.npn")
    with pytest.raises(ModelFileError, match=r"Cannot load .*: names are missing"):
        io.load(tmp_path / "table.npn")
    io.save(TableModel({"names": None}, {}), tmp_path / "table.npn")
    with pytest.raises(ModelFileError, match=r"not those of a TableModel \(TypeError: no names") as caught:
        io.load(tmp_path / "table.npn")
    assert len(str(caught.value)) < 1000
