"""Links between documents, predicted from codes of their words (paper, Section 4.3 and the supplement).

Codes are learnt from all documents without their links, once a seed. Two splits, both 80 to 20: by documents, of which
the links of test documents to training documents are to be found among all training documents; and by links, of which
the held out ones are to be found among all documents that are not known to be linked. Settings, and how the variance is
used, were chosen by `links_search` on documents that no split by documents tests.
"""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from npn_studies.baselines.document_codes import DocumentCodes
from npn_studies.datasets import Documents, link_split, load_documents, node_split
from npn_studies.experiments.document_networks import DocumentEncoder
from npn_studies.experiments.experiment import Cell, Experiment, Options, Progress, Record
from npn_studies.experiments.link_methods import METHODS, Codes, View, prepared, seen, views
from npn_studies.experiments.link_metrics import LinkQuality, link_positions, link_quality
from npn_studies.experiments.link_settings import Choice, chosen
from npn_studies.experiments.links_page import headline, section
from npn_studies.experiments.pair_features import NORMALISATIONS, USES, square_root, with_sums, with_traits
from npn_studies.experiments.tables import rounded
from torchnpn.links import Codes as NodeCodes
from torchnpn.links import LinkPredictor, Normalisation, PairFeatures
from torchnpn.moments import Moments

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[Any]
DATA = "citeulike-t", "arxiv"
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
    """The two of a seed."""
    return {
        "nodes": between_nodes(links, *node_split(count, seed)),
        "links": between_links(count, *link_split(links, seed)),
    }


class Cost(NamedTuple):
    """Of learning codes.

    Attributes:
        seconds: For an epoch, or altogether where there are none.
        peak_bytes: On a GPU, beyond what was there before; None elsewhere.
    """

    seconds: float
    peak_bytes: int | None


def learnt(settings: DocumentCodes, counts: Any, device: torch.device) -> tuple[Codes, Cost]:
    """The codes of the documents that they are learnt from: tensors, or sparse arrays; and what that cost."""
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
    before, start = torch.cuda.memory_allocated(device) if on_gpu else 0, time.perf_counter()
    encode = settings.fit(counts)
    if on_gpu:
        torch.cuda.synchronize(device)
    seconds = (time.perf_counter() - start) / getattr(settings, "epochs", 1)
    cost = Cost(rounded(seconds), torch.cuda.max_memory_allocated(device) - before if on_gpu else None)
    codes = encode(counts)
    if scipy.sparse.issparse(codes.mean):
        return Codes(Moments(codes.mean)), cost  # type: ignore[arg-type]  # tf-idf, sparse
    if isinstance(encode, DocumentEncoder) and encode.model.family == "gaussian":
        return Codes(_tensors(codes), encode.joint(counts)), cost
    return Codes(_tensors(codes)), cost


def _tensors(codes: Any) -> Moments:
    return Moments(*(None if part is None else torch.as_tensor(part) for part in codes))  # type: ignore[arg-type]


class Judge(NamedTuple):
    """How links are looked for.

    Attributes:
        words: (documents,) of each: how long it is.
        seed: Of the pairs without a link.
        negatives: How many of them, as in `LinkPredictor`.
        root: Whether to take square roots of codes, but not in the paper's views.
        device: Where to work.
    """

    words: Tensor
    seed: int
    negatives: float
    root: bool
    device: torch.device

    def found(self, codes: Codes, view: View, task: Task) -> LinkQuality:
        """How a view of codes does on a task; sparse codes have one view, their cosine."""
        if scipy.sparse.issparse(codes.own.mean):
            return link_quality(cosines(codes.own.mean, task, self.device), task.true, task.left_out)
        predictor = LinkPredictor(
            partial(self.features, view),
            NORMALISATIONS[view.pairs],
            negatives=self.negatives,
            device=str(self.device),
            random_state=self.seed,
        )
        x = seen(codes, self.words, view)
        x = square_root(x) if self.root and view.pairs == "cosine" else x
        x = x if x[1] is None else type(x)(x.mean, view.doubt * x[1])
        predictor.fit(x, task.links, task.nodes)
        return link_quality(predictor.score_blocks(task.rows, task.columns), task.true, task.left_out)

    def features(self, view: View, x: NodeCodes, nodes: Tensor, normalise: Normalisation) -> PairFeatures:
        """Of a view's use of the variance; beside them, where it says so, sums of codes and the documents' lengths."""
        found = USES[view.variance](x, nodes, normalise)
        if view.sums:
            found = with_sums(found, x, nodes)
        if view.length:
            found = with_traits(found, torch.log1p(self.words)[:, None].to(x.mean), nodes)
        return found


