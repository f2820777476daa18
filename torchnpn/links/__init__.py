"""Links between nodes, predicted from codes that are distributions."""

from torchnpn.links.predictor import LinkPredictor

__all__ = ["LinkPredictor"]
