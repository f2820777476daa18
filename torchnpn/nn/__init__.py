"""Layers: modules that hold random parameters and call the maps; inputs are a tensor or `Moments`."""

from torchnpn.nn.activation import (
    ELU,
    GELU,
    SELU,
    Abs,
    Activation,
    Cos,
    Erf,
    Exp,
    Hardtanh,
    Heaviside,
    LeakyReLU,
    PaperSigmoid,
    PaperTanh,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Sin,
    Softplus,
    Square,
    Tanh,
)
from torchnpn.nn.container import Complement, Flatten, Sequential, mlp, with_masks
from torchnpn.nn.embedding import Embedding
from torchnpn.nn.linear import Linear, MeanAndNoise
from torchnpn.nn.neurons import Bernoulli, Power, Saturating, SaturatingKL
from torchnpn.nn.noise import AnalyticDropout, Dropout, InputNoise, MaskedUnits
from torchnpn.nn.parameter import RandomParameter

__all__ = [
    "ELU",
    "GELU",
    "SELU",
    "Abs",
    "Activation",
    "AnalyticDropout",
    "Bernoulli",
    "Complement",
    "Cos",
    "Dropout",
    "Embedding",
    "Erf",
    "Exp",
    "Flatten",
    "Hardtanh",
    "Heaviside",
    "InputNoise",
    "LeakyReLU",
    "Linear",
    "MaskedUnits",
    "MeanAndNoise",
    "PaperSigmoid",
    "PaperTanh",
    "Power",
    "RandomParameter",
    "ReLU",
    "ReLU6",
    "Saturating",
    "SaturatingKL",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Sin",
    "Softplus",
    "Square",
    "Tanh",
    "mlp",
    "with_masks",
]

# For other packages of torchnpn:
from torchnpn.nn.activation import ACTIVATIONS as ACTIVATIONS
from torchnpn.nn.chain import ChainLayer as ChainLayer
from torchnpn.nn.chain import chain_of as chain_of
from torchnpn.nn.coordinates import COORDINATES as COORDINATES
from torchnpn.nn.coordinates import POSTERIORS as POSTERIORS
from torchnpn.nn.coordinates import CoordinateChoice as CoordinateChoice
from torchnpn.nn.coordinates import Posterior as Posterior
from torchnpn.nn.ensemble import Ensemble as Ensemble
from torchnpn.nn.ensemble import leading as leading
from torchnpn.nn.ensemble import side_by_side as side_by_side
from torchnpn.nn.layer import Layer as Layer
from torchnpn.nn.layer import as_moments as as_moments
from torchnpn.nn.layer_kernels import kernels_of as kernels_of
from torchnpn.nn.noise import drawing_from as drawing_from
from torchnpn.nn.noise import dropout_mask as dropout_mask
from torchnpn.nn.replicas import assemble_ as assemble_
from torchnpn.nn.replicas import count_replicas as count_replicas
from torchnpn.nn.replicas import member as member
from torchnpn.nn.replicas import replicas_of as replicas_of
from torchnpn.nn.replicas import with_members as with_members
from torchnpn.nn.size import check_network_size as check_network_size
from torchnpn.nn.size import physical_memory as physical_memory
