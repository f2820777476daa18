"""Layers one by one: what they hold, what they keep in mind, and what they do to moments."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import scipy.sparse
import torch

from torchnpn import families, maps, nn
from torchnpn.families import Gamma, Gaussian
from torchnpn.moments import Moments
from torchnpn.nn import ACTIVATIONS

KEYS = {  # what a Linear layer of each family stores: public, and never to change
    "bernoulli": ["weight.logit_p"],
    "beta": ["weight.logit_mean", "weight.logit_spread"],
    "gamma": ["weight.log_mean", "weight.log_cv", "bias.log_mean", "bias.log_cv"],
    "gaussian": ["weight.mean", "weight.log_std", "bias.mean", "bias.log_std"],
    "gumbel": ["weight.mu", "bias.mu"],
    "inverse_gamma": ["weight.log_mean", "weight.log_cv", "bias.log_mean", "bias.log_cv"],
    "inverse_gaussian": ["weight.log_mean", "weight.log_cv", "bias.log_mean", "bias.log_cv"],
    "negative_binomial": ["weight.log_mean", "weight.log_cv", "bias.log_mean", "bias.log_cv"],
    "poisson": ["weight.log_c", "bias.log_c"],
    "rayleigh": ["weight.log_sigma2", "bias.log_sigma2"],
    "weibull": ["weight.log_lam", "bias.log_lam"],
}
MEANINGLESS = {"pareto"}  # all its values are above x_min = 1: no weight can be small, no sum of many near one


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def linear(family="gaussian", **arguments):
    return nn.Linear(5, 4, family=family, generator=seeded(), **arguments)


def inputs(rows=6, features=5, variance=True):
    mean = torch.rand(rows, features, generator=seeded(1))
    return Moments(mean, 0.1 * torch.rand(rows, features, generator=seeded(2)) if variance else None)


# Families ------------------------------------------------------------------------------------------------------


def test_every_family_is_accounted_for():
    assert KEYS.keys() | MEANINGLESS == families.BY_NAME.keys()


@pytest.mark.parametrize("family", KEYS)
def test_linear_of_every_family(family):
    layer = linear(family)
    assert list(layer.state_dict()) == KEYS[family]
    assert layer.averages == (family in ("beta", "bernoulli"))
    o = layer(inputs())
    assert o.mean.shape == o.variance.shape == (6, 4)
    assert o.mean.isfinite().all()
    assert (o.variance > 0).all() and o.variance.isfinite().all()
    (o.mean.sum() + o.variance.sum()).backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


@pytest.mark.parametrize("family", KEYS)
def test_a_parameters_distribution_has_its_moments(family):
    layer = linear(family)
    for parameter in (layer.weight, layer.bias):
        if parameter is not None:
            assert isinstance(parameter.distribution, families.BY_NAME[family])
            torch.testing.assert_close(
                tuple(parameter.distribution.moments), tuple(parameter.moments), rtol=2e-6, atol=1e-9
            )


@pytest.mark.parametrize("family", KEYS)
def test_free_tensors_give_the_moments_asked_for(family):
    """What one parameter can keep: both moments, or the mean; Rayleigh keeps E x²."""
    mean, variance = torch.tensor([0.2, 0.4, 0.7]), torch.tensor([0.01, 0.04, 0.002])
    if family == "negative_binomial":
        variance = variance + mean
    kept = nn.RandomParameter(family, Moments(mean, variance)).moments
    if family == "rayleigh":
        torch.testing.assert_close(kept.mean**2 + kept.variance, mean**2 + variance)
    else:
        torch.testing.assert_close(kept.mean, mean)
    if family not in ("rayleigh", "bernoulli", "poisson", "weibull", "gumbel"):
        torch.testing.assert_close(kept.variance, variance)


def test_pareto_weights_are_refused():
    with pytest.raises(ValueError, match="Pareto weights are all above x_min"):
        linear("pareto")


@pytest.mark.parametrize(
    ("family", "x", "message"),
    [
        ("beta", Moments(torch.tensor(0.5), torch.tensor(0.3)), "variance"),
        ("gamma", Moments(torch.tensor(-1.0), torch.tensor(0.3)), "mean > 0"),
        ("negative_binomial", Moments(torch.tensor(1.0), torch.tensor(0.5)), "variance > the mean"),
    ],
)
def test_a_parameter_refuses_moments_that_its_family_has_not(family, x, message):
    with pytest.raises(ValueError, match=message):
        nn.RandomParameter(family, x)


def test_a_family_of_ones_own_class():
    layer = nn.Linear(3, 2, family=Gamma)
    assert layer.weight.family is Gamma
    with pytest.raises(ValueError, match="Did you mean 'gamma'"):
        nn.Linear(3, 2, family="gama")


@pytest.mark.parametrize("family", ["gaussian", "gamma", "beta"])
def test_initial_moments_are_those_documented(family):
    n = 400
    layer = nn.Linear(n, 300, family=family, generator=seeded())
    m, s = layer.weight.moments
    if family == "gaussian":
        np.testing.assert_allclose((m.mean().item(), m.std().item()), (0, n**-0.5), atol=0.01 * n**-0.5)
        torch.testing.assert_close(s.sqrt(), torch.full_like(s, 0.1 / n**0.5))
        assert not layer.bias.moments.mean.any()
    elif family == "gamma":
        np.testing.assert_allclose(m.mean().detach(), 1.01 / n, rtol=0.02)
        torch.testing.assert_close(s.sqrt(), 0.3 * m)
    else:
        np.testing.assert_allclose(m.mean().detach(), 0.5, rtol=0.01)
        torch.testing.assert_close(s, 0.1 * m * (1 - m))


def test_gain_scales_the_initial_means():
    one, two = linear(), linear(gain=2.0)
    torch.testing.assert_close(two.weight.mean, 2 * one.weight.mean)
    assert torch.equal(linear("beta", gain=2.0).weight.logit_mean, linear("beta").weight.logit_mean)


def test_generator_alone_decides_the_initial_values():
    before = torch.get_rng_state()
    one, two, other = linear(), linear(), nn.Linear(5, 4, generator=seeded(1))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(one.weight.mean, two.weight.mean)
    assert not torch.equal(one.weight.mean, other.weight.mean)


# Linear --------------------------------------------------------------------------------------------------------


def test_linear_is_its_map():
    layer, a = linear(), inputs()
    want = maps.linear(a, layer.weight.moments, layer.bias.moments)
    torch.testing.assert_close(tuple(layer(a)), tuple(want))
    bare = linear(bias=False)
    assert bare.bias is None
    torch.testing.assert_close(tuple(bare(a)), tuple(maps.linear(a, bare.weight.moments)))


@pytest.mark.parametrize("family", ["beta", "bernoulli"])
def test_weights_in_the_unit_interval_average(family):
    layer = linear(family)
    assert layer.bias is None
    torch.testing.assert_close(layer(torch.ones(3, 5)).mean, torch.ones(3, 4))
    a = inputs()
    o = layer(a)
    assert (o.mean >= a.mean.min(-1, keepdim=True).values).all()
    assert (o.mean <= a.mean.max(-1, keepdim=True).values).all()
    share = layer.weight.moments * (1 / layer.weight.moments.mean.sum(-1, keepdim=True))
    torch.testing.assert_close(tuple(o), tuple(maps.linear(a, share)))


def test_linear_takes_sparse_rows():
    layer, x = linear(), torch.relu(torch.randn(6, 5, generator=seeded(3)))
    want = layer(x)
    for sparse in (scipy.sparse.csr_matrix(x.numpy()), scipy.sparse.csr_array(x.numpy())):
        torch.testing.assert_close(tuple(layer(sparse)), tuple(want))
    net = nn.mlp([5, 4, 3], generator=seeded())
    torch.testing.assert_close(tuple(net(scipy.sparse.csr_matrix(x.numpy()))), tuple(net(x)))


def test_layers_say_what_they_expect():
    with pytest.raises(ValueError, match="same number of in features"):
        linear()(torch.rand(3, 6))
    with pytest.raises(TypeError, match=r"tensor or npn.Moments.*got ndarray"):
        linear()(np.zeros((3, 5)))
    with pytest.raises(TypeError, match="floating-point"):
        linear()(torch.zeros(3, 5, dtype=torch.int64))


def test_repr_says_what_matters():
    text = repr(nn.Sequential(linear(replicas=(2,)), nn.LeakyReLU(0.2), nn.Saturating("gamma", 2.0), nn.Dropout(0.1)))
    for part in ("in_features=5", "out_features=4", "replicas=(2,)", "slope=0.2", "gamma, tau=2, r=1", "p=0.1"):
        assert part in text
    assert "q=-1" in repr(nn.Power())
    assert "variance=0.5" in repr(nn.InputNoise(0.5))


# Activations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_its_map(name):
    o = Moments(torch.linspace(-2, 2, 9), torch.linspace(0, 2, 9))
    module = ACTIVATIONS[name]()
    map = getattr(maps.paper, name.removeprefix("paper_")) if name.startswith("paper_") else getattr(maps, name)
    torch.testing.assert_close(tuple(module(o)), tuple(map(o)), rtol=1e-5, atol=1e-6)
    assert getattr(nn, type(module).__name__) is type(module)
    point = module(o.mean)  # a tensor is a point
    assert point.variance is None or name in (
        "heaviside",
        "paper_sigmoid",
        "paper_tanh",
    )  # which are certain of nothing


def test_activations_pass_on_their_constants():
    o = Moments(torch.linspace(-2, 2, 9), torch.linspace(0.1, 2, 9))
    pairs = [
        (nn.LeakyReLU(0.3), maps.leaky_relu(o, 0.3)),
        (nn.ELU(0.7), maps.elu(o, 0.7)),
        (nn.Hardtanh(-0.5, 0.2), maps.hardtanh(o, -0.5, 0.2)),
    ]
    for module, want in pairs:
        torch.testing.assert_close(tuple(module(o)), tuple(want))


# Neurons -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", [name for name in families.BY_NAME if name not in ("gaussian", "pareto")])
def test_saturating_matches_then_maps(family):
    o = Moments(torch.tensor([0.2, 0.5, 0.7]), torch.tensor([0.02, 0.1, 0.05]))
    module = nn.Saturating(family, tau=0.7, r=1.5, q=0.5)
    want = maps.saturating(families.BY_NAME[family].project(o), 0.7, 1.5, 0.5)
    torch.testing.assert_close(tuple(module(o)), tuple(want))


def test_power_is_a_root_of_a_beta_variable():
    o = Moments(torch.tensor([0.3, 0.8]), torch.tensor([0.02, 0.05]))
    c, d = (x.double().numpy() for x in (families.Beta.from_moments(o).c, families.Beta.from_moments(o).d))
    draws = np.random.default_rng(0).beta(c, d, (200_000, 2)) ** 0.5
    a = nn.Power(0.5)(o)
    np.testing.assert_allclose(a.mean, draws.mean(0), rtol=5 * 0.3 / 200_000**0.5)
    np.testing.assert_allclose(a.variance, draws.var(0), rtol=0.02)


def test_bernoulli_neurons_fire_with_the_mean_probability():
    o = Moments(torch.tensor([-2.0, 0.0, 3.0]), torch.tensor([0.0, 1.0, 4.0]))
    rng = np.random.default_rng(0)
    x = o.mean.numpy() + o.std.numpy() * rng.standard_normal((400_000, 3))
    fired = rng.random(x.shape) < 1 / (1 + np.exp(-x))
    p = nn.Bernoulli()(o)
    np.testing.assert_allclose(p.mean, fired.mean(0), atol=5 * 0.5 / 400_000**0.5)
    torch.testing.assert_close(p.variance, p.mean * (1 - p.mean))
    assert nn.Bernoulli()(o.mean).variance is not None  # chance remains for a known probability


# Containers ----------------------------------------------------------------------------------------------------


def test_flatten():
    mean = torch.rand(4, 2, 3)
    out = nn.Flatten()(Moments(mean, torch.tensor([1.0, 2.0, 3.0])))
    assert torch.equal(out.mean, mean.flatten(1))
    assert torch.equal(out.variance, torch.tensor([1.0, 2.0, 3.0] * 2).expand(4, 6))
    assert nn.Flatten()(mean).variance is None


@pytest.mark.parametrize("shared", [False, True], ids=["own variances", "shared variance"])
def test_complement(shared):
    a = inputs()
    a = Moments(a.mean, torch.full((5,), 0.2)) if shared else a
    out = nn.Complement()(a)
    torch.testing.assert_close(out.mean, torch.cat([a.mean, 1 - a.mean], -1))
    torch.testing.assert_close(out.variance.expand(6, 10), torch.cat([a.variance.expand(6, 5)] * 2, -1))
    assert nn.Complement()(a.mean).variance is None


def test_sequential_is_one_after_the_other():
    first, second, a = linear(), nn.ReLU(), inputs()
    torch.testing.assert_close(tuple(nn.Sequential(first, second)(a)), tuple(second(first(a))))
    assert nn.Sequential()(a) is a
    assert nn.Sequential()(a.mean).mean is a.mean


def kinds(net):
    return [type(module) for module in net]


def test_mlp_builds_what_the_paper_gives():
    assert kinds(nn.mlp([5, 4, 3])) == [nn.Linear, nn.ReLU, nn.Linear]
    assert kinds(nn.mlp([5, 3])) == [nn.Linear]
    assert kinds(nn.mlp([5, 4, 4, 3], dropout=0.5)) == [nn.Linear, nn.ReLU, nn.Dropout] * 2 + [nn.Linear]
    assert kinds(nn.mlp([5, 4, 3], "beta")) == [nn.Linear, nn.Power, nn.Linear]
    assert kinds(nn.mlp([5, 4, 3], activation="tanh")) == [nn.Linear, nn.Tanh, nn.Linear]
    assert kinds(nn.mlp([5, 4, 3], activation=nn.LeakyReLU(0.2))) == [nn.Linear, nn.LeakyReLU, nn.Linear]
    poisson = nn.mlp([5, 4, 3], "poisson")
    assert kinds(poisson) == [nn.Linear, nn.Saturating, nn.Linear]
    assert (poisson[0].weight.family, poisson[1].family) == (Gamma, families.Poisson)
    bernoulli = nn.mlp([5, 4, 3], "bernoulli")
    assert kinds(bernoulli) == [nn.Linear, nn.Bernoulli, nn.Linear]
    assert bernoulli[0].weight.family is Gaussian
    assert nn.mlp([5, 4, 3], "gamma", output_family="gaussian")[2].weight.family is Gaussian


def test_mlp_scales_for_its_activation():
    """√2 before ReLU-like activations, one before others and at the output."""
    std = {name: nn.mlp([300, 400, 400], activation=name)[0].weight.mean.std() * 300**0.5 for name in ("relu", "tanh")}
    np.testing.assert_allclose([std["relu"].item(), std["tanh"].item()], [2**0.5, 1], rtol=0.02)
    np.testing.assert_allclose((nn.mlp([300, 400, 400])[2].weight.mean.std() * 20).item(), 1, rtol=0.02)


def test_mlp_says_what_it_expects():
    with pytest.raises(ValueError, match="at least two sizes"):
        nn.mlp([5])
    with pytest.raises(ValueError, match=r"activation expects one of relu.*got 'rulu'"):
        nn.mlp([5, 4, 3], activation="rulu")
    with pytest.raises(ValueError, match=r"family expects a name or a class, got .*There are: bernoulli"):
        nn.mlp([5, 4, 3], "cauchy")
    with pytest.raises(ValueError, match="0 ≤ p < 1"):
        nn.mlp([5, 4, 3], dropout=1.5)


def test_every_module_is_documented():
    for name in nn.__all__:
        assert inspect.getdoc(getattr(nn, name)), name


# A parameter knows itself --------------------------------------------------------------------------------------------


def test_a_random_parameter_says_which_dimensions_are_what():
    layer = nn.Linear(4, 3, replicas=(2, 5))
    weight, bias = layer.weight, layer.bias
    assert (weight.out_dims, weight.in_dims, weight.replicas, weight.event_dims) == (1, 1, (2, 5), 2)
    assert (bias.out_dims, bias.in_dims, bias.replicas, bias.event_dims) == (1, 0, (2, 5), 1)
    assert weight.posterior == "mean_field" and layer.replicas == (2, 5)
    kernel = nn.RandomParameter("gaussian", Moments(torch.zeros(6, 3, 2, 2), torch.ones(6, 3, 2, 2)))
    assert (kernel.out_dims, kernel.in_dims, kernel.replicas) == (1, 3, ())
    number = nn.RandomParameter("gaussian", Moments(torch.tensor(0.0), torch.tensor(1.0)))
    assert (number.out_dims, number.in_dims, number.replicas) == (0, 0, ())
    with pytest.raises(ValueError, match="posterior expects one of mean_field, tied, got 'full'"):
        nn.RandomParameter("gaussian", Moments(torch.zeros(2), torch.ones(2)), posterior="full")
