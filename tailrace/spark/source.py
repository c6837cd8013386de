"""The source ``tailrace`` of Spark: changes of a lake, read from its log by the executors.

An offset is a cut of the log (``LogOffset``). A micro-batch is the changes between two. So it is
the same each time that Spark repeats it, with whole transactions of all its tables. Spark
stores offsets before it runs a micro-batch. The readers have no state of their own that a restart
would need.

Spark creates the source in a process of Python, and sends it to others: planning, and the tasks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tailrace.lake.change_log import ChangeLog, newest_state, opened_log, with_batch
from tailrace.lake.change_rows import ChangeTable
from tailrace.lake.changes import ChangeReader
from tailrace.lake.log import DeltaLog
from tailrace.lake.store import LakeStore
from tailrace.spark.errors import ColumnsDiffer, StreamBroken
from tailrace.spark.offset import LogOffset, LogPart, split
from tailrace.spark.options import SourceOptions
from tailrace.spark.rows import closing, combined, in_batches, schema_of
from tailrace_schemas.position.commit_time import milliseconds
from tailrace_sink.errors import ChangesUnknown, ConfigError
from tailrace_sink.plan.log_state import LogState
from tailrace_sink.reading.cut_id import CutId
from tailrace_sink.reading.point import LATEST

FORMAT: Final = "tailrace"
_EVENTS_OF_A_TASK: Final = 100_000
"""About 100 MB of Arrow at 1 kB an event."""
_LOOK_EVERY_S: Final = 1.0
"""Without new offsets, Spark requests the newest every 10 ms."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What a DataFrame has once it is loaded.

    Attributes:
        newest: the newest closed LSN of the log by then.
    """

    options: SourceOptions
    tables: tuple[ChangeTable, ...]
    newest: LogOffset

    @classmethod
    def of(cls, options: SourceOptions) -> _Loaded:
        store = _store(options)
        every = ChangeLog.between(store.lake, opened_log(store), None, None)
        found = (ChangeReader(every).table(name) for name in options.tables)
        tables = {table.name: table for table in found}
        return cls(options, tuple(tables.values()), _newest(every.log, every.last))

    def bounds(self) -> tuple[LogOffset, LogOffset]:
        """Return where the options start and end, in the log as it was when it was loaded.

        Raises:
            ChangesUnknown: the log starts later.
        """
        after, store = self.options.after, _store(self.options)
        if after == LATEST:
            return self.newest, self.newest
        of = ChangeLog.between(store.lake, opened_log(store), after, self.options.up_to)
        end = replace(self.newest, lsn=of.end.lsn, batch=of.end.batch)
        end = self.newest if self.newest.is_before(end) else end
        if of.first is None:
            return LogOffset(of.log.id, "", began=str(of.begins())), end
        of.require_start()
        return LogOffset(of.log.id, of.first.lsn, batch=of.first.batch), end

    @property
    def schema(self) -> StructType:
        found: StructType = from_arrow_schema(schema_of(self.tables), prefer_timestamp_ntz=True)
        return found


class ChangeSource(DataSource):
    """The source ``tailrace``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of the changes."""
        return self._loaded.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of ``spark.read``."""
        return ChangesReader(self._with(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Return the reader of ``spark.readStream``."""
        loaded = self._with(schema)
        if loaded.options.up_to is not None:
            raise ConfigError(["up_to ends no stream. Fix: leave it out, or use spark.read"])
        return ChangesStreamReader(loaded)

    @cached_property
    def _loaded(self) -> _Loaded:
        return _Loaded.of(SourceOptions.load(self.options))

    def _with(self, schema: StructType) -> _Loaded:
        if schema != self._loaded.schema:
            raise ColumnsDiffer
        return self._loaded


class ChangesReader(DataSourceReader):
    """Reader of the changes between two points."""

    def __init__(self, loaded: _Loaded) -> None:
        self._loaded = loaded

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the tasks."""
        return _parts(self._loaded, *self._loaded.bounds())

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Read the changes of a task; none of None, which Spark plans if there is no partition."""
        if isinstance(partition, LogPart):
            yield from _read(self._loaded, partition)


class ChangesStreamReader(DataSourceStreamReader):
    """Reader of the changes of each micro-batch."""

    def __init__(self, loaded: _Loaded) -> None:
        self._loaded = loaded
        self._seen = loaded.newest
        self._initial: LogOffset | None = None
        self._continues = False
        self._newest: LogOffset | None = None
        self._looked_s = 0.0

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a new query starts; Spark requests it until the first micro-batch is done.

        Raises:
            ConfigError: that place is yet to come, so changes before it would be in the stream.
            ChangesUnknown: the log starts later.
        """
        return (self._initial or self._begin()).to_json()

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the newest cut of the log.

        Raises:
            As :meth:`initialOffset`, which Spark calls later.
        """
        if self._initial is None and not self._continues:
            self._seen = self._initial = self._begin()
        now = time.monotonic()
        if self._newest is None or now - self._looked_s >= _LOOK_EVERY_S:
            self._newest, self._looked_s = self._look(), now
        return self._newest.to_json()

    def partitions(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> Sequence[InputPartition]:
        """Plan the tasks of a micro-batch. After a restart, Spark first passes the last offset."""
        last = LogOffset.of_json(end)
        first = last.start_of(LogOffset.of_json(start))
        self._seen, self._initial, self._continues = last, None, True
        with _continuous(first.lsn):
            return _parts(self._loaded, first, last)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the changes of a task."""
        if isinstance(partition, LogPart):
            with _continuous("" if partition.first is None else partition.first.lsn):
                yield from _read(self._loaded, partition)
            yield from _closing(self._loaded, partition)

    def _begin(self) -> LogOffset:
        """Find where a new query starts."""
        after, newest = self._loaded.options.after, self._loaded.newest
        if isinstance(after, datetime) and milliseconds(after) > time.time() * 1000:
            raise ConfigError(
                [f"after is {after}, which is in the future. Fix: add its offset, or use latest"]
            )
        first, _ = self._loaded.bounds()
        if newest.is_before(first):
            ends = f"the log ends at LSN {newest.lsn}"
            raise ConfigError([f"after is {after}, and {ends}. Fix: use that, or latest"])
        return first

    def _look(self) -> LogOffset:
        store = _store(self._loaded.options)
        log = opened_log(store)
        last = newest_state(store.lake, log)
        newest = _newest(log, last)
        _require_same(newest, self._seen, store.lake)
        if newest.cut == self._seen.cut:
            return self._seen
        if self._initial is not None:
            since = str(self._initial.cut or "")
            newest = replace(newest, since=since, began=self._initial.began)
        return newest


def _newest(log: DeltaLog, last: LogState) -> LogOffset:
    state = last.state
    return LogOffset(log.id, state.closed_lsn, state.closed_commit_ms, batch=state.batch)


def _parts(loaded: _Loaded, start: LogOffset, end: LogOffset) -> list[LogPart]:
    """Plan the tasks that read a range."""
    if start.cut == end.cut or (start.batch is not None and not start.is_before(end)):
        return []
    began = None if start.began is None else CutId.parse(start.began)
    whole = _with_batches(loaded, LogPart(start.cut, CutId(end.lsn, end.batch), start.log, began))
    reader = _reader(loaded, whole)
    sources = [source for table in loaded.tables for source in reader.sources(table)]
    cuts = reader.log.counted_cuts(sources)
    return [
        LogPart(
            after,
            up_to,
            start.log,
            began if after is None else None,
            end.commit_ms if up_to == whole.end else None,
        )
        for after, up_to in split(whole.first, whole.end, cuts, _EVENTS_OF_A_TASK)
    ]


def _with_batches(loaded: _Loaded, part: LogPart) -> LogPart:
    """Return a range with the batches that offsets of an earlier release lack."""
    first, end = part.first, part.end
    if end.batch is None or (first is not None and first.batch is None):
        store = _store(loaded.options)
        log = opened_log(store)
        last = newest_state(store.lake, log)
        end = with_batch(store.lake, log, last, end)
        first = None if first is None else with_batch(store.lake, log, last, first)
    return replace(part, first=first, end=end)


def _read(loaded: _Loaded, part: LogPart) -> Iterator[pa.RecordBatch]:
    reader = _reader(loaded, part)
    changes = [reader.read_as(table) for table in loaded.tables]
    yield from in_batches(combined(loaded.tables, changes))


def _closing(loaded: _Loaded, part: LogPart) -> Iterator[pa.RecordBatch]:
    """Return the row of the LSN that the micro-batch closes, if it is wanted and known."""
    if loaded.options.closed_rows and part.closed_ms is not None:
        yield from in_batches(closing(schema_of(loaded.tables), part.end.lsn, part.closed_ms))


def _reader(loaded: _Loaded, part: LogPart) -> ChangeReader:
    store = _store(loaded.options)
    log = opened_log(store)
    last = newest_state(store.lake, log)
    end = LogOffset(part.log, part.end.lsn, batch=part.end.batch)
    _require_same(_newest(log, last), end, store.lake)
    return ChangeReader(ChangeLog(store.lake, log, last, part.first, part.end, part.began))


def _require_same(log: LogOffset, known: LogOffset, lake: str) -> None:
    """Refuse another log than that of an offset.

    Raises:
        StreamBroken: the lake was created again, or ends before the offset.
    """
    if log.log != known.log:
        reason = f"the log of {lake} was created again, or the checkpoint is of another lake"
        raise StreamBroken(reason, known.lsn)
    if log.is_before(known):
        raise StreamBroken(f"the log of {lake} ends at LSN {log.lsn}", known.lsn)


@contextmanager
def _continuous(after: str) -> Iterator[None]:
    """Translate the error of a log that lacks changes into how a stream continues.

    Raises:
        StreamBroken: names the changes and the fix.
    """
    try:
        yield
    except ChangesUnknown as error:
        reason = str(error).partition(". Fix: ")[0]  # That fix is one of a read between points.
        raise StreamBroken(reason, after) from error


def _store(options: SourceOptions) -> LakeStore:
    return LakeStore.of(options.lake, options.store or {})
