"""The lake's log and its schemas, read by deltalake."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Self

import pyarrow as pa
from deltalake import DeltaTable

from tailrace.lake.store import LakeStore
from tailrace_sink.errors import SchemaNotStored
from tailrace_sink.plan.log_state import LogState, Mark
from tailrace_sink.plan.scopes import log_scope
from tailrace_sink.plan.topic_ranges import TopicRange

LOG = "_tailrace/log"
_SCHEMAS = "_tailrace/schemas"


class DeltaLog:
    """The log of a lake, at the version that it has when it is opened.

    It has the reads of ``LogTable``, as ``ProgressLog`` names them.
    """

    def __init__(self, store: LakeStore, table: DeltaTable, prefix: str) -> None:
        self._store = store
        self._table = table
        self._prefix = prefix
        self._schemas: dict[int, dict[str, Any]] = {}

    @classmethod
    def of(cls, store: LakeStore) -> Self | None:
        """Open the log of a lake; None if it has none."""
        table = store.delta(LOG)
        if table is None:
            return None
        rows = store.query(table, "SELECT state FROM t WHERE topic = '' LIMIT 1")
        if not rows.num_rows:
            return None
        return cls(store, table, LogState.of_json(rows["state"][0].as_py()).prefix)

    @property
    def id(self) -> str:
        """Delta's id of the log's table: a log that is created again has another."""
        return str(self._table.metadata().id)

    def mark(self) -> Mark | None:
        """Return the mark of the last append; None before the first one."""
        version = self._table.transaction_version(log_scope(self._prefix))
        return None if version is None else Mark.of_version(version)

    def last(self) -> LogState | None:
        """Return the newest state; None if there is none."""
        mark = self.mark()
        if mark is None:
            return None
        rows = self._rows(f"SELECT state FROM t WHERE topic = '' AND batch = {mark.batch}")
        found = (LogState.of_json(row["state"]) for row in rows)
        return next((state for state in found if state.epoch == mark.epoch), None)

    def states(self, after_batch: int, up_to_batch: int, limit: int) -> list[LogState]:
        """Return the states of the cuts in (after, up to], the oldest first."""
        rows = self._rows(
            f"SELECT state FROM t WHERE {_of_cuts('', after_batch, up_to_batch)}"
            f""" AND state LIKE '%"is_start": false%' ORDER BY batch LIMIT {limit}"""
        )
        return [LogState.of_json(row["state"]) for row in rows]

    def batches(self) -> list[int]:
        """Return the batch ids of all cuts in order."""
        rows = self._rows("SELECT DISTINCT batch FROM t WHERE topic = '' ORDER BY batch")
        return [int(row["batch"]) for row in rows]

    def events(self, after_batch: int, up_to_batch: int, progress: str) -> list[dict[str, Any]]:
        """Return batch, topic, partition, offset and value of the events of some cuts.

        Args:
            progress: the topic of the progress records, which are no events.
        """
        return self._rows(
            'SELECT batch, topic, "partition", "offset", value FROM t WHERE value IS NOT NULL'
            f" AND {_within(after_batch, up_to_batch)}"
            f" AND topic <> '' AND topic <> {text(progress)}"
        )

    def progress(
        self, topic: str, after_batch: int, up_to_batch: int
    ) -> list[tuple[int, int, int, bytes]]:
        """Return batch, partition, offset and value of the progress records of some cuts."""
        columns = 'batch, "partition", "offset", value'
        rows = self._rows(
            f"SELECT {columns} FROM t WHERE {_of_cuts(topic, after_batch, up_to_batch)}"
        )
        return [(r["batch"], r["partition"], r["offset"], r["value"]) for r in rows]

    def progress_bytes(
        self, topic: str, after_batch: int, up_to_batch: int
    ) -> list[tuple[int, int]]:
        """Return the batch ids of some cuts in order, with the bytes of their progress records."""
        rows = self._rows(
            "SELECT batch, sum(octet_length(value)) AS size FROM t WHERE"
            f" {_of_cuts(topic, after_batch, up_to_batch)} GROUP BY batch ORDER BY batch"
        )
        return [(row["batch"], row["size"]) for row in rows]

    def values(self, ranges: Iterable[TopicRange]) -> pa.Table:
        """Read the events of ranges: topic, partition, offset and value."""
        asked = " OR ".join(map(_exact, ranges)) or "false"
        columns = 'topic, "partition", "offset", value'
        found = self._store.query(
            self._table, f"SELECT {columns} FROM t WHERE value IS NOT NULL AND ({asked})"
        )
        return found.cast(_EVENTS)

    def rows(self, sql: str) -> pa.Table:
        """Run a query over the log, which it calls ``t``."""
        return self._store.query(self._table, sql)

    def schema_by_id(self, schema_id: int) -> dict[str, Any]:
        """Return a writer schema.

        Raises:
            SchemaNotStored: the lake lacks it.
        """
        if schema_id not in self._schemas:
            path = f"{_SCHEMAS}/{schema_id}.json"
            text = self._store.text(path)
            if text is None:
                where = f"{self._store.lake}/{path}"
                raise SchemaNotStored(f"the lake has no schema {schema_id} at {where}")
            self._schemas[schema_id] = json.loads(text)
        return self._schemas[schema_id]

    def stored_schemas(self) -> list[int]:
        """Return the ids of all writer schemas in the lake."""
        names = (name.removesuffix(".json") for name in self._store.names(_SCHEMAS))
        return sorted(int(name) for name in names if name.isdecimal())

    def _rows(self, sql: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.rows(sql).to_pylist()
        return rows


_EVENTS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("value", pa.binary()),
    ]
)


def text(value: str) -> str:
    """Format a string literal for deltalake's SQL, which is PostgreSQL's."""
    return "'" + value.replace("'", "''") + "'"


def _of_cuts(topic: str, after_batch: int, up_to_batch: int) -> str:
    return f"topic = {text(topic)} AND {_within(after_batch, up_to_batch)}"


def _within(after_batch: int, up_to_batch: int) -> str:
    return f"batch > {after_batch} AND batch <= {up_to_batch}"


def _exact(found: TopicRange) -> str:
    """Condition on the rows of a range."""
    offsets = " OR ".join(
        f'("partition" = {partition} AND "offset" >= {first} AND "offset" < {end})'
        for partition, (first, end) in found.partitions.items()
    )
    condition = f"topic = {text(found.topic)} AND batch >= {found.from_batch}"
    if found.to_batch:
        condition += f" AND batch <= {found.to_batch}"
    return f"({condition} AND ({offsets or 'false'}))"
