"""npn.explain names the engine and the kernels that a network gets, and the reasons against faster ones."""

from __future__ import annotations

import copy

import pytest
import scipy.sparse
import torch
from torch.utils.data import DataLoader, TensorDataset

import torchnpn as npn
from torchnpn import likelihoods, nn, priors
from torchnpn.moments import Moments
from torchnpn.training import Recipe
from torchnpn.training.data import as_batches
from torchnpn.training.engine import choose_engine
from torchnpn.training.tape import Objective

X, Y = torch.randn(30, 4, generator=torch.Generator().manual_seed(0)), torch.zeros(30, 1)
NUMPY, WIDE, TRITON = (f"a Gaussian chain in {place}" for place in ("numpy", "torch", "Triton"))
ENGINES = {NUMPY: "NumpyChainSteps", WIDE: "WideChainSteps", "autograd, step by step": "TapeSteps"}
CASES = {
    "chain": (nn.mlp([4, 5, 1]), {}, NUMPY, None),
    "two heads": (nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.MeanAndNoise(5)), {}, NUMPY, None),
    "tanh": (nn.mlp([4, 5, 1], activation="tanh"), {}, "autograd, step by step", "Tanh stands where a ReLU"),
    "dropout": (nn.mlp([4, 5, 1], dropout=0.1), {}, "autograd, step by step", "not a Sequential of Linear layers"),
    "large": (nn.mlp([4, 99_000, 1]), {}, WIDE, None),
    "prior": (nn.mlp([4, 5, 1]), {"prior": priors.ScaleMixture()}, "autograd, step by step", "ScaleMixture"),
    "compiled": (nn.mlp([4, 5, 1]), {"recipe": Recipe(compile=True)}, "autograd, step by step", "compiling"),
    "loader": (nn.mlp([4, 5, 1]), {"data": DataLoader(TensorDataset(X, Y), 8)}, "autograd, step by step", "DataLoader"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_engine_is_the_one_that_trains(name):
    model, settings, engine, reason = CASES[name]
    settings = {"data": (X, Y), **settings}
    given = {name: settings[name] for name in ("prior", "recipe") if name in settings}
    found = npn.explain(model, settings["data"], **given, device="cpu")
    assert (found.device, found.engine) == ("cpu", engine)
    assert (reason is None and not found.why_not) or reason in found.why_not["a Gaussian chain on a CPU"]
    if reason is not None:
        assert TRITON in found.why_not
    recipe = settings.get("recipe") or Recipe()
    if recipe.compile:
        return  # making its engine loads torch's compiler, with warnings of its own
    source = as_batches(settings["data"], torch.device("cpu"))
    targets = model(X).mean.shape[-1]
    noise = likelihoods.HeteroscedasticGaussian() if targets == 2 else likelihoods.GaussianNoise()
    objective = Objective(copy.deepcopy(model), noise, settings.get("prior"), recipe)
    chosen = choose_engine(objective, source, torch.device("cpu"))
    assert chosen.name == ENGINES[engine]


def test_replicas_with_own_rates_are_trained_together():
    recipe = Recipe(learning_rate=[1e-3, 1e-2])
    found = npn.explain(nn.mlp([4, 5, 1], replicas=(2,)), (X, Y), recipe=recipe, device="cpu")
    assert (found.engine, found.why_not) == (NUMPY, {})
    found = npn.explain(nn.mlp([4, 5, 1], activation="tanh", replicas=(2,)), (X, Y), recipe=recipe, device="cpu")
    assert found.engine == "autograd"
    assert "no CUDA device" in found.why_not[TRITON]
    assert npn.explain(nn.mlp([4, 5, 1], replicas=(2,)), (X, Y), likelihoods.GaussianNoise(), device="cpu").engine == (
        "autograd, step by step"  # one noise for both replicas
    )


def test_layers_are_named_with_their_kernels():
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 1))
    layers = npn.explain(model, (Moments(X, X**2), Y), device="cpu").layers
    assert layers == {
        "0 Linear": "fused CPU kernel",
        "1 ReLU": "fused CPU kernel",
        "2 Linear": "fused CPU kernel",
        "3 Tanh": "plain map (no Triton kernel: a tensor is not on a CUDA device)",
        "4 Linear": "fused CPU kernel",
    }
    replicas = npn.explain(nn.mlp([4, 5, 1], replicas=(2,)), (X, Y), device="cpu").layers
    assert replicas["0 Linear"] == "plain map (no CPU kernel: the input is not a matrix, or the layer has replicas)"


def test_a_model_is_left_as_it_was():
    model = nn.mlp([4, 5, 1]).train()
    before = copy.deepcopy(model.state_dict())
    text = str(npn.explain(model, (X, Y), device="cpu"))
    assert text.startswith("device: cpu\ntraining steps: a Gaussian chain in numpy\nlayers:\n  0 Linear: ")
    assert model.training and not model[0]._forward_pre_hooks
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    owners = {p.untyped_storage().data_ptr() for p in model.parameters()}
    assert len(owners) == len(list(model.parameters()))


def test_sparse_rows_have_sparse_products():
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh())
    found = npn.explain(model, (scipy.sparse.csr_matrix(X.numpy()), torch.zeros(30, 5)), device="cpu")
    assert found.layers["0 Linear"] == "sparse products of scipy"
