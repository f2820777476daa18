"""Every map at random points: finite everywhere (plain loops), and laws of signs, ranges, order (hypothesis)."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fuzzing import generator, rounds
from support.map_cases import CASES, each, gradients
from torch import Tensor

from torchnpn import families, kernels, maps, nn
from torchnpn.moments import Moments
from torchnpn.sparse import SparseBatch

SLACK = 2e-6  # float32 rounding and the approximations of the default maps, in units of 1 + |value|

means = st.one_of(st.floats(-8, 8, width=32), st.floats(-1e4, 1e4, width=32), st.just(0.0))
exponents = st.floats(-14, 6)
variances = st.one_of(st.just(0.0), exponents.map(lambda e: 10.0**e), st.floats(0, 10, width=32))
laws = settings(max_examples=30, deadline=None, derandomize=True, database=None)


def at(case, m, s):
    """The map at one point, with leaves for gradients."""
    o = Moments(torch.tensor([m], dtype=torch.float32), torch.tensor([s], dtype=torch.float32))
    return o, case.map(o)


@each(CASES)
@laws
@given(m=means, s=variances)
def test_values_and_gradients_are_sound(case, m, s):
    o, a = at(case, m, s)
    assert not torch.isnan(a.mean).any() and not torch.isnan(a.variance).any()
    assert (a.variance >= 0).all()
    assert a.mean.item() >= case.low - SLACK * (1 + abs(case.low))
    assert a.mean.item() <= case.high + SLACK * (1 + abs(case.high)) or case.high == math.inf
    leaves = Moments(*(x.clone().requires_grad_() for x in o))
    for g in gradients(case.map, leaves):
        assert torch.isfinite(g).all() if case.kind != "growing" else not torch.isnan(g).any()


@each([case for case in CASES if case.increasing and case.kind != "growing"])
@laws
@given(m=means, step=st.floats(-6, 2).map(lambda e: 10.0**e), s=variances)
def test_mean_increases_with_the_input(case, m, step, s):
    _, low = at(case, m, s)
    _, high = at(case, m + step, s)
    assert low.mean.item() <= high.mean.item() + SLACK * (1 + abs(low.mean.item()))


@each([case for case in CASES if math.isfinite(case.high) and case.low_variance])
@laws
@given(m=means, s=variances)
def test_bounded_variance_obeys_bhatia_and_davis(case, m, s):
    """A variable on [low, high] with mean μ has variance at most (high - μ)(μ - low)."""
    _, a = at(case, m, s)
    mean = a.mean.item()
    most = max(case.high - mean, 0) * max(mean - case.low, 0)
    assert a.variance.item() <= most + 4 * SLACK * (case.high - case.low) ** 2


@each([case for case in CASES if case.kind in ("bounded", "lipschitz") and case.low_variance])
@laws
@given(m=means, s=variances)
def test_variance_obeys_the_slope(case, m, s):
    """Var f(x) ≤ sup f'² · s (Poincaré's inequality for the Gaussian)."""
    steepest = {"selu": 1.7581, "gelu": 1.1290, "silu": 1.0999, "erf": 1.1284}.get(case.name, 1.0)
    o, a = at(case, m, s)
    slack = 1.05 if case.name.startswith("cheap") else 1 + 1e-5
    assert a.variance.item() <= steepest**2 * o.variance.item() * slack + 1e-37


@laws
@given(m1=means, m2=means, s1=variances, s2=variances)
def test_maximum_is_symmetric_and_above_both(m1, m2, s1, s2):
    a, b = (Moments(torch.tensor([m]), torch.tensor([s])) for m, s in ((m1, s1), (m2, s2)))
    z, w = maps.max2(a, b), maps.max2(b, a)
    torch.testing.assert_close(tuple(z), tuple(w), rtol=1e-5, atol=1e-6)
    assert z.mean.item() >= max(m1, m2) - SLACK * (1 + abs(max(m1, m2)))
    assert 0 <= z.variance.item() <= (s1 + s2) * (1 + 1e-5) + 1e-37


@laws
@given(m=means, s=variances)
def test_rectifiers_are_consistent(m, s):
    """x = relu(x) - relu(-x), |x| = relu(x) + relu(-x), slope 1 is the identity, slope 0 is relu."""
    o = Moments(torch.tensor([m]), torch.tensor([s]))
    up, down = maps.relu(o), maps.relu(-o)
    torch.testing.assert_close(up.mean - down.mean, o.mean, rtol=1e-5, atol=1e-5 * (abs(m) + math.sqrt(s)))
    torch.testing.assert_close(up.mean + down.mean, maps.abs(o).mean, rtol=1e-5, atol=1e-37)
    torch.testing.assert_close(tuple(maps.leaky_relu(o, 1.0)), tuple(o), rtol=1e-5, atol=1e-37)
    torch.testing.assert_close(tuple(maps.leaky_relu(o, 0.0)), tuple(up), rtol=1e-5, atol=1e-30)


# Every finite number of the type -------------------------------------------------------------------------------------

TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
POINTS = 960  # of one call; a multiple of the sizes below
GRADIENTS = ((1, 0), (0, 1), (1, 1), (1, -1), (0, 0))  # by the mean and by the variance


def sizes(rng, count: int, dtype: torch.dtype) -> Tensor:
    """Numbers ≥ 0: log-uniform over the whole type, denormal ones included; zero, the largest, ordinary ones."""
    info = torch.finfo(dtype)
    low, high = math.log2(info.tiny) + math.log2(info.eps), math.log2(info.max)
    x = np.exp2(np.minimum(rng.uniform(low, high, count), 1023.9999))
    marks = [0.0, info.max, info.max / 2, info.tiny, info.tiny * info.eps, 1.0, info.max**0.5, info.tiny**0.5]
    x = np.where(rng.random(count) < 0.3, rng.choice(marks, count), x)
    x = np.where(rng.random(count) < 0.15, np.abs(rng.normal(size=count)), x)
    return torch.tensor(x).clamp_max(info.max).to(dtype)


def points(rng, dtype: torch.dtype, count: int = POINTS) -> tuple[Tensor, Tensor]:
    """Means of either sign and variances; a third of the variances are near the square of the mean."""
    m = sizes(rng, count, dtype) * torch.tensor(rng.choice([-1.0, 1.0], count)).to(dtype)
    near = (m.double() ** 2 * torch.tensor(10 ** rng.uniform(-3, 3, count))).clamp_max(torch.finfo(dtype).max).to(dtype)
    return m, torch.where(torch.tensor(rng.random(count) < 0.3), near, sizes(rng, count, dtype))


class Finite(NamedTuple):
    """Something that must be finite: moments, from a mean and a variance of `POINTS` numbers."""

    name: str
    call: Callable[[Tensor, Tensor], Moments]


def _halves(binary):
    """An operation on two variables: the first and the second half of the numbers."""

    def call(m, s):
        n = len(m) // 2
        return binary(Moments(m[:n], s[:n]), Moments(m[n:], s[n:]))

    return call


def _linear(function, point=False, bias=True, exact=False):
    """Many small layers (4 rows, 5 inputs, 3 outputs), each with numbers of its own; 2-d kernels take one by one."""

    def call(m, s):
        n = len(m) // 40
        (a_m, W_m, b_m, _), (a_s, W_s, b_s, _) = (x.split([20 * n, 15 * n, 3 * n, 2 * n]) for x in (m, s))
        a = Moments(a_m.view(n, 4, 5), None if point else a_s.view(n, 4, 5))
        W = Moments(W_m.view(n, 3, 5), None if exact else W_s.view(n, 3, 5))
        b = Moments(b_m.view(n, 3), b_s.view(n, 3)) if bias else None
        if function is maps.linear:
            return function(a, W, b)
        each = [[None if t is None else t[i] for t in (*a, *W, *(b or (None, None)))] for i in range(n)]
        layers = [function(Moments(*t[:2]), Moments(*t[2:4]), Moments(*t[4:]) if bias else None) for t in each]
        return Moments(*(torch.stack(parts) for parts in zip(*layers, strict=True)))

    return call


def _sparse(m, s):
    """Eight rows of eight entries among 40 columns, three outputs."""
    x = SparseBatch(torch.arange(64).remainder(40).view(8, 8).int(), m[:64].detach().view(8, 8), 40)
    W = Moments(m[64:184].view(3, 40), s[64:184].view(3, 40))
    return kernels.linear(x, W, Moments(m[184:187], s[184:187]))


FINITE = [
    *(Finite(case.name, lambda m, s, case=case: case.map(Moments(m, s))) for case in CASES),
    *(
        Finite(f"{case.name} of a point", lambda m, s, case=case: case.map(Moments(m)))
        for case in CASES
        if case.kind == "growing"
    ),
    Finite("steep leaky_relu", lambda m, s: maps.leaky_relu(Moments(m, s), -1e30)),
    Finite("large elu", lambda m, s: maps.elu(Moments(m, s), 1e30)),
    Finite("wide hardtanh", lambda m, s: maps.hardtanh(Moments(m, s), -1e19, 1e19)),
    Finite("tiny hardtanh", lambda m, s: maps.hardtanh(Moments(m, s), -1e-30, 1e-20)),
    Finite("endless hardtanh", lambda m, s: maps.hardtanh(Moments(m, s), -1e308, math.inf)),
    Finite("dropout", lambda m, s: maps.dropout(Moments(m, s), 0.3)),
    Finite("dropout of a point", lambda m, s: maps.dropout(Moments(m), 0.999)),
    Finite("quadrature", lambda m, s: maps.quadrature(torch.tanh, Moments(m, s), nodes=16)),
    Finite("growing quadrature", lambda m, s: maps.quadrature(torch.exp, Moments(m, s), nodes=16)),
    Finite("softmax_mean of two", lambda m, s: Moments(maps.softmax_mean(Moments(m.view(-1, 2), s.view(-1, 2))))),
    Finite("softmax_mean of five", lambda m, s: Moments(maps.softmax_mean(Moments(m.view(-1, 5), s.view(-1, 5))))),
    Finite("max2", _halves(maps.max2)),
    Finite("product", _halves(maps.product)),
    Finite("product with a point", _halves(lambda a, b: maps.product(a, Moments(b.mean)))),
    Finite("product of points", _halves(lambda a, b: maps.product(Moments(a.mean), Moments(b.mean)))),
    Finite("+", _halves(lambda a, b: a + b)),
    Finite("-", _halves(lambda a, b: a - b)),
    Finite("+ a tensor", _halves(lambda a, b: a + b.mean)),
    Finite("* a tensor", _halves(lambda a, b: b.mean * a)),
    Finite("* a number", lambda m, s: Moments(m, s) * -3e4),
    Finite("linear", _linear(maps.linear)),
    Finite("linear of a point", _linear(maps.linear, point=True)),
    Finite("linear by known weights", _linear(maps.linear, exact=True, bias=False)),
    Finite("cpu_linear", _linear(kernels.linear)),
    Finite("cpu_linear of a point", _linear(kernels.linear, point=True, bias=False)),
    Finite("cpu_relu", lambda m, s: kernels.relu(Moments(m, s))),
    Finite("sparse_linear", _sparse),
]


def _found(name: str, values: Tensor, m: Tensor, s: Tensor) -> str:
    bad = (~values.isfinite()).flatten().nonzero().flatten()
    at = f", e.g. at m={m[bad[0]].item()!r}, s={s[bad[0]].item()!r}" if len(values.flatten()) == len(m) else ""
    return f"{name}: {len(bad)} of {values.numel()} are not finite{at}"


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("operation", FINITE, ids=lambda operation: operation.name)
def test_finite_numbers_give_finite_values_and_gradients(operation, dtype, record_property):
    rng, tried = generator(f"{operation.name} {dtype}"), 0
    for _ in range(rounds(1)):
        m, s = (x.requires_grad_() for x in points(rng, dtype))
        out = [x for x in operation.call(m, s) if x is not None]
        for name, x in zip(("mean", "variance"), out, strict=False):
            assert x.dtype == dtype
            assert x.isfinite().all(), _found(name, x, m, s)
        assert len(out) == 1 or (out[1] >= 0).all()
        for weights in GRADIENTS[: 1 + 4 * (len(out) - 1)]:
            up = [torch.full_like(x, w) for x, w in zip(out, weights, strict=False)]
            found = torch.autograd.grad(out, (m, s), up, retain_graph=True, allow_unused=True, materialize_grads=True)
            for name, g in zip(("∂m", "∂s"), found, strict=True):
                assert g.isfinite().all(), _found(f"{name} for {weights}", g, m, s)
        tried += POINTS
    record_property("inputs", tried)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_largest_gradient_that_comes_in_goes_on_as_a_finite_one(case, dtype, record_property):
    m, s = (x.requires_grad_() for x in points(generator(f"up {case.name} {dtype}"), dtype))
    out = case.map(Moments(m, s))
    for sign in (1.0, -1.0):
        up = torch.full_like(m, torch.finfo(dtype).max)
        found = torch.autograd.grad(out, (m, s), [up, sign * up], retain_graph=True)
        for name, g in zip(("∂m", "∂s"), found, strict=True):
            assert g.isfinite().all(), _found(name, g, m, s)
    record_property("inputs", 2 * POINTS)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_second_derivatives_are_finite(case, dtype, record_property):
    m, s = (x.requires_grad_() for x in points(generator(f"second {case.name} {dtype}"), dtype))
    a = case.map(Moments(m, s))
    for first in torch.autograd.grad(a, (m, s), [torch.ones_like(m)] * 2, create_graph=True):
        found = torch.autograd.grad(first, (m, s), torch.ones_like(m), retain_graph=True, materialize_grads=True)
        assert all(g.isfinite().all() for g in found)
    record_property("inputs", POINTS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_negative_variance_is_refused(case):
    with pytest.raises(ValueError, match="variances ≥ 0, got -1"):
        case.map(Moments(torch.zeros(3), torch.tensor([1.0, -1.0, 0.0])))


def test_a_step_of_points_has_a_gradient_of_zero():
    x = torch.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    maps.heaviside(Moments(x)).mean.sum().backward()
    assert x.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("tau", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("family", families.BY_NAME.values(), ids=lambda family: family.__name__)
def test_saturating_neurons_are_finite(family, tau, dtype, record_property):
    m, s = (x.requires_grad_() for x in points(generator(f"{family.__name__} {tau} {dtype}"), dtype))
    a = maps.saturating(family.project(Moments(m, s)), tau)
    found = torch.autograd.grad(a, (m, s), [torch.ones_like(m)] * 2, allow_unused=True, materialize_grads=True)
    assert all(g.isfinite().all() for g in found)
    assert a.mean.isfinite().all() and a.variance.isfinite().all() and (a.variance >= 0).all()
    record_property("inputs", POINTS)


# What is right there -------------------------------------------------------------------------------------------------

LARGEST = {dtype: torch.finfo(dtype).max for dtype in TYPES}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_values_that_the_type_can_hold_are_right_at_its_end(dtype):
    top = torch.tensor([LARGEST[dtype]], dtype=dtype)
    one, zero = torch.ones_like(top), torch.zeros_like(top)
    assert maps.relu(Moments(top, one)) == (top, one)
    assert maps.relu(Moments(-top, one)) == (zero, zero)
    assert maps.abs(Moments(-top, one)) == (top, one)
    assert maps.leaky_relu(Moments(top, zero)) == (top, zero)
    assert maps.softplus(Moments(top, zero)).mean == top
    assert maps.relu6(Moments(top, one)) == (6 * one, zero)
    assert maps.tanh(Moments(-top, one)) == (-one, zero)
    assert maps.max2(Moments(top, one), Moments(-top, top)) == (top, one)
    assert maps.product(Moments(top), Moments(one, zero)) == (top, zero)
    assert maps.linear(Moments(top[None]), Moments(one[None], zero[None])) == (top, zero)
    wide = maps.hardtanh(Moments(zero, one), -LARGEST[dtype] / 8, LARGEST[dtype] / 8)
    torch.testing.assert_close(tuple(wide), (zero, one))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_a_variance_as_large_as_the_type_counts(dtype):
    """tanh and the step of N(√s, s) with the largest s: the same ratio as N(1, 1) has, and the same chance of x > 0."""
    s = torch.tensor([LARGEST[dtype]], dtype=dtype)
    m = s.double().sqrt().to(dtype)
    above = 0.5 * math.erfc(-math.sqrt(0.5))
    rtol = max(1e-5, 4 * torch.finfo(dtype).eps)
    steep = 0 if dtype != torch.float16 else 4e-3  # 256 is not yet infinitely far for tanh
    for function in (maps.tanh, maps.accurate.tanh, maps.erf):
        torch.testing.assert_close(function(Moments(m, s)).mean.item(), 2 * above - 1, rtol=rtol, atol=steep)
    torch.testing.assert_close(maps.sigmoid(Moments(m, s)).mean.item(), above, rtol=rtol, atol=steep)
    torch.testing.assert_close(maps.heaviside(Moments(m, s)).mean.item(), above, rtol=rtol, atol=0)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_what_is_beyond_the_type_is_its_largest_number(dtype):
    top = torch.tensor([LARGEST[dtype]], dtype=dtype)
    for a in (maps.exp(Moments(top, top)), maps.square(Moments(-top, top)), maps.dropout(Moments(top, top), 0.5)):
        assert a == (top, top)
    assert Moments(top, top) + Moments(top, top) == (top, top)
    assert Moments(-top, top) * Moments(top, top) == (-top, top)
    assert maps.linear(Moments(top[None], top[None]), Moments(-top[None], top[None])) == (-top, top)


def test_linear_of_huge_numbers_is_the_sum_of_its_products():
    """Against float64, which holds every product of float32 numbers; the fast sums of these are NaN or infinite."""
    rng = generator("linear of huge numbers")
    m, s = points(rng, torch.float32, 40 * 25)
    (a_m, W_m), (a_s, W_s) = ((x[:500].view(25, 4, 5), x[500:875].view(25, 3, 5)) for x in (m, s))
    exact = [x.double() for x in (a_m, a_s, W_m, W_s)]
    mean = exact[0] @ exact[2].mT
    variance = (exact[1] + exact[0] ** 2) @ exact[3].mT + exact[1] @ (exact[2] ** 2).mT
    o = maps.linear(Moments(a_m, a_s), Moments(W_m, W_s))
    size = exact[0].abs() @ exact[2].abs().mT  # sums that cancel keep an error of their largest term
    top = LARGEST[torch.float32]
    torch.testing.assert_close(o.variance.double(), variance.clamp_max(top), rtol=1e-5, atol=1e-37)
    assert ((o.mean.double() - mean.clamp(-top, top)).abs() <= 1e-5 * size + 1e-44).all()


@pytest.mark.parametrize("operation", FINITE, ids=lambda operation: operation.name)
def test_nan_is_never_hidden(operation):
    """A mean of NaN shows in some result of every call, as does a variance of NaN unless the input is a point."""
    m, s = torch.full((POINTS,), 0.3), torch.full((POINTS,), 0.2)
    out = operation.call(m.clone().fill_(torch.nan), s)
    assert all(x is None or x.isnan().any() for x in out[:1])


NETWORKS = {
    **{name: {"family": name} for name in families.BY_NAME if name != "pareto"},
    "square": {"activation": "square"},
    "replicas": {"replicas": (2,)},
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_networks_of_any_weights_have_finite_moments_and_gradients(name, dtype):
    rng = generator(f"weights {name} {dtype}")
    network = nn.mlp([3, 5, 2], **NETWORKS[name]).to(dtype)
    for size in (30.0, 90.0, 600.0, LARGEST[dtype], -LARGEST[dtype]):
        for free in network.parameters():
            free.data.fill_(size)
        o = network(points(rng, dtype)[0][:300].reshape(100, 3).abs())
        assert o.mean.isfinite().all() and o.variance.isfinite().all() and (o.variance >= 0).all()
        ones = [torch.ones_like(part) for part in o]
        found = torch.autograd.grad(o, list(network.parameters()), ones, allow_unused=True, materialize_grads=True)
        assert all(gradient.isfinite().all() for gradient in found)
