"""Other methods, each a short file, behind one protocol: fit, then predict a distribution."""

from npn_studies.tabular.rivals.boosting import HISTOGRAM, LIGHTGBM, XGBOOST
from npn_studies.tabular.rivals.catboost import CATBOOST, CATBOOST_VARIANCE
from npn_studies.tabular.rivals.interface import Inputs, Method, Task
from npn_studies.tabular.rivals.linear import LINEAR
from npn_studies.tabular.rivals.networks import DEEP_ENSEMBLE
from npn_studies.tabular.rivals.ngboost import NGBOOST
from npn_studies.tabular.rivals.process import GAUSSIAN_PROCESS
from npn_studies.tabular.rivals.pytabkit import REALMLP, TABM

RIVALS: dict[str, Method] = {
    "linear": LINEAR,
    "ensemble": DEEP_ENSEMBLE,
    "hgb": HISTOGRAM,
    "catboost": CATBOOST,
    "catboost_variance": CATBOOST_VARIANCE,
    "lightgbm": LIGHTGBM,
    "xgboost": XGBOOST,
    "ngboost": NGBOOST,
    "process": GAUSSIAN_PROCESS,
    "tabm": TABM,
    "realmlp": REALMLP,
}

__all__ = ["RIVALS", "Inputs", "Method", "Task"]
