"""Whole networks under torch's transforms: the fused kernels step aside, and the numbers stay the same."""

from __future__ import annotations

import pytest
import torch

import torchnpn as npn

PRIORS = [npn.priors.IsotropicGaussian(2.0), npn.priors.EmpiricalBayes()]
HEAD = npn.likelihoods.ScaledSoftmax(3)
torchs_own_warnings = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
each_prior = pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: type(prior).__name__)


class Divergence(torch.nn.Module):
    """`npn.kl` as a module, so that `functional_call` can replace the weights."""

    def __init__(self, net, prior):
        super().__init__()
        self.net, self.prior = net, prior

    def forward(self):
        return npn.kl(self.net, self.prior)


@pytest.fixture
def net():
    return npn.nn.mlp([5, 7, 3], generator=torch.Generator().manual_seed(0))


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(4, 5, generator=generator), torch.randint(3, (4,), generator=generator)


def test_gradients_row_by_row(net, batch):
    x, y = batch
    weights = dict(net.named_parameters())

    def loss(weights, x, y):
        return HEAD.loss(torch.func.functional_call(net, weights, (x[None],)), y[None]).sum()

    rows = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(weights, x, y)
    total = torch.autograd.grad(HEAD.loss(net(x), y).sum(), list(weights.values()))
    for row, whole in zip(rows.values(), total, strict=True):
        torch.testing.assert_close(row.sum(0), whole, rtol=1e-5, atol=1e-6)


@each_prior
def test_divergence_of_replaced_weights(net, prior):
    weights = dict(net.named_parameters())
    replaced = {f"net.{name}": value for name, value in weights.items()}
    got = torch.func.grad(lambda w: torch.func.functional_call(Divergence(net, prior), w, ()))(replaced)
    want = torch.autograd.grad(npn.kl(net, prior), list(weights.values()))
    for a, b in zip(got.values(), want, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.slow
@torchs_own_warnings
@each_prior
def test_objective_compiles_whole(net, batch, prior):
    x, y = batch

    def objective(x):
        return HEAD.loss(net(x), y).mean() + 1e-3 * npn.kl(net, prior)

    compiled = torch.compile(objective, fullgraph=True, backend="aot_eager")
    weights = list(net.parameters())
    torch.testing.assert_close(compiled(x), objective(x))
    pairs = zip(torch.autograd.grad(compiled(x), weights), torch.autograd.grad(objective(x), weights), strict=True)
    for a, b in pairs:
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_two_passes_before_one_backward(net, batch):
    """Layers write their variances into the same memory at each pass; the first pass must not mind."""
    x, _ = batch
    weights = list(net.parameters())
    first, second = net(x), net(2 * x)
    together = torch.autograd.grad(first.variance.sum() + second.variance.sum(), weights)
    apart = [torch.autograd.grad(net(scale * x).variance.sum(), weights) for scale in (1, 2)]
    for a, b, c in zip(together, *apart, strict=True):
        torch.testing.assert_close(a, b + c)


@pytest.mark.slow
@torchs_own_warnings
def test_softmax_mean_compiles():
    """The longest graph of all maps: a recursion over pairs of classes, each of them two maps."""
    generator = torch.Generator().manual_seed(0)
    m, s, weight = (torch.rand(6, 3, generator=generator) for _ in range(3))
    m.requires_grad_()
    s.requires_grad_()

    def scored(m, s):
        return (npn.maps.softmax_mean(npn.Moments(m, s)) * weight).sum()

    compiled = torch.compile(scored, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(m, s), scored(m, s))
    pairs = zip(torch.autograd.grad(compiled(m, s), (m, s)), torch.autograd.grad(scored(m, s), (m, s)), strict=True)
    for a, b in pairs:
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
