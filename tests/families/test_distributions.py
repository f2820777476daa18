"""What every predicted distribution offers: the protocol `Distribution`, indexing by row, other units."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import cases

from torchnpn import families
from torchnpn.families import Distribution
from torchnpn.likelihoods import Categorical, Mixture

PROBS = torch.tensor([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
ROWS = {
    **{case.name: case.family(*(torch.full((3, 2), x) for x in case.parameters)) for case in cases.ALL},
    "broadcast": families.Gaussian(torch.arange(6.0).reshape(3, 2), torch.tensor([2.0])),
    "mixture": Mixture(families.Gamma(torch.arange(1.0, 13).reshape(2, 3, 2), torch.ones(2))),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_a_distribution(name):
    whole = ROWS[name]
    part = whole[torch.tensor([2, 0])]
    assert isinstance(part, Distribution) and type(part) is type(whole)
    assert part.batch_shape == (2, 2) and whole[1:].batch_shape == (2, 2) and whole[1].batch_shape == (2,)
    assert whole[:, 1].batch_shape == (3,)
    for what in (lambda p: p.mean, lambda p: p.variance, lambda p: p.cdf(1.0), lambda p: p.crps(1.0)):
        torch.testing.assert_close(what(part), what(whole).expand(3, 2)[[2, 0]], rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    "member",
    [
        families.Gaussian(torch.tensor(1.0), torch.tensor(4.0)),
        families.Gamma(torch.tensor(2.0), torch.tensor(3.0)),
        families.LogNormal(torch.tensor(0.5), torch.tensor(0.3)),
        Mixture(families.Gaussian(torch.tensor([0.0, 3.0]), torch.tensor([1.0, 2.0]))),
        Mixture(families.LogNormal(torch.tensor([0.0, 1.0]), torch.tensor([0.1, 0.2]))),
    ],
    ids=repr,
)
def test_other_units(member):
    """shift + scale · x: quantiles and scores change as the numbers do, densities by the scale."""
    moves = isinstance(getattr(member, "members", member), families.Gaussian)
    shift, scale = torch.tensor(-2.0 if moves else 0.0), torch.tensor(1000.0)
    other = member.scaled(shift, scale)
    y = member.quantile(0.7).float()
    z = shift + scale * y
    for found, expected in (
        (other.mean, shift + scale * member.mean),
        (other.variance, scale**2 * member.variance),
        (other.quantile(0.2), shift + scale * member.quantile(0.2)),
        (other.cdf(z), member.cdf(y)),
        (other.log_prob(z), member.log_prob(y) - torch.log(scale)),
        (other.crps(z), scale * member.crps(y)),
    ):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    if not moves:
        with pytest.raises(ValueError, match="not shifted"):
            member.scaled(torch.tensor(1.0), scale)


@pytest.mark.parametrize("member", [families.Poisson(2.0), families.Beta(1.0, 2.0), Categorical(PROBS)], ids=repr)
def test_what_has_no_other_units_says_so(member):
    """A distribution is never handed back in units other than those that were asked for."""
    zero, one = torch.zeros(()), torch.ones(())
    assert member.scaled(zero, one) is member
    for shift, scale in ((zero, 2 * one), (one, one)):
        with pytest.raises(ValueError, match="cannot be shifted or scaled"):
            member.scaled(shift, scale)


def test_classes_in_their_order():
    classes = Categorical(PROBS.double())
    assert isinstance(classes, Distribution) and classes.batch_shape == (2,)
    labels = torch.tensor([1, 2])
    np.testing.assert_allclose(classes.cdf(labels), [0.7, 1.0])
    assert classes.quantile(0.15).tolist() == [0, 1] and classes.quantile(1.0).tolist() == [2, 2]
    np.testing.assert_allclose(classes.crps(labels), [0.2**2 + 0.3**2, 0.1**2 + 0.2**2])
    draws = classes.sample(20_000, torch.Generator().manual_seed(0))
    assert draws.shape == (20_000, 2)
    np.testing.assert_allclose(torch.nn.functional.one_hot(draws).double().mean(0), PROBS, atol=0.02)
    assert torch.equal(classes[1:].probs, classes.probs[1:])
