"""The table of error bounds that the tests of the moment maps read (DESIGN.md, numerics contract).

A map with moments (mean, var) keeps its row if, over the grid of `reference.py`,
    |Δmean| ≤ a (1 + |mean|)   and   |Δvar| ≤ b var + c scale².
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Bound(NamedTuple):
    """One row: a, b, c as above, and the output scale in words (a key of `SCALES`)."""

    a: float
    b: float
    c: float
    scale: str


SCALES = {  # scale² as a function of (exact mean, input variance s)
    "1": lambda mean, s: np.ones_like(mean),
    "std of the input": lambda mean, s: np.broadcast_to(s, mean.shape),
    "mean of the output": lambda mean, s: mean**2,
}

UNDERFLOW = 1e-30  # a c that only forgives what float32 flushes to zero
FAR_TAIL = 1e-15  # beyond 7 standard deviations the rounding of h = m/√s alone costs h² 6e-8

GAUSSIAN = {  # float32, Gaussian input
    "relu": Bound(2e-6, 5e-6, FAR_TAIL, "std of the input"),
    "leaky_relu": Bound(2e-6, 5e-6, 0.0, "std of the input"),
    "abs": Bound(2e-6, 5e-6, 0.0, "std of the input"),
    "relu6": Bound(2e-6, 1e-5, FAR_TAIL, "1"),
    "hardtanh": Bound(2e-6, 1e-5, FAR_TAIL, "1"),
    "clamp": Bound(2e-6, 1e-5, FAR_TAIL, "1"),
    "heaviside": Bound(1e-6, 2e-5, UNDERFLOW, "1"),
    "sigmoid": Bound(2e-6, 1e-3, 2e-6, "1"),
    "tanh": Bound(4e-6, 1e-3, 8e-6, "1"),
    "accurate.sigmoid": Bound(2e-7, 1e-5, 1e-7, "1"),
    "accurate.tanh": Bound(2e-7, 1e-5, 2e-7, "1"),
    "cheap.sigmoid": Bound(1.1e-3, 0.0, 9.5e-3, "1"),
    "cheap.tanh": Bound(2.2e-3, 0.0, 3.8e-2, "1"),
    "erf": Bound(1e-6, 1e-5, 1e-7, "1"),
    "elu": Bound(2e-6, 5e-5, FAR_TAIL, "std of the input"),
    "elu_half": Bound(2e-6, 5e-5, FAR_TAIL, "std of the input"),
    "selu": Bound(2e-6, 5e-5, FAR_TAIL, "std of the input"),
    "gelu": Bound(1e-6, 2e-5, 1e-7, "std of the input"),
    "silu": Bound(2e-6, 1e-4, 1e-6, "std of the input"),
    "softplus": Bound(2e-6, 2e-5, 1e-7, "std of the input"),
    "exp": Bound(1e-5, 1e-5, 0.0, "mean of the output"),
    "sin": Bound(1e-6, 1e-6, 1e-30, "1"),
    "cos": Bound(1e-6, 1e-6, 1e-30, "1"),
    "square": Bound(1e-6, 1e-6, 0.0, "mean of the output"),
}

_EXACT = {
    "relu": "std of the input",
    "leaky_relu": "std of the input",
    "abs": "std of the input",
    "relu6": "1",
    "hardtanh": "1",
    "clamp": "1",
    "heaviside": "1",
    "erf": "1",
    "sin": "1",
    "cos": "1",
    "exp": "mean of the output",
    "square": "mean of the output",
}
_FITTED = ("elu", "elu_half", "selu", "gelu", "silu", "softplus")

GAUSSIAN_FLOAT64 = {  # the same rows for float64 input
    **{name: Bound(1e-12, 1e-12, 1e-12, scale) for name, scale in _EXACT.items()},
    **{name: Bound(1e-9, 1e-9, 1e-9, "std of the input") for name in _FITTED},
    **{name: Bound(1e-7, 0.0, 1e-7, "1") for name in ("sigmoid", "accurate.sigmoid")},  # the same form
    **{name: Bound(2e-7, 0.0, 4e-7, "1") for name in ("tanh", "accurate.tanh")},
}

# float32, gradients: |error| in units of each partial derivative's own size (test_map_gradients.py), 1e-5 unless named
GRADIENT = 1e-5
GRADIENT_EXCEPTIONS = {
    "tanh": 1e-4,  # seven nodes, worst at the switch s = 1/8
    "silu": 1e-4,  # fifteen nodes, worst at the switch s = 1
}

# float32, |error| of E softmax by mean logit variance; our cases gave 1.34e-3 at 1.0
SOFTMAX = {0.05: 4e-5, 1.0: 1.5e-3, 9.0: 3.6e-3, 25.0: 7.5e-3, 100.0: 1.1e-2}

FAMILIES = {  # float32, maps.saturating with r = q = 1 over the wide grids of cases.py; scale = q
    "gamma": Bound(1e-7, 3e-6, UNDERFLOW, "1"),
    "poisson": Bound(1e-7, 2e-6, UNDERFLOW, "1"),
    "beta": Bound(1e-7, 3e-6, UNDERFLOW, "1"),
    "rayleigh": Bound(1e-7, 6e-7, UNDERFLOW, "1"),
    "bernoulli": Bound(1e-7, 5e-7, UNDERFLOW, "1"),
    "inverse_gaussian": Bound(1e-7, 7e-6, UNDERFLOW, "1"),
    "inverse_gamma": Bound(1e-7, 3e-6, UNDERFLOW, "1"),
    "weibull": Bound(1e-7, 5e-6, UNDERFLOW, "1"),
    "pareto": Bound(1e-7, 5e-7, UNDERFLOW, "1"),
    "gumbel": Bound(1e-7, 3e-6, UNDERFLOW, "1"),
    "negative_binomial": Bound(1e-7, 4.5e-6, UNDERFLOW, "1"),
}
