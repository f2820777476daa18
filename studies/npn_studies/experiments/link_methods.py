"""Codes of documents, and the views of them from which links are predicted."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import torch
from torch import Tensor

from npn_studies.baselines.document_autoencoders import StackedAutoencoder, VariationalAutoencoder
from npn_studies.baselines.document_codes import DocumentCodes, LatentSemantics, TfIdf
from npn_studies.experiments.document_networks import GAMMA, GAUSSIAN, POISSON
from npn_studies.experiments.pair_features import CONTROLS, with_variance
from torchnpn import links
from torchnpn.moments import JointMoments, Moments

Setting = dict[str, Any]
WIDE = (200, 50)  # the paper's double budget
QUICK: Setting = {"hidden": (20, 10), "code": 10, "epochs": 2, "batch_size": 64, "warm_up": 5}
_LEAST = 1e-6  # of a dimension's mean variance: added where a logarithm is taken of what may be zero


class Method(NamedTuple):
    """A way to codes.

    Attributes:
        label: For tables.
        settings: Of a frozen dataclass with `fit(counts)`, which gives a function from counts to codes.
        searched: The method whose search chose its settings; "" if there is nothing to choose.
        second_order: Whether its codes have variances.
        positive: Whether its codes are ≥ 0, so that their square roots are taken, but not in the paper's views.
        paper: Its column of the paper's tables.
    """

    label: str
    settings: DocumentCodes
    searched: str = ""
    second_order: bool = False
    paper: str = ""
    positive: bool = False


METHODS = {
    "gaussian": Method("Gaussian NPN", GAUSSIAN, "gaussian", True, "Gaussian"),
    "gamma": Method("gamma NPN", GAMMA, "gamma", True, "gamma", True),
    "poisson": Method("Poisson NPN", POISSON, "poisson", True, "Poisson", True),
    "sae": Method("SAE", StackedAutoencoder(), "sae", paper="SAE"),
    "sae_wide": Method("SAE, double budget", StackedAutoencoder(hidden=WIDE), "sae"),
    "sdae": Method("SDAE", StackedAutoencoder(masking=0.7), "sdae", paper="SDAE"),
    "sdae_wide": Method("SDAE, double budget", StackedAutoencoder(hidden=WIDE, masking=0.7), "sdae"),
    "vae": Method("VAE", VariationalAutoencoder(masking=0.7), "vae", True, "VAE"),
    "vae_wide": Method("VAE, double budget", VariationalAutoencoder(hidden=WIDE, masking=0.7), "vae", True),
    "svd": Method("truncated SVD", LatentSemantics()),
    "tfidf": Method("tf-idf, cosine", TfIdf()),
}
OURS = ("gaussian", "gamma", "poisson")


def prepared(method: Method, changes: Setting, seed: int, device: torch.device, quick: bool) -> DocumentCodes:
    """A method's settings with changes, for a seed on a device, and for tiny sizes."""
    known = {field.name for field in dataclasses.fields(method.settings)}  # type: ignore[arg-type]
    work = {"seed": seed, "device": str(device), **(QUICK if quick else {})}
    return dataclasses.replace(  # type: ignore[type-var]
        method.settings, **(changes | {name: value for name, value in work.items() if name in known})
    )


class Codes(NamedTuple):
    """Of all documents, as the network's own pass has them; and with covariances, which the use "joint" is made for."""

    own: Moments
    joint: JointMoments | None = None


class View(NamedTuple):
    """How `LinkPredictor` sees codes, what stands for the variance if it is a control, and whether it knows lengths."""

    pairs: str
    variance: str
    doubt: float = 1.0
    control: str = ""
    sums: bool = False
    length: bool = False

    @property
    def label(self) -> str:
        """Its name in a record and in tables."""
        parts = [f"{self.pairs}: {self.variance}", f"doubt {self.doubt:g}" if self.doubt != 1 else ""]
        parts.append("and sums" if self.sums else "")
        parts.append("and length" if self.length else "")
        return ", ".join(filter(None, [*parts, f"variance = {self.control}" if self.control else ""]))


def known(use: str, doubt: float = 1.0, control: str = "") -> View:
    """With all that is known of both documents beside."""
    return View("cosine", use, doubt, control, sums=True, length=True)


LENGTH, ZERO = "length", "0"  # in place of the variance: a function of how many words a document has; nothing
PAPER_MEAN, PAPER = View("hadamard", "none"), View("hadamard", "features")
PRODUCTS, SUMS = View("cosine", "none"), View("cosine", "none", sums=True)
MEAN, DISTANCES = known("none"), known("divergence", control=ZERO)  # the latter: of means, squared
DIRECTIONS = known("joint", control=ZERO)  # sums of means of one length, and of their squares
TRIED_MEANS = SUMS, PRODUCTS  # with every setting of a search
TRIED = (
    *(View("cosine", use, sums=True) for use in ("features", "predictive", "divergence")),
    *(View("cosine", use, doubt, sums=True) for use in ("shrunk", "weighted") for doubt in (1.0, 3.0)),
    View("cosine", "features"),
)
MEANS = MEAN, DISTANCES, DIRECTIONS  # from which it chooses with the best settings
USES = (
    *map(known, ("features", "predictive", "divergence", "shrunk")),
    *(known("posterior", doubt) for doubt in (0.5, 1.0, 2.0)),
    *(known("joint", doubt) for doubt in (0.5, 1.0)),
)


def views(use: View | None) -> tuple[View, ...]:
    """Those that are reported: means, and with variances the chosen use, the paper's, and controls of the chosen."""
    means = *MEANS, PAPER_MEAN
    return means if use is None else tuple(dict.fromkeys((*means, use, PAPER, *controls(use))))


def controls(use: View) -> tuple[View, ...]:
    """The same use of something else; an average variance has no features of its own."""
    kinds = [kind for kind in (*CONTROLS, LENGTH) if (kind, use.variance) != ("average", "features")]
    return tuple(use._replace(control=kind) for kind in kinds)


def seen(codes: Codes, words: Tensor, view: View) -> links.Codes:
    """Codes as a view sees them; `words` is how many a document has, (documents,)."""
    of_joint = view.variance == "joint" and codes.joint is not None
    x: links.Codes = codes.joint if of_joint else codes.own  # type: ignore[assignment]
    if view.variance == "none":
        return Moments(x.mean)
    if view.control == ZERO:
        return Moments(x.mean, torch.zeros_like(x.mean))
    if view.control == LENGTH:
        return known_by_length(x, words)
    return CONTROLS[view.control](x) if view.control else x


def known_by_length(x: links.Codes, words: Tensor) -> links.Codes:
    """Codes whose log variance is a + b l + c l² with l = log(1 + words), by least squares for each dimension.

    Long documents are better known: if this does as well as the variance, then length is all that the variance says.
    It is scaled to the mean variance of each dimension.
    """
    assert x.variance is not None
    variance, mean = x.variance, x.variance.mean(0)
    logs = torch.log(torch.where(mean > 0, variance + _LEAST * mean, 1.0)).double()
    powers = torch.log1p(words.double())[:, None] ** torch.arange(3)
    fitted = powers @ torch.linalg.lstsq(powers, logs, driver="gelsd").solution
    return with_variance(x, torch.exp(fitted - fitted.max(0).values).to(x.mean.dtype))
