"""The moments of any element-wise function of a Gaussian variable, by quadrature: a reference and a fall-back."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from torchnpn.finite import cast, entering, saturated
from torchnpn.maps import rules
from torchnpn.maps.elementwise import Pair, check_moments
from torchnpn.moments import Moments, check_variance

_LARGEST_ROOT = 1e153  # squares of such numbers can still be added up
_SMALLEST_STD = 1e-4  # below it gradients are taken at this standard deviation: there they still have their digits


def quadrature(f: Callable[[Tensor], Tensor], o: Moments, nodes: int = 64) -> Moments:
    """Moments of f(x) for Gaussian x by Gauss-Hermite quadrature in float64: a_m = Σ w_i f(m + √s z_i), a_s likewise.

    Accurate where f is smooth on the scale of √s. Gradients reach m, s and whatever parameters f has; at s = 0 they are
    the right ones, E f'' / 2 included. Where f or the result overflows, the largest number of the type is given, and a
    gradient of f that is NaN there, such as exp's inf · 0, counts as zero.

    Args:
        f: Any element-wise function of a tensor.
        o: Moments of x.
        nodes: Number of evaluations of f.
    """
    check_moments("quadrature", o)
    check_variance("quadrature", o)
    if o.variance is None:
        return Moments(saturated(f(entering(o.mean))))
    rule = rules.hermite(nodes)
    m, s = (entering(cast(part, torch.float64)) for part in (o.mean, o.variance))
    with torch.no_grad():
        exact = _moments(f, m, s.sqrt(), rule)
    lift = (s.clamp_min(_SMALLEST_STD**2) - s).detach()
    smooth = _moments(f, m, (s + lift).sqrt(), rule)  # carries the gradient, and only that
    mean, variance = (value + (carrier - carrier.detach()) for value, carrier in zip(exact, smooth, strict=True))
    return Moments(cast(mean, o.mean.dtype), cast(variance, o.mean.dtype))


def _moments(f: Callable[[Tensor], Tensor], m: Tensor, std: Tensor, rule: rules.Rule) -> Pair:
    """The mean, and the variance about the node at the centre; a variance that overflows is the largest number."""
    largest = torch.finfo(m.dtype).max / 2  # of f, so that differences are finite
    m, std = entering(m), entering(std)

    def value(x: Tensor) -> Tensor:
        return f(entering(saturated(x))).clamp(-largest, largest)

    centre = value(m)

    def along(z: Tensor, w: Tensor) -> Pair:
        d = value(m + z * std) - centre
        root = math.sqrt(w) * d if isinstance(w, float) else w.sqrt() * d
        return w * d, root.clamp(-_LARGEST_ROOT, _LARGEST_ROOT) ** 2

    first, second = rules.total(along, rule, m)
    variance = second - torch.minimum(second, first.clamp(-_LARGEST_ROOT, _LARGEST_ROOT) ** 2)
    return centre + first, torch.where(second >= _LARGEST_ROOT**2, torch.finfo(m.dtype).max, variance)
