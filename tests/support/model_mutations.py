"""Models of every kind, small changes of what their files say, and one question that each must answer."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch

from support import layer_cases
from torchnpn import (
    BayesianLogisticRegression,
    DocumentAutoencoder,
    LinkPredictor,
    NPNAutoencoder,
    NPNClassifier,
    NPNRegressor,
    families,
    likelihoods,
    nn,
    tables,
)
from torchnpn.columns import Category, Date, Number

ODD: list[Any] = [
    None, True, False, 0, 1, 2, 3, -1, 0.0, -0.0, 0.5, 1e-300, 5e-324, 1e300, -1e300, 1.7e308, 1e38, 1e12, 1e5,
    2**31, 2**31 - 1, 2**31 + 1, 2**53, 2**62, 2**63, 2**64, 10**30, 10**400, -(2**70), "", "x", "x" * 2000, "\x00",
    "\ud800", "gaussian", "gamma", "beta", "poisson", "bernoulli", "rayleigh", "negative_binomial", "class", "object",
    "<U1024", "<U100000000", "(1000,500000)i4", "i4,f8", "O", "V8", "<M8[ns]", "c16", "f2", "<f8", "|b1", "S5", "<i8",
    "<U3", "Linear", "Sequential", "ReLU", "Power", "NPNRegressor", "NPNClassifier", "TableModel", "Direct", "inf",
    "nan", "auto", "cuda", "meta", "conditional", "marginal", "predictive", "posterior", "joint", "none", "noise",
    "words", "tanh", "relu", "os.system", "forward", [], [0], [1] * 3, [2, 2], [3] * 20, [[]], [None], [1e300],
    ["a", "b"], ["a", "a"], [2**40], {}, {"type": "ReLU"}, {"a": 1},
]  # fmt: skip
NUMBERS = [
    0.0, 1.0, -1.0, 3e38, -1e38, 1e30, 1e20, -1e20, 1e12, 1e10, 1e5, 89.0, 44.0, 40.0, -100.0, -1e4, 1e-45, 1e-30,
    np.inf, -np.inf, np.nan,
]  # fmt: skip
FAMILIES = [name for name in families.BY_NAME if name != "pareto"]


def models() -> dict[str, object]:
    """One of each kind that can be saved."""
    chance = np.random.default_rng(0)
    X, y = chance.normal(size=(20, 2)), chance.normal(size=(20, 2))
    fast = {"hidden": (3,), "max_epochs": 1, "random_state": 0}
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few rows
        return {
            **{f"{name} network": nn.mlp([2, 3, 1], name, dropout=0.1) for name in FAMILIES},
            "mixed network": nn.Sequential(
                nn.Flatten(), nn.Complement(), nn.InputNoise(0.1), nn.Linear(4, 3), nn.LeakyReLU(0.1),
                nn.Sequential(nn.Linear(3, 3), nn.Hardtanh(-1.0, 1.0), nn.AnalyticDropout(0.1)), nn.ELU(1.0),
                nn.MaskedUnits(0.1), nn.MeanAndNoise(3, 2, replicas=(2,)),
            ),
            **{f"{case.name} layer": case.layer(replicas=(2,)) for case in layer_cases.LAYERS},
            "known constant": likelihoods.Direct("weibull", shape=2.0),
            "learnt noise": likelihoods.GaussianNoise(2),
            "regressor": NPNRegressor(**fast).fit(X, y[:, 0]),
            "gamma regressor": NPNRegressor(family="gamma", **fast).fit(X, np.exp(y[:, 0])),
            "count regressor": NPNRegressor(family="negative_binomial", **fast).fit(X, np.floor(np.exp(y[:, 0]))),
            "share regressor": NPNRegressor(family="beta", **fast).fit(X, 1 / (1 + np.exp(-y[:, 0]))),
            "two regressors": NPNRegressor(n_estimators=2, **fast).fit(X, y),
            "regressor of gaps": NPNRegressor(missing="conditional", **fast).fit(np.where(X > 1, np.nan, X), y[:, 0]),
            "regressor of a frame": NPNRegressor(**fast).fit(_frame(), y[:, 0]),
            "autoencoder of a frame": NPNAutoencoder(categorical_features=["code"], **fast).fit(_frame()),
            "classifier": NPNClassifier(**fast).fit(X, np.where(y[:, 0] > 0, "yes", "no")),
            "two classifiers": NPNClassifier(n_estimators=2, **fast).fit(X, np.digitize(y[:, 0], [-0.5, 0.5])),
            "autoencoder": NPNAutoencoder(**fast).fit(X),
            "autoencoder of words": DocumentAutoencoder("gamma", **fast).fit(np.floor(abs(3 * X))),
            "logistic": BayesianLogisticRegression().fit(X, y[:, 0] > 0),
            "logistic of three": BayesianLogisticRegression().fit(X, np.digitize(y[:, 0], [-0.5, 0.5])),
            "links": LinkPredictor(negatives=9, random_state=0).fit((X, y**2), [(0, 1), (2, 3)]),
            "table": _table(NPNRegressor(**fast), y[:, 0], ("gaussian", (), False, (0.0, 1.0))),
            "table of classes": _table(NPNClassifier(**fast), y[:, 0] > 0, ("class", ("a", "b"), False, (0.5, 0.5))),
        }  # fmt: skip


def _frame() -> pd.DataFrame:
    days = pd.date_range("2020-01-01", periods=20, freq="100D")
    return pd.DataFrame({"x": np.linspace(-1, 1, 20), "c": ["a", "b"] * 10, "d": days, "code": [1, 2, 3, 4] * 5})


def _table(estimator: Any, y: np.ndarray, described: tuple[Any, ...]) -> object:
    schema = tables.Schema((Number("x", 0.0), Category("c", ("a", "b"), True)))
    rows = pa.RecordBatch.from_pydict({"x": np.linspace(-1, 1, 20), "c": ["a", "b"] * 10})
    record = tables.Record("file.csv", 20, 5, (tables.record.Figure("NLL", 1.0, 2.0),))
    fitted = estimator.fit(schema.encode(rows), y.astype(int) if described[0] == "class" else y)
    return tables.TableModel(schema, tables.Target("t", *described), fitted, record)


def changed(value: Any, chance: np.random.Generator) -> Any:
    """`value` with some part of it, at any depth, replaced, removed, added or moved."""
    if not isinstance(value, (dict, list)) or not value or chance.random() < 0.1:
        if type(value) in (int, float) and abs(value) < 1e100 and chance.random() < 0.5:
            near = [value + 1, value - 1, -value, 2 * value, value * 1e6, value / 1e6, float(value), str(value)]
            return near[chance.integers(len(near))]
        return _odd(chance)
    keys = sorted(value) if isinstance(value, dict) else range(len(value))
    key, other = (keys[chance.integers(len(keys))] for _ in range(2))
    match chance.choice(["into", "remove", "add", "exchange", "copy"], p=[0.7, 0.08, 0.08, 0.07, 0.07]):
        case "into":
            value[key] = changed(value[key], chance)
        case "remove":
            value.pop(key)
        case "add" if isinstance(value, dict):
            value[str(_odd(chance))[:8]] = _odd(chance)
        case "add":
            value.append(copy.deepcopy(value[key]))
        case "exchange":
            value[key], value[other] = value[other], value[key]
        case "copy":
            value[key] = copy.deepcopy(value[other])
    return value


def _odd(chance: np.random.Generator) -> Any:
    return copy.deepcopy(ODD[chance.integers(len(ODD))])


def with_changed_tensor(tensors: dict[str, torch.Tensor], chance: np.random.Generator) -> dict[str, torch.Tensor]:
    """The tensors with one of them filled with other numbers, or of another type, shape, name or place."""
    names, result = sorted(tensors), dict(tensors)
    if not names:
        return result
    name, other = (names[chance.integers(len(names))] for _ in range(2))
    x, number = result[name].clone(), NUMBERS[chance.integers(len(NUMBERS))]
    match chance.integers(11):
        case 0 | 1 | 2 if x.is_floating_point() and x.numel():
            x.view(-1)[chance.integers(x.numel())] = number
        case 3 | 4 if x.is_floating_point():
            x.fill_(number)
        case 5:
            x = x.to([torch.float64, torch.float32, torch.int64, torch.int32][chance.integers(4)])
        case 6:
            x = x.reshape(-1)[: chance.integers(x.numel() + 1)]
        case 7:
            x = x[None] if chance.random() < 0.5 else x.transpose(0, -1) if x.dim() else x
        case 8:
            result.pop(name)
            name = other if chance.random() < 0.5 else name + "x"
        case 9:
            result[other] = x
            x = result[name]
    result[name] = x.contiguous()
    return result


def asked(model: Any) -> list[np.ndarray]:
    """What a model predicts for an ordinary row."""
    if isinstance(model, likelihoods.Likelihood):
        return []
    if isinstance(model, torch.nn.Module):
        with torch.no_grad():
            o = model(_row(model))
        return [part.double().numpy() for part in o if part is not None]
    kind = type(model).__name__
    if kind == "TableModel":
        row = {c.name: [c.values[0]] if hasattr(c, "values") else [0.3] for c in model.schema.columns}
        columns = model.predict(pa.RecordBatch.from_pydict(row)).values()
        return [column for column in columns if column.dtype.kind == "f"]
    if kind == "LinkPredictor":
        return [model.predict_proba([(0, 1)])]
    x = np.full((1, model.n_features_in_), 0.3)
    if getattr(model, "columns_", None) is not None:
        named = getattr(model, "feature_names_in_", None) is not None
        cells = {c.name: ["2020-01-01" if isinstance(c, Date) and c.has_days else None] for c in model.columns_.columns}
        x = pd.DataFrame(cells, dtype=object) if named else np.array([[None] * len(cells)])
    if kind in ("NPNAutoencoder", "DocumentAutoencoder"):
        return [model.transform(x)]
    if kind == "NPNRegressor":
        predictive = model.predict_dist(x)
        return [predictive.mean, predictive.std, *predictive.interval(0.9)]
    assert len(model.predict(x)) == 1
    return [model.predict_proba(x)]


def _row(network: torch.nn.Module) -> torch.Tensor:
    first = next((layer for layer in network.modules() if hasattr(layer, "in_features")), None)
    if first is not None and first.in_features == 0:
        return torch.tensor([-1])  # a layer of codes
    complements = any(isinstance(layer, nn.Complement) for layer in network.modules())
    inputs = 2 if first is None else first.in_features // (2 if complements else 1)
    return torch.full((1, inputs), 0.5, dtype=next((p.dtype for p in network.parameters()), None))
