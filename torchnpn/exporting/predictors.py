"""A model as one module of torch from rows to named outputs, and what the file is to say of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from torchnpn.estimators import NPNClassifier, NPNRegressor
from torchnpn.exporting.about import about, columns_of, described
from torchnpn.exporting.classification import Classification
from torchnpn.exporting.network import frozen
from torchnpn.exporting.regression import Regression
from torchnpn.exporting.rows import Encode, Standardise, Widen
from torchnpn.likelihoods import with_offset
from torchnpn.moments import Moments
from torchnpn.nn import Complement, Linear, MeanAndNoise
from torchnpn.tables import TableModel

EXAMPLE = 3  # rows to trace with: their number stays open


@dataclass(frozen=True)
class Predictor:
    """What is exported.

    Attributes:
        module: From tensors to a tuple of tensors.
        inputs: Example tensors, by the names of the inputs.
        outputs: Names of what it gives.
        about: The metadata.
    """

    module: nn.Module
    inputs: dict[str, Tensor]
    outputs: tuple[str, ...]
    about: dict[str, Any]


@dataclass(frozen=True)
class Options:
    """What to give beside the mean and the variance, checked."""

    levels: tuple[float, ...]
    interval: float
    variance_parts: bool | None


class _OfRows(nn.Module):
    """Cells to answers."""

    def __init__(
        self, encode: nn.Module, standardise: nn.Module, network: nn.Module, widen: Widen | None, answers: nn.Module
    ) -> None:
        super().__init__()
        self.encode, self.standardise, self.network, self.answers = encode, standardise, network, answers
        self.widen = widen

    def outputs(self, X: Tensor) -> Moments:
        x = self.encode(X)
        o: Moments = self.network(self.standardise(x))
        return o if self.widen is None else self.widen(o, x)

    def forward(self, X: Tensor) -> Any:
        return self.answers(self.outputs(X))


class _Exposed(_OfRows):
    """The same, with an exposure in the last column, whose logarithm is added to the log mean."""

    def __init__(self, *modules: Any, unit: float, targets: int) -> None:
        super().__init__(*modules)
        self.unit, self.targets = unit, targets

    def forward(self, X: Tensor) -> Any:
        o = self.outputs(X[:, :-1])
        return self.answers(with_offset(o, torch.log(X[:, -1:] / self.unit), self.targets))


class _Network(nn.Module):
    """Moments to moments, each a tensor."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = frozen(network)

    def forward(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.network(Moments(mean, variance)))


@torch.no_grad()
def predictor(model: Any, options: Options) -> Predictor:
    """What is exported of a model; a TypeError for what cannot be."""
    for kind, build in _BUILDERS.items():
        if isinstance(model, kind):
            return build(model, options)
    raise TypeError(
        f"export expects an NPNRegressor, an NPNClassifier, a TableModel (a file that npn fit wrote) or a network of "
        f"npn.nn, got a {type(model).__name__}.{_instead(model)}"
    )


def _instead(model: Any) -> str:
    """What of another model can be exported."""
    if isinstance(getattr(model, "network_", None), nn.Module):
        return " Its network can be exported, export(model.network_, …), which takes inputs that are scaled already."
    if hasattr(model, "steps"):
        return " Export the last step of a pipeline, model[-1], and give it what the steps before it make."
    return ""


def _of_estimator(model: NPNRegressor | NPNClassifier, options: Options) -> Predictor:
    columns = columns_of(model)
    names = {} if isinstance(model, NPNClassifier) else {"family": model.family_, "targets": model.n_outputs_}
    classes = model.classes_.tolist() if isinstance(model, NPNClassifier) else None
    exposure = getattr(model, "exposure_", None)
    described_columns = described(columns)
    if exposure is not None:
        described_columns.append({"name": str(exposure.column or "exposure"), "kind": "exposure"})
    encode = Encode(columns) if model.columns_ is not None else nn.Identity()
    return _of_rows(model, encode, described_columns, options, target=names or None, classes=classes)


def _of_table(model: TableModel, options: Options) -> Predictor:
    schema, target = model.schema, model.target
    features = schema.columns[:-1] if schema.exposure else schema.columns
    unit = {"unit": target.notation.unit} if target.notation.unit else {}
    names = {"name": target.name, "family": target.family, **unit}
    return _of_rows(
        model.estimator,
        Encode(features, single=True),
        described(schema, schema.notations),
        options,
        model="TableModel",
        target=names,
        classes=list(target.classes) if target.is_class else None,
        missing=list(schema.missing) or None,
    )


def _of_rows(
    estimator: NPNRegressor | NPNClassifier,
    encode: nn.Module,
    columns: list[dict[str, Any]],
    options: Options,
    model: str = "",
    **others: Any,
) -> Predictor:
    standardise = Standardise(estimator.inputs_, estimator._bins)
    network = frozen(estimator.network_)
    answers: Regression | Classification
    if isinstance(estimator, NPNClassifier):
        answers, kind = Classification(estimator, bool(options.variance_parts)), "classification"
    else:
        answers, kind = Regression(estimator, options.levels, options.interval), "regression"
        others |= {"interval": options.interval, "levels": list(options.levels)}
    exposure = getattr(estimator, "exposure_", None)
    widen = None if estimator._beyond is None else Widen(estimator.inputs_, estimator._beyond)
    parts = encode, standardise, network, widen, answers
    module = _OfRows(*parts) if exposure is None else _Exposed(*parts, unit=exposure.unit, targets=estimator.n_outputs_)
    example = torch.ones(EXAMPLE, len(columns), dtype=torch.float64)
    said = about(kind, model or type(estimator).__name__, answers.names, input="X", columns=columns, **others)
    return Predictor(module.eval(), {"X": example}, answers.names, said)


def _of_network(network: nn.Module, options: Options) -> Predictor:
    first = next((part for part in network.modules() if isinstance(part, Linear | MeanAndNoise)), None)
    if first is None:
        raise TypeError(f"export expects a network with a linear layer, got {type(network).__name__}.")
    doubled = any(isinstance(part, Complement) for part in network.modules())
    x = torch.ones(EXAMPLE, first.in_features // (1 + doubled))
    outputs = ("mean", "variance")
    said = about("network", type(network).__name__, outputs)
    return Predictor(_Network(network).eval(), {"input_mean": x, "input_variance": x.clone()}, outputs, said)


_BUILDERS: dict[type, Callable[[Any, Options], Predictor]] = {
    NPNRegressor: _of_estimator,
    NPNClassifier: _of_estimator,
    TableModel: _of_table,
    nn.Module: _of_network,
}
