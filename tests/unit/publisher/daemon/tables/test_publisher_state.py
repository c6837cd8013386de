"""What a restarted publisher goes on from, also from records of earlier releases."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tailrace_publisher.checkpoint import reader
from tailrace_publisher.checkpoint.reader import Stored
from tailrace_publisher.daemon.adapters.production import kafka_at
from tailrace_publisher.daemon.tables.publisher_state import PublisherState, known_identity
from tailrace_publisher.daemon.tables.table_record import TableRecord
from tailrace_publisher.daemon.tables.table_state import TableEvent, TableState
from tailrace_publisher.encode.records import RecordEncoder
from tailrace_publisher.errors import CheckpointError
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_publisher.source.log.commit_times import CommitTime
from tailrace_publisher.source.log.identity import DatabaseIdentity
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.checkpoint import (
    CHECKPOINT_KEY_SCHEMA,
    CHECKPOINT_SCHEMA,
    CheckpointKey,
    DatabaseCheckpoint,
    TableCheckpoint,
)
from tailrace_schemas.topics.topic_names import TableName, TopicNames
from tailrace_service.registry.client import SchemaRegistry

DATA = Path(__file__).parent / "data"
SERVER, DATABASE = "airline", "flights"
KEY = CheckpointKey(SERVER, DATABASE)
POSITION = ChangePosition(Lsn(0x2A, 0x1B0, 3), 4, Lsn(0x2A, 0x1A8, 2), Operation.INSERT)
CLOSED = Lsn(0x2A, 0x1A0, 5)
COPY, FORK = "11111111-2222-3333-4444-555555555555", "66666666-7777-8888-9999-000000000000"
FAMILY = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
IDENTITY = DatabaseIdentity(COPY, FORK, FAMILY)
TABLE = TableName(DATABASE, "dbo", "airports")
RECORD = TableRecord(
    TableState.SNAPSHOTTING,
    covers_from=Lsn(1, 0, 1),
    instances=("dbo_airports", "airports_2"),
    schema_lsn=Lsn(1, 0, 2),
    snapshot_fence=CLOSED,
    resume_key='["41"]',
    snapshot_rows=41,
)


class Known(SchemaRegistry):
    """A registry that answers from memory."""

    def __init__(self, key: dict[str, Any], value: dict[str, Any]) -> None:
        super().__init__("http://127.0.0.1:1")
        self._schemas = {1: key, 2: value}


def stored(raw: dict[bytes, bytes | None], key: dict[str, Any], value: dict[str, Any]) -> Stored:
    """What is read of the newest records of the topic."""
    topics = DatabaseTopics(
        kafka_at("127.0.0.1:1"), Known(key, value), TopicNames("p"), SERVER, DATABASE
    )
    return reader._decode(raw, topics)


def kept(name: str) -> Stored:
    """What is read of records that an earlier release wrote."""
    found = json.loads((DATA / name).read_text())
    raw: dict[bytes, bytes | None] = {
        bytes.fromhex(record["key"]): bytes.fromhex(record["value"]) for record in found["records"]
    }
    return stored(raw, found["key_schema"], found["value_schema"])


def state(**parts: Any) -> PublisherState:
    return PublisherState(SERVER, DATABASE, IDENTITY, POSITION, CLOSED, **parts)


def restored(found: Stored, identity: DatabaseIdentity = IDENTITY) -> PublisherState:
    again = PublisherState.restore(SERVER, DATABASE, identity, found)
    assert again is not None
    return again


def written(of: PublisherState) -> Stored:
    """What the publisher writes, as a reader finds it."""
    encode_key = RecordEncoder(CHECKPOINT_KEY_SCHEMA, 1).encode
    encode_value = RecordEncoder(CHECKPOINT_SCHEMA, 2).encode
    records = of.records_to_write(of.database_record(CLOSED, 5), 5)
    raw: dict[bytes, bytes | None] = {}
    for key, record in records.items():
        if isinstance(key, CheckpointKey):
            value = None if record is None else encode_value(record.to_record())
            raw[encode_key(key.to_record())] = value
    return stored(raw, CHECKPOINT_KEY_SCHEMA, CHECKPOINT_SCHEMA)


COMMIT = CommitTime(
    POSITION.commit_lsn,
    datetime(2026, 11, 22, 8, 0, 0, 123000),  # noqa: DTZ001
    b"\x00\x00\x00\x00\x4a\x1f",
)


def test_it_goes_on_from_its_own_records():
    before = state(commit=COMMIT, signals_offset=7)
    before.store(TABLE, RECORD)

    found = written(before)
    again = restored(found)

    assert (again.position, again.closed_lsn, again.commit) == (POSITION, CLOSED, COMMIT)
    assert again.signals_offset == 7
    assert found.database is not None
    assert known_identity(found.database) == IDENTITY
    assert again.of(TABLE) == RECORD
    assert found.tables[TABLE].position == POSITION
    assert not found.older_keys


def test_refused_signals_are_in_the_records_of_a_minute_a_restart_included():
    before = state(signals_offset=9)
    before.refuse_signal(8, "dbo.a: no such table is published")
    before.refuse_signal(8, "dbo.b: it has no key")
    refused = {"8": "dbo.a: no such table is published; dbo.b: it has no key"}

    found = written(before)
    assert found.database is not None
    assert found.database.refused_signals == refused
    again = restored(found)
    assert again.database_record(CLOSED, 1_000).refused_signals == refused
    assert again.database_record(CLOSED, 61_000).refused_signals == refused
    assert again.database_record(CLOSED, 61_001).refused_signals == {}


def test_a_partial_snapshot_goes_on_with_its_condition_and_leaves_none_behind():
    before = state()
    before.store(TABLE, replace(RECORD, state=TableState.FOLLOWED, snapshot_where="id > 7"))
    before.happened(TABLE, TableEvent.PART_WANTED)
    assert (before.out_of_cut(), before.unread()) == ([], [TABLE])

    again = restored(written(before))

    assert again.of(TABLE) == replace(RECORD, state=TableState.REREADING, snapshot_where="id > 7")
    assert (again.out_of_cut(), again.unread()) == ([], [TABLE])
    assert again.happened(TABLE, TableEvent.ROWS_PUBLISHED).snapshot_where == "id > 7"
    for event in (TableEvent.SNAPSHOT_PUBLISHED, TableEvent.SNAPSHOT_WANTED):
        ended = restored(written(before))
        assert ended.happened(TABLE, event).snapshot_where is None


def test_only_what_changed_is_written():
    before = state()
    before.store(TABLE, RECORD)
    before.written(CLOSED)
    assert written(before).tables == {}

    before.happened(TABLE, TableEvent.SNAPSHOT_PUBLISHED)
    assert written(before).tables[TABLE].state == "done"


def test_a_table_that_is_gone_has_no_record_any_more():
    before = state()
    before.store(TABLE, RECORD)
    before.written(CLOSED)
    before.happened(TABLE, TableEvent.GONE)

    records = before.records_to_write(before.database_record(CLOSED, 5), 5)

    assert records[CheckpointKey(SERVER, DATABASE, TABLE)] is None
    assert before.of(TABLE) == TableRecord()
    assert before.known() == set()


def test_a_table_of_which_nothing_is_published_has_none_either():
    before = state()
    before.happened(TABLE, TableEvent.CAPTURED)
    assert list(before.records_to_write(before.database_record(CLOSED, 5), 5)) == [KEY]


def test_what_cannot_be_seen_any_more_stays_known():
    assert restored(written(state()), DatabaseIdentity(None, None)).identity == IDENTITY


def test_a_time_that_is_none_is_told():
    found = written(state(commit=COMMIT))
    assert found.database is not None
    found.database = replace(found.database, tran_end_time="yesterday")

    with pytest.raises(CheckpointError, match="yesterday"):
        PublisherState.restore(SERVER, DATABASE, IDENTITY, found)


def test_a_state_that_is_none_is_told():
    found = written(state())
    found.tables[TABLE] = TableCheckpoint("asleep", POSITION, None)

    with pytest.raises(CheckpointError, match="asleep"):
        PublisherState.restore(SERVER, DATABASE, IDENTITY, found)


def test_no_record_of_the_database_is_no_checkpoint():
    assert PublisherState.restore(SERVER, DATABASE, IDENTITY, Stored()) is None


OLDER = ["checkpoint_feafffa.json", "checkpoint_per_instance.json"]
STATES = {
    "pending": TableRecord(TableState.PENDING, Lsn(0x2A, 0x100, 1), ("dbo_pending",)),
    "running": TableRecord(
        TableState.SNAPSHOTTING,
        Lsn(0x2A, 0x110, 1),
        ("dbo_running",),
        snapshot_fence=CLOSED,
        resume_key='["41"]',
        snapshot_rows=41,
    ),
    "skipped": TableRecord(TableState.FOLLOWED, Lsn(0x2A, 0x130, 1), ("dbo_skipped",)),
    "stopped": TableRecord(TableState.STOPPED, Lsn(0x2A, 0x140, 1), ("dbo_stopped",)),
}


@pytest.mark.parametrize("name", OLDER)
@pytest.mark.parametrize("table", STATES)
def test_a_record_per_capture_instance_becomes_its_tables(name: str, table: str):
    again = restored(kept(name))
    of = TableName(DATABASE, "dbo", table)

    again.adopt(of, [f"dbo_{table}"])

    assert again.of(of) == STATES[table]
    assert restored(written(again)).of(of) == STATES[table]


@pytest.mark.parametrize("name", OLDER)
def test_a_table_of_two_capture_instances_is_covered_from_the_older_ones_start(name: str):
    again = restored(kept(name))
    again.adopt(TABLE, ["dbo_done_2", "dbo_done"])

    record = again.of(TABLE)

    assert (record.state, record.covers_from) == (TableState.FOLLOWED, Lsn(0x2A, 0x120, 1))
    assert record.instances == ("dbo_done", "dbo_done_2")
    assert record.snapshot_rows == 1000


@pytest.mark.parametrize("name", OLDER)
def test_the_database_goes_on_from_where_the_earlier_release_was(name: str):
    found = kept(name)
    again = restored(found)

    assert (again.position, again.closed_lsn, again.signals_offset) == (POSITION, CLOSED, 7)
    assert found.database is not None
    family = None if "feafffa" in name else FAMILY
    assert known_identity(found.database) == DatabaseIdentity(COPY, FORK, family)
    assert again.commit == (None if "feafffa" in name else COMMIT)


@pytest.mark.parametrize("name", OLDER)
def test_records_of_an_earlier_form_are_taken_away_when_theirs_are_written(name: str):
    found = kept(name)
    again = restored(found)
    again.adopt(TABLE, ["dbo_done", "dbo_done_2"])
    assert again.holds_events(TableName(DATABASE, "dbo", "pending"), ["dbo_pending"])
    assert not again.holds_events(TableName(DATABASE, "dbo", "stopped"), ["dbo_stopped"])
    assert again.older_left() == ["dbo_pending", "dbo_running", "dbo_skipped", "dbo_stopped"]

    records = again.records_to_write(again.database_record(CLOSED, 5), 5)
    taken_away = {key for key, record in records.items() if record is None}
    assert taken_away == set(found.older_keys)
    assert len(found.older_keys) == 7
    assert isinstance(records[KEY], DatabaseCheckpoint)

    again.written(CLOSED)
    assert list(again.records_to_write(again.database_record(CLOSED, 6), 6)) == [KEY]


def test_a_newer_instance_alone_does_not_hold_what_the_older_one_held():
    """Its rows were out, and what held its changes at their fence is not in the checkpoint."""
    again = restored(kept(OLDER[0]))
    again.position = ChangePosition.end_of(Lsn(0x2A, 0x150, 1))
    again.adopt(TABLE, ["dbo_done_2"])

    record = again.of(TABLE)

    assert record.covers_from == again.published_lsn
    assert record.instances == ()


def test_what_operators_asked_for_outlives_the_process():
    before = state(paused_since_ms=5)
    before.store(TABLE, replace(RECORD, snapshot_paused=True, snapshot_bytes=4_100))

    again = restored(written(before))

    assert again.paused_since_ms == 5
    assert again.of(TABLE) == replace(RECORD, snapshot_paused=True, snapshot_bytes=4_100)


@pytest.mark.parametrize(
    "event", [TableEvent.SNAPSHOT_PUBLISHED, TableEvent.SNAPSHOT_STOPPED, TableEvent.PLACE_LOST]
)
def test_a_pause_is_of_one_snapshot(event: TableEvent):
    before = state()
    before.store(TABLE, replace(RECORD, snapshot_paused=True))
    assert before.happened(TABLE, TableEvent.CAPTURED).snapshot_paused
    assert before.happened(TABLE, TableEvent.ROWS_PUBLISHED).snapshot_paused
    before.happened(TABLE, event)
    assert not before.happened(TABLE, TableEvent.SNAPSHOT_WANTED).snapshot_paused


def test_a_snapshot_that_was_stopped_begins_anew_behind_a_record_that_leaves_it_out():
    before = state()
    before.store(TABLE, RECORD)
    before.written(CLOSED)
    before.happened(TABLE, TableEvent.SNAPSHOT_STOPPED)
    before.written(CLOSED)
    assert before.out_of_cut() == [TABLE]
    assert before.restarted_tables() == set()
    before.happened(TABLE, TableEvent.SNAPSHOT_WANTED)
    assert before.restarted_tables() == {TABLE}
