"""Fused kernels are their plain maps: values, every gradient, and a way out for all that they do not take."""

from __future__ import annotations

import itertools

import pytest
import scipy.sparse
import torch

from torchnpn import kernels, maps, nn
from torchnpn.kernels import choose
from torchnpn.moments import Moments

NAMES = ("a_m", "a_s", "W_m", "W_s", "b_m", "b_s")
ROUNDING = {torch.float32: {"rtol": 2e-6, "atol": 2e-6}, torch.float64: {"rtol": 1e-13, "atol": 1e-13}}


def tensors(dtype=torch.float64, point=False, bias=True, batch=7, n_in=5, n_out=4, needs=NAMES):
    """The six tensors of a linear transformation, with those in `needs` asking for gradients; None where left out."""
    generator = torch.Generator().manual_seed(0)
    shapes = dict(zip(NAMES, [(batch, n_in)] * 2 + [(n_out, n_in)] * 2 + [(n_out,)] * 2, strict=True))
    out = {}
    for name, shape in shapes.items():
        draw = torch.rand if name.endswith("_s") else torch.randn
        value = draw(shape, generator=generator, dtype=torch.float64).to(dtype)
        left_out = (name == "a_s" and point) or (name[0] == "b" and not bias)
        out[name] = None if left_out else value.requires_grad_(name in needs)
    return out


def moments(t):
    b = None if t["b_m"] is None else Moments(t["b_m"], t["b_s"])
    return Moments(t["a_m"], t["a_s"]), Moments(t["W_m"], t["W_s"]), b


def gradients(linear, t):
    """Values, and the gradients of a sum in which each output has a weight of its own."""
    o = linear(*moments(t))
    generator = torch.Generator().manual_seed(1)
    up = [torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x.dtype) for x in o]
    needed = [x for x in t.values() if x is not None and x.requires_grad]
    return o, torch.autograd.grad(list(o), needed, up)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("point", [True, False], ids=["point", "random"])
