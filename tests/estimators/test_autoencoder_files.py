"""Model files of autoencoders: every kind of network to the bit, the first files, and files that are made up."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors
import safetensors.torch
import scipy.sparse
import torch
from support.autoencoders import FAST, each_network
from support.states import assert_same_state

import torchnpn as npn
from torchnpn import DocumentAutoencoder, io
from torchnpn.io import ModelFileError

COUNTS = scipy.sparse.csr_matrix(np.random.default_rng(0).poisson(0.2, size=(40, 60)).astype(np.float64))


@each_network
def test_all_of_it_comes_back_from_a_file(settings, tmp_path):
    model = DocumentAutoencoder(**FAST, **settings).fit(COUNTS)
    npn.save(model, tmp_path / "model.npn")
    loaded = npn.load(tmp_path / "model.npn")
    assert type(loaded) is DocumentAutoencoder and loaded.get_params() == model.get_params()
    assert_same_state(model, loaded)
    for one, other in zip(model.transform_dist(COUNTS), loaded.transform_dist(COUNTS), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    for one, other in zip(model.reconstruction(COUNTS), loaded.reconstruction(COUNTS), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    Z = model.transform(COUNTS)
    np.testing.assert_allclose(model.inverse_transform(Z), loaded.inverse_transform(Z), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(model.components_, loaded.components_, rtol=1e-5, atol=1e-7)
    assert not loaded.network_.training
    told = io.describe(tmp_path / "model.npn")
    assert told["families"] == [settings["family"]]
    npn.save(loaded, tmp_path / "again.npn")
    assert io.describe(tmp_path / "again.npn")["plain"] == told["plain"]


def test_names_of_words_come_back(tmp_path):
    frame = pd.DataFrame(COUNTS.toarray(), columns=[f"wörd {k}" for k in range(60)])
    model = DocumentAutoencoder("gamma", **FAST).fit(frame)
    npn.save(model, tmp_path / "model.npn")
    assert npn.load(tmp_path / "model.npn").topics() == model.topics()


def test_a_table_of_the_first_files_still_loads(tmp_path):
    """Before version 0.1 files had no family, loss or settings for words, and said what activation and rates were."""
    content = (Path(__file__).parents[1] / "io" / "early_files" / "table.npn").read_bytes()
    (path := tmp_path / "model.npn").write_bytes(content)
    before = npn.load(path)

    def as_before(settings):
        later = ("family", "loss", "masking", "input_noise", "encoding_noise", "tau", "bias")
        later += ("prior_precision", "weight_decay")
        early = {"activation": "tanh", "kl_weight": 1.0, "learning_rate": 1e-3}
        return {**{name: value for name, value in settings.items() if name not in later}, **early}

    rewrite(path, as_before)
    assert npn.load(path).get_params() == before.get_params()


def rewrite(path, change_settings=lambda s: s, change_plain=lambda p: p, change_tensors=lambda t: t):
    """Change a file, with a checksum that fits, as a stranger could."""
    with safetensors.safe_open(path, "pt") as opened:
        document = json.loads(opened.metadata()["torchnpn"])
    plain = document["object"]["plain"]
    plain["settings"] = change_settings(plain["settings"])
    document["object"]["plain"] = change_plain(plain)
    io.file.write(path, document, change_tensors(safetensors.torch.load_file(path)))


def renamed(tensors):
    return {name.replace("network.1.", "network.9."): value for name, value in tensors.items()}


def infinite(tensors):
    first = next(name for name in tensors if name.endswith("log_mean"))
    return {**tensors, first: torch.full_like(tensors[first], torch.inf)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"change_settings": lambda s: {**s, "family": "gaussian"}},
        {"change_settings": lambda s: {**s, "prior_precision": None}},
        {"change_settings": lambda s: {**s, "family": ["gamma"]}},
        {"change_settings": lambda s: {**s, "hidden": [10**8, 10**8]}},
        {"change_settings": lambda s: {**s, "hidden": [8, 5]}},
        {"change_settings": lambda s: {**s, "hidden": "eight"}},
        {"change_settings": lambda s: {**s, "loss": "exec"}},
        {"change_settings": lambda s: {**s, "masking": 7}},
        {"change_settings": lambda s: {**s, "activation": 3}},
        {"change_settings": lambda s: {**s, "bias": False}},
        {"change_settings": lambda s: {**s, "more": 1}},
        {"change_settings": lambda s: None},
        {"change_plain": lambda p: {**p, "features": 2**30}},
        {"change_plain": lambda p: {**p, "features": -1}},
        {"change_plain": lambda p: {**p, "seed": "1"}},
        {"change_plain": lambda p: {**p, "more": 1}},
        {"change_plain": lambda p: {k: v for k, v in p.items() if k != "seed"}},
        {"change_plain": lambda p: {**p, "feature_names": ["a"]}},
        {"change_tensors": lambda t: {**t, "more": torch.zeros(3)}},
        {"change_tensors": lambda t: dict(list(t.items())[1:])},
        {"change_tensors": renamed},
        {"change_tensors": infinite},
        {"change_tensors": lambda t: {k: v.double() for k, v in t.items()}},
        {"change_tensors": lambda t: {k: v.T.contiguous() for k, v in t.items()}},
    ],
)
@pytest.mark.filterwarnings("ignore:The use of `x.T`")
def test_a_file_that_was_made_up_is_refused(change, tmp_path):
    model = DocumentAutoencoder("gamma", masking=0.1, **FAST).fit(COUNTS)
    npn.save(model, path := tmp_path / "model.npn")
    rewrite(path, **change)
    with pytest.raises(ModelFileError):
        npn.load(path)


def test_a_damaged_file_is_refused(tmp_path):
    npn.save(DocumentAutoencoder("poisson", **FAST).fit(COUNTS), path := tmp_path / "model.npn")
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    for damaged in (content[:-1], content[: length // 2], content[:-5] + bytes([content[-5] ^ 1]) + content[-4:]):
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError):
            npn.load(path)
