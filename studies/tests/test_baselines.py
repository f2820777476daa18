"""Baselines: one interface, and known answers: conjugate posteriors, quadrature, sums written out in the test."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from npn_studies.baselines import (
    BayesByBackprop,
    Classes,
    DarkKnowledge,
    DeepEnsemble,
    DropoutNetwork,
    GaussianPrior,
    HeteroscedasticRegression,
    MCDropout,
    PlainNetwork,
    PredictedReal,
    ProbabilisticBackprop,
    Regression,
    ScaleMixturePrior,
    Settings,
)
from npn_studies.baselines.dark_knowledge import Teacher
from npn_studies.baselines.loop import batches
from npn_studies.baselines.rows import training_rows
from npn_studies.baselines.weight_priors import Drawn
from scipy import integrate, stats

SHORT = Settings(hidden=(6,), epochs=2, batch_size=16)


def every(task, settings):
    """All baselines that can do the task, by name."""
    dropped = DropoutNetwork(task, settings, rate=0.2, input_rate=0.1)
    found = {
        "plain": PlainNetwork(task, settings, prior_precision=0.1),
        "dropout": dropped,
        "mc dropout": MCDropout(dropped, samples=7),
        "bbb gaussian": BayesByBackprop(task, settings, GaussianPrior(), samples=7),
        "bbb mixture": BayesByBackprop(task, settings, ScaleMixturePrior(), samples=7),
        "ensemble": DeepEnsemble(task, settings, members=3),
        "adversarial ensemble": DeepEnsemble(task, settings, members=2, adversarial=0.01),
    }
    if not isinstance(task, HeteroscedasticRegression):
        found["dark knowledge"] = DarkKnowledge(task, settings)
    if isinstance(task, Regression):
        found["pbp"] = ProbabilisticBackprop(settings)
    return found


TASKS = {"known noise": Regression(0.5), "varying noise": HeteroscedasticRegression(), "classes": Classes(3)}
CASES = [
    pytest.param(baseline, task, id=f"{name}, {kind}")
    for kind, task in TASKS.items()
    for name, baseline in every(task, SHORT).items()
]


def rows(task, count=40, dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count, 3, generator=generator, dtype=dtype)
    if isinstance(task, Classes):
        return x, x.argmax(1)
    return x, x[:, :1] - 0.5 * x[:, 1:2] ** 2 + 0.3 * torch.randn(count, 1, generator=generator, dtype=dtype)


@pytest.mark.parametrize(("baseline", "task"), CASES)
def test_predictions_are_distributions_and_a_seed_repeats_them(baseline, task):
    x, y = rows(task)
    before = torch.get_rng_state()
    fitted = baseline.fit(x, y)
    first, again, anew = fitted.predict(x[:9]), fitted.predict(x[:9]), baseline.fit(x, y).predict(x[:9])
    assert torch.equal(before, torch.get_rng_state())
    for one, two, three in zip(first, again, anew, strict=True):
        assert torch.equal(one, two) and torch.equal(one, three) and one.dtype == torch.float32
        assert one.isfinite().all() and not one.requires_grad
    assert first.log_prob(y[:9]).shape == (9,)
    if isinstance(task, Classes):
        assert first.probs.shape == (9, 3) and (first.member_probs >= 0).all()
        torch.testing.assert_close(first.member_probs.sum(-1), torch.ones(first.member_probs.shape[:-1]))
    else:
        assert first.mean.shape == first.variance.shape == (9, 1) and (first.variance > 0).all()


@pytest.mark.parametrize(("baseline", "task"), CASES)
def test_another_seed_gives_another_network(baseline, task):
    x, y = rows(task)
    if isinstance(baseline, MCDropout):
        changed = dataclasses.replace(baseline, network=reseeded(baseline.network))
    else:
        changed = reseeded(baseline)
    assert not torch.equal(baseline.fit(x, y).predict(x)[0], changed.fit(x, y).predict(x)[0])


def reseeded(baseline):
    return dataclasses.replace(baseline, settings=dataclasses.replace(baseline.settings, seed=5))


LEARNING = Settings(hidden=(20,), epochs=40, batch_size=40, learning_rate=2e-2, schedule="cosine")


@pytest.mark.slow
@pytest.mark.parametrize("kind", TASKS)
def test_training_beats_the_answer_that_ignores_x(kind):
    task = TASKS[kind]
    x, y = rows(task, 200)
    shares = torch.bincount(y) / len(y) if kind == "classes" else None
    constant = shares[y].log().mean() if kind == "classes" else -0.5 * math.log(2 * math.pi * math.e * y.var().item())
    for name, baseline in every(task, LEARNING).items():
        if name == "pbp":
            baseline = ProbabilisticBackprop(dataclasses.replace(LEARNING, epochs=4))
        if name == "dark knowledge":
            baseline = dataclasses.replace(baseline, step_size=1e-3)
        assert baseline.fit(x, y).predict(x).log_prob(y).mean() > constant + 0.1, name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bbb gaussian", "dark knowledge", "pbp"])
def test_more_rows_leave_less_variance(name):
    """As many steps for each, of ten rows; asked at rows that both have seen."""
    x, y = rows(Regression(), 160)

    def variance(count):
        epochs = 3 if name == "pbp" else 6400 // count
        settings = dataclasses.replace(LEARNING, epochs=epochs, batch_size=10)
        baseline = every(Regression(0.5), settings)[name]
        if name == "dark knowledge":
            baseline = dataclasses.replace(baseline, step_size=1e-3)
        return baseline.fit(x[:count], y[:count]).predict(x[:10]).variance.mean()

    assert variance(160) < variance(10)


def linear_model():
    """Rows of a linear model with known noise, and the exact posterior of (weights, bias) under N(0, 1/λ)."""
    x, _ = rows(Regression(), 60, torch.float64)
    x = x @ torch.tensor([[1.0, 0.6, 0.0], [0.0, 0.8, 0.3], [0.0, 0.0, 1.0]], dtype=torch.float64)
    noise_std, precision = 0.7, 2.0
    noise = torch.randn(60, 1, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    y = x @ torch.tensor([[1.0], [-0.5], [0.2]], dtype=torch.float64) + 0.4 + noise_std * noise
    design = np.hstack([x.numpy(), np.ones((60, 1))])
    posterior_precision = design.T @ design / noise_std**2 + precision * np.eye(4)
    mean = np.linalg.solve(posterior_precision, design.T @ y.numpy()[:, 0] / noise_std**2)
    return x, y, Regression(noise_std), precision, mean, posterior_precision


@pytest.mark.slow
def test_bayes_by_backprop_finds_the_best_independent_gaussians_of_a_conjugate_model():
    """The posterior is N(μ, Λ⁻¹); the closest product of Gaussians has the means μ and the variances 1/Λ_ii.

    The tolerance is three times the scatter over seeds; two of the posterior's own variances are twice as large.
    """
    x, y, task, precision, mean, posterior_precision = linear_model()
    settings = Settings(hidden=(), epochs=2000, batch_size=60, learning_rate=2e-2, schedule="cosine")
    baseline = BayesByBackprop(task, settings, GaussianPrior(precision**-0.5), samples=5_000)
    probes = np.eye(4)[:, :3]  # outputs w_i + b, and b: by these all means and variances are seen
    predicted = baseline.fit(x, y).predict(torch.from_numpy(probes))
    drawn = predicted.member_means[..., 0].numpy() @ np.array(
        [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [-1, -1, -1, 1]]
    )
    np.testing.assert_allclose(drawn.mean(0), mean, atol=0.01)
    np.testing.assert_allclose(drawn.var(0), 1 / np.diag(posterior_precision), rtol=0.15)


@pytest.mark.slow
def test_teachers_are_draws_from_a_conjugate_posterior():
    """SGLD with all rows and small steps; the tolerances are about four Monte Carlo errors of the correlated chain."""
    x, y, task, precision, mean, posterior_precision = linear_model()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        settings = Settings(hidden=(), epochs=8_000, batch_size=60)
        teacher = Teacher(training_rows(x, y, task, "cpu"), task, settings, step_size=1e-3, prior_precision=precision)
        everything, draws = torch.arange(60)[None], []
        for _ in range(8_000):
            teacher.step(everything)
            draws.append(torch.cat([p.detach().flatten() for p in teacher.parameters]))
    drawn = torch.stack(draws[500:]).numpy()
    covariance = np.linalg.inv(posterior_precision)
    np.testing.assert_allclose(drawn.mean(0), mean, atol=0.3 * np.sqrt(covariance.max()))
    np.testing.assert_allclose(drawn.var(0), np.diag(covariance), rtol=0.3)


def test_a_batch_gives_the_teacher_an_unbiased_gradient():
    """Without noise and prior, the steps from two halves of the rows average to the step from all."""
    x, y, task, *_ = linear_model()

    def moved(rows):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            data = training_rows(x, y, task, "cpu")
            teacher = Teacher(data, task, Settings(hidden=()), step_size=1e-4, prior_precision=0.0)
            teacher.step(rows[None])
        return torch.cat([p.detach().flatten() for p in teacher.parameters])

    halves = (moved(torch.arange(30)) + moved(torch.arange(30, 60))) / 2
    torch.testing.assert_close(halves, moved(torch.arange(60)), rtol=1e-10, atol=1e-12)


def test_the_student_learns_the_mean_of_teachers():
    """Cross entropy, by quadrature: -E log N(y; m, v) for y ~ N(m*, v*); and for classes, the sum."""
    one = training_rows(torch.ones(1, 1), torch.ones(1, 1), Regression(), "cpu").replicas
    head = HeteroscedasticRegression().head(one)
    outputs = torch.tensor([[0.3, -0.2]], dtype=torch.float64)
    truth = PredictedReal(torch.tensor([[[1.0]]]).double(), torch.tensor([[[0.4]]]).double())
    mean, variance = (part.item() for part in head.moments(outputs))
    density = stats.norm(1.0, math.sqrt(0.4))
    expected = density.expect(lambda y: -stats.norm.logpdf(y, mean, math.sqrt(variance)))
    np.testing.assert_allclose(head.cross_entropy(outputs, truth).item(), expected, rtol=1e-6)
    head = Classes(2).head(one)
    truth = head.predicted(torch.tensor([[[0.0, math.log(3)]]]))
    outputs = torch.tensor([[0.0, 1.0]])
    p = 1 / (1 + math.e)
    np.testing.assert_allclose(
        head.cross_entropy(outputs, truth).item(), -0.25 * math.log(p) - 0.75 * math.log(1 - p), rtol=1e-6
    )


@pytest.mark.parametrize("prior", [GaussianPrior(0.7), ScaleMixturePrior(0.3, 1.2, 0.1)])
def test_divergence_matches_quadrature(prior):
    q = stats.norm(0.4, 0.3)
    if isinstance(prior, GaussianPrior):
        density = stats.norm(0, 0.7).pdf
    else:
        density = lambda w: 0.3 * stats.norm.pdf(w, 0, 1.2) + 0.7 * stats.norm.pdf(w, 0, 0.1)
    expected = integrate.quad(lambda w: q.pdf(w) * (q.logpdf(w) - np.log(density(w))), -3, 3, limit=200)[0]
    one = training_rows(torch.ones(1, 1).double(), torch.ones(1, 1), Regression(), "cpu").replicas
    noise = torch.randn(1, 400, 500, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mean, std = torch.full_like(noise, 0.4), torch.full_like(noise, 0.3)
    estimate = prior.divergence(one)(Drawn(mean + std * noise, mean, std))
    np.testing.assert_allclose(estimate / 200_000, [expected], rtol=0.01)


def test_a_mixture_has_the_mean_of_variances_plus_the_variance_of_means():
    x, y = rows(Regression())
    ensemble = DeepEnsemble(HeteroscedasticRegression(), SHORT, members=4).fit(x, y).predict(x)
    m, v = (part.double().numpy() for part in ensemble)
    assert m.shape == (4, 40, 1) and np.ptp(m, 0).min() > 0
    np.testing.assert_allclose(ensemble.mean, m.mean(0), rtol=1e-5)
    np.testing.assert_allclose(ensemble.variance, v.mean(0) + (m**2).mean(0) - m.mean(0) ** 2, rtol=1e-4)
    densities = stats.norm.pdf(y.numpy(), m, np.sqrt(v)).mean(0)[:, 0]
    np.testing.assert_allclose(ensemble.log_prob(y), np.log(densities), rtol=1e-4, atol=1e-5)


def test_masks_have_the_variance_of_independent_bernoullis():
    """A linear network with dropped inputs: Var o = Σ (w_i x_i)² p/(1 - p); the mean is that of the undropped one."""
    x, y = rows(Regression())
    fitted = DropoutNetwork(Regression(0.5), dataclasses.replace(SHORT, hidden=()), input_rate=0.3).fit(x, y)
    weight = fitted.network.weights[-1][0].detach().T
    sampled = fitted.sampled(20_000).predict(x[:5])
    expected = ((weight * x[:5]) ** 2).sum(1, keepdim=True) * 0.3 / 0.7
    torch.testing.assert_close(sampled.epistemic, expected, rtol=0.05, atol=0)
    torch.testing.assert_close(sampled.variance, expected + 0.25, rtol=0.05, atol=0)
    torch.testing.assert_close(sampled.mean, fitted.predict(x[:5]).mean, rtol=0, atol=0.03)


def test_the_penalty_makes_a_linear_network_ridge_regression():
    x, y, task, precision, mean, _ = linear_model()
    settings = Settings(hidden=(), epochs=2000, batch_size=60, learning_rate=0.02, schedule="cosine")
    predicted = PlainNetwork(task, settings, prior_precision=precision).fit(x, y).predict(x)
    np.testing.assert_allclose(predicted.mean[:, 0], x.numpy() @ mean[:3] + mean[3], atol=1e-4)


def test_batches_are_of_one_size_and_take_every_row_equally_often():
    """Each network in an order of its own, every row once in each pass."""
    drawn = list(batches(2, 10, Settings(epochs=4, batch_size=8)))
    assert [batch.shape for batch in drawn] == [(2, 8)] * 5
    first, second = torch.cat(drawn, 1)
    for order in (first, second):
        assert [sorted(part.tolist()) for part in order.split(10)] == [list(range(10))] * 4
    assert not torch.equal(first, second)
    assert next(batches(1, 3, Settings(batch_size=8))).shape == (1, 3)


@pytest.mark.parametrize(
    ("baseline", "x", "y", "message"),
    [
        (PlainNetwork(Regression(), SHORT), torch.ones(4, 2), torch.ones(4), r"y\[..., None\]"),
        (
            PlainNetwork(Regression(), SHORT),
            torch.ones(4, 2),
            torch.ones(5, 1),
            r"shape \(4, 1\), one target for each row of x; got .* \(5, 1\)",
        ),
        (PlainNetwork(Regression(), SHORT), torch.ones(4, 2), torch.full((4, 1), math.nan), "finite y"),
        (PlainNetwork(Regression(), SHORT), torch.ones(3, 4, 2), torch.ones(4, 1), r"shape \(3, 4, 1\)"),
        (PlainNetwork(Regression(), SHORT), torch.full((4, 2), math.inf), torch.ones(4, 1), "finite floating-point x"),
        (PlainNetwork(Classes(2), SHORT), torch.ones(4, 2), torch.ones(4), "int64 labels"),
        (PlainNetwork(Classes(2), SHORT), torch.ones(2, 2), torch.tensor([1, 2]), "from 0 to 1, got 1 to 2"),
        (DarkKnowledge(Regression(), SHORT), torch.ones(4, 2), torch.ones(4, 1), "known noise"),
        (
            PlainNetwork(Regression(), dataclasses.replace(SHORT, activation="swish")),
            torch.ones(4, 2),
            torch.ones(4, 1),
            "'swish'",
        ),
        (
            PlainNetwork(Regression(), dataclasses.replace(SHORT, schedule="linear")),
            torch.ones(4, 2),
            torch.ones(4, 1),
            "'linear'",
        ),
        (DropoutNetwork(Regression(), SHORT, rate=1.0), torch.ones(4, 2), torch.ones(4, 1), "from 0 to below 1"),
    ],
)
def test_errors_say_what_was_expected(baseline, x, y, message):
    with pytest.raises(ValueError, match=message):
        baseline.fit(x, y)
