"""The OpenAPI document of a server: paths, and the columns of the model as schemas."""

from __future__ import annotations

from typing import Any

import torchnpn
from torchnpn.columns import Category, Column, Date
from torchnpn.tables import TableModel

_JSON, _CSV = "application/json", "text/csv"


def document(model: TableModel) -> dict[str, Any]:
    """OpenAPI 3.1, as plain values."""
    name, row = model.target.name, {"$ref": "#/components/schemas/Row"}
    prediction = {"$ref": "#/components/schemas/Prediction"}
    level = {
        "name": "level",
        "in": "query",
        "description": "Share of new targets that an interval should contain.",
        "schema": {"type": "number", "minimum": 0.01, "maximum": 0.999, "default": 0.9},
    }
    refused = {
        str(status): {"description": words, "content": {_JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}}
        for status, words in _ERRORS.items()
    }
    rows = {_JSON: {"schema": {"oneOf": [row, _list(row)]}}, _CSV: {"schema": {"type": "string"}}}
    predictions = {_JSON: {"schema": {"oneOf": [prediction, _list(prediction)]}}, _CSV: {"schema": {"type": "string"}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": f"Predictions of {name}, with their uncertainty", "version": torchnpn.__version__},
        "paths": {
            "/predict": {
                "post": {
                    "summary": f"Predict {name} for a row, for a list of rows, or for a CSV table.",
                    "parameters": [level],
                    "requestBody": {"required": True, "content": rows},
                    "responses": {"200": {"description": "In the format of the body.", "content": predictions}}
                    | refused,
                }
            },
            "/explain": {
                "post": {
                    "summary": "One row: its distribution, its noise and model uncertainty, what each cell does.",
                    "parameters": [level],
                    "requestBody": {"required": True, "content": {_JSON: {"schema": row}}},
                    "responses": {"200": _answer("The row, explained.")} | refused,
                }
            },
            "/model": _get("Target, columns and figures of the model."),
            "/health": _get("Whether the server answers."),
            "/metrics": _get("Counters as Prometheus reads them.", "text/plain"),
        },
        "components": {
            "schemas": {
                "Row": {
                    "type": "object",
                    "required": list(model.schema.names),
                    "properties": {column.name: _cell(column) for column in model.schema.columns},
                },
                "Prediction": {"type": "object", "properties": _predicted(model)},
                "Error": {"type": "object", "properties": {"error": {"type": "string"}}},
            }
        },
    }


_ERRORS = {
    400: "The body is not JSON.",
    408: "The body took too long to arrive.",
    413: "The body has too many bytes, rows or columns.",
    415: "The body is neither JSON nor CSV.",
    422: "A row cannot be read or predicted.",
    503: "Too much waits already.",
}


def _cell(column: Column) -> dict[str, Any]:
    if isinstance(column, Category):
        return {"type": ["string", "null"], "description": "One of the known values; others count as missing."}
    if isinstance(column, Date):
        return {"type": ["string", "null"], "description": "A date such as 2024-12-31, or a time."}
    return {"type": ["number", "null"]}


def _predicted(model: TableModel) -> dict[str, Any]:
    name, target = model.target.name, model.target
    if target.is_class:
        return {f"{name}_predicted": {"type": "string"}, f"{name}_uncertainty": {"type": "number"}}
    return {f"{name}_{part}": {"type": ["number", "null"]} for part in ("mean", "std", "low", "high")}


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of, "minItems": 1}


def _answer(words: str, kind: str = _JSON) -> dict[str, Any]:
    return {"description": words, "content": {kind: {}}}


def _get(words: str, kind: str = _JSON) -> dict[str, Any]:
    return {"get": {"summary": words, "responses": {"200": _answer(words, kind)}}}
