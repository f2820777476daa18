"""Model files: one safetensors file that holds the weights and, as JSON, all that is needed to build the model anew."""

from torchnpn.io.objects import ModelFileError, describe, load, save

__all__ = ["ModelFileError", "describe", "load", "save"]
