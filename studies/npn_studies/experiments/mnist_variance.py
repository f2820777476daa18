"""Whether doubt is worth something: accuracy by variance (the paper's figure), and images that are no digits.

Each network is trained on MNIST and asked about its test images, about Fashion-MNIST and about notMNIST. Ablations:
the same NPN without masks of its units when it is asked, so that all variance is of the weights; and with all weights
at their means, so that no variance is left but the shape of the outputs' means.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from scipy import stats
from torch import Tensor

from npn_studies.experiments.digit_methods import METHODS, Setting, Work, gaussian_network
from npn_studies.experiments.digit_scores import (
    Teller,
    aurocs,
    judged_score,
    of_method,
    of_npn,
    without_variance,
)
from npn_studies.experiments.digit_settings import CHOSEN
from npn_studies.experiments.digits import Images, digits, judged
from npn_studies.experiments.experiment import Cell, Experiment, Options, Progress
from npn_studies.experiments.mnist_variance_page import figure, headline, section
from npn_studies.experiments.tables import rounded
from torchnpn import datasets, nn

SEED, SEEDS = 0, 5
QUICK: Setting = {"hidden": [16], "epochs": 2, "batch_size": 32, "samples": 5}
SETTINGS: dict[str, Setting] = {
    "npn": CHOSEN["npn"],
    "npn_mixture": CHOSEN["npn"],
    "mc_dropout": CHOSEN["dropout"] | {"samples": 50},
    "ensemble": CHOSEN["ensemble"],
    "dropout": CHOSEN["dropout"],
    "dropout_mixture": CHOSEN["dropout"],
}
OUTSIDE = "fashion-mnist", "notmnist"


class Asked(NamedTuple):
    """Test images, and images of other kinds by their name."""

    test: Images
    outside: dict[str, Tensor]


def cells(options: Options) -> list[Cell]:
    """One for each method."""
    seeds = options.seeds or (2 if options.quick else SEEDS)

    def planned(name: str, setting: Setting) -> Cell:
        if options.quick:
            setting = setting | {key: value for key, value in QUICK.items() if key in setting}

        def run(progress: Progress) -> dict[str, Any]:
            images = digits(options.device).train.first(300 if options.quick else None)
            work, settings = Work(images, None, SEED, options.device, again=True), [setting] * seeds
            if name == "npn":
                return npn_figures(work, settings, asked(options))
            return figures(of_method(METHODS[name].fit(work, settings)), asked(options))

        return Cell(name, {**setting, "seed": SEED, "seeds": seeds}, run)

    return [planned(name, setting) for name, setting in SETTINGS.items()]


def asked(options: Options) -> Asked:
    """The images that all networks are asked about."""
    rows = 300 if options.quick else None
    outside = {name: torch.as_tensor(datasets.load(name).X[:rows], device=options.device) for name in OUTSIDE}
    return Asked(digits(options.device).test.first(rows), outside)


def figures(tell: Teller, asked: Asked) -> dict[str, Any]:
    """Error, NLL and calibration of networks, and what each of their scores is worth."""
    inside, outside = tell(asked.test.x), {name: tell(x) for name, x in asked.outside.items()}
    correct = inside.probs.argmax(-1) == asked.test.y
    scores = {
        name: judged_score(correct, doubt, {kind: told.scores[name] for kind, told in outside.items()})
        for name, doubt in inside.scores.items()
    }
    return {**judged(inside.probs, asked.test.y), "scores": scores}


def npn_figures(work: Work, settings: list[Setting], asked: Asked) -> dict[str, Any]:
    """Those of the NPN, of its ablations, and two controls.

    The controls: how each score goes with the entropy of the ablated network (rank correlation over test images), a
    function of means alone; and the AUROC of the sum of squared pixels, for which no network is needed.
    """
    network = gaussian_network(work, settings)
    masked = bool(settings[0].get("masks"))
    tell, tell_without = of_npn(nn.with_masks(network) if masked else network), without_variance(network)
    point = tell_without(asked.test.x).scores["entropy"]
    ink = {name: x.square().sum(-1)[None] for name, x in {"": asked.test.x, **asked.outside}.items()}
    return {
        **figures(tell, asked),
        **({"without_masks": figures(of_npn(network), asked)} if masked else {}),
        "without_variance": figures(tell_without, asked),
        "correlation": {name: _correlations(doubt, point) for name, doubt in tell(asked.test.x).scores.items()},
        "ink": {name: aurocs(ink[""], ink[name])[0] for name in asked.outside},
    }


def _correlations(a: Tensor, b: Tensor) -> list[float]:
    """Spearman's rank correlation for each network."""
    pairs = zip(a.cpu().numpy(), b.cpu().numpy(), strict=True)
    return [rounded(float(stats.spearmanr(*pair).statistic)) for pair in pairs]


EXPERIMENT = Experiment(
    name="mnist_variance",
    title="Accuracy by uncertainty, and images that are no digits",
    place="Figure 2",
    data=("mnist", *OUTSIDE),
    minutes=3,  # a third of it after `mnist` in one process, whose networks it asks again
    cells=cells,
    section=section,
    figure=figure,
    headline=headline,
)
