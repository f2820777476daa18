"""Model files of version 0.1, read as files of today: classes and settings that have other names now."""

from __future__ import annotations

from typing import Any

_NORMALISATIONS = {"hadamard": "none"}
_FEATURES = {"none": "products", "features": "products"}
_OF_TABLES = {"activation": "tanh", "kl_weight": 1.0, "learning_rate": 1e-3}  # for None
_OF_COUNTS = {  # for None, and for what could not be set
    **{"bias": True, "prior_precision": 10.0, "weight_decay": 0.0, "max_epochs": 60},
    **{"binary": False, "epsilon": 0.01, "initial_variance": None, "spread_learning_rate": 0.01, "warm_up": 100},
}
_ONLY_TABLES = {"missing", "dropout"}
_ONLY_COUNTS = {
    *("family", "loss", "masking", "input_noise", "encoding_noise", "tau"),
    *("bias", "prior_precision", "weight_decay"),
}


def upgraded(description: Any) -> Any:
    """The description of an object as this version writes it; what it does not know is left for others to refuse."""
    plain = description.get("plain") if isinstance(description, dict) else None
    settings = plain.get("settings") if isinstance(plain, dict) else None
    if not isinstance(plain, dict) or not isinstance(settings, dict):
        return description
    kind = description.get("type")
    if kind == "LinkPredictor" and "sums" in settings:
        settings = _of_links(settings)
    elif kind == "NPNAutoencoder" and _is_of_counts(settings):
        kind, settings = "DocumentAutoencoder", _chosen(settings, _OF_COUNTS, _ONLY_TABLES)
    elif kind == "NPNAutoencoder":
        settings = _chosen(settings, _OF_TABLES, _ONLY_COUNTS)
    return {**description, "type": kind, "plain": {**plain, "settings": settings}}


def _is_of_counts(settings: dict[str, Any]) -> bool:
    """Whether an autoencoder of version 0.1 was one of counts: the loss said so, or else the family."""
    loss, family = settings.get("loss"), settings.get("family", "gaussian")
    return bool(family != "gaussian" if loss is None else loss != "noise")


def _chosen(settings: dict[str, Any], values: dict[str, Any], without: set[str]) -> dict[str, Any]:
    """Settings with `values` in place of None, and without some."""
    given = {name: value for name, value in settings.items() if value is not None or name not in values}
    return {name: value for name, value in {**values, **given}.items() if name not in without}


def _of_links(settings: dict[str, Any]) -> dict[str, Any]:
    """Without what the features in the file have in them: roots of codes, scaled variances, sums."""
    in_features = "root", "doubt", "variance_scale", "sums"
    given = {name: value for name, value in settings.items() if name not in in_features}
    if "doubt" in settings:
        given["features"] = _renamed(given.pop("variance", None), _FEATURES)
        given["normalisation"] = _renamed(given.pop("pairs", None), _NORMALISATIONS)
    if settings["sums"] is True and isinstance(given.get("features"), str):
        given["features"] += " with sums"  # a name of no map of ours, as functions have
    return given


def _renamed(name: Any, names: dict[str, str]) -> Any:
    return names.get(name, name) if isinstance(name, str) else name
