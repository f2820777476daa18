"""Sparse rows: their storage against scipy, and the linear layer on them against dense products in float64.

The Triton kernels run in Triton's interpreter on a CPU, and as they are on a GPU where TRITON_INTERPRET is not set.
"""

import numpy as np
import pytest
import scipy.sparse
import torch

import torchnpn as npn
from torchnpn.kernels import sparse as sparse_linear
from torchnpn.moments import Moments
from torchnpn.sparse import SparseBatch, SparseRows

ROWS, FEATURES, OUTPUTS = 30, 70, 37  # none a multiple of a tile


def matrix(density=0.2, seed=0):
    """A CSR matrix with an empty row, an empty column, a full row and a frequent column."""
    x = scipy.sparse.random(ROWS, FEATURES, density, format="lil", random_state=seed)
    x[:, 5] = np.arange(1, ROWS + 1)[:, None] / ROWS
    x[4] = np.linspace(-1, 1, FEATURES) + 0.01
    x[3], x[:, 9] = 0, 0
    return x.tocsr()


def sparse_rows(x=None, dtype=torch.float64):
    return SparseRows.from_csr(matrix() if x is None else x, dtype=dtype)


def weights(*shape, seed=1, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_()


def order_of_rows(*shape):
    return torch.randint(ROWS, shape, generator=torch.Generator().manual_seed(2))


# --- rows and batches -----------------------------------------------------------------------------------------------


def test_a_batch_holds_the_rows_that_scipy_takes():
    x, rows = matrix(), torch.tensor([3, 4, 29, 0, 4])
    batch = sparse_rows(x).take(rows)
    assert batch.shape == (5, FEATURES)
    np.testing.assert_array_equal(batch.dense(), x[rows.numpy()].toarray())
    np.testing.assert_array_equal(sparse_rows(x).all().dense(), x.toarray())


def test_every_batch_has_the_same_width():
    data = sparse_rows()
    widths = {data.take(torch.tensor([i])).columns.shape[-1] for i in range(ROWS)}
    assert widths == {data.width} and data.width >= np.diff(matrix().indptr).max()


def test_rows_of_replicas():
    x, rows = matrix(), order_of_rows(2, 3, 5)
    batch = sparse_rows(x).take(rows)
    assert batch.shape == (2, 3, 5, FEATURES)
    np.testing.assert_array_equal(batch.dense(), x.toarray()[rows.numpy()])


@pytest.mark.parametrize("ends", [(0, 1), (0, FEATURES), (5, 23), (60, FEATURES)])
def test_part_of_the_features(ends):
    batch = sparse_rows().all()
    np.testing.assert_array_equal(batch.part(*ends), matrix()[:, slice(*ends)].toarray())


def test_entries_named_twice_are_summed_and_the_matrix_is_left_alone():
    x = scipy.sparse.csr_matrix((np.array([1.0, 2.0, 4.0]), np.array([2, 2, 0]), np.array([0, 3])), shape=(1, 4))
    np.testing.assert_array_equal(sparse_rows(x).all().dense(), [[4, 0, 3, 0]])
    assert x.nnz == 3


def test_a_matrix_without_entries():
    data = sparse_rows(scipy.sparse.csr_matrix((3, 4)))
    np.testing.assert_array_equal(data.all().dense(), np.zeros((3, 4)))


@pytest.mark.parametrize(("x", "zero"), [([[0.0, 2.0], [3.0, 0.0]], True), ([[1.0, 2.0], [3.0, 4.0]], False)])
def test_distinct_values_have_a_zero_where_the_rows_do(x, zero):
    values = sparse_rows(scipy.sparse.csr_matrix(x)).distinct_values()
    assert set(values.flatten().tolist()) == set(np.ravel(x))
    assert (0 in values) == zero


# --- the products ---------------------------------------------------------------------------------------------------


def by_triton(x, W_m, W_s, log_std):
    from torchnpn.kernels.triton import sparse

    return sparse.products(x.columns, x.values, W_m, W_s, log_std)


def by_torch(x, W_m, W_s, log_std):
    return tuple(sparse_linear.gaussian_linear(x, W_m, W_s) if log_std else sparse_linear.linear(x, Moments(W_m, W_s)))


def outputs_and_gradients(outputs, W_m, W_s):
    pull = [torch.linspace(-1, 2, o.numel(), dtype=o.dtype).view(o.shape) for o in outputs]
    gradients = torch.autograd.grad(outputs, (W_m, W_s), pull)
    return [part.detach() for part in (*outputs, *gradients)]


@pytest.mark.slow
@pytest.mark.parametrize("log_std", [False, True])
@pytest.mark.parametrize(
    ("replicas", "index"), [((), (9,)), ((), (2, 9)), ((2,), (9,)), ((2,), (2, 9)), ((2, 3), (2, 3, 4))], ids=str
)
@pytest.mark.parametrize("products", [by_triton, by_torch])
def test_products_and_gradients_are_the_dense_ones(products, replicas, index, log_std):
    x = sparse_rows().take(order_of_rows(*index))
    W_m, W_s = weights(*replicas, OUTPUTS, FEATURES), weights(*replicas, OUTPUTS, FEATURES, seed=3)
    dense, variance = x.dense(), torch.exp(2 * W_s) if log_std else W_s
    want = outputs_and_gradients((dense @ W_m.mT, dense**2 @ variance.mT), W_m, W_s)
    got = outputs_and_gradients(products(x, W_m, W_s, log_std), W_m, W_s)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("products", [by_triton, by_torch])
def test_products_in_float32(products):
    x = sparse_rows(dtype=torch.float32).all()
    W_m, W_s = (weights(OUTPUTS, FEATURES, seed=seed, dtype=torch.float32) for seed in (1, 3))
    dense = x.dense().double()
    want = dense @ W_m.double().mT, dense**2 @ W_s.double().mT
    want = outputs_and_gradients(want, W_m, W_s)
    for got, exact in zip(outputs_and_gradients(products(x, W_m, W_s, False), W_m, W_s), want, strict=True):
        assert got.dtype == torch.float32
        assert (got - exact).abs().max() < 1e-6 * exact.abs().max()


@pytest.mark.slow
@pytest.mark.parametrize("products", [by_triton, by_torch])
def test_padding_may_name_any_column(products):
    x = sparse_rows().all()
    padding = torch.full((ROWS, 40), 9, dtype=torch.int32)
    wider = SparseBatch(torch.cat([padding, x.columns], -1), torch.cat([torch.zeros(ROWS, 40), x.values], -1), FEATURES)
    W = weights(OUTPUTS, FEATURES), weights(OUTPUTS, FEATURES, seed=3)
    want = outputs_and_gradients(products(x, *W, False), *W)
    torch.testing.assert_close(outputs_and_gradients(products(wider, *W, False), *W), want)


@pytest.mark.parametrize("products", [by_triton, by_torch])
def test_the_same_bits_in_every_run(products):
    x = sparse_rows(dtype=torch.float32).take(order_of_rows(15))
    W = [weights(OUTPUTS, FEATURES, seed=seed, dtype=torch.float32) for seed in (1, 3)]
    first, second = (outputs_and_gradients(products(x, *W, True), *W) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


# --- the layer ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", ["random", "point", "none"])
@pytest.mark.parametrize("point_weight", [False, True])
@pytest.mark.parametrize("replicas", [(), (2,)], ids=str)
def test_linear_with_a_bias(replicas, point_weight, bias):
    x = sparse_rows().take(order_of_rows(9))
    W = Moments(weights(*replicas, 6, FEATURES), None if point_weight else weights(*replicas, 6, FEATURES) ** 2)
    b = Moments(weights(*replicas, 6), weights(*replicas, 6) ** 2 if bias == "random" else None)
    o = sparse_linear.linear(x, W, None if bias == "none" else b)
    dense = x.dense()
    mean, variance = dense @ W.mean.mT, None if point_weight else dense**2 @ W.variance.mT
    if bias != "none":
        mean = mean + b.mean.unsqueeze(-2)
    if bias == "random":
        variance = b.variance.unsqueeze(-2) + (0 if variance is None else variance)
    torch.testing.assert_close(o.mean, mean)
    if variance is None:
        assert o.variance is None
    else:
        torch.testing.assert_close(*torch.broadcast_tensors(o.variance, variance))


def test_linear_explains_shapes_that_do_not_fit():
    x = sparse_rows().take(order_of_rows(9))
    with pytest.raises(ValueError, match=r"linear expects .*in features, got .*\(6, 5\).*\(9, 70\)"):
        sparse_linear.linear(x, Moments(weights(6, 5)))
    with pytest.raises(ValueError, match=r"bias for each of the 6 out features, got .*\(7,\)"):
        sparse_linear.linear(x, Moments(weights(6, FEATURES)), Moments(weights(7)))


@pytest.mark.parametrize("replicas", [(), (2,)], ids=str)
def test_a_network_takes_a_batch_of_sparse_rows(replicas):
    x = sparse_rows(dtype=torch.float32).take(order_of_rows(9))
    network = npn.nn.mlp([FEATURES, 5, 3], replicas=replicas, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(tuple(network(x)), tuple(network(x.dense())))
