"""scikit-learn's `Pipeline` with all that the estimators at its end can answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn import pipeline
from sklearn.utils.metaestimators import available_if


def _of_last_step(name: str) -> Any:
    """A method that asks the last step about rows that have been through the others; there if the last step has it."""

    def answer(self: Pipeline, X: Any, *args: Any, **options: Any) -> Any:
        rows = self[:-1].transform(X) if len(self.steps) > 1 else X
        return getattr(self[-1], name)(rows, *args, **options)

    def is_there(self: Pipeline) -> bool:
        return hasattr(self.steps[-1][1], name)

    answer.__name__ = name
    answer.__doc__ = f"`{name}` of the last step, for rows as they come to the first."
    method: Callable[..., Any] = available_if(is_there)(answer)
    return method


class Pipeline(pipeline.Pipeline):  # type: ignore[misc]
    """scikit-learn's `Pipeline`, whose last step also gives distributions, intervals and quantiles.

    scikit-learn passes on `predict`, `predict_proba` and the like, and no method that it does not know. This is that
    class with the methods of this library; searches, `clone` and cross-validation take it as they take the other. A
    pipeline that is fitted already becomes one by `Pipeline(fitted.steps)`.

    Frames with text, categories and dates need no pipeline: the estimators read them.

    Examples:
        >>> import numpy as np
        >>> from torchnpn import NPNRegressor
        >>> from sklearn.preprocessing import PolynomialFeatures
        >>> X = np.linspace(-2, 2, 80)[:, None]
        >>> y = X[:, 0] ** 2 + np.random.default_rng(0).normal(0, 0.2, 80)
        >>> steps = [("powers", PolynomialFeatures(2)), ("model", NPNRegressor(random_state=0))]
        >>> low, high = Pipeline(steps).fit(X, y).predict_interval([[1.0]], level=0.9)
        >>> bool(low[0] < 1 < high[0])
        True
    """

    predict_dist = _of_last_step("predict_dist")
    predict_interval = _of_last_step("predict_interval")
    predict_quantile = _of_last_step("predict_quantile")
    predict_variance = _of_last_step("predict_variance")
    predict_members = _of_last_step("predict_members")
    log_likelihood = _of_last_step("log_likelihood")
    transform_dist = _of_last_step("transform_dist")
