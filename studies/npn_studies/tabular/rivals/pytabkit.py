"""TabM and RealMLP, networks for tables, at the defaults of pytabkit."""

from __future__ import annotations

from typing import Any

from npn_studies.tabular.collection import Kind
from npn_studies.tabular.rivals.interface import Method, Task
from npn_studies.tabular.rivals.points import with_residuals


def _tabm_regressor(task: Task) -> Any:
    from pytabkit import TabM_D_Regressor

    return TabM_D_Regressor(random_state=task.seed, device="cpu", n_threads=1)


def _tabm_classifier(task: Task) -> Any:
    from pytabkit import TabM_D_Classifier

    return TabM_D_Classifier(random_state=task.seed, device="cpu", n_threads=1)


def _realmlp_regressor(task: Task) -> Any:
    from pytabkit import RealMLP_TD_Regressor

    return RealMLP_TD_Regressor(random_state=task.seed, device="cpu", n_threads=1)


def _realmlp_classifier(task: Task) -> Any:
    from pytabkit import RealMLP_TD_Classifier

    return RealMLP_TD_Classifier(random_state=task.seed, device="cpu", n_threads=1)


_KINDS: tuple[Kind, ...] = (
    "gaussian",
    "amounts",
    "classes",
)  # both learn by squared error, which is no way to learn a rate
TABM = Method("TabM", with_residuals(_tabm_regressor, _tabm_classifier), "pytabkit", 2_000, _KINDS)
REALMLP = Method("RealMLP", with_residuals(_realmlp_regressor, _realmlp_classifier), "pytabkit", 2_000, _KINDS)
