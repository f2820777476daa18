"""Element-wise operations of torch in ONNX: one short function each, by the name that `torch.export` gives it.

Each takes a `Writer`, which writes nodes of one type of numbers, and names of nodes. onnxruntime has no log1p, expm1,
erfc, log Γ nor a float64 erf: these are written here by what it has, without a loss of digits for small arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch

from torchnpn.exporting.graph import Graph

# erfc(x) = exp(-x²) t p(2t - 1) for x ≥ 0, with t = 1/(1 + 0.4 x): relative error 5e-12
_ERFC = (
    0.42161272812229295,
    0.32186073979615615,
    0.18156564665796718,
    0.068500457099085449,
    0.011344620100178655,
    -0.0033572034467424616,
    -0.0019275148849354604,
    0.00017559115785298823,
    0.00028108234932425777,
    -2.3004346514930463e-05,
    -4.506204208407144e-05,
    7.176054885387977e-06,
    7.3489892048127091e-06,
    -1.9519968522778248e-06,
    -1.0158754692663075e-06,
    2.7897365148487869e-07,
    8.3293082911607917e-08,
)
_SHIFT = 8  # Stirling's series is taken at x + 8: relative error 1e-13
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)


class Writer(NamedTuple):
    """Writes nodes whose results are of one type."""

    graph: Graph
    dtype: torch.dtype

    def number(self, value: float) -> str:
        return self.graph.constant(value, self.dtype)

    def op(self, kind: str, *inputs: str | float) -> str:
        """A node; numbers among the inputs become constants."""
        return self.graph.op(kind, *(x if isinstance(x, str) else self.number(x) for x in inputs))

    def polynomial(self, coefficients: tuple[float, ...], x: str) -> str:
        """Horner's scheme, the lowest power first."""
        value: str | float = coefficients[-1]
        for coefficient in coefficients[-2::-1]:
            value = self.op("Add", self.op("Mul", value, x), coefficient)
        return str(value)


Emit = Callable[..., str]


def named(kind: str) -> Emit:
    """An operation that ONNX has under this name."""
    return lambda w, *x: w.op(kind, *x)


def add(w: Writer, x: str, y: str, alpha: float = 1) -> str:
    return w.op("Add", x, y if alpha == 1 else w.op("Mul", y, alpha))


def sub(w: Writer, x: str, y: str, alpha: float = 1) -> str:
    return w.op("Sub", x, y if alpha == 1 else w.op("Mul", y, alpha))


def rsub(w: Writer, x: str, y: str, alpha: float = 1) -> str:
    return sub(w, y, x, alpha)


def rsqrt(w: Writer, x: str) -> str:
    return w.op("Reciprocal", w.op("Sqrt", x))


def square(w: Writer, x: str) -> str:
    return w.op("Mul", x, x)


def expm1(w: Writer, x: str) -> str:
    """exp(x) - 1 = tanh(x/2) (exp(x) + 1)."""
    return w.op("Mul", w.op("Tanh", w.op("Mul", x, 0.5)), w.op("Add", w.op("Exp", x), 1.0))


def log1p(w: Writer, x: str) -> str:
    """log(u) x/(u - 1) with u = 1 + x as it is rounded, in which its error cancels; x where u = 1."""
    u = w.op("Add", x, 1.0)
    gap = w.op("Sub", u, 1.0)
    ratio = w.op("Div", x, w.op("Where", w.op("Equal", gap, 0.0), w.number(1.0), gap))
    same = w.op("Or", w.op("Equal", gap, 0.0), w.op("Equal", x, math.inf))
    return w.op("Where", same, x, w.op("Mul", w.op("Log", u), ratio))


def erfc(w: Writer, x: str) -> str:
    """By its own digits for x ≥ 0, and 2 - erfc(-x) below."""
    k = w.op("Abs", x)
    t = w.op("Reciprocal", w.op("Add", w.op("Mul", k, 0.4), 1.0))
    tail = w.op("Mul", t, w.polynomial(_ERFC, w.op("Sub", w.op("Mul", t, 2.0), 1.0)))
    tail = w.op("Mul", tail, w.op("Exp", w.op("Neg", w.op("Mul", k, k))))
    return w.op("Where", w.op("Less", x, 0.0), w.op("Sub", 2.0, tail), tail)


