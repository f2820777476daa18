"""Fitted estimators as plain values, for libraries that store objects without pickle, such as skops."""

from __future__ import annotations

import copyreg
import json
from typing import Any

import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from torchnpn.io import objects


class StoredEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator whose `__getstate__` is what a model file holds, as text and numpy arrays.

    skops asks for it, since it cannot store PyTorch's tensors; what it brings back is checked as `load` checks a file.
    Pickle, joblib and `copy` do not ask: they keep the estimator whole, its history and its generators included.
    """

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self),), super().__getstate__()  # type: ignore[attr-defined]

    def __getstate__(self) -> dict[str, Any]:
        try:
            document, tensors = objects.taken_apart(self)
        except NotFittedError:
            return dict(super().__getstate__())
        return {"torchnpn": json.dumps(document), "arrays": {name: value.numpy() for name, value in tensors.items()}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "torchnpn" in state:
            tensors = {name: torch.from_numpy(value) for name, value in state["arrays"].items()}
            state = vars(objects.put_together(json.loads(state["torchnpn"]), tensors))
        super().__setstate__(state)
