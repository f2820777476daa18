"""Model files of version 0.1 load, under the names of today, and predict what they predicted then."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import torchnpn as npn
from torchnpn import io, table_files

FOLDER = Path(__file__).parent / "early_files"
ANSWERS = dict(np.load(FOLDER / "answers.npz"))
AUTOENCODERS = {
    "table": (npn.NPNAutoencoder, {"dropout": 0.1, "missing": "conditional", "kl_weight": 1.0}),
    "gaussian": (npn.DocumentAutoencoder, {"loss": "bce", "encoding_noise": 0.5, "prior_precision": "evidence"}),
    "gamma": (npn.DocumentAutoencoder, {"family": "gamma", "loss": None, "bias": True, "max_epochs": 3}),
    "poisson": (npn.DocumentAutoencoder, {"family": "poisson", "activation": "saturating_kl"}),
    "factors": (npn.DocumentAutoencoder, {"family": "gamma", "activation": "identity", "bias": False}),
}
LINKS = {
    "links_joint": {"features": "joint", "normalisation": "cosine"},
    "links_features": {"features": "products", "normalisation": "cosine"},
    "links_posterior": {"features": "posterior", "normalisation": "none"},
    "links_root": {"features": "products"},
}


@pytest.mark.parametrize("name", AUTOENCODERS)
def test_autoencoders(name, tmp_path):
    kind, settings = AUTOENCODERS[name]
    rows = ANSWERS["table.X" if name == "table" else "counts"]
    first = npn.load(FOLDER / f"{name}.npn")
    assert io.describe(FOLDER / f"{name}.npn")["type"] == kind.__name__
    npn.save(first, tmp_path / "again.npn")
    for model in (first, npn.load(tmp_path / "again.npn")):
        assert type(model) is kind and settings.items() <= model.get_params().items()
        code = model.transform_dist(rows)
        np.testing.assert_allclose(code.mean, ANSWERS[f"{name}.mean"], rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(code.variance, ANSWERS[f"{name}.variance"], rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(model.score_samples(rows), ANSWERS[f"{name}.score"], rtol=1e-6)
        assert np.isfinite(model.fit(rows).transform(rows)).all()


@pytest.mark.parametrize("name", LINKS)
def test_links(name, tmp_path):
    first = npn.load(FOLDER / f"{name}.npn")
    npn.save(first, tmp_path / "again.npn")
    for model in (first, npn.load(tmp_path / "again.npn")):
        assert LINKS[name].items() <= model.get_params().items()
        np.testing.assert_allclose(model.predict_proba(ANSWERS["pairs"]), ANSWERS[name], rtol=1e-6)


def test_a_model_of_the_command(tmp_path):
    """Its columns have decimal commas; `command.csv` is what it predicted for them."""
    first = npn.load(FOLDER / "command.npn")
    npn.save(first, tmp_path / "again.npn")
    (batch,) = table_files.open_table(FOLDER / "command.csv").batches()
    for model in (first, npn.load(tmp_path / "again.npn")):
        for name, values in model.predict(batch).items():
            np.testing.assert_allclose(values, np.array(batch[name], float), rtol=1e-6)


def test_logistic_regression():
    model = npn.load(FOLDER / "logistic.npn")
    np.testing.assert_allclose(model.predict_proba(ANSWERS["logistic.X"]), ANSWERS["logistic"], rtol=1e-6)
