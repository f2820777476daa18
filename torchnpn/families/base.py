"""What every exponential family offers: p(x | η) = h(x) exp(η·u(x) - A(η)) (paper, Section 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.distributions.constraints import Constraint
from torch.utils import _pytree as pytree

from torchnpn.families import checks
from torchnpn.moments import Moments


@dataclass(frozen=True, eq=False)
class ExponentialFamily:
    """Base of all families: independent variables, one per element of the broadcast parameter tensors.

    Two doors lead in from outside and check what comes: the constructor and `from_moments`. Inside a network, where a
    look at the values would make a GPU wait, `unchecked` and `project` are their twins without checks.

    A family of your own is a frozen dataclass with `natural`, `log_partition` and `from_moments`. Its moments, its
    activation (Theorem 1) and its KL then follow from derivatives and differences of A(η), in float64.
    """

    domain: ClassVar[tuple[checks.Domain, ...]] = ()  # what each field may be, in the fields' order
    support: ClassVar[Constraint] = constraints.real  # where the density lives
    interior: ClassVar[float] = 0.5  # some point of the support
    __match_args__: ClassVar[tuple[str, ...]]  # the fields' names in order, as `dataclass` leaves them
    statistic: ClassVar[int] = 0  # index i of the u_i(x) of Theorem 1; u_i(x) = x where `moments` is inherited

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        pytree.register_pytree_node(
            cls,
            _flatten,
            lambda leaves, constants: _unflatten(cls, leaves, constants),
            flatten_with_keys_fn=_flatten_with_keys,
            serialized_type_name=f"{cls.__module__}.{cls.__qualname__}",
        )

    def __post_init__(self) -> None:
        checks.make_tensors(self)
        if not torch.compiler.is_compiling():  # a traced value cannot be looked at
            checks.check_parameters(self)

    @classmethod
    def unchecked(cls, *values: Tensor | float) -> Self:
        """The member with these field values, in the fields' order, taken as they are."""
        member = object.__new__(cls)
        for name, value in zip(cls.__match_args__, values, strict=True):
            object.__setattr__(member, name, value)
        return member

    # Moments ---------------------------------------------------------------------------------------------------

    @property
    def moments(self) -> Moments:
        """Mean and variance: ∂A/∂η_i and ∂²A/∂η_i², where u_i(x) = x."""
        first, second = derivatives(self.log_partition, _double(self.natural), self.statistic)
        return Moments(first.to(self.dtype), second.to(self.dtype))

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
        member = cls.project(x, **known)
        checks.check_parameters(member)
        return member

    @classmethod
    def project(cls, x: Moments, *_: Any, **known: Any) -> Self:
        """`from_moments` without checks: what a network calls."""
        if cls.from_moments.__func__ is ExponentialFamily.from_moments.__func__:  # type: ignore[attr-defined]
            raise NotImplementedError(f"{cls.__name__} needs a from_moments(x) that returns the member with moments x.")
        return cls.from_moments(x, **known)

    @classmethod
    def check_moments(cls, x: Moments, *_: Any, **known: Any) -> None:
        """Raise unless some member of the family has the moments `x`, or is nearest to them."""
        checks.check_moments(cls, x)

    # Exponential-family form -----------------------------------------------------------------------------------

    @property
    def natural(self) -> tuple[Tensor, ...]:
        """Natural parameters η."""
        raise NotImplementedError(f"{type(self).__name__} needs a property `natural`: the tuple of its η.")

    def log_partition(self, *eta: Tensor) -> Tensor:
        """Log-partition function A(η); a static method where the family has no known constants."""
        raise NotImplementedError(f"{type(self).__name__} needs a method `log_partition(*eta)`.")

    def log_mean_exp(self, t: float) -> Tensor:
        """Δ(t) = log E exp(-t u_i(x)) = A(η - t e_i) - A(η), all that Theorem 1 asks for."""
        eta = _double(self.natural)
        return (self.log_partition(*_shifted(eta, self.statistic, t)) - self.log_partition(*eta)).to(self.dtype)

    def log_mean_exp_gap(self, t: float) -> Tensor:
        """δ(t) = Δ(2t) - 2Δ(t) ≥ 0, the log of E exp(-2t u) / (E exp(-t u))²."""
        eta, i = _double(self.natural), self.statistic
        once, twice = (self.log_partition(*_shifted(eta, i, k * t)) for k in (1, 2))
        gap = twice - 2 * once + self.log_partition(*eta)
        return gap.clamp_min(0.0).to(self.dtype)  # A is convex: what falls below zero is rounding

    # A distribution's daily work -------------------------------------------------------------------------------

    def to_torch(self, validate_args: bool | None = None) -> Distribution:
        """The same distribution as an object of `torch.distributions`."""
        raise NotImplementedError(f"torch.distributions has no {type(self).__name__}.")

    def to_scipy(self) -> Any:
        """The same distribution as a frozen object of `scipy.stats`; carries no gradient."""
        raise NotImplementedError(f"{type(self).__name__} has no counterpart in scipy.stats.")

    def log_prob(self, y: Tensor | float) -> Tensor:
        """Log density, or log probability for counts, of `y`; minus infinity outside the support."""
        wide = self.widened()
        y = wide._like(y)
        inside = wide._inside(y)
        safe = torch.where(inside, y, self.interior)  # so that no NaN comes back through the branch not taken
        return torch.where(inside, wide._log_density(safe), -torch.inf).to(self.dtype)

    def _inside(self, y: Tensor) -> Tensor:
        inside: Tensor = self.support.check(y)
        return inside

    def _log_density(self, y: Tensor) -> Tensor:
        return self.to_torch(validate_args=False).log_prob(y)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """`n` draws, shape (n, *batch_shape); from torch's global random state unless a generator is given."""
        if generator is None:
            return self._draw(n)
        seed = torch.randint(2**62, (), generator=generator, device=generator.device).item()
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(int(seed))
            return self._draw(n)

    def _draw(self, n: int) -> Tensor:
        with torch.no_grad():
            distribution = self.widened().to_torch(validate_args=False).expand(self.batch_shape)
            draws: Tensor = distribution.sample(torch.Size([n]))
            return draws.to(self.dtype)

    def cdf(self, y: Tensor | float) -> Tensor:
        """P(x ≤ y), by scipy; carries no gradient."""
        return self._from_numpy(self.to_scipy().cdf(self._like(y).detach().cpu().double().numpy()))

    def quantile(self, q: Tensor | float) -> Tensor:
        """The smallest y with P(x ≤ y) ≥ q, by scipy; carries no gradient."""
        q = self._like(q)
        checks.require((q >= 0) & (q <= 1), q, f"{type(self).__name__}.quantile expects probabilities in [0, 1]")
        return self._from_numpy(self.to_scipy().ppf(q.detach().cpu().double().numpy()))

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

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """The same member with its tensors moved or cast as by `Tensor.to`."""
        return self._apply(lambda tensor: tensor.to(*args, **kwargs))

    def widened(self) -> Self:
        """The same member in at least float32, in which formulas are computed."""
        return self if self.dtype in (torch.float32, torch.float64) else self.to(torch.float32)

    def detach(self) -> Self:
        """The same member cut from the autograd graph."""
        return self._apply(Tensor.detach)

    def _apply(self, change: Callable[[Tensor], Tensor]) -> Self:
        return self.unchecked(*(change(v) if isinstance(v, Tensor) else v for v in _values(self)))

    def _tensors(self) -> list[Tensor]:
        return [value for value in _values(self) if isinstance(value, Tensor)]

    def _numpy(self) -> list[Any]:
        """Field values for scipy: float64 arrays, cut from the graph."""
        return [v.detach().cpu().double().numpy() if isinstance(v, Tensor) else v for v in _values(self)]

    def _like(self, y: Tensor | float) -> Tensor:
        return torch.as_tensor(y, dtype=self.dtype, device=self.device)

    def _from_numpy(self, array: Any) -> Tensor:
        return torch.as_tensor(array, dtype=self.dtype, device=self.device)


