"""Ours: the estimators as they come. The family is that of the kind of target; nothing is set for any table."""

from __future__ import annotations

import numpy as np

from npn_studies.tabular.predictions import Prediction
from npn_studies.tabular.rivals.interface import Answer, Fit, Inputs, Method, Predict, Task
from torchnpn.estimators import NPNClassifier, NPNRegressor

FAMILIES = {"gaussian": "gaussian", "amounts": "lognormal", "counts": "negative_binomial"}


def _with(effort: str) -> Fit:
    def fit(task: Task) -> Predict:
        X, y = task.inputs.X, task.y
        if task.kind == "classes":
            classifier = NPNClassifier(effort=effort, device="cpu", random_state=task.seed).fit(X, y)
            return lambda inputs: np.asarray(classifier.predict_proba(inputs.X))
        model = NPNRegressor(FAMILIES[task.kind], effort=effort, device="cpu", random_state=task.seed).fit(X, y)

        def predict(inputs: Inputs) -> Answer:
            found: Prediction = model.predict_dist(inputs.X)
            return found

        return predict

    return fit


NPN = Method("NPN", _with("default"))
NPN_BEST = Method("NPN, best", _with("best"))
