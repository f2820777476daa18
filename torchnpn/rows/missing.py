"""Missing values given the values beside them: the conditional of a Gaussian with the features' correlations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
MOST_FEATURES = 300  # a pattern of gaps costs the cube of them
_LEAST_EIGENVALUE = 1e-3  # correlations from gappy rows need not fit together; and no feature is known for certain


def correlations(z: Array, weight: Array) -> Array:  # (rows, features) with NaN, (rows,) -> (features, features)
    """Correlations of standardised features, each from the rows that have both, made to fit together."""
    there = ~np.isnan(z)
    values = np.where(there, z, 0.0)
    pairs = (there * weight[:, None]).T @ there.astype(float)
    found = (values * weight[:, None]).T @ values / np.where(pairs > 0, pairs, 1.0)
    eigenvalues, vectors = np.linalg.eigh(0.5 * (found + found.T))
    sound = (vectors * np.maximum(eigenvalues, _LEAST_EIGENVALUE)) @ vectors.T
    std = np.sqrt(sound.diagonal())
    fitting: Array = sound / np.outer(std, std)
    return fitting


def conditional(z: Array, correlation: Array) -> tuple[Array, Array]:
    """Means and variances of the missing entries of standardised rows, given the entries that are there.

    For missing a and known b, with correlations R:  E a = R_ab R_bb⁻¹ b,  Var a = 1 - diag(R_ab R_bb⁻¹ R_ba).

    Returns:
        Rows with the means in place of NaN, and variances, zero where a value is there.
    """
    mean, variance = z.copy(), np.zeros_like(z)
    patterns, which = np.unique(np.isnan(z), axis=0, return_inverse=True)
    for i, missing in enumerate(patterns):
        if not missing.any():
            continue
        rows = np.flatnonzero(which.reshape(-1) == i)
        R_ab, R_bb = correlation[np.ix_(missing, ~missing)], correlation[np.ix_(~missing, ~missing)]
        gain = np.linalg.solve(R_bb, R_ab.T).T
        mean[np.ix_(rows, missing)] = z[np.ix_(rows, ~missing)] @ gain.T
        variance[np.ix_(rows, missing)] = np.maximum(1 - (gain * R_ab).sum(1), 0.0)
    return mean, variance
