"""Many outputs: the loss in parts is the loss, sparse targets are the dense ones, and memory stays small."""

import numpy as np
import pytest
import scipy.sparse
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader

import torchnpn as npn
from torchnpn import likelihoods, nn
from torchnpn.moments import Moments
from torchnpn.sparse import SparseBatch, SparseRows
from torchnpn.training import Recipe, train
from torchnpn.training.data import Batch, Rows, as_batches
from torchnpn.training.wide import WIDE, is_wide, row_loss, weighted_loss, wide_loss

BATCH, INPUTS, OUTPUTS = 6, 5, 37
COUNTS = scipy.sparse.csr_matrix(np.random.default_rng(0).poisson(0.4, (BATCH, OUTPUTS)).astype(float))
AMOUNTS = scipy.sparse.csr_matrix(np.random.default_rng(1).uniform(0.1, 0.9, (BATCH, OUTPUTS)))

CASES = {  # targets, and the likelihood for so many of them
    "noise": (COUNTS, lambda replicas: likelihoods.GaussianNoise(replicas=replicas)),
    "noises": (COUNTS, lambda replicas: likelihoods.GaussianNoise(OUTPUTS, replicas=replicas)),
    "counts": (COUNTS, lambda replicas: likelihoods.PoissonCounts(elbo=0.5)),
    "dispersed counts": (COUNTS, lambda replicas: likelihoods.NegativeBinomialCounts(OUTPUTS, replicas=replicas)),
    "amounts": (AMOUNTS, lambda replicas: likelihoods.GammaAmounts(OUTPUTS, elbo=0.5, replicas=replicas)),
    "proportions": (AMOUNTS, lambda replicas: likelihoods.BetaProportions(replicas=replicas)),
    "squares": (COUNTS, lambda replicas: likelihoods.SquaredError()),
    "paper": (COUNTS, lambda replicas: likelihoods.KLToTarget(0.1)),
    "direct": (COUNTS, lambda replicas: likelihoods.Direct("gaussian")),
}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def layer_input(replicas=(), random=True):
    mean = torch.randn(*replicas, BATCH, INPUTS, generator=generator(), dtype=torch.float64)
    variance = torch.rand(mean.shape, generator=generator(1), dtype=torch.float64) if random else None
    return Moments(*(None if part is None else part.requires_grad_() for part in (mean, variance)))


def sparse(y):
    return SparseRows.from_csr(y, dtype=torch.float64).all()


def shares(layer):
    """A different one for each row."""
    return torch.linspace(-1, 2, BATCH * (layer.replicas or (1,))[0], dtype=torch.float64).view(*layer.replicas, BATCH)


def whole(a, layer, likelihood, y):
    """Rows, total and gradients by autograd."""
    leaves = [part for part in (*a, *layer.parameters(), *likelihood.parameters()) if part is not None]
    rows = likelihood.loss(layer(a), y)
    total = (rows * shares(layer)).sum()
    return [rows.detach(), total.detach(), *torch.autograd.grad(total, leaves)]


def in_parts(a, layer, likelihood, y, chunk):
    leaves = [part for part in (*a, *layer.parameters(), *likelihood.parameters()) if part is not None]
    total, rows = wide_loss(a, layer, likelihood, y, shares(layer), chunk)
    return [rows, total.detach(), *torch.autograd.grad(total, leaves)]


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1, 8, OUTPUTS - 1, OUTPUTS])
@pytest.mark.parametrize("replicas", [(), (2,)], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_the_parts_make_up_the_loss_and_its_gradients(case, replicas, chunk):
    y, make = CASES[case]
    likelihood, a = make(replicas).double(), layer_input(replicas)
    layer = nn.Linear(INPUTS, OUTPUTS, replicas=replicas, generator=generator()).double()
    dense = torch.tensor(y.toarray())
    want = whole(a, layer, likelihood, dense)
    for targets in (dense, sparse(y)):
        torch.testing.assert_close(in_parts(a, layer, likelihood, targets, chunk), want)


@pytest.mark.parametrize("family", ["gaussian", "gamma", "beta", "poisson", "rayleigh"])
@pytest.mark.parametrize("random", [True, False])
def test_weights_of_any_family(family, random):
    likelihood, a = likelihoods.GaussianNoise().double(), layer_input(random=random)
    layer = nn.Linear(INPUTS, OUTPUTS, family=family, generator=generator()).double()
    y = torch.tensor(COUNTS.toarray())
    torch.testing.assert_close(in_parts(a, layer, likelihood, y, 10), whole(a, layer, likelihood, y))


def test_an_input_shared_by_replicas_and_targets_of_their_own():
    layer = nn.Linear(INPUTS, OUTPUTS, replicas=(2,), generator=generator()).double()
    likelihood, a = likelihoods.GaussianNoise(replicas=(2,)).double(), layer_input()
    y = SparseRows.from_csr(COUNTS, dtype=torch.float64).take(torch.tensor([[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0]]))
    torch.testing.assert_close(in_parts(a, layer, likelihood, y, 10), whole(a, layer, likelihood, y.dense()))


def test_the_gradient_scales_with_what_comes_from_above():
    layer, likelihood = nn.Linear(INPUTS, OUTPUTS, generator=generator()).double(), likelihoods.SquaredError()
    a, y, share = layer_input(), torch.tensor(COUNTS.toarray()), torch.ones(BATCH)
    gradients = [
        torch.autograd.grad(factor * wide_loss(a, layer, likelihood, y, share, 8).total, a)[0] for factor in (1, -3)
    ]
    torch.testing.assert_close(gradients[1], -3 * gradients[0])


def test_a_second_backward_pass_is_refused():
    layer, a, y = nn.Linear(INPUTS, OUTPUTS).double(), layer_input(), torch.tensor(COUNTS.toarray())
    total, _ = wide_loss(a, layer, likelihoods.SquaredError(), y, torch.ones(BATCH), chunk=8)
    total.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="one backward pass"):
        total.backward()


