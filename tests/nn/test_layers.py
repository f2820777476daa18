"""Laws of all layers with random parameters, over the table of `layer_cases`: a new layer is a row of it."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from support import layer_cases

import torchnpn as npn
from torchnpn import likelihoods, nn, priors
from torchnpn.moments import Moments

DRAWS = 40_000
PRIORS = {"empirical": priors.EmpiricalBayes(), "isotropic": priors.IsotropicGaussian(2.0)}


def parameters(layer):
    return {name: part for name, part in layer.named_modules() if isinstance(part, nn.RandomParameter)}


def inputs(case, dtype=torch.float32):
    a = case.given()
    return a if not case.uncertain else Moments(a.to(dtype), (0.3 * a.to(dtype)).square() + 0.1)


@pytest.fixture(params=layer_cases.LAYERS, ids=lambda case: case.name)
def case(request):
    return request.param


def test_every_layer_with_random_parameters_has_a_row():
    made = {type(case.layer()) for case in layer_cases.LAYERS}
    public = [getattr(nn, name) for name in nn.__all__]
    random = {kind for kind in public if isinstance(kind, type) and "replicas" in getattr(kind, "arguments", {})}
    assert made == random


def test_moments_are_those_of_draws(case):
    layer, rng = case.layer().double(), np.random.default_rng(0)
    with torch.no_grad():
        for parameter in parameters(layer).values():
            parameter.free[1].fill_(-0.5)  # a variance that shows
    a, o = inputs(case, torch.float64), layer(inputs(case, torch.float64))
    point, s = (a.mean.numpy(), a.variance.numpy()) if case.uncertain else (a.numpy(), np.zeros(a.shape))
    drawn = point + np.sqrt(s) * rng.standard_normal((DRAWS, *point.shape))
    numbers = {
        name: rng.normal(*(x.detach().numpy() for x in (p.moments.mean, p.moments.variance.sqrt())), (DRAWS, *p.shape))
        for name, p in parameters(layer).items()
    }
    y = case.drawn(rng, numbers, drawn)
    error = y.std(0) / np.sqrt(DRAWS)
    np.testing.assert_array_less(np.abs(y.mean(0) - o.mean.detach().numpy()), 5 * error)
    np.testing.assert_allclose(y.var(0), o.variance.detach().numpy(), rtol=0.1)  # heavy tails: products of normals


def test_without_variance_it_is_torchs_own(case):
    layer, a = case.layer(), case.given()[case.agrees]
    means = {name: parameter.free[0].detach() for name, parameter in parameters(layer).items()}
    with torch.no_grad():
        for parameter in parameters(layer).values():
            parameter.free[1].fill_(-torch.inf)
        o = layer(a)
    torch.testing.assert_close(o.mean, case.known(means, a), rtol=1e-6, atol=1e-6)
    assert (o.variance == 0).all()


def test_replicas_are_layers_of_their_own(case):
    several = case.layer(replicas=(2, 3))
    a = inputs(case)
    own = [case.given(seed) for seed in range(6)]
    together, apart = several(a), several(torch.stack(own).view(2, 3, *own[0].shape))
    for k in range(6):
        one = case.layer()
        with torch.no_grad():
            for mine, theirs in zip(one.parameters(), several.parameters(), strict=True):
                mine.copy_(theirs.flatten(0, 1)[k])
        for found, expected in ((together, one(a)), (apart, one(own[k]))):
            for part, wanted in zip(found, expected, strict=True):
                torch.testing.assert_close(part.flatten(0, 1)[k], wanted, rtol=1e-5, atol=1e-6)


def test_gradients(case):
    layer, a = case.layer().double(), inputs(case, torch.float64)
    names, values = zip(*layer.named_parameters(), strict=True)

    def outputs(*numbers):
        return tuple(torch.func.functional_call(layer, dict(zip(names, numbers, strict=True)), (a,)))

    assert torch.autograd.gradcheck(outputs, [value.detach().clone().requires_grad_() for value in values])


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e38])
def test_values_and_gradients_are_finite(case, scale):
    layer = case.layer()
    with torch.no_grad():
        for parameter in parameters(layer).values():
            parameter.free[0].mul_(scale)
            parameter.free[1].fill_(40.0 if scale > 1 else -100.0)
    o = layer(inputs(case))
    assert all(part.isfinite().all() for part in o)
    assert (o.variance >= 0).all()
    sum(part.sum() for part in o).backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_divergence_and_its_gradient(case, prior):
    layer, other = case.layer(replicas=(2,)), case.layer(replicas=(2,))
    divergence = npn.kl(layer, prior)
    assert divergence.shape == (2,) and (divergence > 0).all()
    (0.3 * divergence).sum().backward()
    priors.add_kl_gradient_(other, prior, 0.3)
    for one, two in zip(layer.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("replicas", [(), (2,)], ids=["one", "replicas"])
def test_it_trains(case, replicas):
    """Every number moves, by the engine that takes any network, and the loss falls."""
    layer = case.layer(replicas=replicas)
    outputs = layer(case.given()).mean.shape[-1]
    network = nn.Sequential(layer, nn.Linear(outputs, 1, replicas=replicas, generator=torch.Generator().manual_seed(1)))
    before = copy.deepcopy(list(layer.parameters()))
    x = case.given().repeat(8, *[1] * (case.given().dim() - 1))
    y = torch.linspace(-1, 1, layer_cases.BATCH).repeat(8)[:, None]
    recipe = npn.Recipe(epochs=30, batch_size=10, learning_rate=0.03, seed=0)
    history = npn.train(
        network, (x, y), likelihoods.GaussianNoise(1, replicas=replicas), priors.EmpiricalBayes(), recipe, device="cpu"
    )
    assert history.epochs[-1].loss < history.epochs[0].loss
    for old, new in zip(before, layer.parameters(), strict=True):
        assert new.isfinite().all() and not torch.equal(old, new)


def test_it_comes_back_from_a_file(case, tmp_path):
    layer = case.layer(replicas=(2,)).double()
    npn.save(layer, tmp_path / "layer.npn")
    loaded = npn.load(tmp_path / "layer.npn")
    a = inputs(case, torch.float64)
    assert all(torch.equal(one, two) for one, two in zip(layer.eval()(a), loaded(a), strict=True))
    assert all(part.dtype == torch.float64 for part in loaded(a))
    assert repr(loaded) == repr(layer)


# The layers one by one ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gamma", "poisson", "beta"])
def test_a_level_never_seen_is_one_of_those_seen(family):
    layer = nn.Embedding(6, 2, family, generator=torch.Generator().manual_seed(0)).double()
    rows, unseen = layer(torch.arange(6)), layer(torch.tensor(-1))
    mean, second = rows.mean.mean(0), (rows.variance + rows.mean.square()).mean(0)
    torch.testing.assert_close(unseen.mean, mean)
    torch.testing.assert_close(unseen.variance, second - mean.square())


def test_codes_of_any_shape_and_type():
    layer = nn.Embedding(4, 3)
    codes = torch.tensor([[0, -1, 3], [2, 2, 1]])
    o = layer(codes)
    assert o.mean.shape == o.variance.shape == (2, 3, 3)
    assert torch.equal(o.mean[1, 0], o.mean[1, 1])
    assert torch.equal(layer(codes.to(torch.int8)).mean, o.mean)
    assert torch.equal(nn.Sequential(layer, nn.Flatten())(codes).mean, o.mean.flatten(1))
    assert layer(codes[:0]).mean.shape == (0, 3, 3)


def test_codes_that_are_none_are_refused():
    layer, several = nn.Embedding(4, 3), nn.Embedding(4, 3, replicas=(2,))
    for code in (-2, 4):
        with pytest.raises(ValueError, match=f"codes from -1 to 3, got {code}.* as -1"):
            layer(torch.tensor([0, code]))
    for wrong in (torch.zeros(2), torch.tensor([True]), Moments(torch.tensor([0]), torch.ones(1)), [0]):
        with pytest.raises(TypeError, match="a tensor of whole numbers"):
            layer(wrong)
    for shape in ((), (3, 5), (1, 2, 5)):
        with pytest.raises(ValueError, match=r"codes \(batch,\) or \(\*replicas, batch\), got shape"):
            several(torch.zeros(shape, dtype=torch.long))
    with pytest.raises(ValueError, match="num_embeddings, a whole number ≥ 1, got 0"):
        nn.Embedding(0, 3)
