"""Three libraries of boosted trees that predict a point, each at its defaults."""

from __future__ import annotations

from typing import Any

import numpy as np

from npn_studies.tabular.rivals.interface import Method, Task
from npn_studies.tabular.rivals.points import with_residuals


def _histogram_regressor(task: Task) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(
        random_state=task.seed, loss="poisson" if task.kind == "counts" else "squared_error"
    )


def _histogram_classifier(task: Task) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    rare = np.bincount(task.y).min() < 10  # what it holds out, from 10,000 rows on, would lack a class
    return HistGradientBoostingClassifier(random_state=task.seed, early_stopping=False if rare else "auto")


def _light_regressor(task: Task) -> Any:
    import lightgbm

    objective = "poisson" if task.kind == "counts" else "regression"
    return lightgbm.LGBMRegressor(objective=objective, random_state=task.seed, n_jobs=1, verbose=-1)


def _light_classifier(task: Task) -> Any:
    import lightgbm

    return lightgbm.LGBMClassifier(random_state=task.seed, n_jobs=1, verbose=-1)


def _extreme_regressor(task: Task) -> Any:
    import xgboost

    objective = "count:poisson" if task.kind == "counts" else "reg:squarederror"
    return xgboost.XGBRegressor(objective=objective, random_state=task.seed, n_jobs=1)


def _extreme_classifier(task: Task) -> Any:
    import xgboost

    return xgboost.XGBClassifier(random_state=task.seed, n_jobs=1)


HISTOGRAM = Method("HGB", with_residuals(_histogram_regressor, _histogram_classifier))
LIGHTGBM = Method("LightGBM", with_residuals(_light_regressor, _light_classifier), "lightgbm")
XGBOOST = Method("XGBoost", with_residuals(_extreme_regressor, _extreme_classifier), "xgboost")
