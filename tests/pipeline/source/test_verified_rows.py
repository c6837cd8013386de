"""What tailrace verify reads of the source: every row once, whatever its key, and what changed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from emulator.tests.fix_sqlserver import SourceServer
from tailrace.verify import ranges, source_rows
from tailrace.verify.changed_keys import changed_keys
from tailrace.verify.not_provable import NotProvable
from tailrace.verify.pace import Pace
from tailrace.verify.ranges import KeyRange, has_ranges
from tailrace.verify.repairable import NotRepairable, repair_signal
from tailrace.verify.source_rows import SourceRows
from tailrace.verify.table_shape import TableShape, shape_of
from tailrace_publisher.change.column_rules import ColumnRules
from tailrace_publisher.errors import RepairRefused
from tailrace_publisher.snapshot.keyed_rows import KeyedRows, Rows
from tailrace_publisher.snapshot.pending import PendingTable
from tailrace_publisher.snapshot.progress import SnapshotProgress, SnapshotState
from tailrace_publisher.snapshot.repair_keys import NamedKeys
from tailrace_publisher.snapshot.table_reader import ChunkLimits, ReadSource, TableReader
from tailrace_publisher.source.catalog.instances import KnownCatalog, read_catalog
from tailrace_publisher.source.catalog.table_instances import by_table
from tailrace_publisher.source.catalog.versions import current_columns
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_publisher.source.log.log_end import LogEndSource
from tailrace_publisher.source.pages.page_size import PageLimit
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.signals import RowKeys, read_signal
from tests.pipeline.source_database import SourceDatabase, source_options
from tests.unit.publisher.snapshot.table_source import encoder_of

KEYS = {
    "one": "id int PRIMARY KEY",
    "two": "a smallint, id int, PRIMARY KEY (a, id)",
    "moments": "id datetime2(7) PRIMARY KEY",
    "words": "id varchar(20) COLLATE Latin1_General_CI_AS PRIMARY KEY",
    "guids": "id uniqueidentifier PRIMARY KEY",
    "floats": "id float PRIMARY KEY",
    "stamps": "id datetime PRIMARY KEY",
    "bytes": "id varbinary(8) PRIMARY KEY",
    "offsets": "id datetimeoffset(3) PRIMARY KEY",
    "times": "id time(3) PRIMARY KEY",
    "money": "id money PRIMARY KEY",
    "days": "id date PRIMARY KEY",
    "nodes": "id hierarchyid PRIMARY KEY",
    "pages": "id varchar(9) COLLATE Chinese_PRC_CI_AS PRIMARY KEY",
}
ROWS = {
    "one": ["-7", "0", "3", "4", "5", "6", "1000", "2147483647"],
    "two": ["1, 1", "1, 2", "1, 3", "2, 1", "3, 1", "3, 2", "3, 3", "3, 4"],
    "moments": [f"'2024-01-01T00:00:00.{n * 10 + 1:07}'" for n in range(8)],
    "words": ["'a'", "'B'", "'c '", "''", "'é'", "'it''s'", "'Z'", "'zz'"],
    "guids": [f"'{uuid.UUID(int=n * 2**100 + n)}'" for n in range(8)],
    "floats": ["-1E300", "-0.1", "0", "0.1", "1", "2", "3", "1E300"],
    "stamps": [f"'2024-01-01T00:00:00.{n}'" for n in ("000", "003", "007", "010", "013")],
    "bytes": ["0x", "0x00", "0x0001", "0x01", "0xff"],
    "offsets": [f"'2024-01-01T00:00:0{n}+0{n}:00'" for n in range(6)],
    "times": [f"'00:00:0{n}.5'" for n in range(6)],
    "money": ["-1.5", "0", "0.0001", "7"],
    "days": ["'0001-01-01'", "'2024-02-29'", "'9999-12-31'"],
    "nodes": ["'/'", "'/1/'", "'/1/1/'", "'/1/2.1/'", "'/2/'", "'/2/-1/'", "'/3/'"],
    "pages": ["'a'", "0x80", "N'日€'", "N'日本'", "N'é'"],
}

NOT_REPAIRED = {"moments", "floats", "offsets", "times"}


@pytest.fixture(scope="module")
def source(source_server: SourceServer) -> SourceDatabase:
    made = SourceDatabase(source_server, f"db_{uuid.uuid4().hex[:8]}")
    for name, key in KEYS.items():
        made.execute(f"CREATE TABLE dbo.{name} ({key}, note nvarchar(20))")
        for row in ROWS[name]:
            made.execute(f"INSERT dbo.{name} VALUES ({row}, N'n')")
        made.enable(name)
    made.execute(
        "CREATE TABLE dbo.lines (note nvarchar(20))",
        f"CREATE TABLE dbo.pairs ({KEYS['two']})",
        f"CREATE TABLE dbo.names ({KEYS['words']})",
        "CREATE TABLE dbo.parts (maker int, part nvarchar(9), note nvarchar(20))",
        "CREATE TABLE dbo.rotated (id int PRIMARY KEY, note nvarchar(20))",
    )
    for name in ("lines", "pairs", "names", "parts", "rotated"):
        made.enable(name)
    return made


@pytest.fixture
def connection(source: SourceDatabase) -> Iterator[OdbcConnection]:
    with OdbcConnection(source_options(source)) as made:
        yield made


@pytest.fixture
def rows(connection, monkeypatch) -> SourceRows:
    """A reader with chunks and ranges of three rows."""
    monkeypatch.setattr(source_rows, "_CHUNK_ROWS", 3)
    monkeypatch.setattr(ranges, "RANGE_ROWS", 3)
    return SourceRows(connection, connection, Pace(None))


def shape(
    source: SourceDatabase,
    connection: OdbcConnection,
    name: str,
    message_keys: Mapping[str, Sequence[str]] | None = None,
    *,
    by_function: bool = False,
) -> TableShape:
    known = KnownCatalog(by_function=by_function)
    catalog = read_catalog(connection, source.name, message_keys or {}, known)
    tables = by_table(catalog.instances)
    (found,) = (instances for table, instances in tables.items() if table.table == name)
    return shape_of(found, (), ColumnRules())


@pytest.mark.parametrize("name", KEYS)
def test_every_row_is_read_once_and_found_again_by_its_key(source, connection, rows, name):
    table = shape(source, connection, name)

    reading = rows.rows(table)
    keys = [tuple(row.values()) for row in reading.rows.drop_columns("source_hash").to_pylist()]
    again = rows.rows_of(table, keys)

    assert reading.count == len(ROWS[name]) == len(set(keys))
    assert set(again.texts) == set(keys)
    assert again.texts[keys[0]][: len(table.key)] == keys[0]
    assert len(set(reading.rows["source_hash"].to_pylist())) == len(keys)


@pytest.mark.parametrize("name", KEYS)
def test_a_repair_reads_the_same_rows_by_its_keys(source, connection, rows, name):
    table = shape(source, connection, name)
    reading = rows.rows(table)
    keys = [tuple(row.values()) for row in reading.rows.drop_columns("source_hash").to_pylist()]
    if name in NOT_REPAIRED:
        with pytest.raises(NotRepairable, match=f"no exact text: id.* snapshot dbo.{name}"):
            repair_signal(table, keys, len(keys), frozenset())
        return
    asked = repair_signal(table, keys, len(keys), frozenset())
    pending = pending_repair(table)

    found, again = read_keyed(connection, pending, asked.rows)

    width = len(table.key)
    assert read_signal(asked.to_bytes()) == asked
    wanted = [tuple(row[:width]) for row in again]
    assert len(set(wanted)) == len(keys)
    assert set(wanted) == {tuple(row[:width]) for row in found}
    assert {row[width] for row in found} == {"n"}
    assert {row[width] for row in again} == {None}
    if name in {"one", "two", "money"}:
        absent = replace(asked.rows, keys=(("77",) * width,))
        found, again = read_keyed(connection, pending, absent)
        assert (len(found), len(again)) == (0, 1)
    with pytest.raises(RepairRefused, match=r"its rows exceed 0 MB.*tailrace snapshot"):
        read_keyed(connection, pending, asked.rows, 10)


def test_a_key_of_other_case_has_no_row(source, connection):
    """The server finds a row, whose key events know apart."""
    asked = RowKeys(("id",), (("A",), ("zz",), ("ZZ ",)))
    pending = replace(pending_repair(shape(source, connection, "words")), repair=asked)
    limits = ChunkLimits(PageLimit(10, 1_000_000), 1_000_000)
    reader = TableReader(pending, encoder_of(pending), limits, lambda: False)

    chunk = reader.read(ReadSource(connection, LogEndSource(connection, None)), Lsn.ZERO)

    assert chunk is not None
    assert (chunk.gone_from, chunk.is_last) == (2, True)
    assert [key[5:] for key in chunk.keys] == [b"\x02a", b"\x04zz", b"\x02A", b"\x06ZZ "]


def read_keyed(
    connection: OdbcConnection, table: PendingTable, wanted: RowKeys, size_max: int = 1_000_000
) -> tuple[Rows, Rows]:
    keys = NamedKeys(table, wanted).take(connection, len(wanted.keys))
    return KeyedRows(table, size_max).read(connection, keys)


def pending_repair(table: TableShape) -> PendingTable:
    columns = current_columns(table.newest, (), ColumnRules())
    schema = TableSchema(table.table, table.newest.name, Lsn(1, 1, 1), columns)
    return PendingTable(table.newest, schema, SnapshotProgress(SnapshotState.RUNNING))


def test_checksums_are_the_sums_of_the_rows_of_their_ranges(source, connection, rows):
    table = shape(source, connection, "one")

    reading = rows.checksums(table)

    assert reading.ranges == [
        KeyRange(None, 3),
        KeyRange(3, 6),
        KeyRange(6, 2147483647),
        KeyRange(2147483647, None),
    ]
    for keys, checksum in zip(reading.ranges, reading.checksums, strict=True):
        found = rows.rows(table, [keys]).rows
        parts = [
            [int.from_bytes(digest[place : place + 4], "big") for place in range(0, 16, 4)]
            for digest in found["source_hash"].to_pylist()
        ]
        assert checksum == (found.num_rows, *map(sum, zip(*parts, strict=True))) or (
            not parts and set(checksum) == {0}
        )
    some = rows.rows(table, [KeyRange(0, 4), KeyRange(6, None)])
    assert some.rows["key_0"].to_pylist() == ["3", "4", "1000", "2147483647"]
    assert [n for n in KEYS if has_ranges(shape(source, connection, n))] == ["one"]


@pytest.mark.parametrize(
    ("after", "rows_max", "found"),
    [
        (None, 2, [KeyRange(None, 0)]),
        (0, 4, [KeyRange(0, 5), KeyRange(5, 2147483647)]),
        (4, 3, [KeyRange(4, 1000)]),
        (6, 3, [KeyRange(6, 2147483647), KeyRange(2147483647, None)]),
        (2147483647, 3, [KeyRange(2147483647, None)]),
    ],
)
def test_a_part_of_a_table_has_the_rows_after_a_key(
    source, connection, rows, after, rows_max, found
):
    reading = rows.checksums(shape(source, connection, "one"), after, rows_max)
    assert reading.ranges == found
    assert reading.count == sum(checksum[0] for checksum in reading.checksums)


@pytest.mark.parametrize("by_function", [False, True])
def test_changed_keys_are_those_of_all_images(source, connection, by_function):
    """An update of a key has two; the bounds are those of the fences."""
    pairs, names = (
        shape(source, connection, name, by_function=by_function) for name in ("pairs", "names")
    )
    keys = {"dbo.parts": ["maker", "part"]}
    parts = shape(source, connection, "parts", keys, by_function=by_function)

    def executed(*statements: str) -> Lsn:
        source.execute(*statements)
        source.scan()
        return source.max_lsn()

    source.execute("DELETE dbo.parts", "DELETE dbo.names", "DELETE dbo.pairs")
    first = executed("INSERT dbo.parts VALUES (1, N'a', N'n')", "INSERT dbo.names VALUES ('a')")
    updated = executed("UPDATE dbo.parts SET part = N'b'", "UPDATE dbo.names SET id = 'A'")
    assert changed_keys(connection, parts, first, updated) == {("1", "a"), ("1", "b")}
    assert changed_keys(connection, names, first, updated) == {("a",), ("A",)}
    before = executed("INSERT dbo.pairs VALUES (1, 1)")
    between = executed("UPDATE dbo.pairs SET id = 9 WHERE a = 1 AND id = 1")
    last = executed("INSERT dbo.pairs VALUES (3, 4)")
    assert changed_keys(connection, pairs, before, between) == {("1", "1"), ("1", "9")}
    assert changed_keys(connection, pairs, between, last) == {("3", "4")}
    assert changed_keys(connection, pairs, last, between) == set()
    with pytest.raises(NotProvable, match=r"no change table holds its changes since"):
        changed_keys(connection, pairs, Lsn.ZERO.increment(), last)


def test_changes_are_those_of_the_newer_instance_once_the_older_one_is_dropped(source, connection):
    source.enable("rotated", capture_instance="N'newer'")
    both = shape(source, connection, "rotated")
    source.execute("INSERT dbo.rotated VALUES (1, N'before')")
    source.scan()
    before = source.max_lsn()
    source.execute("INSERT dbo.rotated VALUES (2, N'n')")
    source.execute("EXEC sys.sp_cdc_disable_table N'dbo', N'rotated', N'dbo_rotated'")
    source.scan()

    assert changed_keys(connection, both, before, source.max_lsn()) == {("2",)}
    with pytest.raises(NotProvable, match=r"no change table holds its changes since"):
        changed_keys(connection, both, Lsn.ZERO.increment(), source.max_lsn())


def test_rows_are_found_by_an_event_key_that_may_be_null_but_not_repeat(source, connection, rows):
    parts = shape(source, connection, "parts", {"dbo.parts": ["maker", "part"]})
    source.execute("DELETE dbo.parts")
    source.execute("INSERT dbo.parts VALUES (1, N'a', N'n'), (NULL, N'a', N'm'), (1, NULL, N'l')")
    keys = [("1", "a"), (None, "a"), ("1", None), (None, None)]

    assert rows.rows(parts).count == 3
    assert {key: texts[-1] for key, texts in rows.rows_of(parts, keys).texts.items()} == {
        ("1", "a"): "n",
        (None, "a"): "m",
        ("1", None): "l",
    }
    source.execute("INSERT dbo.parts VALUES (NULL, N'a', N'k')")
    with pytest.raises(NotProvable, match="4 rows have 3 event keys"):
        rows.rows(parts)


def test_a_secondary_is_read_once_it_shows_what_is_captured(source, connection):
    """Until then it may show rows from before the LSN that the comparison starts at."""
    table = shape(source, connection, "lines")
    with OdbcConnection(source_options(source)) as secondary:
        lagging = SourceRows(connection, Lagging(secondary, 2), Pace(None), wait_s=60)
        assert lagging.rows(table).started == source.max_lsn()
        lagging = SourceRows(connection, Lagging(secondary, 1000), Pace(None), wait_s=0)
        with pytest.raises(NotProvable, match="the secondary has not shown LSN"):
            lagging.rows(table)


class Lagging:
    """A connection to a replica that has applied nothing yet for the first queries of its LSN."""

    def __init__(self, connection: OdbcConnection, lag: int) -> None:
        self._connection = connection
        self._lag = lag

    def query(self, sql: str, *parameters: Any) -> list[Any]:
        if "fn_cdc_get_max_lsn" in sql and self._lag:
            self._lag -= 1
            return [(None,)]
        return self._connection.query(sql, *parameters)


def test_equal_rows_without_a_key_are_counted(source, connection, rows):
    table = shape(source, connection, "lines")
    source.scan()
    before = source.max_lsn()
    source.execute(*["INSERT dbo.lines VALUES (N'x')"] * 3, "INSERT dbo.lines VALUES (NULL)")
    source.scan()

    reading = rows.rows(table)

    assert reading.count == 4
    assert sorted(reading.rows["source_count"].to_pylist()) == [1, 3]
    assert changed_keys(connection, table, before, source.max_lsn()) is None
    assert changed_keys(connection, table, source.max_lsn(), source.max_lsn()) == set()
    assert rows.reached(reading.fence) is not None
