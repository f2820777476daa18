"""The state of an optimizer in one form, whichever engine keeps it: by the names of parameters, in torch's words.

numpy's Adam, the graphs of a GPU, its fused kernels and torch's own optimizers keep the same numbers in different
places. In this form a training that was stopped in one of them goes on in another.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from torchnpn.training.recipe import ADAM, Rule, half_cosine

AVERAGES = FIRST_AVERAGE, _ = "exp_avg", "exp_avg_sq"  # torch's names in the state of Adam
DELTAS = "acc_delta", "square_avg"  # and of AdaDelta, in the order of `kernels.step_`
_HOW = ("params", "capturable", "differentiable", "foreach", "fused")  # entries of a group that say how, not what


class Place(NamedTuple):
    """A parameter of the network or of the likelihood."""

    name: str
    shape: torch.Size


Places = Mapping[int, list[Place]]
"""By the id of what is optimized, the parameters that it is: itself, or those that lie in it one after the other."""


class Averages(NamedTuple):
    """The two averages of one parameter (`kernels.step_`), in the memory of the engine that has them."""

    parameter: Tensor
    first: Tensor  # of the parameter's shape
    second: Tensor


class OptimizerState(NamedTuple):
    """What a checkpoint holds of an optimizer."""

    tensors: dict[str, Tensor]  # by the parameter's name, a slash, and torch's word
    settings: Any = None  # plain values of torch's groups and scheduler; None where averages are all


def words_of(rule: Rule) -> tuple[str, str]:
    """torch's names of a rule's averages."""
    return AVERAGES if rule is ADAM else DELTAS


def places_of(learnt: nn.Module) -> dict[int, list[Place]]:
    """The places of all parameters."""
    return {id(p): [Place(name, p.shape)] for name, p in learnt.named_parameters()}


def state_of_torch(optimizer: Optimizer, scheduler: LRScheduler | None, places: Places) -> OptimizerState:
    """Of an optimizer of torch.

    Raises:
        TypeError: If it or its scheduler holds anything but tensors and plain values.
    """
    tensors: dict[str, Tensor] = {}
    values: dict[str, Any] = {}
    for parameter, entries in optimizer.state.items():
        for word, value in entries.items():
            whole = isinstance(value, Tensor) and value.shape == parameter.shape
            sizes = [place.shape.numel() for place in places[id(parameter)]]
            parts = value.reshape(-1).split(sizes) if whole else [value] * len(sizes)
            for place, part in zip(places[id(parameter)], parts, strict=True):
                found = part.view(place.shape) if whole else part
                (tensors if isinstance(value, Tensor) else values)[f"{place.name}/{word}"] = found
    return OptimizerState(tensors, _settings(optimizer, scheduler, values))


def _settings(optimizer: Optimizer, scheduler: LRScheduler | None, values: dict[str, Any]) -> Any:
    """Values of the state that are no tensors, and those of groups and scheduler, all of them plain."""
    groups = [{word: v for word, v in group.items() if word not in _HOW} for group in optimizer.param_groups]
    scheduled = None if scheduler is None else scheduler.state_dict()
    return _plain({"values": values, "groups": groups, "scheduler": scheduled})


def load_torch_(
    optimizer: Optimizer, scheduler: LRScheduler | None, state: OptimizerState, places: Places, taken: int, total: int
) -> None:
    """Fill an optimizer that was made for the same recipe."""
    settings = None if state.settings is None else _restored(state.settings)
    stored = state.tensors if settings is None else {**state.tensors, **settings["values"]}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    _check_shapes(stored, [place for parameter in parameters for place in places[id(parameter)]])
    entries: dict[int, dict[str, Any]] = {}
    for index, parameter in enumerate(parameters):
        here = places[id(parameter)]
        words = [name.removeprefix(f"{here[0].name}/") for name in stored if name.startswith(f"{here[0].name}/")]
        if words:
            entries[index] = {word: _gathered(stored, here, word, parameter) for word in words}
            if settings is None:  # of an engine that counts steps for all parameters at once
                entries[index]["step"] = torch.tensor(float(taken))
    optimizer.load_state_dict({**optimizer.state_dict(), "state": entries})
    if settings is not None:
        fresh = _restored(_settings(optimizer, scheduler, {}))
        _check_alike({**settings, "values": {}}, fresh)
        for group, values in zip(optimizer.param_groups, settings["groups"], strict=True):
            own = {word: group[word].fill_(v) for word, v in values.items() if isinstance(group[word], Tensor)}
            group.update({**values, **own})
        if scheduler is not None:
            scheduler.load_state_dict(settings["scheduler"])
    elif scheduler is not None:
        _load_cosine_(optimizer, scheduler, taken, total)


def _gathered(stored: Mapping[str, Any], places: list[Place], word: str, parameter: Tensor) -> Any:
    """One entry of the state of what is optimized, from those of the parameters that it is."""
    first = stored[f"{places[0].name}/{word}"]
    whole = isinstance(first, Tensor) and first.shape == places[0].shape
    if word not in AVERAGES and (not whole or (first.dim() == 0 and len(places) > 1)):
        return first
    return torch.cat([stored_tensor(stored, place, word).reshape(-1) for place in places]).view(parameter.shape)


def _check_shapes(stored: Mapping[str, Any], places: list[Place]) -> None:
    """Raise unless each entry is of a parameter, and of one kind for all of them, such as its shape or a number."""
    shapes, words = dict(places), defaultdict[str, set[str]](set)
    kinds: dict[str, set[str]] = {word: {"shape"} for word in AVERAGES} | {"step": {"number"}}
    for name, value in stored.items():
        owner, _, word = name.rpartition("/")
        if owner not in shapes:
            raise ValueError(f"the optimizer changes no parameter {owner[:80]!r}")
        words[owner].add(word)
        if isinstance(value, Tensor) and not value.numel() == shapes[owner].numel() == 1:
            kind = "shape" if value.shape == shapes[owner] else "number" if value.numel() == 1 else "other"
            kinds.setdefault(word, set()).add(kind)
    if len(set(map(frozenset, words.values()))) > 1:
        raise ValueError("the optimizer's entries are not the same of all parameters")
    if different := [word for word, found in kinds.items() if len(found) > 1]:
        raise ValueError(f"the optimizer's entries {', '.join(different)[:80]} are of wrong shapes")


def stored_tensor(tensors: Mapping[str, Any], place: Place, word: str) -> Tensor:
    """One tensor of the state; zeros of a parameter that never had a gradient."""
    found = tensors.get(f"{place.name}/{word}")
    if found is None:
        return torch.zeros(place.shape)
    if not isinstance(found, Tensor) or found.shape != place.shape or not found.is_floating_point():
        raise ValueError(f"{place.name}/{word} should hold numbers of shape {list(place.shape)}")
    return found


def _check_alike(stored: Any, fresh: Any) -> None:
    """Raise unless stored values are of the types of those that the recipe begins with, at every depth."""
    numbers = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in (stored, fresh))
    if not numbers and fresh is not None and type(stored) is not type(fresh):
        raise ValueError(f"the optimizer should have a value of type {type(fresh).__name__}, got {str(stored)[:80]!r}")
    if isinstance(fresh, dict):
        if stored.keys() != fresh.keys():
            raise ValueError(f"the optimizer should have values for {', '.join(map(str, fresh))[:200]}")
        for key, one in fresh.items():
            _check_alike(stored[key], one)
    elif isinstance(fresh, (list, tuple)):
        for mine, one in zip(stored, fresh, strict=True):
            _check_alike(mine, one)


def _load_cosine_(optimizer: Optimizer, scheduler: LRScheduler, taken: int, total: int) -> None:
    """The recipe's default scheduler after so many steps."""
    share = float(half_cosine(taken, total))
    for group, base in zip(optimizer.param_groups, scheduler.base_lrs, strict=True):
        group["lr"] = base * share
    scheduler.last_epoch = taken
    scheduler._last_lr = [group["lr"] for group in optimizer.param_groups]


def _plain(value: Any) -> Any:
    """Plain values as JSON has them: what it does not know is an object with the name of its type."""
    if isinstance(value, Tensor) and value.dim() == 0:
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, tuple):
        return {"tuple": [_plain(one) for one in value]}
    if isinstance(value, Mapping):
        return {"dict": [[_plain(key), _plain(one)] for key, one in value.items()]}
    raise TypeError(
        f"A checkpoint holds tensors and plain values of an optimizer and its scheduler, got {type(value).__name__}. "
        "Train without checkpoint=, or choose another optimizer or scheduler."
    )


def _restored(value: Any) -> Any:
    """The inverse of `_plain`."""
    if isinstance(value, list):
        return [_restored(one) for one in value]
    match value:
        case {"float": str(text)}:
            return float(text)
        case {"tuple": list(parts)}:
            return tuple(_restored(one) for one in parts)
        case {"dict": list(pairs)}:
            return {_restored(key): _restored(one) for key, one in pairs}
        case dict():
            raise ValueError("its optimizer has values of an unknown type")
    return value
