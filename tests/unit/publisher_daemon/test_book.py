"""What a restarted publisher goes on from, also from records of earlier versions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import fastavro
import pytest

from tailrace_publisher.daemon.book import DATABASE_RECORD, Book
from tailrace_publisher.encode.records import RecordDecoder, RecordEncoder
from tailrace_publisher.errors import CheckpointError
from tailrace_publisher.source.identity import DatabaseIdentity
from tailrace_publisher.source.queries import CommitTime
from tailrace_schemas.checkpoint import CHECKPOINT_SCHEMA, CheckpointKey, CheckpointRecord
from tailrace_schemas.lsn import Lsn
from tailrace_schemas.position import ChangePosition, Operation
from tailrace_schemas.registry import SchemaRegistry

KEY = CheckpointKey("server", "db", DATABASE_RECORD)
IDENTITY = DatabaseIdentity("copy", "fork", "family")
INSIDE = ChangePosition(Lsn(1, 2, 3), 4, Lsn(1, 2, 1), Operation.INSERT)
CLOSED = Lsn(1, 2, 0)
COMMIT = CommitTime(INSIDE.commit_lsn, datetime(2013, 1, 1, 0, 0, 1, 7000), b"\x00\xff")  # noqa: DTZ001


def written(book: Book) -> dict[CheckpointKey, CheckpointRecord]:
    records = book.records_to_write(CLOSED, lambda: 5)
    return {key: record for key, record in records.items() if record is not None}


class Earlier(SchemaRegistry):
    """A registry with the schema of the records that 0.1.0 and everything before wrote."""

    def __init__(self, schema: dict[str, Any]) -> None:
        super().__init__("http://127.0.0.1:1")
        self._schemas = {1: schema}


def test_a_book_goes_on_from_its_own_records():
    book = Book("server", "db", IDENTITY, INSIDE, CLOSED, commit=COMMIT)

    restored = Book.restore("server", "db", IDENTITY, written(book))

    assert restored is not None
    assert (restored.position, restored.closed_lsn) == (INSIDE, CLOSED)
    assert restored.commit == COMMIT
    assert restored.known_identity(written(book)) == IDENTITY


def test_what_cannot_be_seen_any_more_stays_known():
    book = Book("server", "db", IDENTITY, INSIDE, CLOSED)

    restored = Book.restore("server", "db", DatabaseIdentity(None, None), written(book))

    assert restored is not None
    assert restored.identity == IDENTITY


def test_records_of_an_earlier_version_have_the_closed_lsn_in_another_field():
    later = {"closed_lsn", "tran_end_time", "tran_id", "family_guid"}
    fields = [field for field in CHECKPOINT_SCHEMA["fields"] if field["name"] not in later]
    schema = {**CHECKPOINT_SCHEMA, "fields": fields}
    earlier = {
        "start_lsn": str(INSIDE.commit_lsn),
        "seqval": str(INSIDE.seqval),
        "command_id": INSIDE.command_id,
        "operation": int(INSIDE.operation),
        "snapshot_state": "done",
        "snapshot_fence_lsn": str(CLOSED),
        "snapshot_rows": 0,
        "database_guid": "copy",
        "recovery_fork_guid": "fork",
        "written_ms": 5,
    }
    fastavro.validation.validate(earlier, schema)
    raw = RecordEncoder(schema, 1).encode(earlier)
    record = CheckpointRecord(**RecordDecoder(CHECKPOINT_SCHEMA, Earlier(schema)).decode(raw))

    book = Book.restore("server", "db", IDENTITY, {KEY: record})

    assert book is not None
    assert (book.position, book.closed_lsn, book.commit) == (INSIDE, CLOSED, None)
    assert book.known_identity({KEY: record}) == DatabaseIdentity("copy", "fork", None)
    assert written(book)[KEY].closed_lsn == str(CLOSED)
    assert written(book)[KEY].family_guid == "family"


def test_a_time_that_is_none_is_told():
    record = written(Book("server", "db", IDENTITY, INSIDE, CLOSED, commit=COMMIT))[KEY]
    object.__setattr__(record, "tran_end_time", "yesterday")

    with pytest.raises(CheckpointError, match="yesterday"):
        Book.restore("server", "db", IDENTITY, {KEY: record})
