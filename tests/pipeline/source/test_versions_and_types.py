"""Schema versions by position, every type exactly, and options that change what is published."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pytest

from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka


def afters(pipe: Pipe, table: str) -> list[dict[str, Any]]:
    """After images of the changes, in the order of their positions."""
    events = sorted(pipe.topics.changes(pipe.source.name, table), key=lambda e: e.position)
    return [event.envelope["after"] for event in events if event.envelope]


def test_each_row_has_the_version_of_its_position(pipe: Pipe):
    """A column is widened while the publisher runs, and again while it is stopped."""
    source = pipe.source
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, n smallint)")
    source.enable("t")
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
        source.execute(
            "INSERT dbo.t VALUES (1, 1)",
            "ALTER TABLE dbo.t ALTER COLUMN n int",
            "INSERT dbo.t VALUES (2, 100000)",
        )
        publisher.until(pipe.is_caught_up, "the wider column is out")
    source.execute(
        "INSERT dbo.t VALUES (3, 3)",
        "ALTER TABLE dbo.t ALTER COLUMN n bigint",
        "INSERT dbo.t VALUES (4, 10000000000)",
    )
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "the widest column is out")

    pipe.assert_exactly_once("t")
    assert [row["n"] for row in afters(pipe, "t")] == [1, 100000, 3, 10000000000]
    events = sorted(pipe.topics.changes(source.name, "t"), key=lambda e: e.position)
    begins = [e.envelope["source"]["schema_lsn"] for e in events if e.envelope]
    ids = [event.schema_id for event in events]
    assert begins[0] < begins[1] == begins[2] < begins[3]
    assert ids[1] == ids[2]
    assert len(set(ids)) == 3


COLUMNS = {
    "c_bit": ("bit", "1", True),
    "c_tinyint": ("tinyint", "255", 255),
    "c_smallint": ("smallint", "-32768", -32768),
    "c_int": ("int", "-2147483648", -2147483648),
    "c_bigint": ("bigint", "9223372036854775807", 9223372036854775807),
    "c_decimal": ("decimal(38,10)", "-1234567890123456789012345678.0123456789", None),
    "c_money": ("money", "-922337203685477.5808", Decimal("-922337203685477.5808")),
    "c_smallmoney": ("smallmoney", "214748.3647", Decimal("214748.3647")),
    "c_float": ("float", "1.7976931348623157E+308", 1.7976931348623157e308),
    "c_real": ("real", "0.5", 0.5),
    "c_date": ("date", "'0001-01-01'", dt.date(1, 1, 1)),
    "c_time": ("time(6)", "'23:59:59.999999'", dt.time(23, 59, 59, 999999)),
    "c_datetime2": (
        "datetime2(6)",
        "'9999-12-31T23:59:59.999999'",
        dt.datetime(9999, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001
    ),
    "c_datetime": (
        "datetime",
        "'1753-01-01T00:00:00.003'",
        dt.datetime(1753, 1, 1, 0, 0, 0, 3000),  # noqa: DTZ001
    ),
    "c_smalldatetime": ("smalldatetime", "'2079-06-06T23:59:00'", dt.datetime(2079, 6, 6, 23, 59)),  # noqa: DTZ001
    "c_offset": (
        "datetimeoffset(7)",
        "'2013-01-02T03:04:05.1234567-05:30'",
        "2013-01-02T03:04:05.1234567-05:30",
    ),
    "c_exact": (
        "datetime2(7)",
        "'2013-01-02T03:04:05.1234567'",
        "2013-01-02 03:04:05.1234567",
    ),
    "c_char": ("char(5)", "'ab'", "ab   "),
    "c_varchar": ("varchar(20)", "'it''s'", "it's"),
    "c_nchar": ("nchar(2)", "N'é'", "é "),
    "c_nvarchar": ("nvarchar(20)", "N'日本\U0001f600'", "日本\U0001f600"),
    "c_max": ("nvarchar(max)", "REPLICATE(CAST(N'x' AS nvarchar(max)), 9000)", "x" * 9000),
    "c_binary": ("binary(4)", "0x01", b"\x01\0\0\0"),
    "c_varbinary": ("varbinary(10)", "0x00FF", b"\x00\xff"),
    "c_guid": (
        "uniqueidentifier",
        "'6F9619FF-8B86-D011-B42D-00C04FC964FF'",
        uuid.UUID("6F9619FF-8B86-D011-B42D-00C04FC964FF"),
    ),
}


def test_every_type_arrives_as_it_is_from_snapshot_and_stream(pipe: Pipe):
    source = pipe.source
    columns = ", ".join(f"{name} {type_}" for name, (type_, _, _) in COLUMNS.items())
    values = ", ".join(literal for _, literal, _ in COLUMNS.values())
    nulls = ", ".join("NULL" for _ in COLUMNS)
    source.execute(
        f"CREATE TABLE dbo.t (id int PRIMARY KEY, {columns}, v rowversion)",
        f"INSERT dbo.t (id, {', '.join(COLUMNS)}) VALUES (1, {values}), (2, {nulls})",
    )
    source.enable("t")
    config = pipe.config(lossless_columns={"dbo.t": ["c_exact"]})

    with Running(config) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshot is out")
        source.execute(
            f"INSERT dbo.t (id, {', '.join(COLUMNS)}) VALUES (3, {values}), (4, {nulls})"
        )
        publisher.until(pipe.is_caught_up, "the changes are out")

    state = pipe.topics.state(source.name, "t", "id")
    expected = {name: value for name, (_, _, value) in COLUMNS.items()}
    expected["c_decimal"] = Decimal("-1234567890123456789012345678.0123456789")
    for number in (1, 3):
        assert {name: state[number][name] for name in expected} == expected
    for number in (2, 4):
        assert all(state[number][name] is None for name in expected)
    versions = dict(source.query("SELECT id, v FROM dbo.t"))
    assert {number: row["v"] for number, row in state.items()} == versions


def test_a_snapshot_resumes_behind_keys_of_any_type(pipe: Pipe):
    """One row a chunk, so that each key type is compared and resumed on the server."""
    source = pipe.source
    keys = {
        "k_guid": ("uniqueidentifier", ["NEWID()"] * 5),
        "k_varchar": ("varchar(10)", ["'a-b'", "'ab'", "'a b'", "'B'", "'é'"]),
        "k_datetime2": ("datetime2(7)", [f"'2013-01-01T00:00:00.000000{n}'" for n in range(5)]),
        "k_datetime": ("datetime", [f"'2013-01-01T00:00:00.0{n}3'" for n in range(5)]),
        "k_decimal": ("decimal(20,5)", ["-1.5", "0", "0.00001", "2", "10"]),
        "k_small": ("decimal(20,10)", ["-0.0000000001", "0", "0.0000001", "2", "1e9"]),
        "k_binary": ("varbinary(4)", ["0x00", "0x0001", "0x01", "0xFF", "0xFFFF"]),
    }
    for table, (type_, literals) in keys.items():
        source.execute(f"CREATE TABLE dbo.{table} (k {type_} PRIMARY KEY, n int)")
        for number, literal in enumerate(literals):
            source.execute(f"INSERT dbo.{table} VALUES ({literal}, {number})")
        source.enable(table)

    with Running(pipe.config(snapshot={"chunk_rows": 1})) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshots are out", 120)

    for table in keys:
        reads = [
            e.envelope["after"]["n"] for e in pipe.topics.snapshot(source.name, table) if e.envelope
        ]
        assert sorted(reads) == [0, 1, 2, 3, 4], table


def test_a_table_without_key_is_published_whole_and_in_one_partition(pipe: Pipe):
    source = pipe.source
    source.execute("CREATE TABLE dbo.log (line nvarchar(20))")
    source.execute("INSERT dbo.log VALUES (N'same'), (N'same'), (N'other')")
    source.enable("log")

    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshot is out")
        source.execute("INSERT dbo.log VALUES (N'same')", "DELETE dbo.log WHERE line = N'other'")
        publisher.until(pipe.is_caught_up, "the changes are out")

    assert publisher.told("table_without_key")
    reads = pipe.topics.snapshot(source.name, "log")
    assert sorted(e.envelope["after"]["line"] for e in reads if e.envelope) == [
        "other",
        "same",
        "same",
    ]
    pipe.assert_exactly_once("log")
    events = pipe.topics.events(source.name, "log")
    assert {event.partition for event in events} == {0}
    assert all(event.key is None and event.envelope is not None for event in events)


def test_without_data_only_changes_from_now_on_are_published(pipe: Pipe):
    source = pipe.source
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)", "INSERT dbo.t VALUES (1)")
    source.enable("t")

    with Running(pipe.config(snapshot={"mode": "no_data"}, tombstones=False)) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
        source.execute("INSERT dbo.t VALUES (2)", "DELETE dbo.t WHERE id = 1")
        publisher.until(pipe.is_caught_up, "the changes are out")

    operations = [e.envelope["op"] for e in pipe.topics.events(source.name, "t") if e.envelope]
    assert sorted(operations) == ["c", "d"]
    assert len(pipe.topics.events(source.name, "t")) == 2, "no tombstone"


def test_a_table_that_was_left_out_comes_back_with_a_new_snapshot(pipe: Pipe):
    """The position moved on without it: going on from there would hide a gap."""
    source = pipe.source
    for table in ("kept", "odd"):
        source.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, v int)")
        source.enable(table)
    source.execute("INSERT dbo.odd VALUES (1, 1)")
    everything = pipe.config()
    without = pipe.config(tables={"exclude": [r"dbo\.odd"]})

    with Running(everything) as publisher:
        publisher.until(pipe.is_caught_up, "both are out")
    with Running(without) as publisher:
        source.execute("UPDATE dbo.odd SET v = 2", "INSERT dbo.kept VALUES (1, 1)")
        publisher.until(pipe.is_caught_up, "one is out")
        assert publisher.told("capture_instance_unused")
    with Running(everything) as publisher:
        source.execute("INSERT dbo.odd VALUES (2, 1)")
        publisher.until(pipe.is_caught_up, "both are out again")

    assert {n: row["v"] for n, row in pipe.topics.state(source.name, "odd", "id").items()} == {
        1: 2,
        2: 1,
    }
    pipe.assert_exactly_once("kept")
