"""What a model file holds of an estimator, to compare two of them."""

from __future__ import annotations

import numpy as np


def assert_same_state(one, other) -> None:
    """The same settings and, to the bit, the same arrays; what is computed from them may be summed in another order."""
    (plain, arrays), (plain_of_other, arrays_of_other) = one._state(), other._state()
    assert plain == plain_of_other
    assert arrays.keys() == arrays_of_other.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(np.asarray(array), np.asarray(arrays_of_other[name]), strict=True, err_msg=name)
