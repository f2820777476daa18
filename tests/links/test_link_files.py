"""Model files of LinkPredictor: the same scores to the bit, and refusal of what was made up."""

from __future__ import annotations

import json

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch
from sklearn.exceptions import NotFittedError

import torchnpn as npn
from torchnpn import LinkPredictor, io
from torchnpn.io import ModelFileError
from torchnpn.links.features import FEATURES, NORMALISATIONS, uncertain_products

RNG = np.random.default_rng(0)
CODES = npn.Moments(
    np.repeat(np.eye(3), 20, axis=0) + RNG.normal(scale=0.2, size=(60, 3)), RNG.gamma(2.0, 0.02, size=(60, 3))
)
LINKS = np.array([(i, j) for i in range(60) for j in range(i) if i // 20 == j // 20 and RNG.random() < 0.3])
PAIRS = [(0, 1), (0, 59), (30, 31), (59, 7)]


def fitted(codes=CODES, **settings) -> LinkPredictor:
    return LinkPredictor(**{"negatives": 300, "random_state": 0, **settings}).fit(codes, LINKS, nodes=np.arange(55))


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@pytest.mark.parametrize("features", FEATURES)
def test_all_of_it_comes_back(features, normalisation, tmp_path):
    model = fitted(features=features, normalisation=normalisation)
    npn.save(model, tmp_path / "links.npn")
    loaded = npn.load(tmp_path / "links.npn")
    assert type(loaded) is LinkPredictor and loaded.get_params() == model.get_params()
    assert (loaded.intercept_, loaded.precision_, loaded.pairs_) == (model.intercept_, model.precision_, model.pairs_)
    np.testing.assert_array_equal(loaded.coef_, model.coef_, strict=True)
    np.testing.assert_allclose(loaded.predict_proba(PAIRS), model.predict_proba(PAIRS), rtol=1e-9)
    for one, other in zip(loaded.decision_moments(PAIRS), model.decision_moments(PAIRS), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    scores = [one.scores(range(60), range(40)) for one in (loaded, model)]
    np.testing.assert_allclose(*scores, rtol=1e-5)
    assert io.describe(tmp_path / "links.npn")["type"] == "LinkPredictor"


def of_covariances(**settings) -> LinkPredictor:
    root = np.random.default_rng(1).normal(scale=0.2, size=(60, 3, 3))
    codes = CODES.mean, root @ root.swapaxes(1, 2)
    return LinkPredictor("joint", negatives=300, random_state=0, **settings).fit(codes, LINKS)


def test_covariances_come_back(tmp_path):
    npn.save(model := of_covariances(), tmp_path / "links.npn")
    loaded = npn.load(tmp_path / "links.npn")
    np.testing.assert_allclose(loaded.scores(range(60), range(40)), model.scores(range(60), range(40)), rtol=1e-5)
    np.testing.assert_allclose(loaded.predict_proba(PAIRS), model.predict_proba(PAIRS), rtol=1e-9)


def test_of_a_function_the_name_comes_back(tmp_path):
    model = fitted(features=uncertain_products)
    npn.save(model, tmp_path / "links.npn")
    loaded = npn.load(tmp_path / "links.npn")
    assert loaded.features == "uncertain_products"
    np.testing.assert_allclose(loaded.predict_proba(PAIRS), model.predict_proba(PAIRS), rtol=1e-9)
    with pytest.raises(ValueError, match=r"features expects one of .* or a function, got 'uncertain_products'"):
        loaded.fit(CODES, LINKS)


def test_settings_of_other_types_come_back(tmp_path):
    settings = {"negatives": np.float64(0.4), "precision": np.float32(2.0), "random_state": np.random.default_rng(1)}
    model = fitted(**settings)
    npn.save(model, tmp_path / "links.npn")
    loaded = npn.load(tmp_path / "links.npn")
    assert (loaded.negatives, loaded.precision, loaded.random_state) == (0.4, 2.0, None)
    np.testing.assert_allclose(loaded.predict_proba(PAIRS), model.predict_proba(PAIRS), rtol=1e-9)


def test_codes_that_are_multiplied_with_themselves_are_stored_once(tmp_path):
    npn.save(fitted(codes=CODES.mean), tmp_path / "links.npn")
    parameters = io.describe(tmp_path / "links.npn")["parameters"]
    assert parameters == 60 * 3 + 3 + 4 + 4 * 4  # codes, numbers of features, and the posterior's two moments


def test_an_unfitted_one_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        npn.save(LinkPredictor(), tmp_path / "links.npn")
    assert list(tmp_path.iterdir()) == []


def test_sums_that_were_a_setting_are_in_the_file(tmp_path):
    model = fitted(features=uncertain_products)
    npn.save(model, path := tmp_path / "links.npn")
    with safetensors.safe_open(path, "pt") as opened:
        document = json.loads(opened.metadata()["torchnpn"])
    document["object"]["plain"]["settings"] |= {"features": "products", "sums": True, "variance_scale": 2.0}
    io.file.write(path, document, safetensors.torch.load_file(path))
    loaded = npn.load(path)
    assert loaded.features == "products with sums"
    np.testing.assert_allclose(loaded.predict_proba(PAIRS), model.predict_proba(PAIRS), rtol=1e-9)
    npn.save(loaded, path)
    assert npn.load(path).get_params() == loaded.get_params()


def changed(name, change):
    return lambda plain, tensors: (plain, {**tensors, name: change(tensors[name])})


def setting(name, value):
    return lambda plain, tensors: ({**plain, "settings": {**plain["settings"], name: value}}, tensors)


def without(name):
    return lambda plain, tensors: (plain, {key: value for key, value in tensors.items() if key != name})


@pytest.mark.parametrize(
    "change",
    [
        setting("normalisation", "cosine similarity"),
        setting("features", "products"),
        setting("features", ["joint"]),
        setting("features", None),
        setting("negatives", 0),
        setting("precision", "large"),
        setting("more", 1),
        lambda plain, tensors: ({**plain, "precision": 0}, tensors),
        lambda plain, tensors: ({**plain, "precision": None}, tensors),
        lambda plain, tensors: ({**plain, "pairs": [3]}, tensors),
        lambda plain, tensors: ({**plain, "pairs": ["3", 4]}, tensors),
        lambda plain, tensors: ({**plain, "more": 1}, tensors),
        lambda plain, tensors: (plain, {**tensors, "more": torch.zeros(2)}),
        without("mean.left"),
        without("mean.feature"),
        without("variance.left"),
        without("posterior.mean"),
        changed("mean.left", lambda t: t[:, :2].contiguous()),
        changed("mean.left", lambda t: t[:0]),
        changed("mean.left", lambda t: t.double()),
        changed("mean.left", lambda t: torch.full_like(t, torch.inf)),
        changed("mean.left", lambda t: t.flatten()),
        changed("mean.feature", lambda t: t + 1),
        changed("mean.feature", lambda t: t - 1),
        changed("mean.feature", lambda t: torch.full_like(t, 2**62)),
        changed("mean.feature", lambda t: t.float()),
        changed("variance.left", lambda t: -t),
        changed("variance.left", lambda t: t[:30]),
        changed("posterior.mean", lambda t: t[:2]),
        changed("posterior.covariance", lambda t: -t),
        changed("posterior.covariance", lambda t: t[0]),
    ],
)
def test_a_file_that_was_made_up_is_refused(change, tmp_path):
    refused(fitted(features="joint"), change, tmp_path / "links.npn")


@pytest.mark.parametrize(
    "change",
    [
        without("variance.entries"),
        changed("variance.entries", lambda t: t[:2]),
        changed("variance.entries", lambda t: t - 1),
        changed("variance.entries", lambda t: t + 100),
        changed("variance.entries", lambda t: t.float()),
        changed("variance.left", lambda t: torch.full_like(t, torch.inf)),
    ],
)
def test_covariances_that_were_made_up_are_refused(change, tmp_path):
    refused(of_covariances(), change, tmp_path / "links.npn")


def refused(model: LinkPredictor, change, path) -> None:
    npn.save(model, path)
    with safetensors.safe_open(path, "pt") as opened:
        document = json.loads(opened.metadata()["torchnpn"])
    plain, tensors = change(document["object"]["plain"], safetensors.torch.load_file(path))
    document["object"]["plain"] = plain
    io.file.write(path, document, tensors)
    with pytest.raises(ModelFileError):
        npn.load(path)
