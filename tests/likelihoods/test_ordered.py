"""Classes in an order, against quadrature over the latent quality, and in `NPNClassifier`."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from torchnpn import NPNClassifier, io
from torchnpn import likelihoods as L
from torchnpn.moments import Moments

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(150)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
LATENTS = [(0.3, 0.0), (-1.2, 0.4), (2.5, 3.0), (0.0, 1.0)]


def likelihood(classes: int = 4) -> L.OrderedClasses:
    made = L.OrderedClasses(classes).double()
    with torch.no_grad():
        made.first_and_log_gaps += torch.linspace(-0.4, 0.5, classes - 1, dtype=torch.float64)
    return made


def column(x: float) -> torch.Tensor:
    return torch.tensor([[x]], dtype=torch.float64)


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize(("m", "s"), LATENTS)
def test_probabilities_and_their_spread_are_exact(classes, m, s):
    made = likelihood(classes)
    t = made.thresholds.detach().numpy()
    below = stats.norm.cdf(t[:, None] - (m + np.sqrt(s) * NODES))  # (K - 1, nodes)
    of_class = np.diff(np.concatenate([0 * below[:1], below, 0 * below[:1] + 1]), axis=0)
    mean = of_class @ WEIGHTS
    o = Moments(column(m), column(s))
    np.testing.assert_allclose(made.predict(o).probs[0].detach(), mean, rtol=1e-10)
    parts = made.variance_parts(o)
    np.testing.assert_allclose(parts.epistemic[0].detach(), of_class**2 @ WEIGHTS - mean**2, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(parts.total[0].detach(), mean * (1 - mean), rtol=1e-10)
    for y in range(classes):
        np.testing.assert_allclose(made.loss(o, torch.tensor([y])).item(), -np.log(mean[y]), rtol=1e-9)


def test_far_out_a_class_still_has_its_digits():
    made = likelihood()
    t = made.thresholds.detach().numpy()
    for m in (-30.0, 25.0):
        logs = [stats.norm.logcdf(t[0] - m), stats.norm.logsf(t[-1] - m)]
        tail = stats.norm.logsf if m < 0 else stats.norm.logcdf
        near, far = (t[0] - m, t[1] - m) if m < 0 else (t[1] - m, t[0] - m)
        inner = tail(near) + np.log1p(-np.exp(tail(far) - tail(near)))
        for y, expected in ((0, logs[0]), (1, inner), (3, logs[1])):
            np.testing.assert_allclose(
                made.loss(Moments(column(m), column(0.0)), torch.tensor([y])).item(), -expected, rtol=1e-9
            )


def test_classes_of_no_width_have_a_loss_and_a_gradient():
    made = L.OrderedClasses(3).double()
    with torch.no_grad():
        made.first_and_log_gaps[1] = -1e6
    m = column(0.2).requires_grad_()
    loss = made.loss(Moments(m, column(1e6)), torch.tensor([1]))
    assert loss.isfinite() and torch.autograd.grad(loss.sum(), m)[0].isfinite()


def grades(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(rows, 3))
    quality = X[:, 0] + 0.7 * np.sin(2 * X[:, 1]) + 0.4 * rng.normal(size=rows)
    return X, np.array([10, 20, 30, 40, 50])[np.digitize(quality, [-1.2, -0.3, 0.4, 1.5])]


def test_a_classifier_of_ordered_labels(tmp_path):
    X, y = grades(np.random.default_rng(0), 1_300)
    settings = {"max_epochs": 150, "random_state": 0}
    ordered, plain = (
        NPNClassifier(ordered=flag, **settings, effort="quick").fit(X[:300], y[:300]) for flag in (True, False)
    )
    logs = [model.log_likelihood(X[300:], y[300:]).mean() for model in (ordered, plain)]
    assert logs[0] > logs[1] + 0.03
    assert ordered.network_[-1].out_features == 1 and set(ordered.predict(X)) <= {10, 20, 30, 40, 50}
    probs = ordered.predict_proba(X)
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-12)
    assert (np.diff(np.sign(np.diff(probs, axis=1)), axis=1) <= 0).mean() > 0.95  # one peak
    parts = ordered.predict_variance(X)
    np.testing.assert_allclose(parts.total, probs * (1 - probs), rtol=1e-9)
    several = NPNClassifier(ordered=True, n_estimators=2, max_epochs=2, random_state=0).fit(X, y)
    for model in (ordered, several):
        io.save(model, tmp_path / "model.npn")
        np.testing.assert_allclose(io.load(tmp_path / "model.npn").predict_proba(X), model.predict_proba(X), rtol=1e-9)


def test_a_shape_that_does_not_fit():
    with pytest.raises(ValueError, match=r"outputs of shape \(\*replicas, batch, 1\)"):
        likelihood().loss(Moments(torch.zeros(3, 4), torch.zeros(3, 4)), torch.zeros(3, dtype=torch.long))
    with pytest.raises(ValueError, match="at least 2 classes, got 1"):
        L.OrderedClasses(1)
    with pytest.raises(ValueError, match="ordered expects True or False"):
        NPNClassifier(ordered="yes", effort="quick").fit(*grades(np.random.default_rng(0), 30))
