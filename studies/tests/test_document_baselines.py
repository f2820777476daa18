"""Rival codes of documents: one interface, textbook formulas, and codes that find topics."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
import torch
from npn_studies.baselines.document_autoencoders import (
    StackedAutoencoder,
    VariationalAutoencoder,
    _standard_divergence,
)
from npn_studies.baselines.document_codes import LatentSemantics, TfIdf
from npn_studies.experiments.document_networks import GAUSSIAN
from sklearn.metrics import roc_auc_score
from support.autoencoders import odd_documents

from torchnpn.moments import Moments

SHORT = {"hidden": (12, 6), "epochs": 2, "batch_size": 32, "device": "cpu"}
METHODS = {
    "SAE": StackedAutoencoder(**SHORT),
    "SDAE": StackedAutoencoder(masking=0.5, **SHORT),
    "VAE": VariationalAutoencoder(**SHORT),
    "double budget": StackedAutoencoder(**{**SHORT, "hidden": (24, 6)}),
    "SVD": LatentSemantics(6),
    "ours": replace(GAUSSIAN, **SHORT),
}


def communities(seed=0, documents=240, terms=150, topics=3):
    rng = np.random.default_rng(seed)
    words = rng.dirichlet(np.full(terms, 0.2), topics)
    topic = rng.integers(0, topics, documents)
    counts = np.stack([rng.multinomial(15, words[t]) for t in topic])
    return scipy.sparse.csr_matrix(counts.astype(np.float32)), topic


@pytest.mark.parametrize("name", METHODS)
def test_all_have_one_interface(name):
    counts, _ = communities(documents=60)
    codes = METHODS[name].fit(counts)
    code = codes(counts[:7])
    assert code.mean.shape == (7, 6) and code.mean.dtype == np.float32
    assert (code.variance is not None) == (name in ("VAE", "ours"))
    np.testing.assert_allclose(codes(counts).mean[:7], code.mean, atol=1e-5)
    np.testing.assert_array_equal(METHODS[name].fit(counts)(counts[:7]).mean, code.mean)
    with pytest.raises(ValueError, match=r"expects 150 terms|expecting 150 features"):
        codes(counts[:, :9])
    with pytest.raises(ValueError, match=r"≥ 0|Negative values"):
        METHODS[name].fit(-counts)


def test_tf_idf_is_that_of_the_textbook():
    counts, _ = communities(documents=40)
    dense = counts.toarray().astype(np.float64)
    weight = np.log((1 + len(dense)) / (1 + (dense > 0).sum(0))) + 1
    expected = dense * weight / np.linalg.norm(dense * weight, axis=1, keepdims=True)
    code = TfIdf().fit(counts)(counts).mean
    assert scipy.sparse.issparse(code)
    np.testing.assert_allclose(code.toarray(), expected, rtol=1e-5)


def test_svd_has_the_best_inner_products():
    counts, _ = communities(documents=40)
    matrix = TfIdf().fit(counts)(counts).mean.toarray()
    _, values, vectors = np.linalg.svd(matrix, full_matrices=False)
    code = LatentSemantics(5).fit(counts)(counts).mean
    exact = matrix @ vectors[:5].T
    np.testing.assert_allclose(code @ code.T, exact @ exact.T, atol=0.02 * values[0] ** 2)


def test_the_divergence_is_that_of_torch():
    z = Moments(torch.randn(4, 3), torch.rand(4, 3) + 0.1)
    normal = torch.distributions.Normal
    expected = torch.distributions.kl_divergence(normal(z.mean, z.std), normal(0.0, 1.0)).sum(-1)
    torch.testing.assert_close(_standard_divergence(z), expected)


@pytest.mark.parametrize("masking", [1.0, -0.1, float("nan")])
def test_a_share_of_words_that_is_none_is_refused(masking):
    with pytest.raises(ValueError, match="VariationalAutoencoder expects masking from 0 to below 1"):
        VariationalAutoencoder(masking=masking)


def test_a_heavier_prior_widens_the_codes():
    counts, _ = communities(documents=100)
    settings = replace(METHODS["VAE"], epochs=10, learning_rate=1e-2)
    variances = [replace(settings, beta=beta).fit(counts)(counts).variance.mean() for beta in (0.01, 1.0)]
    assert variances[0] < variances[1] <= 1.5


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("case", ["one document", "empty documents", "a word that never occurs", "wide"])
def test_odd_documents_have_finite_codes(name, case):
    counts = odd_documents(communities(documents=20)[0], case)
    settings = METHODS[name] if name == "SVD" else replace(METHODS[name], epochs=1)
    if (name, case) == ("ours", "one document"):
        with pytest.raises(ValueError, match="a minimum of 2 is required"):
            settings.fit(counts)
        return
    code = settings.fit(counts)(counts)
    assert all(np.isfinite(part).all() for part in code if part is not None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SAE", "SDAE", "VAE", "SVD"])
def test_codes_find_communities(name):
    counts, topic = communities()
    settings = METHODS[name]
    if name != "SVD":
        settings = replace(settings, hidden=(20, 6), epochs=30, batch_size=16, learning_rate=5e-3)
    z = settings.fit(counts)(counts).mean
    z = z - z.mean(0)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    above = np.triu_indices(len(z), 1)
    assert roc_auc_score((topic[:, None] == topic)[above], (z @ z.T)[above]) > 0.9
