"""A Gaussian process with a length for each column and noise, for tables on which that takes seconds."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from npn_studies.tabular.predictions import LogNormalMixture, NormalMixture
from npn_studies.tabular.rivals.interface import Inputs, Method, Predict, Standard, Task


def _fit(task: Task) -> Predict:
    from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    standard = Standard.of(task.inputs.X)
    X = standard(task.inputs.X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # lengths of columns that do not matter grow to their bound
        if task.kind == "classes":
            classifier = GaussianProcessClassifier(ConstantKernel() * RBF(X.shape[1] ** 0.5), random_state=task.seed)
            classifier.fit(X, task.y)
            return lambda inputs: np.asarray(classifier.predict_proba(standard(inputs.X)))
        t = np.log(task.y) if task.kind == "amounts" else task.y
        kernel = ConstantKernel() * RBF(np.full(X.shape[1], X.shape[1] ** 0.5), (1e-2, 1e4)) + WhiteKernel()
        model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=task.seed).fit(X, t)

    def predict(inputs: Inputs) -> NormalMixture | LogNormalMixture:
        mean, std = model.predict(standard(inputs.X), return_std=True)
        found = NormalMixture(mean[None], np.maximum(std, 1e-9)[None])
        return LogNormalMixture(found) if task.kind == "amounts" else found

    return predict


GAUSSIAN_PROCESS = Method("Gaussian process", _fit, most_rows=600, kinds=("gaussian", "amounts", "classes"))
