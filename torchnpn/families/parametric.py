"""What every distribution offers that is given by tensors of parameters, an exponential family or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.constraints import Constraint

from torchnpn._torch import register_pytree
from torchnpn.families import checks, crps, quantiles
from torchnpn.families.tails import Array, Tails
from torchnpn.finite import cast, clamped, entering
from torchnpn.moments import Moments

_BELOW_ONE = 1 - np.finfo(np.float64).epsneg
_ENDS = {
    constraints.positive: (0.0, np.inf),
    constraints.nonnegative: (0.0, np.inf),
    constraints.nonnegative_integer: (0.0, np.inf),
    constraints.unit_interval: (0.0, 1.0),
    constraints.boolean: (0.0, 1.0),
}


@dataclass(frozen=True, eq=False)
class Parametric:
    """Independent variables, one per element of the broadcast parameter tensors; a `Distribution` with its own border.

    Two doors lead in from outside and check what comes: the constructor and `from_moments`. Inside a network, where a
    look at the values would make a GPU wait, `unchecked` and `project` are their twins without checks.
    """

    domain: ClassVar[tuple[checks.Domain, ...]] = ()  # what each field may be, in the fields' order
    support: ClassVar[Constraint] = constraints.real  # where the density lives
    interior: ClassVar[float] = 0.5  # some point of the support
    __match_args__: ClassVar[tuple[str, ...]]  # the fields' names in order, as `dataclass` leaves them
    keeps_mean: ClassVar[bool] = True  # whether `from_moments` gives a member with the mean that was asked for

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        name = f"{cls.__module__}.{cls.__qualname__}"
        register_pytree(cls, name, _flatten, lambda leaves, constants: _unflatten(cls, leaves, constants))

    def __post_init__(self) -> None:
        checks.make_tensors(self)
        if not torch.compiler.is_compiling():  # a traced value cannot be looked at
            checks.check_parameters(self)

    @classmethod
    def unchecked(cls, *values: Any) -> Self:
        """The member with these field values, in the fields' order, taken as they are."""
        member = object.__new__(cls)
        for name, value in zip(cls.__match_args__, values, strict=True):
            object.__setattr__(member, name, value)
        return member

    # Moments ---------------------------------------------------------------------------------------------------

    @property
    def moments(self) -> Moments:
        """Mean and variance."""
        raise NotImplementedError(f"{type(self).__name__} needs a property `moments`.")

    @property
    def mean(self) -> Tensor:
        return self.moments.mean

    @property
    def variance(self) -> Tensor:
        variance = self.moments.variance
        assert variance is not None
        return variance

    @classmethod
    def from_moments(cls, x: Moments, **known: Tensor | float) -> Self:
        """The member with mean and variance `x` (f⁻¹ of the paper's Eq. 3), or the nearest one; checks `x` first.

        Args:
            x: Mean and variance; a point (`variance=None`) counts as variance zero.
            known: Constants of the family that are not learnt, such as Weibull's `shape`.
        """
        checks.check_known(cls, known)
        cls.check_moments(x, **known)
        exact = cls.project(Moments(x.mean.double(), None if x.variance is None else x.variance.double()), **known)
        member = exact._apply(lambda tensor: _nearest(tensor, x.mean.dtype))
        checks.check_parameters(member)
        if cls.keeps_mean:
            checks.check_kept(cls, member.mean, x.mean)
        return member

    @classmethod
    def project(cls, x: Moments, *_: Any, **known: Any) -> Self:
        """`from_moments` without checks: what a network calls."""
        if cls.from_moments.__func__ is Parametric.from_moments.__func__:  # type: ignore[attr-defined]
            raise NotImplementedError(f"{cls.__name__} needs a from_moments(x) that returns the member with moments x.")
        return cls.from_moments(x, **known)

    @classmethod
    def check_moments(cls, x: Moments, *_: Any, **known: Any) -> None:
        """Raise unless some member of the family has the moments `x`, or is nearest to them."""
        checks.check_moments(cls, x)
        if cls.support is constraints.positive:
            checks.check_positive_mean(cls, x)

    # A distribution's daily work -------------------------------------------------------------------------------

    def to_torch(self, validate_args: bool | None = None) -> torch.distributions.Distribution:
        """The same distribution as an object of `torch.distributions`."""
        raise NotImplementedError(f"torch.distributions has no {type(self).__name__}.")

    def to_scipy(self) -> Any:
        """The same distribution as a frozen object of `scipy.stats`; carries no gradient."""
        raise NotImplementedError(f"{type(self).__name__} has no counterpart in scipy.stats.")

    def log_prob(self, y: Tensor | float) -> Tensor:
        """Log density, or log probability for counts, of `y`; minus infinity outside the support, NaN for NaN.

        Computed in float64. Infinite only where the density is zero or infinite; else within the type's finite numbers.
        """
        y = cast(y, torch.float64) if isinstance(y, Tensor) and y.is_floating_point() else y
        y = torch.as_tensor(y, dtype=torch.float64, device=self.device)
        shape = torch.broadcast_tensors(y, *self._tensors())[0].shape
        wide, y = self.entered(torch.float64, shape), entering(y.expand(shape))
        inside = wide._inside(y) & y.isfinite()
        safe = torch.where(inside, y, self.interior)  # so that no NaN comes back through the branch not taken
        value = clamped(wide._log_density(safe), self.dtype)
        outside = torch.where(y.isnan(), y.detach(), -torch.inf).to(self.dtype)
        value = torch.where(inside, value, outside)
        pole = wide._pole(y)
        return value if pole is None else torch.where(pole, torch.inf, value)

    def _inside(self, y: Tensor) -> Tensor:
        """Where the density of `y` is not zero."""
        inside: Tensor = self.support.check(y)
        return inside

    def _pole(self, y: Tensor) -> Tensor | None:
        """Where the density of `y` is infinite."""
        return None

    def _log_density(self, y: Tensor) -> Tensor:
        return self.to_torch(validate_args=False).log_prob(y)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """`n` draws, shape (n, *batch_shape); from torch's global random state unless a generator is given.

        Drawn in float64; draws beyond the type are its largest finite number.
        """
        if generator is not None:
            seed = torch.randint(2**62, (), generator=generator, device=generator.device).item()
            generator = torch.Generator(self.device).manual_seed(int(seed))
        wide = self.to(torch.float64).detach()
        with torch.no_grad():
            shape = torch.Size([n, *wide.batch_shape])
            return clamped(wide._draw(shape, generator), self.dtype)

    def _draw(self, shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        """Draws of that shape in float64, n of each element; torch's own objects know the global random state only."""
        distribution = self.to_torch(validate_args=False).expand(self.batch_shape)
        if generator is None:
            draws: Tensor = distribution.sample(shape[:1])
            return draws
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(generator.initial_seed())
            draws = distribution.sample(shape[:1])
            return draws

    def cdf(self, y: Tensor | float) -> Tensor:
        """P(x ≤ y), in float64; carries no gradient."""
        return self._from_numpy(self.tails(float64(y)).below)

    def quantile(self, q: Tensor | float) -> Tensor:
        """The smallest y with P(x ≤ y) ≥ q, in float64; carries no gradient.

        For q = 0 and 1 that is the end of the support, which may be infinite; else at most the type's largest number.
        """
        levels = self._levels(q)
        shape = np.broadcast_shapes(levels.shape, tuple(self.batch_shape))
        levels = np.broadcast_to(levels, shape)
        with np.errstate(all="ignore"):
            inner = self._quantile(np.clip(levels, np.finfo(np.float64).smallest_subnormal, _BELOW_ONE))
        value = clamped(torch.as_tensor(np.array(np.clip(inner, *self._ends)), device=self.device), self.dtype)
        least, most = (self._from_numpy(np.broadcast_to(end, shape)) for end in self._extremes())
        is_least, is_most = (torch.as_tensor(levels == end, device=self.device) for end in (0, 1))
        return torch.where(is_least, least, torch.where(is_most, most, value))

    def tails(self, y: Array) -> Tails:
        """P(x ≤ y) and P(x > y) of float64 numbers, each with its own digits."""
        low, high = self._ends
        y = np.asarray(np.floor(y) if self.support.is_discrete else y, dtype=np.float64)
        shape = np.broadcast_shapes(y.shape, tuple(self.batch_shape))
        inside = np.broadcast_to((y >= low if self._has_least else y > low) & (y < high), shape)
        with np.errstate(all="ignore"):
            below, above = self._tails(np.broadcast_to(np.where(inside, y, self.interior), shape))
        outside = np.broadcast_to(y >= high, shape).astype(np.float64)
        unknown = np.where(np.isnan(y), np.nan, 0.0)
        return Tails(np.where(inside, below, outside) + unknown, np.where(inside, above, 1 - outside) + unknown)

    def log_mass(self, lower: Tensor, upper: Tensor) -> Tensor:
        """log P(lower < x ≤ upper), in float64; a family that targets of intervals are learnt with brings gradients."""
        low, high = (self.tails(float64(end)) for end in (lower, upper))
        mass = np.where(high.below < 0.5, high.below - low.below, low.above - high.above)
        with np.errstate(divide="ignore"):
            return torch.as_tensor(np.log(np.maximum(mass, 0.0)), device=self.device)

    def _tails(self, y: Array) -> Tails:
        """Of numbers in the support, which have the member's shape or a larger one."""
        twin = self.to_scipy()
        return Tails(twin.cdf(y), twin.sf(y))

    def _quantile(self, q: Array) -> Array:
        """For q in (0, 1), of the member's shape or a larger one: by search, if the family knows no inverse."""
        if self.support.is_discrete:
            mean, variance = (float64(moment) for moment in self.to(torch.float64).moments if moment is not None)
            return quantiles.search(self.tails, q, *quantiles.cantelli(mean, np.sqrt(variance), q), discrete=True)
        return quantiles.search(self.tails, q, self._ends[0])

    def crps(self, y: Tensor | float) -> Tensor:
        """Continuous ranked probability score ∫ (P(x ≤ t) - 1{y ≤ t})² dt of `y`, in float64; carries no gradient.

        In the units of y, and never negative: smaller is better. For counts `y` must be a count.
        """
        values = torch.as_tensor(y, dtype=torch.float64).detach().cpu()
        name = f"{type(self).__name__}.crps"
        checks.require(values.isfinite(), values, f"{name} expects finite numbers")
        if self.support.is_discrete:
            checks.require(self.support.check(values), values, f"{name} expects counts")
        shape = np.broadcast_shapes(tuple(values.shape), tuple(self.batch_shape))
        with np.errstate(all="ignore"):
            score = self._crps(np.broadcast_to(values.numpy(), shape))
        return clamped(torch.as_tensor(np.maximum(score, 0.0), device=self.device), self.dtype)

    def _crps(self, y: Array) -> Array:
        """Of numbers of the member's shape or a larger one: by quadrature, if the family has no closed form."""
        if self.support.is_discrete:
            low, high = (np.broadcast_to(float64(self.quantile(q)), y.shape) for q in (crps.TAIL, 1 - crps.TAIL))
            return crps.by_counting(self.tails, y, low, high)
        return crps.by_quantiles(lambda q: np.clip(self._quantile(q), *self._ends), self.tails(y), y)

    def scaled(self, shift: Tensor, scale: Tensor) -> Self:
        """The distribution of shift + scale · x for scale > 0.

        Raises:
            ValueError: Where that is not a member of the family.
        """
        if bool((shift != 0).any()) or bool((scale != 1).any()):
            raise ValueError(f"{type(self).__name__} cannot be shifted or scaled: the result is of no family.")
        return self

    @property
    def _ends(self) -> tuple[float, float]:
        """The ends of the support."""
        return _ENDS.get(self.support, (-np.inf, np.inf))

    @property
    def _has_least(self) -> bool:
        """Whether the lower end may have a probability of its own."""
        return self.support.is_discrete or self.support is constraints.nonnegative

    def _extremes(self) -> tuple[Array | float, Array | float]:
        """The quantiles of 0 and 1."""
        return self._ends

    def _levels(self, q: Tensor | float) -> Array:
        levels = torch.as_tensor(q, dtype=torch.float64)
        valid = (levels >= 0) & (levels <= 1)
        checks.require(valid, levels, f"{type(self).__name__}.quantile expects probabilities in [0, 1]")
        return float64(levels)

    # Tensors ---------------------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> torch.Size:
        first, *others = (v.shape for v in self._tensors())
        shape: torch.Size = first if all(other == first for other in others) else torch.broadcast_shapes(first, *others)
        return shape

    @property
    def dtype(self) -> torch.dtype:
        return self._tensors()[0].dtype

    @property
    def device(self) -> torch.device:
        return self._tensors()[0].device

    def __getitem__(self, rows: Any) -> Self:
        """The members at these places of the batch."""
        shape = self.batch_shape
        return self._apply(lambda tensor: tensor.expand(shape)[rows])

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """The same member with its tensors moved or cast as by `Tensor.to`."""
        return self._apply(lambda tensor: tensor.to(*args, **kwargs))

    def widened(self) -> Self:
        """The same member in at least float32, in which formulas are computed."""
        if self.dtype in (torch.float32, torch.float64):
            return self
        return self._apply(lambda tensor: cast(tensor, torch.float32))  # which keeps the gradients finite, too

    def entered(self, dtype: torch.dtype | None = None, shape: torch.Size | None = None) -> Self:
        """The same member where it enters a formula, in that type and shape: the gradient of each element is finite."""

        if dtype is None and shape is None and not any(tensor.requires_grad for tensor in self._tensors()):
            return self

        def enter(tensor: Tensor) -> Tensor:
            wide = tensor if dtype is None else cast(tensor, dtype)
            if not tensor.requires_grad or shape is None or wide.shape == shape:
                return entering(wide)
            return entering(entering(wide).expand(shape))

        return self._apply(enter)

    def detach(self) -> Self:
        """The same member cut from the autograd graph."""
        return self._apply(Tensor.detach)

    def _apply(self, change: Callable[[Tensor], Tensor]) -> Self:
        def changed(value: Any) -> Any:
            if isinstance(value, Parametric):
                return value._apply(change)
            return change(value) if isinstance(value, Tensor) else value

        return self.unchecked(*map(changed, _values(self)))

    def _tensors(self) -> list[Tensor]:
        parts = (v._tensors() if isinstance(v, Parametric) else [v] for v in _values(self))
        return [value for part in parts for value in part if isinstance(value, Tensor)]

    def _numpy(self) -> list[Any]:
        """Field values for scipy: float64 arrays, cut from the graph."""
        return [float64(v) for v in _values(self)]

    def _like(self, y: Tensor | float) -> Tensor:
        return torch.as_tensor(y, dtype=self.dtype, device=self.device)

    def _from_numpy(self, array: Any) -> Tensor:
        return torch.as_tensor(np.array(array), dtype=self.dtype, device=self.device)


def float64(y: Tensor | float) -> Array:
    array: Array = torch.as_tensor(y, dtype=torch.float64).detach().cpu().numpy()
    return array


def _nearest(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x in the type: beyond its largest number that number, and not zero for a positive x."""
    near = clamped(x, dtype)
    smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    return torch.where((near == 0) & (x > 0), smallest, near).to(dtype)


def _values(member: Parametric) -> list[Any]:
    return [getattr(member, name) for name in member.__match_args__]


def _flatten(member: Parametric) -> tuple[dict[str, Any], tuple[float | None, ...]]:
    """Leaves and structure for pytrees; a known constant that is a plain float belongs to the structure."""
    named = dict(zip(member.__match_args__, _values(member), strict=True))
    leaves = {name: value for name, value in named.items() if not isinstance(value, float)}
    return leaves, tuple(value if isinstance(value, float) else None for value in named.values())


def _unflatten(cls: type[Parametric], leaves: Any, constants: tuple[float | None, ...]) -> Parametric:
    rest = iter(leaves)
    return cls.unchecked(*(next(rest) if constant is None else constant for constant in constants))
