"""Predicting the other half of a document's words: gamma and Poisson networks beside topic models of scikit-learn.

Each test document of 20 Newsgroups is cut in two at random, word by word. From one half a model predicts how the words
of the other are distributed; perplexity is exp of minus the mean log probability of a word. Poisson factor analysis, of
which the paper calls its Poisson network an analogue, has no maintained implementation; its nearest neighbours are NMF
with the Kullback-Leibler loss, the same likelihood at a point, and LDA. What a model predicts is mixed with the shares
of words in the training documents, by a weight that, as the settings are, is chosen on training documents: as many
settings for each method.
"""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.decomposition import NMF, LatentDirichletAllocation
from sklearn.exceptions import ConvergenceWarning

from npn_studies.experiments.document_networks import GAMMA, POISSON, DocumentNetwork
from npn_studies.experiments.experiment import Cell, Experiment, Options, Progress, Record
from npn_studies.experiments.tables import Summary, rounded, table
from npn_studies.experiments.topics import newsgroups

Array = NDArray[Any]
Setting = dict[str, Any]
TOPICS, SEEDS, DOCUMENTS = 20, 2, 2_000  # units, seeds, documents to learn from and to complete
MIXING = 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7  # the share of the training documents' words
VALIDATION = 0.2  # of the training documents
QUICK_TOPICS = 5


class Work(NamedTuple):
    """Documents to learn from, how many topics or units of the code, and what decides chance."""

    counts: csr_matrix
    topics: int
    seed: int
    device: torch.device


Predict = Callable[[csr_matrix], Array]  # halves of documents -> expected words (documents, words), of any scale


def network(settings: DocumentNetwork, work: Work) -> Predict:
    """An autoencoder of counts: what it reconstructs from half a document."""
    settings = dataclasses.replace(settings, hidden=(work.topics,), seed=work.seed, device=str(work.device))
    model = settings.fit(work.counts).model
    return lambda halves: model.inverse_transform(model.transform(halves))


def gamma_npn(work: Work, setting: Setting) -> Predict:
    """Gamma weights and neurons; the paper's v(x) = 1 - exp(-τ x), or none, a factorisation."""
    return network(dataclasses.replace(GAMMA, loss="poisson", **setting), work)


def poisson_npn(work: Work, setting: Setting) -> Predict:
    """Gamma weights, Poisson neurons."""
    return network(dataclasses.replace(POISSON, **setting), work)


