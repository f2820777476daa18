"""A table in the files of a folder, its shards: opened, compared with each other, and read one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from torchnpn._text import shown
from torchnpn.table_files.column_survey import SurveyedColumn, settle
from torchnpn.table_files.formats import TableError, is_gzip, table_format
from torchnpn.table_files.read import Progress, Table, cells, no_progress, open_table, parquet_batches, parquet_metadata

_FEW_CELLS = 1_000  # of a shard, that tell numbers from text
_PACKED = 3  # times smaller is a compressed file, about


class BadShard(NamedTuple):
    """A file of a folder that cannot be used, and why."""

    path: Path
    reason: str


@dataclass(frozen=True)
class FolderTable(Table):
    """Files with the same columns as one table."""

    shards: tuple[Table, ...] = ()
    bad: tuple[BadShard, ...] = ()  # that are left out

    @property
    def about_rows(self) -> int:
        """How many rows there are; of CSV files, by their size and their first rows."""
        return sum(map(_about_rows, self.shards))

    def batches(self, progress: Progress = no_progress) -> Iterator[pa.RecordBatch]:
        """All rows, shard after shard, in the order of their names."""
        sizes = [shard.path.stat().st_size for shard in self.shards]
        done, rows = 0, 0
        for shard, size in zip(self.shards, sizes, strict=True):
            for whole in shard.batches(_part_of(progress, done, size, sum(sizes))):
                batch = whole.select(self.names)
                batch = batch if self.rows is None else batch.slice(0, max(self.rows - rows, 0))
                if batch.num_rows:
                    yield batch
                rows += batch.num_rows
            done += size


class Piece(NamedTuple):
    """A row group of a Parquet file, or a whole file of another kind: what is read from its beginning to its end."""

    shard: int
    group: int | None
    rows: int  # 0 where only reading tells


def pieces(table: FolderTable) -> list[Piece]:
    """All pieces, in the order of the rows."""
    found = []
    for number, shard in enumerate(table.shards):
        if table_format(shard.path) != "parquet":
            found.append(Piece(number, None, 0))
            continue
        about = parquet_metadata(shard.path)
        sizes = (about.row_group(group).num_rows for group in range(about.num_row_groups))
        found += [Piece(number, group, rows) for group, rows in enumerate(sizes)]
    return found


def read_piece(table: FolderTable, piece: Piece, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a piece, and these columns of them."""
    shard = table.shards[piece.shard]
    if piece.group is None:
        yield from (batch.select(names) for batch in shard.batches())
    else:
        yield from parquet_batches(shard, [piece.group], names)


def shard_paths(folder: Path) -> list[Path]:
    """The files in a folder and below, by name; none whose names begin with _ or a point, as Spark's markers do.

    Raises:
        TableError: There are none.
    """
    inside = (path for path in sorted(folder.rglob("*")) if path.is_file())
    found = [path for path in inside if not any(p.startswith(("_", ".")) for p in path.relative_to(folder).parts)]
    if not found:
        raise TableError(
            f"{folder} is a folder without files. Expected Parquet or CSV files, all with the same columns."
        )
    return found


def open_folder(folder: Path, skip_bad: bool = False) -> FolderTable:
    """Look at all files of a folder.

    A file is bad if it cannot be read, is empty, or differs from most others in the names of its columns, or in which
    of them hold text.

    Args:
        folder: With Parquet or CSV files.
        skip_bad: Whether to leave bad files out.

    Raises:
        TableError: A file is bad, and not to be left out; or all are.
    """
    bad: list[BadShard] = []
    looks: dict[Path, _Look] = {}
    for path in shard_paths(folder):
        try:
            looks[path] = _Look.at(path)
        except (TableError, OSError) as error:
            bad.append(BadShard(path, _without(str(error), path)))
    usual = _usual([look.kinds for look in looks.values()])
    for path, look in list(looks.items()):
        if difference := _difference(look.kinds, usual):
            bad.append(BadShard(path, difference))
            del looks[path]
    if bad and not (skip_bad and looks):
        more = f" So are {len(bad) - 1} more files." if len(bad) > 1 else ""
        raise TableError(f"{bad[0].path} cannot be used: {bad[0].reason}.{more} To go on without: --on-bad skip.")
    first, *_ = shards = [look.table for look in looks.values()]
    return FolderTable(folder, first.names, first.types, str(folder), first.layout, shards=(*shards,), bad=(*bad,))


class _Look(NamedTuple):
    """What the first rows of a file show."""

    table: Table
    kinds: Mapping[str, str]  # of the columns: numbers, text, or nothing

    @classmethod
    def at(cls, path: Path) -> _Look:
        if not path.stat().st_size:
            raise TableError("it is empty")
        table = open_table(path)
        if table_format(path) == "parquet":
            if not parquet_metadata(path).num_rows:
                raise TableError("it has no rows")
            return cls(table, {name: _kind_of(kind) for name, kind in zip(table.names, table.types, strict=True)})
        batches = table.batches()
        head = next(batches).slice(0, _FEW_CELLS)
        batches.close()  # type: ignore[attr-defined]  # a generator, which closes the file
        columns = {name: SurveyedColumn(name) for name in head.schema.names}
        for name, column in columns.items():
            if (found := cells(head[name])) is not None:
                column.add(found, 1)
        settle(columns.values(), None, table.delimiter)
        return cls(table, {name: _kind_seen(column) for name, column in columns.items()})


def _about_rows(shard: Table) -> int:
    if table_format(shard.path) == "parquet":
        return int(parquet_metadata(shard.path).num_rows)
    batches = shard.batches()
    head = next(batches)
    batches.close()  # type: ignore[attr-defined]
    packed = _PACKED if is_gzip(shard.path) else 1
    return max(int(head.num_rows), int(packed * shard.path.stat().st_size * head.num_rows / max(head.nbytes, 1)))


def _kind_of(kind: pa.DataType) -> str:
    if pa.types.is_null(kind):
        return ""
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return "numbers" if numbers else "text"


def _kind_seen(column: SurveyedColumn) -> str:
    return "" if not column.filled else "numbers" if column.is_number else "text"


def _usual(every: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The columns that most files have, and what most of these hold."""
    counts: dict[str, Counter[str]] = {}
    for kinds in every:
        for name, kind in kinds.items():
            counts.setdefault(name, Counter())[kind] += 1
    there = {name: count for name, count in counts.items() if 2 * count.total() > len(every)}
    return {name: next((kind for kind, _ in count.most_common() if kind), "") for name, count in there.items()}


def _difference(kinds: Mapping[str, str], usual: Mapping[str, str]) -> str:
    """In what the columns of a file differ from the usual ones, in words; nothing where they do not."""
    for name, kind in usual.items():
        if name not in kinds:
            return f"it has no column {shown(name)}, which most other files have"
        if kind and kinds[name] not in ("", kind):
            return f"its column {shown(name)} holds {kinds[name]}, in most other files {kind}"
    extra = [name for name in kinds if name not in usual]
    return f"it has a column {shown(extra[0])}, which most other files lack" if extra else ""


def _without(message: str, path: Path) -> str:
    """A message about a file, to follow its name."""
    words = message.removeprefix(str(path)).removeprefix(":").strip().rstrip(".")
    return f"it {words}" if words.startswith(("is ", "has ", "holds ", "cannot ")) else words


def _part_of(progress: Progress, done: int, size: int, total: int) -> Progress:
    return lambda share: progress((done + share * size) / total)
