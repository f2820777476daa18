"""Autoencoders of documents: layers and start against formulas, odd documents, and codes that find topics."""

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from support.autoencoders import odd_documents
from torch.utils._python_dispatch import TorchDispatchMode

import torchnpn as npn
from torchnpn import maps, nn
from torchnpn.documents import DocumentAutoencoder, checked_counts, row_max, row_sum
from torchnpn.documents.counts import word_means
from torchnpn.documents.layers import Masking, WordLinear, as_words
from torchnpn.documents.schedule import adam_with_own_rates, share_of_rate, warm_cosine
from torchnpn.moments import Moments
from torchnpn.training import Recipe
from torchnpn.training.data import as_batches
from torchnpn.training.engine import device_engine
from torchnpn.training.wide import weighted_loss

PRESENT = {info.name for info in npn.datasets.available() if info.present}
SMALL = {"hidden": (8, 4), "max_epochs": 2, "batch_size": 16, "device": "cpu", "random_state": 0}
FAMILIES = {family: DocumentAutoencoder(family, **SMALL) for family in ("gaussian", "gamma", "poisson")}
GAUSSIAN, GAMMA, POISSON = FAMILIES.values()


def replace(model, **settings):
    """The same with other settings."""
    return clone(model).set_params(**settings)


KL_MAP = replace(POISSON, activation="saturating_kl")


def started(model, counts):
    """The network before training, and what it learns from."""
    architecture = model._architecture
    x, y = architecture.inputs(counts), architecture.targets(counts)
    return architecture.network(x, word_means(y), model._chosen("initial_variance"), 0), x, y


def communities(seed=0, documents=300, terms=240, topics=4, length=20):
    """Counts of documents about one of several topics, each with words of its own besides those all share."""
    rng = np.random.default_rng(seed)
    words = rng.gamma(0.3, size=(topics, terms)) + 0.3 * rng.gamma(0.3, size=terms)
    words /= words.sum(1, keepdims=True)
    topic = rng.integers(0, topics, documents)
    lengths = rng.poisson(length, documents) + 1
    counts = np.stack([rng.multinomial(n, words[t]) for n, t in zip(lengths, topic, strict=True)])
    return scipy.sparse.csr_matrix(counts.astype(np.float32)), topic


def outputs(shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(shape, generator=generator, dtype=torch.float64) * scale + 0.05 for scale in (3.0, 2.0))


# Layers ----------------------------------------------------------------------------------------------------------


def test_masking_keeps_the_mean_and_absent_words_absent():
    counts, _ = communities(documents=3)
    masking, words = Masking(0.7), as_words(counts)
    torch.manual_seed(0)
    drawn = torch.stack([masking(words).values for _ in range(4000)])
    mean, error = drawn.mean(0), words.values * np.sqrt(0.7 / 0.3 / 4000)
    assert ((mean - words.values).abs() <= 5 * error).all()
    assert set(np.unique((drawn / words.values.clamp_min(1)).round(decimals=4))) == {0.0, np.float32(3.3333)}
    assert torch.equal(masking.eval()(counts).values, words.values)


@pytest.mark.parametrize("family", ["gaussian", "gamma"])
@pytest.mark.parametrize("p", [0.0, 0.5])
@pytest.mark.parametrize("bias", [False, True])
def test_the_first_layer_is_a_dense_one_with_uncertain_inputs(family, p, bias):
    counts, _ = communities(documents=5)
    layer = WordLinear(counts.shape[1], 6, input_noise=p, family=family, bias=bias)
    x = torch.from_numpy(counts.toarray())
    biases = None if layer.bias is None else layer.bias.moments
    expected = maps.linear(Moments(x, p / (1 - p) * x**2), layer.weight.moments, biases)
    torch.testing.assert_close(layer(as_words(counts)), expected, rtol=1e-4, atol=1e-5)


