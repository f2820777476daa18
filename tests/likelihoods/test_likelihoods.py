"""Likelihoods against quadrature, simulation and scipy; their losses at zero variance against torch's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy import integrate, special, stats
from torch.utils import _pytree as pytree

from torchnpn import likelihoods as L
from torchnpn import maps
from torchnpn.likelihoods import guards
from torchnpn.moments import Moments

ROWS, TARGETS, CLASSES = 6, 2, 5
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(120)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


class Case(NamedTuple):
    """A likelihood, targets for it, and the first two moments of y given a latent value, written anew in numpy."""

    name: str
    make: Callable[..., L.Likelihood]  # takes replicas=... where something is learnt
    y: torch.Tensor
    mean: Callable[..., np.ndarray] | None = None  # of a latent value
    variance: Callable[..., np.ndarray] | None = None

    @property
    def outputs(self) -> int:
        return self.make().outputs(CLASSES if self.y.ndim == 1 else TARGETS)

    def latent(self, *replicas: int, dtype: torch.dtype = torch.float64) -> Moments:
        generator = torch.Generator().manual_seed(1)
        shape = (*replicas, ROWS, self.outputs)
        mean = torch.randn(shape, generator=generator, dtype=torch.float64)
        variance = 0.02 + torch.rand(shape, generator=generator, dtype=torch.float64)
        return Moments(mean.to(dtype), variance.to(dtype))


def _targets(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64).reshape(ROWS, TARGETS)


REALS = _targets(*np.linspace(-2, 3, 12))
AMOUNTS = _targets(*np.geomspace(0.05, 30, 12))
AMOUNTS_OR_NONE = torch.where(AMOUNTS < 1, 0.0, AMOUNTS)
COUNTS = _targets(0, 1, 2, 3, 5, 8, 13, 0, 40, 1, 0, 7)
PARTS = _targets(*np.linspace(0.02, 0.97, 12))
LABELS = torch.tensor([0, 4, 2, 2, 1, 3])


def _known(kind: type[L.Likelihood], *arguments: float) -> Callable[..., L.Likelihood]:
    return lambda replicas=(): kind(*arguments)


def _learnt(kind: type[L.Likelihood], *arguments: float) -> Callable[..., L.Likelihood]:
    return lambda replicas=(): kind(TARGETS, *arguments, replicas=replicas)


CASES = [
    Case("gaussian", _learnt(L.GaussianNoise, 0.5, -1.2), REALS, lambda o: o, lambda o: np.exp(-1.2)),
    Case("heteroscedastic", _learnt(L.HeteroscedasticGaussian, 0.5, -1.2), REALS),
    Case("kl_to_target", _known(L.KLToTarget, 0.05), REALS, lambda o: o, lambda o: 0.0),
    Case("squared_error", _known(L.SquaredError), REALS, lambda o: o, lambda o: 0.0),
    Case("gamma", _learnt(L.GammaAmounts, 0.7), AMOUNTS, np.exp, lambda o: np.exp(2 * o - 0.7)),
    Case(
        "lognormal",
        _learnt(L.LogNormalAmounts, 0.0, -1.2),
        AMOUNTS,
        lambda o: np.exp(o + np.exp(-1.2) / 2),
        lambda o: np.exp(2 * o + np.exp(-1.2)) * np.expm1(np.exp(-1.2)),
    ),
    Case("varying_lognormal", _learnt(L.HeteroscedasticLogNormal, 0.5, -1.2), AMOUNTS),
    Case(
        "student_t",
        _learnt(L.StudentTNoise, 0.0, -1.2, 0.3),
        REALS,
        lambda o: o,
        lambda o: np.exp(-1.2) * (1 + 2 * np.exp(-0.3)),
    ),
    Case("varying_student_t", _learnt(L.HeteroscedasticStudentT, 0.5, -1.2, 0.3), REALS),
    Case("poisson", _known(L.PoissonCounts), COUNTS, np.exp, np.exp),
    Case(
        "negative_binomial",
        _learnt(L.NegativeBinomialCounts, -0.5),
        COUNTS,
        np.exp,
        lambda o: np.exp(o) + np.exp(2 * o - 0.5),
    ),
    Case("weibull", _learnt(L.WeibullDurations, 0.4), AMOUNTS),
    Case("zero_inflated_poisson", _known(L.ZeroInflatedPoisson), COUNTS),
    Case("zero_inflated_negative_binomial", _learnt(L.ZeroInflatedNegativeBinomial, -0.5), COUNTS),
    Case("hurdle_gamma", _learnt(L.HurdleGamma), AMOUNTS_OR_NONE),
    Case("hurdle_lognormal", _learnt(L.HurdleLogNormal), AMOUNTS_OR_NONE),
    Case(
        "beta",
        _learnt(L.BetaProportions, 1.5),
        PARTS,
        special.expit,
        lambda o: special.expit(o) * special.expit(-o) / (1 + np.exp(1.5)),
    ),
    Case("softmax_mean", _known(L.SoftmaxMean, CLASSES), LABELS),
    Case("scaled_softmax", _known(L.ScaledSoftmax, CLASSES), LABELS),
    Case("ordered", lambda replicas=(): L.OrderedClasses(CLASSES, replicas=replicas), LABELS),
    Case("sigmoids", _known(L.Sigmoids, CLASSES), LABELS),
    Case("scaled_sigmoids", _known(L.ScaledSigmoids, CLASSES), LABELS),
    Case("direct_poisson_kl", _known(L.PoissonKL), COUNTS),
    Case("direct_gaussian", _known(L.Direct, "gaussian"), REALS, lambda o: o, lambda o: 0.0),
    Case("direct_gamma", _known(L.Direct, "gamma"), AMOUNTS),
    Case("direct_poisson", _known(L.Direct, "poisson"), COUNTS),
    Case("direct_beta", _known(L.Direct, "beta"), PARTS),
    Case("direct_rayleigh", _known(L.Direct, "rayleigh"), AMOUNTS),
]
NAMED = {case.name: case for case in CASES}
by_name = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
TWO_LOSSES = ("heteroscedastic", "varying_lognormal", "varying_student_t")  # of the mean and of the noise
OTHERS = (*TWO_LOSSES, "gaussian", "kl_to_target", "squared_error", "sigmoids", "scaled_sigmoids")
PROPER = [case for case in CASES if case.name not in OTHERS]  # their loss is -log p(y) of the prediction
HEADS = [case for case in CASES if case.mean is not None]


def quadrature(f: Callable[..., np.ndarray], o: Moments) -> np.ndarray:
    """E f(x) for x ~ o, element by element."""
    x = o.mean.numpy()[..., None] + np.sqrt(o.variance.numpy())[..., None] * NODES
    return (f(x) * WEIGHTS).sum(-1)


# --- predictions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", HEADS, ids=lambda case: case.name)
def test_moments_follow_the_law_of_total_variance(case):
    o, likelihood = case.latent(), case.make()
    mean = quadrature(case.mean, o)
    epistemic = quadrature(lambda x: case.mean(x) ** 2, o) - mean**2
    aleatoric = quadrature(case.variance, o)
    tolerance = 1e-4 if case.name == "beta" else 1e-6  # maps.sigmoid is good to 2e-6, its variance is small here
    predicted, parts = likelihood.predict(o), likelihood.variance_parts(o)
    np.testing.assert_allclose(predicted.mean.detach(), mean, rtol=tolerance)
    np.testing.assert_allclose(predicted.variance.detach(), epistemic + aleatoric, rtol=tolerance)
    np.testing.assert_allclose(parts.epistemic.detach(), epistemic, rtol=tolerance)
    np.testing.assert_allclose(parts.aleatoric.detach(), aleatoric, rtol=tolerance)


def test_heteroscedastic_moments_match_simulation():
    case, rng = NAMED["heteroscedastic"], np.random.default_rng(0)
    o, likelihood = case.latent(), case.make()
    x = o.mean.numpy() + o.std.numpy() * rng.standard_normal((400_000, ROWS, 2 * TARGETS))
    noise = np.exp(x[..., TARGETS:] - 1.2)
    y = x[..., :TARGETS] + np.sqrt(noise) * rng.standard_normal((400_000, ROWS, TARGETS))
    np.testing.assert_allclose(likelihood.predict(o).mean, y.mean(0), atol=0.02)
    np.testing.assert_allclose(likelihood.predict(o).variance, y.var(0), rtol=0.03)
    parts = likelihood.variance_parts(o)
    np.testing.assert_allclose(parts.aleatoric, noise.mean(0), rtol=0.02)
    torch.testing.assert_close(parts.epistemic, o.variance[..., :TARGETS])


@by_name
def test_parts_add_up_and_are_not_negative(case):
    for variance in (0.0, 1.0, 8.0):
        o = case.latent()
        o = Moments(o.mean, variance * o.variance)
        likelihood = case.make()
        parts = likelihood.variance_parts(o)
        assert (parts.epistemic >= 0).all() and (parts.aleatoric >= 0).all()
        torch.testing.assert_close(parts.total, parts.epistemic + parts.aleatoric)
        if "sigmoids" not in case.name:  # its parts are those of the answers before they are normalised
            torch.testing.assert_close(parts.total, likelihood.predict(o).variance, rtol=1e-6, atol=1e-12)
        if variance == 0 and not case.name.startswith(("direct", "kl")):
            torch.testing.assert_close(parts.epistemic, torch.zeros_like(parts.epistemic), rtol=0.0, atol=1e-12)


def test_poisson_counts_integrate_poisson_over_a_gamma_rate():
    m, s, likelihood = 1.3, 0.6, L.PoissonCounts()
    predicted = likelihood.predict(Moments(torch.tensor([[m]]).double(), torch.tensor([[s]]).double()))
    mean, v = np.exp(m + s / 2), np.expm1(s)
    rate = stats.gamma(1 / v, scale=v * mean)
    for y in (0, 1, 4, 20):
        expected, _ = integrate.quad(lambda r: stats.poisson.pmf(y, r) * rate.pdf(r), 0, np.inf, epsabs=1e-13)
        np.testing.assert_allclose(predicted.log_prob(float(y)).exp().item(), expected, rtol=1e-7)
    np.testing.assert_allclose(predicted.cdf(4.0).item(), stats.nbinom(1 / v, 1 / (1 + v * mean)).cdf(4), rtol=1e-7)
    assert predicted.quantile(0.9).item() == stats.nbinom(1 / v, 1 / (1 + v * mean)).ppf(0.9)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gaussian", lambda m, v: stats.norm(m, v**0.5).logpdf),
        ("gamma", lambda m, v: stats.gamma(m**2 / v, scale=v / m).logpdf),
        ("negative_binomial", lambda m, v: stats.nbinom(m**2 / (v - m), m / v).logpmf),
        ("beta", lambda m, v: stats.beta(m * (m * (1 - m) / v - 1), (1 - m) * (m * (1 - m) / v - 1)).logpdf),
    ],
)
def test_predictive_densities_are_scipys_with_these_moments(name, expected):
    case = NAMED[name]
    predicted = case.make().predict(case.latent())
    reference = expected(predicted.mean.detach().numpy(), predicted.variance.detach().numpy())(case.y.numpy())
    np.testing.assert_allclose(predicted.log_prob(case.y).detach(), reference, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(predicted.cdf(predicted.quantile(0.25)) >= 0.25 - 1e-9, torch.ones(ROWS, TARGETS) > 0)


def test_classes_match_simulation():
    case, rng = NAMED["softmax_mean"], np.random.default_rng(0)
    o = case.latent()
    x = o.mean.numpy() + o.std.numpy() * rng.standard_normal((400_000, ROWS, CLASSES))
    p = special.softmax(x, -1)
    predicted, parts = L.SoftmaxMean(CLASSES).predict(o), L.SoftmaxMean(CLASSES).variance_parts(o)
    np.testing.assert_allclose(predicted.probs, p.mean(0), atol=3e-3)
    np.testing.assert_allclose(parts.epistemic, p.var(0), rtol=0.05, atol=1e-3)  # by matching, off by 5 %
    torch.testing.assert_close(predicted.probs, maps.softmax_mean(o))
    np.testing.assert_allclose(L.Sigmoids(CLASSES).variance_parts(o).epistemic, special.expit(x).var(0), rtol=0.02)
    for kind in (L.SoftmaxMean, L.ScaledSoftmax, L.Sigmoids, L.ScaledSigmoids):
        np.testing.assert_allclose(kind(CLASSES).predict(o).probs.sum(-1), 1.0, rtol=1e-12)


def test_categorical_is_a_distribution_and_a_pytree():
    p = np.array([[0.2, 0.3, 0.5], [0.0, 0.0, 1.0]])
    member = L.Categorical(torch.tensor(p))
    np.testing.assert_allclose(member.entropy, stats.entropy(p, axis=-1))
    np.testing.assert_allclose(member.variance, p - p**2)
    np.testing.assert_allclose(member.log_prob(torch.tensor([1, 2])).exp(), [0.3, 1.0])
    assert member.mean is member.probs
    doubled = pytree.tree_map(lambda tensor: 2 * tensor, member)
    assert isinstance(doubled, L.Categorical) and doubled.probs.sum() == 4


# --- every likelihood -----------------------------------------------------------------------------------------


@by_name
def test_losses_and_gradients_are_finite_everywhere(case):
    mean = torch.tensor([0.0, 1e-6, 1.0, -1.0, 100.0, -100.0, 1e4, -1e4, 1e8, -1e8])
    variance = torch.tensor([0.0, 1e-12, 1e-3, 1.0, 100.0, 1e4, 1e16])
    mean, variance = (x.reshape(-1, 1, 1) for x in torch.meshgrid(mean, variance, indexing="ij"))
    alternate = torch.tensor([1.0, -1.0] * 3)[: case.outputs]  # classes far apart
    for signs in (torch.ones(case.outputs), alternate):
        m = (mean * signs).expand(-1, ROWS, -1).clone().requires_grad_()
        s = variance.expand(-1, ROWS, case.outputs).clone().requires_grad_()
        likelihood = case.make()
        loss = likelihood.loss(Moments(m, s), case.y if case.y.ndim == 1 else case.y.float())
        assert loss.dtype == torch.float32 and loss.isfinite().all()
        gradients = torch.autograd.grad(loss.sum(), [m, s, *likelihood.parameters()], allow_unused=True)
        assert all(gradient is None or gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("case", [case for case in CASES if case.name not in TWO_LOSSES], ids=lambda case: case.name)
def test_gradients(case):
    o, likelihood = case.latent(), case.make().double()
    o = Moments(o.mean.abs() + 0.1, o.variance) if case.name.startswith("direct") else o
    if case.name == "direct_beta":
        o = Moments(o.mean.sigmoid(), 0.05 * o.variance)
    names = [name for name, _ in likelihood.named_parameters()]
    values = [x.detach().clone().requires_grad_() for x in (*o, *likelihood.parameters())]

    def loss(m, s, *parameters):
        if not parameters:
            return likelihood.loss(Moments(m, s), case.y)
        return torch.func.functional_call(_Loss(likelihood), _prefixed(names, parameters), (Moments(m, s), case.y))

    assert torch.autograd.gradcheck(loss, values, atol=2e-5)  # the default sigmoid and its slopes agree to 1e-5


class _Loss(torch.nn.Module):
    """A likelihood's loss as a module, which `torch.func.functional_call` wants."""

    def __init__(self, likelihood):
        super().__init__()
        self.likelihood = likelihood

    def forward(self, o, y):
        return self.likelihood.loss(o, y)


