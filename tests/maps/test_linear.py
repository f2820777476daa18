"""Maps that mix elements: linear, dropout, product, softmax_mean; and quadrature, against exact references."""

import numpy as np
import pytest
import scipy.sparse
import torch
from support import bounds, map_cases, reference
from torch.nn import functional as F

from torchnpn import maps
from torchnpn.moments import Moments


def random_moments(*shape, seed=0, dtype=torch.float64, point=False):
    generator = torch.Generator().manual_seed(seed)
    mean = torch.randn(*shape, generator=generator, dtype=dtype)
    return Moments(mean, None if point else torch.rand(*shape, generator=generator, dtype=dtype) + 0.01)


def as_arrays(x):
    """Mean and variance as float64 arrays; a point has variance zero."""
    mean = x.mean.double().numpy()
    return mean, np.zeros_like(mean) if x.variance is None else x.variance.double().numpy()


def sum_of_products(a, W, b):
    """Mean and variance of Σ_i a_i W_ji + b_j, term by term: E a²W² - (E a W)² for independent a, W."""
    (a_m, a_s), (W_m, W_s) = as_arrays(a), as_arrays(W)
    a_m, a_s = a_m[..., :, None, :], a_s[..., :, None, :]  # (*replicas, batch, 1, in)
    W_m, W_s = W_m[..., None, :, :], W_s[..., None, :, :]  # (*replicas, 1, out, in)
    mean = (a_m * W_m).sum(-1)
    variance = ((a_m**2 + a_s) * (W_m**2 + W_s) - (a_m * W_m) ** 2).sum(-1)
    if b is not None:
        b_m, b_s = as_arrays(b)
        mean, variance = mean + b_m[..., None, :], variance + b_s[..., None, :]
    return mean, variance


def assert_moments(got, want, rtol=1e-12):
    np.testing.assert_allclose(got.mean, want[0], rtol=rtol, atol=rtol)
    np.testing.assert_allclose(got.variance, want[1], rtol=rtol)


