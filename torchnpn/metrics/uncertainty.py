"""Whether uncertainty is high where predictions are wrong, or where data is unlike the training data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import roc_auc_score

from torchnpn.metrics.checks import Array, columns, require


class AccuracyByUncertainty(NamedTuple):
    """Rows in equal groups, from the most certain to the least."""

    accuracy: Array  # of each group
    error: Array  # standard error of each accuracy, Wilson's: not zero where a group is all right
    uncertainty: Array  # mean of each group
    rows: Array  # how many in each group


def accuracy_by_uncertainty(correct: ArrayLike, uncertainty: ArrayLike, groups: int = 9) -> AccuracyByUncertainty:
    """Accuracy in groups of about equal size, by rising uncertainty (paper, Section 4.2; there 9 groups).

    Args:
        correct: (rows,) whether each prediction is right.
        uncertainty: (rows,) one number for each prediction; only its order matters.
        groups: Number of groups.
    """
    right, uncertain = _answers("accuracy_by_uncertainty", correct, uncertainty)
    if not 1 <= groups <= right.size:
        raise ValueError(f"accuracy_by_uncertainty expects groups from 1 to {right.size} (rows), got {groups}.")
    parts = np.array_split(np.argsort(uncertain, kind="stable"), groups)
    count = np.array([len(part) for part in parts])
    accuracy = np.array([right[part].mean() for part in parts])
    error = np.sqrt(accuracy * (1 - accuracy) / count + 1 / (4 * count**2)) / (1 + 1 / count)
    means = np.array([np.sum(uncertain[part] / len(part)) for part in parts])  # a plain sum may overflow
    return AccuracyByUncertainty(accuracy, error, means, count)


class RiskCoverage(NamedTuple):
    """Error rate among the predictions that are kept when the most uncertain ones are handed to somebody else."""

    coverage: Array  # share kept: 1/rows, 2/rows, …, 1
    risk: Array  # error rate among them

    @property
    def area(self) -> float:
        """Mean risk over all shares: small where errors are few and come last."""
        return float(self.risk.mean())


def risk_coverage(correct: ArrayLike, uncertainty: ArrayLike) -> RiskCoverage:
    """Error rate of the k most certain predictions, for every k."""
    right, uncertain = _answers("risk_coverage", correct, uncertainty)
    right = right[np.argsort(uncertain, kind="stable")]
    kept = np.arange(1, right.size + 1)
    return RiskCoverage(kept / right.size, np.cumsum(1 - right) / kept)


def ood_auroc(inside: ArrayLike, outside: ArrayLike) -> float:
    """Probability that a row from outside the training distribution is more uncertain than one from inside.

    The area under the ROC curve of telling them apart by uncertainty: 1 is perfect, ½ is chance; ties count half.

    Args:
        inside: (rows,) uncertainties of data like the training data.
        outside: (other rows,) uncertainties of data unlike it.
    """
    (near,), (far,) = columns("ood_auroc", inside=inside), columns("ood_auroc", outside=outside)
    for name, values in (("inside", near), ("outside", far)):
        require("ood_auroc", np.isfinite(values), name, values, "to be finite")
    is_outside = np.repeat([0, 1], [near.size, far.size])
    return float(roc_auc_score(is_outside, np.concatenate([near, far])))


def _answers(metric: str, correct: ArrayLike, uncertainty: ArrayLike) -> tuple[Array, Array]:
    """Which predictions are right, as zeros and ones, and their uncertainties."""
    right, uncertain = columns(metric, correct=correct, uncertainty=uncertainty)
    require(metric, (right == 0) | (right == 1), "correct", right, "to be true or false, 1 or 0")
    require(metric, np.isfinite(uncertain), "uncertainty", uncertain, "to be finite")
    return right, uncertain
