"""What people call: `save`, `load`, and `describe` for a look at a file without its weights."""

from __future__ import annotations

import errno
import importlib
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from torchnpn.io import checks, file, modules
from torchnpn.io.answers import check_answers
from torchnpn.io.early import upgraded

FORMAT_VERSION = 1  # raised when an older version of the library could no longer read what is written
_LONGEST_TEXT = 500  # characters of an error
_KEYS = ("format_version", "saved", "versions", "object")

_CLASSES = {  # with `_state()` -> (plain values, arrays) and `_from_state(plain, arrays)`; imported when they are met
    "DocumentAutoencoder": "torchnpn.documents",
    "NPNAutoencoder": "torchnpn.estimators",
    "NPNClassifier": "torchnpn.estimators",
    "NPNRegressor": "torchnpn.estimators",
    "BayesianLogisticRegression": "torchnpn.logistic",
    "LinkPredictor": "torchnpn.links",
    "TableModel": "torchnpn.tables",
}
_ERRORS = (  # of torch, numpy and scikit-learn, for values that make no sense to them
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
)


class ModelFileError(ValueError):
    """A file is not a model file, or is damaged, or was made by a newer version."""


def save(obj: Any, path: str | os.PathLike[str]) -> None:
    """Store a network, a likelihood, a fitted estimator or a table model in one file.

    The file holds numbers and JSON, never code. It is written beside and renamed: after a failure the file that was
    there before is still there.

    Args:
        obj: A network or likelihood made of the modules of `npn.nn` and `npn.likelihoods`, or a fitted estimator.
        path: Where to; by custom with the suffix `.npn`. A file that is there is replaced.

    Raises:
        TypeError: If `obj` holds modules, families or values that a model file cannot take, or `path` is no path.
        ValueError: If a number in it is NaN, or it is too large to describe.
        OSError: If the file cannot be written.
    """
    place = _checked_path(path)
    document, tensors = taken_apart(obj)
    try:
        file.write(place, document, tensors)
    except OSError as error:
        raise _explained("save", error, path) from error


