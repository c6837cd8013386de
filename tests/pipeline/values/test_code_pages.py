"""Texts come out as the server converts them, in every code page: the driver converts none."""

from __future__ import annotations

import pytest

from emulator.tests.fix_sqlserver import SourceServer
from tailrace.reading.change_rows import ChangesAsked, change_rows
from tailrace.verify.canonical_text import canonical_column, source_row
from tailrace_publisher.encode.columns.varint import encode_long
from tailrace_publisher.errors import UnreadableKey
from tailrace_publisher.snapshot.statements import row_statement
from tailrace_publisher.snapshot.table_reader import ChunkLimits
from tailrace_publisher.source.catalog.instances import read_catalog
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_publisher.source.pages.page_size import PageLimit
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn
from tailrace_schemas.records.signals import RowKeys
from tests.pipeline.snapshot.test_snapshot_blocks import Source as SnapshotSource
from tests.pipeline.source.both_ways import Source
from tests.pipeline.source.test_verified_rows import read_keyed
from tests.pipeline.values.code_pages import (
    BINARY,
    COLLATIONS,
    make_keys,
    make_texts,
    texts_of_server,
)
from tests.verify_values import row_hash

ROOMY = PageLimit(2000, 100_000_000)
ROOMY_CHUNKS = ChunkLimits(PageLimit(50_000, 100_000_000), 100_000_000)


def encoded(text: str) -> bytes:
    raw = text.encode()
    return encode_long(len(raw)) + raw


@pytest.mark.parametrize("kind", ["varchar(400)", "char(400)", "varchar(max)", "text"])
def test_every_byte_of_every_code_page_is_the_servers(source_server: SourceServer, kind: str):
    source = Source(source_server)
    columns = make_texts(source.database, kind)
    texts = texts_of_server(source.database, columns)

    by_row, in_blocks, count = source.pages(ROOMY)

    assert bool(count) == ("4" in kind)
    assert in_blocks == by_row
    wrong = [
        (byte, name)
        for byte, (row, value) in enumerate(zip(texts, by_row.values, strict=True))
        for name, text in zip(columns, row, strict=True)
        if encoded(text) not in value
    ]
    assert wrong == []


def test_a_snapshot_has_the_servers_texts_in_both_ways(source_server: SourceServer):
    source = SnapshotSource(source_server)
    columns = make_texts(source.database, "varchar(400)", rounds=3)
    texts = texts_of_server(source.database, columns)

    by_row, in_blocks, statements = source.chunks(ROOMY_CHUNKS)

    assert in_blocks == by_row
    assert statements == 2, "the second has what is beyond ASCII"
    images = [image for chunk in by_row for image in chunk.images]
    wrong = [
        (byte, name)
        for byte, (row, image) in enumerate(zip(texts, images, strict=True))
        for name, text in zip(columns, row, strict=True)
        if encoded(text) not in image
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("page", "collation"), [*COLLATIONS.items(), *BINARY.items()], ids=lambda value: value
)
def test_a_key_finds_its_row_again(source_server: SourceServer, page: str, collation: str):
    source = SnapshotSource(source_server)
    make_keys(source.database, page, collation)
    ((count,),) = source.database.query("SELECT COUNT(*) FROM dbo.t")
    texts = [row[0] for row in source.database.query("SELECT CAST(k AS nvarchar(400)) FROM dbo.t")]

    by_row, in_blocks, _ = source.chunks(ChunkLimits(PageLimit(25, 10**8), 10**8))
    with OdbcConnection(source.config) as connection:
        table = source.table(connection)
        seek = row_statement(table.instance, table.schema, [1])
        sought = connection.query_sets(" ".join([seek] * 100), *texts[-100:])
        rows, asked = read_keyed(
            connection, table, RowKeys(("k",), tuple((t,) for t in texts)), 10**8
        )

    assert in_blocks == by_row
    assert sum(map(len, by_row)) == count
    assert len({i for chunk in by_row for i in chunk.identities}) == count
    assert list(map(len, sought)) == [1] * 100
    assert [row[0] for row in rows] == texts
    assert [row[0] for row in asked] == texts


@pytest.mark.parametrize("chunk_rows", [1, 2])
def test_bytes_that_are_no_character_end_a_snapshot_by_name(
    source_server: SourceServer, chunk_rows: int
):
    """The key after which the snapshot resumes is read back as another one."""
    source = SnapshotSource(source_server)
    source.make(
        "k varchar(9) COLLATE Chinese_PRC_CI_AS PRIMARY KEY, n int",
        "VALUES (0x61, 1), (0x62FF40, 2), (0x63, 3)",
    )
    with pytest.raises(UnreadableKey, match="key column k has bytes that are no character"):
        source.chunks(ChunkLimits(PageLimit(chunk_rows, 10**8), 10**8))


@pytest.mark.parametrize("kind", ["varchar(400)", "text"])
def test_verify_compares_the_servers_texts(source_server: SourceServer, kind: str):
    database = Source(source_server).database
    columns = make_texts(database, kind)
    texts = texts_of_server(database, columns)
    canonical = [
        canonical_column(SchemaColumn(1, name, ColumnType.parse(kind)), ColumnType.parse(kind))
        for name in columns
    ]

    found = database.query(f"SELECT {source_row(canonical)} FROM dbo.t ORDER BY id")

    assert [bytes(row[0]) for row in found] == [row_hash(canonical, row) for row in texts]


def test_change_rows_are_shown_with_the_servers_texts(source_server: SourceServer):
    source = SnapshotSource(source_server)
    source.make("id int PRIMARY KEY, v varchar(9) COLLATE Chinese_PRC_CI_AS")
    source.database.execute("INSERT dbo.t VALUES (1, 0x80)")
    source.database.scan()
    with OdbcConnection(source.config) as connection:
        (instance,) = read_catalog(connection, source.database.name, {}).instances
        (row,) = change_rows(connection, instance, ChangesAsked("[id] = ?", ("1",), 9), set())
    assert row.values == {"id": 1, "v": "€"}
