"""Documents that cite each other: citeulike, arXiv's physics of high energies, and two small graphs for quick tests."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping

import numpy as np

from npn_studies.datasets.documents import Documents, DocumentSource, read_counts, read_vocabulary, undirected
from npn_studies.datasets.words import parse_counts, parse_neighbours, smallest, stored_counts
from torchnpn.datasets import Arrays, Original, Split

RAW = "https://raw.githubusercontent.com"
MOST = {"vocabulary.dat": 1 << 20, "citations.dat": 4 << 20, "mult.dat": 32 << 20}  # bytes; sizes are not recorded
BLOB = {"citeulike-a": "5df76b81fd9814116ed143bda6e8e843ba167123"}  # git's sum of mult.dat, where no other is recorded


def read_citeulike(name: str, description: str, arrays: Arrays) -> Documents:
    """Of the CSR parts, `vocab` and `edges`."""
    counts = read_counts(arrays)
    return Documents(
        name=name,
        counts=counts,
        vocabulary=read_vocabulary(arrays, counts.shape[1]),
        links=undirected(arrays["edges"], counts.shape[0]),
        description=description,
    )


def convert_citeulike(name: str, originals: Mapping[str, bytes]) -> Arrays:
    """The arrays of `mult.dat`, `vocabulary.dat` and `citations.dat`."""
    if name in BLOB and (found := git_blob(originals["mult.dat"])) != BLOB[name]:
        raise ValueError(f"mult.dat should be git's object {BLOB[name]}, got {found}")
    vocabulary = originals["vocabulary.dat"].split()
    counts = parse_counts(originals["mult.dat"], "mult.dat", terms=len(vocabulary))
    pairs = parse_neighbours(originals["citations.dat"], "citations.dat", documents=counts.shape[0])
    selves = pairs[pairs[:, 0] == pairs[:, 1], 0]
    return {
        **stored_counts(counts, least=np.uint8),
        "vocab": np.array(vocabulary),
        "edges": smallest(undirected(pairs, counts.shape[0])),
        "self_links": smallest(selves),
    }


def git_blob(content: bytes) -> str:
    """The name that git gives to a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def read_arxiv(arrays: Arrays) -> Documents:
    """Of the CSR parts, `vocab`, directed `edges` and `paper_id`."""
    counts = read_counts(arrays)
    return Documents(
        name="arxiv",
        counts=counts,
        vocabulary=read_vocabulary(arrays, counts.shape[1]),
        links=undirected(arrays["edges"], counts.shape[0]),
        identifiers=tuple(f"hep-th/{paper:07d}" for paper in arrays["paper_id"].tolist()),
        description="Papers on the theory of high energies in arXiv until 2003, and their citations without direction "
        "(SNAP cit-HepTh; KDD Cup 2003). Words are those of title and abstract; the whole record would give away "
        "authors and dates. The vocabulary is not that of the paper on natural-parameter networks, which was never "
        "published. One document is empty.",
    )


def read_planetoid(name: str, description: str, arrays: Arrays) -> Documents:
    """Of the CSR parts, `edges`, the classes `y` and the rows `test_idx`."""
    counts = read_counts(arrays)
    labels, test = arrays["y"].astype(np.int64), arrays["test_idx"].astype(np.int64)
    if labels.shape != (counts.shape[0],):
        raise ValueError(f"y should have a class for each of {counts.shape[0]} documents, got shape {labels.shape}")
    return Documents(
        name=name,
        counts=counts,
        vocabulary=None,
        links=undirected(arrays["edges"], counts.shape[0]),
        labels=labels,
        splits=(Split(np.setdiff1d(np.arange(counts.shape[0]), test), test),),
        description=description,
    )