def load(path: str | os.PathLike[str]) -> Any:
    """The object that `save` stored under `path`; networks on the CPU and in evaluation mode.

    Safe on files from strangers: nothing in them is executed, and sizes are checked before memory is taken.

    Raises:
        ModelFileError: If it is no model file, damaged, or made by a newer version.
        OSError: If it cannot be read.
    """
    with _loading(path) as place:
        return put_together(*file.read(place))


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What stands in a model file, as plain values; its weights are not read.

    Returns:
        `type` of the object, `architecture` (a line for each module, or one with an estimator's arguments), `families`
        of weights, neurons and targets, `parameters` (how many numbers the tensors hold), `plain` (an estimator's
        arguments, features and their names, labels), `format_version`, `saved` (UTC) and `versions`.

    Raises:
        ModelFileError: If it is no model file, or made by a newer version.
        OSError: If it cannot be read.
    """
    with _loading(path) as place:
        header = file.read_header(place)
        document = _checked(header.document)
        architecture, families = _outline(document["object"])
    return {
        "type": _type(document["object"]),
        "architecture": architecture,
        "families": sorted(families),
        "parameters": sum(map(math.prod, header.shapes.values())),
        "plain": document["object"].get("plain", {}),
        **{key: document[key] for key in ("format_version", "saved", "versions")},
    }


def _outline(description: Any) -> tuple[list[str], set[str]]:
    """Lines about an object, and the names of its families."""
    name = _type(description)
    if name not in _CLASSES:
        modules.without_memory(description)
        return modules.lines(description), modules.families_of(description)
    plain = checks.mapping(f"{name}'s values", description.get("plain"))
    if "estimator" in plain:  # what a table model holds
        return _outline(plain["estimator"])
    settings = checks.mapping(f"{name}'s settings", plain.get("settings"))
    listed = ", ".join(f"{key}={checks.shown(value)}" for key, value in sorted(settings.items()))
    family = settings.get("family")
    return [f"{name}({listed})"], {family} if isinstance(family, str) else set()


def taken_apart(obj: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The document and the tensors that a file of an object holds."""
    description, tensors = _described(obj)
    versions = {"torchnpn": importlib.import_module("torchnpn").__version__, "torch": str(torch.__version__)}
    saved = datetime.now(UTC).isoformat(timespec="seconds")
    return dict(zip(_KEYS, (FORMAT_VERSION, saved, versions, description), strict=True)), tensors


def put_together(document: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    """The inverse of `taken_apart`, for a document that anyone may have written; a ValueError where it is none."""
    description = _checked(document)["object"]
    name = _type(description)
    if name not in _CLASSES:
        return modules.build(description, tensors)
    checks.with_keys(name, description, ("type", "plain"))
    plain, kind = checks.mapping(f"{name}'s values", description["plain"]), _class(name)
    try:
        model = kind._from_state(plain, tensors)
        check_answers(model)
    except _ERRORS as error:
        raise ValueError(f"its values are not those of a {name} ({type(error).__name__}: {error})") from error
    return model


def _described(obj: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    name = type(obj).__name__
    if isinstance(obj, Module):
        description = modules.describe(obj)
        tensors = {name: _tensor(array) for name, array in modules.weights(obj).items()}
        modules.build(description, tensors)  # what could not be loaded is not saved
        return description, tensors
    if name not in _CLASSES or _class(name) is not type(obj):
        advice = ""
        if name == "Pipeline":
            advice = (
                " Estimators read text, categories, dates and gaps, and scale inside: fit one on the frame, save that."
            )
        raise TypeError(
            f"save expects a network, a likelihood, or one of {', '.join(_CLASSES)}, got {type(obj).__module__}.{name}."
            f"{advice}"
        )
    plain, arrays = obj._state()
    return {"type": name, "plain": plain}, {name: _tensor(array) for name, array in arrays.items()}


def _checked(document: dict[str, Any]) -> dict[str, Any]:
    """The document, if it is of a format that this version reads."""
    if "checkpoint_version" in document:
        raise ValueError("it is a checkpoint, from which npn.train goes on with checkpoint=. Save the model itself")
    version = document.get("format_version")
    if type(version) is not int or version < 1:
        raise ValueError(f"format_version should be a whole number from 1 on, got {checks.shown(version)}")
    if version > FORMAT_VERSION:
        raise ValueError(
            f"it was made by a newer torchnpn, in format {version}; this one reads formats up to {FORMAT_VERSION}. "
            "Install a newer torchnpn"
        )
    checks.with_keys("its description", document, _KEYS)
    checks.text("saved", document["saved"])
    for name, one in checks.mapping("versions", document["versions"]).items():
        checks.text(checks.text("versions", name), one)
    return {**document, "object": upgraded(document["object"])}


def _type(description: Any) -> str:
    return checks.text("type", checks.mapping("object", description).get("type"))


def _class(name: str) -> Any:
    try:
        return getattr(importlib.import_module(_CLASSES[name]), name)
    except ModuleNotFoundError as error:
        raise ImportError(f"{name} needs {error.name}. Install it with `pip install 'torchnpn[cli]'`.") from error


def _tensor(array: np.ndarray[Any, Any] | Tensor) -> Tensor:
    """A tensor on the CPU, with memory of its own."""
    if isinstance(array, np.ndarray):
        return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))
    return array.detach().cpu().clone(memory_format=torch.contiguous_format)


def _checked_path(path: Any) -> Path:
    """The path of a file, if it is one that a system can have."""
    if not isinstance(path, (str, os.PathLike)) or isinstance(os.fspath(path), bytes):
        raise TypeError(
            f"A model file expects its path as text or as a pathlib.Path, got {checks.shown(path)}, which is of type "
            f"{type(path).__name__}."
        )
    text = os.fspath(path)
    try:
        possible = bool(text) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise ValueError(f"A model file expects a path such as 'model.npn', got {checks.shown(text)}.")
    return Path(text)


@contextmanager
def _loading(path: Any) -> Iterator[Path]:
    """The path of a model file; errors name it, without the pages that a list of all tensors would take."""
    place = _checked_path(path)
    try:
        yield place
    except ValueError as error:
        text = str(error).rstrip(".")
        short = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} …"
        raise ModelFileError(f"Cannot load {os.fspath(path)}: {short}.") from error
    except OSError as error:
        raise _explained("load", error, path) from error


def _explained(verb: str, error: OSError, path: Any) -> OSError:
    """The same kind of error, which says what could not be done, and what to do."""
    advice = {
        errno.EISDIR: " (give the path of a file in it)",
        errno.ENOENT: " (make the folder first)" if verb == "save" else " (look at the path, and where Python runs)",
    }.get(error.errno or 0, "")
    return OSError(error.errno, f"Cannot {verb} the model: {error.strerror or error}{advice}", os.fspath(path))