@pytest.mark.parametrize("bias", ["random", "point", "none"])
@pytest.mark.parametrize("replicas", [(), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize(("point_input", "point_weight"), [(False, False), (True, False), (False, True)])
def test_linear_is_the_sum_of_independent_products(point_input, point_weight, replicas, bias):
    a = random_moments(*replicas, 4, 5, point=point_input)
    W = random_moments(*replicas, 6, 5, seed=1, point=point_weight)
    b = None if bias == "none" else random_moments(*replicas, 6, seed=2, point=bias == "point")
    out = maps.linear(a, W, b)
    assert out.mean.shape == out.variance.shape == (*replicas, 4, 6)
    assert_moments(out, sum_of_products(a, W, b))


def test_linear_of_points_is_a_point():
    a, W, b = (random_moments(*shape, point=True) for shape in ((4, 5), (6, 5), (6,)))
    out = maps.linear(a, W, b)
    assert out.variance is None
    torch.testing.assert_close(out.mean, F.linear(a.mean, W.mean, b.mean))
    random_bias = random_moments(6)
    out = maps.linear(a, W, random_bias)
    torch.testing.assert_close(out.variance.expand(4, 6), random_bias.variance.expand(4, 6))


@pytest.mark.parametrize("bias", [True, False])
def test_linear_broadcasts_an_input_without_replicas(bias):
    a, W = random_moments(4, 5), random_moments(3, 6, 5, seed=1)
    b = random_moments(3, 6, seed=2) if bias else None
    out = maps.linear(a, W, b)
    assert out.mean.shape == (3, 4, 6)
    assert_moments(out, sum_of_products(a, W, b))
    for k in range(3):
        one = maps.linear(a, Moments(W.mean[k], W.variance[k]), Moments(b.mean[k], b.variance[k]) if bias else None)
        torch.testing.assert_close((out.mean[k], out.variance[k]), tuple(one))


def test_linear_takes_one_row_without_a_batch():
    a, W, b = random_moments(5), random_moments(6, 5, seed=1), random_moments(6, seed=2)
    out = maps.linear(a, W, b)
    assert out.mean.shape == out.variance.shape == (6,)
    batched = maps.linear(Moments(a.mean[None], a.variance[None]), W, b)
    torch.testing.assert_close(tuple(out), (batched.mean[0], batched.variance[0]))


def test_linear_takes_an_empty_batch():
    a = Moments(torch.zeros(0, 5), torch.zeros(0, 5))
    out = maps.linear(a, random_moments(6, 5, dtype=torch.float32))
    assert out.mean.shape == out.variance.shape == (0, 6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_linear_with_zero_variance_is_torchs(dtype):
    a, W, b = (random_moments(*shape, dtype=dtype) for shape in ((4, 5), (6, 5), (6,)))
    zero = [Moments(x.mean, torch.zeros_like(x.mean)) for x in (a, W, b)]
    out = maps.linear(*zero)
    torch.testing.assert_close(out.mean, F.linear(a.mean, W.mean, b.mean))
    assert (out.variance == 0).all()


def test_linear_in_float32_has_non_negative_relative_variance():
    generator = torch.Generator().manual_seed(0)
    a = Moments(1e3 * torch.randn(8, 50, generator=generator), 1e-6 * torch.rand(8, 50, generator=generator))
    W = Moments(torch.randn(7, 50, generator=generator), 1e-8 * torch.rand(7, 50, generator=generator))
    out = maps.linear(a, W)
    assert_moments(Moments(out.mean[:0], out.variance), (out.mean[:0], sum_of_products(a, W, None)[1]), rtol=2e-6)


def sparse_input(dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    dense = torch.randn(9, 7, generator=generator, dtype=dtype)
    dense[torch.rand(9, 7, generator=generator) < 0.7] = 0
    dense[4] = 0  # a row without entries
    return dense


def _torch_csr(dense):
    return Moments(dense.to_sparse_csr())


def _scipy_csr(dense):
    return scipy.sparse.csr_matrix(dense.numpy())


@pytest.mark.filterwarnings("ignore:Sparse")  # torch calls its CSR tensors beta, unchecked
@pytest.mark.parametrize("make", [_torch_csr, _scipy_csr])
@pytest.mark.parametrize(("point_weight", "bias"), [(False, True), (True, True), (False, False)])
def test_sparse_input_equals_dense_with_gradients(make, point_weight, bias):
    dense = sparse_input()

    def outputs_and_gradients(a):
        W = random_moments(6, 7, seed=1, point=point_weight)
        b = random_moments(6, seed=2) if bias else None
        leaves = [x.requires_grad_() for pair in (W, b) if pair is not None for x in pair if x is not None]
        out = maps.linear(a, W, b)
        parts = [x for x in out if x is not None]
        total = sum(((i + 1) * x * torch.linspace(1, 2, 6, dtype=x.dtype)).sum() for i, x in enumerate(parts))
        return *(x.detach() for x in parts), *torch.autograd.grad(total, leaves)

    torch.testing.assert_close(outputs_and_gradients(make(dense)), outputs_and_gradients(Moments(dense)))


@pytest.mark.parametrize("point_input", [True, False])
@pytest.mark.parametrize("replicas", [(), (2,)], ids=str)
def test_linear_gradients(replicas, point_input):
    a = random_moments(*replicas, 3, 4, point=point_input)
    W, b = random_moments(*replicas, 2, 4, seed=1), random_moments(*replicas, 2, seed=2)
    leaves = tuple(x.requires_grad_() for pair in (a, W, b) for x in pair if x is not None)

    def call(*tensors):
        tensors = list(tensors)
        a = Moments(tensors.pop(0), None if point_input else tensors.pop(0))
        return tuple(maps.linear(a, Moments(*tensors[:2]), Moments(*tensors[2:])))

    assert torch.autograd.gradcheck(call, leaves)


def test_linear_explains_bad_arguments():
    W, b = random_moments(6, 5), random_moments(6)
    with pytest.raises(ValueError, match=r"linear expects .*features, got .*\(6, 5\).*\(4, 3\)"):
        maps.linear(random_moments(4, 3), W, b)
    with pytest.raises(TypeError, match=r"linear expects npn\.Moments.*got Tensor"):
        maps.linear(torch.zeros(4, 5), W, b)
    with pytest.raises(TypeError, match=r"linear expects npn\.Moments.*got Tensor"):
        maps.linear(random_moments(4, 5), torch.zeros(6, 5), b)
    with pytest.raises(TypeError, match=r"linear expects floating-point moments, got torch\.int64"):
        maps.linear(Moments(torch.zeros(4, 5, dtype=torch.int64)), W, b)
    with pytest.raises(ValueError, match="linear expects"):
        maps.linear(random_moments(4, 5), W, random_moments(7))


# --- dropout and product ------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.0, 0.2, 0.5, 0.9])
def test_dropout_is_the_product_with_a_scaled_coin(p):
    a = random_moments(50)
    keep = 1 - p
    out = maps.dropout(a, p)
    np.testing.assert_allclose(out.mean, a.mean, rtol=1e-12)  # inverted dropout: the coin is worth 1/(1 - p)
    second = (a.mean**2 + a.variance) / keep
    np.testing.assert_allclose(out.variance, second - a.mean**2, rtol=1e-12)


def test_dropout_agrees_with_sampling():
    generator = torch.Generator().manual_seed(0)
    a, p = Moments(torch.tensor([1.0, -0.5]), torch.tensor([0.3, 2.0])), 0.4
    x = a.mean + a.std * torch.randn(200_000, 2, generator=generator)
    x = x * (torch.rand(200_000, 2, generator=generator) > p) / (1 - p)
    out = maps.dropout(a, p)
    torch.testing.assert_close(x.mean(0), out.mean, rtol=0, atol=0.02)
    torch.testing.assert_close(x.var(0), out.variance, rtol=0.02, atol=0)


def test_dropout_of_a_point_is_uncertain_unless_nothing_is_dropped():
    x = torch.tensor([1.0, -2.0, 0.0])
    out = maps.dropout(Moments(x), 0.5)
    torch.testing.assert_close(tuple(out), (x, x**2))
    untouched = maps.dropout(Moments(x), 0.0)
    assert torch.equal(untouched.mean, x)
    assert untouched.variance is None or (untouched.variance == 0).all()


def test_product_of_independent_variables():
    a, b = random_moments(40), random_moments(40, seed=1)
    (a_m, a_s), (b_m, b_s) = as_arrays(a), as_arrays(b)
    assert_moments(maps.product(a, b), (a_m * b_m, (a_m**2 + a_s) * (b_m**2 + b_s) - a_m**2 * b_m**2))
    point = maps.product(a, Moments(b.mean))
    assert_moments(point, (a_m * b_m, a_s * b_m**2))
    assert maps.product(Moments(a.mean), Moments(b.mean)).variance is None


# --- softmax ------------------------------------------------------------------------------------------------


def test_softmax_mean_keeps_its_bounds():
    for variance, m, s in map_cases.softmax_cases():
        exact = np.stack([reference.softmax_mean(*row) for row in zip(m.astype(float), s.astype(float), strict=True)])
        p = maps.softmax_mean(Moments(torch.tensor(m), torch.tensor(s))).double().numpy()
        worst = np.abs(p - exact).max()
        assert worst <= bounds.SOFTMAX[variance], f"variance {variance}, {m.shape[1]} classes: {worst}"


@pytest.mark.parametrize("classes", [1, 2, 3, 10, 100])
def test_softmax_mean_is_a_distribution_with_finite_gradients(classes):
    generator = torch.Generator().manual_seed(classes)
    m = (5 * torch.randn(6, classes, generator=generator)).requires_grad_()
    s = (10 ** torch.linspace(-12, 4, 6)[:, None] * torch.rand(6, classes, generator=generator)).requires_grad_()
    p = maps.softmax_mean(Moments(m, s))
    torch.testing.assert_close(p.sum(-1), torch.ones(6), rtol=0, atol=2e-6)
    assert (p >= 0).all()
    weights = torch.linspace(-1, 1, classes) if classes > 1 else torch.ones(1)
    for g in torch.autograd.grad((p * weights).sum(), (m, s)):
        assert torch.isfinite(g).all()


@pytest.mark.parametrize("classes", [1, 2, 3, 10, 100])
def test_softmax_mean_without_variance_is_softmax(classes):
    m = 3 * torch.randn(5, classes, generator=torch.Generator().manual_seed(0))
    assert torch.equal(maps.softmax_mean(Moments(m)), m.softmax(-1))
    torch.testing.assert_close(maps.softmax_mean(Moments(m, torch.zeros_like(m))), m.softmax(-1), rtol=0, atol=1e-5)


def test_softmax_mean_of_two_is_a_sigmoid():
    m, s = torch.tensor([[0.3, -1.0], [4.0, 1.0]]), torch.tensor([[0.5, 1.5], [10.0, 3.0]])
    exact = reference.at("sigmoid", (m[:, 0] - m[:, 1]).double().numpy(), s.sum(1).double().numpy()).mean
    np.testing.assert_allclose(maps.softmax_mean(Moments(m, s))[:, 0], exact, atol=5e-6)


def test_softmax_mean_along_another_dimension_and_order_of_classes():
    o = random_moments(4, 5, dtype=torch.float32)
    p = maps.softmax_mean(o)
    torch.testing.assert_close(maps.softmax_mean(Moments(o.mean.T, o.variance.T), dim=0).T, p)
    torch.testing.assert_close(maps.softmax_mean(Moments(o.mean.T, o.variance.T), dim=-2).T, p)
    flipped = maps.softmax_mean(Moments(o.mean.flip(-1), o.variance.flip(-1))).flip(-1)
    torch.testing.assert_close(flipped, p, rtol=0, atol=2e-3)  # folding pairwise depends a little on the order


def test_softmax_mean_gradients():
    o = random_moments(2, 4)
    leaves = tuple(x.requires_grad_() for x in o)
    assert torch.autograd.gradcheck(lambda m, s: maps.softmax_mean(Moments(m, s)), leaves, atol=1e-5, rtol=1e-3)


def test_softmax_mean_survives_extreme_logits():
    values = torch.tensor([-1e30, -1e4, 0.0, 1e4, 1e30])
    for variance in (0.0, 1e-42, 1.0, 1e8, 1e30):
        m, s = values.clone().requires_grad_(), torch.full((5,), variance, requires_grad=True)
        p = maps.softmax_mean(Moments(m, s))
        assert torch.isfinite(p).all()
        torch.testing.assert_close(p.sum(), torch.tensor(1.0), rtol=0, atol=1e-5)
        for g in torch.autograd.grad(p[2], (m, s)):
            assert torch.isfinite(g).all()


# --- quadrature ---------------------------------------------------------------------------------------------

QUADRATURE = {"tanh": torch.tanh, "sin": torch.sin, "sigmoid": torch.sigmoid, "softplus": F.softplus, "gelu": F.gelu}


@pytest.mark.parametrize("name", QUADRATURE)
def test_quadrature_of_smooth_functions(name):
    m = torch.linspace(-4, 4, 17, dtype=torch.float64)[:, None]
    s = torch.tensor([1e-8, 1e-4, 0.01, 0.1, 0.5, 1.0], dtype=torch.float64)
    exact = reference.at(name, m.numpy(), s.numpy())
    a = maps.quadrature(QUADRATURE[name], Moments(m, s))
    np.testing.assert_allclose(a.mean, exact.mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(a.variance, exact.variance, rtol=1e-5, atol=1e-14)


def test_quadrature_of_a_kink_is_rough_but_right():
    m, s = torch.linspace(-2, 2, 9, dtype=torch.float64)[:, None], torch.tensor([0.1, 1.0, 10.0], dtype=torch.float64)
    exact = reference.at("relu", m.numpy(), s.numpy())
    a = maps.quadrature(torch.relu, Moments(m, s))
    scale = np.sqrt(s.numpy())
    assert np.all(np.abs(a.mean.numpy() - exact.mean) <= 0.01 * scale)
    assert np.all(np.abs(a.variance.numpy() - exact.variance) <= 0.02 * scale**2)


def test_quadrature_is_exact_for_polynomials_with_few_nodes():
    m, s = torch.tensor([-1.0, 0.5, 2.0], dtype=torch.float64), torch.tensor([0.5, 1.0, 3.0], dtype=torch.float64)
    a = maps.quadrature(torch.square, Moments(m, s), nodes=3)
    torch.testing.assert_close(tuple(a), (m**2 + s, 2 * s**2 + 4 * m**2 * s))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_quadrature_has_the_right_gradient_at_zero_variance(dtype):
    """d mean/ds = f''/2 and d var/ds = f'² at s = 0, where autograd through √s would give NaN."""
    m = torch.tensor([-1.0, 0.0, 0.3, 2.0], dtype=dtype, requires_grad=True)
    s = torch.zeros(4, dtype=dtype, requires_grad=True)
    exact = reference.at("tanh", m.detach().double().numpy(), np.zeros(4))
    a = maps.quadrature(torch.tanh, Moments(m, s))
    tolerance = 1e-6 if dtype == torch.float32 else 1e-7
    for moment, names in ((a.mean, ("dmean_dm", "dmean_ds")), (a.variance, ("dvar_dm", "dvar_ds"))):
        for name, g in zip(names, torch.autograd.grad(moment.sum(), (m, s), retain_graph=True), strict=True):
            np.testing.assert_allclose(g, getattr(exact, name), atol=tolerance, err_msg=name)


def test_quadrature_gradients():
    m = torch.tensor([-1.0, 0.1, 2.0], dtype=torch.float64, requires_grad=True)
    s = torch.tensor([0.01, 0.5, 2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda m, s: tuple(maps.quadrature(torch.tanh, Moments(m, s))), (m, s))


def test_quadrature_of_a_point_is_the_function():
    m = torch.tensor([-1.0, 0.5])
    a = maps.quadrature(torch.tanh, Moments(m))
    assert a.variance is None and torch.equal(a.mean, m.tanh())
