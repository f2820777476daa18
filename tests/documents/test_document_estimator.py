"""DocumentAutoencoder as a scikit-learn estimator, and what it refuses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import scipy.special
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks
from support.autoencoders import FAST, NETWORKS, each_network

from torchnpn import DocumentAutoencoder, io


def words(documents=40, terms=60, seed=0) -> scipy.sparse.csr_matrix:
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.1 * rng.gamma(0.5, 2.0, size=(documents, terms)))
    counts[3] = 0
    return scipy.sparse.csr_matrix(counts.astype(np.float64))


COUNTS = words()


# One face --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gaussian", "gamma", "poisson"])
def test_its_methods_agree(family):
    model = DocumentAutoencoder(family, **FAST).fit(COUNTS)
    code, reconstructed = model.transform_dist(COUNTS), model.reconstruction(COUNTS)
    np.testing.assert_array_equal(model.transform(COUNTS), code.mean)
    np.testing.assert_array_equal(model.score_samples(COUNTS), -reconstructed.error)
    assert model.score(COUNTS) == pytest.approx(-reconstructed.error.mean())
    assert (reconstructed.variance > 0).all()
    assert model.n_iter_ == len(model.history_.epochs) == 2
    assert model.get_feature_names_out().tolist() == [f"documentautoencoder{k}" for k in range(4)]


def test_noise_of_encoding_can_change_after_training():
    model = DocumentAutoencoder(**FAST).fit(COUNTS)
    before, certain = model.transform_dist(COUNTS), model.set_params(encoding_noise=0.0).transform_dist(COUNTS)
    assert before.variance.mean() > certain.variance.mean()
    np.testing.assert_array_equal(model.set_params(encoding_noise=0.5).transform(COUNTS), before.mean)


def test_documents_may_be_scaled_otherwise_and_saturate_higher():
    counts = scipy.sparse.csr_matrix([[1.0, 3.0, 0.0], [2.0, 0.0, 2.0]] * 10)
    largest = {"max": 1.0, "sum": 7.5, "none": 3.0}
    for scaling, most in largest.items():
        model = DocumentAutoencoder("poisson", scaling=scaling, loss="l2", **FAST)
        assert model._architecture.inputs(counts).max() == pytest.approx(most)
    low, high = (
        DocumentAutoencoder("poisson", loss="l2", r=r, **FAST).fit(counts).transform(counts) for r in (1.0, 3.0)
    )
    assert low.max() < 1 and 1.5 * low.max() < high.max() < 3


def test_the_papers_optimizer_learns_documents():
    settings = FAST | {"max_epochs": 30}
    model = DocumentAutoencoder(optimizer="adadelta", learning_rate=1.0, **settings).fit(COUNTS)
    losses = [epoch.loss for epoch in model.history_.epochs]
    assert np.mean(losses[-10:]) < np.mean(losses[:10])
    with pytest.raises(ValueError, match='optimizer expects one of "adam", "adadelta"'):
        DocumentAutoencoder(optimizer="best").fit(COUNTS)


@each_network
def test_the_same_seed_and_either_kind_of_matrix_give_the_same_codes(settings):
    model = DocumentAutoencoder(**FAST, **settings)
    first, second = (clone(model).fit(X).transform_dist(X) for X in (COUNTS, COUNTS.toarray()))
    np.testing.assert_allclose(first.mean, second.mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(first.variance, second.variance, rtol=1e-4, atol=1e-7)
    assert (first.variance >= 0).all()
    other = clone(model).set_params(random_state=1).fit(COUNTS).transform(COUNTS)
    assert np.abs(other - first.mean).max() > 1e-4


def test_none_chooses_by_the_family():
    chosen, given = (
        DocumentAutoencoder("poisson", **{**FAST, **settings}).fit(COUNTS).transform(COUNTS)
        for settings in (
            {"batch_size": None},
            {"loss": "poisson", "activation": "saturating", "masking": 0.5, "tau": 0.1, "learning_rate": 0.03},
        )
    )
    np.testing.assert_array_equal(chosen, given)  # in batches of 16 of 40 documents: one step would be too few


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
    model = DocumentAutoencoder(family, loss=loss, **{**FAST, "hidden": (4,)}).fit(COUNTS)
    Z = np.float32(model.transform(COUNTS))
    last = model.network_[-1]
    W, W_s, b, b_s = (part.detach().double().numpy() for part in (*last.weight.moments, *last.bias.moments))
    z = Z.astype(np.float64)
    expected = DECODED[family, loss](z @ W.T + b, z**2 @ W_s.T + b_s)
    np.testing.assert_allclose(model.inverse_transform(Z), expected, rtol=1e-5, atol=1e-6)


def test_topics_have_the_names_of_the_frame():
    names = [f"word{k}" for k in range(60)]
    frame = pd.DataFrame(COUNTS.toarray(), columns=names)
    model = DocumentAutoencoder(**FAST, **NETWORKS["factors"]).fit(frame)
    topics = model.topics(words=3)
    assert topics == model.topics(names, 3) and len(topics) == 4 and set(topics[0]) < set(names)
    first = names[int(model.components_[0].argmax())]
    assert topics[0][0] == first
    with pytest.raises(ValueError, match="expects a vocabulary"):
        DocumentAutoencoder(**FAST, **NETWORKS["factors"]).fit(COUNTS).topics()


def test_texts_go_through_a_pipeline():
    texts = ["a cat and a dog", "dog eats cat", "prices rise", "prices fall and rise", ""] * 2
    pipeline = make_pipeline(CountVectorizer(), DocumentAutoencoder("poisson", **FAST))
    assert pipeline.fit_transform(texts).shape == (10, 4)
    assert np.isfinite(pipeline.score_samples(["a cat", "nothing known"])).all()


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gaussian", "gamma"])
def test_progress_is_told(family, capsys):
    told = []
    DocumentAutoencoder(family, **{**FAST, "max_epochs": 20}, verbose=1).fit(COUNTS, callbacks=[told.append])
    assert [one.share for one in told] == pytest.approx(np.arange(1, 21) / 20)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10 and lines[-1].startswith("[DocumentAutoencoder] epoch 20/20: loss ")


@pytest.mark.slow
@parametrize_with_checks(
    [
        DocumentAutoencoder("gamma", hidden=(5,), max_epochs=5),
        DocumentAutoencoder("poisson", hidden=(5,), max_epochs=5, loss="bce"),
        DocumentAutoencoder(hidden=(5,), max_epochs=5, loss="bce"),
    ],
)
@pytest.mark.filterwarnings("ignore")  # some checks have few rows
def test_scikit_learn_contract(estimator, check):
    check(estimator)


# Odd documents ---------------------------------------------------------------------------------------------------


@each_network
@pytest.mark.parametrize("case", ["the same document", "all empty"])
def test_odd_documents_have_finite_codes(settings, case):
    counts = scipy.sparse.vstack([COUNTS[:1]] * 10) if case == "the same document" else 0 * COUNTS
    model = DocumentAutoencoder(**FAST, **settings).fit(counts)
    code = model.transform_dist(counts)
    for part in (*code, model.score_samples(counts), model.inverse_transform(code.mean)):
        assert np.isfinite(part).all()


def test_an_empty_document_has_a_code_of_its_own():
    model = DocumentAutoencoder("gamma", **FAST).fit(COUNTS)
    empty = model.transform(scipy.sparse.csr_matrix((2, 60)))
    np.testing.assert_allclose(empty[0], model.transform(COUNTS)[3], rtol=1e-12)
    np.testing.assert_allclose(empty[0], empty[1], rtol=1e-12)
    assert np.abs(empty[0] - model.transform(COUNTS)[[0, 1, 2, 4]]).max(1).min() > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gaussian", "gamma", "poisson"])
def test_more_words_than_sixteen_bits_count(family, tmp_path):
    counts = scipy.sparse.random(50, 70_000, density=3e-4, random_state=0, format="csr")
    counts.data = np.ceil(3 * counts.data)
    model = DocumentAutoencoder(family, loss="bce", **{**FAST, "max_epochs": 1}).fit(counts)
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
        ("gamma", COUNTS[:, :50], "X has 50 features, but DocumentAutoencoder is expecting 60"),
        ("gamma", np.ones(60), "1D array"),
    ],
)
def test_what_is_no_counts_is_refused(family, counts, message):
    model = DocumentAutoencoder(family, **FAST).fit(COUNTS)
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
        ({"loss": "poisson"}, "loss of a gaussian network"),
        ({"loss": "noise"}, "loss of a gaussian network"),
        ({"activation": "saturating"}, "activation of a gaussian network"),
        ({"family": "gamma", "activation": "saturating_kl"}, "activation of a gamma network"),
        ({"family": "gamma", "encoding_noise": 1.0}, "encoding_noise expects a number from 0 to below 1, or None"),
        ({"input_noise": -0.1}, "input_noise expects a number from 0"),
        ({"prior_precision": -1.0}, 'prior_precision expects "evidence" or a number above 0'),
        ({"prior_precision": [1.0]}, 'prior_precision expects "evidence" or a number above 0'),
        ({"prior_precision": "learnt"}, "prior_precision expects .*, got 'learnt'"),
        ({"prior_precision": None}, "prior_precision expects"),
        ({"family": "gamma", "prior_precision": "evidence"}, "gamma network expects a number as prior_precision"),
        ({"weight_decay": -0.1}, "weight_decay expects a number ≥ 0, got -0.1"),
        ({"weight_decay": None}, "weight_decay expects"),
        ({"family": "gamma", "masking": 1.0}, "masking expects a number from 0 to below 1"),
        ({"family": "gamma", "tau": "large"}, "tau expects a number above 0"),
        ({"tau": 0.0}, "tau expects"),
        ({"epsilon": 0.0}, "epsilon expects a number above 0"),
        ({"initial_variance": np.inf}, "initial_variance expects a number above 0"),
        ({"family": "gamma", "bias": 1}, "bias expects"),
        ({"binary": "yes"}, "binary expects True or False"),
        ({"family": "gamma", "kl_weight": -1.0}, "kl_weight expects"),
        ({"family": "gamma", "learning_rate": np.nan}, "learning_rate expects"),
        ({"spread_learning_rate": 0}, "spread_learning_rate expects"),
        ({"family": "gamma", "hidden": ()}, "hidden expects a tuple of layer sizes, at least one"),
        ({"family": "gamma", "hidden": (3.5,)}, "hidden expects a tuple"),
        ({"hidden": 5}, "hidden expects a tuple"),
        ({"family": "gamma", "max_epochs": 0}, "max_epochs expects a whole number from 1 to 100,000"),
        ({"family": "gamma", "batch_size": 2.5}, "batch_size expects a whole number from 1, or None"),
        ({"warm_up": -1}, "warm_up expects a whole number from 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        DocumentAutoencoder(**settings).fit(COUNTS)


def test_codes_of_another_size_or_sign_are_refused():
    model = DocumentAutoencoder("gamma", **FAST)
    with pytest.raises(NotFittedError):
        model.reconstruction(COUNTS)
    assert not hasattr(model, "components_")
    model.fit(COUNTS)
    with pytest.raises(ValueError, match="codes of 4 units, got 3"):
        model.inverse_transform(np.ones((2, 3)))
    with pytest.raises(ValueError, match="≥ 0, got -1"):
        model.inverse_transform(-np.ones((2, 4)))
