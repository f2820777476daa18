"""Linear layers whose weights and biases are distributions."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.distributions import constraints

from torchnpn import families, kernels
from torchnpn.families import ExponentialFamily, Gaussian
from torchnpn.moments import Moments
from torchnpn.nn.coordinates import CoordinateChoice, Posterior, default_posterior
from torchnpn.nn.layer import Layer, as_moments, check_sizes
from torchnpn.nn.parameter import RandomParameter, initial_moments


class Linear(Layer):
    """o = a Wᵀ + b for independent random a, W, b (paper, Eqs. 1-2; weights in torch's order).

    Weights in [0, 1] (beta, Bernoulli) are divided by the sum of their means over the inputs: o is then a weighted
    average of the inputs and stays in [0, 1] with them; such a layer has no bias.

    Args:
        in_features: Number of inputs.
        out_features: Number of outputs.
        bias: Whether to add a random bias, of the same family as the weights.
        family: Family of the weights, by class or name.
        gain: Factor on the initial means; √2 suits ReLU-like activations.
        posterior: "mean_field", a standard deviation for each weight; or "tied" for Gaussian weights, whose standard
            deviations are then an outer product, std_ij = r_i c_j: half the numbers to learn, and a matrix product
            less. By default what `nn.default_posterior` says.
        coordinates: In which numbers weights and biases are learnt; see `RandomParameter`. Other than the "usual" ones
            they train by autograd, which is slower.
        replicas: Leading dimensions: independent copies of the layer, computed at once.
        generator: Source of the initial values.
    """

    arguments: ClassVar = {
        "in_features": int, "out_features": int, "bias": bool, "family": ExponentialFamily, "replicas": tuple,
        "posterior": Posterior, "coordinates": CoordinateChoice,
    }  # fmt: skip
    later: ClassVar = {"posterior": "mean_field", "coordinates": "usual"}

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        family: str | type[ExponentialFamily] = "gaussian",
        *,
        gain: float = 1.0,
        posterior: Posterior | None = None,
        coordinates: CoordinateChoice = "usual",
        replicas: tuple[int, ...] = (),
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_sizes("Linear", in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        family = families.resolve(family)
        self.averages = family.support in (constraints.unit_interval, constraints.boolean)
        weight = initial_moments(family, (*replicas, out_features, in_features), in_features, generator)
        if gain != 1.0 and not self.averages:
            weight = gain * weight
        if posterior is None:
            posterior = default_posterior(family) if coordinates == "usual" else "mean_field"
        self.weight = RandomParameter(family, weight, in_dims=1, posterior=posterior, coordinates=coordinates)
        self.bias: RandomParameter | None = None
        if bias and not self.averages:
            initial = _initial_bias(family, (*replicas, out_features), in_features, generator)
            self.bias = RandomParameter(family, initial, in_dims=0, coordinates=coordinates)

    @classmethod
    def from_torch(cls, linear: nn.Linear, std: float | None = None) -> Linear:
        """The Gaussian layer whose weights and biases have the values of a `torch.nn.Linear` as their means.

        Args:
            linear: The layer to take over; its type and device are kept, its tensors are copied.
            std: Standard deviation of every weight and bias; by default 0.1/√in_features, as for a new layer.
        """
        if not isinstance(linear, nn.Linear):
            raise TypeError(f"Linear.from_torch expects a torch.nn.Linear, got {type(linear).__name__}.")
        std = 0.1 / math.sqrt(linear.in_features) if std is None else std
        if not 0 < std < math.inf:
            raise ValueError(f"Linear.from_torch expects a finite standard deviation std > 0, got {std!r}.")
        if not all(parameter.isfinite().all() for parameter in linear.parameters()):
            raise ValueError("Linear.from_torch expects finite weights and biases, got NaN or infinite ones.")
        generator = torch.Generator().manual_seed(0)  # torch's own random state is left alone
        layer = cls(linear.in_features, linear.out_features, bias=linear.bias is not None, generator=generator)
        layer = layer.to(linear.weight)  # type and device
        with torch.no_grad():
            for ours, values in ((layer.weight, linear.weight), (layer.bias, linear.bias)):
                if ours is not None:
                    ours.free[0].copy_(values)
                    ours.fill_std_(std)
        return layer

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Takes the `weight` and `bias` of a `torch.nn.Linear` too: as means; the standard deviations stay."""
        for name, ours in (("weight", self.weight), ("bias", self.bias)):
            if ours is None or prefix + name not in state_dict:
                continue
            if ours.family is not Gaussian:
                raise ValueError(
                    f"{prefix}{name} is a tensor of a torch.nn.Linear, with values of either sign: load it into a "
                    f"Linear of Gaussian weights, not of {ours.family.__name__} ones."
                )
            if ours.coordinates != "usual":
                raise ValueError(
                    f"{prefix}{name} is a tensor of means: load it into a Linear of the usual coordinates."
                )
            values = state_dict.pop(prefix + name), *(log_std.detach().clone() for log_std in ours.free[1:])
            state_dict |= {f"{prefix}{name}.{part}": one for part, one in zip(ours.names, values, strict=True)}
        super()._load_from_state_dict(state_dict, prefix, *args)

    @property
    def family(self) -> type[ExponentialFamily]:
        """Family of the weights."""
        return self.weight.family

    @property
    def replicas(self) -> tuple[int, ...]:
        """Leading dimensions of weights and biases."""
        return self.weight.replicas

    @property
    def posterior(self) -> Posterior:
        """That of the weights."""
        return self.weight.posterior

    @property
    def coordinates(self) -> CoordinateChoice:
        """Those of weights and biases."""
        return self.weight.coordinates

    def forward(self, a: Moments | Tensor) -> Moments:  # (*replicas, batch, in) -> (*replicas, batch, out)
        return kernels.layer(as_moments(a), self.weight, self.bias, self.averages)


class MeanAndNoise(Layer):
    """Two linear layers on the same features, their outputs side by side: `targets` means, then `targets` noises.

    The second learns what the features say about the noise, and no gradient of it reaches them: features are formed by
    the mean alone. The second starts at zero, noise that is the same everywhere.
    For `likelihoods.HeteroscedasticGaussian`.

    Args:
        in_features: Number of features.
        targets: Number of targets.
        posterior: Of the weights of both layers; see `Linear`.
        replicas: Leading dimensions: independent copies of the layer, computed at once.
        generator: Source of the initial values.
    """

    arguments: ClassVar = {
        "in_features": int, "targets": int, "replicas": tuple, "posterior": Posterior,
    }  # fmt: skip
    later: ClassVar = {"posterior": "mean_field"}

    def __init__(
        self,
        in_features: int,
        targets: int = 1,
        *,
        posterior: Posterior | None = None,
        replicas: tuple[int, ...] = (),
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.targets = in_features, targets
        common: dict[str, Any] = {"posterior": posterior, "replicas": replicas, "generator": generator}
        self.mean = Linear(in_features, targets, **common)
        self.noise = Linear(in_features, targets, **common)
        with torch.no_grad():
            self.noise.weight.free[0].zero_()

    @property
    def out_features(self) -> int:
        """Means and noises together."""
        return 2 * self.targets

    @property
    def replicas(self) -> tuple[int, ...]:
        """Leading dimensions of weights and biases."""
        return self.mean.replicas

    @property
    def posterior(self) -> Posterior:
        """That of the weights."""
        return self.mean.posterior

    def forward(self, a: Moments | Tensor) -> Moments:  # (*replicas, batch, in) -> (*replicas, batch, 2 · targets)
        a = as_moments(a)
        fixed = Moments(a.mean.detach(), None if a.variance is None else a.variance.detach())
        outputs = self.mean(a), self.noise(fixed)
        return Moments(*(torch.cat(parts, -1) for parts in zip(*outputs, strict=True)))


def _initial_bias(
    family: type[ExponentialFamily], shape: tuple[int, ...], fan_in: int, generator: torch.Generator | None
) -> Moments:
    """Zero for real biases; as small as one weight for positive ones."""
    x = initial_moments(family, shape, fan_in, generator)
    return Moments(torch.zeros_like(x.mean), x.variance) if family.support is constraints.real else x
