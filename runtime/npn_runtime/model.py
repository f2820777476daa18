"""A model in an ONNX file that `npn export` wrote: its metadata, and its predictions as columns."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from npn_runtime import csv_files
from npn_runtime.cells import Column
from npn_runtime.errors import ModelError, shown
from npn_runtime.frames import Frame, check_names, frame_of

Array = NDArray[Any]
FORMAT = 1
_KEY, _KINDS = "torchnpn", ("regression", "classification")
_MANY_CLASSES, _TOP = 20, 5  # of more classes only so many are given, unless all are asked for
_PARTS = ("mean", "std", "low", "high")


@dataclass(frozen=True, eq=False)
class Model:
    """What `load` gives.

    Attributes:
        about: The metadata of the file, as `npn_runtime info` shows them.
        columns: What the model reads.
        session: onnxruntime's own, for whoever wants more.
    """

    about: dict[str, Any]
    columns: tuple[Column, ...]
    session: onnxruntime.InferenceSession

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns that a table must have."""
        return tuple(column.name for column in self.columns)

    def predict(self, table: Any, level: float | None = None, top: int | None = None) -> dict[str, Array]:
        """The columns that `npn predict` sets beside the input, each (rows,).

        Of a number: mean, standard deviation and the ends of an interval; of classes: the most likely one, the
        probability of each, and an uncertainty from 0 to 1.

        Args:
            table: A dict of columns, a frame of pandas or polars, an Arrow table, an array (rows, columns), or the path
                of a CSV file. What is missing is None, NaN or an empty cell.
            level: What the interval is to hold; None: what the file was exported with. Another one needs its ends among
                the levels of the quantiles in the file.
            top: How many of the most likely classes to give, 0 for all; None: all, or 5 of more than 20.

        Raises:
            TableError: A column is missing, or a cell cannot be read.
            ModelError: The file has no such interval.
        """
        if isinstance(table, (str, os.PathLike)):
            parts = [self.predict_part(part, level, top) for part in csv_files.read(table, self.names)]
            return csv_files.stacked(parts)
        frame = frame_of(table, self.names)
        return csv_files.stacked([self.predict_part(part, level, top) for part in frame.parts(csv_files.PART)])

    def predict_parts(
        self, path: Any, level: float | None = None, top: int | None = None
    ) -> Iterator[tuple[Frame, dict[str, Array]]]:
        """Rows of a CSV file and their predictions, part by part, so that a file may be larger than memory."""
        for part in csv_files.read(path, self.names):
            yield part, self.predict_part(part, level, top)

    def outputs(self, table: Any) -> dict[str, Array]:
        """All that the file gives, by its own names: for numbers also the quantiles and the parts of the variance."""
        return self._run(frame_of(table, self.names))

    def predict_part(self, frame: Frame, level: float | None = None, top: int | None = None) -> dict[str, Array]:
        """The same for a part of a table."""
        found = self._run(frame)
        name = self.about.get("target", {}).get("name")
        prefix = "" if name is None else f"{name}_"
        if self.about["kind"] == "classification":
            return self._of_classes(found, prefix, top)
        low, high = self._interval(found, level)
        values = (found["mean"], np.sqrt(found["variance"]), low, high)
        if found["mean"].ndim == 1:
            return {f"{prefix}{part}": value for part, value in zip(_PARTS, values, strict=True)}
        targets = range(found["mean"].shape[1])
        return {f"{prefix}{part}_{k}": value[:, k] for k in targets for part, value in zip(_PARTS, values, strict=True)}

    def _of_classes(self, found: dict[str, Array], prefix: str, top: int | None) -> dict[str, Array]:
        probs, classes = found["probabilities"], np.array(self.about["classes"])
        if top is None:
            top = _TOP if len(classes) > _MANY_CLASSES else 0
        columns = {f"{prefix}predicted": classes[probs.argmax(1)]}
        if top:
            order = np.argsort(-probs, axis=1, kind="stable")[:, :top]
            for i, codes in enumerate(order.T, 1):
                columns[f"{prefix}top{i}"] = classes[codes]
                columns[f"{prefix}top{i}_probability"] = probs[np.arange(len(probs)), codes]
        else:
            columns |= {f"{prefix}probability_{label}": probs[:, i] for i, label in enumerate(classes)}
        return {**columns, f"{prefix}uncertainty": found["uncertainty"]}

    def _interval(self, found: dict[str, Array], level: float | None) -> tuple[Array, Array]:
        own, levels = float(self.about["interval"]), np.array(self.about.get("levels", []), float)
        if level is None or abs(level - own) < 1e-9:
            return found["low"], found["high"]
        ends = [np.flatnonzero(np.abs(levels - q) < 1e-9) for q in ((1 - level) / 2, (1 + level) / 2)]
        if not all(map(len, ends)):
            raise ModelError(
                f"The file holds intervals of level {own:g}, and no others than its quantiles {levels.tolist()} make. "
                f"Export it with an interval of {level:g}."
            )
        low, high = (found["quantiles"][..., end[0]] for end in ends)
        return low, high

    def _run(self, frame: Frame) -> dict[str, Array]:
        check_names(self.names, list(frame.columns))
        columns = [column.of_files() if frame.is_text else column for column in self.columns]
        encoded = [column.encode(frame.columns[column.name], frame.first_row) for column in columns]
        X = np.stack(encoded, 1) if frame.rows else np.empty((0, len(encoded)))
        names = [output.name for output in self.session.get_outputs()]
        return dict(zip(names, self.session.run(names, {self.about["input"]: X}), strict=True))


