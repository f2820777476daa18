"""The report of `npn fit`: what was learnt, how far it can be trusted, and what it relies on, for any reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix

import torchnpn
from torchnpn import inspection, metrics, plots, report, table_files, tables
from torchnpn.cli import report_insight
from torchnpn.cli.models import describe_column, describe_network

_WIDE = 8.8  # inches of a figure with two panels
_MOST_BARS, _MOST_COLUMNS, _MOST_LABELS = 10, 200, 20
Array = NDArray[Any]


def html(
    model: tables.TableModel,
    kind: tables.Kind,
    X: Array,  # (rows, inputs) held-out rows
    outcome: tables.Outcome,  # of them
    importance: inspection.Importance,
    survey: table_files.Survey,
    left_out: list[tables.LeftOut],
) -> str:
    """The page, with all figures inside."""
    name, record = model.target.name, model.record
    if isinstance(outcome, tables.ClassOutcome):
        trust = _class_sections(model, outcome)
    else:
        trust = _number_sections(model, outcome)
    return report.html(
        f"Predicting {name}",
        f"A natural-parameter network was trained on {record.rows:,} rows of {record.file} to predict {name}. Each "
        f"prediction is a distribution. {record.held_out:,} other rows were held out for testing; all figures below "
        "are measured on them.",
        [
            *(_summary(model, kind), *trust, _reliance(importance), _along(model, X, importance)),
            *(report_insight.uncertain_rows(model, X, outcome), _columns(model, survey, left_out)),
        ],
        f"Made by npn fit, torchnpn {torchnpn.__version__}, torch {torch.__version__}.",
    )


def _summary(model: tables.TableModel, kind: tables.Kind) -> report.Section:
    record = model.record
    first, nll = record.figures[0], tables.nll_of(record.figures)
    share = 1 - first.model / first.marginal if first.marginal else 0.0
    error = "error rate" if model.target.is_class else "typical error (RMSE)"
    less = "less" if share >= 0 else "more"
    with np.errstate(over="ignore"):
        ratio = float(np.exp(nll.marginal - nll.model))
    facts = [
        report.Fact(first.shown()[1], f"{error} on rows that it was not trained on"),
        report.Fact(f"{abs(share):.0%} {less}", f"than the baseline's {first.shown()[2]}"),
        report.Fact(f"{ratio:.3g}×", "the baseline's probability of the true value (geometric mean over rows)"),
    ]
    best = [None if figure.wins is None else 1 if figure.wins else 2 for figure in record.figures]
    rows = [figure.shown() for figure in record.figures]
    return report.Section(
        "What was learnt",
        tables.describe_target(model.target, kind),
        facts,
        table=report.Table(["", "model", "baseline"], rows, best=best),
        note=" ".join(
            [
                "The baseline uses no column: it predicts the distribution of the training targets for every row. What "
                "the model does better was learnt from the columns. The better of the two figures is bold.",
                _measures(model.target),
                *(record.notes[:-1] if record.is_worse else record.notes),
            ]
        ),
        warning="".join(record.notes[-1:]) if record.is_worse else "",
    )


def _measures(target: tables.Target) -> str:
    if target.is_class:
        return (
            "NLL: negative logarithm of the probability of the true class. Brier score: squared error of the "
            "probabilities. Calibration error: difference between predicted confidence and accuracy. For all of them, "
            "lower is better."
        )
    return (
        "RMSE: root of the mean squared error. NLL: negative logarithm of the predicted probability density at the "
        "true value. CRPS: distance between the predicted distribution and the true value, in the target's units. For "
        "these three, lower is better. Intervals should contain their share of the rows, and be narrow."
    )


def _number_sections(model: tables.TableModel, outcome: tables.NumberOutcome) -> list[report.Section]:
    covered = metrics.interval_coverage(outcome.low, outcome.high, outcome.y)
    off = metrics.regression_calibration_error(outcome.pit)
    whole = (
        " Intervals of counts end at whole numbers, so they contain a little more than 90%."
        if model.target.is_count
        else ""
    )
    by_chance = 0.31 / np.sqrt(len(outcome.y))
    return [
        _section(
            "Predicted and true values",
            f"Of the held-out rows, {covered:.1%} lie inside their 90% intervals. Each row has an interval of its own: "
            f"wide where the model is uncertain, narrow where it is certain.{whole}",
            "First: predicted against true values with intervals. Second: rows by their predicted mean.",
            "First: predictions against true values; on the dashed line the two are equal. Second: the same "
            "rows, sorted by their predicted mean. Rows in the other colour lie outside their interval.",
            plots.prediction_intervals,
            *(outcome.y, outcome.mean, outcome.low, outcome.high),
            name=model.target.name,
        ),
        _section(
            "Are the predicted distributions calibrated?",
            "If they are, a tenth of the true values lie below their predicted 10% quantiles, half below the predicted "
            f"medians, and so on. Here these shares differ by {off:.1%} on average; with this number of rows, chance "
            f"alone makes about {by_chance:.1%}.",
            "First: share of true values below each predicted quantile. Second: histogram of their levels.",
            "First: a calibrated model follows the dashed line. Second: how many true values lie at "
            "each level of their predicted distribution. A flat histogram means that the intervals are "
            "calibrated. If it is higher at both ends, they are too narrow; if it is higher in the middle, "
            "they are too wide. The grey band is what chance alone explains.",
            plots.calibration_plot,
            outcome.pit,
        ),
    ]


def _class_sections(model: tables.TableModel, outcome: tables.ClassOutcome) -> list[report.Section]:
    guessed = outcome.probs.argmax(1)
    right, uncertainty = guessed == outcome.y, tables.uncertainty(outcome.probs)
    groups = metrics.accuracy_by_uncertainty(right, uncertainty, groups=int(np.clip(len(right) // 5, 1, 9)))
    kept = metrics.risk_coverage(right, uncertainty)
    half = (len(right) + 1) // 2
    return [
        _section(
            "Are the probabilities calibrated?",
            "Of all rows predicted with a probability of 80%, 80% should be right. The closer the points are to the "
            "dashed line, the better the probabilities.",
            "First: accuracy by confidence. Second: how many rows there are of each confidence.",
            "First: held-out rows, grouped by confidence (the probability of the predicted class). Second: how "
            "many rows there are in each group.",
            plots.reliability_diagram,
            *metrics.reliability(outcome.probs, outcome.y, outcome.bins),
        ),
        report.Section(
            "Does its uncertainty show its mistakes?",
            f"Of all rows, {right.mean():.1%} are predicted right; of the half that the model is most certain of, "
            f"{1 - kept.risk[half - 1]:.1%}. Rows that it is uncertain about can be left to a person.",
            pictures=[
                _picture(
                    "Accuracy of groups of rows from certain to uncertain.",
                    "Accuracy of groups of equal size, from the most certain to the least, with standard errors.",
                    plots.accuracy_by_uncertainty_plot,
                    {"model": groups},
                    wide=1,
                ),
                _picture(
                    "Error rate by the share of rows that are predicted.",
                    "The error rate if only the most certain rows are predicted; lower is better.",
                    plots.risk_coverage_plot,
                    {"model": kept},
                    wide=1,
                ),
            ],
        ),
        _confusion(model.target.classes, outcome.y, guessed),
    ]


def _confusion(classes: tuple[str, ...], y: Array, guessed: Array) -> report.Section:
    """The most frequent classes; a matrix of all would be too fine to read."""
    counts = np.bincount(y, minlength=len(classes))
    chosen = np.sort(np.argsort(-counts, kind="stable")[:_MOST_LABELS])
    labels = [classes[i] for i in chosen]
    shown = np.isin(y, chosen) & np.isin(guessed, chosen)
    matrix = confusion_matrix(y[shown], guessed[shown], labels=chosen)
    few = f" The {_MOST_LABELS} most frequent classes are shown." if len(classes) > _MOST_LABELS else ""
    return _section(
        "Which classes it confuses",
        "Rows are true classes, columns are predicted ones. Everything off the diagonal is a mistake.",
        "Matrix of true and predicted classes.",
        f"Numbers of held-out rows; a darker cell is a larger share of its true class.{few}",
        plots.confusion_matrix_plot,
        matrix,
        labels,
    )


def _reliance(importance: inspection.Importance) -> report.Section:
    names, every = importance.names[:_MOST_BARS], len(importance.names)
    shown = (
        f"The {len(names)} most important of {every:,} columns" if len(names) < every else "All columns that were used"
    )
    return _section(
        "Which columns matter",
        "The cells of one column are shuffled between the rows. The worse the predictions become, the more the model "
        f"relies on that column. It relies most on {names[0]}.",
        "Bars of the importance of columns.",
        f"{shown}, with standard errors over shuffles. Columns with the same information share their "
        "importance. Importance does not mean that a column causes the target.",
        plots.bars,
        names,
        *(importance.increase[:_MOST_BARS], importance.error[:_MOST_BARS]),
        title="Importance of columns",
        xlabel="loss when shuffled (nats per row)",
    )


def _along(model: tables.TableModel, X: Array, importance: inspection.Importance) -> report.Section:
    """The most important columns, of those that have two values in these rows."""
    drawn = []
    for name in importance.names[: report_insight.MOST_COLUMNS]:
        if (found := report_insight.along(model, X, name)) is not None:
            draw, arguments = found
            alt = f"First: predictions by {name}. Second: their standard deviation and its two parts."
            drawn.append(_picture(alt, f"Along {name}.", draw, **arguments))
    return report.Section(
        "How the prediction and its uncertainty change",
        "Held-out rows get the same value in one column, one value after the other, and their predictions are "
        "averaged. Noise is what more data would not take away; the model's part grows where it has seen few rows.",
        pictures=drawn,
        note="The most important columns. Where columns go together, some of these rows exist nowhere.",
    )


def _columns(model: tables.TableModel, survey: table_files.Survey, left_out: list[tables.LeftOut]) -> report.Section:
    used = [
        [
            column.name,
            describe_column(column, model.schema.notation(column.name)),
            f"{1 - survey.columns[column.name].filled / survey.rows:.1%}",
        ]
        for column in model.schema.columns
    ]
    unused = [[name, f"left out: {reason}", "–"] for name, reason in left_out]
    listed = [*used[:_MOST_COLUMNS], *unused[:_MOST_COLUMNS]]
    more = len(used) + len(unused) - len(listed)
    return report.Section(
        "Columns",
        f"{len(used)} columns were used, {len(unused)} left out. A missing cell is replaced by the distribution of its "
        "column, which makes the prediction less certain.",
        table=report.Table(["column", "holds", "missing"], listed, words=True),
        note=" ".join(
            [
                *([f"And {more:,} more."] if more else []),
                *table_files.notes(survey)[:_MOST_COLUMNS],
                describe_network(model),
            ]
        ),
    )


def _section(title: str, lead: str, /, *picture: Any, **options: Any) -> report.Section:
    """A section with one figure, of the arguments of `_picture`."""
    return report.Section(title, lead, pictures=[_picture(*picture, **options)])


def _picture(
    alt: str, caption: str, draw: Callable[..., Figure], *arguments: Any, wide: int = 2, **options: Any
) -> report.Picture:
    """The figure of `wide` panels side by side or, on a narrow page, of one, in two colour schemes."""
    many, one = (
        [draw(*arguments, **options, columns=columns, theme=theme) for theme in (plots.LIGHT, plots.DARK)]
        for columns in (wide, 1)
    )
    side_by_side, single = (report.Variants(*map(plots.png, figures)) for figures in (many, one))
    return report.Picture(alt, caption, side_by_side, single, min(1.0, many[0].get_figwidth() / _WIDE))
