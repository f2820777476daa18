"""What tests of the `npn` command share: how to run it, and a folder of tables and models to run it on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from torchnpn.cli import app as cli

QUICK = ["--epochs", "2", "--hidden", "4", "--device", "cpu"]
BARE = [*QUICK, "--no-report"]
RUNNER = CliRunner()


def run(*args: object, input: bytes | None = None):
    return RUNNER.invoke(cli.app, [str(arg) for arg in args], input=input)


def done(*args: object, input: bytes | None = None) -> str:
    """Output of a command that should succeed."""
    result = run(*args, input=input)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*args: object, status: int = 2) -> str:
    """The one line of a command that should not."""
    result = run(*args)
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == status, result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("npn: ")
    return line


def frame(rows: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x, colour = rng.normal(size=rows), rng.choice(["red", "green", "blue"], rows)
    y = 3 * x + (colour == "red") + rng.normal(size=rows)
    return pd.DataFrame(
        {
            "id": [f"row {i}" for i in range(rows)],
            "x": np.where(rng.random(rows) < 0.1, np.nan, x),
            "colour": colour,
            "y": y,
            "size": np.where(y > 2, "large", np.where(y > -2, "middle, or so", "small")),
            "count": rng.poisson(np.exp(0.5 * x + 1)),
            "amount": rng.gamma(1.0, np.exp(0.2 * x)),
            "share": rng.beta(2, 3, rows),
        }
    )


def filled(folder: Path) -> Path:
    """The folder with tables and models in it, which tests read and never change."""
    frame().to_csv(folder / "data.csv", index=False)
    frame(40).drop(columns=["y", "size"]).to_csv(folder / "new.csv", index=False)
    frame(40).to_parquet(folder / "new.parquet")
    drop = [word for name in ("count", "amount", "share") for word in ("--drop", name)]
    done("fit", folder / "data.csv", "-t", "y", "--drop", "size", *drop, "-o", folder / "number.npn", *BARE)
    done("fit", folder / "data.csv", "-t", "size", "--drop", "y", *drop, "-o", folder / "class.npn", *BARE)
    return folder
