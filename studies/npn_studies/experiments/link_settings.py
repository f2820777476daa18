"""The settings of `links`: the best of `links_search`, by data set and method."""

from __future__ import annotations

from typing import NamedTuple

from npn_studies.experiments.link_methods import DIRECTIONS, DISTANCES, METHODS, Setting, View, known

EPOCHS = 30  # on the graphs that were searched, where the search chose no other; others have the methods' own


class Choice(NamedTuple):
    """What a search chose.

    Attributes:
        changes: To the method's own settings.
        use: Of the variance, the best of `link_methods.USES`; None for codes without one.
        mean: View of means alone, the best of `link_methods.MEANS`.
    """

    changes: Setting
    use: View | None = None
    mean: View = DISTANCES


_DECAY: Setting = {"learning_rate": 0.005, "weight_decay": 0.3, "epochs": 60}
_SHARP = _DECAY | {"masking": 0.8, "input_noise": 0.0, "kl_weight": 0.0001, "encoding_noise": 0.5}
_SMOOTH = _SHARP | {"kl_weight": 0.01, "prior_precision": "evidence", "weight_decay": 0.2}
_ONCE = _DECAY | {"binary": True, "beta": 0.01}
_COUNTED: Setting = {"learning_rate": 0.1, "loss": "poisson", "epochs": 90, "masking": 0.8}
_DIVERGENCE, _FEATURES, _JOINT = known("divergence"), known("features"), known("joint", doubt=0.5)
CHOSEN: dict[str, dict[str, Choice]] = {
    "citeulike-t": {
        "gaussian": Choice(_SHARP, known("joint")),
        "gamma": Choice(_COUNTED | {"encoding_noise": 0.8}, _FEATURES),
        "poisson": Choice(_COUNTED | {"tau": 0.01}, _DIVERGENCE),
        "sae": Choice(_DECAY | {"weight_decay": 1.0}, mean=DIRECTIONS),
        "sdae": Choice(_DECAY | {"epochs": 100, "masking": 0.8}, mean=DIRECTIONS),
        "vae": Choice(_ONCE | {"epochs": 100}, _DIVERGENCE, DIRECTIONS),
    },
    "arxiv": {
        "gaussian": Choice(_SMOOTH | {"learning_rate": 0.01, "epochs": 150}, _JOINT, DIRECTIONS),
        "gamma": Choice(_COUNTED, _FEATURES, DIRECTIONS),
        "poisson": Choice({"learning_rate": 0.1, "epochs": 60, "masking": 0.8}, _FEATURES, DIRECTIONS),
        "sae": Choice(_DECAY | {"weight_decay": 1.2}, mean=DIRECTIONS),
        "sdae": Choice(_DECAY | {"epochs": 150, "masking": 0.75}, mean=DIRECTIONS),
        "vae": Choice(_ONCE | {"epochs": 150}, _JOINT, DIRECTIONS),
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
