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


def _learnt(name: str) -> dict[str, Argument]:
    """Arguments of a likelihood with a learnt number for each target, of shape (*replicas, targets)."""
    return {
        "targets": Argument(lambda module: getattr(module, name).shape[-1], checks.size),
        "replicas": Argument(lambda module: list(getattr(module, name).shape[:-1]), checks.sizes),
    }


LATER: dict[type[Module], dict[str, Any]] = {  # arguments that early files lack, and what they mean there
    likelihoods.PoissonCounts: {"elbo": 0.0},
    likelihoods.NegativeBinomialCounts: {"elbo": 0.0},
}
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
    **{activation: {} for activation in nn.activation.BY_NAME.values()},
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
    likelihoods.GaussianNoise: {**_learnt("log_noise"), "elbo": _number("elbo")},
    likelihoods.GammaAmounts: {**_learnt("log_shape"), "elbo": _number("elbo")},
    likelihoods.HeteroscedasticGaussian: {**_learnt("log_noise"), "elbo": _number("elbo")},
    likelihoods.BetaProportions: _learnt("log_precision"),
    likelihoods.PoissonCounts: {"elbo": _number("elbo")},
    likelihoods.NegativeBinomialCounts: {**_learnt("log_overdispersion"), "elbo": _number("elbo")},
    likelihoods.SoftmaxMean: {"classes": _size("classes")},
    likelihoods.ScaledSoftmax: {"classes": _size("classes")},
    likelihoods.Sigmoids: {"classes": _size("classes")},
    likelihoods.KLToTarget: {"epsilon": _number("epsilon", checks.positive)},
    likelihoods.SquaredError: {},
    likelihoods.CrossEntropy: {},
    likelihoods.BernoulliPoisson: {},
    likelihoods.PoissonRate: {},
    likelihoods.GammaWords: {"epsilon": _number("epsilon", checks.positive)},
    likelihoods.Direct: {
        "family": Argument(lambda module: _family_name(module.family), checks.family),
        "known": Argument(lambda module: {k: float(v) for k, v in module.known.items()}, checks.mapping),
    },
}
BY_NAME: dict[str, type[Module]] = {kind.__name__: kind for kind in (nn.Sequential, *ARGUMENTS)}
