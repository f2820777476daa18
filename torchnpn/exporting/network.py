"""Networks with weights that no longer change: moments of weights as constants, in forms that suit a graph.

Linear layers, and ReLU between two of them, are in float32; all other layers take and give float32, and compute in
float64: their maps are then good to 1e-7 of the exact moments, where those of float32 are good to 1e-5.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from torchnpn import nn as npn_nn
from torchnpn.moments import Moments
from torchnpn.nn import Ensemble, as_moments, leading, side_by_side

_TINY = 1e-30  # a variance that stands for zero: its root is far below the rounding of any mean


def frozen(network: nn.Module) -> nn.Module:
    """The network for prediction alone."""
    if isinstance(network, Ensemble):
        networks = [list(one.children()) for one in network]
        places = list(zip(*networks, strict=True)) if len(set(map(len, networks))) == 1 else []
        return _sequence(places) if places and all(map(_alike, places)) else _Members(network)
    if isinstance(network, nn.Sequential):
        return _sequence([(module,) for module in network])
    if isinstance(network, npn_nn.Linear | npn_nn.MeanAndNoise):
        return FrozenLinear([network])
    if isinstance(network, npn_nn.Dropout | npn_nn.InputNoise | npn_nn.Flatten):
        return network
    return InFloat64(network)


def _alike(modules: Sequence[nn.Module]) -> bool:
    """Whether modules at one place of several networks can be one: linear ones with as many outputs, or the same."""
    if all(map(_is_linear, modules)):
        return len({(type(one), one.out_features, len(one.replicas)) for one in modules}) == 1  # type: ignore[arg-type]
    return len({repr(one) for one in modules}) == 1 and not any(one.state_dict() for one in modules)


def _is_linear(module: nn.Module) -> bool:
    return isinstance(module, npn_nn.Linear | npn_nn.MeanAndNoise)


def _sequence(places: Sequence[tuple[nn.Module, ...]]) -> nn.Sequential:
    """A network of these modules, at each place those of all members."""
    linear = [False, *(_is_linear(one) for one, *_ in places), False]
    scaled = [isinstance(one, npn_nn.ReLU) and linear[i] and linear[i + 2] for i, (one, *_) in enumerate(places)]
    parts: list[nn.Module] = []
    for i, modules in enumerate(places):
        if linear[i + 1]:
            parts.append(FrozenLinear(modules, after=i > 0 and scaled[i - 1], before=any(scaled[i + 1 : i + 2])))
        else:
            parts.append(ScaledReLU() if scaled[i] else frozen(modules[0]))
    return nn.Sequential(*parts)


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
    """o_m = a_m W_mᵀ + b_m and o_s = a_m² W_sᵀ + a_s (W_s + W_m²)ᵀ + b_s.

    Replicas of a first layer, which all see the same inputs, are one product side by side. Beside a `ScaledReLU`, the
    weights hold its scales: powers of two, so that nothing is rounded.

    Args:
        layers: Linear ones, each with its replicas; a layer that takes fewer inputs gets the first of them.
        after: Whether the inputs are those of a `ScaledReLU`.
        before: Whether the outputs go to one.
    """

    def __init__(self, layers: Sequence[nn.Module], after: bool = False, before: bool = False) -> None:
        super().__init__()
        W_m, W_s, b_m, b_s = _together([_weights(layer) for layer in layers])
        given, wanted = 0.5 if after else 1.0, 2.0 if before else 1.0
        self.replicas = tuple(W_m.shape[:-2])
        self.W_m, self.b_m = (given * W_m).float(), b_m.float()
        self.W_s, self.b_s = (wanted * given**2 * W_s).float(), (wanted * b_s).float()
        self.W_second = (wanted * given**2 * (W_s + W_m * W_m)).float()

    def forward(self, a: Moments) -> Moments:
        m, s = a
        mean = self._product(m, self.W_m, self.b_m)
        variance = self._product(m * m, self.W_s, self.b_s)
        if s is not None:
            variance = variance + self._product(s, self.W_second)
        if not self.replicas or m.dim() > 2:
            return Moments(mean, variance)
        return Moments(*(x.view(-1, *self.b_m.shape).movedim(1, 0) for x in (mean, variance)))

    def _product(self, x: Tensor, W: Tensor, b: Tensor | None = None) -> Tensor:
        if self.replicas and x.dim() > 2:
            return x @ W.mT if b is None else x @ W.mT + b.unsqueeze(-2)
        return nn.functional.linear(x, W.flatten(0, -2), None if b is None else b.flatten())


def _together(members: Sequence[tuple[Tensor, ...]]) -> list[Tensor]:
    """Weights and biases of several layers, one after another; inputs that one does not take have weights of zero."""
    widest = max(one[0].shape[-1] for one in members)
    padded = [(*(nn.functional.pad(W, (0, widest - W.shape[-1])) for W in one[:2]), *one[2:]) for one in members]
    return [torch.cat(parts) if len(parts) > 1 else parts[0] for parts in zip(*padded, strict=True)]


def _weights(layer: nn.Module) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Moments of weights and biases, W_m, W_s, b_m and b_s, in float64."""
    if isinstance(layer, npn_nn.MeanAndNoise):
        both = zip(_weights(layer.mean), _weights(layer.noise), (-2, -2, -1, -1), strict=True)
        W_m, W_s, b_m, b_s = (torch.cat([mean, noise], dim) for mean, noise, dim in both)
        return W_m, W_s, b_m, b_s
    assert isinstance(layer, npn_nn.Linear)
    precise = copy.deepcopy(layer).double().eval()
    W = precise.weight.moments
    if layer.averages:
        W = W * (1 / W.mean.sum(-1, keepdim=True).clamp_min(torch.finfo(torch.float32).smallest_normal))
    none = torch.zeros(W.mean.shape[:-1], dtype=torch.float64)
    b = Moments(none, none) if precise.bias is None else precise.bias.moments
    return W.mean, W.variance, b.mean, b.variance  # type: ignore[return-value]


class ScaledReLU(nn.Module):
    """`maps.relu` in nineteen operations, for float32: from (m, 2s) to (2 a_m, 4 a_s), so that no factor is left.

    With r = √2s, g = m/r, E = erf(g) and q = e^(-g²)/√π + gE, which is |g| plus 2/r times the excess of the mean over
    max(m, 0): 2 a_m = r (q + g) and 4 a_s = r² (1 + E - (q - |g|)(q + |g|)). What cancels in q - |g| and in the last is
    1e-6 of one at most: far out in the lower tail, where the unit is all but off, the variance has no digits of its
    own, and it is kept above zero. Sums over units do not notice, and none of it is left where erf is ±1.
    """

    def forward(self, o: Moments) -> Moments:
        m, s = as_moments(o)
        assert s is not None
        floored = s.clamp_min(_TINY)
        r = floored.sqrt()
        g = m / r
        E, k = torch.erf(g), g.abs()
        q = torch.exp(-0.5 * math.log(math.pi) - g * g) + g * E
        return Moments(r * (q + g), floored * torch.relu((E + 1.0) - (q - k) * (q + k)))


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
