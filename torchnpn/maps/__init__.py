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

# For other packages of torchnpn:
from torchnpn.maps import careful_linear as careful_linear
from torchnpn.maps import normal as normal
from torchnpn.maps import select as select
from torchnpn.maps import sigmoids as sigmoids
from torchnpn.maps.affine import check_linear as check_linear
from torchnpn.maps.affine import may_look as may_look
from torchnpn.maps.affine import plain_linear as plain_linear
from torchnpn.maps.affine import saturated_sum as saturated_sum
from torchnpn.maps.elementwise import check_moments as check_moments
from torchnpn.maps.once import once_differentiable as once_differentiable
from torchnpn.maps.rectifiers import relu_partials as relu_partials
from torchnpn.maps.softmax import log_sum_exp_of_others as log_sum_exp_of_others
