"""Codes of documents, and the ways in which their variances are used to predict links."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import torch

from torchnpn.baselines.document_autoencoders import StackedAutoencoder, VariationalAutoencoder
from torchnpn.baselines.document_codes import DocumentCodes, LatentSemantics, TfIdf
from torchnpn.documents import GAMMA, GAUSSIAN, POISSON

WIDE = (200, 50)  # the paper's double budget


class Method(NamedTuple):
    """A way to codes.

    Attributes:
        label: For tables.
        settings: Of a frozen dataclass with `fit(counts)`, which gives a function from counts to codes.
        second_order: Whether its codes have variances.
        paper: Its column of the paper's tables.
    """

    label: str
    settings: DocumentCodes
    second_order: bool = False
    paper: str = ""


METHODS = {
    "gaussian": Method("Gaussian NPN", GAUSSIAN, True, "Gaussian"),
    "gamma": Method("gamma NPN", GAMMA, True, "gamma"),
    "poisson": Method("Poisson NPN", POISSON, True, "Poisson"),
    "sae": Method("SAE", StackedAutoencoder(), paper="SAE"),
    "sae_wide": Method("SAE, double budget", StackedAutoencoder(hidden=WIDE)),
    "sdae": Method("SDAE", StackedAutoencoder(masking=0.7), paper="SDAE"),
    "sdae_wide": Method("SDAE, double budget", StackedAutoencoder(hidden=WIDE, masking=0.7)),
    "vae": Method("VAE", VariationalAutoencoder(masking=0.7), True, "VAE"),
    "vae_wide": Method("VAE, double budget", VariationalAutoencoder(hidden=WIDE, masking=0.7), True),
    "svd": Method("truncated SVD", LatentSemantics()),
    "tfidf": Method("tf-idf, cosine", TfIdf()),
}


class View(NamedTuple):
    """Arguments of `LinkPredictor`, and the function of the mean that stands for the variance, if it is a control."""

    pairs: str
    variance: str
    doubt: float = 1.0
    control: str = ""

    @property
    def label(self) -> str:
        """Its name in a record and in tables."""
        parts = [f"{self.pairs}: {self.variance}", f"doubt {self.doubt:g}" if self.doubt != 1 else ""]
        return ", ".join(filter(None, [*parts, f"variance = {self.control}" if self.control else ""]))


MEAN, PAPER_MEAN = View("cosine", "none"), View("hadamard", "none")
VARIANCE = (
    *(View("cosine", use) for use in ("features", "predictive", "expected cosine", "divergence")),
    *(View("cosine", use, doubt) for use in ("shrunk", "weighted") for doubt in (0.3, 1.0, 3.0, 10.0)),
    *(View("hadamard", use) for use in ("features", "predictive")),
)
CONTROL = (  # an average variance has no features of its own
    *(View("cosine", "features", control=control) for control in ("m²", "log m")),
    View("cosine", "divergence", control="average"),
    *(View("cosine", use, control=control) for use in ("shrunk", "weighted") for control in ("average", "m²", "log m")),
)
QUICK_VIEWS = (MEAN, PAPER_MEAN, VARIANCE[0], CONTROL[0])


def views(method: Method, quick: bool) -> tuple[View, ...]:
    """Those that a method's codes allow; for tiny sizes a few."""
    if not method.second_order:
        return MEAN, PAPER_MEAN
    return QUICK_VIEWS if quick else (MEAN, PAPER_MEAN, *VARIANCE, *CONTROL)


def seeded(method: Method, seed: int, device: torch.device, quick: bool) -> DocumentCodes:
    """The settings for a seed on a device, and for tiny sizes."""
    known = {field.name for field in dataclasses.fields(method.settings)}  # type: ignore[arg-type]
    changes: dict[str, Any] = {"seed": seed, "device": str(device)}
    if quick:
        changes |= {"hidden": (20, 10), "code": 10, "epochs": 2, "batch_size": 64, "warm_up": 5}
    kept = {name: value for name, value in changes.items() if name in known}
    return dataclasses.replace(method.settings, **kept)  # type: ignore[type-var]
