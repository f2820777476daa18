"""From the results of the three studies to figures, tables and the page that shows them."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from matplotlib.figure import Figure

from torchnpn import datasets, plots, report
from torchnpn.demo import counts, digits, toy
from torchnpn.demo.toy import Array

STUDIES = {"Twenty points of x³": toy, "Digits from few examples": digits, "Counts with a known rate": counts}
_LEAST_CERTAIN = 8  # digits that are shown


@dataclass(frozen=True)
class Results:
    """What the three studies found."""

    toy: toy.Result
    digits: digits.Result
    counts: counts.Result


def pictures(results: Results) -> dict[str, report.Picture]:
    """The four figures by name."""
    t, d, c = results.toy, results.digits, results.counts
    groups, curve = d.by_uncertainty, d.risk_coverage
    by_uncertainty = plots.UncertaintyCurves("NPN", groups.accuracy, groups.error, curve.coverage, curve.risk)
    least_certain = np.argsort(-(d.probs * (1 - d.probs)).sum(1), kind="stable")[:_LEAST_CERTAIN]
    guesses = [
        plots.Guess(d.images[i], str(d.labels[i]), str(d.probs[i].argmax()), float(d.probs[i].max()))
        for i in least_certain
    ]
    return {
        "toy": _picture(
            partial(plots.regression_bands, t.x, t.y, t.grid, t.truth, [plots.Band("NPN", t.mean, t.std)]),
            "Twenty points, the curve x³ and the predictive band, which becomes wide outside the points.",
            "The shades contain 68, 95 and 99.7 % of the predicted distribution of a new point. Beyond the points, a "
            "good band becomes wide enough to contain the dashed curve.",
        ),
        "digits": _picture(
            partial(plots.uncertainty_curves, [by_uncertainty]),
            "Left: accuracy falls with rising uncertainty. Right: error rate rises with the share of digits answered.",
            "Left: test digits in nine groups of equal size, by the network's own uncertainty, with standard errors. "
            "Right: the error rate if only the most certain digits are predicted; lower is better.",
        ),
        "least_certain": _picture(
            lambda columns, theme: plots.guesses(guesses, columns=4 * columns, theme=theme),
            "Eight digits that the NPN is least certain of, with its answer and its probability.",
            "The eight digits that the NPN is least certain about, with the predicted digit and its probability.",
        ),
        "counts": _picture(
            partial(plots.count_intervals, c.x, c.y, c.grid, c.truth, c.curve, c.test_rate, c.test, level=counts.LEVEL),
            "Left: counts along x, with predicted and true rate and intervals. Right: predicted against true rates.",
            "Left: the light band is the interval of a new count, the darker one that of its rate. Right: predicted "
            "rates of test rows with their intervals; on the dashed line they equal the true rates.",
        ),
    }


def _picture(draw: Callable[..., Figure], alt: str, caption: str) -> report.Picture:
    """For wide pages, with panels side by side, and narrow ones, in light and dark colours."""
    wide, narrow = (
        report.Variants(*(plots.png(draw(columns=columns, theme=theme)) for theme in (plots.LIGHT, plots.DARK)))
        for columns in (2, 1)
    )
    return report.Picture(alt, caption, wide, narrow)


def sections(results: Results, pictures: Mapping[str, report.Picture]) -> list[report.Section]:
    """One for each study, with its figures and its table."""
    toys, hard, rates = STUDIES
    return [
        _toy_section(toys, results.toy, [pictures["toy"]]),
        _digits_section(hard, results.digits, [pictures["digits"], pictures["least_certain"]]),
        _counts_section(rates, results.counts, [pictures["counts"]]),
    ]


def _toy_section(title: str, t: toy.Result, pictures: Sequence[report.Picture]) -> report.Section:
    least = 0.5 * np.log(2 * np.pi * np.e * datasets.toy.NOISE_STD**2)
    return report.Section(
        title,
        f"{toy.POINTS} points of y = x³, with Gaussian noise of standard deviation {datasets.toy.NOISE_STD:g}, lie "
        "between −4 and 4. A network of 100 ReLU units predicts everything from −6 to 6. It should fit the points "
        "where there are some, and be uncertain where there are none.",
        [
            report.Fact(f"{t.coverage:.0%}", "of the true curve within ±3 std where the points lie"),
            report.Fact(f"{t.outside:.0%}", "of it within ±3 std beyond them, where nothing was seen"),
            report.Fact(f"{t.widening:.1f}×", "wider at ±6 than at 0"),
        ],
        pictures,
        report.Table(
            ["", "NPN", "ideal"],
            [
                ["RMSE to the curve, |x| ≤ 4", f"{t.rmse:.2f}", "0.00"],
                ["curve within ±3 std, |x| ≤ 4", f"{t.coverage:.0%}", "100%"],
                ["curve within ±3 std, 4 < |x| ≤ 6", f"{t.outside:.0%}", "100%"],
                ["std at ±6 over std at 0", f"{t.widening:.1f}", "–"],
                ["NLL of fresh points, |x| ≤ 4", f"{t.nll:.2f}", f"{least:.2f}"],
            ],
        ),
        "The ideal NLL is that of the true curve and its noise. The documentation compares other methods, on the "
        "page of results.",
    )


def _digits_section(title: str, d: digits.Result, pictures: Sequence[report.Picture]) -> report.Section:
    most_certain, least_certain = _thirds(d.risk_coverage.risk)
    return report.Section(
        title,
        f"Handwritten digits of 8 × 8 pixels, {digits.ROWS} to learn from and {len(d.labels):,} to "
        "be tested on. Some digits are hard. A network that knows which ones can leave them to a person.",
        [
            report.Fact(f"{d.accuracy:.1%}", "of the test digits are right"),
            report.Fact(f"{most_certain:.1%}", "among the third it is most certain of"),
            report.Fact(f"{least_certain:.1%}", "among the third it is least certain of"),
        ],
        pictures,
        report.Table(
            ["", "NPN"],
            [
                ["accuracy", f"{d.accuracy:.1%}"],
                ["NLL", f"{d.nll:.3f}"],
                ["accuracy, most certain third", f"{most_certain:.1%}"],
                ["accuracy, least certain third", f"{least_certain:.1%}"],
                ["mean error over all shares kept", f"{d.risk_coverage.area:.2%}"],
            ],
        ),
        "The NLL measures the predicted probabilities, not only the predicted class. The last line is the mean "
        "error rate over all shares of digits that one might keep, the most certain first.",
    )


def _thirds(risk: Array) -> tuple[float, float]:
    """Accuracy among the most and the least certain third of the rows, from the error rates among the first k."""
    n, k = risk.size, risk.size // 3
    wrong = risk * np.arange(1, n + 1)  # errors among the first 1, 2, … rows
    return 1 - float(risk[k - 1]), 1 - float(wrong[-1] - wrong[n - k - 1]) / k


def _counts_section(title: str, c: counts.Result, pictures: Sequence[report.Picture]) -> report.Section:
    level = f"{counts.LEVEL:.0%}"
    return report.Section(
        title,
        f"{counts.ROWS} counts, drawn from a Poisson distribution whose rate depends on x. The predictive "
        "distribution is one of counts too: its intervals end at whole numbers and never fall below zero.",
        [
            report.Fact(f"{c.coverage:.1%}", f"of {counts.TEST_ROWS:,} fresh counts in their {level} interval"),
            report.Fact(f"{c.expected:.1%}", "is what the model predicts: whole numbers make intervals wider"),
            report.Fact(f"{c.rate_coverage:.1%}", f"of the true rates in the {level} interval of the rate"),
        ],
        pictures,
        report.Table(
            ["", "NPNRegressor", "ideal"],
            [
                [f"counts in their {level} interval", f"{c.coverage:.1%}", f"{c.expected:.1%}"],
                [f"true rates in their {level} interval", f"{c.rate_coverage:.1%}", f"{counts.LEVEL:.1%}"],
                ["NLL of fresh counts", f"{c.nll:.3f}", f"{c.best_nll:.3f}"],
            ],
        ),
        "The ideal NLL is that of the true distribution itself. The interval of the rate shows the uncertainty "
        "that more data would reduce; the interval of a count adds the randomness of the counts, which no data "
        "reduces.",
    )


def html(sections: Sequence[report.Section], seconds: float) -> str:
    """The page, with all figures inside."""
    return report.html(
        "Networks that know what they do not know",
        "Three small studies with natural-parameter networks: every weight, neuron and output is a distribution, and "
        "one pass gives a prediction together with its uncertainty. Nothing is sampled.",
        sections,
        f"Made by npn demo in {seconds:.0f} seconds with torch {torch.__version__} on {platform.machine()}.",
    )
