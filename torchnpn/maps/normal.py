"""The standard normal distribution: density, cdf, and the tail integrals that ReLU and its relatives are made of.

With φ the density and Q the upper tail, for k ≥ 0

    A(k) = ∫₀^∞ t exp(-kt - t²/2) dt,    B(k) = ∫₀^∞ t² exp(-kt - t²/2) dt,    Q(k) = φ(k) (B(k) + k A(k)),

so that E (Z - k)₊ = φ(k) A(k) and E (Z - k)₊² = φ(k) B(k): positive, without the differences that cancel in the
textbook forms. Both are fitted as t² p(x) and t³ p(x) with t = 1 / (1 + 0.3 k), x = 2t - 1.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torchnpn.maps.select import step

# Coefficients of p, lowest power first. float32: relative error 4.5e-7 (A), 1.2e-6 (B). float64: 2e-17, 1.3e-16.
A32 = (
    0.290681273652,
    0.377693727959,
    0.257878149523,
    0.0889432418322,
    -0.00228042843578,
    -0.0134108783604,
    -0.00151989717256,
    0.00199853268002,
    0.000241146468081,
    -0.000224420986931,
)
B32 = (
    0.287716765926,
    0.494652318927,
    0.389510819894,
    0.130671559282,
    -0.0242884205374,
    -0.0309163364916,
    0.000704979500081,
    0.00606949564988,
    1.36543096687e-5,
    -0.00081929976768,
)
A64 = (
    0.29068122150274418,
    0.37769241392804167,
    0.25787941679038539,
    0.088967761169197491,
    -0.0022813854848259314,
    -0.013533712970440519,
    -0.0015370939885776939,
    0.0022486069567286026,
    0.00027338009738759246,
    -0.00045774927238605204,
    -3.265540076069094e-6,
    9.9040642018913581e-5,
    -1.9585706838599684e-5,
    -1.8211191488221477e-5,
    9.7923534445587029e-6,
    1.432838445535327e-6,
    -2.98828275364778e-6,
    7.5275061034050808e-7,
    5.1404871786944114e-7,
    -4.4388617578550721e-7,
    3.354177180849767e-8,
    1.2915593479682118e-7,
    -5.3396875586602002e-8,
    -2.1793296193126564e-8,
    1.597576252597697e-8,
    1.6666981059694912e-9,
    -1.9102664024217204e-9,
    6.1113085846424842e-12,
)
B64 = (
    0.28771645708005898,
    0.4946508226094692,
    0.38952628520075044,
    0.13071397917196041,
    -0.024407063329033097,
    -0.031187566416186621,
    0.001033049054161068,
    0.0067273510050545008,
    -0.00041578297402082841,
    -0.0015203691872892688,
    0.00031507994582698559,
    0.00031575026990967188,
    -0.00015329223763044436,
    -4.0825717193347453e-5,
    5.3478902624529347e-5,
    -7.022028830311261e-6,
    -1.2358662335726043e-5,
    7.0294115789435451e-6,
    6.4513139775306314e-7,
    -2.5333094978348844e-6,
    9.4396155908088217e-7,
    4.7182391493173419e-7,
    -4.7632305088762536e-7,
    -2.975176022817869e-9,
    1.1533347537722961e-7,
    -1.9041134909247363e-8,
    -1.2426033147530197e-8,
    3.0411707568659842e-9,
)


def pdf(h: Tensor) -> Tensor:
    """φ(h), or zero where it falls below 1e-31 (float64: 1e-297): exponentials that underflow make a CPU crawl."""
    lowest = -684.0 if h.dtype == torch.float64 else -70.0
    exponential = (h * h).mul_(-0.5).clamp_min(lowest).exp_()
    return (exponential - 1.001 * math.exp(lowest)).clamp_min(0.0).mul_(1 / math.sqrt(2 * math.pi))


def cdf(h: Tensor) -> Tensor:
    """Φ(h), with full relative accuracy in the lower tail."""
    return 0.5 * torch.erfc(h * -math.sqrt(0.5))


def tails(k: Tensor) -> tuple[Tensor, Tensor]:
    """A(k), B(k) for k ≥ 0."""
    t = (k * 0.3).add_(1.0).reciprocal_()
    x = (t * 2.0).sub_(1.0)
    a, b = (A64, B64) if k.dtype == torch.float64 else (A32, B32)
    t2 = t * t
    return t2 * _polynomial(a, x), t2 * t * _polynomial(b, x)


def standardise(m: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """h = m / √s and √s; where s = 0, h is far out on the side of m (0 for m = 0), where φ is zero."""
    std = root(s)
    h = m / std.clamp_min(torch.finfo(s.dtype).tiny ** 0.5)
    return h.clamp(-1e4, 1e4), std


def root(s: Tensor) -> Tensor:
    """√s; its slope at s = 0 is taken as zero where a graph is recorded (for second derivatives), not as infinite."""
    if torch.is_grad_enabled() and s.requires_grad:
        return s.clamp_min(torch.finfo(s.dtype).tiny).sqrt() * step(s)
    return s.sqrt()


def lifted_root(s: Tensor) -> Tensor:
    """√s for sums over nodes z√s of smooth functions.

    Second derivatives go through √s, whose slope magnifies the rounding of such sums. So where a graph is recorded, the
    sums are taken at a variance of at least the type's ε, which changes them by about as much.
    """
    if torch.is_grad_enabled() and s.requires_grad:
        return (s + (s.clamp_min(torch.finfo(s.dtype).eps) - s).detach()).sqrt()
    return s.sqrt()


def _polynomial(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    """Horner's scheme."""
    value = (x * coefficients[-1]).add_(coefficients[-2])
    for coefficient in coefficients[-3::-1]:
        value.mul_(x).add_(coefficient)
    return value
