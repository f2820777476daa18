"""The four partial derivatives of every moment map: right in float32, finite everywhere."""

import copy

import numpy as np
import pytest
import torch
from support import bounds, closed_forms, reference
from support.map_cases import CASES, CONVERGENT, each, gradients, grid, max2_points

from torchnpn import kernels, maps, nn
from torchnpn.moments import Moments

PARTIALS = ("dmean_dm", "dmean_ds", "dvar_dm", "dvar_ds")
ACCURATE = [case for case in CONVERGENT if not case.name.startswith("cheap")]
APPROXIMATE = ("sigmoid", "tanh", "silu")  # value and gradient are two approximations of the same thing


def gradient_scales(case, exact, s):
    """The size that each partial derivative may have: its natural unit, by which errors are measured."""
    sd = np.sqrt(s)
    one = np.ones_like(sd)
    with np.errstate(divide="ignore"):
        if case.kind == "jump":  # φ(h)/√s and the like
            return 1 / sd, 1 / s, 1 / sd, 1 / s
        curvature = 1 / sd if case.kinks else one  # E f'' of a kink is its jump times the density
    if case.kind == "growing":
        with np.errstate(over="ignore", invalid="ignore"):
            size = 1 + np.abs(exact.mean)
            return size, size, np.sqrt(exact.variance) * size, size**2 + exact.variance
    return one, curvature, np.minimum(sd, 1) if case.kind == "bounded" else sd, one


def gradient_errors(case, dtype=torch.float32):
    """For each partial: (worst scaled error, where) over the grid with s ≥ 1e-8 at kinks, all s elsewhere."""
    exact = reference.table(case.reference)
    m, s = np.broadcast_arrays(reference.GRID_M[:, None], reference.GRID_S)
    got = [g.double().numpy() for g in gradients(case.map, grid(dtype))]
    with np.errstate(over="ignore"):
        fits = np.maximum(exact.mean**2, exact.variance) < float(torch.finfo(dtype).max) / 1e4
    near_kink = np.zeros(s.shape, bool)
    for kink in case.kinks:
        near_kink |= (s < 1e-8) & (np.abs(m - kink) <= 20 * np.sqrt(s))
    for name, g, scale in zip(PARTIALS, got, gradient_scales(case, exact, s), strict=True):
        want = getattr(exact, name)
        assert np.isfinite(g[fits]).all(), f"{case.name} {name} is not finite"
        assert not np.isnan(g).any(), f"{case.name} {name} is NaN"
        use = fits & np.isfinite(want) & ~near_kink & np.isfinite(scale)
        g, want, scale = g[use], want[use], scale[use]
        error = np.abs(g - want) / np.maximum(np.abs(want) + scale, 1e-38)
        i = error.argmax()
        yield error[i], f"{case.name} {name}: m={m[use][i]} s={s[use][i]} got {g[i]} expected {want[i]}"


@each(ACCURATE, fast=("relu", "tanh"))
def test_partials_match_the_reference(case):
    for error, where in gradient_errors(case):
        assert error <= bounds.GRADIENT_EXCEPTIONS.get(case.name, bounds.GRADIENT), (
            f"scaled error {error:.3g} at {where}"
        )


@each([case for case in CONVERGENT if case.kind == "bounded" and not case.kinks])
def test_smooth_maps_have_their_limit_gradient_at_zero_variance(case):
    m = torch.tensor([-3.0, -0.5, 0.0, 1e-3, 0.7, 2.0], requires_grad=True)
    o = Moments(m, torch.zeros_like(m, requires_grad=True))
    exact = reference.at(case.reference, m.detach().double().numpy(), np.zeros(6))
    tolerance = 5e-3 if case.name.startswith("cheap") else 1e-6  # the cheap mean has another curvature
    for name, g in zip(PARTIALS, gradients(case.map, o), strict=True):
        if not (case.name.startswith("cheap") and name == "dmean_ds"):
            np.testing.assert_allclose(g, getattr(exact, name), atol=tolerance, err_msg=name)


