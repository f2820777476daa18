"""Where the weights of an autoencoder of words start: sums of unit size in every layer, each word at its mean."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from torchnpn._torch import standard_gamma
from torchnpn.documents.counts import Counts
from torchnpn.documents.layers import as_words
from torchnpn.moments import Moments
from torchnpn.nn import Linear, Sequential

_SAMPLE = 256  # documents that say how large the sums of positive weights are
_SPARSE_SHAPE = 0.1  # of the gamma from which positive weights are drawn: few large ones, many near zero
_LEAST = 1e-3  # of the mean, so that every weight has a logarithm that learning can move
_BIAS_SHARE = 0.5  # of a word's mean that its output's bias gives, where there is one


def linear_layers(network: nn.Module) -> list[Linear]:
    """The linear layers, in order."""
    return [module for module in network.modules() if isinstance(module, Linear)]


@torch.no_grad()
def start_gaussian_(
    network: Sequential, x: Counts, output_means: NDArray[Any], variance: float, generator: torch.Generator
) -> None:
    """Means N(0, 1/n) and variances `variance`/n, n the inputs of a unit; in the first layer n = E Σ x², because most
    words of a document are absent. Output biases start at `output_means`.
    """
    for number, layer in enumerate(linear_layers(network)):
        n = max(float((x.data**2).sum() / x.shape[0]), 1e-3) if number == 0 else layer.in_features
        mean, log_std = layer.weight.free
        mean.copy_(torch.randn(mean.shape, generator=generator) / math.sqrt(n))
        log_std.fill_(0.5 * math.log(variance / n))
        if layer.bias is not None:
            layer.bias.free[1].fill_(0.5 * math.log(variance / layer.in_features))
    if layer.bias is not None:
        layer.bias.free[0].copy_(torch.from_numpy(output_means))


@torch.no_grad()
def start_positive_(
    network: Sequential, x: Counts, output_means: NDArray[Any], variance: float, generator: torch.Generator
) -> None:
    """Sparse draws in the encoder, their transposes in the decoder, all scaled on a sample of documents: sums of mean
    one in hidden layers, `output_means` in the last. The variance is `variance` · mean².
    """
    layers = linear_layers(network)
    draws: list[Tensor] = []
    network.eval()
    a: Any = as_words(x[np.random.default_rng(0).permutation(x.shape[0])[:_SAMPLE]])
    for module in network:
        if isinstance(module, Linear):
            number = layers.index(module)
            mirrored = number >= len(layers) // 2
            draws.append(draws[len(layers) - 1 - number].mT if mirrored else _sparse_draw(module, generator))
            last = number == len(layers) - 1
            _scale_(module, draws[-1], _sums(a, draws[-1]), output_means if last else None, variance)
        a = module(a)
    network.train()


def _sparse_draw(layer: Linear, generator: torch.Generator) -> Tensor:
    shape = (layer.out_features, layer.in_features)
    drawn = standard_gamma(torch.full(shape, _SPARSE_SHAPE), generator) / _SPARSE_SHAPE
    return drawn + _LEAST


def _sums(a: Any, weight: Tensor) -> Tensor:  # (out,)
    """Σ w a for every unit, the mean over documents."""
    if isinstance(a, Moments):
        mean = a.mean.mean(0)
    else:
        mean = torch.zeros(a.features).scatter_add_(0, a.columns.flatten().long(), a.values.flatten())
        mean /= len(a.values)
    return weight @ mean


def _scale_(layer: Linear, draw: Tensor, sums: Tensor, output_means: NDArray[Any] | None, variance: float) -> None:
    """Write a draw into a layer, scaled to what its sums should be."""
    share = _BIAS_SHARE if layer.bias is not None else 0.0
    if output_means is None:
        target, each = torch.ones(()), sums.mean().expand_as(sums)
    else:
        target, each = torch.from_numpy(output_means).float(), sums
    factor = (1 - share) * target / each.clamp_min(1e-6)
    layer.weight.free[0].copy_((draw * factor.unsqueeze(-1)).log())
    layer.weight.free[1].fill_(0.5 * math.log(variance))
    if layer.bias is not None:
        layer.bias.free[0].copy_((share * target).log().expand_as(layer.bias.free[0]))
        layer.bias.free[1].fill_(0.5 * math.log(variance))
