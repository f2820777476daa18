"""Likelihoods at every finite latent mean and variance, every valid target and extreme learnt numbers of each type.

Losses, gradients, predictions and parts of the variance are finite; the numpy twin of a loss says what torch says.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import cases
from support.fuzzing import generator, rounds
from test_fuzz_families import every_type, members, positive, real, unit, values
from torch.distributions import constraints

from torchnpn import families, metrics
from torchnpn import likelihoods as L
from torchnpn.estimators.predictive import Predictive
from torchnpn.likelihoods import Categorical, Mixture, mixture_parts
from torchnpn.likelihoods.gradients import autograd_loss_gradient, loss_gradient
from torchnpn.moments import Moments

ROWS, TARGETS, CLASSES = 250, 2, 4
MAKERS = {
    "gaussian": lambda: L.GaussianNoise(TARGETS),
    "gaussian_predictive": lambda: L.GaussianNoise(TARGETS, elbo=0.0),
    "heteroscedastic": lambda: L.HeteroscedasticGaussian(TARGETS),
    "kl_to_target": lambda: L.KLToTarget(0.05),
    "kl_to_sharp_target": lambda: L.KLToTarget(1e-30),
    "squared_error": L.SquaredError,
    "gamma": lambda: L.GammaAmounts(TARGETS),
    "gamma_elbo": lambda: L.GammaAmounts(TARGETS, elbo=0.5),
    "lognormal": lambda: L.LogNormalAmounts(TARGETS),
    "weibull": lambda: L.WeibullDurations(TARGETS),
    "weibull_elbo": lambda: L.WeibullDurations(TARGETS, elbo=0.5),
    "varying_lognormal": lambda: L.HeteroscedasticLogNormal(TARGETS),
    "student_t": lambda: L.StudentTNoise(TARGETS),
    "varying_student_t": lambda: L.HeteroscedasticStudentT(TARGETS),
    "poisson": L.PoissonCounts,
    "negative_binomial": lambda: L.NegativeBinomialCounts(TARGETS),
    "zero_inflated_poisson": lambda: L.ZeroInflatedPoisson(elbo=0.1),
    "zero_inflated_negative_binomial": lambda: L.ZeroInflatedNegativeBinomial(TARGETS),
    "hurdle_gamma": lambda: L.HurdleGamma(TARGETS, 0.1),
    "hurdle_lognormal": lambda: L.HurdleLogNormal(TARGETS, 0.1),
    "beta": lambda: L.BetaProportions(TARGETS),
    "softmax_mean": lambda: L.SoftmaxMean(CLASSES),
    "scaled_softmax": lambda: L.ScaledSoftmax(CLASSES),
    "ordered": lambda: L.OrderedClasses(CLASSES),
    "sigmoids": lambda: L.Sigmoids(CLASSES),
    "scaled_sigmoids": lambda: L.ScaledSigmoids(CLASSES),
    "poisson_kl": L.PoissonKL,
    "cross_entropy": L.CrossEntropy,
    "bernoulli_poisson": L.BernoulliPoisson,
    "poisson_rate": L.PoissonRate,
    "gamma_words": L.GammaWords,
    **{
        f"direct_{name}": (lambda name=name: L.Direct(name))
        for name in families.BY_NAME
        if name not in ("pareto", "negative_binomial")
    },
    "direct_negative_binomial": lambda: L.Direct("negative_binomial", n=3.0),
    "direct_pareto": lambda: L.Direct("pareto", x_min=1e-6),
}
every_likelihood = pytest.mark.parametrize("name", MAKERS)


def targets(name, likelihood, rng, dtype):
    """Valid targets of the type, from its smallest to its largest numbers."""
    shape = (ROWS, TARGETS)
    n = ROWS * TARGETS
    if hasattr(likelihood, "classes"):
        return torch.tensor(rng.integers(0, CLASSES, ROWS))
    if isinstance(likelihood, L.PoissonKL):
        support = constraints.nonnegative_integer
    elif isinstance(likelihood, L.Direct):
        support = likelihood.family.support
    else:
        support = likelihood.support
    if name in ("cross_entropy", "bernoulli_poisson"):
        y = unit(rng, n, dtype)
    elif support is constraints.real:
        y = real(rng, n, dtype)
    elif support is constraints.unit_interval:
        y = unit(rng, n, dtype)
        y = torch.where((y > 0) & (y < 1), y, 0.5)
    elif support is constraints.boolean:
        y = torch.tensor(rng.integers(0, 2, n)).to(dtype)
    elif support is constraints.nonnegative_integer:
        y = torch.floor(positive(rng, n, dtype))
    else:
        y = positive(rng, n, dtype)
    if support is constraints.nonnegative:
        y = torch.where(torch.tensor(rng.random(n) < 0.3), 0.0, y)
    y = y.reshape(shape)
    return y.clamp_min(1e-5) if name == "direct_pareto" else y


def latents(likelihood, rng, dtype):
    columns = likelihood.outputs(CLASSES if hasattr(likelihood, "classes") else TARGETS)
    m, s = real(rng, ROWS * columns, dtype), real(rng, ROWS * columns, dtype).abs()
    return m.reshape(ROWS, columns), s.reshape(ROWS, columns)


def extreme_parameters(likelihood, rng):
    with torch.no_grad():
        for parameter in likelihood.parameters():
            values = real(rng, parameter.numel(), torch.float32).reshape(parameter.shape)
            parameter.copy_(values if rng.random() < 0.5 else torch.tensor(rng.normal(0, 5, parameter.shape)))


def bad(x):
    return ~x.isfinite()


def at(mask, *tensors):
    """The first rows where something is wrong."""
    rows = mask.reshape(mask.shape[0], -1).any(-1).nonzero().flatten()[:2].tolist()
    return [[t[i].tolist() for t in tensors] for i in rows]


@every_type
@every_likelihood
def test_everything_is_finite(name, dtype, record_property):
    rng, inputs = generator(f"likelihoods {name} {dtype}"), 0
    for _ in range(rounds(2)):
        likelihood = MAKERS[name]()
        extreme_parameters(likelihood, rng)
        y = targets(name, likelihood, rng, dtype)
        likelihood.check_targets(y)
        m, s = (part.requires_grad_() for part in latents(likelihood, rng, dtype))
        o = Moments(m, s)
        loss = likelihood.loss(o, y)
        assert not bad(loss).any(), at(bad(loss), m, s, y, loss)
        total = loss.sum()
        assert total.isfinite()
        gradients = torch.autograd.grad(total, [m, s, *likelihood.parameters()], allow_unused=True)
        for gradient in gradients[:2]:
            assert gradient is None or not bad(gradient).any(), at(bad(gradient), m, s, y, gradient)
        for gradient in gradients[2:]:
            assert gradient is None or gradient.isfinite().all()
        with torch.no_grad():
            check_parts(likelihood, o)
            check_prediction(likelihood, o, y)
        inputs += 8 * ROWS
    record_property("inputs", inputs)


def check_parts(likelihood, o):
    if isinstance(likelihood, L.Direct) and likelihood.family is families.Pareto:  # its moments may be infinite
        return
    for part in likelihood.variance_parts(o):
        wrong = ~((part >= 0) & part.isfinite())
        assert not wrong.any(), at(wrong, o.mean, o.variance, part)


def check_prediction(likelihood, o, y):
    p = likelihood.predict(o)
    for what in (p.mean, p.variance):
        if isinstance(p, families.Pareto):
            assert not what.isnan().any()
            continue
        assert not bad(what).any(), at(bad(what), o.mean, o.variance, what)
    log_prob = p.log_prob(y)
    assert not (log_prob.isnan() | ((log_prob == torch.inf) & (p.variance > 0 if log_prob.ndim > 1 else True))).any()
    if isinstance(p, Categorical):
        torch.testing.assert_close(p.probs.sum(-1), torch.ones(ROWS, dtype=p.probs.dtype))
        return
    below = p.cdf(y)
    assert not (~((below >= 0) & (below <= 1))).any()
    for q in (0.05, 0.95):
        quantile = p.quantile(q)
        assert not bad(quantile).any(), at(bad(quantile), o.mean, o.variance, quantile)


@pytest.mark.parametrize("name", [name for name in MAKERS if not name.startswith("direct")])
def test_the_numpy_twin_agrees(name, record_property):
    rng = generator(f"twins {name}")
    for k in range(rounds(6)):
        likelihood = MAKERS[name]()
        if k % 2:
            extreme_parameters(likelihood, rng)
        y = targets(name, likelihood, rng, torch.float32)
        m, s = latents(likelihood, rng, torch.float32)
        if k % 3 == 0:
            m, s = torch.randn_like(m), torch.rand_like(s)
        share = torch.full((ROWS,), 1 / ROWS)
        ours = loss_gradient(likelihood)(m.numpy(), s.numpy(), y.numpy(), share.numpy())
        theirs = autograd_loss_gradient(likelihood, m.numpy(), s.numpy(), y.numpy(), share.numpy())
        assert np.isfinite(ours.rows).all()
        for a, b in zip(
            (ours.by_mean, ours.by_variance, *ours.by_parameters), theirs[1:3] + tuple(theirs[3]), strict=True
        ):
            assert np.isfinite(a).all()
            np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3 * (np.abs(b).mean(dtype=np.float64) + 1e-6))
        np.testing.assert_allclose(ours.rows.sum(), theirs.rows.sum(), rtol=1e-4)
    record_property("inputs", rounds(6) * ROWS)


@every_likelihood
def test_a_negative_variance_is_refused(name):
    likelihood = MAKERS[name]()
    y = targets(name, likelihood, generator(name), torch.float32)
    m, s = latents(likelihood, generator(name), torch.float32)
    s[3, 0] = -1.0
    for call in (lambda o: likelihood.loss(o, y), likelihood.predict, likelihood.variance_parts):
        with pytest.raises(ValueError, match="latent variances ≥ 0, got -1"):
            call(Moments(m, s))


SCORED = {
    "gaussian": families.Gaussian,
    "gamma": families.Gamma,
    "beta": families.Beta,
    "log_normal": families.LogNormal,
    "negative_binomial": families.NegativeBinomial,
}


@pytest.mark.parametrize("name", SCORED)
def test_mixtures_and_scores_are_finite(name, record_property):
    """Also of members that have nothing in common: a count of 3 beside one of 1e300."""
    rng, rows = generator(f"scores {name}"), 40
    case = next(case for case in cases.ALL if case.name == name)
    for _ in range(rounds(2)):
        shape = (3, rows, 1)
        flat = members(case, rng, 3 * rows, torch.float64)
        parameters = [value.reshape(shape) for value in vars(flat).values()]
        if name == "gaussian":
            parameters[1] = parameters[1].clamp_min(1e-320)
        mixture = Mixture(SCORED[name](*parameters))
        y = values(case, rng, flat)[:rows].clamp_max(1e300).numpy()
        for distribution in (mixture, SCORED[name](*(value[0] for value in parameters))):
            check_predictive(Predictive(distribution), np.where(np.isfinite(y), y, 1.0))
    record_property("inputs", rounds(2) * rows * 4)


def check_predictive(p, y):
    low, high = p.interval(0.9)
    for array in (p.mean, p.variance, p.std, low, high, p.crps(y), p.cdf(y)):
        assert np.isfinite(array).all()
    assert not np.isnan(p.log_prob(y)).any()
    assert (p.variance >= 0).all() and (low <= high).all() and (p.crps(y) >= 0).all()
    assert np.isfinite(p.sample(5, random_state=0)).all()
    assert np.isfinite(metrics.interval_score(low, high, y)).all()


def test_disagreeing_members_have_a_finite_variance():
    parts = L.VarianceParts.of(torch.full((2, 3), 3e38), torch.full((2, 3), 3e38))
    assert all(part.isfinite().all() for part in mixture_parts(parts, torch.tensor([[3e38] * 3, [-3e38] * 3])))


SCORES = {
    metrics.crps_gaussian: ("real", "positive", "real"),
    metrics.gaussian_nll: ("real", "positive", "real"),
    metrics.rmse: ("real", "real"),
}
DRAWN = {
    "real": lambda rng, n: real(rng, n, torch.float64),
    "positive": lambda rng, n: positive(rng, n, torch.float64),
    "count": lambda rng, n: torch.floor(positive(rng, n, torch.float64)),
    "below_one": lambda rng, n: unit(rng, n, torch.float64).clamp_max(1 - 1e-16),
}


@pytest.mark.parametrize("metric", SCORES, ids=lambda metric: metric.__name__)
def test_scores_of_any_numbers_are_finite(metric, record_property):
    rng, n = generator(metric.__name__), 2000
    for _ in range(rounds(2)):
        arguments = [DRAWN[kind](rng, n).numpy() for kind in SCORES[metric]]
        score = np.asarray(metric(*arguments))
        wrong = ~np.isfinite(score) | ((score < 0) & (metric is not metrics.gaussian_nll))
        assert not wrong.any(), [[argument[wrong][0] for argument in arguments], score[wrong][0]]
        for k, bad in enumerate((np.nan, np.inf)):
            broken = [argument.copy() for argument in arguments]
            broken[k][5] = bad
            with pytest.raises(ValueError, match=f"{metric.__name__} expects"):
                metric(*broken)
    record_property("inputs", rounds(2) * n)


@pytest.mark.parametrize("name", SCORED)
def test_predictions_refuse_undefined_targets(name):
    case = next(case for case in cases.ALL if case.name == name)
    p = Predictive(members(case, generator(name), 3, torch.float64)._apply(lambda value: value[:, None]))
    for method in (p.log_prob, p.cdf, p.crps):
        with pytest.raises(ValueError, match="without NaN, got 1"):
            method([1.0, np.nan, 0.0])
    with pytest.raises(ValueError, match=r"probabilities in \[0, 1\]"):
        p.quantile(np.nan)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        p.sample(0)


def test_two_gradients_of_one_count_add_up_in_float16():
    m = torch.tensor([[35.0], [51.9]], dtype=torch.float16, requires_grad=True)
    y = torch.tensor([[1.0], [0.0]], dtype=torch.float16)
    L.PoissonCounts(elbo=0.5).loss(Moments(m, torch.full_like(m, 1e-3)), y).sum().backward()
    assert m.grad.isfinite().all() and (m.grad > 3e4).all()
