"""Topics of 20 Newsgroups: a gamma autoencoder with v(x) = x and no biases is a nonnegative matrix factorisation.

Beside it, scikit-learn's NMF with the Kullback-Leibler loss. Topics are judged by how often their words stand in the
same documents, by normalised pointwise mutual information in test documents.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import NMF

from torchnpn import datasets
from torchnpn.datasets.documents import Documents
from torchnpn.documents import Autoencoder
from torchnpn.experiments.experiment import Cell, Experiment, Options, Progress, Record
from torchnpn.experiments.tables import Summary, rounded, table

Array = NDArray[Any]
TOPICS, WORDS, SEEDS = 20, 10, 3
RELEVANCE = 0.6  # λ of `telling`
GAMMA_FACTORS = Autoencoder(
    family="gamma",
    hidden=(TOPICS,),
    activation="identity",
    bias=False,
    loss="bce",
    masking=0.7,
    input_noise=0.0,
    initial_variance=0.1,
    kl_weight=0.0,
    learning_rate=0.1,
)
QUICK: dict[str, Any] = {"hidden": (5,), "epochs": 3, "batch_size": 64, "warm_up": 5}
QUICK_DOCUMENTS, QUICK_TERMS = 500, 400


def coherence(topics: Sequence[Sequence[int]], counts: Any) -> list[float]:
    """Mean over the pairs of a topic's words of log(p_ij/(p_i p_j)) / -log p_ij, from shares of documents; -1 if never.

    It is 1 for words that only stand together, and 0 for words that are independent.
    """
    present = counts > 0
    values = []
    for words in topics:
        there = np.asarray(present[:, list(words)].todense(), dtype=np.float64)
        together = there.T @ there / len(there)
        pairs = []
        for i, j in itertools.combinations(range(len(words)), 2):
            p, one, other = together[i, j], together[i, i], together[j, j]
            never, always = p == 0, p == 1
            pairs.append(-1.0 if never else 1.0 if always else float(np.log(p / (one * other)) / -np.log(p)))
        values.append(rounded(float(np.mean(pairs))))
    return values


def telling(weights: Array, words: int) -> Array:
    """The words (topics, words) that tell a topic from the others, by λ log φ + (1 - λ) log(φ/p).

    φ is a word's share of a topic and p its mean share of all topics: "relevance" (Sievert and Shirley 2014), with
    their λ = 0.6. By φ alone, the words that are frequent everywhere come first.
    """
    share = weights / weights.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):  # a word of no topic
        relevance = np.log(share) - (1 - RELEVANCE) * np.log(share.mean(axis=0))
    return np.argsort(-np.nan_to_num(relevance, nan=-np.inf), axis=1, kind="stable")[:, :words]


def gamma_factors(train: Any, seed: int, changes: dict[str, Any], device: torch.device) -> Array:
    """Weights of words (topics, words) in the decoder of the gamma autoencoder."""
    settings = dataclasses.replace(GAMMA_FACTORS, seed=seed, device=str(device), **changes)
    return np.asarray(settings.fit(train).components)


def sklearn_factors(train: Any, seed: int, changes: dict[str, Any], device: torch.device) -> Array:
    """Weights of words (topics, words) of scikit-learn's NMF."""
    topics = changes.get("hidden", (TOPICS,))[0]
    iterations = 200 if not changes else 20
    model = NMF(topics, init="nndsvda", solver="mu", beta_loss="kullback-leibler", max_iter=iterations, tol=0.0)
    components: Array = model.fit(train.astype(np.float64)).components_
    return components


METHODS = {"gamma": ("gamma NPN as NMF", gamma_factors), "nmf": ("NMF, scikit-learn", sklearn_factors)}


def figures(key: str, data: Documents, seeds: int, changes: dict[str, Any], options: Options) -> dict[str, Any]:
    """Coherence for each seed; the topics of the first, most coherent first."""
    assert data.vocabulary is not None
    train, test = data.splits[0]
    result: dict[str, Any] = {"coherence": [], "diversity": []}
    for seed in range(seeds):
        weights = METHODS[key][1](data.counts[train], seed, changes, options.device)
        topics = telling(weights, WORDS)
        values = coherence(topics.tolist(), data.counts[test])
        result["coherence"].append(rounded(float(np.mean(values))))
        result["diversity"].append(rounded(len(np.unique(topics)) / topics.size))
        if seed == 0:
            order = np.argsort(-np.asarray(values), kind="stable")
            result["topics"] = [[data.vocabulary[word] for word in topics[number]] for number in order]
            result["of_topics"] = [values[number] for number in order]
    return result


def small(data: Documents) -> Documents:
    """The first documents and terms, for tiny sizes."""
    assert data.vocabulary is not None
    train, test = (part[:QUICK_DOCUMENTS] for part in data.splits[0])
    every = np.concatenate([train, test])
    split = data.splits[0]._replace(train=np.arange(len(train)), test=np.arange(len(train), len(every)))
    counts = data.counts[every][:, :QUICK_TERMS]
    return dataclasses.replace(data, counts=counts, vocabulary=data.vocabulary[:QUICK_TERMS], splits=(split,))


def cells(options: Options) -> list[Cell]:
    """One for each method."""
    changes = QUICK if options.quick else {}
    settings = {k: v for k, v in dataclasses.asdict(GAMMA_FACTORS).items() if k not in ("seed", "device")} | changes

    def planned(key: str) -> Cell:
        seeds = 1 if key == "nmf" else options.seeds or (1 if options.quick else SEEDS)  # NMF starts from an SVD

        def run(progress: Progress) -> dict[str, Any]:
            data = datasets.load("20newsgroups")
            assert isinstance(data, Documents)
            return figures(key, small(data) if options.quick else data, seeds, changes, options)

        return Cell(
            key,
            {
                **(settings if key == "gamma" else {"hidden": settings["hidden"]}),
                "relevance": RELEVANCE,
                "seeds": seeds,
            },
            run,
        )

    return [planned(key) for key in METHODS]


def section(record: Record) -> str:
    """Coherence of both, and the words of our topics."""
    found = {key: record["cells"][key]["figures"] for key in METHODS}
    rows = [
        [METHODS[key][0], str(Summary.of(one["coherence"])), f"{Summary.of(one['diversity']).mean:.2f}"]
        for key, one in found.items()
    ]
    ours = found["gamma"]
    words = [[", ".join(topic), f"{value:.2f}"] for topic, value in zip(ours["topics"], ours["of_topics"], strict=True)]
    return "\n\n".join(
        [
            f"{len(words)} topics of {WORDS} words each, which tell it from the others (relevance, λ = {RELEVANCE}). "
            "Coherence is the normalised pointwise mutual information of a topic's words in test documents, mean over "
            "topics: 1 for words that only stand together, 0 for independent ones. Diversity is the share of different "
            "words among those of all topics.",
            table(["", "coherence", "diversity"], rows),
            "Topics of the gamma network, seed 0:",
            table(["words", "coherence"], words),
        ]
    )


EXPERIMENT = Experiment(
    name="topics",
    title="Topics of 20 Newsgroups from a gamma network that factorises",
    place="Section 3.1",
    data=("20newsgroups",),
    minutes=2,
    cells=cells,
    section=section,
)