def citeulike(
    name: str,
    rows: int,
    columns: int,
    commit: str,
    sha256: Mapping[str, str | None],
    digest: str,
    note: str,
    by_hand: str,
) -> DocumentSource:
    """The record of one of the two sets of citeulike, which differ in their sizes alone."""
    folder = name.replace("-", "_")
    about = (
        f"Articles that users of citeulike kept, with the words of title and abstract, and links between them. {note}"
    )
    return DocumentSource(
        name=name,
        title=f"Articles of {name} and their links",
        rows=rows,
        columns=columns,
        task="links",
        licence="none stated",
        origin=f"github.com/js05212/{name}",
        path=f"{folder}/{folder}.npz",
        digest=digest,
        read=functools.partial(read_citeulike, name, about),
        originals=tuple(
            Original(file, f"{RAW}/js05212/{name}/{commit}/{file}", sha256[file], most) for file, most in MOST.items()
        ),
        convert=functools.partial(convert_citeulike, name),
        by_hand=by_hand,
    )


def planetoid(name: str, rows: int, columns: int, classes: int, digest: str, note: str = "") -> DocumentSource:
    """The record of one of the small graphs."""
    about = (
        f"Articles in {classes} classes and their links: whether a word occurs, without the words themselves. {note}"
    )
    return DocumentSource(
        name=name,
        title=f"Articles in {classes} classes and their links (small)",
        rows=rows,
        columns=columns,
        task="links",
        licence="MIT (repository)",
        origin="github.com/kimiyoung/planetoid",
        path=f"planetoid/{name}.npz",
        digest=digest,
        read=functools.partial(read_planetoid, name, about.strip()),
        by_hand=f"Its originals are data/ind.{name}.* of github.com/kimiyoung/planetoid, which are pickles. "
        "The page on data sets in the documentation says how to convert them.",
    )


SOURCES = (
    citeulike(
        "citeulike-t",
        rows=25975,
        columns=20000,
        commit="4f103c6ea0fe407b23be230837b65517e613c34a",
        sha256={
            "mult.dat": "5ed81e6fdbf8d475122d4a18d622202571ac80f27be017e194a1957da585283d",
            "citations.dat": "fd932be626da8303c2773eb1a07c8aa6c2a6de2d0ac10941f325d63dc86c0080",
            "vocabulary.dat": "d58f0e6ce40da9e57c7ad6bbb2d0f1351730e3ecfcbbdf14eec07d493ce539e1",
        },
        digest="92258d2423ba9d95097acf31eb4e2074f20236dab9f13f01c78f4661818f35c9",
        note="31 documents are empty.",
        by_hand="",
    ),
    citeulike(
        "citeulike-a",
        rows=16980,
        columns=8000,
        commit="91b603922d7f2d3db18071d4798bf78c9c5d1680",
        sha256={
            "mult.dat": None,  # its name in git is compared instead
            "citations.dat": "78458ba6b6f013552c43f47dbec1c2d19073820155c40567744cd8a038044364",
            "vocabulary.dat": "f3ffa75f7524a9ff2ecc2a0cb1a0f29f4d46e32f17bc8e2f8472a1c7c814f319",
        },
        digest="",
        note="",
        by_hand="Its text, mult.dat, is missing here; links and vocabulary alone are not enough.",
    ),
    DocumentSource(
        name="arxiv",
        title="Papers of arXiv hep-th and their citations",
        rows=27770,
        columns=8000,
        task="links",
        licence="none stated",
        origin="snap.stanford.edu/data/cit-HepTh.html",
        path="arxiv_hepth/arxiv_hepth.npz",
        digest="dfbeaa69c2a1f933a9225295652f7e6a8441aa9e6f811204c02de38d23b4d0a6",
        read=read_arxiv,
        by_hand="Its originals are cit-HepTh.txt.gz and cit-HepTh-abstracts.tar.gz of snap.stanford.edu/data. "
        "The page on data sets in the documentation says how to convert them.",
    ),
    planetoid(
        "cora",
        rows=2708,
        columns=1433,
        classes=7,
        digest="9fe6c3c2fcdc6c579b120b54e65becaf05066a063b9da95b8951691a8ad2395c",
    ),
    planetoid(
        "citeseer",
        rows=3327,
        columns=3703,
        classes=6,
        digest="b85e28bb8a7e32b4b6735bd0bce817b024bc0d0dc4511a980d72dc48c8415ab5",
        note="15 documents have no words, no links and no class.",
    ),
)
