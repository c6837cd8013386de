"""Reading the lake's state without a JVM: which cut its tables stand at, since when; its log."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Self

from tailrace.reading.store_failure import PATIENCE, store_failure
from tailrace_schemas.topics.topic_names import TableName

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from tailrace_sink.options.config import SinkConfig

_COLUMNS = {"closed_lsn": "through_lsn", "closed_commit_time": "through_commit_time"}
"""Where a field has another name in the commit table than the glossary has for it."""


Options = Mapping[str, str] | None
"""What deltalake opens a store with; nothing for a local folder."""

_NEWEST = 32
"""Commits of the log among which one is a cut: others are of its upkeep."""


_TREE: Final = re.compile(r"\s*(\x1b\[\d*m)?↳(\x1b\[\d*m)?\s*")


@dataclass(frozen=True, slots=True)
class CommitRow:
    """One cut: all tables at one source LSN. Times are UTC."""

    batch: int
    closed_lsn: str
    closed_commit_time: datetime | None
    committed_at: datetime
    rows: int
    tables: Mapping[str, int]
    stopped: Mapping[str, str]
    """Topics of tables that the lake cannot follow, and why."""
    homes: Mapping[str, str] = field(default_factory=dict)
    """Path of each source table whose rows are in a table with others, to its path."""
    left_out: Collection[str] = ()
    """Those of these source tables whose rows are not at the LSN."""

    @property
    def sources(self) -> frozenset[str]:
        """Paths of the source tables with rows in the cut, in tables of their own or shared."""
        shared = {source for source, home in self.homes.items() if home in self.tables}
        return frozenset(self.tables) | shared.difference(self.left_out)

    def place_of(self, name: TableName) -> tuple[str, dict[str, str]]:
        """Path of the lake table with a source table's rows, and columns that select them."""
        home = self.homes.get(name.path, name.path)
        if home == name.path:
            return home, {}
        origin = {"database": name.database, "schema": name.schema, "table": name.table}
        return home, {f"_cdc_{part}": text for part, text in origin.items()}

    @property
    def committed_ms(self) -> int:
        """When the cut became readable, in milliseconds."""
        return round(self.committed_at.timestamp() * 1000)

    @property
    def closed_commit_ms(self) -> int | None:
        """Commit time at the source of its LSN, milliseconds UTC; None if it is not known."""
        known = self.closed_commit_time
        return None if known is None else round(known.timestamp() * 1000)


def log_commits(path: str, options: Options = None) -> list[tuple[str, int]]:
    """Closed LSN of each cut in the lake's log, and when it became readable, in milliseconds.

    Args:
        path: folder or URI of the log (``SinkConfig.log_path``).
        options: of its store (``SinkConfig.storage_options``).

    Returns:
        In the order of the cuts; what Delta still knows of them: a day at least.
    """
    table = _open(path, options)
    cuts: dict[str, int] = {}
    for commit in [] if table is None else reversed(table.history()):
        closed_lsn = commit.get("userMetadata")
        if closed_lsn:
            cuts.setdefault(closed_lsn, commit["timestamp"])
    return sorted(cuts.items())


def reading_options(config: SinkConfig) -> dict[str, str]:
    """Return what deltalake opens a lake with, which gives up soon if its store does not answer.

    Raises:
        ConfigError: the file of a secret cannot be read.
    """
    return {} if config.store is None else {**config.storage_options(), **PATIENCE}


def newest_logged(path: str, options: Options = None) -> str | None:
    """Closed LSN of the newest cut in the lake's log; None while there is none.

    Args:
        path: folder or URI of the log (``SinkConfig.log_path``).
        options: of its store (``reading_options``).
    """
    table = _open(path, options)
    newest_first = [] if table is None else table.history(_NEWEST)
    return next((str(c["userMetadata"]) for c in newest_first if c.get("userMetadata")), None)


def dead_letters(path: str, options: Options = None) -> dict[str, int]:
    """Count the records of each topic that the sink could not apply.

    Args:
        path: folder or URI of the dead letters (``SinkConfig.dead_letters_path``).
        options: of its store (``reading_options``).
    """
    from tailrace_sink.log.delta_query import query_rows

    table = _open(path, options)
    if table is None:
        return {}
    rows = query_rows(table, "SELECT topic, count(*) AS records FROM t GROUP BY topic")
    return {row["topic"]: row["records"] for row in rows}


