"""The moments of any element-wise function of a Gaussian variable, by quadrature: a reference and a fall-back."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from torchnpn.maps import rules
from torchnpn.maps.elementwise import Pair, check
from torchnpn.moments import Moments

_SMALLEST_STD = 1e-4  # below it gradients are taken at this standard deviation: there they still have their digits


def quadrature(f: Callable[[Tensor], Tensor], o: Moments, nodes: int = 64) -> Moments:
    """Moments of f(x) for Gaussian x by Gauss-Hermite quadrature in float64: a_m = Σ w_i f(m + √s z_i), a_s likewise.

    Accurate where f is smooth on the scale of √s. Gradients reach m, s and whatever parameters f has; at s = 0 they are
    the right ones, E f'' / 2 included.

    Args:
        f: Any element-wise function of a tensor.
        o: Moments of x.
        nodes: Number of evaluations of f.
    """
    check("quadrature", o)
    if o.variance is None:
        return Moments(f(o.mean))
    rule = rules.hermite(nodes)
    m, s = o.mean.double(), o.variance.double()
    with torch.no_grad():
        exact = _moments(f, m, s.sqrt(), rule)
    lift = (s.clamp_min(_SMALLEST_STD**2) - s).detach()
    smooth = _moments(f, m, (s + lift).sqrt(), rule)  # carries the gradient, and only that
    mean, variance = (value + (carrier - carrier.detach()) for value, carrier in zip(exact, smooth, strict=True))
    return Moments(mean.to(o.mean.dtype), variance.to(o.mean.dtype))


def _moments(f: Callable[[Tensor], Tensor], m: Tensor, std: Tensor, rule: rules.Rule) -> Pair:
    centre = f(m)

    def along(z: Tensor, w: Tensor) -> Pair:
        d = f(m + z * std) - centre
        return w * d, w * d * d

    first, second = rules.total(along, rule, m)
    return centre + first, second - first * first
