"""scikit-learn estimators: arrays and frames in, distributions out."""

from torchnpn.estimators.autoencoder import NPNAutoencoder
from torchnpn.estimators.classifier import NPNClassifier
from torchnpn.estimators.predictive import ArrayMoments, ArrayVarianceParts, ClassPredictive, Interval, Predictive
from torchnpn.estimators.regressor import NPNRegressor

__all__ = [
    "ArrayMoments",
    "ArrayVarianceParts",
    "ClassPredictive",
    "Interval",
    "NPNAutoencoder",
    "NPNClassifier",
    "NPNRegressor",
    "Predictive",
]
