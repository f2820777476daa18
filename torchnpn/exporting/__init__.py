"""Models as files that need no torch: ONNX with mean, variance, intervals and quantiles in one graph, and `.pt2`."""

from torchnpn.exporting.files import export

__all__ = ["export"]

# For tests:
from torchnpn.exporting.rows import Encode as Encode
