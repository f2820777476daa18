"""The settings that `links_search` tries: by data set and method, changes to the method's own settings.

Each row was drawn near the best of those before it, so that they tell how the search went. Where to look last was seen
on some sixty more networks, most of them Gaussian, on the same validation documents, and so was the use "joint" found.
"""

from __future__ import annotations

from typing import Any

from npn_studies.experiments.link_methods import Setting

Grid = tuple[Setting, ...]


def _each(base: Setting, name: str, *values: Any) -> Grid:
    """A setting for each value."""
    return tuple({**base, name: value} for value in values)


_FAST: Setting = {"learning_rate": 5e-3}
_DECAY = _FAST | {"weight_decay": 0.3}
_LONG = _DECAY | {"epochs": 60}
_ONCE = _LONG | {"binary": True}  # each word counts once
_MASKED = _LONG | {"masking": 0.8}
_CERTAIN = _MASKED | {"input_noise": 0.0}
_LEARNT = _CERTAIN | {"kl_weight": 0.1, "prior_precision": "evidence", "weight_decay": 0.1}
_SHARP = _CERTAIN | {"kl_weight": 0.0001, "encoding_noise": 0.5}
_SMOOTH = _LEARNT | {"kl_weight": 0.01, "weight_decay": 0.2, "encoding_noise": 0.5, "learning_rate": 0.01}
_SIGNED: Grid = (  # of Gaussian and point networks alike
    {},
    *_each(_FAST | {"binary": True}, "weight_decay", 0.1, 0.3),
    *_each(_FAST, "weight_decay", 0.1, 0.3, 1.0),
)
_STEEP: Setting = {"learning_rate": 0.1}
_LINEAR = _STEEP | {"tau": 0.01}  # neurons that hardly saturate
_COUNTED = _STEEP | {"loss": "poisson", "epochs": 60}
_POSITIVE: Grid = (  # of gamma and Poisson networks
    {},
    _STEEP,
    _STEEP | {"binary": True},
    *_each(_STEEP, "masking", 0.6, 0.8),
    {"learning_rate": 0.2},
)


def _grids(masking: tuple[float, float], last: dict[str, Grid]) -> dict[str, Grid]:
    """By method; `masking` of the first long trainings of positive networks, `last` what differs at the end."""
    positive = *_POSITIVE, *_each(_STEEP | {"epochs": 60}, "masking", *masking)
    return {
        "gaussian": (
            *_SIGNED,
            *(_DECAY | {"kl_weight": 0.05}, _DECAY | {"kl_weight": 0.05, "masking": 0.8}),
            *_each(_LONG, "weight_decay", 0.3, 0.15),
            *(_CERTAIN, _CERTAIN | {"input_noise": 0.2}, _CERTAIN | {"kl_weight": 0.001}, _CERTAIN | {"masking": 0.85}),
            *(_CERTAIN | {"kl_weight": 0.0001}, _CERTAIN | {"kl_weight": 0.001, "masking": 0.75}),
            *_each(_LEARNT, "masking", 0.8, 0.85),
            *last["gaussian"],
        ),
        "sae": (
            *_SIGNED,
            *_each(_FAST, "weight_decay", 2.0, 3.0),
            *_each(_LONG, "weight_decay", 1.0, 0.5),
            *_each(_LONG, "weight_decay", 0.7, 0.85, 1.2, 1.4),
            *_each(_LONG | {"weight_decay": 1.0}, "learning_rate", 0.003, 0.007),
            *_each(_LONG | {"epochs": 100}, "weight_decay", 1.0, 1.2),
            *_each(_LONG | {"epochs": 150}, "weight_decay", 1.0, 1.2),
        ),
        "sdae": (
            *_SIGNED,
            *_each(_DECAY, "masking", 0.6, 0.8),
            *_each(_MASKED, "weight_decay", 0.3, 0.15),
            *_each(_LONG, "masking", 0.85, 0.9),
            *_each(_LONG | {"weight_decay": 0.45}, "masking", 0.8, 0.85),
            *(_LONG | {"masking": 0.75}, _MASKED | {"weight_decay": 0.22}),
            *_each(_LONG | {"epochs": 100}, "masking", 0.75, 0.8),
            *last["sdae"],
        ),
        "vae": (
            *_SIGNED,
            *_each(_DECAY | {"binary": True}, "masking", 0.6, 0.8),
            *_each(_ONCE, "weight_decay", 0.3, 0.15),
            *_each(_ONCE, "beta", 0.03, 0.3),
            *_each(_ONCE, "weight_decay", 0.2, 0.4),
            *(_ONCE | {"beta": 0.01}, _ONCE | {"beta": 0.03, "masking": 0.8}),
            *(_ONCE | {"beta": 0.003}, _ONCE | {"beta": 0.01, "epochs": 100}),
            *(_ONCE | {"beta": 0.003, "epochs": 100}, _ONCE | {"beta": 0.01, "epochs": 150}),
        ),
        "gamma": (
            *positive,
            *_each(_LINEAR, "masking", 0.7, 0.8),
            *(_LINEAR | {"learning_rate": 0.2}, _LINEAR | {"epochs": 60}),
            *_each(_COUNTED, "masking", 0.6, 0.7, 0.8),
            *_each(_COUNTED | {"tau": 0.01}, "masking", 0.7, 0.8),
            _COUNTED | {"masking": 0.8, "epochs": 90},
            *_each(_COUNTED | {"masking": 0.8, "encoding_noise": 0.8}, "epochs", 90, 120),
        ),
        "poisson": (
            *positive,
            *_each(_LINEAR | {"loss": "bce"}, "masking", 0.7, 0.8),
            *_each(_LINEAR | {"loss": "bce", "masking": 0.7}, "learning_rate", 0.2),
            *_each(_LINEAR | {"loss": "bce", "masking": 0.7}, "epochs", 60),
            *_each(_COUNTED | {"tau": 0.01}, "masking", 0.6, 0.8),
            *(_COUNTED | {"learning_rate": 0.07, "masking": 0.6}, _COUNTED | {"masking": 0.85}),
            *(_COUNTED | {"tau": 0.01, "masking": 0.85}, _COUNTED | {"tau": 0.01, "masking": 0.8, "epochs": 90}),
            *_each(_COUNTED | {"masking": 0.8}, "epochs", 90, 120),
        ),
    }


GRIDS = {
    "citeulike-t": _grids(
        (0.6, 0.7),
        {
            "gaussian": _each(_SHARP, "learning_rate", 0.005, 0.01),
            "sdae": (_MASKED | {"epochs": 150}, _MASKED | {"epochs": 100, "learning_rate": 0.01}),
        },
    ),
    "arxiv": _grids(
        (0.7, 0.8),
        {
            "gaussian": _each(_SMOOTH, "epochs", 100, 150),
            "sdae": _each(_LONG | {"epochs": 150, "masking": 0.75}, "learning_rate", 0.005, 0.01),
        },
    ),
}
FINALS: dict[str, dict[str, tuple[int, int]]] = {  # the two best of each grid, from one
    "citeulike-t": {
        "gaussian": (19, 15),
        "sae": (17, 9),
        "sdae": (18, 9),
        "vae": (15, 18),
        "gamma": (13, 19),
        "poisson": (14, 18),
    },
    "arxiv": {
        "gaussian": (20, 19),
        "sae": (13, 14),
        "sdae": (19, 20),
        "vae": (20, 18),
        "gamma": (18, 19),
        "poisson": (19, 8),
    },
}
