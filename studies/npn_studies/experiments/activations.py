"""Activations for families that live on part of the line (the paper's supplement, the figure of three activations).

Above: v(x) = r - q exp(-τ u(x)) itself. Below: what the map makes of an input that is not known exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import integrate, stats

from npn_studies.experiments.experiment import Cell, Experiment, Options, Progress, Record
from npn_studies.experiments.tables import rounded, table
from torchnpn.families import Beta, ExponentialFamily, Gamma, Rayleigh
from torchnpn.maps import saturating

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[Any]
PLACES = 81  # of a curve
CHECKED = 5  # of them, by quadrature


class Activation(NamedTuple):
    """A family, its activation, and an uncertain input with a given mean.

    Attributes:
        label: Of the family.
        formula: Of the activation, in words.
        taus: Rates to show; the moments are drawn for the middle one.
        end: x goes from 0 to here.
        tanh_scale: The paper compares with this multiple of tanh(x).
        v: The activation of numbers x, for some τ.
        moments: r and q of the map.
        uncertain: The input as a distribution with the means x.
        input: What that is, in words.
        reference: The same distribution for one mean, by scipy.
    """

    label: str
    formula: str
    taus: tuple[float, float, float]
    end: float
    tanh_scale: float
    v: Callable[[Array, float], Array]
    moments: tuple[float, float]
    uncertain: Callable[[torch.Tensor], ExponentialFamily]
    input: str
    reference: Callable[[float], Any]


ACTIVATIONS = {
    "gamma": Activation(
        label="Gamma, Poisson",
        formula="1 - exp(-τx)",
        taus=(0.5, 1.5, 4.0),
        end=3.0,
        tanh_scale=1.0,
        v=lambda x, tau: -np.expm1(-tau * x),
        moments=(1.0, 1.0),
        uncertain=lambda x: Gamma(torch.full_like(x, 4.0), 4.0 / x),
        input="gamma input, std = mean / 2",
        reference=lambda x: stats.gamma(4.0, scale=x / 4.0),
    ),
    "beta": Activation(
        label="Beta",
        formula="x^τ",
        taus=(0.3, 0.5, 0.8),
        end=1.0,
        tanh_scale=1.3,
        v=lambda x, tau: x**tau,
        moments=(0.0, -1.0),
        uncertain=lambda x: Beta(10.0 * x, 10.0 * (1.0 - x)),
        input="beta input, c + d = 10",
        reference=lambda x: stats.beta(10.0 * x, 10.0 * (1.0 - x)),
    ),
    "rayleigh": Activation(
        label="Rayleigh",
        formula="1 - exp(-τx²)",
        taus=(0.3, 1.0, 3.0),
        end=3.0,
        tanh_scale=1.0,
        v=lambda x, tau: -np.expm1(-tau * x**2),
        moments=(1.0, 1.0),
        uncertain=lambda x: Rayleigh(2.0 / np.pi * x**2),
        input="Rayleigh input",
        reference=lambda x: stats.rayleigh(scale=x * np.sqrt(2.0 / np.pi)),
    ),
}


def curves(activation: Activation) -> dict[str, Any]:
    """The activation for each τ, and mean and standard deviation of it for uncertain inputs and the middle τ."""
    x = np.linspace(0.0, activation.end, PLACES)
    inner = x[1:-1]  # a beta input cannot have a mean of 0 or 1, nor a gamma one of 0
    tau, (r, q) = activation.taus[1], activation.moments
    a_m, a_s = saturating(activation.uncertain(torch.as_tensor(inner)), tau, r, q)
    assert a_s is not None
    mean, std = a_m.numpy(), a_s.sqrt().numpy()
    errors = [
        np.abs(np.subtract((mean[i], std[i]), by_quadrature(activation, float(inner[i]), tau))).max()
        for i in np.linspace(0, len(inner) - 1, CHECKED).astype(int)
    ]
    return {
        "x": listed(x),
        "v": [listed(activation.v(x, each)) for each in activation.taus],
        "input_mean": listed(inner),
        "mean": listed(mean),
        "std": listed(std),
        "quadrature_error": float(f"{max(errors):.1e}"),
        "from_tanh": [rounded(np.abs(activation.v(x, t) - compared(activation, x)).max()) for t in activation.taus],
    }


def by_quadrature(activation: Activation, x: float, tau: float) -> tuple[float, float]:
    """Mean and standard deviation of v for an uncertain input with the mean x, by integrals over its quantiles."""
    p = activation.reference(x)

    def expected(f: Callable[[Array], Array]) -> float:
        return float(integrate.quad(lambda share: f(p.ppf(share)), 0, 1, epsabs=1e-12, epsrel=1e-10, limit=200)[0])

    mean = expected(lambda y: activation.v(y, tau))
    return mean, float(np.sqrt(expected(lambda y: (activation.v(y, tau) - mean) ** 2)))


def compared(activation: Activation, x: Array) -> Array:
    """What the paper compares an activation with."""
    return activation.tanh_scale * np.tanh(x)


def listed(values: Array) -> list[float]:
    """Six digits of each."""
    return [rounded(value) for value in values]


def cells(options: Options) -> list[Cell]:
    """One for each family; there is nothing to shorten, and nothing random."""

    def planned(name: str, activation: Activation) -> Cell:
        def run(progress: Progress) -> dict[str, Any]:
            found = curves(activation)
            progress(1.0)
            return found

        settings = {"taus": activation.taus, "end": activation.end, "input": activation.input, "places": PLACES}
        return Cell(name, settings, run, device="cpu")

    return [planned(name, activation) for name, activation in ACTIVATIONS.items()]


def section(record: Record) -> str:
    """How near each is to tanh, and our moments to quadrature."""
    rows = []
    for name, activation in ACTIVATIONS.items():
        found = record["cells"][name]["figures"]
        gaps = zip(activation.taus, found["from_tanh"], strict=True)
        tanh = "tanh(x)" if activation.tanh_scale == 1 else f"{activation.tanh_scale:g} tanh(x)"
        rows.append(
            [
                activation.label,
                f"`{activation.formula}`",
                ", ".join(f"{gap:.2f} (τ = {tau:g})" for tau, gap in gaps) + f" from {tanh}",
                activation.input,
                f"{found['quadrature_error']:.0e}",
            ]
        )
    head = ["family", "v(x)", "largest distance from the paper's comparison", "uncertain input", "error"]
    return "\n\n".join(
        [
            "The first row of the figure is the paper's: activations with moments in closed form (Theorem 1), beside "
            "the tanh that it compares them with. The second row shows what a distribution becomes: the mean of v(x) "
            "and ±1 standard deviation, from `maps.saturating`. The last column is the largest difference of these two "
            "from integrals by scipy.",
            table(head, rows, words=4),
            "The paper calls `1 - exp(-1.5x)` very similar to tanh(x); the table says how similar. Its other τ are not "
            "printed.",
        ]
    )


def figure(record: Record) -> Figure:
    """Activations above, their moments below."""
    from torchnpn.plots import LIGHT, dashed, legend, line, panels

    theme, colours = LIGHT, LIGHT.series[:3]
    with panels(2 * len(ACTIVATIONS), len(ACTIVATIONS), theme, (3.6, 2.9)) as (drawn, axes):
        for i, (name, activation) in enumerate(ACTIVATIONS.items()):
            found, above, below = record["cells"][name]["figures"], axes[i], axes[i + len(ACTIVATIONS)]
            x = np.asarray(found["x"])
            for tau, v, colour in zip(activation.taus, found["v"], colours, strict=True):
                above.plot(x, v, color=colour, linewidth=2, label=f"τ = {tau:g}")
            tanh = "tanh x" if activation.tanh_scale == 1 else f"{activation.tanh_scale:g} tanh x"
            above.plot(x, compared(activation, x), **theme.dashes, label=tanh)
            above.set(title=f"{activation.label}: {activation.formula}", xlim=(0, activation.end), ylim=(0, 1.08))
            above.legend(loc="lower right", labelcolor=theme.ink, handlelength=1.5)

            at, mean, std = (np.asarray(found[key]) for key in ("input_mean", "mean", "std"))
            below.fill_between(at, mean - std, mean + std, color=colours[1], alpha=0.22, linewidth=0)
            below.plot(x, found["v"][1], color=theme.muted, linewidth=1.4)
            below.plot(at, mean, color=colours[1], linewidth=2)
            title = f"{activation.input}, τ = {activation.taus[1]:g}"
            below.set_title(title, fontsize=9.5, fontweight="normal", color=theme.muted)
            below.set(xlabel="mean of x", xlim=(0, activation.end), ylim=(0, 1.08))
        axes[0].set_ylabel("v(x)")
        axes[len(ACTIVATIONS)].set_ylabel("mean of v(x), ±1 std")
        handles = [line(colours[1], "mean of v(x) for uncertain x"), line(theme.muted, "v at the mean of x")]
        legend(drawn, theme, [*handles, dashed(theme, "tanh, for comparison")], columns=3)
    return drawn


EXPERIMENT = Experiment(
    name="activations",
    title="Activations of three families",
    place="Supplement",
    minutes=0.1,
    cells=cells,
    section=section,
    figure=figure,
)
