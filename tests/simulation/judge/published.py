"""What is in the topics: decoded by fastavro and the registered schemas, as any consumer would."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import fastavro

from tailrace_schemas.records.progress import Progress
from tests.simulation.kafka.broker import Broker, Entry, Fate, Partition, Transaction
from tests.simulation.kafka.registry import Schemas

Position = tuple[bytes, tuple[str, str] | None]
"""LSN of a checkpoint, and the commit there: end time and id, None where it has none."""
PREFIX: Final = "sim"
_FRAME: Final = 5


@lru_cache(maxsize=20_000)
def _parsed(text: str) -> Any:
    return fastavro.parse_schema(json.loads(text))


def decode(schemas: Schemas, raw: bytes) -> dict[str, Any]:
    """A framed Avro record."""
    if raw[0] != 0:
        raise AssertionError("a record is not framed")
    writer = _parsed(schemas.text(int.from_bytes(raw[1:_FRAME], "big")))
    record = fastavro.schemaless_reader(io.BytesIO(raw[_FRAME:]), writer, None)
    if not isinstance(record, dict):
        raise TypeError("a record schema was expected")
    return record


def lsn_of_text(text: str) -> bytes:
    """The ten bytes of ``vlf:block:slot``."""
    return bytes.fromhex(text.replace(":", ""))


@dataclass(frozen=True, slots=True)
class Event:
    """A change event or a snapshot's row.

    Attributes:
        position: 25 bytes, as in the ledger.
        lsn: commit LSN.
        identity: (commit LSN, seqval, operation): what a change row is known by.
        op: c, u, d or r.
        is_patch: whether it brings values that no change table has.
        is_repair: whether it brings a row as it is, or the absence of one, whatever a reader has.
    """

    position: bytes
    lsn: bytes
    identity: tuple[bytes, bytes, int]
    op: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    unavailable: frozenset[str]
    ts_ms: int
    is_patch: bool = False
    is_repair: bool = False

    @property
    def is_read(self) -> bool:
        """Whether it is no change: a row that was read at the source."""
        return self.op == "r" or self.is_patch or self.is_repair


def event_of(schemas: Schemas, entry: Entry) -> Event | None:
    """The event of a record; None for a tombstone."""
    if entry.value is None:
        return None
    record = decode(schemas, entry.value)
    source = record["source"]
    lsn, seqval = lsn_of_text(source["commit_lsn"]), lsn_of_text(source["change_lsn"] or "0" * 20)
    operation, command = source["operation"] or 0, source["command_id"] or 0
    position = lsn + command.to_bytes(4, "big") + seqval + operation.to_bytes(1, "big")
    return Event(
        position,
        lsn,
        (lsn, seqval, operation),
        record["op"],
        record["before"],
        record["after"],
        frozenset(source["unavailable"] or ()),
        source["ts_ms"],
        source["snapshot"] == "patch",
        source["snapshot"] == "repair",
    )


@dataclass(frozen=True, slots=True)
class Delivered:
    """One Kafka transaction that was committed: its progress and where its records are.

    Attributes:
        transaction: the transaction.
        progress: its progress records, in order; seldom more than one.
        parts: its records by data partition.
        place: what the checkpoint has reached after it.
    """

    transaction: Transaction
    progress: tuple[Progress, ...]
    parts: tuple[tuple[Partition, list[Entry]], ...]
    place: Position


@dataclass(slots=True)
class Published:
    """Follows what the publishers commit, as it is committed.

    Attributes:
        records: progress records so far.
        newest: the newest progress record.
        closed: the newest closed LSN.
        position: LSN of the newest checkpoint: everything below it is published.
        commit: end time and id of the commit there, as the checkpoint has them; None where not.
        signals: offset after the last signal that was taken.
        named: topics of tables that are not part of the cut.
        patches: names of tables whose record has a patch.
        instances: names of the capture instances in each table's record.
        delivered: all transactions of the publishers, in the order of their decisions.
    """

    broker: Broker
    schemas: Schemas
    records: int = 0
    newest: Progress | None = None
    closed: bytes = bytes(10)
    position: bytes = bytes(10)
    commit: tuple[str, str] | None = None
    signals: int = 0
    named: frozenset[str] = frozenset()
    patches: set[str] = field(default_factory=set)
    instances: dict[str, Sequence[str]] = field(default_factory=dict)
    delivered: list[Delivered] = field(default_factory=list)

    @property
    def place(self) -> Position:
        """What the newest checkpoint has reached."""
        return self.position, self.commit

    def ends_before_newest(self, partition: Partition) -> list[int]:
        """Offsets after a marker, at which the checkpoint closes less than the progress records."""
        ends, closed = [], b""
        for entry in partition.entries:
            if entry.is_marker and b"" < closed < self.closed:
                ends.append(entry.offset + 1)
            is_committed = entry.transaction and entry.transaction.fate is Fate.COMMITTED
            if is_committed and entry.key is not None and entry.value is not None:
                is_own = decode(self.schemas, entry.key)["table"] is None
                record = decode(self.schemas, entry.value)
                closed = lsn_of_text(record["closed_lsn"]) if is_own else closed
        return ends

    def committed(self, transaction: Transaction) -> None:
        """A transaction was decided to be committed."""
        progress: list[Progress] = []
        parts: list[tuple[Partition, list[Entry]]] = []
        for partition in transaction.unmarked:
            entries = _of(partition, transaction)
            if partition.topic == f"{PREFIX}.progress":
                progress += [
                    Progress.from_record(decode(self.schemas, entry.value or b""))
                    for entry in entries
                ]
            elif partition.topic == f"{PREFIX}.offsets":
                self._note_position(entries)
            elif partition.topic.count(".") == 3:  # the topics beside the data have no ledger
                parts.append((partition, entries))
        if not progress:
            return
        self.records += len(progress)
        self.newest = progress[-1]
        self.closed = lsn_of_text(progress[-1].closed_lsn)
        self.position = max(self.position, *(lsn_of_text(p.closed_lsn) for p in progress))
        self.named = frozenset(progress[-1].snapshotting)
        self.delivered.append(Delivered(transaction, tuple(progress), tuple(parts), self.place))

    def _note_position(self, entries: list[Entry]) -> None:
        for entry in entries:
            if entry.key is not None and (name := decode(self.schemas, entry.key)["table"]):
                self._note_table(name, entry.value and decode(self.schemas, entry.value))
        for entry in reversed(entries):
            if entry.value is None or entry.key is None:
                continue
            if decode(self.schemas, entry.key)["table"] is None:
                record = decode(self.schemas, entry.value)
                self.position = lsn_of_text(record["start_lsn"])
                self.signals = record["signals_offset"] or 0
                end_time, tran_id = record["tran_end_time"], record["tran_id"]
                self.commit = None if tran_id is None else (end_time, tran_id)
                return

    def _note_table(self, name: str, record: Mapping[str, Any] | None) -> None:
        """Take a table's checkpoint record in; None if it is deleted."""
        has_patch = record is not None and record["patch"] is not None
        (self.patches.add if has_patch else self.patches.discard)(name)
        self.instances[name] = record["capture_instances"] if record else ()


def _of(partition: Partition, transaction: Transaction) -> list[Entry]:
    found = []
    for entry in reversed(partition.entries):
        if entry.transaction is transaction:
            found.append(entry)
        elif entry.transaction is not None and entry.transaction.is_stray:
            continue
        elif entry.transaction is not None and entry.transaction.number < transaction.number:
            break
    return found[::-1]


def position_hash(position: bytes) -> int:
    """As the ledger has it."""
    return zlib.crc32(position)