def test_linear_is_the_plain_map(point, bias, dtype):
    t = tensors(dtype, point, bias, batch=33, n_in=20, n_out=9)
    assert choose.why_not_cpu_linear(*moments(t)) is None
    fused, plain = gradients(kernels.linear, t), gradients(maps.linear, t)
    torch.testing.assert_close(tuple(fused[0]), tuple(plain[0]), **ROUNDING[dtype])
    torch.testing.assert_close(fused[1], plain[1], rtol=10 * ROUNDING[dtype]["rtol"], atol=20 * ROUNDING[dtype]["atol"])


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("point", [True, False], ids=["point", "random"])
def test_linear_computes_each_gradient_that_is_asked_for(point, bias):
    """Whatever tensors are frozen, the others have the gradients that they have with all."""
    every = tensors(point=point, bias=bias)
    present = [name for name in NAMES if every[name] is not None]
    whole = dict(zip(present, gradients(maps.linear, every)[1], strict=True))
    for count in range(1, len(present) + 1):
        for needs in itertools.combinations(present, count):
            got = gradients(kernels.linear, tensors(point=point, bias=bias, needs=needs))[1]
            torch.testing.assert_close(got, tuple(whole[name] for name in needs), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("point", [True, False], ids=["point", "random"])
def test_linear_gradients_by_differences(point, bias):
    t = tensors(point=point, bias=bias, batch=3, n_in=3, n_out=2)
    present = [name for name in NAMES if t[name] is not None]

    def outputs(*values):
        return tuple(kernels.linear(*moments({**dict.fromkeys(NAMES), **dict(zip(present, values, strict=True))})))

    assert torch.autograd.gradcheck(outputs, [t[name] for name in present])


def test_linear_takes_any_strides():
    t = {name: x.detach() for name, x in tensors().items()}
    bent = {name: x.T.contiguous().T if x.dim() == 2 else x for name, x in t.items()}
    bent["a_s"] = bent["a_s"][:, :1].expand(-1, 5)  # one variance for all inputs of a row
    torch.testing.assert_close(tuple(kernels.linear(*moments(bent))), tuple(maps.linear(*moments(bent))))


def test_linear_takes_empty_batches():
    o = kernels.linear(*moments(tensors(batch=0)))
    assert o.mean.shape == o.variance.shape == (0, 4)


def _replicas(t):
    return [Moments(*(x.detach().expand(3, *x.shape) for x in part)) for part in moments(t)]


def _sparse(t):
    a, W, b = moments(t)
    return scipy.sparse.csr_matrix(a.mean.detach().numpy()), W, b


def _sparse_tensor(t):
    _, W, b = moments(t)
    return maps.affine._from_scipy(_sparse(t)[0], W), W, b


def _point_weights(t):
    a, W, b = moments(t)
    return a, Moments(W.mean), b


def _point_bias(t):
    a, W, b = moments(t)
    return a, W, Moments(b.mean)


def _shared_weight_variance(t):
    a, W, b = moments(t)
    return a, Moments(W.mean, W.variance[:1]), b


def _shared_bias_variance(t):
    a, W, b = moments(t)
    return a, W, Moments(b.mean, b.variance[:1])


def _one_row(t):
    a, W, b = moments(t)
    return Moments(a.mean[0], a.variance[0]), W, b


OTHERS = [
    _replicas,
    _sparse,
    _sparse_tensor,
    _point_weights,
    _point_bias,
    _shared_weight_variance,
    _shared_bias_variance,
    _one_row,
]


@pytest.mark.parametrize("change", OTHERS, ids=lambda change: change.__name__.strip("_"))
def test_linear_leaves_other_arguments_to_the_plain_map(change):
    arguments = change(tensors())
    assert choose.why_not_cpu_linear(*arguments) is not None
    got, want = kernels.linear(*arguments), maps.linear(*arguments)
    assert torch.equal(got.mean, want.mean)
    assert torch.equal(got.variance, want.variance)


def test_linear_under_vmap():
    a, W, b = _replicas(tensors())
    b_m, b_s = (x * torch.arange(1.0, 4.0, dtype=x.dtype)[:, None] for x in b)

    def one(b_m, b_s):
        return tuple(kernels.linear(Moments(*(x[0] for x in a)), Moments(*(x[0] for x in W)), Moments(b_m, b_s)))

    got = torch.func.vmap(one)(b_m, b_s)
    for k in range(3):
        torch.testing.assert_close(tuple(x[k] for x in got), one(b_m[k], b_s[k]))


def test_linear_under_functional_gradients():
    t = {name: x.detach() for name, x in tensors().items()}

    def total(W_m, linear):
        o = linear(*moments({**t, "W_m": W_m}))
        return (o.mean * torch.arange(4)).sum() - (o.variance * torch.arange(4) ** 2).sum()

    got, want = (torch.func.grad(total)(t["W_m"], linear) for linear in (kernels.linear, maps.linear))
    torch.testing.assert_close(got, want)


def test_a_network_under_transforms_that_do_not_touch_it():
    """Whatever a transform has wrapped, it takes no autograd function of the kernels."""
    net, x = nn.mlp([5, 4, 1], generator=torch.Generator().manual_seed(0)), tensors(torch.float32)["a_m"].detach()
    want = net(x).mean

    def scaled(factor):
        return net(x).mean * factor

    torch.testing.assert_close(torch.func.vmap(scaled)(torch.arange(3.0))[2], 2 * want)
    torch.testing.assert_close(torch.func.grad(lambda factor: scaled(factor).sum())(torch.tensor(2.0)), want.sum())


def test_linear_checks_like_the_plain_map():
    a, W, b = moments(tensors())
    with pytest.raises(ValueError, match="same number of in features"):
        kernels.linear(Moments(a.mean[:, :3], a.variance[:, :3]), W, b)
    with pytest.raises(ValueError, match="bias for each of the 4 out features"):
        kernels.linear(a, W, Moments(b.mean[:3], b.variance[:3]))


@pytest.mark.parametrize("shape", [(40,), (9, 8), (3, 5, 4)], ids=str)
def test_relu_is_the_plain_map(shape):
    """Means from far below to far above zero, variances from none to many: values and gradients."""
    generator = torch.Generator().manual_seed(0)
    m = 4 * torch.randn(shape, generator=generator)
    s = torch.exp(6 * torch.randn(shape, generator=generator))
    m.view(-1)[:3], s.view(-1)[:6] = torch.tensor([0.0, -1.0, 1.0]), 0.0
    assert choose.why_not_cpu_relu(Moments(m, s)) is None
    up = [torch.randn(shape, generator=generator) for _ in range(2)]
    results = []
    for relu in (kernels.relu, maps.relu):
        inputs = [m.clone().requires_grad_(), s.clone().requires_grad_()]
        o = relu(Moments(*inputs))
        results.append((*o, *torch.autograd.grad(list(o), inputs, up)))
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-6)
    assert (results[0][1] >= 0).all()


