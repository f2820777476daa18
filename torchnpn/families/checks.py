"""Checks at the border: what a constructor or `from_moments` of a family says to a wrong argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.constraints import Constraint

from torchnpn._torch import has_values
from torchnpn.moments import Moments

if TYPE_CHECKING:
    from torchnpn.families.parametric import Parametric


class Domain(NamedTuple):
    """The values a parameter may take, in words and as torch's constraint, and what to do about others."""

    words: str
    constraint: Constraint
    hint: str = ""


POSITIVE_HINT = "Numbers of any sign, such as raw network outputs, need a positive map (softplus, exp) first."
PROBABILITY_HINT = "Numbers of any sign, such as raw network outputs, need a map into (0, 1) (sigmoid) first."
_KEPT = 0.1  # relative error of the mean; half precision has three digits
UNIT_HINT = "Scale the data into the unit interval, or use a family on a wider range."

REAL = Domain("to be finite", constraints.real)
POSITIVE = Domain("> 0 and finite", constraints.positive, POSITIVE_HINT)
NONNEGATIVE = Domain("≥ 0 and finite", constraints.nonnegative, POSITIVE_HINT)
PROBABILITY = Domain("in [0, 1]", constraints.unit_interval, PROBABILITY_HINT)
_BELOW_1 = constraints.half_open_interval(0.0, 1.0)
PROBABILITY_BELOW_1 = Domain("in [0, 1)", _BELOW_1, PROBABILITY_HINT)


def make_tensors(member: Parametric) -> None:
    """Turn numbers and arrays of `member` into tensors; a known constant, which has a default, may stay a number."""
    family = type(member)
    for name in member.__match_args__:
        value = getattr(member, name)
        if not isinstance(value, Tensor):
            known = hasattr(family, name) and isinstance(value, (int, float))
            value = float(value) if known else as_tensor(value, f"{family.__name__}({name}=...)")
            object.__setattr__(member, name, value)


def check_parameters(member: Parametric) -> None:
    """Check types, shapes and values of the fields."""
    name = type(member).__name__
    parameters = {parameter: getattr(member, parameter) for parameter in member.__match_args__}
    for parameter, value in parameters.items():
        if isinstance(value, Tensor):
            check_floating(value, f"{name}'s parameter {parameter}")
    check_broadcast(name, parameters)
    for parameter, domain in zip(parameters, member.domain, strict=bool(member.domain)):
        _check_value(name, parameter, parameters[parameter], domain)


def check_known(family: type[Parametric], known: dict[str, Tensor | float]) -> None:
    """Check the values of known constants; those that a family does not have are for Python to refuse."""
    for parameter, domain in zip(family.__match_args__, family.domain, strict=bool(family.domain)):
        if parameter in known:
            _check_value(family.__name__, parameter, known[parameter], domain)


def check_moments(family: type[Parametric], x: Moments) -> None:
    """Check that `x` can be the moments of some random variable."""
    name = f"{family.__name__}.from_moments"
    if not isinstance(x, Moments):
        raise TypeError(f"{name} expects npn.Moments(mean, variance), got {type(x).__name__}.")
    parts = {part: value for part, value in x._asdict().items() if value is not None}
    for part, value in parts.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} expects tensors in Moments, got {part} of type {type(value).__name__}.")
        check_floating(value, f"{name}'s {part}")
    check_broadcast(name, parts)
    require(x.mean.isfinite(), x.mean, f"{name} expects a finite mean")
    if x.variance is not None:
        valid = (x.variance >= 0) & x.variance.isfinite()
        require(valid, x.variance, f"{name} expects a finite variance ≥ 0", POSITIVE_HINT)


def check_positive_mean(family: type[Parametric], x: Moments) -> None:
    require(x.mean > 0, x.mean, f"{family.__name__}.from_moments expects a mean > 0", POSITIVE_HINT)


def check_kept(family: type[Parametric], mean: Tensor, wanted: Tensor) -> None:
    """Raise where the nearest member of a positive family has another mean: its parameters are out of range."""
    if family.support is constraints.real:
        return
    kept = (mean.double() - wanted.double()).abs() <= _KEPT * wanted.double()
    what = f"{family.__name__}.from_moments expects a mean within the range of its parameters in {wanted.dtype}"
    require(kept, wanted, what, "Scale the data, or use a wider type.")


def check_floating(value: Tensor, what: str) -> None:
    if not value.is_floating_point():
        raise TypeError(f"{what} must be a floating-point tensor, got {value.dtype}. Convert it with .float().")


def check_broadcast(name: str, parts: dict[str, object]) -> None:
    shapes = {part: tuple(value.shape) for part, value in parts.items() if isinstance(value, Tensor)}
    if len(set(shapes.values())) == 1:  # the usual case; the general one loads a second's worth of torch's compiler
        return
    try:
        torch.broadcast_shapes(*shapes.values())
    except RuntimeError as error:
        listed = ", ".join(f"{part} of shape {shape}" for part, shape in shapes.items())
        raise ValueError(f"{name} expects shapes that broadcast together, got {listed}.") from error


def require(valid: Tensor, value: Tensor, expectation: str, hint: str = "") -> None:
    """Raise a ValueError that shows the first offending `value`, unless `valid` is true everywhere."""
    if torch.compiler.is_compiling() or not has_values(valid):
        return
    if bool(valid.all()):
        return
    bad = value.expand(valid.shape)[~valid]
    message = f"{expectation}, got {bad[0].item():g}"
    if valid.numel() > 1:
        message += f" ({bad.numel()} of {valid.numel()} values are wrong)"
    raise ValueError(f"{message}. {hint}".rstrip())


def _check_value(name: str, parameter: str, value: Tensor | float, domain: Domain) -> None:
    value = torch.as_tensor(value)
    valid = domain.constraint.check(value) & value.isfinite()
    require(valid, value, f"{name} expects {parameter} {domain.words}", domain.hint)


def as_tensor(value: object, what: str) -> Tensor:
    try:
        tensor = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{what} expects a tensor, an array or a number, got {type(value).__name__}.") from error
    return tensor.to(torch.get_default_dtype()) if isinstance(value, int) else tensor