def test_max2_gradients_match_the_reference():
    points = max2_points(150)
    exact = closed_forms.max2(points, gradients=True)
    m1, s1, m2, s2 = (torch.tensor(column, dtype=torch.float32, requires_grad=True) for column in points.T)
    z = maps.max2(Moments(m1, s1), Moments(m2, s2))
    leaves = (m1, s1, m2, s2)
    theta = np.sqrt(points[:, 1] + points[:, 3])
    scales = np.stack([np.ones_like(theta), 1 / theta] * 2, 1), np.stack([theta, np.ones_like(theta)] * 2, 1)
    for out, moment in enumerate((z.mean, z.variance)):
        got = np.stack(torch.autograd.grad(moment.sum(), leaves, retain_graph=True), 1)
        assert np.all(np.abs(got - exact[:, out]) <= bounds.GRADIENT * (scales[out] + np.abs(exact[:, out])))


@each([case for case in CASES if case.name not in ("clamp", "elu_half")])  # hardtanh and elu with another constant
def test_gradcheck(case):
    m = torch.tensor([-6.3, -0.62, 0.03, 1.7, 3.3], dtype=torch.float64)[:, None]
    s = torch.tensor([0.02, 0.3, 0.61, 1.9], dtype=torch.float64)
    m, s = (x.clone().requires_grad_() for x in torch.broadcast_tensors(m, s))
    rough = case.name in APPROXIMATE
    tolerances = {"atol": 1e-5 if rough else 1e-6, "rtol": 1e-3 if rough else 1e-5}
    assert torch.autograd.gradcheck(lambda m, s: tuple(case.map(Moments(m, s))), (m, s), **tolerances)


@each([case for case in CASES if case.name not in ("clamp", "elu_half")])
def test_second_derivatives(case):
    """By differences of the first ones, at the kinks' places and at zero too."""
    m = torch.tensor([-6.3, -0.62, 0.0, 1.7, 6.0], dtype=torch.float64)[:, None]
    s = torch.tensor([0.02, 0.3, 1.9], dtype=torch.float64)
    m, s = (x.clone().requires_grad_() for x in torch.broadcast_tensors(m, s))
    assert torch.autograd.gradgradcheck(lambda m, s: tuple(case.map(Moments(m, s))), (m, s), atol=1e-5, rtol=1e-3)


