"""Likelihoods against quadrature, simulation and scipy; their losses at zero variance against torch's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy import integrate, special, stats
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from torchnpn import families, maps
from torchnpn import likelihoods as L
from torchnpn.likelihoods import limits
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
        return CLASSES if self.y.ndim == 1 else self.make().outputs(TARGETS)

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
    Case("poisson", _known(L.PoissonCounts), COUNTS, np.exp, np.exp),
    Case(
        "negative_binomial",
        _learnt(L.NegativeBinomialCounts, -0.5),
        COUNTS,
        np.exp,
        lambda o: np.exp(o) + np.exp(2 * o - 0.5),
    ),
    Case(
        "beta",
        _learnt(L.BetaProportions, 1.5),
        PARTS,
        special.expit,
        lambda o: special.expit(o) * special.expit(-o) / (1 + np.exp(1.5)),
    ),
    Case("softmax_mean", _known(L.SoftmaxMean, CLASSES), LABELS),
    Case("scaled_softmax", _known(L.ScaledSoftmax, CLASSES), LABELS),
    Case("sigmoids", _known(L.Sigmoids, CLASSES), LABELS),
    Case("direct_gaussian", _known(L.Direct, "gaussian"), REALS, lambda o: o, lambda o: 0.0),
    Case("direct_gamma", _known(L.Direct, "gamma"), AMOUNTS),
    Case("direct_poisson", _known(L.Direct, "poisson"), COUNTS),
    Case("direct_beta", _known(L.Direct, "beta"), PARTS),
    Case("direct_rayleigh", _known(L.Direct, "rayleigh"), AMOUNTS),
]
NAMED = {case.name: case for case in CASES}
by_name = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
PROPER = [case for case in CASES if case.name not in ("gaussian", "heteroscedastic", "kl_to_target", "squared_error")]
PROPER = [case for case in PROPER if case.name != "sigmoids"]  # their loss is -log p(y) of the prediction
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
        if case.name != "sigmoids":  # its parts are those of the answers before they are normalised
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
    for kind in (L.SoftmaxMean, L.ScaledSoftmax, L.Sigmoids):
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


# --- losses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("elbo", [0.0, 0.5, 1.0])
def test_gaussian_loss_mixes_predictive_and_elbo(elbo):
    case, noise = NAMED["gaussian"], np.exp(-1.2)
    o, y = case.latent(), case.y.numpy()
    predictive = -stats.norm(o.mean.numpy(), np.sqrt(o.variance.numpy() + noise)).logpdf(y)
    bound = -quadrature(lambda f: stats.norm(f, noise**0.5).logpdf(y[..., None]), o)
    loss = L.GaussianNoise(TARGETS, elbo, -1.2).loss(o, case.y)
    np.testing.assert_allclose(loss.detach(), ((1 - elbo) * predictive + elbo * bound).sum(-1), rtol=1e-6)


@pytest.mark.parametrize("elbo", [0.0, 0.5, 1.0])
def test_heteroscedastic_loss_mixes_predictive_and_elbo(elbo):
    case = NAMED["heteroscedastic"]
    o, y = case.latent(), case.y.numpy()
    f, varying = (Moments(o.mean[..., part], o.variance[..., part]) for part in (slice(0, 2), slice(2, 4)))
    log_noise = Moments(varying.mean - 1.2, varying.variance)
    variance = f.variance.numpy() + quadrature(np.exp, log_noise)
    predictive = -stats.norm(f.mean.numpy(), np.sqrt(variance)).logpdf(y)
    square = quadrature(lambda x: (y[..., None] - x) ** 2, f)
    bound = 0.5 * (square * quadrature(lambda x: np.exp(-x), log_noise) + log_noise.mean.numpy() + np.log(2 * np.pi))
    loss = L.HeteroscedasticGaussian(TARGETS, elbo, -1.2).double().loss(o, case.y)
    np.testing.assert_allclose(loss.detach(), ((1 - elbo) * predictive + elbo * bound).sum(-1), rtol=1e-6)


@pytest.mark.parametrize("elbo", [0.0, 0.3])
def test_varying_noise_learns_from_the_mean_and_leaves_it_alone(elbo):
    """Gradients of the mean are those under constant noise, those of the noise belong to its own loss."""
    case = NAMED["heteroscedastic"]
    o = [part.clone().requires_grad_() for part in case.latent()]
    varying = L.HeteroscedasticGaussian(TARGETS, elbo, -1.2).double()
    constant = L.GaussianNoise(TARGETS, elbo, -1.2).double()
    found = torch.autograd.grad(varying.loss(Moments(*o), case.y).sum(), [*o, varying.log_noise])
    f = [part.detach()[..., :TARGETS].clone().requires_grad_() for part in o]
    wanted = torch.autograd.grad(constant.loss(Moments(*f), case.y).sum(), [*f, constant.log_noise])
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one[..., :TARGETS], other)

    def loss(*noise):
        parts = (torch.cat([mean.detach(), part], -1) for mean, part in zip(f, noise, strict=True))
        return varying.loss(Moments(*parts), case.y)

    assert torch.autograd.gradcheck(loss, [part.detach()[..., TARGETS:].clone().requires_grad_() for part in o])


@pytest.mark.parametrize("case", PROPER, ids=lambda case: case.name)
def test_loss_is_minus_the_log_of_the_prediction(case):
    o, likelihood = case.latent(), case.make()
    o = Moments(o.mean.abs(), o.variance) if case.name.startswith("direct") else o
    log_prob = likelihood.predict(o).log_prob(case.y)
    torch.testing.assert_close(likelihood.loss(o, case.y), -(log_prob if case.y.ndim == 1 else log_prob.sum(-1)))


def test_kl_to_target_is_the_kl_of_two_gaussians():
    case, o = NAMED["kl_to_target"], NAMED["kl_to_target"].latent()
    Normal = torch.distributions.Normal
    expected = torch.distributions.kl_divergence(Normal(case.y, 0.05**0.5), Normal(o.mean, o.std)).sum(-1)
    torch.testing.assert_close(L.KLToTarget(0.05).loss(o, case.y), expected, rtol=1e-6, atol=0.0)


def test_squared_error_is_an_expectation():
    case, o = NAMED["squared_error"], NAMED["squared_error"].latent()
    expected = quadrature(lambda x: (case.y.numpy()[..., None] - x) ** 2, o).sum(-1)
    np.testing.assert_allclose(L.SquaredError().loss(o, case.y), expected)


def test_direct_poisson_is_the_corrected_error():
    o = Moments(torch.rand(ROWS, TARGETS, dtype=torch.float64) + 0.1, torch.rand(ROWS, TARGETS, dtype=torch.float64))
    expected = -stats.poisson(o.mean.numpy()).logpmf(COUNTS.numpy()).sum(-1)
    np.testing.assert_allclose(L.Direct("poisson").loss(o, COUNTS), expected)


@pytest.mark.parametrize(
    ("name", "torchs"),
    [
        ("gaussian", lambda m, y: F.gaussian_nll_loss(m, y, torch.full_like(m, np.exp(-1.2)), True, reduction="none")),
        ("squared_error", lambda m, y: F.mse_loss(m, y, reduction="none")),
        ("poisson", lambda m, y: F.poisson_nll_loss(m, y, reduction="none") + torch.lgamma(y + 1)),
        ("softmax_mean", lambda m, y: F.cross_entropy(m, y, reduction="none")[:, None]),
        ("scaled_softmax", lambda m, y: F.cross_entropy(m, y, reduction="none")[:, None]),
        ("sigmoids", lambda m, y: F.binary_cross_entropy(m.sigmoid(), F.one_hot(y).to(m), reduction="none")),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("point", [True, False])
def test_zero_variance_is_the_ordinary_loss(name, torchs, dtype, point):
    case = NAMED[name]
    m = case.latent(dtype=dtype).mean.requires_grad_()
    y = case.y if case.y.ndim == 1 else case.y.to(dtype)
    loss = case.make().loss(Moments(m, None if point else torch.zeros_like(m)), y)
    expected = torchs(m, y).sum(-1)
    tolerance = {"rtol": 1e-6 if dtype == torch.float64 else 2e-5, "atol": 1e-6}
    torch.testing.assert_close(loss, expected, **tolerance)
    torch.testing.assert_close(*(torch.autograd.grad(x.sum(), m)[0] for x in (loss, expected)), **tolerance)


def test_counts_keep_their_gradient_near_the_poisson_limit():
    """∂ log p/∂v → ((y - μ)² - y)/2 and ∂ log p/∂s = that + ½ ∂ log p/∂m, also in float32."""
    m, y = torch.tensor([[np.log(50.0)]], dtype=torch.float32), torch.tensor([[61.0]])
    for variance in (0.0, 1e-9, 1e-7, 1e-6):
        s = torch.full_like(m, variance).requires_grad_()
        (slope,) = torch.autograd.grad(L.PoissonCounts().loss(Moments(m, s), y).sum(), s)
        np.testing.assert_allclose(slope.item(), -(((61 - 50) ** 2 - 61) / 2 + (61 - 50) / 2), rtol=2e-3)


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


@pytest.mark.parametrize("case", [case for case in CASES if case.name != "heteroscedastic"], ids=lambda case: case.name)
def test_gradients(case):  # those of the heteroscedastic one are of two losses
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
            assert values.shape == (*replicas, TARGETS)
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
    torch.testing.assert_close(limits.limited(x, 30.0), x, rtol=1e-15, atol=0.0)
    far = limits.limited(torch.logspace(1.5, 8, 50, dtype=torch.float64), 30.0)
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


# --- the border -----------------------------------------------------------------------------------------------


@by_name
def test_good_targets_pass(case):
    case.make().check_targets(case.y)
    repr(case.make())


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (L.GaussianNoise(), [[np.nan]], "GaussianNoise expects finite targets, got nan"),
        (L.GaussianNoise(), [1.0, 2.0], r"targets of shape \(batch, targets\), got \(2,\). For one target write"),
        (L.SquaredError(), [[np.inf], [0.0]], r"got inf \(1 of 2 values are wrong\)"),
        (L.GammaAmounts(), [[1.0], [-2.0]], "GammaAmounts expects targets > 0, got -2"),
        (L.GammaAmounts(), [[0.0]], "got 0. Targets of any sign need a Gaussian likelihood"),
        (L.PoissonCounts(), [[1.5]], "PoissonCounts expects targets that are counts 0, 1, 2, …, got 1.5"),
        (L.NegativeBinomialCounts(), [[-1.0]], "counts 0, 1, 2, …, got -1"),
        (L.BetaProportions(), [[1.0]], r"BetaProportions expects targets in \(0, 1\), got 1. Scale them"),
        (L.Direct("beta"), [[1.2]], r"Direct\(Beta\) expects targets in \(0, 1\), got 1.2"),
        (L.Direct("bernoulli"), [[0.5]], "expects targets 0 or 1, got 0.5"),
        (L.Direct("poisson"), [[np.nan]], r"Direct\(Poisson\) expects finite targets, got nan"),
    ],
)
def test_bad_targets_are_refused(likelihood, y, message):
    with pytest.raises(ValueError, match=message):
        likelihood.check_targets(torch.tensor(y))


@pytest.mark.parametrize(
    ("likelihood", "y", "error", "message"),
    [
        (L.SoftmaxMean(3), torch.tensor([0.0, 1.0]), TypeError, "integer class labels, got torch.float32. Number the"),
        (L.SoftmaxMean(3), torch.tensor([0, 3]), ValueError, "labels from 0 to 2, got 3"),
        (L.Sigmoids(3), torch.tensor([-1, 2]), ValueError, "labels from 0 to 2, got -1"),
        (L.Sigmoids(3), torch.tensor(1), ValueError, r"labels of shape \(batch,\), got a single number"),
        (L.ScaledSoftmax(3), [0, 1], TypeError, "targets as a tensor, got list. Convert with torch.as_tensor"),
        (L.GaussianNoise(), np.ones((2, 1)), TypeError, "targets as a tensor, got ndarray"),
        (L.GaussianNoise(), torch.ones(2, 1, dtype=torch.complex64), TypeError, "real targets, got torch.complex64"),
    ],
)
def test_bad_labels_and_types_are_refused(likelihood, y, error, message):
    with pytest.raises(error, match=message):
        likelihood.check_targets(y)


@pytest.mark.parametrize(
    ("likelihood", "outputs", "y", "message"),
    [
        (L.GaussianNoise(), (4, 1), (4,), r"GaussianNoise expects outputs of shape .* write y\[:, None\]"),
        (L.GaussianNoise(), (4, 1), (5, 1), r"got o.mean of shape \(4, 1\) and y of shape \(5, 1\)"),
        (L.HeteroscedasticGaussian(2), (4, 2), (4, 2), "expects 4 outputs for 2 targets"),
        (L.SoftmaxMean(3), (4, 2), (4,), r"outputs of shape \(\*replicas, batch, 3\)"),
        (L.SoftmaxMean(3), (4, 3), (4, 1), r"labels of shape \(batch,\)"),
    ],
)
def test_shapes_that_do_not_belong_together_are_refused(likelihood, outputs, y, message):
    with pytest.raises(ValueError, match=message):
        likelihood.loss(Moments(torch.zeros(outputs)), torch.zeros(y, dtype=torch.long))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: L.GaussianNoise(elbo=1.5), r"elbo, the ELBO's share in the loss, in \[0, 1\], got 1.5"),
        (lambda: L.GaussianNoise(0), "targets ≥ 1, got 0"),
        (lambda: L.KLToTarget(0.0), "epsilon, the target's variance, > 0, got 0.0"),
        (lambda: L.SoftmaxMean(1), "SoftmaxMean expects at least 2 classes, got 1"),
        (lambda: L.Direct("gauss"), "Did you mean 'gaussian'"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_likelihood_without_predictions_says_so():
    o = Moments(torch.zeros(1, 1))
    for call in (L.Likelihood().predict, L.Likelihood().variance_parts):
        with pytest.raises(NotImplementedError, match="Likelihood needs a method"):
            call(o)


def test_known_constants_reach_the_family():
    o = Moments(torch.tensor([[2.0]]), torch.tensor([[0.3]]))
    predicted = L.Direct("weibull", shape=3.0).predict(o)
    torch.testing.assert_close(predicted.log_prob(1.5), families.Weibull.from_moments(o, shape=3.0).log_prob(1.5))