@torch.no_grad()
def test_relu_in_float64_is_the_plain_map():
    """Without gradients, for predictions: from far tails to none, in all digits."""
    h = torch.linspace(-40, 40, 1601, dtype=torch.float64)
    s = torch.logspace(-300, 300, 1601, dtype=torch.float64)[
        torch.randperm(1601, generator=torch.Generator().manual_seed(0))
    ]
    s[::100] = 0.0
    o = Moments(h * s.sqrt(), s)
    assert choose.why_not_cpu_relu(o) is None
    torch.testing.assert_close(kernels.relu(o), maps.relu(o), rtol=1e-13, atol=0.0)


def test_relu_leaves_other_arguments_to_the_plain_map():
    m = torch.linspace(-3, 3, 7)
    others = [Moments(m), Moments(m.double(), m.double() ** 2), Moments(m, torch.tensor(0.5)), Moments(m.bfloat16(), m)]
    for o in others[:3]:
        assert choose.why_not_cpu_relu(o) is not None
        got, want = kernels.relu(o), maps.relu(o)
        torch.testing.assert_close(got, want, rtol=0, atol=0)
    assert choose.why_not_cpu_relu(others[3]) is not None
    got = torch.func.vmap(lambda m, s: tuple(kernels.relu(Moments(m, s))))(m, m**2)
    torch.testing.assert_close(got, tuple(maps.relu(Moments(m, m**2))))


def test_a_network_under_autocast():
    net = nn.mlp([6, 8, 3], generator=torch.Generator().manual_seed(0))
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(1))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        o = net(Moments(x, x**2))
    want = net(Moments(x, x**2))
    torch.testing.assert_close(o.mean.float(), want.mean, rtol=0.05, atol=0.05)  # bfloat16 has eight bits
    torch.testing.assert_close(o.variance.float(), want.variance, rtol=0.05, atol=0.05)
    (o.mean.sum() + o.variance.sum()).backward()
    assert all(p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # torch's own, while it traces
@pytest.mark.slow
def test_a_network_compiles_whole():
    """`fullgraph` allows no break: inside a compiled network the plain maps take the kernels' place."""
    net = nn.mlp([6, 8, 3], generator=torch.Generator().manual_seed(0))
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(1))
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    eager, got = net(x), compiled(x)
    torch.testing.assert_close(tuple(got), tuple(eager))
    parameters = list(net.parameters())
    gradient = [torch.autograd.grad(o.mean.sum() + o.variance.sum(), parameters) for o in (got, eager)]
    torch.testing.assert_close(*gradient, rtol=1e-5, atol=1e-6)
    with torch.no_grad():
        torch.testing.assert_close(tuple(compiled(x)), tuple(net(x)))
