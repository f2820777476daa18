"""Adversarial training: rows are moved as far as asked, to where it hurts, and the network learns from there."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
import scipy.sparse
import torch
from npn_studies.baselines import BayesByBackprop, Classes, DarkKnowledge, DropoutNetwork, PlainNetwork, Settings
from npn_studies.baselines.dark_knowledge import Teacher
from npn_studies.baselines.rows import training_rows
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from torch.utils.data import DataLoader, TensorDataset

from torchnpn import NPNClassifier, nn
from torchnpn.likelihoods import GaussianNoise, ScaledSoftmax
from torchnpn.moments import Moments
from torchnpn.training import Recipe, constant, train
from torchnpn.training.adversarial import Adversary, adversarial_rows, step_along
from torchnpn.training.data import Batch

ROWS, FEATURES, CLASSES = 40, 5, 3


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def rows(seed=0):
    """Three clouds that overlap."""
    y = torch.randint(CLASSES, (ROWS,), generator=seeded(seed))
    return torch.randn(ROWS, FEATURES, generator=seeded(seed + 1)) + torch.eye(FEATURES)[y], y


def network(dropout=0.0, replicas=(), activation="relu"):
    return nn.mlp([FEATURES, 20, CLASSES], "gaussian", activation, dropout, replicas=replicas, generator=seeded())


@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1e-10, 1.0, 1e10, 1e30])
def test_a_step_has_the_length_that_is_asked_for_however_small_the_gradient(scale):
    g = torch.tensor([[3.0, 4.0], [-1.0, 0.0], [0.0, 0.0]]) * scale
    torch.testing.assert_close(step_along(g, 0.5).norm(dim=-1), torch.tensor([0.5, 0.5, 0.0]))
    torch.testing.assert_close(step_along(g, 0.5)[0], torch.tensor([0.3, 0.4]))


def test_the_worst_point_of_a_ball_for_a_linear_network():
    """(x·w - y)² is largest at x + r w/|w| or x - r w/|w|, on the side where the error already lies."""
    w, x, y = torch.tensor([3.0, -4.0]), torch.randn(6, 2, generator=seeded()), torch.randn(6, generator=seeded(1))
    found = adversarial_rows(lambda x: (x @ w - y) ** 2, x, 0.7)
    angles = torch.linspace(0, 2 * torch.pi, 721)
    around = x[:, None] + 0.7 * torch.stack([angles.cos(), angles.sin()], -1)
    worst = ((around @ w - y[:, None]) ** 2).amax(1)
    torch.testing.assert_close((found @ w - y) ** 2, worst, rtol=1e-4, atol=0)


@pytest.mark.parametrize("uncertain", [False, True])
def test_every_replica_has_an_adversary_of_its_own(uncertain):
    net, (x, y) = network(replicas=(2,)).train(), rows()
    given = Moments(x, torch.full_like(x, 0.1)) if uncertain else x
    likelihood = ScaledSoftmax(CLASSES)
    found = Adversary(net, likelihood, [0.1, 0.3])(Batch(given, y, None)).x
    mean = found.mean if uncertain else found
    length = (mean - x).norm(dim=-1)
    torch.testing.assert_close(length, torch.tensor([0.1, 0.3])[:, None].expand(2, ROWS))
    before = likelihood.loss(net(given), y)
    assert (likelihood.loss(net(found), y) > before).float().mean() > 0.95
    others = likelihood.loss(net(given._replace(mean=mean.flip(0)) if uncertain else mean.flip(0)), y)
    assert others.mean() < likelihood.loss(net(found), y).mean()


def test_the_adversary_sees_no_dropout_and_leaves_the_network_as_it_was():
    net, (x, y) = network(dropout=0.5).train(), rows()
    without = network()
    without.load_state_dict({f"{2 * (int(k[0]) > 0)}{k[1:]}": v for k, v in net.state_dict().items()})
    attacks = [Adversary(one, ScaledSoftmax(CLASSES), 0.3)(Batch(x, y, None)).x for one in (net, net, without)]
    assert torch.equal(attacks[0], attacks[1])
    torch.testing.assert_close(attacks[0], attacks[2])
    assert all(module.training for module in net.modules())
    Adversary(net.eval(), ScaledSoftmax(CLASSES), 0.3)(Batch(x, y, None))
    assert not any(module.training for module in net.modules())
    assert all(p.grad is None for p in net.parameters())


@pytest.mark.parametrize("activation", ["relu", "tanh"])  # small networks of the former have numpy's gradients
@pytest.mark.parametrize("source", ["arrays", "uncertain", "loader"])
def test_a_step_is_taken_at_the_moved_rows(source, activation):
    """One batch of all rows, one step of torch's Adam on the textbook's loss."""
    net, x = network(activation=activation), rows()[0]
    by_hand, likelihood = copy.deepcopy(net), GaussianNoise(CLASSES)
    target = torch.randn(ROWS, CLASSES, generator=seeded(3))
    variance = torch.rand(ROWS, FEATURES, generator=seeded(4)) if source == "uncertain" else None
    data = (
        DataLoader(TensorDataset(x, target), batch_size=ROWS) if source == "loader" else (Moments(x, variance), target)
    )
    settings = Recipe(epochs=1, batch_size=ROWS, learning_rate=0.01, kl_weight=constant(0.0), adversarial=0.4)
    noise = copy.deepcopy(likelihood)
    train(net, data, likelihood, None, settings, device="cpu")
    at = x.clone().requires_grad_()
    noise.loss(by_hand(Moments(at, variance)), target).sum().backward()
    there = x + 0.4 * torch.nn.functional.normalize(at.grad, dim=-1)
    optimizer = torch.optim.Adam([*by_hand.parameters(), *noise.parameters()], 0.01, betas=(0.9, 0.99))
    optimizer.zero_grad()
    noise.loss(by_hand(Moments(there, variance)), target).mean().backward()
    optimizer.step()
    for got, want in zip(net.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=2e-5)


def test_what_was_trained_with_an_adversary_withstands_one():
    (x, y), likelihood = rows(), ScaledSoftmax(CLASSES)
    losses = []
    for radius in (0.0, 0.5):
        net = network()
        train(net, (x, y), likelihood, None, Recipe(epochs=200, learning_rate=0.01, adversarial=radius), device="cpu")
        worst = Adversary(net, likelihood, 0.5)(Batch(x, y, None))
        losses.append(likelihood.loss(net.eval()(worst.x), y).mean().item())
    assert losses[1] < 0.8 * losses[0], losses


LONG = Settings(hidden=(20,), epochs=200, learning_rate=0.01)
BASELINES = {
    "plain": PlainNetwork(Classes(CLASSES), LONG),
    "dropout": DropoutNetwork(Classes(CLASSES), LONG, rate=0.1),
    "bayes by backprop": BayesByBackprop(Classes(CLASSES), LONG, kl_weight=0.01, initial_std=0.01, samples=5),
}


@pytest.mark.parametrize("radius", [-1.0, float("inf"), float("nan")])
@pytest.mark.parametrize("kind", [PlainNetwork, DropoutNetwork, BayesByBackprop, DarkKnowledge])
def test_a_baseline_refuses_a_distance_that_is_none(kind, radius):
    x, y = rows()
    with pytest.raises(ValueError, match=f"adversarial expects numbers ≥ 0 and finite, got {radius}"):
        kind(Classes(CLASSES), LONG, adversarial=radius).fit(x, y)


@pytest.mark.slow
@pytest.mark.parametrize("baseline", BASELINES.values(), ids=BASELINES)
def test_a_baseline_trained_with_an_adversary_withstands_one(baseline):
    """The adversary of another network, which is as bad for this one."""
    x, y = rows()
    other = DropoutNetwork(Classes(CLASSES), LONG, rate=0.0).fit(x, y).network
    worst = adversarial_rows(lambda x: other.loss(x, y), x[None], 0.5)[0]
    losses = []
    for radius in (0.0, 0.5):
        predicted = dataclasses.replace(baseline, adversarial=radius).fit(x, y).predict(worst)
        losses.append(-float(predicted.log_prob(y).mean()))
    assert losses[1] < 0.8 * losses[0], losses


def test_a_teacher_steps_by_the_gradient_at_rows_moved_against_it():
    x, y = rows()
    task, everything = Classes(CLASSES), torch.arange(ROWS)[None]

    def teacher(x, radius=0.0):
        torch.manual_seed(0)  # of the first weights
        return Teacher(training_rows(x, y, task, "cpu"), task, LONG, 1e-3, 1.0, radius)

    with torch.random.fork_rng():
        moved = adversarial_rows(lambda at: teacher(x).network.loss(at, y), x[None], 0.5)[0]
        teachers = teacher(x, 0.5), teacher(moved), teacher(x)
        for one in teachers:
            torch.manual_seed(1)  # of the step's noise
            one.step(everything)
    opposed, by_hand, unopposed = (one.parameters for one in teachers)
    for got, want in zip(opposed, by_hand, strict=True):
        torch.testing.assert_close(got, want)
    assert not torch.allclose(opposed[0], unopposed[0], atol=1e-5)


def test_a_radius_of_zero_is_no_adversary():
    """All rows in each step, so that their order does not matter."""
    x, y = (part.expand(3, *part.shape) for part in rows())
    settings = Settings(hidden=(6,), epochs=5, batch_size=ROWS)
    plain = PlainNetwork(Classes(CLASSES), settings).fit(x, y).predict(x).probs
    mixed = PlainNetwork(Classes(CLASSES), settings, adversarial=(0.0, 0.5, 0.0)).fit(x, y).predict(x).probs
    torch.testing.assert_close(mixed[[0, 2]], plain[[0, 2]])
    assert not torch.allclose(mixed[1], plain[1], rtol=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"n_estimators": 2}], ids=str)
def test_a_classifier_learns_digits_better_against_an_adversary(settings):
    """Every third of scikit-learn's digits to learn from; pixels in standard deviations. Also with partial_fit."""
    x, y = load_digits(return_X_y=True)
    losses = []
    for radius in (0.0, 1.0):
        model = NPNClassifier(adversarial=radius, max_epochs=100, effort="quick", random_state=0, **settings).fit(
            x[::3], y[::3]
        )
        losses.append(log_loss(y[1::3], model.predict_proba(x[1::3])))
    assert losses[1] < 2 / 3 * losses[0]
    more = [
        NPNClassifier(adversarial=radius, random_state=0, **settings).partial_fit(x[:200], y[:200], classes=range(10))
        for radius in (0.0, 1.0)
    ]
    assert not np.allclose(*(model.predict_proba(x[:5]) for model in more), rtol=1e-2)
    with pytest.raises(ValueError, match="adversarial expects a number from 0 to 1e6, got -1"):
        NPNClassifier(adversarial=-1).fit(x[:20], y[:20])


def test_what_cannot_be_is_refused_in_words():
    x, y = rows()
    with pytest.raises(ValueError, match="adversarial ≥ 0 and finite, got -1"):
        Recipe(adversarial=-1.0)
    with pytest.raises(ValueError, match="finite, got inf"):
        Recipe(adversarial=float("inf"))
    with pytest.raises(ValueError, match=r"one adversarial radius, or 1, one for each replica of the network, got \(2"):
        train(network(), (x, y), ScaledSoftmax(CLASSES), None, Recipe(adversarial=[0.1, 0.2]), device="cpu")
    sparse = scipy.sparse.csr_matrix(x.numpy())
    for net in (network(), network(activation="tanh")):  # a small one, which would not mind, and another
        with pytest.raises(ValueError, match="needs dense inputs"):
            train(net, (sparse, y), ScaledSoftmax(CLASSES), None, Recipe(adversarial=0.1), device="cpu")
