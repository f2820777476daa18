"""A fitted estimator together with the columns it reads and the column it predicts: what `npn fit` writes."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from torchnpn._text import did_you_mean
from torchnpn.columns import Number
from torchnpn.estimators import NPNClassifier, NPNRegressor
from torchnpn.table_files import TableError, arrow_table, frame_beside, memory_table, open_table
from torchnpn.tables.decimal_marks import notations
from torchnpn.tables.evaluation import rows_at_once, tested
from torchnpn.tables.learning import Question, fit_estimator, read_data
from torchnpn.tables.record import Record
from torchnpn.tables.rows import Rows, split_rows
from torchnpn.tables.schema import Schema
from torchnpn.tables.target import Target

_ESTIMATORS: dict[str, type[NPNRegressor] | type[NPNClassifier]] = {
    "NPNClassifier": NPNClassifier,
    "NPNRegressor": NPNRegressor,
}


@dataclass(frozen=True, eq=False)
class TableModel:
    """From rows of a table to predictions in the words of that table.

    Attributes:
        schema: Columns to read.
        target: Column to predict.
        estimator: Fitted on the encoded columns; a classifier on codes 0, 1, … of the classes.
        record: What it was fitted on, and how it did on rows that were held out.
    """

    schema: Schema
    target: Target
    estimator: NPNRegressor | NPNClassifier
    record: Record

    @classmethod
    def fit(
        cls,
        data: Any,
        target: str,
        family: str = "auto",
        *,
        exposure: str = "",
        validation: float = 0.1,
        seed: int = 0,
        **settings: Any,
    ) -> TableModel:
        """Learn to predict one column of a table from the others, as `npn fit` does.

        Columns are recognised, and those from which nothing can be learnt are left out. The rows that are held out say
        how the model does: `record.figures`.

        Args:
            data: The path of a file, or a frame (pandas, polars, Arrow).
            target: Name of the column to predict.
            family: What the target is: "auto" to find out, "class", or a family of `NPNRegressor`.
            exposure: Name of the column to which the target is in proportion, if there is one.
            validation: Share of the rows to hold out.
            seed: Decides which, and what the estimator draws.
            settings: Of `NPNRegressor` or `NPNClassifier`.

        Raises:
            TableError: Nothing can be learnt from the table.
        """
        table = open_table(Path(data)) if isinstance(data, (str, os.PathLike)) else memory_table(data)
        for name in (target, *([exposure] if exposure else [])):
            if name not in table.names:
                raise TableError(f"{table.label} has no column {name!r}.{did_you_mean(name, table.names)}")
        read, rows = read_data(table, Question(target, family, exposure=exposure, seed=seed))
        parts = split_rows(rows.y, validation, seed, by_class=read.target.is_class)
        learn, held_out = (Rows(rows.X[part], rows.y[part]) for part in parts)
        if not len(held_out.y) or learn.y.min() == learn.y.max():
            raise TableError(f"The target {target!r} differs in too few rows to learn from some and test on others.")
        estimator, about = fit_estimator(read.schema, read.target, learn, {"random_state": seed, **settings})
        _, figures = tested(estimator, about, held_out)
        return cls(read.schema, about, estimator, Record(table.name, len(learn.y), len(held_out.y), figures))

    def for_file(self, batch: pa.RecordBatch, delimiter: str = ",") -> TableModel:
        """The same model, for a file that may write its numbers with another decimal mark.

        Args:
            batch: The first rows of the file.
            delimiter: What stands between its cells.
        """
        schema, target = self.schema, self.target
        known = {column: schema.notation(column.name) for column in schema.columns if isinstance(column, Number)}
        if target.of_numbers:
            known[Number(target.name, 0.0 if target.is_class else target.marginal[0])] = target.notation
        found = notations(known, batch, delimiter, schema.missing)
        return dataclasses.replace(
            self,
            schema=dataclasses.replace(schema, notations={**schema.notations, **found}),
            target=dataclasses.replace(target, notation=found.get(target.name, target.notation)),
        )

    def predict(
        self, rows: Any, level: float = 0.9, first_row: int = 1, top: int = 0
    ) -> dict[str, NDArray[Any]]:  # each (rows,)
        """Columns to set beside the input: mean, std and interval, or the class and the probability of each.

        Args:
            rows: A frame with the columns of `schema`; more columns do no harm, nor does another order.
            level: Share of new targets that intervals should hold.
            first_row: Number of the first of these rows in the file, for errors.
            top: How many of the most likely classes to give with their probabilities; 0: a column for every class.
        """
        batches = [rows] if isinstance(rows, pa.RecordBatch) else arrow_table(rows).combine_chunks().to_batches()
        if not batches:
            raise TableError("The frame has no rows.")
        encoded = np.concatenate([self.schema.encode(batch, first_row) for batch in batches])
        return self.predict_inputs(encoded, level, top)

    def predict_frame(self, frame: Any, level: float = 0.9, top: int = 0, keep: Sequence[str] | None = None) -> Any:
        """The same as a frame of the library of `frame`, beside its columns: for Spark, Dask and Ray, part by part.

        The result has the same columns for every part, also for one without rows.

        Args:
            frame: Of pandas, polars or Arrow, with the columns of `schema`.
            level: As for `predict`.
            top: As for `predict`.
            keep: Names of its columns to keep; None keeps all.
        """
        table = arrow_table(frame)
        if table.num_rows:
            columns = self.predict(frame, level, top=top)
        else:
            self.schema.check(table.column_names)
            row = np.ones((1, self.schema.width), np.float32)  # of any numbers
            columns = {name: values[:0] for name, values in self.predict_inputs(row, level, top).items()}
        return frame_beside(frame, table.column_names if keep is None else keep, columns)

    def predict_inputs(self, X: NDArray[Any], level: float = 0.9, top: int = 0) -> dict[str, NDArray[Any]]:
        """The same for rows that `schema.encode` has read."""
        size = rows_at_once(self.estimator)
        parts = [self._predicted(X[start : start + size], level, top) for start in range(0, len(X), size)]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _predicted(self, X: NDArray[Any], level: float, top: int) -> dict[str, NDArray[Any]]:
        name = self.target.name
        if isinstance(self.estimator, NPNClassifier):
            probs, classes = self.estimator.predict_proba(X), np.array(self.target.classes, object)
            columns = {f"{name}_predicted": classes[probs.argmax(1)]}
            if top:
                order = np.argsort(-probs, axis=1, kind="stable")[:, :top]
                for i, codes in enumerate(order.T, 1):
                    columns[f"{name}_top{i}"] = classes[codes]
                    columns[f"{name}_top{i}_probability"] = probs[np.arange(len(X)), codes]
            else:
                columns |= {f"{name}_probability_{label}": probs[:, i] for i, label in enumerate(classes)}
            return {**columns, f"{name}_uncertainty": uncertainty(probs)}
        distribution = self.estimator.predict_dist(X)
        low, high = distribution.interval(level)
        return {
            f"{name}_mean": distribution.mean,
            f"{name}_std": distribution.std,
            f"{name}_low": low,
            f"{name}_high": high,
        }

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        plain, arrays = self.estimator._state()
        return {
            "schema": self.schema.state(),
            "target": self.target.state(),
            "record": self.record.state(),
            "estimator": {"type": type(self.estimator).__name__, "plain": plain},
        }, arrays

    @classmethod
    def _from_state(cls, plain: dict[str, Any], arrays: dict[str, Any]) -> TableModel:
        match plain:
            case {
                "schema": columns,
                "target": described,
                "record": record,
                "estimator": {"type": ("NPNClassifier" | "NPNRegressor") as kind, "plain": dict(inner), **more},
                **rest,
            } if not rest and not more:
                schema, target = Schema.from_state(columns), Target.from_state(described)
                estimator = _ESTIMATORS[kind]._from_state(inner, arrays)
                _check_fit(schema, target, estimator)
                return cls(schema, target, estimator, Record.from_state(record))
        raise ValueError("A table model should hold a schema, a target, a record and an estimator.")


def uncertainty(probs: NDArray[Any]) -> NDArray[Any]:  # (rows, classes) -> (rows,)
    """Entropy of the classes over its largest value: 0 where one is certain, 1 where all are equally likely."""
    safe = np.where(probs > 0, probs, 1.0)
    return np.asarray(-(probs * np.log(safe)).sum(1) / np.log(probs.shape[1]))


def _check_fit(schema: Schema, target: Target, estimator: NPNRegressor | NPNClassifier) -> None:
    """Parts that come from a file may not belong together."""
    if isinstance(estimator, NPNClassifier) != target.is_class:
        raise ValueError(f"A {type(estimator).__name__} cannot predict a target of family {target.family!r}.")
    features = schema.width - bool(schema.exposure)
    if estimator.n_features_in_ != features:
        raise ValueError(f"The estimator reads {estimator.n_features_in_} inputs, the schema gives {features}.")
    column = estimator.exposure_ and estimator.exposure_.column if isinstance(estimator, NPNRegressor) else None
    if target.exposure != schema.exposure or column != (features if schema.exposure else None):
        raise ValueError("The exposure of the estimator is not that of the schema and the target.")
    if isinstance(estimator, NPNClassifier) and estimator.classes_.tolist() != list(range(len(target.classes))):
        raise ValueError("The classes of the estimator are not those of the target.")
