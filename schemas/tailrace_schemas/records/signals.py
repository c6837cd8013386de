"""Signals: requests of operators to a running publisher.

Topic ``<prefix>.signals``, one partition, a JSON object per record, so that any Kafka client can
write one. The checkpoint holds the offset after the last signal that was taken, so each is taken
exactly once.

- ``{"type": "snapshot", "tables": ["dbo.orders"]}`` requests a new snapshot of tables. With
  ``"where": {"dbo.orders": "status = 'open'"}`` for a partial one: the rows that meet a condition
  are published again, and the table stays in the cut (ADR 0042).
- ``{"type": "repair", "table": "dbo.orders", "columns": ["id"], "keys": [["7"], ["9"]]}``: rows
  with these keys are published again as they are at the source. Those that it lacks are deleted.
  ``tailrace verify --repair`` writes it (ADR 0105).
- ``pause_snapshot``, ``resume_snapshot`` and ``stop_snapshot`` are about snapshots that are not
  over; without ``tables``, about all of them.
- ``{"type": "stop_table", "tables": [...]}`` stops tables until a snapshot is asked for.
- ``{"type": "pause"}`` and ``{"type": "resume"}`` are about the publisher as a whole.
- Debezium's ``execute-snapshot``, ``pause-snapshot``, ``resume-snapshot`` and ``stop-snapshot`` are
  taken as well, with their ``data-collections`` and ``additional-conditions``
  (https://debezium.io/documentation/reference/stable/configuration/signalling.html).

``{"type": "accept_checkpoint_loss", "server": ..., "database": ..., "progress_offset": ...,
"closed_lsn": ...}`` accepts that the checkpoint of a database is lost (``tailrace
accept-checkpoint-loss`` writes it). A start without a checkpoint looks for it. It counts as long as
the progress record that it names is the newest one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

ROWS_MAX: Final = 1000
"""Rows of one repair."""
_EXPECTED: Final = 'expected {"type": "snapshot", "tables": ["schema.table", ...]}'
_CONDITION: Final = frozenset({"data-collection", "filter"})


class TableOrder(StrEnum):
    """What is to become of tables; the values are types of signals."""

    PAUSE_SNAPSHOT = "pause_snapshot"
    """Read nothing more of their snapshots for now; changes continue."""
    RESUME_SNAPSHOT = "resume_snapshot"
    """Resume their snapshots from where they are."""
    STOP_SNAPSHOT = "stop_snapshot"
    """Give their snapshots up; changes continue, and they stay out of the cut."""
    STOP_TABLE = "stop_table"
    """Publish nothing of them, until a snapshot is asked for."""


_OF_ALL: Final = frozenset(TableOrder) - {TableOrder.STOP_TABLE}
"""Orders that are about all tables where none is named."""

_DEBEZIUM: Final = {
    "execute-snapshot": "snapshot",
    "pause-snapshot": TableOrder.PAUSE_SNAPSHOT.value,
    "resume-snapshot": TableOrder.RESUME_SNAPSHOT.value,
    "stop-snapshot": TableOrder.STOP_SNAPSHOT.value,
}


@dataclass(frozen=True, slots=True)
class SnapshotSignal:
    """A request for a new snapshot.

    Attributes:
        tables: each ``schema.table``, or ``database.schema.table``; compared without case.
        where: by such a name, the T-SQL condition of the rows that a partial snapshot reads; a
            table without one is read whole.
    """

    tables: tuple[str, ...]
    where: Mapping[str, str] = field(default_factory=dict, hash=False)

    def condition_of(self, table: str) -> str | None:
        """The condition of a table, by its name among :attr:`tables`; None where it has none."""
        if table in self.where:
            return self.where[table]
        return next((w for n, w in self.where.items() if n.casefold() == table.casefold()), None)

    def to_bytes(self) -> bytes:
        """The record's value."""
        where = {"where": dict(self.where)} if self.where else {}
        return json.dumps({"type": "snapshot", "tables": list(self.tables), **where}).encode()


@dataclass(frozen=True, slots=True)
class RowKeys:
    """Keys of some rows of a table.

    Attributes:
        columns: names of the key's columns.
        keys: the values of these columns as text, as in the resume key of a snapshot.
    """

    columns: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]

    def fields(self) -> dict[str, Any]:
        """The members of a JSON object."""
        return {"columns": list(self.columns), "keys": [list(key) for key in self.keys]}

    @classmethod
    def read(cls, found: Any) -> RowKeys:
        """Read the members of a JSON object.

        Raises:
            ValueError: they have another form, or there are too many keys.
        """
        match found:
            case {"columns": [*columns], "keys": [*keys]} if columns and _are_keys(columns, keys):
                return cls(tuple(columns), tuple(map(tuple, keys)))
        raise ValueError(
            f'expected "columns": ["id"] and 1 to {ROWS_MAX} keys: [["7"], ["9"]]. Fix: request a'
            " snapshot for more rows"
        )


@dataclass(frozen=True, slots=True)
class RepairSignal:
    """A request to publish some rows again, as they are at the source.

    Attributes:
        table: as one of :class:`SnapshotSignal`.
    """

    table: str
    rows: RowKeys

    def to_bytes(self) -> bytes:
        """The record's value."""
        return json.dumps({"type": "repair", "table": self.table, **self.rows.fields()}).encode()


@dataclass(frozen=True, slots=True)
class TableSignal:
    """An order about tables.

    Attributes:
        tables: as of :class:`SnapshotSignal`; none: all whose snapshot is not over.
    """

    order: TableOrder
    tables: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """The record's value."""
        named = {"tables": list(self.tables)} if self.tables else {}
        return json.dumps({"type": self.order.value, **named}).encode()


