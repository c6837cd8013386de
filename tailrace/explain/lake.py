"""What the lake holds of a row, all at one of its cuts.

The cut is chosen before source and topics are read. So the lake never shows a change that they do
not show yet, nor a row that is newer than the cuts that are named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tailrace.explain.row import Explanation, Key
from tailrace.reading.lake import CommitRow, CommitRows, delta_problem, reading_options, unreadable

if TYPE_CHECKING:
    from tailrace_sink.options.config import SinkConfig

_BY_SPARK: Final = 'read(spark, lake).as_of("latest").read(table) of tailrace_sink reads'


@dataclass(frozen=True, slots=True)
class LakeLook:
    """The lake at its newest cut.

    Attributes:
        path: folder or URI of the lake.
        cuts: all cuts, the newest last.
        options: of its store (``reading_options``).
        problem: why they cannot be read; None if they were.
        is_delta: whether its tables are in Delta.
    """

    path: str
    cuts: Sequence[CommitRow]
    problem: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    is_delta: bool = True

    @classmethod
    def at(cls, config: SinkConfig) -> LakeLook:
        """Look at a lake now."""
        from deltalake.exceptions import DeltaError

        try:
            cuts = CommitRows.of(config).read()
            is_delta = config.iceberg is None
            return cls(config.lake, cuts, options=reading_options(config), is_delta=is_delta)
        except (DeltaError, OSError) as error:
            problem = unreadable(config, "commit table", config.commits_path, error)
            return cls(config.lake, (), problem)


def add_cuts(found: Explanation, look: LakeLook) -> None:
    """Find the cuts in which the changes came into the lake's tables."""
    found.lake_problem = look.problem
    for change in found.changes:
        lsn = change.position.commit_lsn
        cut = next((cut for cut in look.cuts if cut.closed_lsn >= str(lsn)), None)
        if cut is not None:
            found.cuts[lsn] = cut


def add_lake(found: Explanation, look: LakeLook) -> None:
    """Read the row at the newest cut, and find the cuts in which its changes came."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    from tailrace_sink.log.delta_query import query_rows

    add_cuts(found, look)
    if look.problem is not None:
        return
    if not look.is_delta:
        found.lake_problem = f"its tables are in Iceberg; {_BY_SPARK} them"
        return
    place, origin = look.cuts[-1].place_of(found.table) if look.cuts else (found.table.path, {})
    path = f"{look.path}/{place}"
    key: Key = {**_typed_key(found), **origin}
    version = look.cuts[-1].tables.get(place) if look.cuts else None
    try:
        table = DeltaTable(path, version, storage_options=dict(look.options) or None)
        condition = " AND ".join(f'"{_quoted(n)}" = {_literal(v)}' for n, v in key.items())
        held = query_rows(table, f"SELECT * FROM t WHERE {condition}")
        found.lake = held[0] if held else None
    except TableNotFoundError:
        found.lake_problem = f"there is no table {path} (yet)"
    except (DeltaError, OSError, ValueError) as error:
        found.lake_problem = (
            f"deltalake does not read {path} ({delta_problem(error)}); {_BY_SPARK} it"
        )


def _typed_key(found: Explanation) -> Key:
    """Return the key with the values of the source, if some stage holds the row."""
    held = [found.now, *(change.values for change in found.changes)]
    row = next((row for row in held if row is not None), found.key)
    by_name = {name.casefold(): value for name, value in row.items()}
    return {name: by_name[name.casefold()] for name in found.key}


def _quoted(name: str) -> str:
    return name.replace('"', '""')


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return "'" + str(value).replace("'", "''") + "'"
