"""The first things people do, in an environment that was just installed: `python smoke.py WHAT [FOLDER or NAMES]`.

Says as JSON what it saw, and fails where that is not right. Its parts know only the package that they are about.
"""

from __future__ import annotations

import contextlib
import csv
import json
import random
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

SCRIPTS = Path(sysconfig.get_path("scripts"))


def command(*arguments: object) -> str:
    """What a command of this environment prints."""
    done = subprocess.run([SCRIPTS / str(arguments[0]), *map(str, arguments[1:])], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def library(folder: Path) -> str:
    """Fit, predict, save and load, with nothing but the library."""
    import numpy as np

    import torchnpn as npn

    draw = np.random.default_rng(0)
    X = draw.normal(size=(200, 4))
    y = X[:, 0] + draw.normal(0, 0.2, 200)
    model = npn.NPNRegressor(random_state=0, effort="quick").fit(X, y)
    low, high = model.predict_interval(X, level=0.9)
    share = float(np.mean((low < y) & (y < high)))
    assert share > 0.7, share
    npn.save(model, folder / "library.npn")
    again = npn.load(folder / "library.npn")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert set(npn.NPNClassifier(random_state=0, effort="quick").fit(X, y > 0).predict(X)) == {False, True}
    return f"fits, predicts ({share:.0%} in 90 % intervals), saves and loads"


def studies(folder: Path) -> str:
    """The command `npn`, with those that the studies add to it."""
    count = len(command("npn", "reproduce", "--list").splitlines())
    assert count > 5, count
    return f"{command('npn', '--version')}; npn reproduce names {count} lines of experiments"


def command_line(folder: Path) -> str:
    """A table from fit to predictions, to an ONNX file for the runtime, and by a server."""
    write_table(folder / "houses.csv", 400, seed=0)
    write_table(folder / "new.csv", 50, seed=1)
    model, page = folder / "houses.npn", folder / "houses.html"
    command("npn", "fit", folder / "houses.csv", "--target", "price", "-o", model, "--report")
    assert page.stat().st_size > 10_000
    assert "price" in command("npn", "info", model)
    assert "--target" in command("npn", "fit", "--help")
    command("npn", "predict", model, folder / "new.csv", "-o", folder / "expected.csv")
    command("npn", "export", model, "-o", folder / "houses.onnx")
    return f"npn fit, info, predict, export; a server answers {served(model)}"


def served(model: Path) -> str:
    """The answer of `npn serve` to one row."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([SCRIPTS / "npn", "serve", model, "--port", str(port)], stdout=subprocess.DEVNULL)
    row = json.dumps({"area": 80, "district": "North", "built": "1999-05-01"}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/predict", row, {"content-type": "application/json"})
    try:
        for _ in range(1_500):  # five minutes: machines are busy
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return answer.read(60).decode()
            except urllib.error.HTTPError as refused:
                raise SystemExit(f"npn serve refuses: {refused.read().decode()}") from None
            except OSError:
                assert process.poll() is None, "npn serve has ended"
                time.sleep(0.2)
        raise SystemExit("npn serve does not answer")
    finally:
        process.terminate()
        process.wait(30)


def runtime(folder: Path) -> dict[str, float]:
    """The figures of `npn predict`, without PyTorch."""
    start = time.process_time()
    import npn_runtime

    seconds = time.process_time() - start
    assert not {"torch", "pandas", "pyarrow", "scipy"} & sys.modules.keys(), npn_runtime
    command("npn-runtime", "predict", folder / "houses.onnx", folder / "new.csv", "-o", folder / "runtime.csv")
    expected, found = (list(csv.DictReader((folder / name).open())) for name in ("expected.csv", "runtime.csv"))
    assert [list(row) for row in expected] == [list(row) for row in found]
    worst = 0.0
    for one, other in zip(expected, found, strict=True):
        scale = float(one["price_std"])
        for name, text in one.items():
            if not name.startswith("price_"):
                assert text == other[name], (name, text, other[name])
                continue
            worst = max(worst, abs(float(text) - float(other[name])) / scale)
    assert worst < 1e-3, worst
    files = [path for path in Path(sys.prefix).rglob("*") if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in files) / 1e6
    own = sum(path.stat().st_size for path in files if not {"pip", "setuptools"} & set(path.parts)) / 1e6
    return {"worst": worst, "megabytes": size, "without pip": own, "import seconds": seconds}


def write_table(path: Path, rows: int, seed: int) -> None:
    """Numbers, categories, dates, gaps."""
    draw = random.Random(seed)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["area", "district", "built", "price"] if seed == 0 else ["area", "district", "built"])
        for _ in range(rows):
            area, district, year = (
                draw.uniform(20, 200),
                draw.choice(["North", "South", "Old town"]),
                draw.randint(1900, 2020),
            )
            price = 2_000 * area * (1.5 if district == "Old town" else 1) + (year - 1900) * 500 + draw.gauss(0, 9_000)
            area_cell = "" if draw.random() < 0.1 else f"{area:.1f}"
            district_cell = "Moon" if seed and draw.random() < 0.1 else district  # never met in training
            cells = [area_cell, district_cell, f"{year}-{draw.randint(1, 12):02}-01"]
            writer.writerow([*cells, f"{price:.0f}"] if seed == 0 else cells)


def versions(*names: str) -> dict[str, str]:
    """Those that are installed."""
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    parts: dict[str, Callable[[Path], Any]] = {
        "library": library, "studies": studies, "command": command_line, "runtime": runtime
    }  # fmt: skip
    print(json.dumps(versions(*rest) if what == "versions" else parts[what](Path(rest[0]))))
