"""Modules that put others together."""

from __future__ import annotations

import inspect
import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from torchnpn import families, kernels
from torchnpn.families import Bernoulli as BernoulliFamily
from torchnpn.families import Beta, ExponentialFamily, Gaussian, Poisson
from torchnpn.finite import entering
from torchnpn.kernels import choose
from torchnpn.moments import Moments, check_variance
from torchnpn.nn.activation import ACTIVATIONS
from torchnpn.nn.chain import Chain, chain_of, fused_activation
from torchnpn.nn.coordinates import CoordinateChoice, Posterior
from torchnpn.nn.layer import Layer, as_moments
from torchnpn.nn.linear import Linear
from torchnpn.nn.neurons import Bernoulli, Power, Saturating
from torchnpn.nn.noise import Dropout, MaskedUnits
from torchnpn.sparse import SparseBatch

_COUNTERPARTS = {  # beside the layers of the same name
    "Linear": "npn.nn.Linear.from_torch(module), or npn.nn.Linear(in_features, out_features)",
    "Dropout": "npn.nn.Dropout(p)",
    "AlphaDropout": "npn.nn.Dropout(p)",
    "Softmax": "nothing, and a likelihood that takes logits, such as npn.likelihoods.SoftmaxMean(),",
    "LogSoftmax": "nothing, and a likelihood that takes logits, such as npn.likelihoods.SoftmaxMean(),",
}
_ADVICE = (
    "Write a module whose forward takes and gives npn.Moments; for an element-wise function f, let it return "
    "npn.maps.quadrature(f, moments)."
)
_RELU_LIKE = {"relu", "leaky_relu", "relu6", "elu", "gelu", "silu", "softplus"}


class Sequential(nn.Sequential):
    """Modules in order; takes a tensor or moments, gives moments.

    Any module may stand in it that takes and gives `Moments`. torch's own layers and activations take tensors: they are
    refused, with the name of their counterpart. So is, on a CPU, an input with a negative variance.
    """

    def add_module(self, name: str, module: nn.Module | None) -> None:
        _check_module(name, module)
        super().add_module(name, module)

    def forward(self, a: Moments | Tensor) -> Moments:
        o = _entering(as_moments(a))
        dense_or_sparse = o.values if isinstance(o, SparseBatch) else getattr(o, "mean", None)
        if isinstance(dense_or_sparse, Tensor) and choose.why_not_triton(dense_or_sparse) is None:
            return _on_cuda(list(self), o)
        for position, module in enumerate(self):
            o = _called(module, o, position)
        return o


def _called(module: nn.Module, o: Moments, position: int) -> Moments:
    """module(o); the error of a module without knowledge of moments says what to do."""
    try:
        moments: Moments = module(o)
    except (TypeError, AttributeError, NotImplementedError) as error:
        if _takes_tensors_only(module):  # put in after the network was made
            raise TypeError(_explanation(module, str(position))) from error
        if not type(module).__module__.startswith("torchnpn."):
            name = type(module).__name__
            error.add_note(f"Module {position} of npn.nn.Sequential, {name}, was given npn.Moments. {_ADVICE}")
        raise
    return moments


def _entering(a: Moments) -> Moments:
    """`a`, checked, and with finite gradients if any are asked for; sparse rows have none."""
    if not isinstance(a, Moments):
        return a
    check_variance("A network", a)
    if not (a.mean.requires_grad or (a.variance is not None and a.variance.requires_grad)):
        return a
    return Moments(entering(a.mean), None if a.variance is None else entering(a.variance))


def _on_cuda(modules: list[nn.Module], o: Moments) -> Moments:
    """The forward pass on a CUDA device: all layers without gradients, or each with its activation, in one kernel."""
    trains = torch.is_grad_enabled() or any(module.training for module in modules)
    chain = "it trains" if trains or not modules else chain_of(modules)
    if isinstance(chain, Chain):
        parts, beside = (
            [(layer.linear.weight, layer.linear.bias, layer.activation) for layer in layers] for layers in chain[1:]
        )
        if (predicted := kernels.network(o, parts, beside)) is not None:
            return predicted
    position = 0
    while position < len(modules):
        pair = modules[position : position + 2]
        fused = fused_activation(*pair) if len(pair) == 2 else None
        linear = pair[0]
        if fused is not None and isinstance(linear, Linear):
            parameters = linear.weight, linear.bias, linear.averages
            both = kernels.layer_with_activation(o, *parameters, fused.name, *fused.constants)
            if both is not None:
                o, position = both, position + 2
                continue
        o, position = _called(linear, o, position), position + 1
    return o


def _takes_tensors_only(module: object) -> bool:
    """Whether something is no module, or one of torch's own, which know tensors and not moments."""
    if not isinstance(module, nn.Module):
        return True
    return type(module).__module__.startswith("torch.nn.") and not isinstance(module, (nn.Identity, nn.Sequential))


def _check_module(position: str, module: object) -> None:
    """Raise if a module, or one in a row of torch's own, does not take moments."""
    if _takes_tensors_only(module):
        raise TypeError(_explanation(module, position))
    if type(module) is nn.Sequential:
        for i, inner in enumerate(module):
            _check_module(f"{position}.{i}", inner)


def _explanation(module: object, position: str) -> str:
    """What is wrong with a module at a position of a `Sequential`, and what to do."""
    name = type(module).__name__
    where = f"npn.nn.Sequential: module {position}, {_full_name(module)}, does not take npn.Moments."
    if _takes_tensors_only(module) and (ours := _COUNTERPARTS.get(name) or _of_the_same_name(name)):
        return f"{where} Use {ours} in its place."
    return f"{where} There is no counterpart in npn.nn. {_ADVICE}"


