"""The loss of Gaussian noise as a Triton kernel against the likelihood in float64; by Triton's interpreter on a CPU."""

import pytest
import torch

from torchnpn.likelihoods import GaussianNoise
from torchnpn.moments import Moments

pytest.importorskip("triton")
BATCH, TARGETS = 3, 1030  # more than one program a row


def numbers(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def fused(m, s, y, noise, elbo):
    from torchnpn.kernels.triton import gaussian_loss

    return gaussian_loss.rows(m, s, y, noise, elbo)


@pytest.mark.slow
@pytest.mark.parametrize("elbo", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("noises", [1, TARGETS])
@pytest.mark.parametrize("replicas", [(), (2,), (2, 1)], ids=str)
@pytest.mark.parametrize("own", [True, False])
def test_losses_and_gradients_are_the_likelihoods(own, replicas, noises, elbo):
    likelihood = GaussianNoise(noises, elbo, replicas=replicas).double()
    likelihood.log_noise.data.add_(0.3 * numbers(*replicas, noises, seed=3))
    m, s = (x.requires_grad_() for x in (numbers(*replicas, BATCH, TARGETS), numbers(*replicas, BATCH, TARGETS) ** 2))
    y = numbers(*(replicas if own else ()), BATCH, TARGETS + 4, seed=2)[..., 2:-2]  # some columns of wider targets
    leaves = m, s, likelihood.log_noise
    weight = torch.linspace(-1, 2, m.shape[:-1].numel(), dtype=m.dtype).view(m.shape[:-1])
    want, got = likelihood.loss(Moments(m, s), y), fused(m, s, y, likelihood.noise, elbo)
    torch.testing.assert_close(got, want)
    gradients = (torch.autograd.grad((rows * weight).sum(), leaves) for rows in (got, want))
    torch.testing.assert_close(*gradients)


def test_float32_and_counts_as_targets():
    m, s = numbers(BATCH, TARGETS, dtype=torch.float32), numbers(BATCH, TARGETS, seed=1, dtype=torch.float32) ** 2
    y = torch.arange(BATCH * TARGETS).view(BATCH, TARGETS) % 5
    likelihood = GaussianNoise()
    got = fused(m, s, y, likelihood.noise, likelihood.elbo)
    assert got.dtype == torch.float32
    torch.testing.assert_close(
        got.double(), likelihood.double().loss(Moments(m.double(), s.double()), y), rtol=1e-5, atol=0
    )


def test_the_largest_numbers_have_finite_losses_and_gradients():
    ends = torch.tensor([0.0, 1.0, -3.4e38, 3.4e38, 1e-45, 1e19])
    m, s, y = (axis.reshape(-1, 1) for axis in torch.meshgrid(ends, ends.abs(), ends, indexing="ij"))
    likelihood = GaussianNoise()
    leaves = m.clone().requires_grad_(), s.clone().requires_grad_(), likelihood.log_noise
    rows = fused(leaves[0], leaves[1], y.contiguous(), likelihood.noise, likelihood.elbo)
    torch.testing.assert_close(rows, likelihood.loss(Moments(m, s), y))
    assert rows.sum().isfinite()
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(rows.sum(), leaves))
