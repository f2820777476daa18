"""The paper's document experiments to the letter: B-100-50 autoencoders of bags of words in [0, 1], and link ranks.

The error is KL(N(y, ε) ‖ N(o_m, o_s)) for all three families, which the supplement allows for normalised words; the
Gaussian network has the paper's sigmoid, the Poisson one its KL map with r = 1 and τ = 0.1, which the gamma network
shares. The features of a pair are Hadamard products of means and, beside them, of variances. The link rank is averaged
in both ways: over the neighbours of a node and then over nodes, and over all links; what that does is shown by
baselines, too. Networks learn for 100 epochs: of 2,000, each would take a GPU a quarter of an hour, and there are 12.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from npn_studies.experiments import links
from npn_studies.experiments.document_networks import DocumentNetwork
from npn_studies.experiments.experiment import Cell, MissingData, Options, Progress
from npn_studies.experiments.link_methods import DISTANCES, METHODS
from npn_studies.experiments.link_metrics import LinkQuality, link_quality
from npn_studies.experiments.paper_networks import BATCH, EPSILON, PRECISION
from npn_studies.experiments.tables import rounded
from torchnpn.links import Codes as NodeCodes
from torchnpn.links import LinkPredictor, Normalisation, PairFeatures, Products
from torchnpn.moments import Moments

SEEDS, EPOCHS = 1, 100  # the paper prints one figure each, after 2,000 epochs
FAMILIES: dict[str, dict[str, Any]] = {
    "gaussian": {"activation": "paper_sigmoid"},
    "gamma": {"activation": "saturating", "tau": 0.1, "initial_variance": 0.1},
    "poisson": {"activation": "saturating_kl", "tau": 0.1, "initial_variance": 0.1},
}
WEIGHTS = {"full": 1.0, "none": 0.0}
BASELINES = "tfidf", "svd"


@dataclass(frozen=True)
class PaperDocumentNetwork(DocumentNetwork):
    """`DocumentAutoencoder` with the paper's settings."""

    loss: str = "gaussian"
    epsilon: float = EPSILON
    masking: float = 0.0
    input_noise: float = 0.0
    prior_precision: float | str = PRECISION
    learning_rate: float = 1.0
    optimizer: str = "adadelta"
    scaling: str = "max"
    r: float = 1.0
    epochs: int = EPOCHS
    batch_size: int = BATCH


def cells(options: Options) -> list[Cell]:
    """Both averages for baselines; then, for a GPU, three families with and without the KL divergence."""
    names = links.QUICK_DATA if options.quick else links.DATA
    averages = [_baseline(name, key, options) for name in names for key in BASELINES]
    networks = [_network(n, family, w, options) for n in names for family in FAMILIES for w in WEIGHTS]
    return averages + networks


def _baseline(name: str, key: str, options: Options) -> Cell:
    seeds = options.seeds or SEEDS

    def run(progress: Progress) -> dict[str, Any]:
        data, found = links.documents(name, options.quick), []
        for seed in range(seeds):
            codes, _ = links.learnt(METHODS[key].settings, data.counts, options.device)
            task = links.tasks(data.counts.shape[0], data.links, seed)["nodes"]
            found.append(averages(links.judge(data, key, seed, options).found(codes, DISTANCES, task)))
            progress((seed + 1) / seeds)
        words = rounded(float((data.counts > 0).sum() / data.counts.shape[0]))
        return {of: [one[of] for one in found] for of in found[0]} | {"distinct_words": words}

    return Cell(f"links/{name}/{key}", {"method": key, "seeds": seeds}, run)


def averages(quality: LinkQuality) -> dict[str, float]:
    """The link rank in both averages, and AUC."""
    return {"rank": rounded(quality.rank), "rank_of_links": rounded(quality.rank_of_links), "auc": rounded(quality.auc)}


def _network(name: str, family: str, weight: str, options: Options) -> Cell:
    seeds = options.seeds or SEEDS
    quick: dict[str, Any] = {"hidden": (20, 10), "epochs": 2, "batch_size": 64} if options.quick else {}
    chosen: dict[str, Any] = {"family": family, "kl_weight": WEIGHTS[weight], **FAMILIES[family], **quick}
    network = PaperDocumentNetwork(device=str(options.device), **chosen)

    def run(progress: Progress) -> dict[str, Any]:
        if options.device.type == "cpu" and not options.quick:
            raise MissingData(f"{network.epochs:,} epochs of all documents need a GPU: npn reproduce paper on one.")
        data, found = links.documents(name, options.quick), []
        for seed in range(seeds):
            task = links.tasks(data.counts.shape[0], data.links, seed)["nodes"]
            code = network.fit(data.counts)(data.counts)
            both = Moments(*(torch.from_numpy(np.asarray(part)) for part in code))
            for view, codes in (("with variance", both), ("mean", Moments(both.mean))):
                found.append((view, averages(judged(codes, task, seed, options))))
            progress((seed + 1) / seeds)
        return {view: {of: [one[of] for v, one in found if v == view] for of in found[0][1]} for view, _ in found}

    return Cell(f"links/{name}/{family}/{weight}", {**links.told(network), "seeds": seeds}, run)


def judged(codes: Moments, task: links.Task, seed: int, options: Options) -> LinkQuality:
    """How a Bayesian logistic regression of Hadamard products ranks the links of test documents."""
    negatives = links.QUICK_NEGATIVES if options.quick else links.NEGATIVES
    predictor = LinkPredictor(hadamard, "none", negatives=negatives, device=str(options.device), random_state=seed)
    predictor.fit(codes, task.links, task.nodes)
    return link_quality(predictor.score_blocks(task.rows, task.columns), task.true, task.left_out)


def hadamard(x: NodeCodes, nodes: Tensor, normalise: Normalisation) -> PairFeatures:
    """m_i m_j, and s_i s_j where codes have variances."""
    parts = [x.mean] if x.variance is None else [x.mean, x.variance]
    return PairFeatures(Products.hadamard(torch.cat(parts, 1)))
