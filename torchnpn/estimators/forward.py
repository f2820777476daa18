"""Rows through a network, for prediction: on a CPU in float64, where no row depends on its neighbours in the batch."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from torchnpn._torch import version
from torchnpn.columns import Bins
from torchnpn.moments import Moments
from torchnpn.nn import Ensemble, Sequential

N = TypeVar("N", Sequential, Ensemble)
_CHUNK = 8192  # rows that pass through the network at a time
_ROWS = 500  # that slopes are learnt from


class _Copy(NamedTuple):
    """A network in float64, and the addresses and versions of the parameters it was made from."""

    state: tuple[int, ...]
    network: Any
    parameters: list[Tensor]  # while these live, no other tensor can come to lie at their addresses


_copies: WeakKeyDictionary[Any, _Copy] = WeakKeyDictionary()  # beside the networks: never pickled nor copied with them


def in_float64(network: N) -> N:
    """A copy of a network in float64, in evaluation mode: made once, and again when a parameter has changed.

    A network that is not on a CPU is returned as it is. torch does not count changes through `.data`; estimators make a
    new network whenever they learn.
    """
    parameters = list(network.parameters())
    if parameters[0].device.type != "cpu":
        return network
    now = tuple(number for p in parameters for number in (p.data_ptr(), version(p)))
    found = _copies.get(network)
    if found is None or found.state != now:
        copied = copy.deepcopy(network).double().eval()
        found = _copies[network] = _Copy(now, copied, [p.detach() for p in parameters])
    precise: N = found.network
    return precise


@torch.no_grad()
def outputs(network: Sequential, x: Any, modules: int | None = None) -> Moments:  # (rows, in) -> (*replicas, rows, out)
    """Moments that a network, or its first modules, gives for moments or a CSR matrix, in float64 on the CPU."""
    network = in_float64(network)
    like, called = next(network.parameters()), network if modules is None else network[:modules]
    count = x.shape[0] if scipy.sparse.issparse(x) else len(x.mean)
    parts = [called(_like(rows_of(x, slice(i, i + _CHUNK)), like)) for i in range(0, count, _CHUNK)]
    means, variances = (torch.cat([part[i].double().cpu() for part in parts], -2) for i in (0, 1))
    if not (means.isfinite().all() and variances.isfinite().all()):
        raise ValueError(
            "X expects values for which the network's output is a floating-point number, got some too far from the "
            "training rows. Look for a wrong unit or a code for missing values; what is missing is NaN."
        )
    return Moments(means, variances)


def mean_square_slopes(
    network: Ensemble, bins: Bins | None, weights: NDArray[Any], z: NDArray[Any], count: int
) -> NDArray[Any]:  # (members,), (rows, features) -> (count, features)
    """Mean over some of the rows of (∂f/∂z)², of the first outputs f of all members together."""
    rows = z[np.random.default_rng(0).permutation(len(z))[:_ROWS]]
    x = torch.from_numpy(np.where(np.isnan(rows), 0.0, rows).astype(np.float32)).requires_grad_()
    inputs = Moments(x, None) if bins is None else bins.beside(Moments(x, None))
    o = in_float64(network)(Moments(inputs.mean.double(), None))
    f = torch.tensordot(torch.from_numpy(weights), o.mean, 1)  # (rows, outputs)
    slopes = [torch.autograd.grad(f[:, k].sum(), x, retain_graph=True)[0] for k in range(count)]
    return np.stack([(slope.double() ** 2).mean(0).numpy() for slope in slopes])


def rows_of(x: Any, rows: Any) -> Any:
    """Some rows of a CSR matrix, or of moments."""
    if scipy.sparse.issparse(x):
        return x[rows]
    return Moments(x.mean[rows], None if x.variance is None else x.variance[rows])


def _like(x: Any, like: Tensor) -> Any:
    """Of the type of `like`, and where it is."""
    if scipy.sparse.issparse(x):
        return x.astype(np.float64 if like.dtype == torch.float64 else np.float32)
    return Moments(x.mean.to(like), None if x.variance is None else x.variance.to(like))
