"""Links between nodes, predicted from codes that are distributions."""

from torchnpn.links.codes import Codes
from torchnpn.links.features import FeatureMap, Normalisation, PairFeatures, Products
from torchnpn.links.predictor import LinkPredictor

__all__ = ["Codes", "FeatureMap", "LinkPredictor", "Normalisation", "PairFeatures", "Products"]
