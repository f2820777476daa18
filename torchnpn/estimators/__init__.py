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

# For other packages of torchnpn:
from torchnpn.estimators import state as state
from torchnpn.estimators.atomic import all_or_nothing as all_or_nothing
from torchnpn.estimators.autoencoder import decoded as decoded
from torchnpn.estimators.base import Progress as Progress
from torchnpn.estimators.inputs import check_variance as check_variance
from torchnpn.estimators.inputs import largest_of as largest_of
from torchnpn.estimators.labels import distinct_labels as distinct_labels
from torchnpn.estimators.precise import in_float64 as in_float64
from torchnpn.estimators.validation import check_choice as check_choice
from torchnpn.estimators.validation import check_enough_rows as check_enough_rows
from torchnpn.estimators.validation import check_flag as check_flag
from torchnpn.estimators.validation import check_progress as check_progress
from torchnpn.estimators.validation import checked_data as checked_data
from torchnpn.estimators.validation import checked_weight as checked_weight
from torchnpn.estimators.validation import generator_of as generator_of
from torchnpn.estimators.validation import is_number as is_number
from torchnpn.estimators.validation import is_whole as is_whole
from torchnpn.estimators.validation import plain_values as plain_values
from torchnpn.estimators.validation import real_numbers as real_numbers
from torchnpn.estimators.validation import score_weight as score_weight
from torchnpn.estimators.validation import seed_of as seed_of
from torchnpn.estimators.validation import short as short
