"""Probabilistic back-propagation: moments by quadrature, sampling, torch's tape; conjugate precisions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from npn_studies.baselines import ProbabilisticBackprop, Settings
from npn_studies.baselines.filtering import Posterior, absorb
from npn_studies.baselines.precision_factors import PriorFactors, gamma_update
from npn_studies.baselines.probabilistic_backprop import output
from scipy import integrate, stats


def one_weight(m, v, shape=6.0, rate=6.0):
    """A network without hidden layers whose bias is known: o = (w x + b) / √2 with b = 0."""
    tensor = lambda *values: torch.tensor([[values]], dtype=torch.float64)
    return Posterior([tensor(m, 0.0)], [tensor(v, 0.0)], *(torch.tensor([[g]]).double() for g in (shape, rate)))


def test_absorbing_a_row_gives_the_posterior_moments_of_a_weight():
    """One weight, Gaussian evidence: the tilted distribution's moments by quadrature."""
    m, v, x, y = 0.3, 0.8, 1.4, 1.1
    noise = 6.0 / 5.0
    q = one_weight(m, v)
    absorb(q, torch.tensor([[x]]).double(), torch.tensor([[y]]).double())
    tilted = lambda w: stats.norm.pdf(w, m, math.sqrt(v)) * stats.norm.pdf(y, w * x / math.sqrt(2), math.sqrt(noise))
    z, first, second = (integrate.quad(lambda w: w**k * tilted(w), -12, 12, epsabs=1e-12)[0] for k in range(3))
    np.testing.assert_allclose(q.means[0][0, 0, 0], first / z, rtol=1e-7)
    np.testing.assert_allclose(q.variances[0][0, 0, 0], second / z - (first / z) ** 2, rtol=1e-7)
    assert q.means[0][0, 0, 1] == 0 and q.variances[0][0, 0, 1] == 0


def test_the_gamma_update_matches_the_moments_of_a_precision():
    """With the exact evidence of y ~ N(0, 1/λ), λ ~ Gamma, the posterior is a gamma distribution: (α + ½, β + y²/2)."""
    shape, rate, y = 3.0, 2.0, 0.9
    log_z = [stats.t.logpdf(y, 2 * a, scale=math.sqrt(rate / a)) for a in (shape, shape + 1, shape + 2)]
    new = gamma_update(*(torch.tensor(value, dtype=torch.float64) for value in (shape, rate, *log_z)))
    np.testing.assert_allclose([part.item() for part in new], [shape + 0.5, rate + y**2 / 2], rtol=1e-9)


def test_an_unsound_update_is_not_made():
    shape, rate, zero = torch.tensor(3.0), torch.tensor(2.0), torch.tensor(0.0)
    assert gamma_update(shape, rate, torch.tensor(-9.0), zero, zero) == (shape, rate)


def test_the_output_has_the_moments_of_a_drawn_network():
    generator = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    q = Posterior(
        [draw(30, 4), draw(1, 31)], [0.3 * draw(30, 4) ** 2, 0.3 * draw(1, 31) ** 2], *[torch.tensor([6.0])] * 2
    )
    x = draw(2, 3)
    samples, with_one = 40_000, lambda a: torch.cat([a, torch.ones_like(a[..., :1])], -1)
    first, second = (m + v.sqrt() * draw(samples, *m.shape) for m, v in zip(q.means, q.variances, strict=True))
    hidden = (with_one(x) @ first.mT / 2).relu()
    o = with_one(hidden) @ second.mT / math.sqrt(31)
    mean, variance = output(q, x)
    torch.testing.assert_close(mean, o.mean(0), rtol=0, atol=0.01)
    torch.testing.assert_close(variance, o.var(0), rtol=0.03, atol=0)