def load(path: str | os.PathLike[str], threads: int = 1) -> Model:
    """A model from a file that `npn export` wrote.

    Args:
        path: Of the file, which ends in .onnx.
        threads: Of one prediction; small networks are fastest with one.

    Raises:
        ModelError: It is no such file, or of a newer format.
        OSError: It cannot be read.
    """
    content = Path(path).read_bytes()
    if content[8:9] == b"{" and Path(path).suffix != ".onnx":
        raise ModelError(f"{path} is a model file of torchnpn. Make an ONNX file of it with `npn export {path}`.")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has classes of errors of its own, without a common one
        raise ModelError(f"{path} is no ONNX file that onnxruntime can run: {_first_line(error)}") from None
    about = _about(session.get_modelmeta().custom_metadata_map.get(_KEY), path)
    try:
        words = frozenset(str(word).lower() for word in about.get("missing", ()))
        is_table = about["model"] == "TableModel"
        columns = tuple(Column.of(one, words if is_table else None) for one in about["columns"])
        given = {output.name for output in session.get_outputs()}
        needed = {"regression": {*_PARTS, "variance"} - {"std"}, "classification": {"probabilities", "uncertainty"}}
        if about["input"] not in {one.name for one in session.get_inputs()} or not needed[about["kind"]] <= given:
            raise ValueError("inputs or outputs that are not those of its graph")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"{path}: its metadata do not describe a model ({_first_line(error)}).") from None
    return Model(about, columns, session)


def _about(text: str | None, path: Any) -> dict[str, Any]:
    if text is None:
        raise ModelError(f"{path} is an ONNX file, but not one of torchnpn: its metadata have no entry {_KEY!r}.")
    try:
        about = json.loads(text)
        version, kind = about["format"], about["kind"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ModelError(f"{path}: its metadata {_KEY!r} cannot be read.") from None
    if version != FORMAT:
        raise ModelError(
            f"{path} is of format {shown(version)}; this npn-runtime reads format {FORMAT}. Install a newer one, "
            "or export the model anew."
        )
    if kind not in _KINDS:
        raise ModelError(f"{path} holds a {kind}, which reads no table. Run it with onnxruntime itself.")
    return dict(about)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]
