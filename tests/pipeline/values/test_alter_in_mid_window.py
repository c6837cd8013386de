"""A type change that capture processes between two pages: the later pages keep their version."""

from __future__ import annotations

from functools import partial

import pytest

from emulator.tests.fix_sqlserver import SourceServer
from tailrace_publisher.change.ranges import LsnRange
from tailrace_publisher.encode.columns.value_hash import rules_of
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.options.columns import ColumnsConfig
from tailrace_publisher.source.blocks.block_paths import BlockPaths
from tailrace_publisher.source.catalog.instances import read_catalog
from tailrace_publisher.source.catalog.versions import current_columns
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_publisher.source.log.commit_times import commits_from
from tailrace_publisher.source.pages.page_readers import Stamps
from tailrace_publisher.source.pages.page_size import FEW_ROWS, PageLimit, RowSize
from tailrace_publisher.source.pages.pages import ChangePages
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.change_position import ChangePosition
from tests.pipeline.source.both_ways import Source

ROWS = 300
PAGE = PageLimit(100, 100_000_000)


def events_of(source: Source, alters: str | None, *, in_blocks: bool) -> list[bytes]:
    """The events of dbo.t; after the first page a statement alters it, and is captured."""
    database = source.database
    with OdbcConnection(source.config) as connection, BlockPaths(source.config) as blocks:
        (instance,) = read_catalog(connection, database.name, {}).instances
        assert instance.low_watermark is not None
        columns = current_columns(instance, [], rules_of(ColumnsConfig()))
        schema = TableSchema(instance.table, instance.name, instance.low_watermark, columns)
        times = commits_from(connection, instance.low_watermark, 100_000)
        stamps = Stamps({c.commit_lsn.to_bytes(): n for n, c in enumerate(times)}, lambda: 77)
        encoder = EnvelopeEncoder("s", schema, "topic", 3, 4)
        start = ChangePosition.end_of(instance.low_watermark.decrement())
        span = LsnRange(start, database.max_lsn())
        size = RowSize(schema)
        size.in_last_range = FEW_ROWS
        reader = partial(blocks.reader, encoder, PAGE, size, stamps) if in_blocks else None
        pages = ChangePages(connection, instance, schema, span, PAGE, span.first_lsn, size, reader)
        found: list[bytes] = []
        while (page := pages.read()) is not None:
            assert isinstance(page, EncodedRows) == in_blocks
            if isinstance(page, EncodedRows):
                found += page.values
            else:
                found += encoder.encode(page.rows, stamps.commit_ms, 77).values
            if alters is not None:
                database.execute(alters)
                database.scan()
                alters = None
        return found


@pytest.mark.parametrize("in_blocks", [False, True], ids=["rows", "blocks"])
@pytest.mark.parametrize(
    ("before", "after", "value"),
    [
        ("varchar(10)", "int", "'{}'"),
        ("int", "varchar(12)", "{}"),
        ("int", "bigint", "{}"),
        ("smallint", "int", "{}"),
        ("datetime", "datetime2(7)", "DATEADD(ms, {}, CAST('2026-01-02' AS datetime))"),
        ("datetime2(3)", "datetime2(7)", "DATEADD(ms, {}, CAST('2026-01-02' AS datetime2(3)))"),
        ("decimal(9,2)", "decimal(18,4)", "{}.25"),
        ("money", "decimal(19,4)", "{}.25"),
        ("varchar(10)", "nvarchar(20)", "'v{}'"),
        ("varchar(20) COLLATE Chinese_PRC_CI_AS", "nvarchar(20)", "IIF({} < 150, N'a', N'\u6161')"),
        ("nvarchar(10)", "varchar(20)", "'v{}'"),
        ("float", "varchar(30)", "{}.5"),
        ("real", "float", "{}.1"),
        ("varchar(10)", "varchar(max)", "'v{}'"),
        ("binary(4)", "varbinary(8)", "CAST({} AS binary(4))"),
        ("date", "datetime", "DATEADD(day, {}, CAST('2026-01-02' AS date))"),
        ("time(3)", "time(7)", "DATEADD(ms, {}, CAST('00:00' AS time(3)))"),
    ],
)
def test_every_page_has_the_type_of_its_version(
    source_server: SourceServer, before: str, after: str, value: str, *, in_blocks: bool
):
    source = Source(source_server)
    source.database.execute(f"CREATE TABLE dbo.t (id int PRIMARY KEY, v {before})")
    source.database.enable("t")
    rows = ", ".join(f"({n}, {value.format(n)})" for n in range(1, ROWS + 1))
    source.database.execute(f"INSERT dbo.t VALUES {rows}")
    source.database.scan()
    right = events_of(source, None, in_blocks=in_blocks)
    collation = before.partition(" COLLATE ")[2]
    further = f" COLLATE {collation}" if collation else ""

    found = events_of(
        source, f"ALTER TABLE dbo.t ALTER COLUMN v {after}{further}", in_blocks=in_blocks
    )

    assert len(right) == ROWS
    assert found == right
