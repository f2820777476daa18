"""From the results of the three studies to figures, tables and the page that shows them."""

from __future__ import annotations

import platform
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.figure import Figure

from torchnpn import datasets, plots, report
from torchnpn.demo import counts, digits, toy
from torchnpn.plots import DARK, LIGHT, Theme

WIDTHS = ("wide", "narrow")  # of a page: panels side by side, or one below the other
STUDIES = {"Twenty points of x³": toy, "Digits from few examples": digits, "Counts with a known rate": counts}
_NONE = "–"


@dataclass(frozen=True)
class Results:
    """What the three studies found."""

    toy: toy.Result
    digits: digits.Result
    counts: counts.Result


def figures(results: Results, width: str = "wide", theme: Theme = LIGHT) -> dict[str, Figure]:
    """The four figures by name."""
    t, d, c = results.toy, results.digits, results.counts
    columns = 2 if width == "wide" else 1
    return {
        "toy": plots.regression_bands(
            t.x,
            t.y,
            t.grid,
            t.truth,
            [plots.Band("NPN", t.mean, t.std)],
            columns=columns,
            theme=theme,
        ),
        "digits": plots.uncertainty_curves([_curves(d)], columns=columns, theme=theme),
        "least_certain": plots.guesses(_least_certain(d), columns=4 * columns, theme=theme),
        "counts": plots.count_intervals(
            c.x,
            c.y,
            c.grid,
            c.truth,
            _interval(c.curve),
            c.test_rate,
            _interval(c.test),
            level=counts.LEVEL,
            columns=columns,
            theme=theme,
        ),
    }


def tables(results: Results) -> dict[str, report.Table]:
    """The figures of each study, by its title."""
    t, d, c = results.toy, results.digits, results.counts
    level = f"{counts.LEVEL:.0%}"
    least = 0.5 * np.log(2 * np.pi * np.e * datasets.toy.NOISE_STD**2)
    certain = _thirds(d)
    return {
        "Twenty points of x³": report.Table(
            ["", "NPN", "ideal"],
            [
                ["RMSE to the curve, |x| ≤ 4", f"{t.rmse:.2f}", "0.00"],
                ["curve within ±3 std, |x| ≤ 4", f"{t.coverage:.0%}", "100%"],
                ["curve within ±3 std, 4 < |x| ≤ 6", f"{t.outside:.0%}", "100%"],
                ["std at ±6 over std at 0", f"{t.widening:.1f}", _NONE],
                ["NLL of fresh points, |x| ≤ 4", f"{t.nll:.2f}", f"{least:.2f}"],
            ],
        ),
        "Digits from few examples": report.Table(
            ["", "NPN"],
            [
                ["accuracy", f"{d.accuracy:.1%}"],
                ["NLL", f"{d.nll:.3f}"],
                ["accuracy, most certain third", f"{certain[0]:.1%}"],
                ["accuracy, least certain third", f"{certain[1]:.1%}"],
                ["mean error over all shares kept", f"{d.risk_coverage.area:.2%}"],
            ],
        ),
        "Counts with a known rate": report.Table(
            ["", "NPNRegressor", "ideal"],
            [
                [f"counts in their {level} interval", f"{c.coverage:.1%}", f"{c.expected:.1%}"],
                [f"true rates in their {level} interval", f"{c.rate_coverage:.1%}", f"{counts.LEVEL:.1%}"],
                ["NLL of fresh counts", f"{c.nll:.3f}", f"{c.best_nll:.3f}"],
            ],
        ),
    }