def _prefixed(names, values):
    return {f"likelihood.{name}": value for name, value in zip(names, values, strict=True)}


@by_name
def test_replicas_are_independent(case):
    replicas = (2, 3)
    o, likelihood = case.latent(*replicas), case.make(replicas=replicas)
    with torch.no_grad():
        for parameter in likelihood.parameters():
            parameter += torch.linspace(0, 1, parameter.numel()).reshape(parameter.shape)
        loss, parts = likelihood.loss(o, case.y), likelihood.variance_parts(o)
        assert loss.shape == (*replicas, ROWS)
        one = case.make()
        for parameter, values in zip(one.parameters(), likelihood.parameters(), strict=True):
            assert values.shape == (*replicas, CLASSES - 1 if case.name == "ordered" else TARGETS)
            parameter.copy_(values[1, 2])
        alone = Moments(o.mean[1, 2], o.variance[1, 2])
        torch.testing.assert_close(loss[1, 2], one.loss(alone, case.y))
        torch.testing.assert_close(parts.total[1, 2], one.variance_parts(alone).total)
        torch.testing.assert_close(likelihood.predict(o).mean[1, 2], one.predict(alone).mean)


@pytest.mark.parametrize("name", ["gaussian", "gamma", "negative_binomial", "beta"])
def test_one_learnt_number_serves_all_targets(name):
    case = NAMED[name]
    likelihood, o = case.make(), case.latent()
    shared = type(likelihood)()
    (parameter,) = shared.parameters()
    likelihood.load_state_dict({name: value.expand(TARGETS) for name, value in shared.state_dict().items()})
    torch.testing.assert_close(shared.loss(o, case.y), likelihood.loss(o, case.y))
    assert parameter.shape == (1,)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if case.name != "softmax_mean"], ids=lambda case: case.name)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_loss_compiles_in_one_graph(case):
    o, likelihood = case.latent(dtype=torch.float32), case.make()
    y = case.y if case.y.ndim == 1 else case.y.float()
    check_compiled(likelihood, o, y)


