"""Random parameters: tensors of free numbers (see `coordinates`), and the family they stand for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import constraints

from torchnpn import families
from torchnpn._torch import version
from torchnpn.families import ExponentialFamily
from torchnpn.finite import entering, largest_log
from torchnpn.kernels import choose
from torchnpn.moments import Moments, TiedMoments
from torchnpn.nn.coordinates import CoordinateChoice, Coordinates, Posterior, check_posterior, coordinates, tied_moments


def initial_moments(
    family: type[ExponentialFamily], shape: tuple[int, ...], fan_in: int, generator: torch.Generator | None
) -> Moments:
    """Moments at which learning starts well, for a weight that is one of `fan_in` terms of a sum.

    Real weights: mean N(0, 1/fan_in), standard deviation 0.1/√fan_in, so that sums have unit scale. Positive weights:
    a sparse draw from Gamma(½) of mean 1/fan_in with coefficient of variation 0.3, so that units differ from the start
    and sums stay near one; counts have such a weight as their rate. Weights in [0, 1]: σ(N(0, 1)) with a tenth of the
    largest variance.
    """
    if family is families.Pareto:
        raise ValueError("Pareto weights are all above x_min = 1: their sums cannot start near one. Take gamma ones.")
    support = family.support
    noise = torch.randn(shape, generator=generator)
    if support is constraints.real:
        return Moments(noise / math.sqrt(fan_in), torch.full(shape, 0.01 / fan_in))
    if support in (constraints.unit_interval, constraints.boolean):
        mean = noise.sigmoid()
        return Moments(mean, 0.1 * mean * (1 - mean))
    mean = (noise**2 + 0.01) / fan_in  # the square of a standard normal variable is 2 · Gamma(½)
    variance = (0.3 * mean) ** 2
    return Moments(mean, mean + variance if support is constraints.nonnegative_integer else variance)


class _Cached(NamedTuple):
    """A value, and the addresses and versions of the free tensors it was computed from."""

    state: tuple[int, ...]
    value: Any
    free: list[Tensor]  # while these live, no other tensor can come to lie at their addresses


def _is_tracked(free: Tensor) -> bool:
    """Whether torch counts the changes of a tensor: not under transforms, nor of one made in inference mode."""
    return type(free) is nn.Parameter and not free.is_inference()


class RandomParameter(nn.Module):
    """A learnable tensor of independent random variables of one family, of shape (*replicas, *outputs, *inputs).

    Args:
        family: A family or its name.
        initial: Moments to start from.
        out_dims: How many dimensions belong to the outputs of a layer.
        in_dims: How many of the last dimensions belong to its inputs, over which the layer sums; none for a bias. By
            default all that are left, so that there are no replicas.
        posterior: "mean_field" for a standard deviation of each weight; "tied" for Gaussian weights whose standard
            deviations are an outer product, std_ij = r_i c_j of a number for each output and one for each input.
        coordinates: In which numbers the family is learnt: "usual", those that learn best; or the family's own
            parameters, "proxy", or its "natural" ones, as the paper has it; see `torchnpn.nn.coordinates`. Both may
            end in "_softplus" or "_shifted", which say how what must be positive is kept so.
    """

    def __init__(
        self,
        family: str | type[ExponentialFamily],
        initial: Moments,
        out_dims: int = 1,
        in_dims: int | None = None,
        posterior: Posterior = "mean_field",
        coordinates: CoordinateChoice = "usual",
    ) -> None:
        super().__init__()
        self.family = families.resolve(family)
        if not initial.mean.is_meta:  # a place holder for values to come
            self.family.check_moments(initial)
        dims = initial.mean.dim()
        self.out_dims = min(out_dims, dims)
        self.in_dims = dims - self.out_dims if in_dims is None else in_dims
        check_posterior(posterior, self.family, self.in_dims, coordinates)
        self.posterior, self.coordinates = posterior, coordinates
        self._coordinates = self._found_coordinates()
        for name, value in zip(self.names, self._coordinates.free(initial), strict=True):
            self.register_parameter(name, nn.Parameter(value.detach().clone()))
        self._cache: dict[str, _Cached] = {}
        self._workspaces: dict[str, Tensor] = {}

    def _found_coordinates(self) -> Coordinates:
        return coordinates(self.family, self.posterior, self.coordinates)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the learnable tensors."""
        return self._coordinates.names

    @property
    def learnable(self) -> list[Tensor]:
        """The tensors that an optimizer changes, in the order of their names."""
        return [getattr(self, name) for name in self.names]

    @property
    def free(self) -> list[Tensor]:
        """The usual coordinates: the learnable tensors themselves, or computed from other coordinates."""
        if self.coordinates == "usual":
            return self.learnable
        return list(coordinates(self.family).free(self.moments))

    @property
    def moments(self) -> Moments:
        """Mean and variance; in evaluation mode, without gradients, cached while the free tensors do not change.

        torch does not count the changes made by a fused optimizer, nor those through `.data`. Therefore nothing is
        cached in training mode, nor across a pass with gradients, nor across a call of `train()` or `eval()`.
        """
        if torch.compiler.is_compiling():
            return self._moments()
        moments: Moments = self.cached("moments", self._moments)
        return moments

    def _moments(self) -> Moments:
        return self._coordinates.moments(*map(entering, self.learnable))

    @property
    def tied_moments(self) -> TiedMoments:
        """For tied posteriors: the mean, and the factors of the variance; cached as `moments` are."""
        if torch.compiler.is_compiling():
            return self._tied_moments()
        tied: TiedMoments = self.cached("tied moments", self._tied_moments)
        return tied

    def _tied_moments(self) -> TiedMoments:
        return tied_moments(*map(entering, self.free))

    @torch.no_grad()
    def fill_std_(self, std: float) -> None:
        """Give all Gaussian variables this standard deviation."""
        if self.coordinates != "usual":
            mean = self.moments.mean
            values = self._coordinates.free(Moments(mean, torch.full_like(mean, std**2)))
            for tensor, value in zip(self.learnable, values, strict=True):
                tensor.copy_(value)
            return
        first, *others = self.free[1:]
        first.fill_(math.log(std))
        for other in others:
            other.zero_()

    def cached(self, name: str, compute: Callable[[], Any]) -> Any:
        """What `compute` makes of the free tensors, cached under a name as `moments` are."""
        free = self.learnable
        if self.training or torch.is_grad_enabled() or not all(map(_is_tracked, free)):
            self._cache.clear()
            return compute()
        state = tuple(number for t in free for number in (t.data_ptr(), version(t)))
        if name not in self._cache or self._cache[name].state != state:
            self._cache[name] = _Cached(state, compute(), [t.detach() for t in free])
        return self._cache[name].value

    @property
    def is_plain_on_cpu(self) -> bool:
        """Whether this is a mean-field Gaussian on a CPU, neither traced nor transformed: for `detached_moments`."""
        if self.posterior == "tied" or self.coordinates != "usual":
            return False
        return choose.is_plain_gaussian_on_cpu(self.family, self.free)

    @property
    def detached_moments(self) -> Moments:
        """For mean-field Gaussians: the mean itself, and the variance without a graph, always in the same memory."""
        self._cache.clear()
        log_std = self.free[1].detach()
        place = self.workspace("variance", log_std.shape, log_std.dtype)
        return Moments(self.free[0], torch.mul(log_std, 2, out=place).clamp_(max=largest_log(place.dtype)).exp_())

    def workspace(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Memory under a name, the same in every call, so that a CUDA graph may go on reading it."""
        found, device = self._workspaces.get(name), self.learnable[0].device
        if found is None or (found.shape, found.dtype, found.device) != (torch.Size(shape), dtype, device):
            found = self._workspaces[name] = torch.empty(shape, dtype=dtype, device=device)
        return found

    @property
    def distribution(self) -> ExponentialFamily:
        """The member of the family with these moments."""
        return self.family.project(self.moments)

    @property
    def shape(self) -> torch.Size:
        shape: torch.Size = getattr(self, self.names[0]).shape
        return shape

    @property
    def event_dims(self) -> int:
        """How many of the last dimensions belong to one network."""
        return self.out_dims + self.in_dims

    @property
    def replicas(self) -> tuple[int, ...]:
        """The leading dimensions: independent copies."""
        return tuple(self.shape[: len(self.shape) - self.event_dims])

    def train(self, mode: bool = True) -> RandomParameter:
        self._cache.clear()
        return super().train(mode)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_cache": {}, "_workspaces": {}, "_coordinates": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        super().__setstate__(state)
        self._coordinates = self._found_coordinates()

    def extra_repr(self) -> str:
        tied = ", tied" if self.posterior == "tied" else ""
        of = "" if self.coordinates == "usual" else f", coordinates={self.coordinates}"
        return f"{self.family.__name__.lower()}, shape={tuple(self.shape)}{tied}{of}"
