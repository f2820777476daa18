"""Masks of hidden units that are random when a network is asked, against masks that are drawn."""

import pytest
import torch
from torch.nn import functional

from torchnpn import nn
from torchnpn.moments import Moments

P = 0.4


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("training", [False, True])
def test_masked_units_have_the_moments_of_a_product_with_a_mask(training):
    """Var(x b) = E x² E b² - (E x)² for the scaled mask b, which is 1/(1-p) with probability 1-p."""
    mean, variance = torch.randn(50, generator=seeded()), torch.rand(50, generator=seeded(1))
    got = nn.MaskedUnits(P).train(training)(Moments(mean, variance))
    torch.testing.assert_close(got.mean, mean)
    torch.testing.assert_close(got.variance, (variance + mean**2) / (1 - P) - mean**2)


def test_a_network_asked_with_masks_answers_for_all_of_them():
    """Only weights of the last layer come after the masks, so mean and variance of the outputs are exact."""
    network = nn.Sequential(nn.Dropout(0.3), *nn.mlp([4, 30, 3], dropout=P, generator=seeded())).eval()
    x = torch.randn(5, 4, generator=seeded(2))
    with torch.no_grad():
        got = nn.with_masks(network)(x)
        hidden = network[2](network[1](x))
        torch.manual_seed(0)
        drawn = [hidden * functional.dropout(torch.ones_like(hidden.mean), P) for _ in range(20_000)]
        outputs = network[4](Moments(*(torch.stack(part) for part in zip(*drawn, strict=True))))
    torch.testing.assert_close(got.mean, network(x).mean)
    torch.testing.assert_close(got.mean, outputs.mean.mean(0), rtol=0.02, atol=0.02)
    torch.testing.assert_close(got.variance, outputs.variance.mean(0) + outputs.mean.var(0), rtol=0.04, atol=0.0)
    assert (got.variance > network(x).variance).all()


def test_networks_inside_a_network_are_masked_too_and_others_are_refused():
    flat = nn.mlp([4, 6, 2], dropout=P, generator=seeded()).eval()
    x = torch.randn(3, 4, generator=seeded(1))
    for a, b in zip(nn.with_masks(nn.Sequential(flat))(x), nn.with_masks(flat)(x), strict=True):
        torch.testing.assert_close(a, b)
    with pytest.raises(TypeError, match="expects a Sequential, got Linear"):
        nn.with_masks(nn.Linear(4, 2))


def test_only_sampled_dropout_after_the_first_layer_is_replaced_and_weights_are_shared():
    network = nn.Sequential(nn.Dropout(0.3), *nn.mlp([4, 6, 6, 2], dropout=P), nn.AnalyticDropout(0.1))
    masked = nn.with_masks(network)
    kinds = [type(module) for module in masked]
    assert kinds == [nn.MaskedUnits if i in (3, 6) else type(module) for i, module in enumerate(network)]
    assert [masked[i].p for i in (3, 6)] == [P, P]
    assert masked[1].weight is network[1].weight
    assert masked.training and not nn.with_masks(network.eval()).training