def test_neurons_of_the_kl_map():
    m, s = (part.numpy() for part in outputs((50,)))
    rate = 0.25 * (2 * m - 1 + np.sqrt((2 * m - 1) ** 2 + 8 * s))
    mean = 1 - np.exp(rate * np.expm1(-0.3))
    variance = np.exp(rate * np.expm1(-0.6)) - (1 - mean) ** 2
    a = nn.SaturatingKL(0.3)(Moments(torch.from_numpy(m), torch.from_numpy(s)))
    np.testing.assert_allclose(a.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(a.variance, variance, rtol=1e-9)


def test_gamma_without_activation_and_biases_factorises_the_matrix():
    counts, _ = communities(documents=40)
    settings = replace(GAMMA, activation="identity", bias=False, loss="l2")
    encoder = replace(settings, hidden=(6,)).fit(counts)
    scaled = row_sum(checked_counts(counts))
    with torch.no_grad():
        W1, W2 = (m.weight.moments.mean.double().numpy() for m in encoder.network_ if isinstance(m, nn.Linear))
        found = encoder.network_(scaled).mean
    assert (W1 > 0).all() and (W2 > 0).all()
    x = scaled.toarray().astype(np.float64)
    np.testing.assert_allclose(found, x @ W1.T @ W2.T, rtol=1e-4)
    np.testing.assert_allclose(encoder.transform_dist(counts).mean @ encoder.components_, x @ W1.T @ W2.T, rtol=1e-4)


# Start -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [*FAMILIES.values(), KL_MAP, replace(GAMMA, loss="gamma")], ids=str)
def test_every_word_starts_near_its_mean(settings):
    counts, _ = communities(documents=200)
    network, x, y = started(settings, counts)
    network.eval()
    with torch.no_grad():
        o = network(x)
    link = {"gaussian": torch.sigmoid, "gamma": lambda o: -torch.expm1(-o), "poisson": lambda o: o}[settings.family]
    found = o.mean - settings.epsilon if settings.loss == "gamma" else link(o.mean)
    if settings.family == "gaussian":
        np.testing.assert_allclose(network[-1].bias.free[0].sigmoid().detach(), word_means(y), rtol=1e-5)
    else:
        np.testing.assert_allclose(found.mean(0), word_means(y), rtol=0.05)


def test_variances_have_a_rate_of_their_own():
    network, _, _ = started(GAUSSIAN, communities(documents=9)[0])
    optimizer = adam_with_own_rates(network, 0.5, 0.1)(network.parameters(), 0.25)
    rates = {id(p): (group["lr"], group["weight_decay"]) for group in optimizer.param_groups for p in group["params"]}
    for name, parameter in network.named_parameters():
        assert rates[id(parameter)] == ((0.5, 0.0) if name.endswith("log_std") else (0.25, 0.1))


def test_rates_rise_and_fall():
    rates = [share_of_rate(t, warm_up=10, steps=100) for t in range(101)]
    assert np.argmax(rates) in range(9, 12) and rates[100] == pytest.approx(0.0)
    np.testing.assert_allclose(rates[4], 5 / 11 * 0.5 * (1 + np.cos(np.pi * 0.04)))
    np.testing.assert_allclose(rates[50], 0.5)


# Data ------------------------------------------------------------------------------------------------------------


def test_documents_are_scaled_each_by_itself():
    counts = scipy.sparse.csr_matrix([[2.0, 4.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 2.0]])
    np.testing.assert_allclose(row_max(counts).toarray(), [[0.5, 1, 0], [0, 0, 0], [0.5, 0.5, 1]])
    np.testing.assert_allclose(row_sum(counts).toarray(), [[10 / 3, 20 / 3, 0], [0, 0, 0], [2.5, 2.5, 5]], rtol=1e-6)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([[1.0, -1.0]], "≥ 0, got -1"),
        ([[0.5, 1.0]], "whole numbers"),
        ([[np.inf, 1.0]], "finite"),
        ([[np.nan, 1.0]], "finite"),
        ([1.0, 2.0], "1 dimensions"),
        (np.empty((0, 3)), "at least one document"),
    ],
)
def test_what_is_no_counts_is_refused(counts, message):
    with pytest.raises(ValueError, match=message):
        checked_counts(np.array(counts), whole=True)


def test_shares_of_words_will_do_where_the_loss_is_no_density():
    shares = scipy.sparse.csr_matrix(communities(documents=20)[0] / 7)
    assert np.isfinite(clone(GAMMA).fit(shares).transform_dist(shares).mean).all()


def test_other_words_than_those_fitted_on_are_refused():
    counts, _ = communities(documents=20)
    encoder = clone(GAUSSIAN).fit(counts)
    with pytest.raises(ValueError, match="X has 100 features, but DocumentAutoencoder is expecting 240"):
        encoder.transform(counts[:, :100])


