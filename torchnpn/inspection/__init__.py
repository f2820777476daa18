"""What predictions and their uncertainty depend on: of a whole model, along a feature, and of a single row."""

from torchnpn.inspection.dependence import PartialDependence, partial_dependence
from torchnpn.inspection.importance import Importance, permutation_importance
from torchnpn.inspection.sensitivity import Attributions, Sensitivities, attributions, sensitivities

__all__ = [
    "Attributions",
    "Importance",
    "PartialDependence",
    "Sensitivities",
    "attributions",
    "partial_dependence",
    "permutation_importance",
    "sensitivities",
]