def erf(w: Writer, x: str) -> str:
    """Of float64 1 - erfc(x), to 1e-12 of one; no formula here needs more digits of a small one."""
    if w.dtype == torch.float32:
        return w.op("Erf", x)
    return w.op("Sub", 1.0, erfc(w, x))


def special_ndtr(w: Writer, x: str) -> str:
    return w.op("Mul", erfc(w, w.op("Mul", x, -math.sqrt(0.5))), 0.5)


def special_log_ndtr(w: Writer, x: str) -> str:
    return w.op("Log", special_ndtr(w, x))


def lgamma(w: Writer, x: str) -> str:
    """log Γ(x) for x > 0."""
    product, z = x, w.op("Add", x, float(_SHIFT))
    for k in range(1, _SHIFT):
        product = w.op("Mul", product, w.op("Add", x, float(k)))
    inverse = w.op("Reciprocal", z)
    series = w.op("Mul", inverse, w.polynomial(_STIRLING, w.op("Mul", inverse, inverse)))
    leading = w.op("Sub", w.op("Mul", w.op("Sub", z, 0.5), w.op("Log", z)), z)
    sum_ = w.op("Add", w.op("Add", leading, 0.5 * math.log(2 * math.pi)), series)
    huge = w.op("Greater", x, 1e30)  # the product would overflow
    return w.op("Sub", sum_, w.op("Log", w.op("Where", huge, w.op("Pow", z, float(_SHIFT)), product)))


def softplus(w: Writer, x: str, beta: float = 1, threshold: float = 20) -> str:
    """max(x, 0) + log1p(exp(-|x|))."""
    scaled = x if beta == 1 else w.op("Mul", x, float(beta))
    value = w.op("Add", w.op("Relu", scaled), log1p(w, w.op("Exp", w.op("Neg", w.op("Abs", scaled)))))
    return value if beta == 1 else w.op("Mul", value, 1 / beta)


def log_sigmoid(w: Writer, x: str) -> str:
    return w.op("Neg", softplus(w, w.op("Neg", x)))


def leaky_relu(w: Writer, x: str, slope: float = 0.01) -> str:
    return w.op("Where", w.op("Less", x, 0.0), w.op("Mul", x, slope), x)


def silu(w: Writer, x: str) -> str:
    return w.op("Mul", x, w.op("Sigmoid", x))


def gelu(w: Writer, x: str, approximate: str = "none") -> str:
    return w.op("Mul", x, special_ndtr(w, x))


