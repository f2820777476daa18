"""The classifier and the autoencoder: labels of any type, uncertainty that means something, codes with a variance."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import scipy.stats
from sklearn.datasets import load_digits, load_iris
from sklearn.multioutput import MultiOutputClassifier

import torchnpn as npn
from torchnpn import NPNAutoencoder, NPNClassifier

# Classes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [["no", "yes", "maybe"], [7, -1, 3], [0.0, 1.0, 2.0]], ids=str)
def test_classes_of_any_type(labels):
    features, numbers = load_iris(return_X_y=True)
    y = np.array(labels)[numbers]
    model = NPNClassifier(max_epochs=60, random_state=0, effort="quick").fit(features, y)
    assert model.classes_.tolist() == sorted(labels)
    assert model.score(features, y) > 0.93
    probs = model.predict_proba(features)
    np.testing.assert_allclose(probs.sum(1), 1)
    np.testing.assert_array_equal(model.classes_[probs.argmax(1)], model.predict(features))
    np.testing.assert_allclose(model.predict_log_proba(features), np.log(probs))
    own = probs[np.arange(150), np.searchsorted(model.classes_, y)]
    np.testing.assert_allclose(model.log_likelihood(features, y), np.log(own))
    total, epistemic, aleatoric = model.predict_variance(features)
    np.testing.assert_allclose(total, probs * (1 - probs), rtol=1e-6)
    np.testing.assert_allclose(total, epistemic + aleatoric, rtol=1e-6)
    distribution = model.predict_dist(features)
    np.testing.assert_allclose(distribution.entropy, scipy.stats.entropy(probs, axis=1), rtol=1e-6)
    assert distribution.log_prob(np.full(150, model.classes_[0]))[0] == pytest.approx(np.log(probs[0, 0]))


def test_classifier_knows_which_digits_are_hard():
    features, y = load_digits(return_X_y=True)
    model = NPNClassifier(max_epochs=60, random_state=0, effort="quick").fit(features[:900], y[:900])
    right = model.predict(features[900:]) == y[900:]
    doubt = model.predict_dist(features[900:]).entropy
    assert right.mean() > 0.9
    groups = npn.metrics.accuracy_by_uncertainty(right, doubt, groups=3).accuracy
    assert groups[0] > 0.98 and groups[2] < groups[0] - 0.1


def test_classifier_streams():
    features, y = load_iris(return_X_y=True)
    model = NPNClassifier(random_state=0, learning_rate=0.02)
    with pytest.raises(ValueError, match="classes="):
        model.partial_fit(features, y)
    for _ in range(100):
        model.partial_fit(features, y, classes=[0, 1, 2])
    assert model.score(features, y) > 0.93
    with pytest.raises(ValueError, match="labels among"):
        model.partial_fit(features, y + 5)
    with pytest.raises(ValueError, match="first call"):
        model.partial_fit(features, y, classes=[0, 1])


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="one class"):
        NPNClassifier(effort="quick").fit(np.ones((9, 2)), np.zeros(9))


# Autoencoder -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_autoencoder_reconstructs_what_went_in():
    rng = np.random.default_rng(1)
    rows = np.tanh(rng.normal(size=(400, 2)) @ rng.normal(size=(2, 10))) + 0.02 * rng.normal(size=(400, 10)) + 5
    model = NPNAutoencoder(hidden=(20, 2), learning_rate=1e-2, batch_size=100, max_epochs=150, random_state=0).fit(rows)
    code = model.transform_dist(rows)
    assert isinstance(code, npn.estimators.ArrayMoments)
    assert code.mean.shape == code.variance.shape == (400, 2)
    assert (code.variance > 0).all()
    np.testing.assert_allclose(model.transform(rows), code.mean, rtol=1e-9)
    back = model.inverse_transform(code.mean)
    assert 1 - ((back - rows) ** 2).mean() / rows.var(0).mean() > 0.8
    assert model.get_feature_names_out().tolist() == ["npnautoencoder0", "npnautoencoder1"]
    assert model.score(rows) > model.score(rows + 3 * rng.normal(size=rows.shape))
    noisy = model.transform_dist(rows, X_variance=0.05)
    assert (noisy.variance.mean(0) > code.variance.mean(0)).all()


def test_autoencoder_takes_sparse_rows():
    rows = scipy.sparse.random(60, 25, density=0.2, random_state=0, format="csr")
    model = NPNAutoencoder(hidden=(6, 3), max_epochs=3, random_state=0).fit(rows)
    np.testing.assert_allclose(model.transform(rows), model.transform(rows.toarray()), rtol=1e-4, atol=1e-6)
    assert model.score_samples(rows).shape == (60,)


def test_rows_of_a_frame_are_scored_by_their_names():
    """Without scikit-learn's warning that X has no names, which pytest would make an error."""
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 3)), columns=list("abc"))
    model = npn.NPNAutoencoder(hidden=(4,), max_epochs=2, random_state=0).fit(frame)
    assert model.score_samples(frame).shape == (30,)


def test_several_labels_at_once_by_scikit_learn():
    features, numbers = load_iris(return_X_y=True)
    labels = np.column_stack([numbers == 0, numbers == 2]).astype(int)
    model = MultiOutputClassifier(NPNClassifier(max_epochs=30, random_state=0, effort="quick")).fit(features, labels)
    assert (model.predict(features) == labels).mean() > 0.9
