"""What an estimator trains: one network, or the members of an ensemble, together or one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from torchnpn.likelihoods import Likelihood
from torchnpn.nn import Sequential, assemble_, member, replicas_of


class Member(NamedTuple):
    """What one call of `train` changes."""

    network: Sequential
    likelihood: Likelihood
    seed: int


def new_network(
    build: Callable[[torch.Generator | None, tuple[int, ...]], Sequential], replicas: tuple[int, ...], seed: int
) -> Sequential:
    """A new network; the k-th member draws its numbers from `seed` + k, however many there are."""
    count = replicas[0] if replicas else 1
    networks = [build(torch.Generator().manual_seed(seed + k), ()) for k in range(count)]
    if not replicas:
        return networks[0]
    together = build(torch.Generator().manual_seed(seed), replicas)  # of which nothing is left
    assemble_(together, networks)
    return together


def trains_one_by_one(device: torch.device) -> bool:
    """Whether members train faster one after the other than all at once: on a CPU, which one network fills."""
    return device.type == "cpu"


def members_to_train(network: Sequential, likelihood: Likelihood, seed: int, device: torch.device) -> list[Member]:
    """The network and its likelihood as they are, or, where that is faster, each member in memory of its own."""
    network.to(device)
    replicas = replicas_of(network)
    if not replicas or not trains_one_by_one(device):
        return [Member(network, likelihood, seed)]
    return [Member(member(network, k), member(likelihood, k), seed + k) for k in range(replicas[0])]


def write_back_(network: Sequential, likelihood: Likelihood, trained: Sequence[Member]) -> None:
    """Write what has been trained apart back into network and likelihood, ready for predictions."""
    if trained[0].network is not network:
        assemble_(network, [one.network for one in trained])
        assemble_(likelihood, [one.likelihood for one in trained])
    network.eval()
    likelihood.cpu()
