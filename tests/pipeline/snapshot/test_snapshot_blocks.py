"""What a snapshot reads in blocks is, byte for byte, what it reads row by row."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

import pytest

from emulator.tests.fix_sqlserver import SourceServer
from tailrace_publisher.encode.columns.value_hash import ValueHash, rules_of
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.encode.event_settings import Treatment
from tailrace_publisher.errors import SourceBusy, SourceError
from tailrace_publisher.options.columns import ColumnsConfig
from tailrace_publisher.options.snapshots import SnapshotConfig
from tailrace_publisher.snapshot.chunk import Chunk
from tailrace_publisher.snapshot.lanes import Lane
from tailrace_publisher.snapshot.pending import PendingTable
from tailrace_publisher.snapshot.progress import SnapshotProgress, SnapshotState
from tailrace_publisher.snapshot.table_reader import ChunkLimits, ReadSource, TableReader
from tailrace_publisher.source.blocks.block_paths import BlockPaths
from tailrace_publisher.source.catalog.instances import read_catalog
from tailrace_publisher.source.catalog.versions import current_columns
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_publisher.source.connection.tries import TRIES
from tailrace_publisher.source.log.log_end import LogEndSource
from tailrace_publisher.source.pages.page_size import PageLimit
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.signals import RowKeys
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running
from tests.pipeline.source.both_ways import VALUES
from tests.pipeline.source.test_verified_rows import read_keyed
from tests.pipeline.source_database import SourceDatabase, source_options

ROWS: Final = 900
LOCK_TIMEOUT: Final = 1222
NO_SUCH_COLUMN: Final = 207
ROOMY = ChunkLimits(PageLimit(50_000, 100_000_000), 100_000_000)

KEYS = {
    "int": "{n}",
    "bigint": "{n} * CAST(4000000000 AS bigint)",
    "decimal(20,8)": "{n} / 7.0 - 20",
    "money": "{n} / 8.0 - 10",
    "float": "{n} / 3e0",
    "real": "{n} / 4e0",
    "date": "DATEADD(day, {n}, '1960-01-01')",
    "datetime": "DATEADD(second, {n}, '1960-01-01T00:00:00.997')",
    "smalldatetime": "DATEADD(minute, {n}, '1960-01-01')",
    "datetime2(3)": "DATEADD(millisecond, {n}, CAST('1960-01-01' AS datetime2(3)))",
    "datetime2(7)": "DATEADD(nanosecond, 100 * {n}, CAST('1960-01-01' AS datetime2(7)))",
    "time(3)": "DATEADD(millisecond, {n}, CAST('10:00' AS time(3)))",
    "time(7)": "DATEADD(nanosecond, 100 * {n}, CAST('10:00' AS time(7)))",
    "datetimeoffset(7)": "DATEADD(second, {n},"
    " CAST('2013-01-02T00:00:00-05:30' AS datetimeoffset(7)))",
    "varchar(20) COLLATE Latin1_General_CS_AS": "'k' + CAST({n} AS varchar(10))",
    "nvarchar(20)": "N'日' + CAST({n} AS nvarchar(10))",
    "binary(4)": "CAST({n} AS binary(4))",
    "uniqueidentifier": "CAST(CAST({n} AS binary(16)) AS uniqueidentifier)",
}


class Source:
    """A database with one captured table, whose snapshot is read both ways."""

    def __init__(self, server: SourceServer) -> None:
        self.database = SourceDatabase(server, f"snap_{uuid.uuid4().hex[:8]}")
        self.config = source_options(self.database)
        self.options = ColumnsConfig()
        self.where: str | None = None

    def make(self, columns: str, *rows: str) -> None:
        self.database.execute(f"CREATE TABLE dbo.t ({columns})")
        for row in rows:
            self.database.execute(f"INSERT dbo.t {row}")
        self.database.enable("t")
        self.database.scan()

    def table(self, connection: OdbcConnection, resume_key: str | None = None) -> PendingTable:
        (instance,) = read_catalog(connection, self.database.name, {}).instances
        assert instance.low_watermark is not None
        columns = current_columns(instance, [], rules_of(self.options))
        schema = TableSchema(instance.table, instance.name, instance.low_watermark, columns)
        progress = SnapshotProgress(SnapshotState.PENDING, None, resume_key, 0)
        return PendingTable(instance, schema, progress, self.where)

    def encoder(self, table: PendingTable) -> EnvelopeEncoder:
        key_id = 4 if table.schema.key_columns else None
        hashes = ValueHash.of_options(self.options)
        treatment = Treatment(hashes=hashes)
        return EnvelopeEncoder("s", table.schema, "t", 3, key_id, treatment)

    def chunks(
        self, limits: ChunkLimits, resume_key: str | None = None
    ) -> tuple[list[Chunk], list[Chunk], int]:
        """All chunks row by row, all in blocks, and how many statements the blocks sent."""
        with OdbcConnection(self.config) as connection, BlockPaths(self.config) as blocks:
            table = self.table(connection, resume_key)
            by_row = ReadSource(connection, LogEndSource(connection, None))

            def read(source: ReadSource) -> list[Chunk]:
                reader = TableReader(table, self.encoder(table), limits, lambda: False)
                return list(iter(lambda: reader.read(source, Lsn.ZERO), None))

            found = read(by_row), read(replace(by_row, blocks=lambda: blocks))
            return *found, max(0, blocks.queries - 1)  # one sets the connection up


@pytest.fixture
def source(source_server: SourceServer) -> Source:
    return Source(source_server)


def numbered(expressions: str) -> str:
    """So many rows of expressions of ``{n}``."""
    tens = "SELECT a FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS v (a)"
    numbers = f"SELECT x.a + 10 * y.a + 100 * z.a AS n FROM ({tens}) x, ({tens}) y, ({tens}) z"
    return f"SELECT {expressions.format(n='n')} FROM ({numbers}) AS numbers WHERE n < {ROWS}"


def test_every_type_of_value_comes_out_the_same(source: Source):
    columns = ", ".join(f"c{n} {name} NULL" for n, name in enumerate(VALUES))
    values = []
    for column in VALUES.values():
        kinds = len(column) + 1
        cases = [f"WHEN {{n}} % {kinds} = {n} THEN {value}" for n, value in enumerate(column)]
        values.append(f"CASE {' '.join(cases)} END")
    source.make(f"id int PRIMARY KEY, {columns}", numbered(", ".join(["{n}", *values])))

    by_row, in_blocks, statements = source.chunks(ROOMY)

    assert sum(map(len, by_row)) == ROWS
    assert in_blocks == by_row
    assert statements == 2  # a varchar of them has texts beyond ASCII


@pytest.mark.parametrize(
    ("key", "is_composite"),
    [
        *((key, False) for key in KEYS),
        ("datetime2(7)", True),
        ("decimal(20,8)", True),
        ("uniqueidentifier", True),
    ],
)
def test_chunks_end_at_the_same_keys_of_any_type(source: Source, key: str, is_composite: bool):
    columns, values = f"k {key} NOT NULL, v varchar(10), PRIMARY KEY", f"{KEYS[key]}, 'v'"
    if is_composite:
        source.make(f"a int NOT NULL, {columns} (a, k)", numbered(f"{{n}} / 90, {values}"))
    else:
        source.make(f"{columns} (k)", numbered(values))

    by_row, in_blocks, statements = source.chunks(ChunkLimits(PageLimit(600, 10**8), 10**8))

    assert list(map(len, by_row)) == [600, 300]
    assert in_blocks == by_row
    assert statements > 0


BY_ROW = {
    "hierarchyid": "CAST(CONCAT('/', {n} / 7, '.', {n} % 7, '/') AS hierarchyid)",
    "timestamp": "",
    "sysname": "CAST(CONCAT('n', {n}) AS sysname)",
    "smallmoney": "{n} / 8.0 - 10",
    "numeric(38,10)": "{n} / 7.0 - 20",
    "datetime2(0)": "DATEADD(second, {n}, CAST('1960-01-01' AS datetime2(0)))",
    "datetimeoffset(0)": "DATEADD(second, {n}, CAST('2013-01-02T00:00:00+14:00' AS"
    " datetimeoffset(0)))",
    "time(0)": "DATEADD(second, {n}, CAST('10:00' AS time(0)))",
    "char(9)": "CAST({n} AS char(9))",
    "nchar(9)": "CAST({n} AS nchar(9))",
    "varchar(9)": "CONCAT(CHAR({n} % 26 + 65), {n}, '  ')",
    "varbinary(9)": "CAST(CAST({n} AS binary(4)) + 0x00 AS varbinary(9))",
}


@pytest.mark.parametrize("key", BY_ROW)
def test_a_key_of_any_type_is_read_once_in_small_chunks(source: Source, key: str):
    column = f"k {key} NOT NULL PRIMARY KEY"
    values = "{n}" if key == "timestamp" else f"{BY_ROW[key]}, {{n}}"
    names = "(v)" if key == "timestamp" else "(k, v)"
    source.make(f"{column}, v int", f"{names} {numbered(values)} AND n < 60")

    by_row, _, _ = source.chunks(ChunkLimits(PageLimit(2, 10**8), 10**8))

    assert len(by_row) >= 30
    assert sum(map(len, by_row)) == 60
    assert len({i for chunk in by_row for i in chunk.identities}) == 60


def test_a_repair_finds_rows_by_a_hierarchyid(source: Source):
    source.make("k hierarchyid PRIMARY KEY, v int", "VALUES ('/1/', 1), ('/1/2.1/', 2)")
    keys = tuple(("0x" + bytes(row[0]).hex(),) for row in source.database.query(
        "SELECT CAST(k AS varbinary(892)) FROM dbo.t ORDER BY k"
    ))  # fmt: skip
    with OdbcConnection(source.config) as connection:
        table = source.table(connection)
        rows, asked = read_keyed(connection, table, RowKeys(("k",), (*keys, ("0x68",))), 10**6)
    assert [row[1] for row in rows] == [1, 2]
    assert [bytes(row[0]).hex() for row in asked] == [key[2:] for (key,) in keys] + ["68"]


def test_an_error_about_a_hierarchyid_does_not_quote_it(source: Source):
    with OdbcConnection(source.config) as connection, pytest.raises(SourceError) as refused:
        connection.query("SELECT CAST(? AS hierarchyid)", "0x5AC0")
    assert "5AC0" not in str(refused.value).upper()


def test_a_table_of_few_rows_is_read_row_by_row(source: Source):
    source.make("id int PRIMARY KEY", "VALUES (1), (2)")
    by_row, in_blocks, statements = source.chunks(ROOMY)
    assert in_blocks == by_row
    assert statements == 0


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        ("id int PRIMARY KEY, v varchar(max)", "{n}, 'x'"),
        ("id int, v int", "{n}, 1"),
    ],
)
def test_what_blocks_cannot_hold_is_read_row_by_row(source: Source, columns: str, values: str):
    source.make(columns, numbered(values))
    by_row, in_blocks, statements = source.chunks(ROOMY)
    assert in_blocks == by_row
    assert sum(map(len, by_row)) == ROWS
    assert statements == 0


def test_chunks_are_bounded_in_bytes_and_hold_every_row_once(source: Source):
    source.make("id int PRIMARY KEY, v varchar(2000)", numbered("{n}, REPLICATE('v', 2000)"))
    limits = ChunkLimits(PageLimit(50_000, 1_200_000), 10**8)

    by_row, in_blocks, statements = source.chunks(limits)

    assert statements > 0
    assert max(chunk.size for chunk in in_blocks) < 1_200_000 + 64 * 2300
    for name in ("images", "keys", "identities"):
        expected = [part for chunk in by_row for part in getattr(chunk, name)]
        assert [part for chunk in in_blocks for part in getattr(chunk, name)] == expected
    assert in_blocks[-1].resume_key == by_row[-1].resume_key


def test_it_goes_on_behind_a_key(source: Source):
    source.make("id int PRIMARY KEY, v int", numbered("{n}, 1"))
    resume_key = '{"columns": ["id"], "values": ["41"]}'
    by_row, in_blocks, statements = source.chunks(ROOMY, resume_key)
    assert in_blocks == by_row
    assert sum(map(len, in_blocks)) == ROWS - 42
    assert statements == 1


def test_a_lock_is_waited_for_no_longer_than_its_bound(source: Source):
    source.make("id int PRIMARY KEY, v int", numbered("{n}, 1"))
    options = SnapshotConfig(lock_timeout_s=0.2)
    blocks: list[BlockPaths] = []

    def connect_blocks() -> BlockPaths:
        blocks.append(BlockPaths(source.config))
        return blocks[-1]

    with OdbcConnection(source.config) as connection:
        table = source.table(connection)
    lane = Lane(
        ThreadPoolExecutor(1), lambda: OdbcConnection(source.config), options, connect_blocks
    )
    limits = ChunkLimits(PageLimit(600, 10**8), 10**8)
    writer = source.database.server.connect(source.database.name, autocommit=False)
    try:
        reader = TableReader(table, source.encoder(table), limits, lane.is_closing)
        first = lane.submit(reader, Lsn.ZERO).result()
        assert first is not None
        assert len(first) == 600
        assert blocks[0].queries == 4  # two that set it up, its server, its rows

        writer.execute("UPDATE dbo.t SET v = 2 WHERE id = 700")
        with pytest.raises(SourceBusy) as busy:
            lane.submit(reader, Lsn.ZERO).result()
        assert busy.value.number == LOCK_TIMEOUT
        assert blocks[0].queries == 4 + TRIES
        writer.rollback()

        progress = replace(table.progress, resume_key=first.resume_key)
        again = TableReader(replace(table, progress=progress), source.encoder(table), limits, bool)
        rest = lane.submit(again, Lsn.ZERO).result()
        assert rest is not None
        assert (len(rest), rest.is_last) == (300, True)
        lane.rest()
    finally:
        writer.close()
        lane.close()
    assert len(blocks) == 1


def test_rows_of_a_condition_are_read_both_ways(source: Source):
    source.make(
        "a int NOT NULL, b int NOT NULL, v varchar(10), PRIMARY KEY (a, b)",
        numbered("{n} / 90, {n}, CASE WHEN {n} % 3 = 0 THEN 'left?out' ELSE 'v' END"),
    )
    source.where = "v <> 'left?out' OR b = 0"
    limits = ChunkLimits(PageLimit(350, 10**8), 10**8)

    by_row, in_blocks, statements = source.chunks(limits)

    assert list(map(len, by_row)) == [350, 251]
    assert in_blocks == by_row
    assert statements > 0
    rest, _, _ = source.chunks(limits, by_row[0].resume_key)
    assert list(map(len, rest)) == [251]
    source.where = "v <> 'left?out'"
    anew, _, _ = source.chunks(limits, by_row[0].resume_key)
    assert list(map(len, anew)) == [350, 250]
    source.where = "gone = 1"
    with pytest.raises(
        SourceError, match=r"gone.*condition of its snapshot \(8 characters,"
    ) as refused:
        source.chunks(limits)
    assert refused.value.number == NO_SUCH_COLUMN


@pytest.mark.kafka
def test_rows_that_change_beside_a_snapshot_in_blocks_are_told_once(pipe: Pipe):
    pipe.source.execute(
        "CREATE TABLE dbo.t (id int PRIMARY KEY, v int)",
        f"INSERT dbo.t {numbered('{n}, 1')}",
    )
    pipe.source.enable("t")

    with Running(pipe.config(snapshot={"chunk_rows": 400})) as publisher:
        publisher.until(lambda: "snapshot_read" in publisher.steps, "the first chunk is read")
        with publisher.held():
            pipe.source.execute(
                "UPDATE dbo.t SET v = 2 WHERE id % 100 = 7",
                "DELETE dbo.t WHERE id % 100 = 8",
                "INSERT dbo.t VALUES (5000, 3)",
            )
        publisher.until(pipe.is_caught_up, "the snapshot is out")

    state = pipe.topics.state(pipe.source.name, "t", "id")
    expected = dict(pipe.source.query("SELECT id, v FROM dbo.t"))
    assert {key: row["v"] for key, row in state.items()} == expected
    reads = [event.envelope["after"]["id"] for event in pipe.topics.snapshot(pipe.source.name, "t")]
    assert len(reads) == len(set(reads))
    pipe.assert_exactly_once("t")


@pytest.mark.parametrize("place", [300, 600, ROWS - 1])
def test_a_text_beyond_ascii_has_its_statement_read_again_in_blocks(source: Source, place: int):
    source.make(
        "id int PRIMARY KEY, a varchar(20), b char(5), c nvarchar(5), d varchar(9)",
        numbered(f"{{n}}, CASE WHEN {{n}} = {place} THEN 'Bénédiction' ELSE 'a' END,"
                 f" CASE WHEN {{n}} >= {place} THEN 'ß' ELSE 'b' END, N'日', 'd'"),
    )  # fmt: skip

    by_row, in_blocks, statements = source.chunks(ChunkLimits(PageLimit(600, 10**8), 10**8))

    assert list(map(len, by_row)) == [600, 300]
    assert in_blocks == by_row
    # The rest of the first chunk, the second one, and whichever had the texts once more.
    assert statements == 3


def test_a_key_beyond_ascii_is_gone_on_behind(source: Source):
    source.make(
        "k varchar(20) COLLATE Latin1_General_BIN2 PRIMARY KEY, v int",
        numbered("CASE WHEN {n} < 400 THEN 'k' ELSE 'ß' END + CAST(1000 + {n} AS varchar(4)), 1"),
    )

    by_row, in_blocks, statements = source.chunks(ChunkLimits(PageLimit(350, 10**8), 10**8))

    assert list(map(len, by_row)) == [350, 350, 200]
    assert in_blocks == by_row
    assert statements == 3


def test_a_column_that_has_become_national_is_not_taken_for_ascii(source: Source):
    source.make("id int PRIMARY KEY, v varchar(20)", numbered("{n}, 'v'"))
    with OdbcConnection(source.config) as connection, BlockPaths(source.config) as blocks:
        table = source.table(connection)
        source.database.execute(
            "ALTER TABLE dbo.t ALTER COLUMN v nvarchar(20)",
            "UPDATE dbo.t SET v = NCHAR(0x6261) + NCHAR(0x6463)",  # abcd, byte by byte
        )
        by_row = ReadSource(connection, LogEndSource(connection, None))

        chunks = [
            TableReader(table, source.encoder(table), ROOMY, lambda: False).read(how, Lsn.ZERO)
            for how in (by_row, replace(by_row, blocks=lambda: blocks))
        ]

        assert chunks[0] == chunks[1]
        assert blocks.queries == 2  # one sets the connection up


def test_what_is_made_of_columns_comes_out_the_same(source: Source):
    source.make(
        "id int PRIMARY KEY, a nvarchar(20), b int, c varbinary(9), d date",
        numbered("{n}, CONCAT(N'é', {n}), {n}, 0x01, '2020-01-01'"),
    )
    source.options = ColumnsConfig(
        hash=[r".*\.b"], salt="a salt of ours", truncate={r".*\.a": 2}, mask={r".*\.c": "x"},
        exclude=[r".*\.d"],
    )  # fmt: skip

    by_row, in_blocks, statements = source.chunks(ROOMY)

    assert sum(map(len, by_row)) == ROWS
    assert in_blocks == by_row
    assert statements == 1