def elu(w: Writer, x: str, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> str:
    below = w.op("Mul", expm1(w, w.op("Mul", w.op("Min", x, 0.0), float(input_scale))), float(alpha * scale))
    return w.op("Where", w.op("Less", x, 0.0), below, w.op("Mul", x, float(scale)))


def selu(w: Writer, x: str) -> str:
    return elu(w, x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


def hardtanh(w: Writer, x: str, low: float = -1, high: float = 1) -> str:
    return clamp(w, x, low, high)


def clamp(w: Writer, x: str, low: float | str | None = None, high: float | str | None = None) -> str:
    """Bounds that the type itself has are left out."""
    largest = torch.finfo(w.dtype).max if w.dtype.is_floating_point else torch.iinfo(w.dtype).max
    if isinstance(low, str) or isinstance(high, str):
        above = x if low is None else w.op("Max", x, low)
        return above if high is None else w.op("Min", above, high)
    low = None if low is None or low <= -largest else low
    high = None if high is None or high >= largest else high
    if low is not None and high is not None:
        return w.op("Clip", x, low, high)
    if high is not None:
        return w.op("Min", x, high)
    if low is None:
        return x
    return w.op("Relu", x) if low == 0 else w.op("Max", x, low)


def clamp_max(w: Writer, x: str, high: float) -> str:
    return clamp(w, x, None, high)


def pow(w: Writer, x: str | float, exponent: float | str) -> str:
    if exponent == 2:
        return w.op("Mul", x, x)
    return w.op("Reciprocal", x) if exponent == -1 else w.op("Pow", x, exponent)


def addcmul(w: Writer, x: str, a: str, b: str, value: float = 1) -> str:
    return add(w, x, w.op("Mul", a, b), value)


def lerp(w: Writer, x: str, end: str, weight: str | float) -> str:
    return w.op("Add", x, w.op("Mul", weight, w.op("Sub", end, x)))


def where(w: Writer, condition: str, x: str | float, y: str | float) -> str:
    return w.op("Where", condition, x, y)


def copysign(w: Writer, x: str, y: str) -> str:
    return w.op("Mul", w.op("Abs", x), w.op("Where", w.op("Less", y, 0.0), -1.0, 1.0))


def logaddexp(w: Writer, x: str, y: str) -> str:
    gap = w.op("Neg", w.op("Abs", w.op("Sub", x, y)))
    return w.op("Add", w.op("Max", x, y), log1p(w, w.op("Exp", gap)))


def hypot(w: Writer, x: str, y: str) -> str:
    return w.op("Sqrt", w.op("Add", w.op("Mul", x, x), w.op("Mul", y, y)))


def xlogy(w: Writer, x: str, y: str) -> str:
    """x log y; zero where x is."""
    none = w.op("Equal", x, 0.0)
    return w.op("Mul", x, w.op("Log", w.op("Where", none, 1.0, y)))


def heaviside(w: Writer, x: str, at_zero: str) -> str:
    return w.op("Where", w.op("Equal", x, 0.0), at_zero, w.op("Where", w.op("Less", x, 0.0), 0.0, 1.0))


def atan2(w: Writer, y: str, x: str) -> str:
    """For x > 0, by the half angle twice over and a series: float64 has no arc tangent in onnxruntime."""
    t = w.op("Div", y, x)
    for _ in range(3):  # tan(a/2) = t/(1 + √(1 + t²))
        t = w.op("Div", t, w.op("Add", w.op("Sqrt", w.op("Add", w.op("Mul", t, t), 1.0)), 1.0))
    terms = tuple((-1.0) ** k / (2 * k + 1) for k in range(9))
    return w.op("Mul", w.op("Mul", t, 8.0), w.polynomial(terms, w.op("Mul", t, t)))


def isfinite(w: Writer, x: str) -> str:
    return w.op("Not", w.op("Or", w.op("IsNaN", x), w.op("IsInf", x)))


def nan_to_num(w: Writer, x: str, nan: float | None = None, *_: float | None) -> str:
    return w.op("Where", w.op("IsNaN", x), float(nan or 0.0), x)


_SAME_NAME = (
    *("Neg", "Abs", "Exp", "Log", "Sqrt", "Reciprocal", "Sigmoid", "Tanh", "Sin", "Cos", "Floor", "Relu", "Sign"),
    *("Mul", "Div", "IsNaN", "IsInf"),
)
ELEMENTWISE: dict[str, Emit] = {
    **{kind.lower(): named(kind) for kind in _SAME_NAME},
    **{"maximum": named("Max"), "minimum": named("Min")},
    **{"logical_not": named("Not"), "bitwise_not": named("Not")},
    **{f"{prefix}_{kind}": named(kind.title()) for prefix in ("logical", "bitwise") for kind in ("and", "or")},
    **{"eq": named("Equal"), "lt": named("Less"), "gt": named("Greater")},
    **{"le": named("LessOrEqual"), "ge": named("GreaterOrEqual")},
    **{"clamp_min": clamp, "special_erfc": erfc, "__or__": named("Or"), "__and__": named("And")},
    **{
        emit.__name__: emit
        for emit in (
            *(add, sub, rsub, rsqrt, square, expm1, log1p, erfc, erf, special_ndtr, special_log_ndtr, lgamma),
            *(softplus, log_sigmoid, leaky_relu, silu, gelu, elu, selu, hardtanh, clamp, clamp_max, pow, addcmul),
            *(lerp, where, copysign, logaddexp, hypot, xlogy, heaviside, atan2, isfinite, nan_to_num),
        )
    },
}
"""By the name of torch's operation; results have the shape to which the arguments broadcast."""
