"""The paper's MNIST experiments to the letter: test errors by training size, and Figure 2 with its own bins.

784-800-800-10 with ReLU, ten sigmoids with cross-entropy, AdaDelta, minibatches of 128, 2,000 epochs. Dropout, whose
rates the paper does not print, has the usual ones. The gamma network is the paper's: v(x) = 1 - exp(-τ x) in all
layers, the last included, whose means are the ten probabilities; τ = 1.5, for which the supplement finds v close to
tanh. It starts at the library's first weights, since the paper prints none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from npn_studies.experiments.digit_methods import outputs
from npn_studies.experiments.digits import CLASSES, TRAINING, digits, judged, subsets
from npn_studies.experiments.experiment import Cell, MissingData, Options, Progress
from npn_studies.experiments.paper_networks import EPOCHS, gaussian_network, trained
from npn_studies.experiments.tables import rounded
from torchnpn import maps, nn
from torchnpn.likelihoods import BernoulliPoisson, ScaledSigmoids
from torchnpn.moments import Moments

SIZES = {100: 5, 500: 5, 2_000: 5, 10_000: 5, TRAINING: 5}  # images, and how many subsets or seeds of them
VARIANTS: dict[str, dict[str, Any]] = {
    "full": {"kl_weight": 1.0, "dropout": 0.0, "input_dropout": 0.0},
    "none": {"kl_weight": 0.0, "dropout": 0.0, "input_dropout": 0.0},
    "dropout": {"kl_weight": 0.0, "dropout": 0.5, "input_dropout": 0.2},
}
CPU: dict[str, int] = {"subsets": 1, "epochs": 1_000}  # of 100 images: what a CPU does in a minute
CPU_IMAGES = 100, 1_000  # of Gaussian and of gamma networks; a CPU would take hours for more
GAMMA_IMAGES = 1_000, TRAINING
GAMMA: dict[str, dict[str, Any]] = {
    "adadelta": {"optimizer": "adadelta", "learning_rate": 1.0},
    "adam": {"optimizer": "adam", "learning_rate": 0.001},
}
GAMMA_EPOCHS = 25  # of 1,000 images
TAU = 1.5
WIDTH, BINS = 0.04, 9  # of Figure 2; a tenth entry counts what lies beyond
QUICK = {"epochs": 2, "hidden": [16, 16]}


def cells(options: Options) -> list[Cell]:
    """Small training sets first: those are all that a CPU does."""
    sizes = [100] if options.quick else SIZES
    gammas = [100] if options.quick else GAMMA_IMAGES
    found = [_gaussian(size, name, options) for size in sizes for name in VARIANTS]
    found += [_gamma(size, name, options) for size in gammas for name in GAMMA]
    return sorted(found, key=lambda cell: cell.settings["images"] not in CPU_IMAGES)


def _gaussian(size: int, name: str, options: Options) -> Cell:
    common = {"images": size, "subsets": options.seeds or SIZES[size], "hidden": [800, 800], "epochs": EPOCHS}
    on_cpu = options.device.type == "cpu" and size in CPU_IMAGES
    less = QUICK | {"subsets": 2} if options.quick else CPU if on_cpu else {}
    settings = common | VARIANTS[name] | less
    return Cell(f"mnist/{size}/{name}", settings, lambda progress: gaussian(settings, options, progress))


def _gamma(size: int, name: str, options: Options) -> Cell:
    epochs = GAMMA_EPOCHS if size < TRAINING else EPOCHS
    common = {"images": size, "subsets": options.seeds or 1, "hidden": [800, 800], "epochs": epochs, "tau": TAU}
    settings = common | GAMMA[name] | {"kl_weight": 1.0} | (QUICK if options.quick else {})
    return Cell(f"mnist/{size}/gamma/{name}", settings, lambda progress: gamma(settings, options, progress))


def gaussian(settings: dict[str, Any], options: Options, progress: Progress) -> dict[str, Any]:
    """Error, NLL and calibration for each subset; accuracy by bins over all of them."""
    likelihood = ScaledSigmoids(CLASSES)

    def make(seed: int) -> nn.Sequential:
        network = gaussian_network([784, *settings["hidden"], CLASSES], seed, dropout=settings["dropout"])
        return nn.Sequential(nn.Dropout(settings["input_dropout"]), *network)

    found, y = _each(make, likelihood, settings, options, progress)
    probs = torch.stack([likelihood.predict(o).probs for o in found])
    correct = torch.cat([one.argmax(-1) == y for one in probs])
    o = Moments(*(torch.cat(parts) for parts in zip(*found, strict=True)))
    assert o.variance is not None
    ways = {
        "paper": maps.paper.sigmoid(o),
        "certain": maps.paper.sigmoid(Moments(o.mean, torch.zeros_like(o.variance))),
        "exact": maps.accurate.sigmoid(o),
    }
    return {**judged(probs, y), "bins": {name: by_bins(a.variance.sum(-1), correct) for name, a in ways.items()}}  # type: ignore[union-attr]


def gamma(settings: dict[str, Any], options: Options, progress: Progress) -> dict[str, Any]:
    """Error, NLL and calibration of the paper's gamma network, and how far its loss fell."""
    likelihood = BernoulliPoisson()
    losses = []

    def make(seed: int) -> nn.Sequential:
        activation = nn.Saturating("gamma", tau=settings["tau"])
        sizes = [784, *settings["hidden"], CLASSES]
        return nn.mlp(sizes, "gamma", activation, generator=torch.Generator().manual_seed(seed))

    def note(o: Moments, y: Tensor) -> None:
        losses.append(rounded(float(likelihood.loss(o, _one_hot(y)).mean())))

    found, y = _each(make, likelihood, settings, options, progress, note)
    probs = torch.stack([p / p.sum(-1, keepdim=True) for p in (likelihood.predict(o).mean for o in found)])
    return {**judged(probs, y), "loss_before_and_after": losses}


