"""Documents and their links: parsed from their originals, read, refused where damaged, split; the published values."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from npn_studies.datasets import Documents, citations, documents, link_split, node_split, texts, words
from support.served import empty_cache, served

from torchnpn import datasets
from torchnpn.datasets import catalogue, store

DATA = os.environ.get("TORCHNPN_DATA")  # read before the fixture below takes it away
NAMES = ("citeulike-t", "citeulike-a", "arxiv", "cora", "citeseer", "20newsgroups")

# Four documents of five terms as they would lie at the source: one is empty, one has no link but to itself.
ORIGINALS = {
    "vocabulary.dat": b"gene\nm-estimator\nna\xc3\xafve\nmodel\ndata\n",
    "mult.dat": b"2 4:3 0:1\n0\n3 1:1 3:300 2:2\n1 4:7\n",
    "citations.dat": b"2 2 3\n1 1\n1 0\n1 0\n",
}
COUNTS = np.array([[1, 0, 0, 0, 3], [0] * 5, [0, 1, 2, 300, 0], [0, 0, 0, 0, 7]])
LINKS = [[0, 2], [0, 3]]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    return empty_cache(tmp_path, monkeypatch)


def tiny(base: str = "http://127.0.0.1:9", **change: object) -> documents.DocumentSource:
    """citeulike-a with the four documents, their originals under the address `base`."""
    originals = tuple(
        one._replace(url=f"{base}/{one.name}", sha256=None) for one in catalogue.SOURCES["citeulike-a"].originals
    )
    change = {"convert": functools.partial(citations.convert_citeulike, "tiny"), **change}
    return dataclasses.replace(
        catalogue.SOURCES["citeulike-a"], rows=4, columns=5, path="tiny/tiny.npz", originals=originals, **change
    )


@pytest.fixture
def origin(tmp_path, monkeypatch):
    """A folder with those originals, and a server of it; `load("citeulike-a")` asks there."""
    folder = tmp_path / "origin"
    with served(folder, ORIGINALS) as base:
        monkeypatch.setitem(catalogue.SOURCES, "citeulike-a", tiny(base))
        yield folder


def parsed(**change: bytes) -> store.Arrays:
    return citations.convert_citeulike("tiny", {**ORIGINALS, **{f"{name}.dat": text for name, text in change.items()}})


# From the originals


def test_citeulike_goes_from_its_originals_to_documents(origin, cache):
    loaded = datasets.load("citeulike-a")
    assert isinstance(loaded, Documents) and loaded.name == "citeulike-a"
    assert (loaded.counts.format, loaded.counts.dtype) == ("csr", np.float32)
    np.testing.assert_array_equal(loaded.counts.toarray(), COUNTS)
    assert loaded.vocabulary == ("gene", "m-estimator", "naïve", "model", "data")
    assert (loaded.links.tolist(), loaded.links.dtype) == (LINKS, np.int64)
    assert (loaded.labels, loaded.identifiers, loaded.splits) == (None, None, ())
    assert [path for path in cache.rglob("*") if path.is_file()] == [cache / "tiny" / "tiny.npz"]
    assert datasets.verify("citeulike-a") == [("citeulike-a", "ok")]


def test_stored_arrays_are_small(origin):
    arrays = parsed()
    types = {name: array.dtype.kind + str(8 * array.dtype.itemsize) for name, array in arrays.items()}
    assert types | {"vocab": ""} == {
        "data": "u16",  # 300 is more than 8 bits
        "indices": "u16",
        "indptr": "i32",
        "shape": "i64",
        "vocab": "",
        "edges": "u16",
        "self_links": "u16",
    }
    assert arrays["self_links"].tolist() == [1]


def test_a_vocabulary_larger_than_two_to_the_sixteen():
    terms = 70_000
    vocabulary = b"\n".join(b"w%d" % term for term in range(terms))
    arrays = parsed(vocabulary=vocabulary, mult=b"1 69999:1\n1 65536:2\n0\n0\n")
    counts = documents.read_counts(arrays)
    assert arrays["indices"].dtype == np.uint32
    assert counts.shape == (4, terms) and counts.indices.tolist() == [69_999, 65_536]


def test_links_in_any_direction_become_pairs():
    generator = np.random.default_rng(0)
    pairs = generator.integers(30, size=(400, 2)).astype(np.uint16)
    expected = sorted({(min(pair), max(pair)) for pair in pairs.tolist() if pair[0] != pair[1]})
    assert documents.undirected(pairs, 30).tolist() == [list(pair) for pair in expected]
    assert documents.undirected(np.empty((0, 2), np.uint16), 30).shape == (0, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mult": b"2 4:3 0:1\n0\n3 1:1 3:3"}, "line 3 of mult.dat should have 3 terms, got 2: cut short"),
        ({"mult": b"2 4:3 0:1\n0\n1 1:\n1 4:7\n"}, "line 3 of mult.dat should be `n id:count"),
        ({"mult": b"2 4:3 0:1\n0\n"}, "a line for each of 2 documents, got 4"),
        ({"mult": b"1 4:-3\n0\n0\n0\n"}, "mult.dat: counts should be whole numbers ≥ 0, got -3"),
        ({"mult": b"1 4:1.5\n0\n0\n0\n"}, "line 1 of mult.dat"),
        ({"mult": b"1 5:1\n0\n0\n0\n"}, "mult.dat: terms should have numbers from 0 to 4, got 5"),
        ({"mult": b"1 -1:1\n0\n0\n0\n"}, "terms should have numbers from 0 to 4, got -1"),
        ({"mult": b"1 99999999999999999999:1\n0\n0\n0\n"}, "mult.dat: "),
        ({"mult": b"<html>log in first</html>\n"}, "line 1 of mult.dat"),
        ({"citations": b"2 2 3\n1 1\n1 0\n"}, "citations.dat should have a line for each of 4 documents, got 3"),
        ({"citations": b"2 2 3\n1 1\n1 0\n1\n"}, "line 4 of citations.dat should have 1 links, got 0: cut short"),
        ({"citations": b"2 2 3\n1 1\n1 0\n1 4\n"}, "line 4 of citations.dat should name documents from 0 to 3"),
        ({"citations": b"2 2 3\n1 1\n1 0\n1 -1\n"}, "line 4 of citations.dat should name documents from 0 to 3"),
        ({"citations": b"2 2 3\n1 1\n1 0\none\n"}, "line 4 of citations.dat should be `n id id"),
        ({"citations": b"2 2 3\n\n1 0\n1 0\n"}, "line 2 of citations.dat"),
    ],
)
def test_a_bad_original_is_refused_and_leaves_nothing(origin, cache, change, message):
    for name, content in change.items():
        (origin / f"{name}.dat").write_bytes(content)
    with pytest.raises(datasets.DownloadError, match=f"are not as expected: .*{message}"):
        datasets.load("citeulike-a")
    assert not any(path.is_file() for path in cache.rglob("*"))


def test_the_text_of_citeulike_a_is_known_by_its_name_in_git(tmp_path):
    content = ORIGINALS["mult.dat"]
    (tmp_path / "mult.dat").write_bytes(content)
    try:
        command = ["git", "hash-object", str(tmp_path / "mult.dat")]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except FileNotFoundError:
        pytest.skip("git is not here")
    assert citations.git_blob(content) == told
    with pytest.raises(ValueError, match=f"mult.dat should be git's object 5df76b81.*, got {told}"):
        citations.convert_citeulike("citeulike-a", ORIGINALS)


def test_without_a_network_it_says_that_the_text_is_missing(cache, monkeypatch):
    monkeypatch.setitem(catalogue.SOURCES, "citeulike-a", tiny())  # a port that nobody listens at
    with pytest.raises(datasets.DownloadError) as caught:
        datasets.load("citeulike-a")
    for words_ in ("Its text, mult.dat, is missing", str(cache / "tiny" / "tiny.npz"), "TORCHNPN_DATA"):
        assert words_ in str(caught.value)


@pytest.mark.parametrize(
    ("name", "original"), [("arxiv", "cit-HepTh-abstracts.tar.gz"), ("cora", "ind.cora"), ("citeseer", "ind.citeseer")]
)
def test_what_cannot_be_converted_is_asked_for(cache, name, original):
    with pytest.raises(FileNotFoundError) as caught:
        datasets.load(name)
    for words_ in (original, "documentation", str(cache / catalogue.SOURCES[name].path), "TORCHNPN_DATA"):
        assert words_ in str(caught.value)


def test_newsgroups_count_terms_from_one_and_drop_empty_lines():
    arrays = texts.convert(
        {"vocab.new": b"_eos_ 0 \nwrite 0 \none 0 \n", "train.feat": b"1 3:2 2:1\n\n1 2:4\n", "test.feat": b"1 3:549\n"}
    )
    loaded = texts.read(arrays)
    np.testing.assert_array_equal(loaded.counts.toarray(), [[0, 1, 2], [0, 4, 0], [0, 0, 549]])
    assert [part.tolist() for part in loaded.splits[0]] == [[0, 1], [2]]
    assert loaded.vocabulary == ("_eos_", "write", "one") and loaded.links.shape == (0, 2)


def test_originals_are_fixed_and_checked():
    for name in NAMES:
        source = catalogue.SOURCES[name]
        for original in source.originals:
            assert any(len(part) == 40 for part in original.url.split("/"))  # a commit, not a branch
            assert original.sha256 is not None or source.name in citations.BLOB
        assert source.digest or source.name in citations.BLOB


# From the stored file


ARRAYS = parsed()


def changed(**change: object) -> dict[str, np.ndarray]:
    return {**ARRAYS, **{name: np.asarray(value) for name, value in change.items()}}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({name: array for name, array in ARRAYS.items() if name != "data"}, "not the file of 'citeulike-a' .*'data'"),
        (changed(data=ARRAYS["data"][1:]), "6 counts should be there, got data \\(5,\\)"),
        (changed(data=ARRAYS["data"] - 2.0), "whole numbers ≥ 0, got -1.0"),
        (changed(data=ARRAYS["data"] + 0.5), "whole numbers ≥ 0, got 1.5"),
        (changed(data=ARRAYS["data"] * np.nan), "whole numbers ≥ 0, got nan"),
        (changed(indices=ARRAYS["indices"] + 1), "numbers from 0 to 4, got 5"),
        (changed(indptr=ARRAYS["indptr"][::-1]), "rise from 0"),
        (changed(indptr=ARRAYS["indptr"][:-1]), "indptr should have 5 numbers"),
        (changed(shape=[4, 5, 6]), "not the file of"),
        (changed(vocab=ARRAYS["vocab"][1:]), "vocabulary should have 5 terms, got 4"),
        (changed(edges=[[0, 4]]), "documents from 0 to 3, got 4"),
        (changed(edges=[[0, -1]]), "documents from 0 to 3, got -1"),
        (changed(edges=[0, 1]), "links should be pairs"),
        (changed(shape=[4, 6], vocab=[*ARRAYS["vocab"], b"more"]), "4 documents and 5 terms, got counts of .*4, 6"),
    ],
)
def test_another_file_is_refused(cache, monkeypatch, arrays, message):
    monkeypatch.setitem(catalogue.SOURCES, "citeulike-a", tiny())
    store.write(cache / "tiny" / "tiny.npz", arrays)
    with pytest.raises(ValueError, match=message) as caught:
        datasets.load("citeulike-a")
    assert "fetch it anew" in str(caught.value)


def test_verify_reads_what_has_no_recorded_sum(cache, monkeypatch):
    monkeypatch.setitem(catalogue.SOURCES, "citeulike-a", tiny())
    store.write(cache / "tiny" / "tiny.npz", changed(data=ARRAYS["data"] - 2.0))
    assert datasets.verify("citeulike-a") == [("citeulike-a", "different")]


def test_arxiv_forgets_directions_and_names_papers():
    arrays = {
        **changed(edges=np.array([[2, 0], [0, 2], [1, 1], [3, 1]], dtype=np.uint16)),
        "paper_id": np.int32([1001, 9_912_293, 201_001, 7]),
    }
    loaded = citations.read_arxiv(arrays)
    assert loaded.links.tolist() == [[0, 2], [1, 3]]
    assert loaded.identifiers == ("hep-th/0001001", "hep-th/9912293", "hep-th/0201001", "hep-th/0000007")


def test_small_graphs_have_classes_and_a_split():
    arrays = {**ARRAYS, "y": np.int8([0, -1, 1, 1]), "test_idx": np.uint16([2, 1])}
    loaded = citations.read_planetoid("cora", "", arrays)
    assert loaded.labels.tolist() == [0, -1, 1, 1] and loaded.vocabulary is None
    assert [part.tolist() for part in loaded.splits[0]] == [[0, 3], [2, 1]]
    with pytest.raises(ValueError, match="a class for each of 4 documents"):
        citations.read_planetoid("cora", "", {**arrays, "y": np.int8([0, 1])})


# Splits


@pytest.mark.parametrize(("count", "share", "taken"), [(10, 0.8, 8), (7, 0.5, 4), (2, 0.4, 1), (1001, 0.25, 250)])
def test_a_split_by_nodes_has_every_node_once(count, share, taken):
    train, test = node_split(count, seed=3, share=share)
    assert len(train) == taken
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(count))
    assert (np.diff(train) > 0).all() and (np.diff(test) > 0).all()


def test_a_split_follows_its_seed():
    first, again, other = (node_split(1000, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.train, again.train)
    common = len(np.intersect1d(first.test, other.test))
    assert 15 <= common <= 70  # 40 expected of 200, with a standard deviation below 6


def test_a_split_by_links_has_every_link_once():
    links = np.stack([np.arange(50), np.arange(50) + 7], axis=1)
    train, test = link_split(links, seed=0, share=0.9)
    assert (len(train), len(test)) == (45, 5)
    assert sorted([*train.tolist(), *test.tolist()]) == links.tolist()
    assert test.tolist() != links[-5:].tolist()


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(ValueError, match="share expects a number above 0 and below 1"):
        node_split(10, seed=0, share=share)


def test_an_empty_side_is_refused():
    with pytest.raises(ValueError, match="links on both sides, got 1 of 1"):
        link_split(np.array([[0, 1]]), seed=0)
    with pytest.raises(ValueError, match="documents on both sides, got 0 of 3"):
        node_split(3, seed=0, share=0.1)


# The published values, where the data are

PUBLISHED = [  # documents, terms, counts that are not zero, links, empty documents
    ("citeulike-t", 25975, 20000, 490_708, 32_173, 31),
    ("arxiv", 27770, 8000, 1_128_299, 352_285, 1),
    ("cora", 2708, 1433, 49_216, 5_278, 0),
    ("citeseer", 3327, 3703, 105_165, 4_552, 15),
    ("20newsgroups", 18745, 1995, 1_039_898, 0, 0),
]


def use_data(name: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    if DATA is None or not (path := Path(DATA) / catalogue.SOURCES[name].path).is_file():
        pytest.skip(f"TORCHNPN_DATA is not set to a folder with {name}")
    monkeypatch.setenv("TORCHNPN_DATA", DATA)
    return path


@pytest.mark.parametrize(("name", "rows", "terms", "nonzero", "links", "empty"), PUBLISHED)
def test_documents_have_their_published_values(monkeypatch, name, rows, terms, nonzero, links, empty):
    use_data(name, monkeypatch)
    assert datasets.verify(name) == [(name, "ok")]
    loaded = datasets.load(name)
    assert (loaded.counts.shape, loaded.counts.nnz, loaded.links.shape) == ((rows, terms), nonzero, (links, 2))
    assert loaded.counts.data.min() >= 1 and loaded.counts.has_sorted_indices
    assert (np.diff(loaded.counts.indptr) == 0).sum() == empty
    assert (loaded.links[:, 0] < loaded.links[:, 1]).all()
    assert loaded.vocabulary is None or len(set(loaded.vocabulary)) == terms


@pytest.mark.parametrize(("name", "least"), [("citeulike-t", 10), ("arxiv", 2), ("cora", 2)])
def test_linked_documents_share_words(monkeypatch, name, least):
    """Rows and links belong together: linked pairs are more alike than pairs at random."""
    use_data(name, monkeypatch)
    loaded = datasets.load(name)
    norm = np.sqrt(loaded.counts.multiply(loaded.counts).sum(axis=1).A1)
    X = scipy.sparse.diags(1 / np.where(norm > 0, norm, 1)) @ loaded.counts
    generator = np.random.default_rng(0)
    linked = generator.permutation(loaded.links)[:5000]
    apart = generator.integers(X.shape[0], size=(5000, 2))
    alike, other = (X[pairs[:, 0]].multiply(X[pairs[:, 1]]).sum(axis=1).mean() for pairs in (linked, apart))
    assert alike > least * other


@pytest.mark.slow
def test_the_originals_of_citeulike_t_become_the_recorded_file(monkeypatch):
    """Links and vocabulary are rebuilt byte for byte, the recorded sums say so; terms of a document in any order."""
    with np.load(use_data("citeulike-t", monkeypatch)) as stored:
        arrays = dict(stored)
    edges, selves = arrays["edges"].astype(int), arrays["self_links"].astype(int)
    ends = np.concatenate([edges, edges[:, ::-1], np.stack([selves, selves], axis=1)])
    ends = ends[np.lexsort((ends[:, 1], ends[:, 0]))]
    neighbours = np.split(ends[:, 1], np.searchsorted(ends[:, 0], np.arange(1, 25975)))
    generator = np.random.default_rng(0)
    indptr, indices, data = (arrays[name].tolist() for name in ("indptr", "indices", "data"))
    bags = [
        generator.permutation([f"{indices[at]}:{data[at]}" for at in range(start, stop)])
        for start, stop in itertools.pairwise(indptr)
    ]
    originals = {
        "vocabulary.dat": b"\n".join(arrays["vocab"].tolist()),
        "citations.dat": "\n".join(" ".join(map(str, [len(ids), *ids])) for ids in neighbours).encode(),
        "mult.dat": "\n".join(" ".join([str(len(bag)), *bag]) for bag in bags).encode(),
    }
    source = catalogue.SOURCES["citeulike-t"]
    for original in source.originals[:2]:
        assert hashlib.sha256(originals[original.name]).hexdigest() == original.sha256
    assert store.digest(source.convert(originals)) == source.digest


def test_the_originals_of_newsgroups_become_the_recorded_file(monkeypatch):
    with np.load(use_data("20newsgroups", monkeypatch)) as stored:
        arrays = dict(stored)
    originals = {"vocab.new": b"".join(word + b" 0 \n" for word in arrays["vocab"].tolist())}
    for part in ("train", "test"):
        indptr, indices, data = (arrays[f"{part}_{name}"].tolist() for name in ("indptr", "indices", "data"))
        lines = [
            " ".join(["1", *(f"{indices[at] + 1}:{data[at]}" for at in reversed(range(start, stop)))])
            for start, stop in itertools.pairwise(indptr)
        ]
        originals[f"{part}.feat"] = "\n".join([*lines[:9], "1", *lines[9:]]).encode()
    assert store.digest(texts.convert(originals)) == texts.SOURCE.digest


def test_smallest_type_holds_the_numbers():
    for most, kind in [(255, np.uint16), (65_535, np.uint16), (65_536, np.uint32)]:
        numbers = words.smallest(np.array([0, most]))
        assert numbers.dtype == kind and numbers.tolist() == [0, most]
