"""Toy and activations: their figures are what textbooks say."""

from __future__ import annotations

import numpy as np
import pytest
from committed import recorded
from npn_studies.experiments import activations, toy, toy_search
from scipy import special, stats

from torchnpn import datasets

# Toy


def test_toy_points_of_seed_0_are_the_data_set():
    ((x, y, *_),) = toy.curves(toy.METHODS["dropout"], {**toy.METHODS["dropout"].settings, **toy.QUICK}, seeds=[0])
    data = datasets.load("toy")
    np.testing.assert_array_equal(x, data.X[:, 0])
    np.testing.assert_array_equal(y, data.y)


def test_toy_figures_match_their_definitions():
    grid, truth = toy.GRID, toy.GRID**3
    std = np.where(np.abs(grid + 1) > 3, 8.0, 2.0) + 0.1 * np.abs(grid)  # narrow from -4 to 2
    mean = truth + np.where(grid > 3, 30.0, 1.0)
    found = toy.judged(mean, std)
    expected = [
        -stats.norm(t, 3.0).expect(lambda y: stats.norm(m, s).logpdf(y))
        for t, m, s in zip(truth[::40], mean[::40], std[::40], strict=True)
    ]
    np.testing.assert_allclose(toy_nll(mean, std)[::40], expected, rtol=1e-6)
    assert found["nll"] == pytest.approx(toy_nll(mean, std).mean())
    assert found["least_std"] == pytest.approx(2.0)
    assert (found["widens_left"], found["widens_right"]) == pytest.approx((-4.0, 2.0))
    assert found["std_at_ends"] == pytest.approx(2.4) and found["std_far"] == pytest.approx(8.6)
    assert found["grows_outside"] == 1.0
    inside = np.abs(grid) <= 4
    assert found["held_inside"] == pytest.approx(np.mean(grid[inside] <= 3))
    assert found["rmse_inside"] == pytest.approx(np.sqrt(np.mean(np.where(grid[inside] > 3, 900, 1))))


def toy_nll(mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """Entropy of the noise plus the divergence of the two Gaussians, as textbooks have it."""
    entropy = 0.5 * np.log(2 * np.pi * np.e * 9)
    return entropy + np.log(std / 3) + (9 + (mean - toy.GRID**3) ** 2) / (2 * std**2) - 0.5


def test_toy_record_shows_what_it_must():
    figures = recorded("toy")["cells"]["npn"]["figures"]
    assert len(figures["nll"]) >= 5
    assert set(figures["held_inside"]) == {1.0}
    assert set(figures["grows_outside"]) == {1.0}
    assert min(np.divide(figures["std_far"], figures["least_std"])) > 3


def test_toy_uses_the_best_settings_of_its_search():
    record = recorded("toy_search")
    for name, method in toy.METHODS.items():
        assert toy_search.best(record, name) == method.settings
    reported = {seed for cell in recorded("toy")["cells"].values() for seed in range(cell["settings"]["seeds"])}
    assert reported.isdisjoint(seed for cell in record["cells"].values() for seed in cell["settings"]["seeds"])


# Activations


def closed_form(name: str, x: np.ndarray, tau: float) -> tuple[np.ndarray, np.ndarray]:
    """E v and std v from E exp(-kτu): a gamma's Laplace transform, a beta's moment of order kτ, a Rayleigh's of x²."""
    laplace = {
        "gamma": lambda k: (1 + k * tau * x / 4) ** -4,
        "beta": lambda k: special.beta(10 * x + k * tau, 10 * (1 - x)) / special.beta(10 * x, 10 * (1 - x)),
        "rayleigh": lambda k: 1 / (1 + 4 / np.pi * k * tau * x**2),
    }[name]
    once, twice = laplace(1), laplace(2)
    return (once if name == "beta" else 1 - once), np.sqrt(twice - once**2)


@pytest.mark.parametrize("name", activations.ACTIVATIONS)
def test_activations_match_closed_forms(name):
    figures, activation = recorded("activations")["cells"][name]["figures"], activations.ACTIVATIONS[name]
    mean, std = closed_form(name, np.asarray(figures["input_mean"]), activation.taus[1])
    np.testing.assert_allclose(figures["mean"], mean, rtol=1e-5)
    np.testing.assert_allclose(figures["std"], std, rtol=1e-4, atol=1e-6)
    x = np.asarray(figures["x"])
    for tau, v in zip(activation.taus, figures["v"], strict=True):
        expected = {"gamma": 1 - np.exp(-tau * x), "beta": x**tau, "rayleigh": 1 - np.exp(-tau * x**2)}[name]
        np.testing.assert_allclose(v, expected, rtol=1e-5, atol=1e-6)
        assert (np.diff(v) >= 0).all() and v[0] == 0 and v[-1] <= 1
    assert figures["quadrature_error"] < 1e-7
