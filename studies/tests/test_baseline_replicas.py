"""Baselines along a leading dimension: each replica is the network it would be alone, with settings of its own."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from npn_studies.baselines import (
    BayesByBackprop,
    Classes,
    DarkKnowledge,
    DeepEnsemble,
    DropoutGrid,
    DropoutNetwork,
    GaussianPrior,
    HeteroscedasticRegression,
    MCDropout,
    PlainNetwork,
    ProbabilisticBackprop,
    Regression,
    ScaleMixturePrior,
    Settings,
    predictor,
    replica,
)
from npn_studies.baselines.adam import Adam
from npn_studies.baselines.dark_knowledge import Teacher
from npn_studies.baselines.rows import training_rows

SHORT = Settings(hidden=(6,), epochs=2, batch_size=16)
RATES = dataclasses.replace(SHORT, learning_rate=(1e-3, 1e-2, 1e-1), schedule="cosine")
NOISES, CLASSES = Regression((0.3, 0.5, 0.7)), Classes(3)
THREE = (0.0, 0.1, 0.2)
CASES = {
    "plain": PlainNetwork(NOISES, RATES, prior_precision=THREE),
    "plain classes": PlainNetwork(CLASSES, RATES),
    "dropout": DropoutNetwork(NOISES, RATES, rate=THREE, input_rate=THREE, prior_precision=THREE),
    "adversarial dropout": DropoutNetwork(CLASSES, SHORT, rate=THREE, adversarial=THREE),
    "mc dropout": MCDropout(DropoutNetwork(CLASSES, SHORT, rate=THREE), samples=4),
    "bbb gaussian": BayesByBackprop(NOISES, RATES, GaussianPrior((0.5, 1.0, 2.0)), samples=4),
    "bbb mixture": BayesByBackprop(
        CLASSES, SHORT, ScaleMixturePrior((0.2, 0.5, 0.8), (1.0, 1.0, 2.0), (0.1, 0.2, 0.3)), THREE, samples=4
    ),
    "adversarial bbb": BayesByBackprop(CLASSES, SHORT, kl_weight=0.1, samples=4, adversarial=THREE),
    "adversarial dark knowledge": DarkKnowledge(CLASSES, RATES, step_size=1e-2, adversarial=THREE),
    "dark knowledge": DarkKnowledge(NOISES, RATES, (1e-4, 1e-3, 1e-2), (1.0, 2.0, 3.0), THREE),
    "dark knowledge classes": DarkKnowledge(CLASSES, RATES, step_size=1e-2),
    "ensemble": DeepEnsemble(HeteroscedasticRegression(), RATES, members=4),
    "adversarial ensemble": DeepEnsemble(CLASSES, SHORT, members=4, adversarial=0.01),
    "learned noise": PlainNetwork(Regression(), SHORT),
    "pbp": ProbabilisticBackprop(SHORT),
}
SAMPLED = {"mc dropout", "bbb gaussian", "bbb mixture", "adversarial bbb", "ensemble", "adversarial ensemble"}


def rows(task, count=40, replicas=3):
    x = torch.randn(replicas, count, 3, generator=torch.Generator().manual_seed(1))
    return x, x.argmax(-1) if isinstance(task, Classes) else x[..., :1] - x[..., 1:2] ** 2


def task_of(baseline):
    return getattr(getattr(baseline, "network", baseline), "task", NOISES)


@pytest.mark.parametrize("name", CASES)
def test_answers_have_the_dimension_and_the_seed_repeats_them(name):
    baseline = CASES[name]
    x, y = rows(task_of(baseline))
    fitted, again = baseline.fit(x, y), baseline.fit(x, y)
    own, shared = fitted.predict(x[:, :9]), fitted.predict(x[0, :9])
    outputs = 3 if isinstance(task_of(baseline), Classes) else 1
    for part, same in zip(own, again.predict(x[:, :9]), strict=True):
        assert part.shape == (4 if name in SAMPLED else 1, 3, 9, outputs)
        assert torch.equal(part, same) and part.isfinite().all()
    assert own.log_prob(y[:, :9]).shape == (3, 9)
    for part, first in zip(replica(shared, 0), replica(own, 0), strict=True):
        torch.testing.assert_close(part, first)  # of its own rows and of the shared ones, which are the same
    assert not torch.allclose(shared[0][:, 1], own[0][:, 1])


@pytest.mark.parametrize("name", CASES)
def test_a_replica_learns_from_its_own_rows_alone(name):
    """Another target for replica 2: the first two stay as they were, to rounding."""
    baseline = CASES[name]
    x, y = rows(task_of(baseline))
    changed = y.clone()
    changed[2] = (y[2] + 1) % 3 if isinstance(task_of(baseline), Classes) else 3 - y[2]
    one, two = (baseline.fit(x, each).predict(x)[0] for each in (y, changed))
    torch.testing.assert_close(one[:, :2], two[:, :2])
    assert not torch.allclose(one[:, 2], two[:, 2], rtol=1e-3)


def test_rows_that_were_expanded_train_different_networks():
    x, y = rows(NOISES, replicas=1)
    fitted = DeepEnsemble(NOISES, SHORT, members=2).fit(x.expand(3, -1, -1), y.expand(3, -1, -1))
    means = fitted.predict(x[0]).member_means.flatten(0, 1)[..., 0]  # six networks
    assert torch.pdist(means).min() > 0


def test_a_rate_of_zero_is_a_plain_network():
    """All rows in each step, so that their order does not matter; the seed gives both the same first weights."""
    x, y = rows(NOISES)
    settings = dataclasses.replace(SHORT, batch_size=40, epochs=5)
    plain = PlainNetwork(NOISES, settings).fit(x, y).predict(x).mean
    dropped = DropoutNetwork(NOISES, settings, rate=(0.0, 0.3, 0.0), input_rate=(0.0, 0.3, 0.3)).fit(x, y)
    torch.testing.assert_close(dropped.predict(x).mean[0], plain[0])
    sampled = dropped.sampled(5).predict(x)
    spread = sampled.epistemic.flatten(1).amax(1)
    assert spread[0] < 1e-12 and spread[1] > 1e-3 and spread[2] > 1e-3
    assert not torch.allclose(dropped.predict(x).mean[1:], plain[1:], rtol=1e-2)


def test_a_learning_rate_of_zero_learns_nothing():
    x, y = rows(NOISES)
    settings = dataclasses.replace(SHORT, learning_rate=(0.0, 0.0, 1e-2))
    short, long = (
        PlainNetwork(NOISES, dataclasses.replace(settings, epochs=epochs)).fit(x, y).predict(x).mean
        for epochs in (1, 4)
    )
    assert torch.equal(short[:2], long[:2]) and not torch.allclose(short[2], long[2])


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_adam_is_torchs_for_each_replica(schedule):
    generator = torch.Generator().manual_seed(0)
    first, rates, steps = torch.randn(2, 3, 4, generator=generator, dtype=torch.float64), (1e-2, 3e-1), 6
    gradients = torch.randn(steps, 2, 3, 4, generator=generator, dtype=torch.float64)
    ours = first.clone()
    adam = Adam([ours], torch.tensor(rates, dtype=torch.float64).view(-1, 1, 1), steps, schedule)
    theirs = [first[k].clone().requires_grad_() for k in range(2)]
    optimizers = [torch.optim.Adam([p], lr) for p, lr in zip(theirs, rates, strict=True)]
    falls = [torch.optim.lr_scheduler.CosineAnnealingLR(one, steps) for one in optimizers]
    for gradient in gradients:
        adam.step([gradient])
        for k in range(2):
            theirs[k].grad = gradient[k]
            optimizers[k].step()
            if schedule == "cosine":
                falls[k].step()
    torch.testing.assert_close(ours, torch.stack(theirs).detach(), rtol=1e-9, atol=1e-12)


def linear_models(count=60):
    """Three linear models with their own noise and prior, and the exact posteriors of (weights, bias)."""
    generator = torch.Generator().manual_seed(3)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    noise_stds, precisions = (0.4, 0.7, 1.0), (1.0, 2.0, 30.0)
    mixing = torch.tensor([[1.0, 0.6, 0.0], [0.0, 0.8, 0.3], [0.0, 0.0, 1.0]], dtype=torch.float64)
    x = draw(3, count, 3) @ mixing
    y = x @ draw(3, 3, 1) + 0.4 + torch.tensor(noise_stds).double().view(3, 1, 1) * draw(3, count, 1)
    design = np.concatenate([x.numpy(), np.ones((3, count, 1))], -1)
    data = [d.T @ d / s**2 for d, s in zip(design, noise_stds, strict=True)]
    precision = np.stack([part + p * np.eye(4) for part, p in zip(data, precisions, strict=True)])
    pairs = zip(precision, design, y.numpy()[..., 0], noise_stds, strict=True)
    mean = np.stack([np.linalg.solve(total, d.T @ target / s**2) for total, d, target, s in pairs])
    return x, y, Regression(noise_stds), precisions, mean, precision


def test_each_penalty_makes_its_own_ridge_regression():
    x, y, task, precisions, mean, _ = linear_models()
    settings = Settings(hidden=(), epochs=2000, batch_size=60, learning_rate=(0.02, 0.03, 0.02), schedule="cosine")
    predicted = PlainNetwork(task, settings, prior_precision=precisions).fit(x, y).predict(x)
    expected = np.einsum("rni,ri->rn", x.numpy(), mean[:, :3]) + mean[:, 3:]
    np.testing.assert_allclose(predicted.mean[..., 0], expected, atol=1e-4)


@pytest.mark.slow
def test_bayes_by_backprop_finds_the_conjugate_posterior_of_each_replica():
    """As for one network: the means μ and the variances 1/Λ_ii; with a KL weight β, of the tempered posterior.

    Replica 2 has β = ½, and -log p + ½ KL is half of -2 log p + KL: its data count twice, as with noise variance ½σ².
    """
    x, y, task, precisions, _, _ = linear_models()
    betas = np.array([1.0, 1.0, 0.5])
    design = np.concatenate([x.numpy(), np.ones((3, 60, 1))], -1)
    data = np.einsum("rni,rnj->rij", design, design) / (betas * np.square(task.noise_std))[:, None, None]
    precision = data + np.array(precisions)[:, None, None] * np.eye(4)
    pull = np.einsum("rni,rn->ri", design, y.numpy()[..., 0]) / (betas * np.square(task.noise_std))[:, None]
    mean = np.linalg.solve(precision, pull[..., None])[..., 0]
    settings = Settings(hidden=(), epochs=2000, batch_size=60, learning_rate=2e-2, schedule="cosine")
    prior = GaussianPrior(tuple(p**-0.5 for p in precisions))
    fitted = BayesByBackprop(task, settings, prior, kl_weight=tuple(betas), samples=5_000).fit(x, y)
    probes = fitted.predict(torch.eye(4, dtype=torch.float64)[:, :3]).member_means[..., 0].numpy()  # w_i + b, and b
    drawn = probes @ np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [-1, -1, -1, 1]])
    np.testing.assert_allclose(drawn.mean(0), mean, atol=0.015)
    np.testing.assert_allclose(drawn.var(0), 1 / np.diagonal(precision, axis1=1, axis2=2), rtol=0.15)


@pytest.mark.slow
def test_teachers_of_all_replicas_are_draws_from_their_posteriors():
    """SGLD with all rows; the tolerances are about four Monte Carlo errors of the correlated chains."""
    x, y, task, precisions, mean, precision = linear_models()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        settings = Settings(hidden=(), epochs=8_000, batch_size=60)
        teacher = Teacher(training_rows(x, y, task, "cpu"), task, settings, (3e-4, 1e-3, 1e-3), precisions)
        everything, draws = torch.arange(60).expand(3, -1), []
        for _ in range(8_000):
            teacher.step(everything)
            draws.append(torch.cat([p.detach().flatten(1) for p in teacher.parameters], 1))
    drawn, covariance = torch.stack(draws[500:]).numpy(), np.linalg.inv(precision)
    stds = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    assert (np.abs(drawn.mean(0) - mean) < 0.4 * stds.max(1, keepdims=True)).all()
    np.testing.assert_allclose(drawn.var(0), stds**2, rtol=0.35)


def test_passes_in_pieces_are_the_same_passes(monkeypatch):
    x, y = rows(CLASSES)
    fitted = DeepEnsemble(CLASSES, SHORT, members=2).fit(x, y)
    whole = fitted.predict(x).member_probs
    monkeypatch.setattr(predictor, "_NUMBERS_AT_ONCE", 6 * 6 * 7)  # seven rows of six networks of six units
    torch.testing.assert_close(fitted.predict(x).member_probs, whole)
    pieces = MCDropout(DropoutNetwork(CLASSES, SHORT), samples=5).fit(x, y).predict(x)
    assert pieces.member_probs.shape == (5, 3, 40, 3) and pieces.member_probs.std(0).min() > 0


def test_a_grid_chooses_the_noise_of_each_replica():
    """Linear rows with two noises: each replica must find its own, and no dropout, which only adds noise."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 200, 2, generator=generator)
    y = x.sum(-1, keepdim=True) + torch.tensor([0.1, 1.0]).view(2, 1, 1) * torch.randn(2, 200, 1, generator=generator)
    settings = Settings(hidden=(), epochs=60, batch_size=32, learning_rate=0.05, schedule="cosine")
    chosen = DropoutGrid(settings, rates=(0.0, 0.3), noise_stds=(0.1, 1.0), samples=20).chosen(x, y)
    assert chosen.network.task.noise_std == (0.1, 1.0) and chosen.network.rate[0] == 0.0
    predicted = chosen.fit(x, y).predict(x)
    np.testing.assert_allclose(predicted.member_variances[0, :, 0, 0], [0.01, 1.0], rtol=1e-5)


