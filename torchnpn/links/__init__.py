"""Links between nodes, predicted from codes that are distributions."""

from torchnpn.links.codes import Codes
from torchnpn.links.features import FeatureMap, Normalisation, PairFeatures, Products
from torchnpn.links.predictor import LinkPredictor

__all__ = ["Codes", "FeatureMap", "LinkPredictor", "Normalisation", "PairFeatures", "Products"]

# For other packages of torchnpn:
from torchnpn.links.features import joint as joint
from torchnpn.links.features import log_variances as log_variances
from torchnpn.links.features import products as products
from torchnpn.links.features import standard_sums as standard_sums
from torchnpn.links.features import standardised as standardised
from torchnpn.links.features import uncertain_products as uncertain_products
from torchnpn.links.features import variances as variances