def test_refining_the_prior_shrinks_small_weights_and_learns_their_precision():
    """Weights known from the data to be near ±0.1: λ must end near 1/0.1², and the data's part stays as it was."""
    seen, width = torch.tensor([[0.1, -0.1] * 100]).double(), 1e-4
    before = 5 / 6  # precision of the first factors
    precision = 1 / width + before
    means, variances = [seen / width / precision], [torch.full_like(seen, 1 / precision)]
    factors = PriorFactors.initial(means)
    for _ in range(5):
        factors.refine(means, variances)
    learned = (factors.total_shape / factors.total_rate).item()
    expected = (6 + 100) / (6 + 0.5 * 200 * (0.1**2 + width))  # the conjugate update of Gamma(6, 6)
    np.testing.assert_allclose(learned, expected, rtol=0.05)
    np.testing.assert_allclose(means[0] / variances[0] - factors.shift.T, seen / width, rtol=1e-9)


def random_posterior(networks, sizes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    shapes = [(networks, n_out, n_in + 1) for n_in, n_out in itertools.pairwise(sizes)]
    gammas = [6 + draw(networks, 1) ** 2 for _ in range(2)]
    return Posterior([draw(*s) for s in shapes], [0.5 * draw(*s) ** 2 + 0.01 for s in shapes], *gammas), draw


def copied(q, network=slice(None)):
    take = lambda t: t[network].clone()
    return Posterior([take(m) for m in q.means], [take(v) for v in q.variances], take(q.shape), take(q.rate))


@pytest.mark.parametrize("hidden", [(), (5,), (4, 3)])
def test_the_derivatives_written_out_are_those_of_the_tape(hidden):
    """The update formula over gradients by torch, through `maps.relu`, which shares no line with `absorb`."""
    q, draw = random_posterior(3, [2, *hidden, 1])
    x, y = draw(3, 2), draw(3, 1)
    leaves = [p.clone().requires_grad_() for p in q.means + q.variances]
    half = len(q.means)
    o_m, o_s = output(Posterior(leaves[:half], leaves[half:], q.shape, q.rate), x[:, None])
    log_z = torch.distributions.Normal(o_m[:, 0], (o_s[:, 0] + q.rate / (q.shape - 1)).sqrt()).log_prob(y).sum()
    slopes = torch.autograd.grad(log_z, leaves)
    new = copied(q)
    absorb(new, x, y)
    updates = zip(q.means, q.variances, slopes[:half], slopes[half:], new.means, new.variances, strict=True)
    for m, v, by_m, by_v, new_m, new_v in updates:
        torch.testing.assert_close(new_m, m + v * by_m, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(new_v, v - v**2 * (by_m**2 - 2 * by_v), rtol=1e-9, atol=1e-12)


def test_networks_side_by_side_are_each_what_it_is_alone():
    q, draw = random_posterior(3, [2, 5, 1])
    x, y = draw(20, 3, 2), draw(20, 3, 1)

    def filtered(network):
        alone = copied(q, network)
        prior = PriorFactors.initial(alone.means)
        for _ in range(2):
            for row, target in zip(x[:, network], y[:, network], strict=True):
                absorb(alone, row, target)
            prior.refine(alone.means, alone.variances)
        return [*alone.means, *alone.variances, alone.shape, alone.rate]

    together = filtered(slice(None))
    for network in range(3):
        for alone, part in zip(filtered(slice(network, network + 1)), together, strict=True):
            torch.testing.assert_close(part[network : network + 1], alone, rtol=1e-9, atol=1e-12)


def test_a_far_row_leaves_distributions():
    q, _ = random_posterior(2, [2, 5, 1])
    absorb(q, torch.full((2, 2), 1e3).double(), torch.full((2, 1), -1e6).double())
    assert all((v > 0).all() and v.isfinite().all() for v in q.variances)
    assert all(m.isfinite().all() for m in q.means) and (q.shape > 1).all() and (q.rate > 0).all()


def test_replicas_do_not_know_each_other():
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(30, 3, generator=generator), torch.randn(30, 1, generator=generator)
    settings = Settings(hidden=(6,), epochs=2)
    one, two = (
        ProbabilisticBackprop(settings).fit(torch.stack([x, x]), torch.stack([y, other])).predict(x)
        for other in (1 - y, 3 + y)
    )
    torch.testing.assert_close(one.member_means[:, 0], two.member_means[:, 0])
    assert not torch.allclose(one.member_means[:, 1], two.member_means[:, 1])
