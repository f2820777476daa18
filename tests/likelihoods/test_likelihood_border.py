"""Likelihoods at the border: what they refuse, and what they say."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_likelihoods import by_name

from torchnpn import families
from torchnpn import likelihoods as L
from torchnpn.moments import Moments


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
        (L.LogNormalAmounts(), [[0.0], [3.0]], "LogNormalAmounts expects targets > 0, got 0"),
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
