"""scikit-learn estimators: arrays and frames in, distributions out."""

from torchnpn.estimators.autoencoder import NPNAutoencoder
from torchnpn.estimators.classifier import NPNClassifier
from torchnpn.estimators.pipeline import Pipeline
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
    "Pipeline",
    "Predictive",
]

# For other packages of torchnpn:
from torchnpn.estimators import state as state
from torchnpn.estimators.autoencoder import decoded as decoded
from torchnpn.estimators.bins import Bins as Bins
from torchnpn.estimators.classifier import ProbabilisticClassifier as ProbabilisticClassifier
from torchnpn.estimators.forward import in_float64 as in_float64
from torchnpn.estimators.inputs import Inputs as Inputs
from torchnpn.estimators.inputs import largest_of as largest_of
from torchnpn.estimators.learning import Progress as Progress
from torchnpn.estimators.learning import all_or_nothing as all_or_nothing
from torchnpn.estimators.learning import reporter as reporter
from torchnpn.estimators.settings import NOT_NEGATIVE as NOT_NEGATIVE
from torchnpn.estimators.settings import POSITIVE as POSITIVE
from torchnpn.estimators.settings import RATE as RATE
from torchnpn.estimators.settings import SHARE as SHARE
from torchnpn.estimators.settings import WEIGHT as WEIGHT
from torchnpn.estimators.settings import Range as Range
from torchnpn.estimators.settings import check_choice as check_choice
from torchnpn.estimators.settings import check_count as check_count
from torchnpn.estimators.settings import check_flag as check_flag
from torchnpn.estimators.settings import check_hidden as check_hidden
from torchnpn.estimators.settings import check_number as check_number
from torchnpn.estimators.settings import check_verbose as check_verbose
from torchnpn.estimators.settings import generator_of as generator_of
from torchnpn.estimators.settings import is_number as is_number
from torchnpn.estimators.settings import seed_of as seed_of
from torchnpn.estimators.settings import short as short
from torchnpn.estimators.targets import distinct_labels as distinct_labels
from torchnpn.estimators.validation import check_enough_rows as check_enough_rows
from torchnpn.estimators.validation import check_progress as check_progress
from torchnpn.estimators.validation import checked_data as checked_data
from torchnpn.estimators.validation import checked_rows as checked_rows
from torchnpn.estimators.validation import checked_variance as checked_variance
from torchnpn.estimators.validation import checked_weight as checked_weight
from torchnpn.estimators.validation import plain_values as plain_values
from torchnpn.estimators.validation import real_numbers as real_numbers
