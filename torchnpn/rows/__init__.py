"""A user's rows, targets and weights: checked where they enter, encoded, and turned into what a network takes."""

__all__: list[str] = []  # nothing for users

# For other packages of torchnpn:
from torchnpn.rows import censored as censored
from torchnpn.rows import validation as validation
from torchnpn.rows.beyond import Beyond as Beyond
from torchnpn.rows.encoding import check_categorical as check_categorical
from torchnpn.rows.encoding import check_number_columns as check_number_columns
from torchnpn.rows.held_out import HeldOutRows as HeldOutRows
from torchnpn.rows.held_out import copies as copies
from torchnpn.rows.held_out import split_for_patience as split_for_patience
from torchnpn.rows.held_out import variance_of_rows as variance_of_rows
from torchnpn.rows.inputs import Inputs as Inputs
from torchnpn.rows.inputs import largest_of as largest_of
from torchnpn.rows.targets import check_labels as check_labels
from torchnpn.rows.targets import check_size as check_size
from torchnpn.rows.targets import check_units as check_units
from torchnpn.rows.targets import distinct_labels as distinct_labels
from torchnpn.rows.targets import in_network_units as in_network_units
from torchnpn.rows.targets import places_among as places_among
from torchnpn.rows.validation import check_enough_rows as check_enough_rows
from torchnpn.rows.validation import checked_rows as checked_rows
from torchnpn.rows.validation import checked_subsets as checked_subsets
from torchnpn.rows.validation import checked_variance as checked_variance
from torchnpn.rows.validation import checked_weight as checked_weight
from torchnpn.rows.validation import plain_values as plain_values
from torchnpn.rows.validation import real_numbers as real_numbers
from torchnpn.rows.validation import score_weight as score_weight
