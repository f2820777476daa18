"""The settings of `links`: the best of `links_search`, by data set and method."""

from __future__ import annotations

from typing import NamedTuple

from torchnpn.experiments.link_methods import METHODS, Setting, View

EPOCHS = 30  # on the graphs that were searched, where the search chose no other; others have the methods' own


class Choice(NamedTuple):
    """What a search chose.

    Attributes:
        changes: To the method's own settings.
        use: Of the variance, the best of `link_methods.USES`; None for codes without one.
    """

    changes: Setting
    use: View | None = None


_DECAY: Setting = {"learning_rate": 0.005, "weight_decay": 0.3, "epochs": 60}
_SHARP = _DECAY | {"masking": 0.8, "input_noise": 0.0, "kl_weight": 0.0001}
_COUNTED: Setting = {"learning_rate": 0.1, "loss": "poisson", "epochs": 60}
_DIVERGENCE, _FEATURES = View("cosine", "divergence", sums=True), View("cosine", "features", sums=True)
CHOSEN: dict[str, dict[str, Choice]] = {
    "citeulike-t": {
        "gaussian": Choice(_SHARP, _DIVERGENCE),
        "gamma": Choice(_COUNTED | {"masking": 0.6}, _FEATURES),
        "poisson": Choice(_COUNTED | {"tau": 0.01, "masking": 0.8}, _DIVERGENCE),
        "sae": Choice(_DECAY | {"weight_decay": 1.0}),
        "sdae": Choice(_DECAY | {"masking": 0.8}),
        "vae": Choice(_DECAY | {"binary": True, "beta": 0.01}, _DIVERGENCE),
    },
    "arxiv": {
        "gaussian": Choice(_SHARP, _DIVERGENCE),
        "gamma": Choice(_COUNTED | {"masking": 0.8}, _FEATURES),
        "poisson": Choice({"learning_rate": 0.1, "masking": 0.8, "epochs": 60}, _DIVERGENCE),
        "sae": Choice(_DECAY | {"weight_decay": 1.2}),
        "sdae": Choice(_DECAY | {"masking": 0.75}),
        "vae": Choice(_DECAY | {"binary": True, "beta": 0.03}, _FEATURES),
    },
}
_ELSEWHERE = "citeulike-t"  # whose settings other data sets take


def chosen(data: str, method: str) -> Choice:
    """For a data set and method; a wide network takes what was chosen for the narrow one."""
    searched = METHODS[method].searched
    if not searched:
        return Choice({})
    if data not in CHOSEN:
        return CHOSEN[_ELSEWHERE][searched]
    return CHOSEN[data][searched]._replace(changes={"epochs": EPOCHS} | CHOSEN[data][searched].changes)
