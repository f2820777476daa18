"""The paper's MNIST experiments to the letter: test errors by training size, and Figure 2 with its own bins.

784-800-800-10 with ReLU, ten sigmoids with cross-entropy, AdaDelta, minibatches of 128, 2,000 epochs. Dropout, whose
rates the paper does not print, has the usual ones. The gamma network is the paper's: v(x) = 1 - exp(-τ x) in all
layers, the last included, whose means are the ten probabilities; τ = 1.5, for which the supplement finds v close to
tanh. It starts at the library's first weights, since the paper prints none. All subsets or seeds of a network are
trained at once, as replicas; all but the small gamma networks need a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from npn_studies.experiments.digit_methods import outputs
from npn_studies.experiments.digits import CLASSES, TRAINING, Images, digits, judged, subsets
from npn_studies.experiments.experiment import Cell, MissingData, Options
from npn_studies.experiments.paper_networks import EPOCHS, gaussian_network, trained
from npn_studies.experiments.tables import rounded
from torchnpn import maps, nn
from torchnpn.likelihoods import BernoulliPoisson, Likelihood, ScaledSigmoids
from torchnpn.moments import Moments

SIZES = {100: 5, 500: 5, 2_000: 5, 10_000: 5, TRAINING: 5}  # images, and how many subsets or seeds of them
VARIANTS: dict[str, dict[str, Any]] = {
    "full": {"kl_weight": 1.0, "dropout": 0.0, "input_dropout": 0.0},
    "none": {"kl_weight": 0.0, "dropout": 0.0, "input_dropout": 0.0},
    "dropout": {"kl_weight": 0.0, "dropout": 0.5, "input_dropout": 0.2},
}
GAMMA_IMAGES = 1_000, TRAINING
GAMMA_EPOCHS = 25  # a step takes twenty times as long as a fused one
ON_CPU = 1_000  # images
GAMMA: dict[str, dict[str, Any]] = {
    "adadelta": {"optimizer": "adadelta", "learning_rate": 1.0, "kl_weight": 1.0},
    "adam": {"optimizer": "adam", "learning_rate": 0.001, "kl_weight": 1.0},
    "adam/none": {"optimizer": "adam", "learning_rate": 0.1, "kl_weight": 0.0},
}
SEED, TAU = 0, 1.5
WIDTH, BINS = 0.04, 9  # of Figure 2; a tenth entry counts what lies beyond
FEWEST = 50  # images that a bin needs to have an accuracy worth showing
QUICK = {"epochs": 2, "hidden": [16, 16]}


def cells(options: Options) -> list[Cell]:
    """Gaussian networks by size and variant, then gamma networks by size and optimizer."""
    sizes, gammas = ([100], [100]) if options.quick else (SIZES, GAMMA_IMAGES)
    found = [_gaussian(size, name, options) for size in sizes for name in VARIANTS]
    return found + [_gamma(size, name, options) for size in gammas for name in GAMMA]


def _gaussian(size: int, name: str, options: Options) -> Cell:
    common = {"images": size, "subsets": options.seeds or SIZES[size], "hidden": [800, 800], "epochs": EPOCHS}
    settings = common | VARIANTS[name] | (QUICK | {"subsets": 2} if options.quick else {})
    return Cell(f"mnist/{size}/{name}", settings, lambda progress: gaussian(settings, options))


def _gamma(size: int, name: str, options: Options) -> Cell:
    common = {"images": size, "subsets": options.seeds or 1, "hidden": [800, 800], "epochs": GAMMA_EPOCHS, "tau": TAU}
    settings = common | GAMMA[name] | (QUICK if options.quick else {})
    return Cell(f"mnist/{size}/gamma/{name}", settings, lambda progress: gamma(settings, options))


def gaussian(settings: dict[str, Any], options: Options) -> dict[str, Any]:
    """Error, NLL and calibration of each subset's network; accuracy by bins over all of them."""
    likelihood, images = ScaledSigmoids(CLASSES), _Images(settings, options)
    layers = gaussian_network([784, *settings["hidden"], CLASSES], SEED, images.replicas, settings["dropout"])
    network = images.learnt(nn.Sequential(nn.Dropout(settings["input_dropout"]), *layers), likelihood, lambda y: y)
    o = outputs(network, images.test.x)
    assert o.variance is not None
    probs = likelihood.predict(o).probs
    correct = (probs.argmax(-1) == images.test.y).flatten()
    ways = {
        "paper": maps.paper.sigmoid(o),
        "certain": maps.paper.sigmoid(Moments(o.mean, torch.zeros_like(o.variance))),
        "exact": maps.accurate.sigmoid(o),
    }
    bins = {name: by_bins(a.variance.sum(-1).flatten(), correct) for name, a in ways.items()}  # type: ignore[union-attr]
    return {**judged(probs, images.test.y), "bins": bins}


def gamma(settings: dict[str, Any], options: Options) -> dict[str, Any]:
    """Error, NLL and calibration of the paper's gamma network, and its mean loss before and after."""
    likelihood, images = BernoulliPoisson(), _Images(settings, options)
    activation, generator = nn.Saturating("gamma", tau=settings["tau"]), torch.Generator().manual_seed(SEED)
    sizes = [784, *settings["hidden"], CLASSES]
    network = nn.mlp(sizes, "gamma", activation, replicas=images.replicas, generator=generator).to(options.device)

    def loss() -> float:
        seen = images.train.first(1_000)
        return rounded(float(likelihood.loss(outputs(network.eval(), seen.x), _one_hot(seen.y)).mean()))

    before = loss()
    images.learnt(network.train(), likelihood, _one_hot)
    p = likelihood.predict(outputs(network, images.test.x)).mean
    return {**judged(p / p.sum(-1, keepdim=True), images.test.y), "loss_before_and_after": [before, loss()]}


class _Images:
    """The images of one piece, and how its networks are trained on them."""

    def __init__(self, settings: dict[str, Any], options: Options) -> None:
        size, self.settings, self.device = settings["images"], settings, options.device
        if not options.quick and self.device.type == "cpu" and size != ON_CPU:
            raise MissingData(
                f"{size:,} images for {settings['epochs']:,} epochs need a GPU: npn reproduce paper on one."
            )
        data = digits(options.device)
        self.replicas = (settings["subsets"],)
        self.rows = subsets(size, range(settings["subsets"])).to(options.device)
        self.train = Images(data.train.x[self.rows[0]], data.train.y[self.rows[0]])  # of the first subset
        self.all, self.test = data.train, data.test.first(500 if options.quick else None)

    def learnt(
        self, network: nn.Sequential, likelihood: Likelihood, target: Callable[[Tensor], Tensor]
    ) -> nn.Sequential:
        """The networks, each trained on its subset."""
        several = len(self.rows) > 1
        images = self.all if several else self.train
        parts = images.x, target(images.y)
        rows = self.rows if several else None
        return trained(network, parts, likelihood, self.settings, SEED, self.device, rows)


def _one_hot(y: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(y, CLASSES).float()


def by_bins(variance: Tensor, correct: Tensor) -> dict[str, list[Any]]:
    """Images and accuracy in percent in bins [0, 0.04), [0.04, 0.08), …; the last entry is all that lies beyond."""
    bins = (variance / WIDTH).long().clamp(0, BINS)
    counts: Sequence[int] = torch.bincount(bins, minlength=BINS + 1).tolist()
    right = torch.bincount(bins, weights=correct.double(), minlength=BINS + 1).tolist()
    accuracy = [rounded(100 * r / n) if n else None for r, n in zip(right, counts, strict=True)]
    return {"count": list(counts), "accuracy": accuracy}
