"""Where a publisher begins: options, Debezium's offsets, and what the change tables must hold."""

from typing import Any

import pytest

from tailrace_publisher.checkpoint.debezium_offsets import chosen_offset, connector_offsets
from tailrace_publisher.checkpoint.java_map import NotAnOffsetsFile, read_map
from tailrace_publisher.daemon.tables.coverage import covers_from_start
from tailrace_publisher.errors import ConfigError
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_schemas.position.lsn import Lsn
from tests.fix_connect_offsets import (
    COMMIT_LSN,
    DATABASE,
    FILE,
    GONE_KEY,
    KEY,
    UNFINISHED,
    UNFINISHED_KEY,
    VALUE,
)
from tests.least_options import LEAST


def lsn(number: int) -> Lsn:
    return Lsn(0, 0, number)


# -- Connect's file --------------------------------------------------------------------------------


def test_what_connect_wrote_is_read():
    assert read_map(FILE) == {KEY: VALUE, UNFINISHED_KEY: UNFINISHED, GONE_KEY: None}


@pytest.mark.parametrize("size", range(0, len(FILE), 7))
def test_a_file_that_is_cut_off_is_refused(size: int):
    with pytest.raises(NotAnOffsetsFile):
        read_map(FILE[:size])


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"{}", "no Java serialisation stream"),
        (FILE.replace(b"java.util.HashMap", b"java.util.TreeMap"), "no java.util.HashMap"),
        (FILE.replace(b"uq\0~\0\2", b"sq\0~\0\2", 1), "something else than byte arrays"),
        (FILE.replace(b"uq\0~\0\2", b"uq\0~\0\7", 1), "refers to what is not there"),
        (FILE.replace(b"uq\0~\0\2", b"uq\0~\0\1", 1), "something else than byte arrays"),
    ],
)
def test_a_file_of_another_kind_is_refused(data: bytes, told: str):
    with pytest.raises(NotAnOffsetsFile, match=told):
        read_map(data)


# -- whose offset ----------------------------------------------------------------------------------


def test_the_offset_of_a_database_is_found_whatever_the_case_of_its_name():
    offsets = connector_offsets(read_map(FILE))
    assert len(offsets) == 2
    chosen = chosen_offset(offsets, DATABASE.upper(), None)
    assert (chosen.connector, chosen.server) == ("shop-connector", "shop")
    assert str(chosen.commit_lsn()) == COMMIT_LSN
    for name in ("shop", "shop-connector"):
        assert chosen_offset(offsets, DATABASE, name) == chosen


def test_an_offset_that_is_not_there_is_told_with_what_is():
    offsets = connector_offsets(read_map(FILE))
    with pytest.raises(ValueError, match=r"no offset for database nowhere, but connector shop-con"):
        chosen_offset(offsets, "nowhere", None)
    with pytest.raises(ValueError, match="of connector typo for database db_00000000"):
        chosen_offset(offsets, DATABASE, "typo")


def test_two_offsets_of_a_database_need_a_name():
    other = KEY.replace(b"shop-connector", b"second").replace(b'"shop"', b'"second"')
    offsets = connector_offsets({KEY: VALUE, other: VALUE})
    with pytest.raises(ValueError, match=r"holds 2 offsets .* start\.debezium_name: .*second"):
        chosen_offset(offsets, DATABASE, None)
    assert chosen_offset(offsets, DATABASE, "second").server == "second"


def test_a_snapshot_that_was_not_over_is_no_place_to_go_on_from():
    (unfinished,) = connector_offsets({UNFINISHED_KEY: UNFINISHED})
    with pytest.raises(ValueError, match=r"snapshot of connector other .* was not finished"):
        unfinished.commit_lsn()
    ended = UNFINISHED.replace(b"false", b"true")
    (over,) = connector_offsets({UNFINISHED_KEY: ended})
    assert over.commit_lsn() == Lsn(1, 1, 1)


def test_offsets_of_other_connectors_and_foreign_records_are_left_out():
    entries = {
        b'["pg",{"server":"pg"}]': b'{"lsn":4711}',
        b"not json": b"{}",
        b'["x"]': b"{}",
        b'["gone",{"server":"gone"}]': None,
    }
    assert connector_offsets(entries) == []


# -- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "told"),
    [
        ({"lsn": "27:758:5"}, "is not an LSN. Fix: write"),
        ({"lsn": "0x" + "00" * 10}, "an LSN of zeros"),
        ({"lsn": "00000000:00000000:0000"}, "an LSN of zeros"),
        ({"lsn": COMMIT_LSN, "time": "2026-11-22T10:00:00Z"}, "give one of lsn, time"),
        ({"time": "yesterday"}, "publisher.start.time|start.time"),
        ({"debezium_name": "shop"}, "debezium_name needs"),
        ({"debezium_topic": ""}, "start.debezium_topic"),
    ],
)
def test_bad_starts_are_told_at_once(start: dict[str, str], told: str):
    with pytest.raises(ConfigError, match=told):
        PublisherConfig.load({**LEAST, "start": start})


def test_an_lsn_may_be_written_as_management_tools_print_it():
    config = PublisherConfig.load({**LEAST, "start": {"lsn": "0x00000027000007580005"}})
    assert config.start.lsn == COMMIT_LSN


@pytest.mark.parametrize("mode", ["always", "initial_only"])
def test_a_start_is_without_a_snapshot(mode: str):
    options = {**LEAST, "start": {"lsn": COMMIT_LSN}, "snapshot": {"mode": mode}}
    with pytest.raises(ConfigError, match=f"snapshot.mode: {mode}"):
        PublisherConfig.load(options)


def test_when_needed_fills_gaps_and_cannot_stop_at_them():
    config = PublisherConfig.load({**LEAST, "snapshot": {"mode": "when_needed"}})
    assert config.snapshot.fills_gaps
    with pytest.raises(ConfigError, match="on_gap: stop does not"):
        PublisherConfig.load({**LEAST, "snapshot": {"mode": "when_needed", "on_gap": "stop"}})


@pytest.mark.parametrize(
    ("option", "waits"),
    [
        ("cleanup.wait_for: lake", {"cleanup": {"wait_for": "lake"}}),
        ("tables.drop_after: lake", {"tables": {"drop_after": "lake"}}),
    ],
)
def test_lakes_that_are_waited_for_are_named(option: str, waits: dict[str, Any]):
    with pytest.raises(ConfigError, match=f"lakes is empty, and {option}"):
        PublisherConfig.load({**LEAST, **waits})
    assert PublisherConfig.load({**LEAST, **waits, "lakes": ["a"]}).waits_for_lakes == [option]


# -- what is held ----------------------------------------------------------------------------------


def test_a_start_at_the_low_watermark_is_covered_from_before_it():
    assert covers_from_start({"a": lsn(5)}, lsn(5)) == {"a": lsn(4)}
    assert covers_from_start({"a": lsn(3), "b": lsn(9)}, lsn(5)) == {"a": lsn(3), "b": lsn(9)}
    assert covers_from_start({"a": lsn(6), "b": lsn(9)}, lsn(5)) is None