@pytest.mark.parametrize("classes", [2, pytest.param(3, marks=pytest.mark.slow)])  # three take ten seconds, five twenty
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_softmax_mean_compiles_in_one_graph(classes):
    o = NAMED["softmax_mean"].latent(dtype=torch.float32)
    o = Moments(o.mean[:, :classes], o.variance[:, :classes])
    check_compiled(L.SoftmaxMean(classes), o, LABELS % classes)


def check_compiled(likelihood, o, y):
    torch.compiler.reset()
    compiled = torch.compile(lambda m, s, y: likelihood.loss(Moments(m, s), y), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*o, y), likelihood.loss(o, y))


@by_name
def test_half_precision_is_computed_in_float32(case):
    o = case.latent(dtype=torch.bfloat16)
    wide = Moments(o.mean.float(), o.variance.float())
    loss = case.make().loss(o, case.y)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, case.make().loss(wide, case.y))


def test_guards_change_nothing_within_their_limits():
    x = torch.linspace(-30, 30, 601, dtype=torch.float64)
    torch.testing.assert_close(guards.soft_clamp(x, 30.0), x, rtol=1e-15, atol=0.0)
    far = guards.soft_clamp(torch.logspace(1.5, 8, 50, dtype=torch.float64), 30.0)
    assert (far.diff() > 0).all() and far.max() <= 33


def test_guards_let_a_gradient_through():
    """A prediction that is wrong beyond all bounds is still pulled the right way."""
    m = torch.tensor([[500.0, -500.0]], requires_grad=True)
    o = Moments(m, torch.ones(1, 2))
    for likelihood, y in (
        (L.SoftmaxMean(2), torch.tensor([1])),
        (L.Sigmoids(2), torch.tensor([1])),
        (L.BetaProportions(), torch.tensor([[0.1, 0.9]])),
        (L.GammaAmounts(), torch.ones(1, 2)),
        (L.PoissonCounts(), torch.ones(1, 2)),
    ):
        (gradient,) = torch.autograd.grad(likelihood.loss(o, y).sum(), m)
        assert gradient[0, 0] > 0 > gradient[0, 1]


def test_a_collapsed_variance_can_grow():
    s = torch.zeros(1, 1, requires_grad=True)
    for likelihood in (L.KLToTarget(0.1), L.Direct("gaussian")):
        loss = likelihood.loss(Moments(torch.zeros(1, 1), s), torch.ones(1, 1))
        assert torch.autograd.grad(loss.sum(), s)[0].item() < 0