@pytest.mark.parametrize("settings", [*FAMILIES.values(), KL_MAP], ids=lambda s: f"{s.family}-{s.activation}")
@pytest.mark.parametrize("case", ["empty documents", "all empty", "a word that never occurs", "wide"])
def test_odd_documents_have_finite_codes(settings, case):
    counts = odd_documents(communities(documents=20)[0], case)
    encoder = replace(settings, max_epochs=1).fit(counts)
    code, reconstructed = encoder.transform_dist(counts), encoder.reconstruction(counts[:2])
    for part in (code.mean, code.variance, *reconstructed):
        assert np.isfinite(part).all()
    assert code.mean.shape == code.variance.shape == (counts.shape[0], 4)
    assert (code.variance >= 0).all() and (reconstructed.variance > 0).all()


def test_a_code_with_the_noise_of_masking_is_the_mean_over_masks():
    """Against masks drawn one by one, for weights that are all but certain: mean and variance of the code."""
    p, draws, generator = 0.5, 4_000, np.random.default_rng(0)
    counts = scipy.sparse.csr_matrix(generator.poisson(1.0, size=(12, 80)).astype(np.float64))
    settings = replace(GAUSSIAN, hidden=(5,), masking=p, input_noise=0.0, initial_variance=1e-8, max_epochs=1)
    encoder = replace(settings, spread_learning_rate=1e-6, kl_weight=0.0).fit(counts)
    plain = encoder.transform_dist(counts)
    rows = np.repeat(settings._architecture.inputs(checked_counts(counts)).toarray(), draws, axis=0)
    masked = scipy.sparse.csr_matrix(rows * (generator.random(rows.shape) >= p) / (1 - p))
    with torch.no_grad():
        drawn = encoder._code(encoder.network_, as_words(masked)).mean.reshape(12, draws, 5)
    code = encoder.set_params(encoding_noise=p).transform_dist(counts)
    np.testing.assert_allclose(code.mean, drawn.mean(1), atol=0.03)
    np.testing.assert_allclose(code.variance, drawn.var(1), atol=0.03)
    assert np.abs(plain.mean - drawn.mean(1).numpy()).max() > 0.1  # what a whole document gives is something else