def _each(
    make: Callable[[int], nn.Sequential],
    likelihood: Any,
    settings: dict[str, Any],
    options: Options,
    progress: Progress,
    note: Callable[[Moments, Tensor], None] | None = None,
) -> tuple[list[Moments], Tensor]:
    """What a network for each subset makes of the test images; and their labels."""
    size, device = settings["images"], options.device
    if size not in CPU_IMAGES and device.type == "cpu":
        raise MissingData(f"{size:,} images for {settings['epochs']:,} epochs need a GPU: npn reproduce paper on one.")
    data, found = digits(device), []
    test = data.test.first(500 if options.quick else None)
    labels = _one_hot if isinstance(likelihood, BernoulliPoisson) else lambda y: y
    for seed, rows in enumerate(subsets(size, range(settings["subsets"])).to(device)):
        x, y, network = data.train.x[rows], data.train.y[rows], make(seed).to(device)
        if note is not None:
            note(outputs(network.eval(), x), y)
        trained(network.train(), (x, labels(y)), likelihood, settings, seed, device)
        if note is not None:
            note(outputs(network, x), y)
        found.append(outputs(network, test.x))
        progress((seed + 1) / settings["subsets"])
    return found, test.y


def _one_hot(y: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(y, CLASSES).float()


def by_bins(variance: Tensor, correct: Tensor) -> dict[str, list[Any]]:
    """Images and accuracy in percent in bins [0, 0.04), [0.04, 0.08), …; the last entry is all that lies beyond."""
    bins = (variance / WIDTH).long().clamp(0, BINS)
    counts: Sequence[int] = torch.bincount(bins, minlength=BINS + 1).tolist()
    right = torch.bincount(bins, weights=correct.double(), minlength=BINS + 1).tolist()
    accuracy = [rounded(100 * r / n) if n else None for r, n in zip(right, counts, strict=True)]
    return {"count": list(counts), "accuracy": accuracy}
