"""Verdicts on the figures that the paper prints for MNIST, and on its objective, from its own protocol (`paper`)."""

from __future__ import annotations

from typing import Any

from npn_studies.experiments import mnist_size
from npn_studies.experiments.digits import TRAINING
from npn_studies.experiments.tables import Summary
from npn_studies.experiments.verdict import BETTER, HOLDS, NOT, OPEN, Records, Verdict, judged, mean

TABLE_2, TABLE_2_GAMMA = 1.25, 1.27  # test errors in percent, as printed
NEAR = 0.15  # points
_KINDS = {"none": "without the KL", "dropout": "without the KL, with dropout", "full": "with the whole KL"}


def prior(found: Records) -> Verdict:
    """2.4: the KL from a wide prior as a regulariser."""
    places = {"toy": "std_far", "boston/authors": "rmse"}
    places |= {f"mnist/{size}": "error" for size in (100, 10_000, TRAINING)}
    words = {"std_far": "std at ±6", "rmse": "Boston RMSE"}
    told, worse = [], []
    for place, key in places.items():
        pair = [_cell(found, f"{place}/{name}") for name in ("full", "none")]
        if None not in pair:
            full, none = (mean(one["figures"][key]) for one in pair if one)
            what = words.get(key) or f"error with {int(place.partition('/')[2]):,} images, %"
            told.append(f"{what} {full:.3g} with the whole KL, {none:.3g} without")
            worse.append(full > none)
    return judged(not all(worse), "; ".join(told)) if told else Verdict(OPEN, "no network of it yet")


def table_2(found: Records) -> Verdict:
    """The Gaussian network on 50,000 images: within `NEAR` of what is printed, or under it."""
    errors = _errors(found, TRAINING)
    if not errors:
        return Verdict(OPEN, "no network of it yet")
    nearest = min((error.mean for error in errors.values()), key=lambda value: abs(value - TABLE_2))
    return judged(abs(nearest - TABLE_2) <= NEAR, f"to the letter {_told(errors)}")


def table_2_gamma(found: Records) -> Verdict:
    """The paper's gamma network, open until one has learnt from all images."""
    cells = {key: one for key, one in found["paper"]["cells"].items() if key.startswith("mnist/") and "/gamma/" in key}
    if not cells:
        return Verdict(OPEN, "no network of it yet")
    told = []
    for key, one in cells.items():
        _, images, _, *way = key.split("/")
        error, epochs = Summary.of(one["figures"]["error"]), one["settings"]["epochs"]
        by = f"{way[0]} without the KL" if "none" in way else way[0]
        told.append(f"{error} % ({int(images):,} images, {by}, {epochs:,} epochs)")
    best = [mean(one["figures"]["error"]) for one in cells.values() if one["settings"]["images"] == TRAINING]
    evidence = f"to the letter {'; '.join(told)}"
    return judged(min(best) <= TABLE_2_GAMMA + NEAR, evidence) if best else Verdict(OPEN, f"on all images; {evidence}")


def table_3(found: Records) -> Verdict:
    """The Gaussian network on fewer images."""
    printed = mnist_size.PAPER["npn"]
    errors = {size: _errors(found, size).get("none") for size in printed}
    there = {size: error for size, error in errors.items() if error is not None}
    if not there:
        return Verdict(OPEN, "no network of it yet")
    under = [error.mean <= float(printed[size]) + NEAR for size, error in there.items()]
    told = "; ".join(f"{error} % for {printed[size]} % with {size:,} images" for size, error in there.items())
    return Verdict(BETTER if all(under) else HOLDS if any(under) else NOT, f"to the letter without the KL {told}")


def dropout_helps(found: Records) -> Verdict:
    """Supplement: dropout regularises NPN effectively."""
    pairs = {size: _errors(found, size) for size in (100, 500, 2_000, 10_000, TRAINING)}
    there = {size: pair for size, pair in pairs.items() if {"none", "dropout"} <= pair.keys()}
    if not there:
        return Verdict(OPEN, "no network of it yet")
    better = [pair["dropout"].mean < pair["none"].mean for pair in there.values()]
    told = "; ".join(
        f"{size:,} images {pair['dropout']} % with, {pair['none']} % without" for size, pair in there.items()
    )
    return judged(all(better), f"to the letter without the KL: {told}")


def _cell(found: Records, key: str) -> Any:
    return found["paper"]["cells"].get(key)


def _errors(found: Records, size: int) -> dict[str, Summary]:
    cells = {kind: _cell(found, f"mnist/{size}/{kind}") for kind in _KINDS}
    return {kind: Summary.of(one["figures"]["error"]) for kind, one in cells.items() if one}


def _told(errors: dict[str, Summary]) -> str:
    return "; ".join(f"{error} % {_KINDS[kind]}" for kind, error in errors.items())
