"""Predictions of torchnpn models, with their uncertainty, by numpy and onnxruntime alone.

>>> import npn_runtime
>>> model = npn_runtime.load("model.onnx")  # doctest: +SKIP
>>> model.predict({"area": [80, None], "district": ["North", "South"]})  # doctest: +SKIP
{'price_mean': array([...]), 'price_std': array([...]), 'price_low': array([...]), 'price_high': array([...])}
"""

from npn_runtime.errors import ModelError, TableError
from npn_runtime.model import Model, load

__all__ = ["Model", "ModelError", "TableError", "load"]
__version__ = "0.1.0"
