"""The page of `mnist_variance`: tables, what they show, and the figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npn_studies.experiments.digit_methods import METHODS
from npn_studies.experiments.experiment import Record
from npn_studies.experiments.tables import Summary, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCORES = {
    "entropy": "entropy",
    "output_variance": "variance of outputs",
    "probability_variance": "variance of probabilities",
    "information": "mutual information",
}
KINDS = {"fashion-mnist": "Fashion-MNIST", "notmnist": "notMNIST"}
HEADLINE = "entropy"  # chosen beforehand: every method has it, and no images from outside were there to choose by
DRAWN = "npn", "npn_mixture", "mc_dropout", "ensemble", "dropout_mixture"  # as curves
ABLATED = {"without_masks": "Gaussian NPN, no masks", "without_variance": "NPN, weights at their means"}


class Row(NamedTuple):
    """A method with one of its scores."""

    method: str
    score: str
    figures: dict[str, Any]  # of the score
    whole: dict[str, Any]  # of the method

    @property
    def label(self) -> str:
        """For tables and figures."""
        return f"{self.method}: {SCORES[self.score]}"

    @property
    def accuracy(self) -> list[float]:
        """Of each group, mean over seeds."""
        return [float(value) for value in np.mean(self.figures["accuracy"], axis=0)]

    def auroc(self, kind: str) -> Summary:
        """Against one kind of images."""
        return Summary.of(self.figures["auroc"][kind])


def rows(record: Record) -> list[Row]:
    """All methods with all their scores; the ablations after the NPN."""
    found: list[Row] = []
    for name, cell in record["cells"].items():
        whole = cell["figures"]
        methods = {METHODS[name].label: whole} | {label: whole[key] for key, label in ABLATED.items() if key in whole}
        for label, one in methods.items():
            found += [Row(label, score, one["scores"][score], one) for score in SCORES if score in one["scores"]]
    return found


def section(record: Record) -> str:
    """Accuracy by group, errors among answers kept, AUROC; the ablation and the controls."""
    found = rows(record)
    groups = len(found[0].accuracy)
    by_group = [[row.label, *(f"{100 * value:.2f}" for value in row.accuracy), _falls(row)] for row in found]
    values = [
        [
            row.label,
            *(str(Summary.of(row.whole[key])) for key in ("error", "nll")),
            str(Summary.of([1000 * area for area in row.figures["area"]])),
            *(str(row.auroc(kind)) for kind in KINDS),
        ]
        for row in found
    ]
    seeds = len(record["cells"]["npn"]["figures"]["error"])
    head = ["", "error, %", "NLL", "area under risk-coverage, ‰", *(f"AUROC, {name}" for name in KINDS.values())]
    return "\n\n".join(
        [
            f"Networks with the settings of `mnist`, {seeds} seeds; NPN and dropout are those with adversarial "
            f"training, the ensemble has plain networks. The test images stand in {groups} groups of equal size by "
            "rising uncertainty (in the paper, of equal width in Σ a_s, the variance of the output's sigmoids: [its "
            "bins](paper.md)). Accuracy in percent, and whether it never rises from one group to the next:",
            table(["", *map(str, range(1, groups + 1)), "falls"], by_group),
            "The area is the mean error rate when only the most certain answers are kept, over all shares kept: less "
            "is better. AUROC: how often an image that is no digit is more uncertain than a test digit.",
            table(head, values),
            _headline_score(found),
            _ablation(record),
        ]
    )


def _falls(row: Row) -> str:
    return "yes" if bool(np.all(np.diff(row.accuracy) <= 0)) else "no"


def _headline_score(found: list[Row]) -> str:
    chosen = {row.method: row for row in found if row.score == HEADLINE}
    ours = [label for name in ("npn", "npn_mixture") if (label := METHODS[name].label) in chosen]
    return (
        f"Methods are compared by {SCORES[HEADLINE]}, which was settled beforehand: all of them have it, and images "
        f"that are no digits were not there to choose a score by. By it the AUROC of the "
        f"{', and that of the '.join(f'{label} is {_standing(chosen, label)}' for label in ours)}. "
        "The other scores are shown for what they are; none was picked by these tables."
    )


def _standing(chosen: dict[str, Row], ours: str) -> str:
    """On which images a method is above which baselines."""
    others = [METHODS[name].label for name in ("mc_dropout", "ensemble", "dropout_mixture")]
    lines = []
    for kind, name in KINDS.items():
        above = [other for other in others if chosen[ours].auroc(kind).mean > chosen[other].auroc(kind).mean]
        missing = [other for other in others if other not in above]
        told = f"above {_and(above)}" if above else ""
        told += (", " if told and missing else "") + (f"not above {_and(missing)}" if missing else "")
        lines.append(f"on {name} {told}")
    return "; ".join(lines)


def _and(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _ablation(record: Record) -> str:
    ours = record["cells"]["npn"]["figures"]
    whose = {"without_masks": "with that of weights alone", "without_variance": "without"}

    def pair(value: Any) -> str:
        less = [f"{value(ours[key])} {told}" for key, told in whose.items() if key in ours]
        return ", ".join([f"{value(ours)} with all variance", *less])

    def auroc(kind: str) -> Any:
        return lambda one: Summary.of(one["scores"]["entropy"]["auroc"][kind])

    correlations = ", ".join(
        f"{SCORES[name]} {Summary.of(values).mean:.2f}" for name, values in ours["correlation"].items()
    )
    ink = ", ".join(f"{ours['ink'][kind]:.3f} on {name}" for kind, name in KINDS.items())
    return "\n".join(
        [
            "How much of it is the variance? The trained NPN is asked with masks of its hidden units, whose variance "
            "goes through the network in closed form; without masks; and with all weights at their means:"
            if "without_masks" in ours
            else "How much of it is the variance? With all weights of the trained NPN at their means:",
            "",
            f"- error in percent: {pair(lambda one: Summary.of(one['error']))}",
            f"- NLL: {pair(lambda one: Summary.of(one['nll']))}",
            f"- area under risk-coverage by entropy, ‰: {pair(_area)}",
            *(f"- AUROC by entropy, {name}: {pair(auroc(kind))}" for kind, name in KINDS.items()),
            "",
            "The variances themselves vanish with the weights' variance; what they add to the means is what differs in "
            f"these lines. Rank correlation of each score with the entropy of the network without variance: "
            f"{correlations}. A control without any network, the sum of squared pixels, has an AUROC of {ink}: part of "
            "any score that grows with the input is this.",
        ]
    )


def _area(one: dict[str, Any]) -> Summary:
    return Summary.of([1000 * area for area in one["scores"]["entropy"]["area"]])


def figure(record: Record) -> Figure:
    """Accuracy by group and risk-coverage for the paper's score and the one chosen; AUROC, where it is above chance."""
    from npn_studies.experiments.digit_figures import doubt

    ours, found = METHODS["npn"].label, rows(record)
    drawn = {METHODS[name].label for name in DRAWN} | {ABLATED["without_variance"]}
    shown = [
        row
        for row in found
        if row.method in drawn and (row.score == HEADLINE or (row.method, row.score) == (ours, "probability_variance"))
    ]
    return doubt(shown, [row for row in found if all(row.auroc(kind).mean > 0.5 for kind in KINDS)], KINDS)


def headline(record: Record) -> list[tuple[str, str, str]]:
    """Accuracy of the first and the last group, and both AUROC."""
    found = {(row.method, row.score): row for row in rows(record)}
    ours = METHODS["npn"].label
    groups = found[ours, "probability_variance"].accuracy
    told = " / ".join(f"{found[ours, HEADLINE].auroc(kind).mean:.3f}" for kind in KINDS)
    return [
        (
            "MNIST accuracy, least and most variance of nine groups",
            "falls with variance",
            f"{100 * groups[0]:.2f} % / {100 * groups[-1]:.2f} %",
        ),
        (f"AUROC by {SCORES[HEADLINE]}, {' / '.join(KINDS.values())}", "–", told),
    ]