def nmf(work: Work, setting: Setting) -> Predict:
    """scikit-learn's NMF with the Kullback-Leibler loss: the likelihood of Poisson factor analysis, at a point."""
    model = NMF(
        work.topics,
        init="nndsvda",
        solver="mu",
        beta_loss="kullback-leibler",
        max_iter=setting["iterations"],
        alpha_W=setting["alpha"],
        alpha_H=0.0,
        tol=0.0,
        random_state=work.seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is to stop after so many iterations
        model.fit(work.counts)
        return lambda halves: _quietly(model.transform, halves) @ model.components_


def _quietly(transform: Callable[[Any], Any], halves: csr_matrix) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(transform(halves))


def lda(work: Work, setting: Setting) -> Predict:
    """scikit-learn's latent Dirichlet allocation, by online variational inference."""
    model = LatentDirichletAllocation(
        work.topics,
        doc_topic_prior=setting["prior"],
        learning_method="online",
        learning_decay=0.7,
        batch_size=256,
        max_iter=setting["iterations"],
        random_state=work.seed,
    ).fit(work.counts)
    words = model.components_ / model.components_.sum(axis=1, keepdims=True)
    return lambda halves: np.asarray(model.transform(halves)) @ words


class Method(NamedTuple):
    """A way to predict words, the settings that are tried, and those of tiny sizes."""

    label: str
    fit: Callable[[Work, Setting], Predict]
    grid: dict[str, list[Any]]
    quick: Setting


_NETWORKS: dict[str, list[Any]] = {"masking": [0.5], "learning_rate": [0.3, 1.0], "epochs": [100]}
METHODS = {
    "gamma": Method("gamma NPN", gamma_npn, _NETWORKS, {"epochs": 2}),
    "poisson": Method("Poisson NPN", poisson_npn, _NETWORKS, {"epochs": 2}),
    "nmf": Method("NMF, KL loss", nmf, {"iterations": [100], "alpha": [0.0, 1e-4]}, {"iterations": 5}),
    "lda": Method("LDA", lda, {"prior": [0.02, 0.1], "iterations": [10]}, {"iterations": 1}),
}


def halves(counts: csr_matrix, seed: int) -> tuple[csr_matrix, csr_matrix]:
    """Each word of each document in one of two parts, by a fair coin."""
    first = counts.copy()
    first.data = np.random.default_rng(seed).binomial(counts.data.astype(np.int64), 0.5).astype(np.float32)
    second = counts - first
    for part in (first, second):
        part.eliminate_zeros()
    return first, csr_matrix(second)


def log_probabilities(expected: Array, shares: Array, there: csr_matrix, mixing: float) -> float:
    """Σ y log p over the words y of documents, p = (1 - λ) expected/Σ expected + λ shares, per word."""
    total = expected.sum(axis=1, keepdims=True)
    p = np.where(total > 0, expected / np.where(total > 0, total, 1.0), shares)
    rows, columns = there.nonzero()
    log_p = np.log((1 - mixing) * p[rows, columns] + mixing * shares[columns])
    return float((there.data * log_p).sum() / there.data.sum())


def word_shares(counts: csr_matrix) -> Array:
    """Of all words in some documents, each with one more."""
    sums = np.asarray(counts.sum(axis=0)).ravel() + 1.0
    return np.asarray(sums / sums.sum())


def chosen(method: Method, train: csr_matrix, topics: int, options: Options) -> dict[str, Any]:
    """The setting and the weight of mixing with the least perplexity on a fifth of the training documents."""
    rows = np.random.default_rng(0).permutation(train.shape[0])
    cut = int(VALIDATION * len(rows))
    own, others = train[rows[cut:]], train[rows[:cut]]
    seen, there = halves(others, 0)
    shares, trials = word_shares(own), list[dict[str, Any]]()
    settings = [dict(zip(method.grid, values, strict=True)) for values in itertools.product(*method.grid.values())]
    for setting in settings[: 1 if options.quick else None]:
        setting = setting | (method.quick if options.quick else {})
        expected = method.fit(Work(own, topics, 0, options.device), setting)(seen)
        found = {mixing: log_probabilities(expected, shares, there, mixing) for mixing in MIXING}
        mixing = max(found, key=lambda one: found[one])
        trials.append({"setting": setting, "mixing": mixing, "perplexity": rounded(float(np.exp(-found[mixing])))})
    best = min(trials, key=lambda trial: trial["perplexity"])
    return {"chosen": best, "trials": trials}


def figures(method: Method, options: Options, seeds: int, progress: Progress) -> dict[str, Any]:
    """Perplexity on test documents for each seed, which decides both the fit and the halves."""
    data, topics = newsgroups(options.quick), QUICK_TOPICS if options.quick else TOPICS
    drawn = np.random.default_rng(0)  # the file has posts of one newsgroup after those of another
    train, test = (csr_matrix(data.counts[drawn.permutation(rows)[:DOCUMENTS]]) for rows in data.splits[0])
    found = chosen(method, train, topics, options)
    progress(0.5)
    shares, perplexities, alone = word_shares(train), [], []
    for seed in range(seeds):
        seen, there = halves(test, seed)
        expected = method.fit(Work(train, topics, seed, options.device), found["chosen"]["setting"])(seen)
        log_p = log_probabilities(expected, shares, there, found["chosen"]["mixing"])
        perplexities.append(rounded(float(np.exp(-log_p))))
        alone.append(
            rounded(float(np.exp(-log_probabilities(shares[None].repeat(len(expected), 0), shares, there, 0.0))))
        )
        progress(0.5 + 0.5 * (seed + 1) / seeds)
    return {"perplexity": perplexities, "of_shares_alone": alone, **found}


def cells(options: Options) -> list[Cell]:
    """One for each method."""
    seeds = options.seeds or (1 if options.quick else SEEDS)

    def planned(key: str, method: Method) -> Cell:
        about = {
            "grid": method.grid,
            "topics": QUICK_TOPICS if options.quick else TOPICS,
            "documents": DOCUMENTS,
            "seeds": seeds,
        }
        return Cell(key, about, lambda progress: figures(method, options, seeds, progress))

    return [planned(key, method) for key, method in METHODS.items()]


def section(record: Record) -> str:
    """Perplexity by method, and what was chosen."""
    rows, found = [], {key: cell["figures"] for key, cell in record["cells"].items()}
    for key, one in found.items():
        best = one["chosen"]
        told = ", ".join(f"{name} {value}" for name, value in (best["setting"] | {"mixing": best["mixing"]}).items())
        rows.append([METHODS[key].label, str(Summary.of(one["perplexity"])), str(len(one["trials"])), told])
    first = next(iter(found.values()))
    rows.append(["shares of words in training documents", str(Summary.of(first["of_shares_alone"])), "–", "–"])
    topics, learnt = (next(iter(record["cells"].values()))["settings"][key] for key in ("topics", "documents"))
    ranked = sorted(found, key=lambda key: Summary.of(found[key]["perplexity"]).mean)
    order = " < ".join(METHODS[key].label for key in ranked)
    return "\n\n".join(
        [
            "Half of the words of a test document are seen, drawn one by one; the other half is to be predicted. "
            f"Perplexity of a word, less is better, with {topics} topics or units of the code, learnt from "
            f"{learnt:,} training documents; settings and the share of the training documents' words that is mixed "
            "in were chosen on a fifth of the training documents. Of the gamma network nine settings more were "
            "looked at on the same documents to see where to search. The networks train with words dropped at random, "
            "and so have practised for this task; NMF and LDA have not.",
            table(["", "perplexity", "settings tried", "chosen"], rows),
            f"By perplexity, {order}. Poisson factor analysis itself has no maintained implementation to compare with.",
        ]
    )


def headline(record: Record) -> list[tuple[str, str, str]]:
    """All four."""
    told = ", ".join(
        f"{METHODS[key].label} {Summary.of(cell['figures']['perplexity']).mean:.0f}"
        for key, cell in record["cells"].items()
    )
    return [("20 Newsgroups: perplexity of the other half of a document", "–", told)]


EXPERIMENT = Experiment(
    name="completion",
    title="Predicting the other half of a document",
    place="Section 3.3",
    data=("20newsgroups",),
    minutes=3,
    cells=cells,
    section=section,
    headline=headline,
    in_parts=True,
)
