"""The allow-list of model files: networks and likelihoods are made of these classes, and of no others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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


_BY_TYPE: dict[type, Argument] = {  # what becomes of the attribute of a module
    int: Argument(int, checks.size),
    float: Argument(float, checks.number),
    tuple: Argument(list, checks.sizes),
    dict: Argument(lambda constants: {name: float(value) for name, value in constants.items()}, checks.mapping),
    ExponentialFamily: Argument(_family_name, checks.family),
}


def _attributes(**types: type) -> dict[str, Argument]:
    """Arguments that a module keeps under their own names."""
    return {name: _attribute(name, *_BY_TYPE[of]) for name, of in types.items()}


def _attribute(name: str, read: Callable[[Any], Any], check: checks.Check) -> Argument:
    return Argument(lambda module: read(getattr(module, name)), check)


def _constants(*names: str) -> dict[str, Argument]:
    """Arguments of an activation, which are numbers."""
    return {name: Argument(partial(_constant, name), checks.number) for name in names}


def _constant(name: str, module: nn.Activation) -> float:
    return float(module.constants[name])


ARGUMENTS: dict[type[Module], dict[str, Argument]] = {
    nn.Linear: {
        **_attributes(in_features=int, out_features=int),
        "bias": Argument(lambda module: module.bias is not None, checks.flag),
        "family": Argument(_linear_family, checks.family),
        **_attributes(replicas=tuple),
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
        **_attributes(family=ExponentialFamily),
        "tau": _attribute("tau", float, checks.tau),
        **_attributes(r=float),
        "q": Argument(lambda module: None if module.q is None else float(module.q), checks.number_or_none),
    },
    nn.Power: {"tau": _attribute("tau", float, checks.tau)},
    nn.Bernoulli: {},
    nn.Dropout: _attributes(p=float),
    nn.AnalyticDropout: _attributes(p=float),
    nn.MaskedUnits: _attributes(p=float),
    nn.InputNoise: _attributes(variance=float),
    nn.Flatten: {},
    nn.Complement: {},
    **{kind: _attributes(**kind.arguments) for kind in likelihoods.ALL},
}
BY_NAME: dict[str, type[Module]] = {kind.__name__: kind for kind in (nn.Sequential, *ARGUMENTS)}
