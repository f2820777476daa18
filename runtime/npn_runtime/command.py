"""The command `npn-runtime`: predictions for a CSV file, what a model is, and a small server."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import npn_runtime
from npn_runtime import csv_files
from npn_runtime.errors import ModelError, TableError, did_you_mean, shown
from npn_runtime.frames import Frame
from npn_runtime.model import Model, load

_EXAMPLES = """examples:
  npn-runtime predict model.onnx new.csv -o predicted.csv
  npn-runtime predict model.onnx new.csv --bare | head
  npn-runtime info model.onnx
  npn-runtime serve model.onnx --port 8000
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the script; what is wrong is one line, and status 2."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except (ModelError, TableError) as error:
        _fail(str(error))
    except BrokenPipeError:  # of `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        _fail(f"{error.filename or ''}: {error.strerror or error}".lstrip(": "))
    except KeyboardInterrupt:
        sys.exit(130)


def _fail(words: str) -> None:
    print(f"npn-runtime: {words}", file=sys.stderr)
    sys.exit(2)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="npn-runtime",
        description="Predictions with their uncertainty, from a model that `npn export` wrote, without PyTorch.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"npn-runtime {npn_runtime.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    predict = commands.add_parser("predict", help="predict each row of a CSV file")
    predict.set_defaults(run=_predict)
    predict.add_argument("model", help="ONNX file of npn export")
    predict.add_argument("rows", help="CSV file with the model's columns")
    predict.add_argument("-o", "--out", default="-", help="CSV file to write; - prints it")
    predict.add_argument("--level", type=float, help="what an interval is to hold; by default as exported")
    predict.add_argument("--keep", action="append", metavar="COLUMN", help="input column to keep; repeatable")
    predict.add_argument("--bare", action="store_true", help="write only the predictions")
    predict.add_argument("--top", type=int, help="how many of the most likely classes to write, 0 for all")
    predict.add_argument("--raw", action="store_true", help="write text cells as they are, also formulas")
    info = commands.add_parser("info", help="show what a model reads and gives")
    info.set_defaults(run=lambda options: print(described(load(options.model))))
    info.add_argument("model", help="ONNX file of npn export")
    serve = commands.add_parser("serve", help="answer requests for predictions")
    serve.set_defaults(run=_serve)
    serve.add_argument("model", help="ONNX file of npn export")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen at; 0.0.0.0 lets other machines in")
    serve.add_argument("--port", type=int, default=8000)
    return parser


def _predict(options: argparse.Namespace) -> None:
    if options.bare and options.keep:
        _fail("--bare keeps no column, and --keep names one. Choose one of the two.")
    model, rows = load(options.model), Path(options.rows)
    if options.out != "-" and Path(options.out).exists() and os.path.samefile(options.out, rows):
        _fail(f"-o names the table itself, {options.out}. Choose another name.")
    count, with_header = 0, True
    with _output(options.out) as file:
        for part, predicted in model.predict_parts(rows, options.level, options.top):
            kept = _kept(part, [] if options.bare else options.keep, predicted)
            csv_files.write(file, kept, predicted, with_header, options.raw)
            count, with_header = count + part.rows, False
    if options.out != "-":
        print(f"{count:,} rows: {options.out}")


@contextlib.contextmanager
def _output(out: str) -> Iterator[IO[str]]:
    if out != "-":
        with csv_files.whole_file(Path(out)) as file:
            yield file
        return
    yield sys.stdout
    sys.stdout.flush()


def _kept(part: Frame, keep: Sequence[str] | None, predicted: dict[str, Any]) -> Frame:
    names = list(part.columns) if keep is None else list(dict.fromkeys(keep))
    for name in names:
        if name not in part.columns:
            raise TableError(f"The table has no column {shown(name)} to keep.{did_you_mean(name, part.columns)}")
        if name in predicted:
            raise TableError(f"The table already has a column {name!r}. Leave it out with --keep or --bare.")
    return part._replace(columns={name: part.columns[name] for name in names})


def _serve(options: argparse.Namespace) -> None:
    from npn_runtime import server

    server.serve(load(options.model), options.host, options.port)


def described(model: Model) -> str:
    """What a model reads and gives, line by line."""
    about, target = model.about, model.about.get("target", {})
    classes = about.get("classes", [])
    name, family = target.get("name", "the target"), target.get("family", "class")
    what = f"one of {len(classes)} classes" if classes else f"{family}, with intervals of {about['interval']:.0%}"
    lines = [f"{about['model']} of torchnpn {about.get('library', '?')}: predicts {name} ({what})", "", "reads"]
    width = max(map(len, model.names))
    pairs = zip(model.columns, about["columns"], strict=True)
    lines += [f"  {column.name:{width}}  {_holds(column, one)}" for column, one in pairs]
    width = max(map(len, about["outputs"]))
    return "\n".join([*lines, "", "gives", *(f"  {key:{width}}  {words}" for key, words in about["outputs"].items())])


def _holds(column: Any, about: dict[str, Any]) -> str:
    if column.kind == "category":
        levels = list(column.levels)
        return f"one of {len(levels)}: {', '.join(levels[:5])}{', …' if len(levels) > 5 else ''}"
    if column.kind == "date":
        return {"clock": "times of day", "utc": "times with a time zone"}.get(column.clock, "dates")
    low, high = about.get("range", (None, None))
    numbers = "numbers above 0" if column.kind == "exposure" else "numbers"
    return numbers if low is None else f"{numbers} from {low:.4g} to {high:.4g}"
