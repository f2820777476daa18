"""Natural-parameter networks on PyTorch: networks whose inputs, weights, neurons and outputs are distributions."""

from torchnpn import families, maps
from torchnpn.moments import Moments

__all__ = ["Moments", "families", "maps"]
__version__ = "0.1.0"
