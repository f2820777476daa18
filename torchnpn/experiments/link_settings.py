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


_DECAY: Setting = {"learning_rate": 0.005, "weight_decay": 0.3}
_LONG = _DECAY | {"epochs": 60}
_FAST: Setting = {"learning_rate": 0.1}
CHOSEN: dict[str, dict[str, Choice]] = {
    "citeulike-t": {
        "gaussian": Choice(_LONG, View("cosine", "shrunk", doubt=3.0, sums=True)),
        "gamma": Choice(_FAST, View("cosine", "features", sums=True)),
        "poisson": Choice(_FAST | {"masking": 0.6, "epochs": 60}, View("cosine", "features", sums=True)),
        "sae": Choice(_LONG | {"weight_decay": 1.0}),
        "sdae": Choice(_LONG | {"masking": 0.8}),
        "vae": Choice(_LONG | {"binary": True}, View("cosine", "divergence", sums=True)),
    },
    "arxiv": {
        "gaussian": Choice(_DECAY, View("cosine", "weighted", doubt=3.0, sums=True)),
        "gamma": Choice(_FAST | {"masking": 0.8}, View("cosine", "features", sums=True)),
        "poisson": Choice(_FAST | {"masking": 0.8, "epochs": 60}, View("cosine", "divergence", sums=True)),
        "sae": Choice(_DECAY | {"weight_decay": 1.0}),
        "sdae": Choice(_DECAY),
        "vae": Choice(_DECAY | {"binary": True, "masking": 0.6}, View("cosine", "features", sums=True)),
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
