"""The table of elementwise moment maps of a Gaussian input that the laws run over, and how to evaluate one."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from support import bounds, reference
from torchnpn import maps
from torchnpn.moments import Moments


class Case(NamedTuple):
    """One map: how to call it, what it approximates, and which laws it obeys."""

    name: str
    map: Callable[[Moments], Moments]
    twin: Callable[[Tensor], Tensor]  # torch's function of a point
    reference: str  # name in reference.at
    kind: str  # "bounded" or "lipschitz" (slope at most ~1), "jump", "growing" (may overflow to inf)
    kinks: tuple[float, ...] = ()
    increasing: bool = True
    low: float = -inf  # range of f
    high: float = inf
    low_variance: bool = True  # False for the paper's forms, whose variance has a floor at s = 0


def _step(x: Tensor) -> Tensor:
    return torch.heaviside(x, torch.full_like(x, 0.5))


CASES = [
    Case("relu", maps.relu, F.relu, "relu", "lipschitz", (0.0,), low=0),
    Case(
        "leaky_relu",
        lambda o: maps.leaky_relu(o, 0.125),
        lambda x: F.leaky_relu(x, 0.125),
        "leaky_relu",
        "lipschitz",
        (0.0,),
    ),
    Case("abs", maps.abs, torch.abs, "abs", "lipschitz", (0.0,), increasing=False, low=0),
    Case("relu6", maps.relu6, F.relu6, "relu6", "bounded", (0.0, 6.0), low=0, high=6),
    Case("hardtanh", maps.hardtanh, F.hardtanh, "hardtanh", "bounded", (-1.0, 1.0), low=-1, high=1),
    Case(
        "clamp",
        lambda o: maps.hardtanh(o, -0.5, 2.0),
        lambda x: F.hardtanh(x, -0.5, 2.0),
        "clamp",
        "bounded",
        (-0.5, 2.0),
        low=-0.5,
        high=2,
    ),
    Case("heaviside", maps.heaviside, _step, "heaviside", "jump", (0.0,), low=0, high=1),
    Case("sigmoid", maps.sigmoid, torch.sigmoid, "sigmoid", "bounded", low=0, high=1),
    Case("tanh", maps.tanh, torch.tanh, "tanh", "bounded", low=-1, high=1),
    Case("accurate.sigmoid", maps.accurate.sigmoid, torch.sigmoid, "sigmoid", "bounded", low=0, high=1),
    Case("accurate.tanh", maps.accurate.tanh, torch.tanh, "tanh", "bounded", low=-1, high=1),
    Case("cheap.sigmoid", maps.cheap.sigmoid, torch.sigmoid, "sigmoid", "bounded", low=0, high=1),
    Case("cheap.tanh", maps.cheap.tanh, torch.tanh, "tanh", "bounded", low=-1, high=1),
    Case("paper.sigmoid", maps.paper.sigmoid, torch.sigmoid, "sigmoid", "bounded", low=0, high=1, low_variance=False),
    Case("paper.tanh", maps.paper.tanh, torch.tanh, "tanh", "bounded", low=-1, high=1, low_variance=False),
    Case("erf", maps.erf, torch.erf, "erf", "bounded", low=-1, high=1),
    Case("elu", maps.elu, F.elu, "elu", "lipschitz", (0.0,), low=-1),
    Case("elu_half", lambda o: maps.elu(o, 0.5), lambda x: F.elu(x, 0.5), "elu_half", "lipschitz", (0.0,), low=-0.5),
    Case("selu", maps.selu, F.selu, "selu", "lipschitz", (0.0,), low=-reference.SELU_ALPHA * reference.SELU_SCALE),
    Case("gelu", maps.gelu, F.gelu, "gelu", "lipschitz", increasing=False, low=-0.17),
    Case("silu", maps.silu, F.silu, "silu", "lipschitz", increasing=False, low=-0.2785),
    Case("softplus", maps.softplus, F.softplus, "softplus", "lipschitz", low=0),
    Case("exp", maps.exp, torch.exp, "exp", "growing", low=0),
    Case("sin", maps.sin, torch.sin, "sin", "bounded", increasing=False, low=-1, high=1),
    Case("cos", maps.cos, torch.cos, "cos", "bounded", increasing=False, low=-1, high=1),
    Case("square", maps.square, torch.square, "square", "growing", increasing=False, low=0),
]
CONVERGENT = [case for case in CASES if case.low_variance]


def each(cases: list[Case], fast: tuple[str, ...] | None = None) -> pytest.MarkDecorator:
    """Run a test once for each case; all but those named in `fast`, if there are such, are slow."""
    slow = [() if fast is None or case.name in fast else pytest.mark.slow for case in cases]
    named = [pytest.param(case, id=case.name, marks=marks) for case, marks in zip(cases, slow, strict=True)]
    return pytest.mark.parametrize("case", named)


def grid(dtype: torch.dtype, m: np.ndarray = reference.GRID_M, s: np.ndarray = reference.GRID_S) -> Moments:
    """All pairs of m and s as leaves that take gradients."""
    mean, variance = torch.meshgrid(torch.tensor(m, dtype=dtype), torch.tensor(s, dtype=dtype), indexing="ij")
    return Moments(mean.clone().requires_grad_(), variance.clone().requires_grad_())


def gradients(call: Callable[[Moments], Moments], o: Moments) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """d mean/dm, d mean/ds, d var/dm, d var/ds of an elementwise map."""
    a = call(o)
    inputs = (o.mean, o.variance)
    mean = torch.autograd.grad(a.mean.sum(), inputs, retain_graph=True, materialize_grads=True)
    return *mean, *torch.autograd.grad(a.variance.sum(), inputs, materialize_grads=True)


def max2_points(count: int = 400) -> np.ndarray:
    """Rows (m1, s1, m2, s2), float32 numbers, variances over eight decades."""
    rng = np.random.default_rng(0)
    points = np.stack([rng.normal(size=(count, 2)) * 5, 10 ** rng.uniform(-5, 3, (count, 2))], -1).reshape(count, 4)
    points[:20, 2] = points[:20, 0]  # ties
    points[20:40, 1::2] *= 1e-4
    return points.astype(np.float32).astype(float)


def softmax_cases():
    """(logit variance, classes) → rows of random (m, s) with that mean variance."""
    rng = np.random.default_rng(1)
    for variance in bounds.SOFTMAX:
        for classes in (2, 3, 10, 30):
            m = 1.5 * rng.normal(size=(3, classes)) + np.array([[0.0], [0.0], [1.0]]) * np.eye(classes)[0] * 3
            s = variance * rng.uniform(0.5, 1.5, size=(3, classes))
            s[0] = variance
            yield variance, m.astype(np.float32), s.astype(np.float32)