@pytest.mark.parametrize(
    ("baseline", "name"),
    [
        (PlainNetwork(Regression(), dataclasses.replace(SHORT, learning_rate=(1e-3, 1e-2))), "learning_rate"),
        (PlainNetwork(Regression((0.1, 0.2)), SHORT), "noise_std"),
        (DropoutNetwork(Regression(), SHORT, rate=(0.1, 0.2)), "rate"),
        (BayesByBackprop(Regression(), SHORT, kl_weight=(0.1, 0.2)), "kl_weight"),
        (DeepEnsemble(Regression((0.1, 0.2, 0.3, 0.4)), SHORT, members=4), "noise_std"),
    ],
)
def test_a_tuple_of_another_length_is_refused(baseline, name):
    x, y = rows(NOISES)
    with pytest.raises(ValueError, match=f"{name} expects one number, or a tuple of 3, one for each replica"):
        baseline.fit(x, y)


def test_rows_to_predict_must_be_of_the_replicas():
    x, y = rows(NOISES)
    with pytest.raises(ValueError, match=r"\(3, rows, inputs\)"):
        CASES["plain"].fit(x, y).predict(x[:2])
    with pytest.raises(ValueError, match=r"expects x \(rows, inputs\), as fit got it"):
        CASES["learned noise"].fit(x[0], y[0]).predict(x[:1])
    with pytest.raises(ValueError, match=r"x\[None\]"):
        DropoutGrid(SHORT).chosen(x[0], y[0])
