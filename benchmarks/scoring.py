"""Predictions by Dask, Ray Data and Spark, here in their local modes, are those of `predict`.

Run `python benchmarks/scoring.py`, or name some of npn, polars, dask, ray and spark.

Each reads a folder of Parquet files, has `TableModel.predict_frame` predict its parts, and writes another folder. Needs
`pip install "dask[dataframe]" "ray[data]" pyspark polars`; Spark also a Java runtime, as apt's openjdk-17-jre-headless.
With all three, it writes studies/results/scoring.json.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import torchnpn as npn
from torchnpn.tables import TableModel

ROWS, SHARDS = 20_000, 8
RECORD = Path(__file__).parents[1] / "studies" / "results" / "scoring.json"


def table(rows: int = ROWS) -> pd.DataFrame:
    """Rows with numbers, categories, gaps and an amount to predict."""
    rng = np.random.default_rng(0)
    x, kind = rng.normal(size=rows), rng.choice(["car", "van", "bike"], rows)
    return pd.DataFrame(
        {
            "id": np.arange(rows) + 10**6,
            "x": np.where(rng.random(rows) < 0.1, np.nan, x),
            "kind": kind,
            "amount": rng.gamma(2.0, np.exp(0.5 * x + (kind == "van"))),
        }
    )


# --8<-- [start:dask]
def by_dask(model: Path, folder: Path, out: Path) -> str:
    """`map_partitions`, with an empty part as the description of the result."""
    import dask.dataframe as dd

    fitted = npn.load(model)
    rows = dd.read_parquet(folder)
    meta = fitted.predict_frame(rows.head(1)[:0], keep=["id"])
    rows.map_partitions(fitted.predict_frame, keep=["id"], meta=meta).to_parquet(out)
    return "dask"


# --8<-- [end:dask]


# --8<-- [start:ray]
def by_ray(model: Path, folder: Path, out: Path) -> str:
    """`map_batches` of Arrow tables; each process loads the model once."""
    import ray

    class Predict:
        def __init__(self) -> None:
            self.model = npn.load(model)

        def __call__(self, batch: pa.Table) -> pa.Table:
            return self.model.predict_frame(batch, keep=["id"])

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    rows = ray.data.read_parquet(str(folder)).map_batches(Predict, batch_format="pyarrow", concurrency=1)
    rows.write_parquet(str(out))
    ray.shutdown()
    return "ray"


# --8<-- [end:ray]


def spark_session() -> "pyspark.sql.SparkSession":  # noqa: F821, UP037
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    local = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    return local.config("spark.sql.execution.arrow.maxRecordsPerBatch", 4_096).getOrCreate()


# --8<-- [start:arrow]
def by_spark_arrow(model: Path, folder: Path, out: Path) -> str:
    """`mapInArrow`: a function of an iterator of record batches, so that the model is loaded once a task."""
    from pyspark.sql.pandas.types import from_arrow_schema

    def predict(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fitted = npn.load(model)
        for batch in batches:
            yield fitted.predict_frame(batch, keep=["id"])

    sample = pq.read_table(next(folder.glob("*.parquet"))).slice(0, 0)
    schema = from_arrow_schema(npn.load(model).predict_frame(sample, keep=["id"]).schema)
    spark_session().read.parquet(str(folder)).mapInArrow(predict, schema).write.parquet(str(out))
    return "pyspark"


# --8<-- [end:arrow]


# --8<-- [start:pandas]
def by_spark_pandas(model: Path, folder: Path, out: Path) -> str:
    """`mapInPandas`: the same with frames of pandas."""

    def predict(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        fitted = npn.load(model)
        for frame in frames:
            yield fitted.predict_frame(frame, keep=["id"])

    schema = "id long, amount_mean double, amount_std double, amount_low double, amount_high double"
    spark_session().read.parquet(str(folder)).mapInPandas(predict, schema).write.parquet(str(out))
    return "pyspark"


# --8<-- [end:pandas]


def by_polars(model: Path, folder: Path, out: Path) -> str:
    """A frame of polars, in and out."""
    import polars as pl

    out.mkdir()
    npn.load(model).predict_frame(pl.read_parquet(folder / "*.parquet"), keep=["id"]).write_parquet(out / "all.parquet")
    return "polars"


def by_npn(model: Path, folder: Path, out: Path) -> str:
    """The command, with two processes."""
    command = [sys.executable, "-m", "torchnpn", "predict", *map(str, (model, folder, "-o", out))]
    subprocess.run([*command, "--keep", "id", "--workers", "2"], check=True)
    return "torchnpn"


WAYS: dict[str, list[Callable[[Path, Path, Path], str]]] = {
    "npn": [by_npn],
    "polars": [by_polars],
    "dask": [by_dask],
    "ray": [by_ray],
    "spark": [by_spark_arrow, by_spark_pandas],
}


def main(chosen: list[str]) -> None:
    """Compare each way with `predict` on the whole table."""
    record = {"rows": ROWS, "files": SHARDS, "python": sys.version.split()[0], "ways": {}}
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        rows = table()
        (folder := home / "rows").mkdir()
        for k, part in enumerate(np.array_split(np.arange(ROWS), SHARDS)):
            rows.iloc[part].to_parquet(folder / f"part-{k}.parquet", index=False)
        npn.save(TableModel.fit(rows[:2_000], "amount", hidden=(20,), max_epochs=5), model := home / "m.npn")
        expected = pd.DataFrame(npn.load(model).predict(rows))
        for way in (way for one in chosen for way in WAYS[one]):
            start = time.perf_counter()
            package = way(model, folder, out := home / way.__name__)
            seconds = time.perf_counter() - start
            files = [one for one in sorted(out.rglob("*.parquet")) if not one.name.startswith((".", "_"))]
            found = pd.concat(map(pd.read_parquet, files)).sort_values("id", ignore_index=True)
            assert list(found["id"]) == list(rows["id"]), f"{way.__name__} lost rows"
            apart = float(np.abs(found[expected.columns].to_numpy() - expected.to_numpy()).max())
            version = importlib.metadata.version(package)
            record["ways"][way.__name__] = {"version": version, "largest difference": apart}
            print(f"{way.__name__}: {package} {version}, {seconds:.1f} s, largest difference {apart:g}", flush=True)
            assert apart == 0, "the numbers should be those of predict"
    if set(chosen) == set(WAYS):
        RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:] or list(WAYS))
