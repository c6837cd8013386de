"""The events of the log's tail, decoded by columns."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.lake.errors import NeedsSpark
from tailrace.lake.log import DeltaLog
from tailrace_schemas.events.framing import FRAME_BYTES, frame_header
from tailrace_schemas.records.progress import signed
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.columns.avro_plan import NotByColumns
from tailrace_sink.columns.change_columns import ChangeDecoder
from tailrace_sink.columns.cursor import Undecodable
from tailrace_sink.columns.spec import Target, Work
from tailrace_sink.errors import BadRecord, SinkError
from tailrace_sink.fold.table_batch import TableBatch
from tailrace_sink.plan.ledger_difference import difference, difference_without
from tailrace_sink.plan.topic_ranges import Counted
from tailrace_sink.reading.tail_plan import TailPlan
from tailrace_sink.rows.column_targets import target_of, writers_of
from tailrace_sink.rows.writer_schema import WriterSchema
from tailrace_sink.tables.lake_table import LakeTable

_HASH: Final = "position_hash"


class TailEvents:
    """The events of a tail, which are read once for all its tables.

    Attributes:
        plan: which events they are.
    """

    def __init__(self, log: DeltaLog, plan: TailPlan) -> None:
        self.plan = plan
        self._log = log
        self._lock = threading.Lock()
        self._every: pa.Table | None = None

    def values(self, table: TableName) -> pa.Table:
        """Read the events of one source table, as the fold will apply them.

        Returns:
            partition, offset and value.

        Raises:
            LedgerMismatch: the events differ from the ledger.
            BadRecord: a record is no change of the table, and dead letters are not configured.
        """
        batch = self.plan.tables[table]
        found = batch.topic_range
        values = self._all().filter(pc.field("topic") == found.topic).combine_chunks()
        counts = _counted(values, batch.all_writers)
        error = difference(str(table), found, counts) if counts is not None else None
        if counts is not None and error is None:
            return values
        reasons = reasons_of(values, batch.all_writers, batch.missing)
        first = _first_bad(values, batch, reasons, error)
        if first is None:
            raise error or NeedsSpark(f"table {table}", "its events are not decoded by columns")
        if not self.plan.has_dead_letters:
            raise first
        return _rest(values, batch, reasons, first)

    def _all(self) -> pa.Table:
        with self._lock:
            if self._every is None:
                ranges = [found for found in self.plan.batch.topics if found.partitions]
                self._every = self._log.values(ranges)
            return self._every


def decoded(values: pa.Table, table: LakeTable, batch: TableBatch) -> tuple[pa.Table, Target]:
    """Decode the changes of a source table's part of the tail.

    Args:
        values: column ``value`` without tombstones.
        table: the lake table after the tail.

    Returns:
        The table's columns and the sink's own; then, of a table with a key, the position of each
        large value that a change has (``AVAILABLE``). And the target, which describes them.

    Raises:
        NeedsSpark: a value of an earlier type has a cast that only Spark does, or does not fit.
    """
    is_last = not table.kind.appends
    target = target_of(table, batch.writers, "", {}, 0, last_only=is_last, keeps_deletes=True)
    work = Work(writers_of(batch.writers), (target,))
    try:
        rows = decode(values, work, table.source)
    except Undecodable as error:
        # Spark puts such a record aside as a dead letter, or refuses it by name.
        raise NeedsSpark(f"the events of table {table.source} in the log", str(error)) from error
    return rows, target


def decode(values: pa.Table, work: Work, table: str) -> pa.Table:
    """Decode the messages of some writer schemas into the columns of the only target.

    Args:
        values: column ``value`` without tombstones. Messages of other schemas are skipped.
        table: name of the source table, for errors.

    Raises:
        NeedsSpark: a value has a cast that only Spark does.
    """
    try:
        decoder = ChangeDecoder(work)
        own = _of_writers(values, [writer.schema_id for writer in work.writers])
        parts = [rows for chunk in own["value"].chunks for rows in decoder.decode(chunk).rows[0]]
    except NotByColumns as error:
        raise NeedsSpark(f"the events of table {table} in the log", str(error)) from error
    return pa.Table.from_batches(parts, schema=decoder.schemas[0]).combine_chunks()


def _headers(values: pa.Table) -> pa.ChunkedArray:
    return pc.binary_slice(values["value"], 0, FRAME_BYTES)


def _of_writers(values: pa.Table, schema_ids: Iterable[int]) -> pa.Table:
    """Select the messages of some writer schemas."""
    known = pa.array([frame_header(schema_id) for schema_id in schema_ids], pa.binary())
    return values.filter(pc.is_in(_headers(values), known))


def counted_by(
    values: pa.Table, writers: Iterable[WriterSchema], *columns: str
) -> dict[tuple[Any, ...], Counted]:
    """Count the messages with equal values in some columns.

    Raises:
        Undecodable: a message is none of the writer schemas.
    """
    decoder = ChangeDecoder(Work(writers_of(writers), ()))
    hashes = [pa.array(decoder.position_hashes(chunk)) for chunk in values["value"].chunks]
    every = values.select(list(columns)).append_column(_HASH, pa.chunked_array(hashes, pa.int64()))
    groups = every.group_by(list(columns)).aggregate([(_HASH, "sum"), (_HASH, "count")])
    return {
        tuple(group[name] for name in columns): Counted(
            group[f"{_HASH}_count"], signed(group[f"{_HASH}_sum"])
        )
        for group in groups.to_pylist()
    }


def _counted(values: pa.Table, writers: Sequence[WriterSchema]) -> Mapping[int, Counted] | None:
    """Count messages by partition; None if one of them cannot be decoded."""
    try:
        found = counted_by(values, writers, "partition")
    except Undecodable:
        return None
    return {partition: counted for (partition,), counted in found.items()}


def reasons_of(
    values: pa.Table, writers: Iterable[WriterSchema], missing: Mapping[int, str]
) -> list[str | None]:
    """Return for each message why it is no change; None if it is one.

    Args:
        missing: id of each writer schema that could not be found, to the reason.
    """
    listed = writers_of(writers)
    try:
        every = ChangeDecoder(Work(listed, ()))
        for chunk in values["value"].chunks:
            every.decode(chunk)
    except Undecodable:
        decoders = {
            frame_header(writer.schema_id): (writer.schema_id, ChangeDecoder(Work((writer,), ())))
            for writer in listed
        }
    else:
        return [None] * values.num_rows
    lacking = {frame_header(schema_id): why for schema_id, why in missing.items()}
    found: list[str | None] = []
    for value in values["value"].to_pylist():
        header = value[:FRAME_BYTES]
        if header in lacking:
            found.append(f"the registry does not have its schema ({lacking[header]})")
        elif header not in decoders:
            found.append("it begins with no schema id that the publisher names")
        else:
            found.append(_reason(value, *decoders[header]))
    return found


def _reason(value: bytes, schema_id: int, decoder: ChangeDecoder) -> str | None:
    try:
        decoder.decode(pa.array([value], pa.binary()))
    except Undecodable as error:
        return f"it cannot be decoded with its writer schema {schema_id}: {error}"
    return None


def _first_bad(
    values: pa.Table,
    batch: TableBatch,
    reasons: Sequence[str | None],
    also: SinkError | None,
) -> BadRecord | None:
    places = zip(values["partition"].to_pylist(), values["offset"].to_pylist(), strict=True)
    bad = sorted(
        (*place, reason)
        for place, reason in zip(places, reasons, strict=True)
        if reason is not None
    )
    if not bad:
        return None
    partition, offset, reason = bad[0]
    place = (batch.topic, partition, offset)
    return BadRecord(str(batch.table), place, reason, None if also is None else str(also))


def _rest(
    values: pa.Table, batch: TableBatch, reasons: Sequence[str | None], bad: BadRecord
) -> pa.Table:
    """Remove the bad records from a table's events.

    Raises:
        LedgerMismatch: the good records are not what the ledger counts.
        BadRecord: no record of a whole table is good.
    """
    if not batch.writers and batch.topic_range.is_whole:
        raise bad
    good = values.filter(pa.array([reason is None for reason in reasons]))
    if batch.all_writers:
        rest = _counted(good, batch.all_writers) or {}
        everything = dict(rest)
        for partition, reason in zip(values["partition"].to_pylist(), reasons, strict=True):
            if reason is not None:
                known = everything.get(partition, Counted())
                everything[partition] = known.plus(Counted(1, 0))
        differs = difference_without(str(batch.table), batch.topic_range, everything, rest)
        if differs is not None:
            raise differs
    return good
