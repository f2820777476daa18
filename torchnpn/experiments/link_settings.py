"""The settings of `links`: the best of `links_search`, by data set and method."""

from __future__ import annotations

from typing import NamedTuple

from torchnpn.experiments.link_methods import METHODS, Setting, View


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
    if not METHODS[method].searched:
        return Choice({})
    return CHOSEN.get(data, CHOSEN[_ELSEWHERE])[METHODS[method].searched]
