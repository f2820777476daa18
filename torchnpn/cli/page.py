"""The report of `npn fit`: what was learnt, how far it can be trusted, and what it relies on, for any reader."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix

import torchnpn
from torchnpn import metrics, plots, report, tables
from torchnpn.cli.words import describe_column

_WIDE = 8.8  # inches of a figure with two panels
_MOST_BARS, _MOST_COLUMNS, _MOST_LABELS = 10, 200, 20
Array = NDArray[Any]
Draw = Callable[..., Figure]  # takes columns and theme


class Findings(NamedTuple):
    """What a report tells beside the model itself."""

    survey: tables.Survey
    left_out: list[tables.LeftOut]
    kind: tables.Kind
    outcome: tables.Outcome  # of the held-out rows
    importance: tables.Importance


def html(model: tables.TableModel, found: Findings) -> str:
    """The page, with all figures inside."""
    name, record = model.target.name, model.record
    if isinstance(found.outcome, tables.ClassOutcome):
        trust = _class_sections(model, found.outcome)
    else:
        trust = _number_sections(model, found.outcome)
    return report.html(
        f"Predicting {name}",
        f"A natural-parameter network learnt {name} from {record.rows:,} rows of {record.file}. Each prediction is a "
        f"whole distribution. {record.held_out:,} more rows were held out; all figures below are about these.",
        [_summary(model, found), *trust, _reliance(found.importance), _columns(model, found)],
        f"Made by npn fit, torchnpn {torchnpn.__version__}, torch {torch.__version__}.",
    )


def _summary(model: tables.TableModel, found: Findings) -> report.Section:
    figures = {figure.name: figure for figure in model.record.figures}
    first, nll = model.record.figures[0], figures["NLL (nats)"]
    share = 1 - first.model / first.marginal if first.marginal else 0.0
    error = "error rate" if model.target.is_class else "typical error (RMSE)"
    more = "less" if share >= 0 else "more"
    facts = [
        report.Fact(first.shown()[1], f"{error} on rows it has not seen"),
        report.Fact(f"{abs(share):.0%} {more}", f"than the baseline's {first.shown()[2]}"),
        report.Fact(
            f"{np.exp(nll.marginal - nll.model):.3g}×",
            "the baseline's probability of the true value, on (geometric) average",
        ),
    ]
    table = report.Table(["", "model", "baseline"], [figure.shown() for figure in model.record.figures])
    return report.Section(
        "What was learnt",
        tables.sentence(model.target, found.kind),
        facts,
        table=table,
        note="The baseline knows how the target is distributed in the training rows, and looks at no column: what the "
        "model gains over it was learnt from the columns. " + _measures(model.target),
    )


def _measures(target: tables.Target) -> str:
    if target.is_class:
        return (
            "NLL: minus the logarithm of the probability given to the true class. Brier score: squared error of the "
            "probabilities. Calibration error: distance between stated confidence and accuracy. Lower is better in all."
        )
    return (
        "RMSE: root of the mean squared error. NLL: minus the logarithm of the probability (density) given to the true "
        "value. CRPS: distance between the predicted distribution and the true value, in its units. Lower is better in "
        "all three. Intervals should hold their share of the rows, and be narrow."
    )


def _number_sections(model: tables.TableModel, outcome: tables.NumberOutcome) -> list[report.Section]:
    covered = metrics.interval_coverage(outcome.low, outcome.high, outcome.y)
    off = metrics.regression_calibration_error(outcome.pit)
    whole = " Intervals of counts end at whole numbers, so they hold more." if model.target.is_count else ""
    by_chance = 0.31 / np.sqrt(len(outcome.y))
    intervals = partial(
        plots.prediction_intervals,
        outcome.y,
        outcome.mean,
        outcome.low,
        outcome.high,
        level=0.9,
        name=model.target.name,
    )
    return [
        report.Section(
            "Predictions beside the truth",
            f"Of the held-out rows, {covered:.1%} lie in their 90% intervals. Each interval is the model's own: wide "
            f"where it knows little, narrow where it knows much.{whole}",
            pictures=[
                _picture(
                    intervals,
                    "First: predicted against true values with intervals. Second: rows by their predicted mean.",
                    "First: each held-out row by its true value; on the dashed line the prediction is right. Second: "
                    "such rows by their predicted mean. Rows in the other colour lie outside their interval.",
                )
            ],
        ),
        report.Section(
            "Can its distributions be trusted?",
            "If the predicted distributions are right, a tenth of the true values lie below their 10% quantiles, half "
            f"below the medians, and so on. Here the shares are off by {off:.1%} on average; chance alone gives about "
            f"{by_chance:.1%} with so many rows.",
            pictures=[
                _picture(
                    partial(plots.calibration_plot, outcome.pit),
                    "First: share of true values below each predicted quantile. Second: histogram of their levels.",
                    "First: a trustworthy model follows the dashed line. Second: flat is right; a cup means intervals "
                    "that are too narrow, a cap ones that are too wide. Grey is what chance allows.",
                )
            ],
        ),
    ]


def _class_sections(model: tables.TableModel, outcome: tables.ClassOutcome) -> list[report.Section]:
    guessed = outcome.probs.argmax(1)
    right, doubt = guessed == outcome.y, tables.uncertainty(outcome.probs)
    groups = metrics.accuracy_by_uncertainty(right, doubt, groups=int(np.clip(len(right) // 5, 1, 9)))
    kept = metrics.risk_coverage(right, doubt)
    half = (len(right) + 1) // 2
    return [
        report.Section(
            "Can its probabilities be trusted?",
            "Of all answers given with 80% confidence, 80% should be right. The closer to the dashed line, the more "
            "the probabilities mean what they say.",
            pictures=[
                _picture(
                    partial(plots.reliability_diagram, *metrics.reliability(outcome.probs, outcome.y, outcome.bins)),
                    "First: accuracy by confidence. Second: how many rows there are of each confidence.",
                    "First: held-out rows in groups of like confidence, the probability of the answer. Second: how "
                    "sure the model is, how often.",
                )
            ],
        ),
        report.Section(
            "Does it know when it does not know?",
            f"Of the half of the rows that it is surest of, {1 - kept.risk[half - 1]:.1%} are right; of all rows, "
            f"{right.mean():.1%}. Answers that it doubts can be handed to a person.",
            pictures=[
                _picture(
                    partial(plots.accuracy_by_uncertainty_plot, {"model": groups}),
                    "Accuracy of groups of rows from certain to uncertain.",
                    "Rows in groups of equal size, from the most certain to the least, with standard errors.",
                    columns=1,
                ),
                _picture(
                    partial(plots.risk_coverage_plot, {"model": kept}),
                    "Error rate among the answers kept, by the share of rows answered.",
                    "The error rate when only the most certain answers are given; lower is better.",
                    columns=1,
                ),
            ],
        ),
        report.Section(
            "What it takes for what",
            "Rows are true classes, columns the answers: all that is off the diagonal is a mistake.",
            pictures=[_confusion(model.target.classes, outcome.y, guessed)],
        ),
    ]


def _confusion(classes: tuple[str, ...], y: Array, guessed: Array) -> report.Picture:
    """The most frequent classes; a matrix of all would be too fine to read."""
    counts = np.bincount(y, minlength=len(classes))
    chosen = np.sort(np.argsort(-counts, kind="stable")[:_MOST_LABELS])
    labels = [classes[i] for i in chosen]
    shown = np.isin(y, chosen) & np.isin(guessed, chosen)
    matrix = confusion_matrix(y[shown], guessed[shown], labels=chosen)
    few = f" The {_MOST_LABELS} most frequent classes are shown." if len(classes) > _MOST_LABELS else ""
    return _picture(
        partial(plots.confusion_matrix_plot, matrix, labels),
        "Matrix of true and predicted classes.",
        f"Numbers of held-out rows; the shade is the share of the true class.{few}",
    )


def _reliance(importance: tables.Importance) -> report.Section:
    names, shown = importance.names[:_MOST_BARS], slice(_MOST_BARS)
    return report.Section(
        "What it relies on",
        f"The cells of one column are shuffled between rows, and the predictions get worse: the more, the more the "
        f"model relies on that column. Most on {names[0]}.",
        pictures=[
            _picture(
                partial(
                    plots.bars,
                    names,
                    importance.increase[shown],
                    importance.error[shown],
                    title="Importance of columns",
                    xlabel="loss when shuffled (nats per row)",
                ),
                "Bars of the importance of columns.",
                f"The {len(names)} most important of {len(importance.names)} columns, with standard errors over "
                "shuffles. Columns that say the same share their importance; importance is no cause.",
            )
        ],
    )


def _columns(model: tables.TableModel, found: Findings) -> report.Section:
    columns, rows = found.survey.columns, found.survey.rows
    used = [
        [column.name, describe_column(column, columns[column.name]), f"{1 - columns[column.name].filled / rows:.1%}"]
        for column in model.schema.columns
    ]
    unused = [[name, f"left out: {reason}", "–"] for name, reason in found.left_out]
    listed = [*used[:_MOST_COLUMNS], *unused[:_MOST_COLUMNS]]
    more = len(used) + len(unused) - len(listed)
    return report.Section(
        "Columns",
        f"{len(used)} columns were used, {len(unused)} left out. A missing cell is no obstacle: the network takes the "
        "column's distribution in its place, and is less certain for it.",
        table=report.Table(["column", "holds", "missing"], listed, words=True),
        note=f"And {more:,} more." if more else "",
    )


def _picture(draw: Draw, alt: str, caption: str, columns: int = 2) -> report.Picture:
    """The figure for two widths of page and two colour schemes; one of a single column takes half a wide page."""
    themes = plots.LIGHT, plots.DARK
    wide, narrow = ([draw(columns=width, theme=theme) for theme in themes] for width in (columns, 1))
    return report.Picture(
        alt,
        caption,
        report.Variants(*map(plots.png, wide)),
        report.Variants(*map(plots.png, narrow)),
        min(1.0, wide[0].get_figwidth() / _WIDE),
    )
