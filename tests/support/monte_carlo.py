"""A network sampled: weights, and neurons where they are random, drawn by numpy; shares no formula with the library."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from torchnpn import nn

Draw = Callable[..., np.ndarray]  # (rng, mean, variance, count) -> (count, *shape)


def _shape(mean: np.ndarray, count: int) -> tuple[int, ...]:
    return (count, *mean.shape)


def _gaussian(rng, m, s, count):
    return m + np.sqrt(s) * rng.standard_normal(_shape(m, count), dtype=np.float32)


def _gamma(rng, m, s, count):
    return (s / m) * rng.standard_gamma(np.broadcast_to(m**2 / s, _shape(m, count)))


def _beta(rng, m, s, count):
    total = m * (1 - m) / s - 1
    return rng.beta(m * total, (1 - m) * total, _shape(m, count))


def _rayleigh(rng, m, s, count):
    return rng.rayleigh(m / np.sqrt(np.pi / 2), _shape(m, count))


DRAWS: dict[str, Draw] = {"Gaussian": _gaussian, "Gamma": _gamma, "Beta": _beta, "Rayleigh": _rayleigh}

NEURONS: dict[str, Callable[..., np.ndarray]] = {  # (rng, o) -> a
    "gaussian": lambda rng, o: np.maximum(o, 0),
    "gamma": lambda rng, o: 1 - np.exp(-o),
    "poisson": lambda rng, o: 1 - np.exp(-rng.poisson(o).astype(float)),  # a count of rate o
    "beta": lambda rng, o: np.sqrt(o),
    "rayleigh": lambda rng, o: 1 - np.exp(-(o**2)),
    "bernoulli": lambda rng, o: (rng.random(o.shape) < 1 / (1 + np.exp(-o))).astype(float),
}


def _drawn(rng, parameter, count):
    moments = (t.detach().numpy() for t in parameter.moments)
    return DRAWS[parameter.family.__name__](rng, *moments, count)


def _outputs(net, neurons, x, rng, count):
    """(count, rows, outputs): each sample has its own weights, shared by its rows."""
    mean, std = x
    a = np.broadcast_to(mean, (count, *mean.shape))
    if std is not None:
        a = a + std * rng.standard_normal(a.shape, dtype=np.float32)
    layers = [module for module in net if isinstance(module, nn.Linear)]
    for layer in layers:
        W = _drawn(rng, layer.weight, count)
        if layer.averages:
            W = W / layer.weight.moments.mean.detach().numpy().sum(-1, keepdims=True)
        o = a @ W.swapaxes(-1, -2)
        if layer.bias is not None:
            o = o + _drawn(rng, layer.bias, count)[:, None, :]
        a = o if layer is layers[-1] else NEURONS[neurons](rng, o)
    return a


def moments(net, neurons, x, count, seed=0, chunk=10_000):
    """Mean, variance and fourth central moment of each output over `count` samples; x is (mean, std or None)."""
    rng = np.random.default_rng(seed)
    shift = _outputs(net, neurons, x, rng, chunk).mean(0)  # near the mean, so that the powers do not cancel
    sums = np.zeros((4, *shift.shape))
    for _ in range(count // chunk):
        d = _outputs(net, neurons, x, rng, chunk) - shift
        sums += np.stack([d.sum(0), (d**2).sum(0), (d**3).sum(0), (d**4).sum(0)])
    d1, d2, d3, d4 = sums / count
    return shift + d1, d2 - d1**2, d4 - 4 * d1 * d3 + 6 * d1**2 * d2 - 3 * d1**4