class CommitRows:
    """The commit table of a lake, read again and again; each row is read once.

    Args:
        path: folder or URI of the commit table (``SinkConfig.commits_path``).
        options: of its store (``reading_options``).
    """

    def __init__(self, path: str, options: Options = None) -> None:
        self._path = path
        self._options = options
        self._version = -1
        self._rows: list[CommitRow] = []

    @classmethod
    def of(cls, config: SinkConfig) -> Self:
        """Return those of a configured lake.

        Raises:
            ConfigError: the file of a secret cannot be read.
        """
        return cls(config.commits_path, reading_options(config))

    def newest(self) -> CommitRow | None:
        """Return the row of the newest cut, read from its own file; None without one."""
        from tailrace_sink.plan.scopes import COMMITS

        table = _open(self._path, self._options)
        if table is None:
            return None
        batch = table.transaction_version(COMMITS)
        found = [] if batch is None else _rows_of(table, f"batch = {batch}")
        # An earlier release wrote it, or it was restored to an older version.
        rows = found or self.read()
        return rows[-1] if rows else None

    def read(self) -> list[CommitRow]:
        """Return all rows in the order of their cuts; empty while there is no commit table."""
        table = _open(self._path, self._options)
        if table is None:
            return []
        if table.version() == self._version:
            return self._rows
        oldest, newest = _batches(table)
        last = self._rows[-1].batch if self._rows else -1
        if newest < last:
            self._rows, last = [], -1  # It was restored to an older version.
        known = [row for row in self._rows if row.batch >= oldest]
        self._rows = [*known, *_rows_of(table, f"batch > {last}")]
        self._version = table.version()
        return self._rows


def _open(path: str, options: Options) -> DeltaTable | None:
    """Open the table at a path; None if there is none."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        return DeltaTable(path, storage_options=dict(options) if options else None)
    except TableNotFoundError:
        return None


def _rows_of(table: DeltaTable, condition: str) -> list[CommitRow]:
    """Read rows in the order of their cuts, from files with such statistics."""
    from tailrace_sink.log.delta_query import query_rows

    known = {column.name for column in table.schema().fields}
    wanted = [_COLUMNS.get(field.name, field.name) for field in fields(CommitRow)]
    columns = [name for name in wanted if name in known]
    found = query_rows(table, f"SELECT {', '.join(columns)} FROM t WHERE {condition}")
    return sorted(map(_commit_row, found), key=lambda row: row.batch)


def _batches(table: DeltaTable) -> tuple[float, float]:
    """Least and greatest batch id by the statistics of the files, as far as they have any."""
    files = table.get_add_actions(flatten=True)
    if not {"min.batch", "max.batch"} <= set(files.schema.names):
        return -math.inf, math.inf
    least, greatest = (files[name].to_pylist() for name in ("min.batch", "max.batch"))
    if None in [*least, *greatest] or not least:
        return -math.inf, math.inf
    return min(least), max(greatest)


def unreadable(config: SinkConfig, what: str, path: str, error: Exception) -> str:
    """Return why a part of the lake cannot be read, and the fix.

    Args:
        what: name of the part, e.g. "commit table".
        path: folder or URI of it.
    """
    if config.store is not None:
        failure = store_failure(config.lake, config.store, str(error))
        if failure is not None:
            return str(failure)
    return (
        f"the lake's {what} {path} cannot be read ({delta_problem(error)}). Fix: check sink.lake"
        " and the permissions on it"
    )


def delta_problem(error: Exception) -> str:
    """Return what deltalake says of an error, in one line: of a store, it is a coloured tree."""
    return " ".join(_TREE.sub(": ", str(error)).split())


def _commit_row(row: dict[str, Any]) -> CommitRow:
    """A row of the commit table; an earlier release's lacks the columns with JSON."""
    found = dict(row)
    for name, column in _COLUMNS.items():
        found[name] = found.pop(column)
    stopped = json.loads(found.get("stopped") or "{}")
    found |= {"homes": json.loads(found.get("homes") or "{}")}
    found |= {"left_out": json.loads(found.get("left_out") or "[]")}
    return CommitRow(**{**found, "tables": dict(found["tables"]), "stopped": stopped})
