"""Natural-parameter networks on PyTorch: networks whose inputs, weights, neurons and outputs are distributions."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchnpn import (
        conformal,
        datasets,
        estimators,
        families,
        inspection,
        io,
        likelihoods,
        maps,
        metrics,
        nn,
        priors,
        training,
    )
    from torchnpn.censoring import censored, interval_censored
    from torchnpn.documents import DocumentAutoencoder
    from torchnpn.estimators import (
        NPNAutoencoder,
        NPNClassifier,
        NPNRegressor,
        Pipeline,
        Predictive,
    )
    from torchnpn.exporting import export
    from torchnpn.io import load, save
    from torchnpn.links import LinkPredictor
    from torchnpn.logistic import BayesianLogisticRegression
    from torchnpn.moments import Moments
    from torchnpn.priors import kl
    from torchnpn.training import History, Recipe, explain, train

__all__ = [
    "BayesianLogisticRegression",
    "DocumentAutoencoder",
    "History",
    "LinkPredictor",
    "Moments",
    "NPNAutoencoder",
    "NPNClassifier",
    "NPNRegressor",
    "Pipeline",
    "Predictive",
    "Recipe",
    "censored",
    "conformal",
    "datasets",
    "estimators",
    "explain",
    "export",
    "families",
    "inspection",
    "interval_censored",
    "io",
    "kl",
    "likelihoods",
    "load",
    "maps",
    "metrics",
    "nn",
    "priors",
    "save",
    "train",
    "training",
]
__version__ = "0.1.0"
_HOMES = {  # of the names that are not modules
    "censoring": ("censored", "interval_censored"),
    "documents": ("DocumentAutoencoder",),
    "estimators": ("NPNAutoencoder", "NPNClassifier", "NPNRegressor", "Pipeline", "Predictive"),
    "exporting": ("export",),
    "io": ("load", "save"),
    "links": ("LinkPredictor",),
    "logistic": ("BayesianLogisticRegression",),
    "moments": ("Moments",),
    "priors": ("kl",),
    "training": ("History", "Recipe", "explain", "train"),
}


def __getattr__(name: str) -> Any:
    """A public name, imported when it is first used: `npn --help` and the like need no torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((module for module, names in _HOMES.items() if name in names), None)
    module = importlib.import_module(f"{__name__}.{home or name}")
    value = module if home is None else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
