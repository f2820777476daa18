"""Networks with weights that no longer change: moments of weights as constants, in forms that suit a graph.

Linear layers and ReLU are in float32; all other layers take and give float32, and compute in float64: their maps are
then good to 1e-7 of the exact moments, where those of float32 are good to 1e-5.
"""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from torchnpn import nn as npn_nn
from torchnpn.moments import Moments
from torchnpn.nn import Ensemble, as_moments, leading, side_by_side

_TINY = 1e-30  # a variance that stands for zero: its root is far below the rounding of any mean


def frozen(network: nn.Module) -> nn.Module:
    """The network for prediction alone."""
    if isinstance(network, Ensemble):
        return _Members(network)
    if isinstance(network, nn.Sequential):
        *modules, last = map(frozen, network)
        return nn.Sequential(*modules, InFloat64(npn_nn.ReLU()) if isinstance(last, GraphReLU) else last)
    if isinstance(network, npn_nn.MeanAndNoise):
        return FrozenLinear(network.mean, network.noise)
    if isinstance(network, npn_nn.Linear):
        return FrozenLinear(network)
    if isinstance(network, npn_nn.ReLU):
        return GraphReLU()
    if isinstance(network, npn_nn.Dropout | npn_nn.InputNoise | npn_nn.Flatten):
        return network
    return InFloat64(network)


class _Members(nn.Module):
    """As `Ensemble`."""

    def __init__(self, networks: Ensemble) -> None:
        super().__init__()
        self.sizes = [network[0].in_features for network in networks]  # type: ignore[index]
        self.networks = nn.ModuleList(frozen(network) for network in networks)

    def forward(self, a: Moments) -> Moments:
        given = zip(self.sizes, self.networks, strict=True)
        return side_by_side([network(leading(a, size)) for size, network in given])


class FrozenLinear(nn.Module):
    """o_m = a_m W_mᵀ + b_m and o_s = a_m² W_sᵀ + a_s (W_s + W_m²)ᵀ + b_s, of one layer or of two on the same inputs.

    Replicas of a first layer, which all see the same inputs, are one product side by side.
    """

    def __init__(self, *layers: npn_nn.Linear) -> None:
        super().__init__()
        means, variances, b_means, b_variances = [], [], [], []
        for layer in layers:
            W, b = _weights(layer)
            means.append(W.mean)
            variances.append(W.variance)
            b_means.append(b.mean)
            b_variances.append(b.variance)
        W_m, W_s = torch.cat(means, -2), torch.cat(variances, -2)  # type: ignore[arg-type]  # (*replicas, out, in)
        self.replicas = tuple(W_m.shape[:-2])
        self.W_m, self.W_s, self.W_second = (w.float() for w in (W_m, W_s, W_s + W_m * W_m))
        self.b_m, self.b_s = (torch.cat(b, -1).float().unsqueeze(-2) for b in (b_means, b_variances))  # type: ignore[arg-type]

    def forward(self, a: Moments) -> Moments:
        m, s = a
        mean = self._product(m, self.W_m) + self.b_m
        variance = self._product(m * m, self.W_s) + self.b_s
        if s is not None:
            variance = variance + self._product(s, self.W_second)
        return Moments(mean, variance)

    def _product(self, x: Tensor, W: Tensor) -> Tensor:
        if not self.replicas or x.dim() > 2:
            return x @ W.mT
        (count,), out = self.replicas, W.shape[-2]
        return (x @ W.reshape(count * out, -1).T).view(-1, count, out).movedim(1, 0)


def _weights(layer: npn_nn.Linear) -> tuple[Moments, Moments]:
    """Moments of weights and biases, in float64."""
    precise = copy.deepcopy(layer).double().eval()
    W = precise.weight.moments
    if layer.averages:
        W = W * (1 / W.mean.sum(-1, keepdim=True).clamp_min(torch.finfo(torch.float32).smallest_normal))
    if precise.bias is not None:
        return W, precise.bias.moments
    none = torch.zeros(W.mean.shape[:-1], dtype=torch.float64)
    return W, Moments(none, none)


class GraphReLU(nn.Module):
    """`maps.relu` in two dozen operations, for float32.

    With h = m/√s, k = |h|, Q = Φ(-k) and the excess u = φ(k) - k Q ≥ 0, the mean is max(m, 0) + √s u and the variance
    s (Φ(h) - u (k + u)). What cancels in u and in the second is 1e-7 of one at most: far out in the lower tail, where
    the unit is all but off, the variance has no digits of its own, and it is kept above zero. Sums over units do not
    notice; a ReLU that ends a network is the map itself.
    """

    def forward(self, o: Moments | Tensor) -> Moments:
        m, s = as_moments(o)
        if s is None:
            return Moments(torch.relu(m))
        floored = s.clamp_min(_TINY)
        std = floored.sqrt()
        h = m / std
        k = h.abs()
        half = 0.5 * torch.erf(h * math.sqrt(0.5))
        pdf = torch.exp(h * h * -0.5) * (1 / math.sqrt(2 * math.pi))
        u = torch.relu(pdf - k * (0.5 - half.abs()))
        spread = torch.relu(half + 0.5 - u * (k + u))
        return Moments(torch.relu(m) + std * u, s * spread)


class InFloat64(nn.Module):
    """Another module, with moments in float64 in between."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = copy.deepcopy(module).double().eval()

    def forward(self, o: Moments | Tensor) -> Moments:
        a: Moments = self.module(o if isinstance(o, Tensor) else _in(torch.float64, o))
        return _in(torch.float32, a)


def _in(dtype: torch.dtype, x: Moments) -> Moments:
    return Moments(x.mean.to(dtype), None if x.variance is None else x.variance.to(dtype))
