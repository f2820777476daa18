"""NPNAutoencoder for counts: one face for the networks of documents, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import scipy.special
from autoencoders import FAST, NETWORKS, each_network
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from torchnpn import NPNAutoencoder, io
from torchnpn.documents import GAMMA, GAUSSIAN, POISSON


def words(documents=40, terms=60, seed=0) -> scipy.sparse.csr_matrix:
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.1 * rng.gamma(0.5, 2.0, size=(documents, terms)))
    counts[3] = 0
    return scipy.sparse.csr_matrix(counts.astype(np.float64))


COUNTS = words()


# One face --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gaussian", "gamma", "poisson"])
def test_it_is_the_autoencoder_of_documents(family):
    """The same seed, settings and documents: the codes of `torchnpn.documents`, but for its float32."""
    preset = {"gaussian": GAUSSIAN, "gamma": GAMMA, "poisson": POISSON}[family]
    settings = {"masking": 0.2, "encoding_noise": 0.3, "learning_rate": 0.02, "kl_weight": 0.1, "weight_decay": 0.5}
    settings |= {"prior_precision": "evidence" if family == "gaussian" else 2.0}
    model = NPNAutoencoder(family, loss=preset.loss, **FAST, **settings).fit(COUNTS)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    encoder = replace(preset, hidden=(8, 4), epochs=2, batch_size=16, seed=seed, device="cpu", **settings).fit(COUNTS)
    code, expected = model.transform_dist(COUNTS), encoder(COUNTS)
    np.testing.assert_allclose(code.mean, expected.mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(code.variance, expected.variance, rtol=1e-4, atol=1e-7)
    given_back = model.reconstruction(COUNTS)
    for found, known in zip(given_back, encoder.reconstruction(COUNTS), strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-4)
    np.testing.assert_allclose(model.score_samples(COUNTS), -given_back.error, rtol=1e-5)
    assert model.score(COUNTS) == pytest.approx(-given_back.error.mean())
    np.testing.assert_allclose(model.transform(COUNTS), code.mean, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(model.components_, encoder.components, rtol=1e-4, atol=1e-6)
    assert model.n_iter_ == len(model.history_.epochs) == 2
    assert model.get_feature_names_out().tolist() == [f"npnautoencoder{k}" for k in range(4)]


@each_network
def test_the_same_seed_and_either_kind_of_matrix_give_the_same_codes(settings):
    model = NPNAutoencoder(**FAST, **settings)
    first, second = (clone(model).fit(X).transform_dist(X) for X in (COUNTS, COUNTS.toarray()))
    np.testing.assert_allclose(first.mean, second.mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(first.variance, second.variance, rtol=1e-4, atol=1e-7)
    assert (first.variance >= 0).all()
    other = clone(model).set_params(random_state=1).fit(COUNTS).transform(COUNTS)
    assert np.abs(other - first.mean).max() > 1e-4


def test_none_chooses_by_the_family():
    model = NPNAutoencoder("poisson", hidden=(3,), max_epochs=1, device="cpu").fit(COUNTS)
    used = model.body_.encoder.settings
    assert (used.loss, used.activation, used.masking, used.tau) == ("poisson", "saturating", 0.5, 0.1)
    assert used.learning_rate == POISSON.learning_rate and used.epochs == 1
    assert used.batch_size == 16  # of 40 documents: one step an epoch would be too few
    assert NPNAutoencoder("gamma")._word_settings(0, 10_000).batch_size == GAMMA.batch_size


DECODED = {  # family, loss -> the expected target for outputs of mean m and variance v
    ("gaussian", "bce"): lambda m, v: scipy.special.expit(m / np.sqrt(1 + np.pi / 8 * v)),
    ("gaussian", "gaussian"): lambda m, v: m,
    ("gaussian", "l2"): lambda m, v: m,
    ("gamma", "bce"): lambda m, v: 1 - (1 + v / m) ** (-(m**2) / v),  # 1 - E e^-o of the gamma with these moments
    ("gamma", "gamma"): lambda m, v: m - 0.01,
    ("poisson", "poisson"): lambda m, v: m,
}


@pytest.mark.parametrize(("family", "loss"), DECODED, ids=" ".join)
def test_expected_words_are_decoded_from_codes(family, loss):
    model = NPNAutoencoder(family, loss=loss, **{**FAST, "hidden": (4,)}).fit(COUNTS)
    Z = np.float32(model.transform(COUNTS))
    last = model.network_[-1]
    W, W_s, b, b_s = (part.detach().double().numpy() for part in (*last.weight.moments, *last.bias.moments))
    z = Z.astype(np.float64)
    expected = DECODED[family, loss](z @ W.T + b, z**2 @ W_s.T + b_s)
    np.testing.assert_allclose(model.inverse_transform(Z), expected, rtol=1e-5, atol=1e-6)


def test_topics_have_the_names_of_the_frame():
    names = [f"word{k}" for k in range(60)]
    frame = pd.DataFrame(COUNTS.toarray(), columns=names)
    model = NPNAutoencoder(**FAST, **NETWORKS["factors"]).fit(frame)
    topics = model.topics(words=3)
    assert topics == model.topics(names, 3) and len(topics) == 4 and set(topics[0]) < set(names)
    first = names[int(model.components_[0].argmax())]
    assert topics[0][0] == first
    with pytest.raises(ValueError, match="expects a vocabulary"):
        NPNAutoencoder(**FAST, **NETWORKS["factors"]).fit(COUNTS).topics()


def test_texts_go_through_a_pipeline():
    texts = ["a cat and a dog", "dog eats cat", "prices rise", "prices fall and rise", ""] * 2
    pipeline = make_pipeline(CountVectorizer(), NPNAutoencoder("poisson", **FAST))
    assert pipeline.fit_transform(texts).shape == (10, 4)
    assert np.isfinite(pipeline.score_samples(["a cat", "nothing known"])).all()


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gaussian", "gamma"])
def test_progress_is_told(family, capsys):
    shares = []
    NPNAutoencoder(family, **{**FAST, "max_epochs": 20}, verbose=1).fit(COUNTS, progress=shares.append)
    assert shares == pytest.approx(np.arange(1, 21) / 20)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10 and lines[-1].startswith("[NPNAutoencoder] epoch 20/20: loss ")


NO_WEIGHTS = "counts take no weights"
WEIGHTS = (
    "check_sample_weights_pandas_series",
    "check_sample_weights_not_an_array",
    "check_sample_weights_list",
    "check_all_zero_sample_weights_error",
    "check_sample_weights_shape",
    "check_sample_weights_not_overwritten",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)


@pytest.mark.slow
@parametrize_with_checks(
    [
        NPNAutoencoder("gamma", hidden=(5,), max_epochs=5),
        NPNAutoencoder("poisson", hidden=(5,), max_epochs=5, loss="bce"),
        NPNAutoencoder(hidden=(5,), max_epochs=5, loss="bce"),
    ],
    expected_failed_checks=lambda estimator: dict.fromkeys(WEIGHTS, NO_WEIGHTS),
)
@pytest.mark.filterwarnings("ignore")  # scikit-learn warns of the checks that fail as expected
def test_scikit_learn_contract(estimator, check):
    check(estimator)


# Odd documents ---------------------------------------------------------------------------------------------------


@each_network
@pytest.mark.parametrize("case", ["the same document", "all empty"])
def test_odd_documents_have_finite_codes(settings, case):
    counts = scipy.sparse.vstack([COUNTS[:1]] * 10) if case == "the same document" else 0 * COUNTS
    model = NPNAutoencoder(**FAST, **settings).fit(counts)
    code = model.transform_dist(counts)
    for part in (*code, model.score_samples(counts), model.inverse_transform(code.mean)):
        assert np.isfinite(part).all()


def test_an_empty_document_has_a_code_of_its_own():
    model = NPNAutoencoder("gamma", **FAST).fit(COUNTS)
    empty = model.transform(scipy.sparse.csr_matrix((2, 60)))
    np.testing.assert_allclose(empty[0], model.transform(COUNTS)[3], rtol=1e-12)
    np.testing.assert_allclose(empty[0], empty[1], rtol=1e-12)
    assert np.abs(empty[0] - model.transform(COUNTS)[[0, 1, 2, 4]]).max(1).min() > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gaussian", "gamma", "poisson"])
def test_more_words_than_sixteen_bits_count(family, tmp_path):
    counts = scipy.sparse.random(50, 70_000, density=3e-4, random_state=0, format="csr")
    counts.data = np.ceil(3 * counts.data)
    model = NPNAutoencoder(family, loss="bce", **{**FAST, "max_epochs": 1}).fit(counts)
    code = model.transform_dist(counts)
    io.save(model, tmp_path / "model.npn")
    np.testing.assert_allclose(io.load(tmp_path / "model.npn").transform(counts), code.mean, rtol=1e-5, atol=1e-7)
    last = scipy.sparse.csr_matrix(([2.0], ([0], [69_999])), shape=(1, 70_000))
    early = scipy.sparse.csr_matrix(([2.0], ([0], [69_999 - 2**16])), shape=(1, 70_000))
    assert np.abs(model.transform(last) - model.transform(early)).max() > 0
    assert np.isfinite(model.reconstruction(counts).error).all()


@pytest.mark.parametrize(
    ("family", "counts", "message"),
    [
        ("gamma", -COUNTS, "Negative values"),
        ("poisson", COUNTS / 2, "whole numbers"),
        ("gamma", np.full((4, 60), np.nan), "NaN"),
        ("gamma", np.full((4, 60), np.inf), "infinity"),
        ("gamma", COUNTS[:, :50], "X has 50 features, but NPNAutoencoder is expecting 60"),
        ("gamma", np.ones(60), "1D array"),
    ],
)
def test_what_is_no_counts_is_refused(family, counts, message):
    model = NPNAutoencoder(family, **FAST).fit(COUNTS)
    for method in (model.transform, model.score_samples, model.reconstruction):
        with pytest.raises(ValueError, match=message):
            method(counts)
    if "features" not in message:
        with pytest.raises(ValueError, match=message):
            model.fit(counts)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"family": "beta"}, 'family expects one of "gaussian", "gamma", "poisson", got'),
        ({"family": None}, "family expects"),
        ({"family": "gamma", "loss": "noise"}, 'loss="noise" expects family="gaussian"'),
        ({"loss": "poisson"}, "loss of a gaussian network"),
        ({"loss": "bce", "activation": "saturating"}, "activation of a gaussian network"),
        ({"family": "gamma", "activation": "saturating_kl"}, "activation of a gamma network"),
        ({"masking": 0.5}, 'masking is for counts, not for the loss "noise"'),
        ({"input_noise": 0.5, "tau": 1.0}, "input_noise, tau is for counts"),
        ({"encoding_noise": 0.5}, "encoding_noise is for counts"),
        ({"family": "gamma", "encoding_noise": 1.0}, "encoding_noise expects a number from 0 to below 1"),
        ({"prior_precision": "evidence"}, "prior_precision is for counts"),
        ({"loss": "bce", "prior_precision": -1.0}, "prior_precision expects a number above 0"),
        ({"loss": "bce", "prior_precision": [1.0]}, "prior_precision expects a number above 0"),
        ({"family": "gamma", "prior_precision": "evidence"}, "gamma network expects a number as prior_precision"),
        ({"loss": "bce", "weight_decay": -0.1}, "weight_decay expects a number ≥ 0"),
        ({"family": "gamma", "missing": "conditional"}, "missing='conditional' is for tables"),
        ({"family": "gamma", "dropout": 0.2}, "dropout=0.2 is for tables"),
        ({"family": "gamma", "masking": 1.0}, "masking expects a number from 0 to below 1"),
        ({"family": "gamma", "tau": "large"}, "tau expects a number above 0"),
        ({"family": "gamma", "bias": 1}, "bias expects"),
        ({"family": "gamma", "kl_weight": -1.0}, "kl_weight expects"),
        ({"family": "gamma", "learning_rate": np.nan}, "learning_rate expects"),
        ({"family": "gamma", "hidden": ()}, "hidden expects at least one layer"),
        ({"family": "gamma", "hidden": (3.5,)}, "hidden expects a tuple"),
        ({"family": "gamma", "max_epochs": 0}, "max_epochs expects"),
        ({"family": "gamma", "batch_size": 2.5}, "batch_size expects"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        NPNAutoencoder(**settings).fit(COUNTS)


def test_what_counts_do_not_have_is_refused():
    model = NPNAutoencoder("gamma", **FAST)
    with pytest.raises(ValueError, match="sample_weight is for tables"):
        model.fit(COUNTS, sample_weight=np.ones(40))
    with pytest.raises(ValueError, match="X_variance is for tables"):
        model.fit(COUNTS, X_variance=1.0)
    with pytest.raises(NotFittedError):
        model.reconstruction(COUNTS)
    model.fit(COUNTS)
    with pytest.raises(ValueError, match="X_variance is for tables"):
        model.transform(COUNTS, X_variance=1.0)
    with pytest.raises(ValueError, match="codes of 4 units, got 3"):
        model.inverse_transform(np.ones((2, 3)))
    with pytest.raises(ValueError, match="≥ 0, got -1"):
        model.inverse_transform(-np.ones((2, 4)))
    table = NPNAutoencoder(**FAST).fit(COUNTS.toarray())
    for name in ("topics", "reconstruction", "components_"):
        assert not hasattr(table, name) and hasattr(model, name)
