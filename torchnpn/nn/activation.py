"""One module per activation of a Gaussian variable; each is the map of the same name in `torchnpn.maps`."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from torch import Tensor

from torchnpn import kernels, maps
from torchnpn.moments import Moments
from torchnpn.nn.layer import Layer, as_moments


class Activation(Layer):
    """An element-wise map of moments, with constants that are fixed when the module is made."""

    map: ClassVar[Callable[..., Moments]]

    def __init__(self, **constants: float) -> None:
        super().__init__()
        self.constants = constants

    def forward(self, o: Moments | Tensor) -> Moments:
        return type(self).map(as_moments(o), **self.constants)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value:g}" for name, value in self.constants.items())


class ReLU(Activation):
    """`maps.relu`."""

    map = staticmethod(kernels.relu)


class LeakyReLU(Activation):
    """`maps.leaky_relu`."""

    map = staticmethod(maps.leaky_relu)

    arguments: ClassVar = {"slope": float}

    def __init__(self, slope: float = 0.01) -> None:
        super().__init__(slope=slope)


class Abs(Activation):
    """`maps.abs`."""

    map = staticmethod(maps.abs)


class ReLU6(Activation):
    """`maps.relu6`."""

    map = staticmethod(maps.relu6)


class Hardtanh(Activation):
    """`maps.hardtanh`."""

    map = staticmethod(maps.hardtanh)

    arguments: ClassVar = {"lower": float, "upper": float}

    def __init__(self, lower: float = -1.0, upper: float = 1.0) -> None:
        super().__init__(lower=lower, upper=upper)


class Heaviside(Activation):
    """`maps.heaviside`."""

    map = staticmethod(maps.heaviside)


class Sigmoid(Activation):
    """`maps.sigmoid`."""

    map = staticmethod(kernels.sigmoid)


class Tanh(Activation):
    """`maps.tanh`."""

    map = staticmethod(kernels.tanh)


class Erf(Activation):
    """`maps.erf`."""

    map = staticmethod(maps.erf)


class PaperSigmoid(Activation):
    """`maps.paper.sigmoid`: the paper's approximation, for comparison. `Sigmoid` is the accurate one."""

    map = staticmethod(maps.paper.sigmoid)


class PaperTanh(Activation):
    """`maps.paper.tanh`: the paper's approximation, for comparison. `Tanh` is the accurate one."""

    map = staticmethod(maps.paper.tanh)


class ELU(Activation):
    """`maps.elu`."""

    map = staticmethod(maps.elu)

    arguments: ClassVar = {"alpha": float}

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__(alpha=alpha)


class SELU(Activation):
    """`maps.selu`."""

    map = staticmethod(maps.selu)


class GELU(Activation):
    """`maps.gelu`."""

    map = staticmethod(maps.gelu)


class SiLU(Activation):
    """`maps.silu`."""

    map = staticmethod(maps.silu)


class Softplus(Activation):
    """`maps.softplus`."""

    map = staticmethod(maps.softplus)


class Exp(Activation):
    """`maps.exp`."""

    map = staticmethod(maps.exp)


class Sin(Activation):
    """`maps.sin`."""

    map = staticmethod(maps.sin)


class Cos(Activation):
    """`maps.cos`."""

    map = staticmethod(maps.cos)


class Square(Activation):
    """`maps.square`."""

    map = staticmethod(maps.square)


_ALL = (
    *(ReLU, LeakyReLU, Abs, ReLU6, Hardtanh, Heaviside, Sigmoid, Tanh, Erf),
    *(ELU, SELU, GELU, SiLU, Softplus, Exp, Sin, Cos, Square),
)
ACTIVATIONS: dict[str, type[Activation]] = {
    **{kind.map.__name__: kind for kind in _ALL},
    "paper_sigmoid": PaperSigmoid,
    "paper_tanh": PaperTanh,
}
