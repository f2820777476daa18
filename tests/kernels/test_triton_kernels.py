"""The Triton kernels against the maps in float64, by Triton's interpreter on a CPU."""

from __future__ import annotations

import functools
import itertools

import pytest
import torch

from torchnpn import families, kernels, maps
from torchnpn.moments import Moments

pytest.importorskip("triton")

from torchnpn.kernels.triton import linear as fused
from torchnpn.kernels.triton import tiles
from torchnpn.kernels.triton.layer import (
    activation,
    activation_gradient,
    fill_pair_,
    forward,
    input_gradient,
    signal,
    weights,
)
from torchnpn.kernels.triton.optimizer import step_ as triton_step_
from torchnpn.kernels.triton.signals import FAST, FULL, Activation, Drop, Gradient, pad
from torchnpn.maps import sigmoids


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=seeded(seed))


COARSE = dict(  # float32's sigmoid and tanh, in float64 too, where the maps have a finer form
    zip(
        ("sigmoid", "tanh"),
        sigmoids.make(dict.fromkeys(sigmoids.DEFAULT, sigmoids.DEFAULT[torch.float32])),
        strict=True,
    )
)


def mapped(act, o):
    """The map that an activation of the kernels stands for."""
    if act.name == "gamma":
        return maps.saturating(families.Gamma.project(o), *act[1:])
    if act.name in COARSE:
        return Moments(*COARSE[act.name](*o))
    return o if act.name == "none" else getattr(maps, act.name)(o)


@pytest.fixture(params=[False, True], ids=["small", "large"])
def large(request, monkeypatch):
    """Both ways through a layer: by kernels alone, and by the library's products with kernels between them."""
    monkeypatch.setattr("torchnpn.kernels.triton.tiles.is_large", lambda *sizes: request.param)
    return request.param


@pytest.mark.parametrize(
    ("kernel", "sizes", "large"),
    [
        ("input", (1, 256, 20_000, 100), True),  # few long sums
        ("input", (1, 256, 800, 100), False),
        ("input", (20, 64, 2000, 100), False),  # work for all
        ("input", (1, 8192, 10, 4096), False),  # short sums
        ("forward", (1, 8192, 4096, 4096), True),
        ("weight", (1, 8192, 4096, 4096), True),
    ],
)
def test_where_the_librarys_products_are_taken(kernel, sizes, large):
    assert tiles.is_large(kernel, *sizes) is large


# Activations ---------------------------------------------------------------------------------------------------------

# With the bounds of the errors of the mean (of 1 + |mean|), the variance, and the four slopes
ACTIVATIONS = {
    Activation("relu"): (2e-6, 4e-6, 1e-6),
    Activation("sigmoid"): (1e-6, 1e-5, 1e-6),
    Activation("tanh"): (5e-7, 1e-5, 7e-6),
    Activation("gamma", 1.0, 1.0, 1.0): (3e-7, 3e-6, 1e-6),
    Activation("gamma", 0.3, 1.0, 1.0): (3e-7, 3e-6, 1e-6),
    Activation("gamma", 2.0, 3.0, 1.5): (3e-7, 3e-6, 1e-6),
    Activation("gamma", 5.0, 1.0, 2.0): (3e-7, 3e-6, 1e-6),
    Activation("gamma", 1.0, 0.0, -1.0): (3e-7, 3e-6, 1e-6),
}
each_activation = pytest.mark.parametrize("act", ACTIVATIONS, ids=lambda act: "-".join(f"{part}" for part in act))


def grid(act):
    """Means and variances over many orders of magnitude, also zero variances; for gamma neurons positive means."""
    if act.name == "gamma":
        m = torch.logspace(-4, 3, 31).repeat_interleave(28)
        return m, m**2 * torch.logspace(-6, 3, 28).repeat(31)
    h, std = torch.linspace(-12, 12, 33), torch.logspace(-8, 6, 29)
    m = torch.cat([(h[:, None] * std).flatten(), torch.linspace(-30, 30, 33).repeat_interleave(29)])
    points = torch.tensor([-1e15, -3, -1e-8, 0, 1e-8, 2, 1e15])
    return torch.cat([m, points]), torch.cat([(std**2).repeat(66), torch.zeros(7)])


