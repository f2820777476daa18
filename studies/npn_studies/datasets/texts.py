"""Word counts of texts without links."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy.sparse

from npn_studies.datasets.documents import Documents, DocumentSource, read_counts, read_vocabulary
from npn_studies.datasets.words import parse_counts, stored_counts
from torchnpn.datasets import Arrays, Original, Split

REPOSITORY = "sophieburkhardt/dirichlet-vae-topic-models"
BASE = f"https://raw.githubusercontent.com/{REPOSITORY}/70091d4f1df37c7a7eb2995fbbffba36caed46aa/data/20news"
MOST = 32 << 20  # bytes of each file; sizes are not recorded


def read(arrays: Arrays) -> Documents:
    """Of the CSR parts to train on and to test on, and `vocab`: rows to train on come first."""
    train, test = (read_counts(arrays, prefix) for prefix in ("train_", "test_"))
    counts = scipy.sparse.vstack([train, test], format="csr")
    row = np.arange(counts.shape[0])
    return Documents(
        name=SOURCE.name,
        counts=scipy.sparse.csr_matrix(counts),
        vocabulary=read_vocabulary(arrays, counts.shape[1]),
        links=np.empty((0, 2), dtype=np.int64),
        splits=(Split(row[: train.shape[0]], row[train.shape[0] :]),),
        description="Posts to twenty newsgroups, in the form that neural topic models are compared on: counts of 1,995 "
        "words, of which the first never occurs. Neither newsgroups nor links are known.",
    )


def convert(originals: Mapping[str, bytes]) -> Arrays:
    """The arrays of `train.feat`, `test.feat` (lines `label id:count …`, ids from 1 on) and `vocab.new`."""
    words = [line.split()[0] for line in originals["vocab.new"].splitlines()]
    arrays = {"vocab": np.array(words)}
    for part in ("train", "test"):
        counts = parse_counts(originals[f"{part}.feat"], f"{part}.feat", terms=len(words), first=1, sized=False)
        filled = counts[np.diff(counts.indptr) > 0]  # a line of each file is empty
        arrays |= stored_counts(filled, least=np.uint16, prefix=f"{part}_")
    return arrays


SOURCE = DocumentSource(
    name="20newsgroups",
    title="Word counts of posts to 20 newsgroups",
    rows=18745,
    columns=1995,
    task="counts",
    licence="none stated",
    origin=f"github.com/{REPOSITORY}",
    path="newsgroups20/newsgroups20_bow.npz",
    digest="01c1707a2ad2257c1b33a4e50395a16a8b0883a1d019b07c3a8d33b6748f72cd",
    read=read,
    originals=tuple(
        Original(name, f"{BASE}/{name}", sha256, MOST)
        for name, sha256 in {
            "train.feat": "6c4b612d03bb54c68c923ae7b689398c4a7bd1046b0874332dfe0a0c42830143",
            "test.feat": "5e5beaff3c66affeb08aeefb69e40e3e1c52360cdad2df03e7df2ecb6b79fad0",
            "vocab.new": "75594f361e317a8c8fafca9846e903143ff25bb57ac4207ff850ef4245eb94bb",
        }.items()
    ),
    convert=convert,
)
SOURCES = (SOURCE,)
