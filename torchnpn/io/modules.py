"""Networks and likelihoods as plain descriptions, `{"type": "Linear", "in_features": 2, …}`, and back.

What can be described stands in the table of `torchnpn.io.allowed`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import Module

from torchnpn import likelihoods, nn
from torchnpn.families import ExponentialFamily
from torchnpn.families import checks as family_checks
from torchnpn.io import checks
from torchnpn.io.allowed import ARGUMENTS, BY_NAME
from torchnpn.io.file import MOST_ELEMENTS
from torchnpn.io.sizes import check_activation, check_sizes
from torchnpn.moments import Moments

M = TypeVar("M", bound=Module)
DEEPEST_NETWORK = 16  # Sequentials within each other
MOST_MODULES = 1024


def describe(module: Module | None, path: str = "", depth: int = 0) -> dict[str, Any]:
    """The plain description of `module`, without its weights; a TypeError for what does not come with the library."""
    kind: Any = type(module)
    where = f" as {path!r}" if path else ""
    if type(module) is nn.Sequential:
        if depth >= DEEPEST_NETWORK:
            raise ValueError(
                f"A model file takes Sequentials nested up to {DEEPEST_NETWORK} deep. Flatten the network."
            )
        children = module._modules.items()  # not named_children: that leaves out a module that stands there twice
        layers = {name: describe(child, f"{path}.{name}".lstrip("."), depth + 1) for name, child in children}
        return {"type": "Sequential", "layers": layers}
    if kind not in ARGUMENTS:
        raise TypeError(
            f"A model file takes the modules of npn.nn and npn.likelihoods, got {kind.__module__}.{kind.__qualname__}"
            f"{where}. Save the weights alone, torch.save(network.state_dict(), path), and build the network in code."
        )
    values, later = {name: argument.read(module) for name, argument in ARGUMENTS[kind].items()}, kind.later
    said = {name: value for name, value in values.items() if name not in later or value != later[name]}
    return {"type": kind.__name__, **said}


def build(description: Any, tensors: Mapping[str, Tensor]) -> Module:
    """The module of a description with these tensors, in evaluation mode; a ValueError if they do not fit.

    The module is made without memory first. Weights take their place only if names and shapes agree, so that no
    description can ask for more memory than its tensors take already.
    """
    return load_weights_(without_memory(description), tensors)


def without_memory(description: Any) -> Module:
    """The module of a description, with tensors that have a shape alone; a ValueError where there cannot be one."""
    _check_count(description)
    module = _made(description, 0)
    check_sizes(module)
    return module


def load_weights_(module: M, tensors: Mapping[str, Tensor], dtype: torch.dtype | None = None) -> M:
    """Give a module without memory these tensors, of one type, as its weights, and put it into evaluation mode."""
    expected = module.state_dict()
    if different := sorted(expected.keys() ^ tensors.keys()):
        missing = "lacks" if different[0] in expected else "has no place for"
        raise ValueError(f"the network {missing} the tensor {checks.shown(different[0])}")
    for name, tensor in sorted(tensors.items()):
        if tensor.shape != expected[name].shape or not tensor.is_floating_point():
            raise ValueError(
                f"tensor {name} should be of shape {list(expected[name].shape)} and hold floating-point numbers, "
                f"got {list(tensor.shape)} of {tensor.dtype}"
            )
    kinds = {tensor.dtype for tensor in tensors.values()}
    if len(kinds) > 1 or (dtype is not None and kinds - {dtype}):
        one = "one type" if dtype is None else str(dtype)
        raise ValueError(f"all tensors of a network should be of {one}, got {', '.join(sorted(map(str, kinds)))}")
    module.load_state_dict(dict(tensors), assign=True)
    _check_weights(module)
    return module.eval()


def weights(module: Module) -> dict[str, Tensor]:
    """The weights of a module that `describe` takes, by their names in its `state_dict`."""
    state = module.state_dict()
    if len(list(module.parameters())) != len(state):
        raise ValueError(
            "A model file takes networks in which each layer has its own weights, got one that uses a layer twice, or "
            "holds tensors of its own. Save the weights alone, torch.save(network.state_dict(), path)."
        )
    return state


def lines(description: Mapping[str, Any], indent: str = "") -> list[str]:
    """A line of text for each module of a description."""
    arguments = {name: value for name, value in description.items() if name not in ("type", "layers") and value != []}
    listed = ", ".join(f"{name}={value}" for name, value in arguments.items())
    own = f"{indent}{description['type']}" + (f"({listed})" if listed else "")
    return [own, *(line for layer in description.get("layers", {}).values() for line in lines(layer, f"{indent}  "))]


def families_of(description: Mapping[str, Any]) -> set[str]:
    """Names of the families of weights, neurons and targets in a description."""
    own = {description["family"]} if "family" in description else set()
    return own.union(*map(families_of, description.get("layers", {}).values()))


def _check_count(description: Any) -> None:
    """Raise where there are so many modules, those in Sequentials too, that making them would take long."""
    waiting, count = [description], 0
    while waiting:
        count += 1
        layers = one.get("layers") if isinstance(one := waiting.pop(), dict) else None
        waiting += layers.values() if isinstance(layers, dict) else []
    if count > MOST_MODULES:
        raise ValueError(f"a model should have at most {MOST_MODULES} modules, got {count}")


def _made(description: Any, depth: int) -> Module:
    name = checks.mapping("a module", description).get("type")
    if not isinstance(name, str) or name not in BY_NAME:
        raise ValueError(f"there is no module {checks.shown(name)} in npn.nn or npn.likelihoods")
    kind: Any = BY_NAME[name]
    if kind is nn.Sequential:
        return _sequential(description, depth)
    table = ARGUMENTS[kind]
    description = checks.with_keys(name, {**kind.later, **description}, ("type", *table))
    arguments = {key: argument.check(f"{name}'s {key}", description[key]) for key, argument in table.items()}
    if kind is likelihoods.Direct:
        arguments |= _known_constants(arguments["family"], arguments.pop("known"))
    elements = [value for value in arguments.values() if type(value) is int] + list(arguments.get("replicas", ()))
    if math.prod(elements) > MOST_ELEMENTS:
        raise ValueError(f"{name} of sizes {elements} is too large")
    with torch.device("meta"):
        made: Module = kind(**arguments)
    check_activation(name, made)
    return made


def _sequential(description: Any, depth: int) -> nn.Sequential:
    if depth >= DEEPEST_NETWORK:
        raise ValueError(f"Sequentials are nested more than {DEEPEST_NETWORK} deep")
    layers = checks.with_keys("Sequential", description, ("type", "layers"))["layers"]
    made = nn.Sequential()
    for name, layer in checks.mapping("Sequential's layers", layers).items():
        checks.text("a layer's name", name)
        if "." in name or hasattr(made, name):
            raise ValueError(f"{checks.shown(name)} cannot be the name of a layer")
        made.add_module(name, _made(layer, depth + 1))
    return made


def _known_constants(family: type[ExponentialFamily], known: dict[str, Any]) -> dict[str, float]:
    names = {field.name for field in fields(family) if field.default is not MISSING}
    if unknown := known.keys() - names:
        raise ValueError(f"{family.__name__} has no constant {checks.shown(min(unknown))}")
    constants = {name: checks.number(f"{family.__name__}'s {name}", value) for name, value in known.items()}
    family_checks.check_known(family, dict(constants))
    return constants


def _check_weights(module: Module) -> None:
    """Raise where a weight's mean or variance is not finite, or beyond all that training finds.

    An infinite logarithm alone may be a variance of zero.
    """
    of_weights: set[int] = set()
    with torch.no_grad():
        for name, parameter in module.named_modules():
            if isinstance(parameter, nn.RandomParameter):
                of_weights.update(map(id, parameter.learnable))
                _check_moments(name, parameter.moments)
            if (
                isinstance(parameter, nn.Linear)
                and parameter.averages
                and not parameter.weight.moments.mean.sum(-1).all()
            ):
                raise ValueError(f"{name} has weights that are all zero, whose average is not defined")
    for name, tensor in module.named_parameters():
        if id(tensor) not in of_weights and not bool((tensor.abs() <= checks.LARGEST_NUMBER).all()):
            raise ValueError(f"{name} should hold finite numbers of at most ±{checks.LARGEST_NUMBER:g}")


def _check_moments(name: str, moments: Moments) -> None:
    mean, variance = (part.double() for part in moments if part is not None)  # in float16 the bounds are infinite
    if not bool(mean.isfinite().all() & variance.isfinite().all()):
        raise ValueError(f"{name} has a mean or a variance that is not finite: did training diverge?")
    if not bool((mean.abs() <= checks.LARGEST_NUMBER).all() & (variance <= checks.LARGEST_NUMBER**2).all()):
        raise ValueError(f"{name} has a mean or a standard deviation above {checks.LARGEST_NUMBER:g}")