def scales(act, m, s):
    """What is large and what small: of the variance, and of the slopes ∂a_m/∂m, ∂a_m/∂s, ∂a_s/∂m, ∂a_s/∂s."""
    m, std, one = m.abs(), s.sqrt(), torch.ones_like(m)
    if act.name == "relu":
        return s, ((one, 1 / std.clamp_min(1e-10)), (m + std + 1e-30, one))
    return one, ((1 / m, 1 / m**2),) * 2 if act.name == "gamma" else ((one, one),) * 2


@each_activation
def test_an_activation_and_its_slopes_are_those_of_the_map(act):
    mean_bound, variance_bound, slope_bound = ACTIVATIONS[act]
    m, s = grid(act)
    exact = [t.double().requires_grad_() for t in (m, s)]
    got, want = activation(m, s, act), mapped(act, Moments(*exact))
    scale, slopes = scales(act, m.double(), s.double())
    assert ((got[0] - want.mean).abs() <= mean_bound * (1 + want.mean.abs())).all()
    assert ((got[1] - want.variance).abs() <= variance_bound * (want.variance + 1e-6 * scale)).all()
    assert (got[1] >= 0).all()
    for i, output in enumerate(want):
        up = [torch.full_like(m, float(i == k)) for k in range(2)]
        found = activation_gradient(m, s, *up, act)[:2]
        expected = torch.autograd.grad(output.sum(), exact, retain_graph=True)
        for a, b, size in zip(found, expected, slopes[i], strict=True):
            assert ((a - b).abs() <= slope_bound * size).all()


def test_neurons_that_fade_keep_the_digits_of_small_means():
    """exp(-x) of gamma neurons, against the closed form (1 + s/m)^(-m²/s), relative to itself."""
    m = torch.logspace(-2, 1.6, 25)
    s = (0.05 * m) ** 2
    want = (1 + s.double() / m.double()) ** (-(m.double() ** 2) / s.double())
    got = activation(m, s, Activation("gamma", 1.0, 0.0, -1.0))[0]
    assert ((got - want).abs() <= 1e-5 * want).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of numpy, in the interpreter, where a product overflows
@each_activation
def test_an_activation_survives_numbers_of_any_size(act):
    largest = torch.finfo(torch.float32).max
    sizes = [0.0, 1e-42, 1e-37, 1e-20, 1e-6, 1.0, 1e6, 1e15, 1e19, 1e30, largest / 4, largest]
    means = sizes if act.name == "gamma" else [*sizes, *(-size for size in sizes)]
    m, s = torch.tensor(list(itertools.product(means, sizes))).T.contiguous()
    a_m, a_s = activation(m, s, act)
    gradient = activation_gradient(m, s, torch.ones_like(m), torch.ones_like(m), act)
    assert all(t.isfinite().all() for t in (a_m, a_s, *gradient[:2]))
    assert (a_s >= 0).all()


@pytest.mark.parametrize("name", ["relu", "sigmoid", "tanh"])
def test_an_activation_passes_nan_on(name):
    nan, one = torch.tensor([torch.nan]), torch.ones(1)
    assert activation(nan, one, Activation(name))[0].isnan()
    assert activation(one, nan, Activation(name))[1].isnan()


@each_activation
def test_autograd_calls_the_activation(act):
    m, s = normal(3, 7).abs().requires_grad_(), normal(7, 3, seed=1).square().T.requires_grad_()  # in any layout
    exact = [t.detach().double().requires_grad_() for t in (m, s)]
    up = normal(3, 7, seed=2)
    found, expected = (
        torch.autograd.grad([*a], leaves, [up.to(a.mean), 2 * up.to(a.mean)])
        for a, leaves in ((fused.activate(Moments(m, s), act), [m, s]), (mapped(act, Moments(*exact)), exact))
    )
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=2e-5, atol=2e-6)


