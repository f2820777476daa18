"""The settings of `links`: the best of `links_search`, by data set and method."""

from __future__ import annotations

from typing import NamedTuple

from torchnpn.experiments.link_methods import METHODS, Setting, View

EPOCHS = 30  # on the graphs that were searched, in `links` as in the search; others have the methods' own


class Choice(NamedTuple):
    """What a search chose.

    Attributes:
        changes: To the method's own settings.
        use: Of the variance, the best of `link_methods.USES`; None for codes without one.
    """

    changes: Setting
    use: View | None = None


CHOSEN: dict[str, dict[str, Choice]] = {
    "citeulike-t": {
        "gaussian": Choice({}, View("cosine", "features")),
        "gamma": Choice({}, View("cosine", "features")),
        "poisson": Choice({}, View("cosine", "features")),
        "sae": Choice({}),
        "sdae": Choice({}),
        "vae": Choice({}, View("cosine", "features")),
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
    return CHOSEN[data][searched]._replace(changes=CHOSEN[data][searched].changes | {"epochs": EPOCHS})
