"""Model files: one safetensors file that holds the weights and, as JSON, all that is needed to build the model anew."""

from torchnpn.io.objects import ModelFileError, describe, load, save

__all__ = ["ModelFileError", "describe", "load", "save"]

# For other packages of torchnpn:
from torchnpn.io import checks as checks
from torchnpn.io import file as file
from torchnpn.io import modules as modules
from torchnpn.io.plain import StoredEstimator as StoredEstimator
