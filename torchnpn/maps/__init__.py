"""How moments pass through an operation: pure functions from `Moments` to `Moments`.

Element-wise maps of Gaussian variables, `saturating` for every other family (Theorem 1), and the operations of a layer.
`accurate`, `cheap` and `paper` hold other versions of `sigmoid` and `tanh`.
"""

from torchnpn.maps import accurate, cheap, paper
from torchnpn.maps.affine import linear, product
from torchnpn.maps.clamps import hardtanh, heaviside, relu6
from torchnpn.maps.dropout import dropout
from torchnpn.maps.elementary import cos, erf, exp, sin, square
from torchnpn.maps.exponential_linear import elu, selu
from torchnpn.maps.maximum import max2
from torchnpn.maps.quadrature import quadrature
from torchnpn.maps.rectifiers import abs, leaky_relu, relu
from torchnpn.maps.saturating import saturating
from torchnpn.maps.sigmoids import sigmoid, tanh
from torchnpn.maps.smooth_rectifiers import gelu, silu, softplus
from torchnpn.maps.softmax import softmax_mean

__all__ = [
    "abs",
    "accurate",
    "cheap",
    "cos",
    "dropout",
    "elu",
    "erf",
    "exp",
    "gelu",
    "hardtanh",
    "heaviside",
    "leaky_relu",
    "linear",
    "max2",
    "paper",
    "product",
    "quadrature",
    "relu",
    "relu6",
    "saturating",
    "selu",
    "sigmoid",
    "silu",
    "sin",
    "softmax_mean",
    "softplus",
    "square",
    "tanh",
]
