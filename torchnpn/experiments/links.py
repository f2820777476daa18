"""Links between documents, predicted from codes of their words (paper, Section 4.3 and the supplement).

Codes are learnt from all documents without their links. Two splits, both 80 to 20: by documents, of which the links of
test documents to training documents are to be found among all training documents; and by links, of which the held out
ones are to be found among all documents that are not known to be linked. How the variance is used is chosen on the
documents: a fifth of the training documents is held out once more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray

from torchnpn import datasets
from torchnpn.datasets.documents import Documents
from torchnpn.datasets.splits import link_split, node_split
from torchnpn.estimators.link_prediction import LinkPredictor
from torchnpn.estimators.pair_features import CONTROLS
from torchnpn.experiments.experiment import Cell, Experiment, Options, Progress
from torchnpn.experiments.link_methods import METHODS, Method, View, seeded, views
from torchnpn.experiments.links_page import DATA, headline, section
from torchnpn.experiments.tables import rounded
from torchnpn.metrics.links import LinkQuality, link_positions, link_quality
from torchnpn.moments import Moments

Array = NDArray[Any]
SEEDS = 3
NEGATIVES = 0.001  # of all pairs without a link, as in the paper's protocol
QUICK_DATA, QUICK_DOCUMENTS, QUICK_NEGATIVES = ("cora",), 400, 500
_BLOCK = 512  # rows of cosines


class Task(NamedTuple):
    """What to learn from, and what to find.

    Attributes:
        nodes: Documents whose links are known.
        links: Those links.
        rows: Documents whose neighbours are looked for.
        columns: Among these.
        true: (row, column) of each neighbour to find.
        left_out: (row, column) of pairs that are no candidates.
    """

    nodes: Array
    links: Array
    rows: Array
    columns: Array
    true: Array
    left_out: Array | None = None


def between_nodes(links: Array, train: Array, test: Array) -> Task:
    """Find the links of test documents to training documents."""
    return Task(train, links, test, train, link_positions(links, test, train))


def between_links(count: int, train: Array, test: Array) -> Task:
    """Find the links that are held out; a document itself and its known neighbours are no candidates."""
    every, rows = np.arange(count), np.unique(test)
    itself = np.stack([np.arange(len(rows)), rows], axis=1)
    known = link_positions(train, rows, every)
    return Task(every, train, rows, every, link_positions(test, rows, every), np.concatenate([itself, known]))


def tasks(count: int, links: Array, seed: int) -> dict[str, Task]:
    """The three of a seed."""
    split = node_split(count, seed)
    inner, held = (split.train[part] for part in node_split(len(split.train), seed))
    return {
        "validation": between_nodes(links, inner, held),
        "nodes": between_nodes(links, *split),
        "links": between_links(count, *link_split(links, seed)),
    }


def found(codes: Moments, view: View, task: Task, seed: int, negatives: float, device: torch.device) -> LinkQuality:
    """How a view of codes does on a task."""
    tensors = Moments(*(None if part is None else torch.as_tensor(part) for part in codes))  # type: ignore[arg-type]
    if view.variance == "none":
        tensors = Moments(tensors.mean)
    elif view.control:
        tensors = CONTROLS[view.control](tensors)
    predictor = LinkPredictor(
        view.pairs, view.variance, doubt=view.doubt, negatives=negatives, device=str(device), random_state=seed
    ).fit(tensors, task.links, task.nodes)
    return link_quality(predictor.score_blocks(task.rows, task.columns), task.true, task.left_out)


def found_by_cosine(codes: Any, task: Task) -> LinkQuality:
    """How sparse codes of unit length do, without any learning."""
    columns = codes[task.columns].T.tocsc()

    def blocks() -> Iterator[Array]:
        for start in range(0, len(task.rows), _BLOCK):
            yield (codes[task.rows[start : start + _BLOCK]] @ columns).toarray()

    return link_quality(blocks(), task.true, task.left_out)


def figures(
    data: Documents, method: Method, seeds: int, negatives: float, options: Options, progress: Progress
) -> dict[str, Any]:
    """Rank and AUC by task and view, lists over seeds."""
    result: dict[str, dict[str, dict[str, list[float]]]] = {}
    for seed in range(seeds):
        codes = seeded(method, seed, options.device, options.quick).fit(data.counts)(data.counts)
        sparse = scipy.sparse.issparse(codes.mean)
        shown = views(method, options.quick)[:1] if sparse else views(method, options.quick)
        for number, view in enumerate(shown):
            for name, task in tasks(data.counts.shape[0], data.links, seed).items():
                quality = (
                    found_by_cosine(codes.mean, task)
                    if sparse
                    else found(codes, view, task, seed, negatives, options.device)
                )
                kept = result.setdefault(name, {}).setdefault(view.label, {"rank": [], "auc": []})
                kept["rank"].append(rounded(quality.rank))
                kept["auc"].append(rounded(quality.auc))
            progress((seed + (number + 1) / len(shown)) / seeds)
    return result


def first(data: Documents, count: int) -> Documents:
    """The first documents and the links among them, for tiny sizes."""
    links = data.links[(data.links < count).all(axis=1)]
    return dataclasses.replace(data, counts=data.counts[:count], links=links)


def cells(options: Options) -> list[Cell]:
    """One for each data set and method."""
    seeds = options.seeds or (1 if options.quick else SEEDS)
    negatives = QUICK_NEGATIVES if options.quick else NEGATIVES

    def planned(name: str, key: str, method: Method) -> Cell:
        settings = dataclasses.asdict(seeded(method, 0, options.device, options.quick))  # type: ignore[call-overload]
        settings = {k: v for k, v in settings.items() if k not in ("seed", "device")}

        def run(progress: Progress) -> dict[str, Any]:
            data = datasets.load(name)
            assert isinstance(data, Documents)
            return figures(
                first(data, QUICK_DOCUMENTS) if options.quick else data, method, seeds, negatives, options, progress
            )

        about = {"views": [view.label for view in views(method, options.quick)], "negatives": negatives, "seeds": seeds}
        return Cell(f"{name}/{key}", {**settings, **about}, run)

    chosen = QUICK_DATA if options.quick else tuple(DATA)
    return [planned(name, key, method) for name in chosen for key, method in METHODS.items()]


EXPERIMENT = Experiment(
    name="links",
    title="Links between documents, from codes of their words",
    place="Table 3, supplement",
    data=tuple(DATA),
    minutes=15,
    cells=cells,
    section=section,
    headline=headline,
)
