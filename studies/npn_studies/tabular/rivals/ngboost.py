"""NGBoost at its defaults: normal, log-normal, Poisson, categorical."""

from __future__ import annotations

import numpy as np

from npn_studies.tabular.predictions import Counts, LogNormalMixture, NormalMixture
from npn_studies.tabular.rivals.interface import Answer, Inputs, Method, Predict, Standard, Task


def _fit(task: Task) -> Predict:
    from ngboost import NGBClassifier, NGBRegressor
    from ngboost.distns import Normal, Poisson, k_categorical

    standard = Standard.of(task.inputs.X)
    X = standard(task.inputs.X)
    if task.kind == "classes":
        model = NGBClassifier(Dist=k_categorical(task.classes), random_state=task.seed, verbose=False).fit(X, task.y)
        return lambda inputs: np.asarray(model.predict_proba(standard(inputs.X)))
    t = np.log(task.y) if task.kind == "amounts" else task.y.astype(int) if task.kind == "counts" else task.y
    kind = Poisson if task.kind == "counts" else Normal
    model = NGBRegressor(Dist=kind, random_state=task.seed, verbose=False).fit(X, t)

    def predict(inputs: Inputs) -> Answer:
        found = model.pred_dist(standard(inputs.X)).params
        if task.kind == "counts":
            rate = np.clip(found["mu"], 1e-9, 1e6)[None]
            return Counts(rate, np.zeros(rate.shape))
        normal = NormalMixture(found["loc"][None], np.maximum(found["scale"], 1e-9)[None])
        return LogNormalMixture(normal) if task.kind == "amounts" else normal

    return predict


NGBOOST = Method("NGBoost", _fit, "ngboost", most_rows=10_000)
