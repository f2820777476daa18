"""Numbers of the wrong kind beside the rows, in settings and in place of likelihoods: an error in words."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from torchnpn import BayesianLogisticRegression, NPNAutoencoder, NPNClassifier, NPNRegressor, nn, train
from torchnpn.likelihoods import GaussianNoise

ODD_NUMBERS = {
    "beyond float64": 10**400,
    "complex": 1j,
    "text": "a",
    "object": object(),
    "dates": np.arange(20).astype("M8[D]"),
    "not known": pd.Series([pd.NA] * 20),
    "sparse tensor": torch.ones(20).to_sparse(),
    "tensor without values": torch.ones(20, device="meta"),
    "sparse matrix": scipy.sparse.csr_matrix(np.ones((20, 1))),
}


@pytest.mark.parametrize("odd", ODD_NUMBERS.values(), ids=ODD_NUMBERS)
def test_numbers_beside_the_rows_are_checked_in_words(odd):
    X = np.random.default_rng(0).normal(size=(20, 2))
    model = NPNRegressor(hidden=(3,), max_epochs=1, random_state=0).fit(X, X[:, 0])
    codes = NPNAutoencoder(hidden=(2,), max_epochs=1, random_state=0).fit(X)
    dist = model.predict_dist(X)
    classes = NPNClassifier(hidden=(3,), max_epochs=1, random_state=0).fit(X, X[:, 0] > 0).predict_dist(X)
    for call in (
        lambda: model.fit(X, X[:, 0], sample_weight=odd),
        lambda: model.predict(X, X_variance=odd),
        lambda: dist.log_prob(odd),
        lambda: dist.crps(odd),
        lambda: dist.quantile(odd),
        lambda: dist.interval(odd),
        lambda: dist.sample(odd),
        lambda: classes.log_prob([1] * 21),
        lambda: codes.inverse_transform(odd),
    ):
        with pytest.raises(ValueError, match="expects"):
            call()


def test_tensors_of_every_real_type_are_taken():
    X = torch.from_numpy(np.random.default_rng(0).normal(size=(20, 2))).bfloat16()
    model = NPNRegressor(hidden=(3,), max_epochs=1, random_state=0).fit(X, X[:, 0], sample_weight=X[:, 1].abs())
    for same in (X.float(), X.double(), X.clone().requires_grad_()):
        np.testing.assert_allclose(model.predict(same), model.predict(X))


@pytest.mark.parametrize("variance", [1e121, 1e300])
def test_logistic_regression_refuses_variances_that_overflow(variance):
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match="X_variance expects"):
        BayesianLogisticRegression().fit(X, X[:, 0] > 0, X_variance=variance)


@pytest.mark.parametrize("setting", ["precision", "tol"])
def test_logistic_settings_beyond_float64_are_refused_in_words(setting):
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match=f"{setting} expects"):
        BayesianLogisticRegression(**{setting: 10**400}).fit(X, X[:, 0] > 0)


@pytest.mark.parametrize("odd", [None, 0, "a", object()], ids=lambda odd: type(odd).__name__)
def test_train_names_what_is_no_likelihood_or_prior(odd):
    data = np.zeros((4, 2)), np.zeros((4, 1))
    with pytest.raises(TypeError, match="expects a likelihood"):
        train(nn.Linear(2, 1), data, odd)
    if odd is not None:
        with pytest.raises(TypeError, match="expects a prior"):
            train(nn.Linear(2, 1), data, GaussianNoise(1), odd)
