"""The checkpoint records: where a restarted publisher resumes.

Compacted topic ``<prefix>.offsets``, written in the same Kafka transaction as the data. One record
per table that changed, plus one for the database: everything up to its position is published.
Both have one Avro schema, so that a reader of the topic needs only one; it says which fields are
whose. Releases up to 0.2 wrote one record per capture instance: :func:`older_instance`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tailrace_schemas.avsc import load
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

CHECKPOINT_KEY_SCHEMA: Final[dict[str, Any]] = load("checkpoint_key")
"""Key of the checkpoint topic."""

CHECKPOINT_SCHEMA: Final[dict[str, Any]] = load("checkpoint")
"""Value of the checkpoint topic; its fields are explained in avsc/checkpoint.avsc."""


@dataclass(frozen=True, slots=True)
class CheckpointKey:
    """Whose checkpoint it is.

    Attributes:
        server: logical name of the server.
        table: the table; None for the database's own.
    """

    server: str
    database: str
    table: TableName | None = None

    def to_record(self) -> dict[str, Any]:
        """The fields of ``CHECKPOINT_KEY_SCHEMA``."""
        table = self.table
        return {
            "server": self.server,
            "database": self.database,
            "schema": None if table is None else table.schema,
            "table": None if table is None else table.table,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> CheckpointKey:
        """Read the fields.

        Raises:
            KeyError, TypeError: not a key of ours.
        """
        server, database = record["server"], record["database"]
        if record["table"] is None:
            return cls(server, database)
        return cls(server, database, TableName(database, record["schema"], record["table"]))


@dataclass(frozen=True, slots=True)
class DatabaseCheckpoint:
    """The database's own record.

    Attributes:
        position: everything at or before it, in every table, is published.
        closed_lsn: last LSN whose transaction was published whole.
        written_ms: when it was written, milliseconds UTC.
        database_guid: of this copy of the database, None where it was not seen, as all of them.
        recovery_fork_guid: of the line of recovery it was on.
        family_guid: of the database and all restored copies of it.
        tran_end_time: of the position's entry in ``cdc.lsn_time_mapping``, ISO 8601 without zone;
            None where it is not known.
        tran_id: of the same entry, hexadecimal.
        signals_offset: offset after the last signal that was taken; None before the first.
        open_transaction: events per table that are published of the transaction that the position
            is in; None if it is in none, or they are not counted.
        announced_lsn: LSN up to which schema changes are published; None if they are not.
        paused_since_ms: since when the publisher is paused, milliseconds UTC; None where it is not.
        by_function: whether positions are those of the query functions, without command ids.
        refused_signals: by offset, why signals of the last minute were refused.
        map_number: 0; None in records of releases up to 0.2.
    """

    position: ChangePosition
    closed_lsn: Lsn
    written_ms: int
    database_guid: str | None = None
    recovery_fork_guid: str | None = None
    family_guid: str | None = None
    tran_end_time: str | None = None
    tran_id: str | None = None
    signals_offset: int | None = None
    open_transaction: Mapping[str, int] | None = field(default=None, hash=False)
    announced_lsn: Lsn | None = None
    paused_since_ms: int | None = None
    by_function: bool = False
    refused_signals: Mapping[str, str] = field(default_factory=dict, hash=False)
    map_number: int | None = None

    def to_record(self) -> dict[str, Any]:
        """The fields of ``CHECKPOINT_SCHEMA``."""
        return {
            **_position_fields(self.position),
            "snapshot_state": "done",
            "closed_lsn": str(self.closed_lsn),
            "written_ms": self.written_ms,
            "database_guid": self.database_guid,
            "recovery_fork_guid": self.recovery_fork_guid,
            "family_guid": self.family_guid,
            "tran_end_time": self.tran_end_time,
            "tran_id": self.tran_id,
            "signals_offset": self.signals_offset,
            "open_transaction": self.open_transaction,
            "announced_lsn": _text(self.announced_lsn),
            "paused_since_ms": self.paused_since_ms,
            "by_function": self.by_function,
            "refused_signals": self.refused_signals,
            "map_number": self.map_number,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> DatabaseCheckpoint:
        """Read the fields, of records of earlier releases, too.

        Raises:
            ValueError: a field has another form.
        """
        closed = record["closed_lsn"] or record["snapshot_fence_lsn"] or record["start_lsn"]
        return cls(
            position=_position(record),
            closed_lsn=Lsn.parse(closed),
            written_ms=record["written_ms"],
            database_guid=record["database_guid"],
            recovery_fork_guid=record["recovery_fork_guid"],
            family_guid=record["family_guid"],
            tran_end_time=record["tran_end_time"],
            tran_id=record["tran_id"],
            signals_offset=record["signals_offset"],
            open_transaction=record["open_transaction"],
            announced_lsn=_lsn(record["announced_lsn"]),
            paused_since_ms=record["paused_since_ms"],
            by_function=record["by_function"],
            refused_signals=record["refused_signals"],
            map_number=record["map_number"],
        )


@dataclass(frozen=True, slots=True)
class TableCheckpoint:
    """A table's record.

    Attributes:
        state: pending, running, halted, done, rereading, lost or stopped; skipped in records of
            earlier releases.
        position: where the stream was when this was written: a table that is stopped has what is
            before it.
        covers_from: LSN from which on the table's changes are held; None where nothing has held
            them yet.
        snapshot_fence: LSN at which the last published rows of its snapshot were current.
        snapshot_resume_key: JSON array of the last key published, as text.
        snapshot_rows: rows of its snapshot that are published.
        schema_lsn: version in force at the position.
        capture_instances: names of those that hold its changes, oldest first.
        written_ms: when it was written, milliseconds UTC.
        source_object_id: of the source table, which it keeps when it is renamed; None in records of
            earlier releases.
        stopped_reason: why it cannot continue: the error's class, a colon, and its text.
        snapshot_bytes: of the values of those rows.
        snapshot_paused: whether an operator paused its snapshot.
        lacks_changes: whether a change other than a creation became a dead letter since its last
            snapshot started. The lake may then have a key that the source does not have.
        snapshot_where: the condition of a partial snapshot that is not over.
        schema_fingerprint: of the version in force at the position; None in records of earlier
            releases.
        partitions: of the source table, by which a switch is noticed; None where nobody looked.
        topic_partitions: number of the data topic's partitions, by which keys are placed; None in
            records of earlier releases.
        patch: what is re-read of it after a hand-over, as JSON; None where nothing is.
        repair: the keys of rows that a repair is reading, or where they are, as JSON; None where
            nothing is.
        instance_ids: object id of each capture instance's change table, in the same order; empty in
            records of earlier releases.
    """

    state: str
    position: ChangePosition
    covers_from: Lsn | None
    snapshot_fence: Lsn | None = None
    snapshot_resume_key: str | None = None
    snapshot_rows: int = 0
    schema_lsn: Lsn | None = None
    capture_instances: tuple[str, ...] = ()
    written_ms: int = 0
    source_object_id: int | None = None
    stopped_reason: str | None = None
    snapshot_bytes: int = 0
    snapshot_paused: bool = False
    lacks_changes: bool = False
    snapshot_where: str | None = None
    schema_fingerprint: str | None = None
    partitions: str | None = None
    topic_partitions: int | None = None
    patch: str | None = None
    repair: str | None = None
    instance_ids: tuple[int, ...] = ()

    def to_record(self) -> dict[str, Any]:
        """The fields of ``CHECKPOINT_SCHEMA``."""
        return {
            **_position_fields(self.position),
            "schema_lsn": _text(self.schema_lsn),
            "snapshot_state": self.state,
            "snapshot_fence_lsn": _text(self.snapshot_fence),
            "snapshot_resume_key": self.snapshot_resume_key,
            "snapshot_rows": self.snapshot_rows,
            "covers_from": _text(self.covers_from),
            "capture_instances": list(self.capture_instances),
            "written_ms": self.written_ms,
            "source_object_id": self.source_object_id,
            "stopped_reason": self.stopped_reason,
            "snapshot_bytes": self.snapshot_bytes,
            "snapshot_paused": self.snapshot_paused,
            "lacks_changes": self.lacks_changes,
            "snapshot_where": self.snapshot_where,
            "schema_fingerprint": self.schema_fingerprint,
            "partitions": self.partitions,
            "topic_partitions": self.topic_partitions,
            "patch": self.patch,
            "repair": self.repair,
            "instance_ids": list(self.instance_ids),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> TableCheckpoint:
        """Read the fields.

        Raises:
            ValueError: a field has another form.
        """
        return cls(
            state=record["snapshot_state"],
            position=_position(record),
            covers_from=_lsn(record["covers_from"]),
            snapshot_fence=_lsn(record["snapshot_fence_lsn"]),
            snapshot_resume_key=record["snapshot_resume_key"],
            snapshot_rows=record["snapshot_rows"],
            schema_lsn=_lsn(record["schema_lsn"]),
            capture_instances=tuple(record["capture_instances"]),
            written_ms=record["written_ms"],
            source_object_id=record["source_object_id"],
            stopped_reason=record["stopped_reason"],
            snapshot_bytes=record["snapshot_bytes"],
            snapshot_paused=record["snapshot_paused"],
            lacks_changes=record["lacks_changes"],
            snapshot_where=record["snapshot_where"],
            schema_fingerprint=record["schema_fingerprint"],
            partitions=record["partitions"],
            topic_partitions=record["topic_partitions"],
            patch=record["patch"],
            repair=record["repair"],
            instance_ids=tuple(record["instance_ids"]),
        )


def older_instance(name: str, record: Mapping[str, Any]) -> TableCheckpoint:
    """What a release up to 0.2 wrote of one capture instance of a table.

    Its ``start_lsn`` is where the instance covered its table from.

    Raises:
        ValueError: a field has another form.
    """
    return TableCheckpoint(
        state=record["snapshot_state"],
        position=ChangePosition.end_of(Lsn.ZERO),
        covers_from=Lsn.parse(record["start_lsn"]),
        snapshot_fence=_lsn(record["snapshot_fence_lsn"]),
        snapshot_resume_key=record["snapshot_resume_key"],
        snapshot_rows=record["snapshot_rows"],
        schema_lsn=_lsn(record["schema_lsn"]),
        capture_instances=(name,),
        written_ms=record["written_ms"],
    )


def _position_fields(position: ChangePosition) -> dict[str, Any]:
    return {
        "start_lsn": str(position.commit_lsn),
        "seqval": str(position.seqval),
        "command_id": position.command_id,
        "operation": int(position.operation),
    }


def _position(record: Mapping[str, Any]) -> ChangePosition:
    return ChangePosition(
        Lsn.parse(record["start_lsn"]),
        record["command_id"],
        Lsn.parse(record["seqval"]),
        Operation(record["operation"]),
    )


def _lsn(text: str | None) -> Lsn | None:
    return None if text is None else Lsn.parse(text)


def _text(lsn: Lsn | None) -> str | None:
    return None if lsn is None else str(lsn)