def _numbers(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mean = torch.randn(shape, generator=generator, dtype=torch.float64)
    return mean, torch.rand(shape, generator=generator, dtype=torch.float64) + 0.1


def _layer(function):
    return lambda *x: tuple(function(Moments(*x[:2]), Moments(*x[2:4]), Moments(*x[4:])))


def _log_std_layer(a_m, a_s, W_m, W_l, b_m, b_l):
    W, b = (Moments(mean, torch.exp(2 * log_std).detach()) for mean, log_std in ((W_m, W_l), (b_m, b_l)))
    return tuple(kernels.gaussian_linear(Moments(a_m, a_s), W, W_l, b, b_l))


TWICE = {
    "max2": lambda *x: tuple(maps.max2(Moments(*x[:2]), Moments(*x[2:4]))),
    "product": lambda *x: tuple(maps.product(Moments(*x[:2]), Moments(*x[2:4]))),
    "product with a point": lambda *x: tuple(maps.product(Moments(*x[:2]), Moments(x[2]))),
    "dropout": lambda *x: tuple(maps.dropout(Moments(*x[:2]), 0.3)),
    "softmax_mean": lambda *x: (maps.softmax_mean(Moments(*x[:2])),),
    "quadrature": lambda *x: tuple(maps.quadrature(torch.tanh, Moments(*x[:2]))),
}


@pytest.mark.parametrize("name", TWICE)
def test_second_derivatives_of_other_maps(name):
    numbers = [x.requires_grad_() for seed in (0, 1) for x in _numbers(3, 2, seed=seed)]
    assert torch.autograd.gradgradcheck(TWICE[name], numbers, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("function", [_layer(maps.linear), _layer(kernels.linear), _log_std_layer])
def test_second_derivatives_of_linear(function):
    parts = _numbers(3, 4), _numbers(2, 4, seed=1), _numbers(2, seed=2)
    numbers = [x.requires_grad_() for part in parts for x in part]
    assert torch.autograd.gradgradcheck(function, numbers, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu", "softplus", "hardtanh"])
def test_a_penalty_on_the_gradient_can_be_learnt_from(activation):
    """The gradient of |∂o/∂x|² by the weights, in float32 kernels, is that in float64; s = 0 is no obstacle."""
    net = nn.mlp([3, 8, 8, 1], activation=activation, generator=torch.Generator().manual_seed(0))
    x = torch.randn(16, 3, generator=torch.Generator().manual_seed(1))
    found = []
    for module, a in ((net, x), (copy.deepcopy(net).double(), x.double())):
        a = a.clone().requires_grad_()
        o = module(Moments(a, torch.zeros_like(a)))
        (slope,) = torch.autograd.grad(o.mean.sum() + o.variance.sum(), a, create_graph=True)
        learnt = [p for p in module.parameters() if p.requires_grad]
        found.append(torch.autograd.grad(slope.square().sum(), learnt, materialize_grads=True))
    for got, want in zip(*found, strict=True):
        assert (got.double() - want).norm() <= 2e-3 * want.norm() + 1e-5


def test_second_derivatives_that_are_missing_say_so():
    huge = torch.full((2, 2), 1e30, requires_grad=True)
    o = maps.linear(Moments(huge, huge), Moments(huge, huge))
    (slope,) = torch.autograd.grad(o.mean.sum(), huge, create_graph=True)
    with pytest.raises(RuntimeError, match="linear of numbers whose products overflow has no second derivatives"):
        slope.sum().backward()


FAR = [1e-45, 1e-38, 1e-30, 1e-20, 1e-10, 1e-4, 0.3, 1.0, 20.0, 90.0, 1e3, 1e5, 1e10, 1e19, 1e25, 1e30]
FAR_M, FAR_S = np.array([-x for x in FAR] + [0.0] + FAR), np.array([0.0, 1e-42, *FAR])


@each(CASES)
def test_finite_and_non_negative_far_outside_the_grid(case):
    o = grid(torch.float32, FAR_M, FAR_S)
    a = case.map(o)
    results = dict(mean=a.mean, variance=a.variance, **dict(zip(PARTIALS, gradients(case.map, o), strict=True)))
    for name, value in results.items():
        bad = ~torch.isfinite(value)
        points = [(o.mean[tuple(i)].item(), o.variance[tuple(i)].item()) for i in bad.nonzero()[:5]]
        assert not points, f"{case.name} {name}: {bad.sum()} not finite, e.g. at (m, s) = {points}"
    assert (a.variance >= 0).all()
    if np.isfinite(case.high):
        width = (case.high - case.low) / 2
        assert (a.variance <= width**2 * (1 + 1e-5)).all()
    elif case.kind == "lipschitz":
        slope = reference.SELU_ALPHA * reference.SELU_SCALE if case.name == "selu" else 1.13  # GELU: 1.129 at √2
        assert (a.variance <= slope**2 * o.variance * (1 + 1e-5) + 1e-37).all()  # denormal numbers have few digits


def test_max2_is_finite_far_outside_the_grid():
    values = torch.tensor([0.0, 1e-42, 1e-20, 1.0, 1e5, 1e18])
    m1, s1, m2, s2 = (x.flatten().requires_grad_() for x in torch.meshgrid(*[values] * 4, indexing="ij"))
    z = maps.max2(Moments(m1, s1), Moments(m2, s2))
    assert torch.isfinite(z.mean).all() and torch.isfinite(z.variance).all() and (z.variance >= 0).all()
    for moment in z:
        for g in torch.autograd.grad(moment.sum(), (m1, s1, m2, s2), retain_graph=True):
            assert torch.isfinite(g).all()


@pytest.mark.parametrize("p", [0.0, 0.3])
def test_plain_products_are_finite_at_zero(p):
    m, s = torch.zeros(3, requires_grad=True), torch.zeros(3, requires_grad=True)
    a = maps.product(maps.dropout(Moments(m, s), p), Moments(m, s))
    for g in torch.autograd.grad((a.mean + a.variance).sum(), (m, s)):
        assert torch.isfinite(g).all()
