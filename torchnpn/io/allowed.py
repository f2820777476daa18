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


def _family_name(family: type[ExponentialFamily]) -> str:
    for name, known in families.BY_NAME.items():
        if known is family:
            return name
    raise TypeError(
        f"A model file takes the families that come with the library, got {family.__name__}. Save the weights alone, "
        "torch.save(network.state_dict(), path), and build the network in code."
    )


def _linear_family(module: nn.Linear) -> str:
    if module.bias is not None and module.bias.family is not module.weight.family:
        raise ValueError("A model file takes linear layers whose weights and biases are of one family.")
    return _family_name(module.weight.family)


def _size(name: str) -> Argument:
    return Argument(lambda module: int(getattr(module, name)), checks.size)


def _number(name: str, check: checks.Check = checks.number) -> Argument:
    return Argument(lambda module: float(getattr(module, name)), check)


def _constants(*names: str) -> dict[str, Argument]:
    """Arguments of an activation that are numbers."""

    def reader(name: str) -> Callable[[Any], float]:
        return lambda module: float(module.constants[name])

    return {name: Argument(reader(name), checks.number) for name in names}


_READ: dict[type, Callable[[Any], Any]] = {
    int: int,
    float: float,
    tuple: list,
    dict: lambda constants: {name: float(value) for name, value in constants.items()},
    ExponentialFamily: _family_name,
}
_CHECKS: dict[type, checks.Check] = {
    int: checks.size,
    float: checks.number,
    tuple: checks.sizes,
    dict: checks.mapping,
    ExponentialFamily: checks.family,
}


def _of_likelihood(kind: type[likelihoods.Likelihood]) -> dict[str, Argument]:
    """What a likelihood says of its arguments."""

    def argument(name: str, of: type) -> Argument:
        return Argument(lambda module: _READ[of](getattr(module, name)), _CHECKS[of])

    return {name: argument(name, of) for name, of in kind.arguments.items()}


ARGUMENTS: dict[type[Module], dict[str, Argument]] = {
    nn.Linear: {
        "in_features": _size("in_features"),
        "out_features": _size("out_features"),
        "bias": Argument(lambda module: module.bias is not None, checks.flag),
        "family": Argument(_linear_family, checks.family),
        "replicas": Argument(lambda module: list(module.replicas), checks.sizes),
    },
    nn.MeanAndNoise: {
        "in_features": Argument(lambda module: module.mean.in_features, checks.size),
        "targets": Argument(lambda module: module.mean.out_features, checks.size),
        "replicas": Argument(lambda module: list(module.mean.replicas), checks.sizes),
    },
    **{activation: {} for activation in nn.ACTIVATIONS.values()},
    nn.LeakyReLU: _constants("slope"),
    nn.Hardtanh: _constants("lower", "upper"),
    nn.ELU: _constants("alpha"),
    nn.Saturating: {
        "family": Argument(lambda module: _family_name(module.family), checks.family),
        "tau": _number("tau", checks.tau),
        "r": _number("r"),
        "q": Argument(lambda module: None if module.q is None else float(module.q), checks.number_or_none),
    },
    nn.Power: {"tau": _number("tau", checks.tau)},
    nn.Bernoulli: {},
    nn.Dropout: {"p": _number("p")},
    nn.AnalyticDropout: {"p": _number("p")},
    nn.MaskedUnits: {"p": _number("p")},
    nn.InputNoise: {"variance": _number("variance")},
    nn.Flatten: {},
    nn.Complement: {},
    **{kind: _of_likelihood(kind) for kind in likelihoods.ALL},
}
BY_NAME: dict[str, type[Module]] = {kind.__name__: kind for kind in (nn.Sequential, *ARGUMENTS)}