# Training --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", FAMILIES.values(), ids=FAMILIES)
def test_sparse_or_dense_the_same_seed_gives_the_same_codes(settings):
    counts, _ = communities(documents=30)
    first, second = (
        clone(settings).fit(counts).transform_dist(counts),
        clone(settings).fit(counts.toarray()).transform_dist(counts.toarray()),
    )
    np.testing.assert_allclose(first.mean, second.mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(first.variance, second.variance, rtol=1e-4, atol=1e-7)
    other = replace(settings, random_state=1).fit(counts).transform_dist(counts)
    assert np.abs(other.mean - first.mean).max() > 1e-3


@pytest.mark.slow
def test_a_learnt_prior_leaves_rare_words_uncertain():
    """Of a weight's second moment m² + s, the share s: large for words that are hardly ever seen."""
    counts, _ = communities(documents=300)
    settings = replace(GAUSSIAN, masking=0.5, input_noise=0.0, kl_weight=0.1, learning_rate=0.01, max_epochs=20)
    encoder = replace(settings, prior_precision="evidence", batch_size=32, device="cpu").fit(counts)
    m, s = (part.detach().numpy() for part in encoder.network_[1].weight.moments)
    share, seen = (s / (m**2 + s)).mean(0), np.asarray((counts > 0).sum(0)).ravel()
    rare, common = share[seen <= 3].mean(), share[seen >= 60].mean()
    assert rare > 0.92 > 0.5 > common  # .94 and .37; .89 with a precision of 10


class NoWaiting(TorchDispatchMode):
    """Fails for what would make a host wait for a device."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.__name__
        assert not name.startswith(("_local_scalar_dense", "nonzero", "masked_select", "unique")), name
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("settings", [*FAMILIES.values(), KL_MAP], ids=lambda s: f"{s.family}-{s.activation}")
def test_a_step_never_makes_the_host_wait(settings, monkeypatch):
    for look in ("is_finite", "are_finite", "is_moderate"):  # which only numbers on a CPU are given
        monkeypatch.setattr(f"torchnpn.maps.careful_linear.{look}", lambda *_: True)
    counts, _ = communities(documents=16)
    network, x, y = started(settings, counts)
    likelihood = settings._architecture.likelihood()
    rows = as_batches((x, y), torch.device("cpu")).with_gathering()
    numbers, share = torch.arange(16), torch.full((16,), 1 / 16)
    with NoWaiting():
        loss = weighted_loss(network, likelihood, rows.take(numbers), share)
        loss.total.backward()
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters() if parameter.grad is not None)


@pytest.mark.parametrize("settings", FAMILIES.values(), ids=FAMILIES)
def test_steps_that_a_graph_can_hold_learn_too(settings):
    counts, _ = communities(documents=64)
    network, x, y = started(settings, counts)
    recipe = Recipe(
        epochs=8,
        batch_size=16,
        learning_rate=0.03,
        optimizer=adam_with_own_rates(network, 0.01, 0.0),
        scheduler=warm_cosine(3),
    )
    training = device_engine(network, (x, y), settings._architecture.likelihood(), None, recipe)
    losses = [training.epoch(number)[0] for number in range(8)]
    assert losses[-1] < losses[0]


LOSSES = {"gaussian": ("bce", "gaussian", "l2")} | dict.fromkeys(
    ("gamma", "poisson"), ("bce", "gaussian", "gamma", "poisson", "l2")
)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "loss"), [(family, loss) for family in LOSSES for loss in LOSSES[family]])
def test_every_loss_falls(family, loss):
    counts, _ = communities(documents=60)
    settings = replace(FAMILIES[family], loss=loss, masking=0.0, learning_rate=0.03, max_epochs=6)
    losses = [epoch.loss for epoch in settings.fit(counts).history_.epochs]
    assert losses[-1] < losses[0] - 1e-3 * abs(losses[0])


def same_topic(code, topic):
    """AUC of the cosine of two centred codes for their documents having one topic."""
    z = code - code.mean(0)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    above = np.triu_indices(len(z), 1)
    return roc_auc_score((topic[:, None] == topic)[above], (z @ z.T)[above])


LEVELS = {"gaussian": (1e-2, 0.9), "gamma": (0.1, 0.9), "poisson": (0.1, 0.9), "kl": (0.1, 0.9)}  # rate, least AUC


@pytest.mark.slow
@pytest.mark.parametrize("name", LEVELS)
def test_codes_find_communities(name):
    counts, topic = communities()
    settings, (rate, least) = {**FAMILIES, "kl": KL_MAP}[name], LEVELS[name]
    settings = replace(settings, hidden=(20, 8), max_epochs=30, batch_size=32, learning_rate=rate, device="cpu")
    assert same_topic(settings.fit(counts).transform(counts), topic) > least


@pytest.mark.slow
def test_topics_are_the_words_of_communities():
    counts, topic = communities(topics=4)
    settings = replace(GAMMA, hidden=(4,), activation="identity", bias=False, loss="poisson", masking=0.3)
    encoder = replace(settings, max_epochs=40, batch_size=32, learning_rate=0.1, device="cpu").fit(counts)
    words = np.stack([np.asarray(counts[topic == t].mean(0)).ravel() for t in range(4)])
    topics = encoder.topics([str(word) for word in range(240)], words=5)
    own = [np.bincount([int(words[:, int(word)].argmax()) for word in five], minlength=4).max() for five in topics]
    assert own == [5, 5, 5, 5]  # the first words of a topic all belong to one community
    with pytest.raises(ValueError, match="vocabulary of 240"):
        encoder.topics(["word"])


@pytest.mark.slow
@pytest.mark.skipif("cora" not in PRESENT, reason="Cora is not here")
def test_codes_of_cora_know_its_links():
    documents = npn.datasets.load("cora")
    encoder = replace(GAUSSIAN, hidden=(100, 50), max_epochs=6, batch_size=64, learning_rate=1e-2).fit(documents.counts)
    z = encoder.transform(documents.counts)
    z = z - z.mean(0)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    others = np.random.default_rng(0).integers(0, len(z), documents.links.shape)
    scores = [(z[pairs[:, 0]] * z[pairs[:, 1]]).sum(1) for pairs in (documents.links, others)]
    assert roc_auc_score(np.repeat([1, 0], len(others)), np.concatenate(scores)) > 0.75
