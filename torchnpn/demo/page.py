"""From the results of the three studies to figures, tables and the page that shows them."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from torchnpn import plots, report
from torchnpn.datasets.toy import NOISE_STD
from torchnpn.demo import counts, digits, toy
from torchnpn.plots import DARK, LIGHT, Theme

WIDTHS = ("wide", "narrow")  # of a page: panels side by side, or one below the other
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
            [plots.Band(f.name, f.mean, f.std) for f in (t.npn, t.dropout)],
            columns=columns,
            theme=theme,
        ),
        "digits": plots.uncertainty_curves([_curves(model) for model in d.models], columns=columns, theme=theme),
        "doubtful": plots.guesses(_most_doubtful(d), columns=4 * columns, theme=theme),
        "counts": plots.count_intervals(
            c.x,
            c.y,
            c.grid,
            c.truth,
            _interval(c.curve),
            c.test_rate,
            _interval(c.test),
            level=c.settings.level,
            columns=columns,
            theme=theme,
        ),
    }


def tables(results: Results) -> dict[str, report.Table]:
    """The figures of each study, by its title."""
    t, d, c = results.toy, results.digits, results.counts
    fits, models = (t.npn, t.dropout), d.models

    def row(name: str, value: Callable[[Any], float], form: str, items: tuple[Any, ...]) -> list[str]:
        return [name, *(format(value(item), form) for item in items)]

    def best(items: tuple[Any, ...], value: Callable[[Any], float]) -> int | None:
        """The column of the smallest value, or None where two are equal."""
        values = [value(item) for item in items]
        return None if values.count(min(values)) > 1 else 1 + values.index(min(values))

    least = 0.5 * np.log(2 * np.pi * np.e * NOISE_STD**2)
    return {
        "Twenty points of x³": report.Table(
            ["", *(fit.name for fit in fits), "ideal"],
            [
                [*row("RMSE to the curve, |x| ≤ 4", lambda f: f.rmse, ".2f", fits), "0.00"],
                [*row("curve within ±3 std, |x| ≤ 4", lambda f: f.coverage, ".0%", fits), "100%"],
                [*row("curve within ±3 std, 4 < |x| ≤ 6", lambda f: f.outside, ".0%", fits), "100%"],
                [*row("std at ±6 over std at 0", lambda f: f.widening, ".1f", fits), _NONE],
                [*row("NLL of fresh points, |x| ≤ 4", lambda f: f.nll, ".2f", fits), f"{least:.2f}"],
            ],
            best=[
                best(fits, lambda f: f.rmse),
                best(fits, lambda f: -f.coverage),
                best(fits, lambda f: -f.outside),
                None,
                best(fits, lambda f: f.nll),
            ],
        ),
        "Digits from few examples": report.Table(
            ["", *(model.name for model in models)],
            [
                row("accuracy", lambda m: m.accuracy, ".1%", models),
                row("NLL", lambda m: m.nll, ".3f", models),
                row("accuracy, most certain third", lambda m: _thirds(m)[0], ".1%", models),
                row("accuracy, least certain third", lambda m: _thirds(m)[1], ".1%", models),
                row("mean error over all shares kept", lambda m: m.risk_coverage.area, ".2%", models),
            ],
            best=[
                best(models, lambda m: -m.accuracy),
                best(models, lambda m: m.nll),
                best(models, lambda m: -_thirds(m)[0]),
                None,  # a good network leaves its mistakes to the rows that it is uncertain about
                best(models, lambda m: m.risk_coverage.area),
            ],
        ),
        "Counts with a known rate": report.Table(
            ["", "NPN", "ideal"],
            [
                [f"counts in their {c.settings.level:.0%} interval", f"{c.coverage:.1%}", f"{c.expected:.1%}"],
                [
                    f"true rates in their {c.settings.level:.0%} interval",
                    f"{c.rate_coverage:.1%}",
                    f"{c.settings.level:.1%}",
                ],
                ["NLL of fresh counts", f"{c.nll:.3f}", f"{c.best_nll:.3f}"],
            ],
        ),
    }


def html(results: Results, seconds: float) -> str:
    """The page, with all figures inside."""
    t, d, c = results.toy, results.digits, results.counts
    titles = list(found := tables(results))
    pictures = _pictures(results)
    level, certain = f"{c.settings.level:.0%}", _thirds(d.npn)
    sections = [
        report.Section(
            titles[0],
            f"{t.settings.points} points of y = x³, with Gaussian noise of standard deviation {NOISE_STD:g}, lie "
            "between −4 and 4. A network of 100 ReLU units predicts everything from −6 to 6. It should fit the points "
            "where there are some, and be uncertain where there are none.",
            [
                report.Fact(f"{t.npn.coverage:.0%}", "of the true curve within ±3 std where the points lie"),
                report.Fact(f"{t.npn.outside:.0%}", "of it within ±3 std beyond them, where nothing was seen"),
                report.Fact(f"{t.npn.widening:.1f}×", "wider at ±6 than at 0"),
            ],
            [pictures["toy"]],
            found[titles[0]],
            "Both networks have the same size, the same likelihood with a learnt noise, and the same training; MC "
            f"dropout averages {t.settings.passes} random passes, the NPN needs one. Where the points lie both fit "
            "well, and MC dropout, whose rate was chosen by NLL, has the lower NLL. They differ beyond the points, "
            "where the NPN is more uncertain. A dropout rate of 0.5 would make the band of MC dropout wider, at a "
            "higher NLL.",
        ),
        report.Section(
            titles[1],
            f"Handwritten digits of 8 × 8 pixels, {d.settings.training_rows} to learn from and {len(d.labels):,} to "
            "be tested on. Some digits are hard. A network that knows which ones can leave them to a person.",
            [
                report.Fact(f"{d.npn.accuracy:.1%}", "of the test digits are right"),
                report.Fact(f"{certain[0]:.1%}", "among the third it is most certain of"),
                report.Fact(f"{certain[1]:.1%}", "among the third it is least certain of"),
            ],
            [pictures["digits"], pictures["doubtful"]],
            found[titles[1]],
            "All three have the same layers and the same training; each has the best of nine settings on other splits. "
            "A lower NLL means that the probabilities are better, not only the predicted class.",
        ),
        report.Section(
            titles[2],
            f"{c.settings.rows} counts, drawn from a Poisson distribution whose rate depends on x. The predictive "
            "distribution is one of counts too: its intervals end at whole numbers and never fall below zero.",
            [
                report.Fact(f"{c.coverage:.1%}", f"of {c.settings.test_rows:,} fresh counts in their {level} interval"),
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
            "reduces. The true rates lie on one curve: where the fit is wrong, it is wrong for many rows at once, so "
            "the share of rates inside their intervals varies much between seeds.",
        ),
    ]
    return report.html(
        "Networks that know what they do not know",
        "Three small studies with natural-parameter networks: every weight, neuron and output is a distribution, and "
        "one pass gives a prediction together with its uncertainty. Nothing is sampled.",
        sections,
        f"Made by npn demo in {seconds:.0f} seconds with torch {torch.__version__} on {platform.machine()}. "
        f"Seeds: {t.settings.seed}, {d.settings.seed}, {c.settings.seed}.",
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
        "Two panels with twenty points, the curve x³ and predictive bands: the NPN's band becomes wide outside the "
        "points, that of MC dropout much less.",
        "The shades contain 68, 95 and 99.7 % of the predicted distribution of a new point. Beyond the points, a good "
        "band becomes wide enough to contain the dashed curve.",
    ),
    "digits": (
        "Left: accuracy falls with rising uncertainty. Right: error rate rises with the share of digits answered.",
        "Left: test digits in nine groups of equal size, by the network's own uncertainty, with standard errors. "
        "Right: the error rate if only the most certain digits are predicted; lower is better.",
    ),
    "doubtful": (
        "Eight digits that the NPN is least certain of, with its answer and its probability.",
        "The eight digits that the NPN is least certain about, with the predicted digit and its probability.",
    ),
    "counts": (
        "Left: counts along x, with predicted and true rate and intervals. Right: predicted against true rates.",
        "Left: the light band is the interval of a new count, the darker one that of its rate. Right: predicted rates "
        "of test rows with their intervals; on the dashed line they equal the true rates.",
    ),
}


def _curves(model: digits.Model) -> plots.UncertaintyCurves:
    groups, curve = model.by_uncertainty, model.risk_coverage
    return plots.UncertaintyCurves(model.name, groups.accuracy, groups.error, curve.coverage, curve.risk)


def _most_doubtful(d: digits.Result) -> list[plots.Guess]:
    probs = d.npn.probs
    rows = np.argsort(-(probs * (1 - probs)).sum(1), kind="stable")[:8]
    return [plots.Guess(d.images[i], str(d.labels[i]), str(probs[i].argmax()), float(probs[i].max())) for i in rows]


def _interval(curve: counts.Curve) -> plots.Interval:
    return plots.Interval(curve.mean, curve.rate_low, curve.rate_high, curve.low, curve.high)


def _thirds(model: digits.Model) -> tuple[float, float]:
    """Accuracy among the most and the least certain third of the rows."""
    risk = model.risk_coverage.risk
    n, k = risk.size, risk.size // 3
    wrong = risk * np.arange(1, n + 1)  # errors among the first 1, 2, … rows
    return 1 - float(risk[k - 1]), 1 - float(wrong[-1] - wrong[n - k - 1]) / k