def cosines(codes: Any, task: Task, device: torch.device) -> Iterator[Tensor]:
    """Products of sparse codes of unit length, some rows at a time."""
    columns = _sparse(codes[task.columns], device)
    for start in range(0, len(task.rows), _BLOCK):
        rows = torch.from_numpy(codes[task.rows[start : start + _BLOCK]].toarray()).to(device)
        yield (columns @ rows.T).T.contiguous()


def _sparse(matrix: Any, device: torch.device) -> Tensor:
    with warnings.catch_warnings():  # a product is all we need of what torch calls beta
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
        parts = [torch.from_numpy(part).to(device) for part in (matrix.indptr, matrix.indices, matrix.data)]
        return torch.sparse_csr_tensor(parts[0], parts[1], parts[2], matrix.shape, check_invariants=True)


def judge(data: Documents, key: str, seed: int, options: Options) -> Judge:
    """That of a method and seed."""
    words = torch.from_numpy(np.asarray(data.counts.sum(axis=1), dtype=np.float32).ravel())
    negatives = QUICK_NEGATIVES if options.quick else NEGATIVES
    return Judge(words, seed, negatives, METHODS[key].positive, options.device)


def figures(
    data: Documents, key: str, choice: Choice, seeds: int, options: Options, progress: Progress
) -> dict[str, Any]:
    """Rank and AUC by split and view, lists over seeds, and what learning cost.

    Controls and the paper's uses are for the split by documents; by links there is the mean, and the chosen use.
    """
    result: dict[str, Any] = {"nodes": {}, "links": {}, "seconds_per_epoch": [], "peak_bytes": []}
    for seed in range(seeds):
        settings = prepared(METHODS[key], choice.changes, seed, options.device, options.quick)
        codes, cost = learnt(settings, data.counts, options.device)
        result["seconds_per_epoch"].append(cost.seconds)
        result["peak_bytes"].append(cost.peak_bytes)
        sparse = scipy.sparse.issparse(codes.own.mean)
        of_links = tuple(filter(None, (choice.mean, choice.use)))
        shown = {"nodes": of_links if sparse else views(choice.use), "links": of_links}
        judged = judge(data, key, seed, options)
        for number, (name, task) in enumerate(tasks(data.counts.shape[0], data.links, seed).items(), start=1):
            for view in shown[name]:
                quality = judged.found(codes, view, task)
                kept = result[name].setdefault(view.label, {"rank": [], "auc": []})
                kept["rank"].append(rounded(quality.rank))
                kept["auc"].append(rounded(quality.auc))
            progress((seed + number / 2) / seeds)
    return result


def documents(name: str, quick: bool) -> Documents:
    """A data set, or for tiny sizes its first documents and the links among them."""
    data = load_documents(name)
    assert isinstance(data, Documents)
    return _first(data) if quick else data


def _first(data: Documents) -> Documents:
    links = data.links[(data.links < QUICK_DOCUMENTS).all(axis=1)]
    return dataclasses.replace(data, counts=data.counts[:QUICK_DOCUMENTS], links=links)


def told(settings: DocumentCodes) -> dict[str, Any]:
    """Settings for a record, without what a run decides."""
    every = dataclasses.asdict(settings)  # type: ignore[call-overload]
    return {name: value for name, value in every.items() if name not in ("seed", "device")}


def cells(options: Options) -> list[Cell]:
    """One for each data set and method."""
    seeds = options.seeds or (1 if options.quick else SEEDS)
    negatives = QUICK_NEGATIVES if options.quick else NEGATIVES

    def planned(name: str, key: str) -> Cell:
        choice = chosen(name, key)

        def run(progress: Progress) -> dict[str, Any]:
            return figures(documents(name, options.quick), key, choice, seeds, options, progress)

        settings = told(prepared(METHODS[key], choice.changes, 0, options.device, options.quick))
        judged = {"use": choice.use, "mean": choice.mean, "negatives": negatives, "seeds": seeds}
        return Cell(f"{name}/{key}", {**settings, **judged}, run)

    return [planned(name, key) for name in (QUICK_DATA if options.quick else DATA) for key in METHODS]


def figure(record: Record) -> Figure:
    """Ranks by method, of means alone and with variances."""
    from npn_studies.experiments.document_figures import ranks
    from npn_studies.experiments.links_page import plotted

    return ranks(plotted(record))


EXPERIMENT = Experiment(
    name="links",
    title="Links between documents, from codes of their words",
    place="Table 4, supplement",
    data=DATA,
    quick_data=QUICK_DATA,
    minutes=11,
    cells=cells,
    section=section,
    figure=figure,
    headline=headline,
    in_parts=True,
)