@dataclass(frozen=True, slots=True)
class PauseSignal:
    """A request to the publisher to pause or to resume.

    Attributes:
        is_paused: which of the two.
    """

    is_paused: bool

    def to_bytes(self) -> bytes:
        """The record's value."""
        return json.dumps({"type": "pause" if self.is_paused else "resume"}).encode()


@dataclass(frozen=True, slots=True)
class AcceptedLoss:
    """Accepts that the checkpoint of a database is lost; all tables get new snapshots.

    Attributes:
        server: logical name of the source server.
        progress_offset: offset of the newest progress record of that database.
        closed_lsn: the closed LSN of that record.
    """

    server: str
    database: str
    progress_offset: int
    closed_lsn: str

    def to_bytes(self) -> bytes:
        """The record's value."""
        return json.dumps({"type": "accept_checkpoint_loss", **asdict(self)}).encode()


Signal = SnapshotSignal | RepairSignal | TableSignal | PauseSignal | AcceptedLoss


def read_signal(value: bytes | None) -> Signal:
    """Read a record's value.

    Raises:
        ValueError: it is not a signal; says what one looks like.
    """
    try:
        signal = json.loads(value or b"")
    except ValueError as error:
        raise ValueError(f"not JSON ({error}): {_EXPECTED}") from error
    if isinstance(signal, dict):
        signal = _of_debezium(signal)
    match signal:
        case {"type": "snapshot", "tables": tables} if _are_names(tables):
            return SnapshotSignal(tuple(tables), _conditions(signal.get("where"), tables))
        case {"type": "repair", "table": str(table)}:
            return RepairSignal(table, RowKeys.read(signal))
        case {"type": str(kind), "tables": tables} if kind in list(TableOrder):
            if _are_names(tables):
                return TableSignal(TableOrder(kind), tuple(tables))
        case {"type": str(kind)} if kind in _OF_ALL:
            return TableSignal(TableOrder(kind))
        case {"type": "pause" | "resume" as kind}:
            return PauseSignal(kind == "pause")
        case {
            "type": "accept_checkpoint_loss",
            "server": str(server),
            "database": str(database),
            "progress_offset": int(offset),
            "closed_lsn": str(closed_lsn),
        }:
            return AcceptedLoss(server, database, offset, closed_lsn)
    raise ValueError(f"not a signal: {_EXPECTED}")


def _are_names(tables: Any) -> bool:
    return (
        isinstance(tables, list) and bool(tables) and all(isinstance(name, str) for name in tables)
    )


def _are_keys(columns: list[Any], keys: list[Any]) -> bool:
    parts = [columns, *keys]
    return 0 < len(keys) <= ROWS_MAX and all(
        isinstance(part, list)
        and len(part) == len(columns)
        and all(isinstance(text, str) for text in part)
        for part in parts
    )


def _conditions(where: Any, tables: list[str]) -> Mapping[str, str]:
    """The conditions of a signal.

    Raises:
        ValueError: they are none, or of a table that the signal is not about.
    """
    if where is None:
        return {}
    if not isinstance(where, dict) or not all(isinstance(text, str) for text in where.values()):
        raise ValueError('where is no object of conditions: expected {"schema.table": "id > 7"}')
    named = {name.casefold() for name in tables}
    if len({name.casefold() for name in where}) < len(where):
        raise ValueError("where names a table twice: put the two conditions together with OR")
    unknown = [name for name in where if name.casefold() not in named]
    if unknown:
        raise ValueError(
            f"where names {', '.join(unknown)}, which is not among the signal's tables"
        )
    return where


def _of_debezium(signal: Mapping[str, Any]) -> Mapping[str, Any]:
    """A signal in Debezium's form in ours; any other as it is.

    Raises:
        ValueError: it requests something unsupported; no part of it is carried out.
    """
    kind = signal.get("type")
    if kind not in _DEBEZIUM:
        return signal
    match signal.get("data") or {}:
        case dict() as data:
            pass
        case _:
            raise ValueError(f"data of {kind} is no object: {_EXPECTED}")
    known = {"type", "data-collections"}
    if kind == "execute-snapshot":
        known.add("additional-conditions")
    unknown = sorted(data.keys() - known)
    if unknown:
        raise ValueError(f"{', '.join(unknown)} of {kind} is not supported: {_EXPECTED}")
    if str(data.get("type", "incremental")).casefold() != "incremental":
        raise ValueError(f"{kind} of type {data['type']} is not supported: leave the type out")
    tables = {"tables": data["data-collections"]} if "data-collections" in data else {}
    where = _where_of(data["additional-conditions"]) if data.get("additional-conditions") else {}
    return {"type": _DEBEZIUM[kind], **tables, **where}


def _where_of(conditions: Any) -> Mapping[str, Any]:
    """``additional-conditions`` in our form.

    Raises:
        ValueError: they have another form than Debezium's.
    """
    pairs: list[tuple[str, str]] = []
    for condition in conditions if isinstance(conditions, list) else [conditions]:
        match condition:
            case {"data-collection": str(table), "filter": str(text)} if (
                condition.keys() == _CONDITION
            ):
                pairs.append((table, text))
            case _:
                raise ValueError(
                    "additional-conditions has another form: expected"
                    ' [{"data-collection": "schema.table", "filter": "id > 7"}]'
                )
    if len(dict(pairs)) < len(pairs):
        raise ValueError("additional-conditions names a table twice: put them together with OR")
    return {"where": dict(pairs)}