def _of_the_same_name(name: str) -> str:
    """How to make the layer of that name that `torchnpn.nn` has, if it has one."""
    layers = sys.modules[__package__]
    if name not in layers.__all__:
        return ""
    asked = inspect.signature(getattr(layers, name)).parameters.values()
    needed = [one.name for one in asked if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]
    return f"npn.nn.{name}({', '.join(needed)})"


def _full_name(module: object) -> str:
    cls = type(module)
    if not isinstance(module, nn.Module):
        return f"a {cls.__name__}"
    is_torchs = getattr(torch.nn, cls.__name__, None) is cls
    return f"torch.nn.{cls.__name__}" if is_torchs else f"{cls.__module__}.{cls.__qualname__}"


class Flatten(Layer):
    """(batch, …) to (batch, features)."""

    def forward(self, a: Moments | Tensor) -> Moments:
        a = as_moments(a)
        variance = None if a.variance is None else a.variance.expand_as(a.mean).flatten(1)
        return Moments(a.mean.flatten(1), variance)


class Complement(Layer):
    """(a, 1 - a) along the last dimension: lets networks of positive weights fall with their inputs, too."""

    def forward(self, a: Moments | Tensor) -> Moments:
        a = as_moments(a)
        mean, variance = entering(a.mean), None if a.variance is None else entering(a.variance)
        return Moments(torch.cat([mean, 1 - mean], -1), None if variance is None else torch.cat([variance] * 2, -1))


def with_masks(network: Sequential) -> Sequential:
    """The same modules, asked under random masks of hidden units: a `Dropout` after the first layer is `MaskedUnits`.

    One before it stays: what the inputs are is known. Weights are shared with `network`, not copied; modules of a
    `Sequential` inside it stand in the same row.
    """
    if not isinstance(network, nn.Sequential):
        raise TypeError(f"with_masks expects a Sequential, got {type(network).__name__}. Put its modules into one.")
    modules, before = [], True
    for module in _in_a_row(network):
        modules.append(module if before or type(module) is not Dropout else MaskedUnits(module.p))
        before = before and not isinstance(module, Linear)
    return Sequential(*modules).train(network.training)


def _in_a_row(network: nn.Sequential) -> Iterator[nn.Module]:
    for module in network:
        yield from _in_a_row(module) if isinstance(module, nn.Sequential) else [module]


def mlp(
    sizes: Sequence[int],
    family: str | type[ExponentialFamily] = "gaussian",
    activation: str | nn.Module | None = None,
    dropout: float = 0.0,
    *,
    output_family: str | type[ExponentialFamily] | None = None,
    posterior: Posterior | None = None,
    coordinates: CoordinateChoice = "usual",
    replicas: tuple[int, ...] = (),
    generator: torch.Generator | None = None,
) -> Sequential:
    """A fully connected network, `mlp([784, 800, 800, 10])`: linear layers with activations between them.

    Args:
        sizes: Number of inputs, of units in each hidden layer, of outputs.
        family: Family of weights and neurons. Poisson neurons have gamma weights, Bernoulli neurons Gaussian ones.
        activation: Name of a map, or a module, for the hidden layers; by default ReLU for Gaussian networks, and what
            the paper's Table 1 gives for the others.
        dropout: Probability of dropping a hidden unit in training.
        output_family: Family of the last layer's weights; by default that of the others. `"gaussian"` gives outputs of
            either sign, for classes.
        posterior: Of Gaussian weights, "mean_field" or "tied"; see `Linear`.
        coordinates: In which numbers weights are learnt, "usual", "proxy", "natural", …; see `RandomParameter`.
        replicas: Leading dimensions for independent copies.
        generator: Source of the initial values.
    """
    if len(sizes) < 2:
        raise ValueError(f"mlp expects at least two sizes (inputs, outputs), got {list(sizes)}.")
    neurons = families.resolve(family)
    weights = _weight_family(neurons)
    last = weights if output_family is None else _weight_family(families.resolve(output_family))
    gain = math.sqrt(2) if activation is None or activation in _RELU_LIKE else 1.0
    layers: list[nn.Module] = []
    common: dict[str, Any] = {
        "posterior": posterior, "coordinates": coordinates, "replicas": replicas, "generator": generator,
    }  # fmt: skip
    for i, (n_in, n_out) in enumerate(itertools.pairwise(sizes)):
        hidden = i < len(sizes) - 2
        scale = gain if hidden and weights is Gaussian and neurons is Gaussian else 1.0
        family = weights if hidden else last
        layers.append(Linear(n_in, n_out, True, family, gain=scale, **common))
        if hidden:
            layers.append(_activation(neurons, activation))
            if dropout:
                layers.append(Dropout(dropout))
    return Sequential(*layers)


def _weight_family(neurons: type[ExponentialFamily]) -> type[ExponentialFamily]:
    if neurons is Poisson:
        return families.Gamma
    return Gaussian if neurons is BernoulliFamily else neurons


def _activation(neurons: type[ExponentialFamily], activation: str | nn.Module | None) -> nn.Module:
    if isinstance(activation, nn.Module):
        return activation
    if activation is not None:
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation expects one of {', '.join(ACTIVATIONS)}, or a module, got {activation!r}.")
        return ACTIVATIONS[activation]()
    if neurons is Gaussian:
        return ACTIVATIONS["relu"]()
    if neurons is BernoulliFamily:
        return Bernoulli()
    return Power() if neurons is Beta else Saturating(neurons)
