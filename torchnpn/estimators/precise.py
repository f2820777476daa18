"""Networks in float64, for prediction on a CPU, where a row's prediction then does not depend on its neighbours."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from torch import Tensor

from torchnpn._torch import version
from torchnpn.nn import Sequential


class _Copy(NamedTuple):
    """A network in float64, and the addresses and versions of the parameters it was made from."""

    state: tuple[int, ...]
    network: Sequential
    parameters: list[Tensor]  # while these live, no other tensor can come to lie at their addresses


_copies: WeakKeyDictionary[Any, _Copy] = WeakKeyDictionary()  # beside the networks: never pickled nor copied with them


def in_float64(network: Sequential) -> Sequential:
    """A copy of a network in float64, in evaluation mode: made once, and again when a parameter has changed.

    A network that is not on a CPU is returned as it is. torch does not count changes through `.data`; estimators make a
    new network whenever they learn.
    """
    parameters = list(network.parameters())
    if parameters[0].device.type != "cpu":
        return network
    state = tuple(number for p in parameters for number in (p.data_ptr(), version(p)))
    found = _copies.get(network)
    if found is None or found.state != state:
        precise = copy.deepcopy(network).double().eval()
        found = _copies[network] = _Copy(state, precise, [p.detach() for p in parameters])
    return found.network
