"""The allow-list of model files: networks and likelihoods are made of these classes, and of no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch.nn import Module

from torchnpn import families, likelihoods, nn
from torchnpn.families import ExponentialFamily
from torchnpn.io import checks


class Argument(NamedTuple):
    """A constructor's argument: how to read it off a module, and how to check one from a file."""

    read: Callable[[Any], Any]
    check: checks.Check


def _flag(part: Any) -> bool:
    """A flag, or whether there is a part that a flag asked for."""
    return part if isinstance(part, bool) else part is not None


def _family_name(family: type[ExponentialFamily]) -> str:
    for name, known in families.BY_NAME.items():
        if known is family:
            return name
    raise TypeError(
        f"A model file takes the families that come with the library, got {family.__name__}. Save the weights alone, "
        "torch.save(network.state_dict(), path), and build the network in code."
    )


_OF_TYPE: dict[Any, tuple[Callable[[Any], Any], checks.Check]] = {  # how to make an argument plain, and how to check it
    bool: (_flag, checks.flag),
    int: (int, checks.size),
    float: (float, checks.number),
    float | None: (lambda number: None if number is None else float(number), checks.number_or_none),
    int | None: (lambda number: None if number is None else int(number), checks.place_or_none),
    tuple: (list, checks.sizes),
    dict: (lambda constants: {name: float(value) for name, value in constants.items()}, checks.mapping),
    ExponentialFamily: (_family_name, checks.family),
    nn.Posterior: (str, checks.one_of(nn.POSTERIORS)),
    nn.CoordinateChoice: (str, checks.one_of(nn.COORDINATES)),
}


def _declared(kind: type[Any]) -> dict[str, Argument]:
    """What a layer or a likelihood says of the arguments of its constructor."""

    def argument(name: str, of: Any) -> Argument:
        plain, check = _OF_TYPE[of]
        return Argument(lambda module: plain(_value(module, name)), checks.tau if name == "tau" else check)

    return {name: argument(name, of) for name, of in kind.arguments.items()}


def _value(module: Module, name: str) -> Any:
    if (
        name == "family"
        and len({part.family for part in module.children() if isinstance(part, nn.RandomParameter)}) > 1
    ):
        raise ValueError("A model file takes linear layers whose weights and biases are of one family.")
    return module.constants[name] if isinstance(module, nn.Activation) else getattr(module, name)


_LAYERS = [
    kind
    for name in nn.__all__
    if isinstance(kind := getattr(nn, name), type) and issubclass(kind, nn.Layer) and kind is not nn.Activation
]
ARGUMENTS: dict[type[Module], dict[str, Argument]] = {kind: _declared(kind) for kind in (*_LAYERS, *likelihoods.ALL)}
BY_NAME: dict[str, type[Module]] = {kind.__name__: kind for kind in (nn.Sequential, *ARGUMENTS)}