def zero_if_point(x: Moments) -> Tensor:
    """The variance of `x` as a tensor: zeros for a point."""
    return torch.zeros_like(x.mean) if x.variance is None else x.variance


def derivatives(A: Callable[..., Tensor], eta: tuple[Tensor, ...], i: int) -> tuple[Tensor, Tensor]:
    """∂A/∂η_i and ∂²A/∂η_i², element by element, with gradients of their own."""

    def total(eta_i: Tensor) -> Tensor:
        return A(*eta[:i], eta_i, *eta[i + 1 :]).sum()  # an element of A depends on its own element of η alone

    def total_first(eta_i: Tensor) -> tuple[Tensor, Tensor]:
        first = torch.func.grad(total)(eta_i)
        return first.sum(), first

    second, first = torch.func.grad(total_first, has_aux=True)(eta[i])
    return first, second


def _double(eta: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(torch.broadcast_tensors(*(e.double() for e in eta)))


def _shifted(eta: tuple[Tensor, ...], i: int, t: float) -> tuple[Tensor, ...]:
    return (*eta[:i], eta[i] - t, *eta[i + 1 :])


def _values(member: ExponentialFamily) -> list[Any]:
    return [getattr(member, name) for name in member.__match_args__]


def _flatten(member: ExponentialFamily) -> tuple[list[Any], tuple[float | None, ...]]:
    """Leaves and structure for pytrees; a known constant that is a plain float belongs to the structure."""
    values = _values(member)
    leaves = [value for value in values if not isinstance(value, float)]
    return leaves, tuple(value if isinstance(value, float) else None for value in values)


def _flatten_with_keys(member: ExponentialFamily) -> tuple[list[tuple[Any, Any]], tuple[float | None, ...]]:
    leaves, constants = _flatten(member)
    names = [name for name, constant in zip(member.__match_args__, constants, strict=True) if constant is None]
    return [(pytree.GetAttrKey(name), leaf) for name, leaf in zip(names, leaves, strict=True)], constants


def _unflatten(cls: type[ExponentialFamily], leaves: Any, constants: tuple[float | None, ...]) -> ExponentialFamily:
    rest = iter(leaves)
    return cls.unchecked(*(next(rest) if constant is None else constant for constant in constants))