# Layers --------------------------------------------------------------------------------------------------------------


def layer_case(replicas, rows, outputs, inputs, *, point=False, shared=False, bias=True, tied=False, seed=0):
    """a, W, b with variances (for b and W log standard deviations) as a list of leaves; None where there is none.

    The tied ones of W are two, and last.
    """
    lead = () if shared else replicas
    positive = lambda t: 0.3 * t - 1
    x, xs = normal(*lead, rows, inputs, seed=seed), normal(*lead, rows, inputs, seed=seed + 1).square()
    W, W_l = (normal(*replicas, outputs, inputs, seed=seed + k) for k in (2, 3))
    b, b_l = (normal(*replicas, outputs, seed=seed + k) for k in (4, 5))
    found = [x, None if point else xs, W / inputs**0.5, positive(W_l), b, positive(b_l)]
    if tied:
        return [*found[:3], positive(W_l[..., :1]), *found[4:], positive(W_l[..., :1, :])]
    return found if bias else [*found[:4], None, None]


def as_leaves(tensors, dtype):
    return [None if t is None else t.detach().to(dtype).requires_grad_() for t in tensors]


def exact_layer(leaves, act, log_std):
    a_m, a_s, W_m, W_v, b_m, b_v, *other = leaves
    variance = lambda v: torch.exp(2 * v) if log_std else v
    b = None if b_m is None else Moments(b_m, variance(b_v))
    W_s = functools.reduce(torch.mul, (variance(v) for v in (W_v, *other)))
    return mapped(act, maps.linear(Moments(a_m, a_s), Moments(W_m, W_s), b))


def fused_layer(leaves, act, precision, log_std):
    a_m, a_s, W_m, W_v, b_m, b_v, *other = leaves
    b = None if b_m is None else Moments(b_m, b_v)
    return fused.linear(Moments(a_m, a_s), [W_m, W_v, *other], b, act, precision, log_std)


def relative(a, b):
    return float((a.detach().double() - b.detach()).norm() / b.detach().norm())


def compare(case, act, precision, bound, log_std=True):
    """Outputs and all gradients of a layer, fused against exact."""
    if not log_std:
        case = [t if t is None or i < 3 or i == 4 else torch.exp(2 * t) for i, t in enumerate(case)]
    mine, exact = as_leaves(case, torch.float32), as_leaves(case, torch.float64)
    got, want = fused_layer(mine, act, precision, log_std), exact_layer(exact, act, log_std)
    assert got.mean.shape == want.mean.shape
    up = [normal(*want.mean.shape, seed=20 + k) for k in range(2)]
    found, expected = (
        torch.autograd.grad([*o], [t for t in leaves if t is not None], [u.to(o.mean) for u in up])
        for o, leaves in ((got, mine), (want, exact))
    )
    for a, b in zip((*got, *found), (*want, *expected), strict=True):
        assert a.shape == b.shape
        assert relative(a, b) < bound


