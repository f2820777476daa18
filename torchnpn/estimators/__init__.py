"""scikit-learn estimators: arrays and frames in, distributions out."""

from torchnpn.estimators.autoencoder import NPNAutoencoder
from torchnpn.estimators.classifier import NPNClassifier
from torchnpn.estimators.pipeline import Pipeline
from torchnpn.estimators.predictive import ArrayMoments, ArrayVarianceParts, ClassPredictive, Interval, Predictive
from torchnpn.estimators.regressor import NPNRegressor
from torchnpn.progress import EpochRecord

__all__ = [
    "ArrayMoments",
    "ArrayVarianceParts",
    "ClassPredictive",
    "EpochRecord",
    "Interval",
    "NPNAutoencoder",
    "NPNClassifier",
    "NPNRegressor",
    "Pipeline",
    "Predictive",
]

# For other packages of torchnpn:
from torchnpn.estimators import state as state
from torchnpn.estimators.autoencoder import decoded as decoded
from torchnpn.estimators.classifier import ProbabilisticClassifier as ProbabilisticClassifier
from torchnpn.estimators.comparison import is_count as is_count
from torchnpn.estimators.forward import in_float64 as in_float64
from torchnpn.estimators.learning import all_or_nothing as all_or_nothing
