"""log P(a < x ≤ b) of standard variables, without cancellation and with gradients."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_NARROW = 1e-5  # an interval of this width or less has its density in the middle, to ten digits
_SURELY = 30.0  # Φ of it is 1 to all digits; torch's gradient of log Φ is NaN from 38 on
_LOG_2PI = math.log(2 * math.pi)


def normal_log_mass(a: Tensor, b: Tensor) -> Tensor:
    """log (Φ(b) - Φ(a)) for a < b, from the tail that is nearer; either may be infinite."""
    above = a + b > 0
    near, far = torch.where(above, -a, b), torch.where(above, -b, a)  # P = Φ(near) - Φ(far), far < near
    near = near.clamp_max(_SURELY)
    one_sided = far.isinf()
    far = torch.where(one_sided, -near.detach().abs() - 1, far)
    width = near - far
    narrow = width * (1 + near.abs()) < _NARROW
    log_near = torch.special.log_ndtr(near)
    lost = torch.special.log_ndtr(torch.where(narrow, near - 1, far)) - log_near
    wide = log_near + torch.log1p(-torch.exp(lost))
    middle = 0.5 * (near + far)
    safe = torch.where(narrow, width, 1.0).clamp_min(torch.finfo(width.dtype).tiny)
    thin = torch.log(safe) - 0.5 * (middle * middle + _LOG_2PI)
    return torch.where(one_sided, log_near, torch.where(narrow, thin, wide))


def exponential_log_mass(a: Tensor, b: Tensor) -> Tensor:
    """log (e^-a - e^-b) = -a + log (1 - e^-(b - a)) for 0 ≤ a < b; b may be infinite."""
    one_sided = b.isinf()
    width = (torch.where(one_sided, a.detach() + 1, b) - a).clamp_min(torch.finfo(a.dtype).tiny)
    return torch.where(one_sided, -a, torch.log(-torch.expm1(-width)) - a)