SHAPES = {  # replicas, rows, outputs, inputs: never a multiple of a tile
    "one network": ((), 37, 29, 45),
    "few outputs": ((), 19, 3, 70),
    "one of each": ((), 1, 1, 1),
    "replicas": ((3,), 20, 21, 33),
    "two dimensions of replicas": ((2, 2), 9, 5, 7),
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("point", [True, False], ids=["a point", "random"])
@pytest.mark.parametrize("name", ["none", "relu"])
def test_a_layer_and_its_gradients_are_those_of_the_maps(name, point, shape, large):
    compare(layer_case(*shape, point=point), Activation(name), FULL, 3e-6)


@pytest.mark.parametrize("log_std", [True, False], ids=["logarithms", "variances"])
@pytest.mark.parametrize("point", [True, False], ids=["a point", "random"])
@pytest.mark.parametrize("shape", [SHAPES["one network"], SHAPES["two dimensions of replicas"]], ids=str)
def test_a_layer_with_tied_standard_deviations(shape, point, log_std, large):
    compare(layer_case(*shape, point=point, tied=True), Activation("relu"), FULL, 3e-6, log_std)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sigmoid", "tanh"])
def test_other_activations_after_a_layer(name, large):
    compare(layer_case((2,), 20, 10, 33), Activation(name), FULL, 5e-6)


def test_gamma_neurons_after_a_layer(large):
    case = [t if i in (3, 5) else t.abs() for i, t in enumerate(layer_case((2,), 20, 10, 33))]
    compare(case, Activation("gamma", 0.7, 1.2, 0.9), FULL, 3e-6)


@pytest.mark.parametrize("point", [True, False], ids=["a point", "random"])
def test_replicas_may_share_their_input(point, large):
    compare(layer_case((3,), 20, 10, 33, point=point, shared=True), Activation("relu"), FULL, 3e-6)


@pytest.mark.parametrize("point", [True, False], ids=["a point", "random"])
def test_a_layer_without_bias_and_with_variances_of_weights(point, large):
    compare(layer_case((2,), 20, 10, 33, point=point, bias=False), Activation("relu"), FULL, 3e-6)
    compare(layer_case((2,), 20, 10, 33, point=point), Activation("relu"), FULL, 3e-6, log_std=False)


def test_the_fast_precision_is_near(monkeypatch):
    """In bfloat16, whose relative error is 2⁻⁹ a factor; the interpreter has no such products in the small kernels."""
    monkeypatch.setattr("torchnpn.kernels.triton.tiles.is_large", lambda *sizes: True)
    compare(layer_case((2,), 33, 30, 45), Activation("relu"), FAST, 1e-2)


def test_variances_of_an_input_may_be_one_for_all():
    a_m, _, *parameters = layer_case((), 8, 5, 6)
    wide, narrow = (
        fused_layer([a_m, s, *parameters], Activation(), FULL, True) for s in (torch.ones(8, 6), torch.ones(1))
    )
    torch.testing.assert_close(wide, narrow)


# Dropout -------------------------------------------------------------------------------------------------------------

ROWS, WIDTH, REPLICAS = 30, 31, 2


def hidden(drop, seed=0):
    """A layer below, with or without dropout: its output, and its weights."""
    a_m, _, *parameters = layer_case((REPLICAS,), ROWS, WIDTH, 5, point=True, seed=seed)
    w = weights(parameters[:2], parameters[2:], True, True, FULL)
    fill_pair_(w)
    return forward(signal(a_m, None, w, FULL), w, Activation("sigmoid"), drop=drop, precision=FULL)


def dropping(p=0.3, seed=7, step=0, salt=1):
    return Drop(p, torch.tensor([seed]), torch.full((REPLICAS,), step, dtype=torch.int32), salt)


def mask(drop):
    """The mask, as it shows in the output: 0 or 1/(1 - p)."""
    return (hidden(drop).a.m / hidden(None).a.m).round(decimals=4)


@pytest.mark.slow
@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_keeps_its_share_and_scales_both_moments(p, large):
    dropped, whole = hidden(dropping(p)).a, hidden(None).a
    scale = dropped.m / whole.m
    kept = scale > 0
    assert 1 - kept.float().mean() == pytest.approx(p, abs=4 * (p * (1 - p) / kept.numel()) ** 0.5)
    torch.testing.assert_close(scale[kept], torch.full_like(scale[kept], 1 / (1 - p)))
    torch.testing.assert_close(dropped.s, whole.s * scale**2, rtol=1e-5, atol=0)


@pytest.mark.slow
def test_every_step_replica_row_layer_and_seed_draws_a_mask_of_its_own():
    first = mask(dropping())
    settings = [{"step": 1}, {"salt": 2}, {"seed": 1234}]
    for other in [*(mask(dropping(**change)) for change in settings), first.flip(0), first.roll(1, 1)]:
        # independent masks agree with probability p² + (1 - p)²
        assert (first == other).float().mean() == pytest.approx(0.58, abs=0.05)


@pytest.mark.slow
def test_small_and_large_layers_draw_the_same_mask_again_and_again(monkeypatch):
    small = mask(dropping())
    assert torch.equal(small, mask(dropping()))
    monkeypatch.setattr("torchnpn.kernels.triton.tiles.is_large", lambda *sizes: True)
    assert torch.equal(small, mask(dropping()))


@pytest.mark.slow
def test_the_backward_pass_draws_the_mask_of_the_forward_pass(large):
    """Through dropout and sigmoid down to o: the chain rule by hand, with the mask read off the output."""
    drop, act = dropping(), Activation("sigmoid")
    below, scale = hidden(drop), mask(drop)
    _, _, *parameters = layer_case((REPLICAS,), ROWS, 6, WIDTH, seed=30)
    w = weights(parameters[:2], parameters[2:], True, False, FULL)
    fill_pair_(w)
    a = signal(below.a.m, below.a.s, w, FULL)
    g = Gradient(*(pad(normal(REPLICAS, ROWS, 6, seed=seed)) for seed in (40, 41)))
    by_o = input_gradient(g, a, w, below, act, drop, FULL)
    by_a = input_gradient(g, a, w, precision=FULL)
    want = activation_gradient(below.o_m, below.o_s, by_a.m * scale, by_a.s * scale**2, act)
    torch.testing.assert_close(by_o[:2], want[:2], rtol=2e-4, atol=4e-6)  # the mask was rounded


# The optimizer -------------------------------------------------------------------------------------------------------

RULES = {
    "adam": (("adam", 0.8, 0.95, 1e-6), functools.partial(torch.optim.Adam, betas=(0.8, 0.95), eps=1e-6)),
    "adadelta": (("adadelta", 0.8, 0.8, 1e-6), functools.partial(torch.optim.Adadelta, rho=0.8, eps=1e-6)),
}


@pytest.mark.parametrize("step_", [kernels.step_, triton_step_], ids=["torch", "triton"])
@pytest.mark.parametrize("shape", [(3, 7, 5), (3,), (3, 1030)], ids=str)
@pytest.mark.parametrize("rates", [[1e-2], [1e-1, 1e-3, 1e-2]], ids=["one rate", "one a replica"])
@pytest.mark.parametrize("kind", RULES)
def test_a_step_is_torchs(kind, rates, shape, step_):
    rule, optimizer_of = RULES[kind]
    got, averages = normal(*shape), torch.zeros(2, *shape)
    want = [part.clone().requires_grad_() for part in (got if len(rates) > 1 else got[None])]
    optimizers = [optimizer_of([p], rate) for p, rate in zip(want, rates, strict=True)]
    for t in range(1, 5):
        gradient = normal(*shape, seed=t)
        corrections = (1 - rule[1] ** t, 1 - rule[2] ** t) if kind == "adam" else (1.0, 1.0)
        now = torch.tensor([[rate / corrections[0], corrections[1] ** -0.5, 0.0] for rate in rates])
        step_(got, gradient, averages, now, rule)
        for p, g, optimizer in zip(want, gradient if len(rates) > 1 else gradient[None], optimizers, strict=True):
            p.grad = g
            optimizer.step()
    torch.testing.assert_close(got, torch.stack(want).detach().view_as(got), rtol=2e-6, atol=2e-7)


def test_a_step_of_a_lone_number():
    x, averages = torch.tensor(1.0), torch.zeros(2)
    now, rule = torch.tensor([[0.1 / 0.1, 1 / 0.1**0.5, 0.0]]), ("adam", 0.9, 0.9, 0.0)
    kernels.step_(x, torch.tensor(-3.0), averages, now, rule)
    assert float(x) == pytest.approx(1.1)  # the first step goes as far as the rate, whatever the gradient
