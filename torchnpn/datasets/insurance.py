"""Motor insurance: counts of claims and what they cost, by policy."""

from __future__ import annotations

import numpy as np

from torchnpn.datasets.dataset import Dataset, Source
from torchnpn.datasets.store import Arrays

NUMBERS = {"exposure": "Exposure", "vehicle_value": "VehValue"}  # our name -> the original's
CATEGORIES = {"vehicle_age": "VehAge", "vehicle_body": "VehBody", "gender": "Gender", "driver_age": "DrivAge"}
ORDER = {  # from young to old; the file has them by alphabet
    "vehicle_age": ("youngest cars", "young cars", "old cars", "oldest cars"),
    "driver_age": (
        "youngest people",
        "young people",
        "working people",
        "older work. people",
        "old people",
        "oldest people",
    ),
}


def read(arrays: Arrays) -> Dataset:
    """The data set of the columns, with categories as their numbers and age groups in the order of age."""
    columns = {name: arrays[original].astype(np.float64) for name, original in NUMBERS.items()}
    categories = {}
    for name, original in CATEGORIES.items():
        levels = [level.decode() for level in arrays[f"{original}_levels"].tolist()]
        categories[name] = ORDER.get(name, tuple(levels))
        number = np.array([categories[name].index(level) for level in levels], dtype=np.float64)
        columns[name] = number[arrays[original]]
    targets = {"counts": arrays["ClaimNb"].astype(np.float64), "amounts": arrays["ClaimAmount"].astype(np.float64)}
    return Dataset(
        name=SOURCE.name,
        X=np.column_stack(list(columns.values())),
        y=targets["counts"],
        feature_names=tuple(columns),
        targets=targets,
        categories=categories,
        description=(
            "Australian motor policies of 2004 and 2005 (de Jong and Heller, 2008): the number of claims, and their "
            "amount in all, zero where there is none. The exposure is the share of a year that a policy was in force. "
            "The features say little about the amounts, which have a heavy tail; 53 vehicles have the value 0."
        ),
    )


SOURCE = Source(
    name="motor-insurance",
    title="Claims of Australian motor policies",
    rows=67856,
    columns=len(NUMBERS) + len(CATEGORIES),
    task="counts and amounts",
    licence="GPL 2 or later",
    origin="R package CASdatasets, ausprivauto0405",
    path="ausprivauto/ausprivauto0405.npz",
    digest="7524253fe50a7f200a0f866007b38af443eeb471c4e9818cd0d981b50d5fcfaf",
    read=read,
    by_hand=(
        "Its original is data/ausprivauto0405.rda of the R package CASdatasets, github.com/dutangc/CASdatasets. "
        "The page on data sets in the documentation shows how to convert it."
    ),
)