def html(results: Results, seconds: float) -> str:
    """The page, with all figures inside."""
    t, d, c = results.toy, results.digits, results.counts
    titles = list(found := tables(results))
    pictures = _pictures(results)
    level, certain = f"{counts.LEVEL:.0%}", _thirds(d)
    sections = [
        report.Section(
            titles[0],
            f"{toy.POINTS} points of y = x³, with Gaussian noise of standard deviation {datasets.toy.NOISE_STD:g}, lie "
            "between −4 and 4. A network of 100 ReLU units predicts everything from −6 to 6. It should fit the points "
            "where there are some, and be uncertain where there are none.",
            [
                report.Fact(f"{t.coverage:.0%}", "of the true curve within ±3 std where the points lie"),
                report.Fact(f"{t.outside:.0%}", "of it within ±3 std beyond them, where nothing was seen"),
                report.Fact(f"{t.widening:.1f}×", "wider at ±6 than at 0"),
            ],
            [pictures["toy"]],
            found[titles[0]],
            "The ideal NLL is that of the true curve and its noise. The documentation compares other methods, on the "
            "page of results.",
        ),
        report.Section(
            titles[1],
            f"Handwritten digits of 8 × 8 pixels, {digits.ROWS} to learn from and {len(d.labels):,} to "
            "be tested on. Some digits are hard. A network that knows which ones can leave them to a person.",
            [
                report.Fact(f"{d.accuracy:.1%}", "of the test digits are right"),
                report.Fact(f"{certain[0]:.1%}", "among the third it is most certain of"),
                report.Fact(f"{certain[1]:.1%}", "among the third it is least certain of"),
            ],
            [pictures["digits"], pictures["least_certain"]],
            found[titles[1]],
            "The NLL measures the predicted probabilities, not only the predicted class. The last line is the mean "
            "error rate over all shares of digits that one might keep, the most certain first.",
        ),
        report.Section(
            titles[2],
            f"{counts.ROWS} counts, drawn from a Poisson distribution whose rate depends on x. The predictive "
            "distribution is one of counts too: its intervals end at whole numbers and never fall below zero.",
            [
                report.Fact(f"{c.coverage:.1%}", f"of {counts.TEST_ROWS:,} fresh counts in their {level} interval"),
                report.Fact(
                    f"{c.expected:.1%}",
                    "is what the model predicts: whole numbers make intervals wider",
                ),
                report.Fact(f"{c.rate_coverage:.1%}", f"of the true rates in the {level} interval of the rate"),
            ],
            [pictures["counts"]],
            found[titles[2]],
            "The ideal NLL is that of the true distribution itself. The interval of the rate shows the uncertainty "
            "that more data would reduce; the interval of a count adds the randomness of the counts, which no data "
            "reduces.",
        ),
    ]
    return report.html(
        "Networks that know what they do not know",
        "Three small studies with natural-parameter networks: every weight, neuron and output is a distribution, and "
        "one pass gives a prediction together with its uncertainty. Nothing is sampled.",
        sections,
        f"Made by npn demo in {seconds:.0f} seconds with torch {torch.__version__} on {platform.machine()}.",
    )


def _pictures(results: Results) -> dict[str, report.Picture]:
    drawn = {
        (width, name): {key: plots.png(figure) for key, figure in figures(results, width, theme).items()}
        for width in WIDTHS
        for name, theme in (("light", LIGHT), ("dark", DARK))
    }

    def variants(key: str, width: str) -> report.Variants:
        return report.Variants(drawn[width, "light"][key], drawn[width, "dark"][key])

    return {
        key: report.Picture(alt, caption, variants(key, "wide"), variants(key, "narrow"))
        for key, (alt, caption) in _WORDS.items()
    }


_WORDS = {
    "toy": (
        "Twenty points, the curve x³ and the predictive band, which becomes wide outside the points.",
        "The shades contain 68, 95 and 99.7 % of the predicted distribution of a new point. Beyond the points, a good "
        "band becomes wide enough to contain the dashed curve.",
    ),
    "digits": (
        "Left: accuracy falls with rising uncertainty. Right: error rate rises with the share of digits answered.",
        "Left: test digits in nine groups of equal size, by the network's own uncertainty, with standard errors. "
        "Right: the error rate if only the most certain digits are predicted; lower is better.",
    ),
    "least_certain": (
        "Eight digits that the NPN is least certain of, with its answer and its probability.",
        "The eight digits that the NPN is least certain about, with the predicted digit and its probability.",
    ),
    "counts": (
        "Left: counts along x, with predicted and true rate and intervals. Right: predicted against true rates.",
        "Left: the light band is the interval of a new count, the darker one that of its rate. Right: predicted rates "
        "of test rows with their intervals; on the dashed line they equal the true rates.",
    ),
}


def _curves(d: digits.Result) -> plots.UncertaintyCurves:
    groups, curve = d.by_uncertainty, d.risk_coverage
    return plots.UncertaintyCurves("NPN", groups.accuracy, groups.error, curve.coverage, curve.risk)


def _least_certain(d: digits.Result) -> list[plots.Guess]:
    probs = d.probs
    rows = np.argsort(-(probs * (1 - probs)).sum(1), kind="stable")[:8]
    return [plots.Guess(d.images[i], str(d.labels[i]), str(probs[i].argmax()), float(probs[i].max())) for i in rows]


def _interval(curve: counts.Curve) -> plots.Interval:
    return plots.Interval(curve.mean, curve.rate_low, curve.rate_high, curve.low, curve.high)


def _thirds(d: digits.Result) -> tuple[float, float]:
    """Accuracy among the most and the least certain third of the rows."""
    risk = d.risk_coverage.risk
    n, k = risk.size, risk.size // 3
    wrong = risk * np.arange(1, n + 1)  # errors among the first 1, 2, … rows
    return 1 - float(risk[k - 1]), 1 - float(wrong[-1] - wrong[n - k - 1]) / k
