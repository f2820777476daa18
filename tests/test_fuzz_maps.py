"""Laws of the elementwise moment maps at arbitrary points: signs, ranges, order, symmetry (hypothesis)."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from map_cases import CASES, each, gradients

from torchnpn import maps
from torchnpn.moments import Moments

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