def test_frozen_parameters_get_no_gradient():
    layer = nn.Linear(INPUTS, OUTPUTS, generator=generator()).double()
    layer.weight.requires_grad_(False)
    likelihood, a = likelihoods.GaussianNoise().double(), Moments(*(part.detach() for part in layer_input()))
    y, share = torch.tensor(COUNTS.toarray()), torch.linspace(0, 1, BATCH)
    wide_loss(a, layer, likelihood, y, share, chunk=8).total.backward()
    assert all(p.grad is None for p in layer.weight.parameters())
    learnt = [*layer.bias.parameters(), *likelihood.parameters()]
    want = torch.autograd.grad((likelihood.loss(layer(a), y) * share).sum(), learnt)
    torch.testing.assert_close([p.grad for p in learnt], list(want))


class LargestTensor(TorchDispatchMode):
    """Numbers in the largest tensor that any operation gives."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        out = function(*arguments, **(keywords or {}))
        tensors = torch.utils._pytree.tree_leaves(out)
        self.numbers = max([self.numbers, *(t.numel() for t in tensors if isinstance(t, torch.Tensor))])
        return out


def test_no_tensor_is_as_large_as_batch_times_outputs():
    batch, outputs, chunk = 200, 5_000, 300
    layer, likelihood = nn.Linear(3, outputs, generator=generator()), likelihoods.GaussianNoise(outputs)
    a = Moments(torch.randn(batch, 3, generator=generator()).requires_grad_(), torch.ones(batch, 3))
    y = SparseRows.from_csr(scipy.sparse.random(batch, outputs, 0.002, format="csr", random_state=0)).all()
    with LargestTensor() as largest:
        wide_loss(a, layer, likelihood, y, torch.ones(batch), chunk).total.backward()
    assert largest.numbers == batch * chunk  # the weights are smaller: 5,000 × 3


# --- which networks, and training -----------------------------------------------------------------------------------


def network(outputs, inputs=8, hidden=3, activation="tanh"):
    return nn.mlp([inputs, hidden, outputs], activation=activation, generator=generator())


@pytest.mark.parametrize(
    ("model", "likelihood", "targets", "expected"),
    [
        (network(WIDE), likelihoods.GaussianNoise(), WIDE, True),
        (network(WIDE), likelihoods.NegativeBinomialCounts(), WIDE, True),
        (network(WIDE - 1), likelihoods.GaussianNoise(), WIDE - 1, False),
        (network(2 * WIDE), likelihoods.HeteroscedasticGaussian(WIDE), WIDE, False),
        (nn.Sequential(*network(WIDE), nn.Sigmoid()), likelihoods.GaussianNoise(), WIDE, False),
        (nn.Sequential(nn.Linear(8, WIDE)), likelihoods.GaussianNoise(), WIDE, False),
        (torch.nn.Sequential(*network(WIDE)), likelihoods.GaussianNoise(), WIDE, False),
    ],
)
def test_wide_networks_with_sums_for_losses_are_taken(model, likelihood, targets, expected):
    batch = Batch(torch.zeros(2, 8), torch.zeros(2, targets), None)
    assert is_wide(model, likelihood, batch) is expected


def test_labels_of_many_classes_are_not_taken():
    labels = torch.zeros(WIDE, dtype=torch.int64)  # as many rows as classes
    assert not is_wide(network(WIDE), likelihoods.Sigmoids(WIDE), Batch(torch.zeros(WIDE, 8), labels, None))


@pytest.mark.parametrize("outputs", [20, WIDE + 5])
def test_losses_of_networks(outputs):
    model, likelihood = network(outputs), likelihoods.GaussianNoise()
    y = scipy.sparse.random(4, outputs, 0.1, format="csr", random_state=0, dtype=np.float32)
    x = torch.randn(4, 8, generator=generator())
    want = likelihood.loss(model(x), torch.tensor(y.toarray()))
    share = torch.linspace(0, 1, 4)
    for targets in (torch.tensor(y.toarray()), SparseRows.from_csr(y).all()):
        batch = Batch(x, targets, None)
        torch.testing.assert_close(row_loss(model, likelihood, batch), want)
        torch.testing.assert_close(tuple(weighted_loss(model, likelihood, batch, share)), ((want * share).sum(), want))


def test_batches_of_sparse_targets():
    x, y, weight = np.arange(BATCH * 2.0).reshape(BATCH, 2), COUNTS, np.arange(1.0, BATCH + 1)
    order = torch.tensor([5, 1, 0, 2, 4, 3])
    batches = list(Rows(x, y, weight).batches(4, order))
    assert [len(batch.x) for batch in batches] == [4, 2]
    for batch, rows in zip(batches, order.split(4), strict=True):
        assert isinstance(batch.y, SparseBatch)
        np.testing.assert_array_equal(batch.y.dense(), y[rows.numpy()].toarray())
        np.testing.assert_array_equal(batch.x, x[rows.numpy()])
        np.testing.assert_array_equal(batch.weight, weight[rows.numpy()])


def test_a_loader_may_give_sparse_targets():
    data = [(np.ones(2), COUNTS[i]) for i in range(BATCH)]
    loader = DataLoader(
        data,
        batch_size=4,
        collate_fn=lambda rows: (np.stack([x for x, _ in rows]), scipy.sparse.vstack([y for _, y in rows])),
    )
    parts = [batch.y.dense() for batch in as_batches(loader, None).batches(4)]
    np.testing.assert_array_equal(torch.cat(parts), COUNTS.toarray())


@pytest.mark.parametrize("outputs", [12, WIDE])
@pytest.mark.parametrize("activation", ["relu", "tanh"])  # small networks with ReLU go a way of their own
def test_training_on_sparse_targets_equals_training_on_dense_ones(outputs, activation):
    x = scipy.sparse.random(20, 8, 0.5, format="csr", random_state=0, dtype=np.float32)
    y = scipy.sparse.random(20, outputs, 0.02, format="csr", random_state=1, dtype=np.float32)
    recipe = Recipe(epochs=2, batch_size=8)
    trained = []
    for targets in (y, y.toarray()):
        model, likelihood = network(outputs, activation=activation), likelihoods.GaussianNoise()
        history = train(
            model, (x, targets), likelihood, npn.priors.IsotropicGaussian(1.0), recipe, validation=(x, targets)
        )
        trained.append([torch.tensor([e.loss for e in history.epochs]), *model.parameters(), *likelihood.parameters()])
    torch.testing.assert_close(*trained, rtol=1e-4, atol=1e-6)


ZEROS_AND = {value: scipy.sparse.csr_matrix([[0.0, value], [1.0, 0.0]]) for value in (-1.0, 0.5, np.nan)}


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (likelihoods.PoissonCounts(), ZEROS_AND[-1.0], r"counts 0, 1, 2, …, got -1"),
        (likelihoods.PoissonCounts(), ZEROS_AND[0.5], r"counts 0, 1, 2, …, got 0.5"),
        (likelihoods.GammaAmounts(), ZEROS_AND[0.5], r"> 0, got 0"),  # the zeros are what is wrong
        (likelihoods.GaussianNoise(), ZEROS_AND[np.nan], r"finite targets, got nan"),
    ],
)
def test_values_of_sparse_targets_are_checked(likelihood, y, message):
    with pytest.raises(ValueError, match=message):
        train(network(2, inputs=3), (np.ones((2, 3)), y), likelihood, recipe=Recipe(epochs=1))


def test_sparse_targets_without_a_zero_are_positive():
    y = scipy.sparse.csr_matrix([[2.0, 1.0], [1.0, 3.0]])
    history = train(network(2, inputs=3), (np.ones((2, 3)), y), likelihoods.GammaAmounts(), recipe=Recipe(epochs=1))
    assert np.isfinite(history.epochs[0].loss)
