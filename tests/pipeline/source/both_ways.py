"""A table of every type that is read in blocks and row by row."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from emulator.tests.fix_sqlserver import SourceServer
from tailrace_publisher.change.ranges import LsnRange
from tailrace_publisher.encode.columns.value_hash import ValueHash, rules_of
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.encode.event_settings import Treatment
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
from tailrace_schemas.position.lsn import Lsn
from tests.pipeline.source_database import SourceDatabase, source_options

VALUES = {
    "bit": ["0", "1"],
    "tinyint": ["0", "63", "64", "255"],
    "smallint": ["-32768", "-65", "-64", "32767"],
    "int": ["-2147483648", "-1", "0", "8191", "8192", "2147483647"],
    "bigint": ["-9223372036854775808", "-1", "1099511627776", "9223372036854775807"],
    "decimal(1,0)": ["-9", "0", "9"],
    "decimal(18,4)": ["0", "-0.0001", "0.0127", "-0.0128", "0.0255", "99999999999999.9999"],
    "decimal(38,0)": [
        "-99999999999999999999999999999999999999",
        "18446744073709551615",
        "-18446744073709551616",
        "9223372036854775808",
        "-9223372036854775808",
        "99999999999999999999999999999999999999",
    ],
    "decimal(38,38)": ["0.00000000000000000000000000000000000001", "-0.5"],
    "numeric(28,10)": ["-128", "127.0000000001"],
    "money": ["-922337203685477.5808", "0", "-0.0001", "922337203685477.5807"],
    "smallmoney": ["-214748.3648", "214748.3647"],
    "float": ["-1.7976931348623157E+308", "5E-324", "0", "-0.1"],
    "real": ["-3.4E+38", "0.1", "1.18E-38"],
    "date": ["'0001-01-01'", "'1969-12-31'", "'2024-02-29'", "'9999-12-31'"],
    "time(0)": ["'00:00:00'", "'23:59:59'"],
    "time(7)": ["'00:00:00.0000001'", "'23:59:59.9999999'"],
    "datetime2(0)": ["'0001-01-01T00:00:00'", "'9999-12-31T23:59:59'"],
    "datetime2(7)": [
        "'0001-01-01T00:00:00.0000009'",
        "'1677-01-01'",
        "'1969-12-31T23:59:59.9999999'",
        "'2262-05-01T00:00:00.1234567'",
        "'9999-12-31T23:59:59.9999999'",
    ],
    "datetime": ["'1753-01-01'", "'1969-12-31T23:59:59.997'", "'9999-12-31T23:59:59.997'"],
    "smalldatetime": ["'1900-01-01'", "'2079-06-06T23:59:00'"],
    "datetimeoffset(7)": [
        "'0001-01-01T00:00:00.0000001+00:00'",
        "'2013-01-02T03:04:05.1234567-05:30'",
        "'2013-01-02T03:04:05-00:30'",
        "'9999-12-31T09:59:59.9999999+14:00'",
    ],
    "datetimeoffset(0)": ["'2013-01-02T03:04:05+05:45'"],
    "char(5)": ["''", "'ab'", "'abcde'"],
    "varchar(20)": ["''", "'it''s'", "'Ü€'"],
    "nchar(3)": ["N''", "N'é'", "N'\U0001f600a'"],
    "nvarchar(30)": ["N''", "N'日本\U0001f600'", "N'\ufeffa'", "N'plain'", "REPLICATE(N'ž', 30)"],
    "nvarchar(4000)": ["N'a'", "REPLICATE(N'日', 4000)", "REPLICATE(N'a', 4000)"],
    "varchar(8000)": ["'a'", "REPLICATE('ab', 4000)"],
    "sysname": ["N'name'"],
    "binary(4)": ["0x01", "0x"],
    "varbinary(10)": ["0x", "0x00FF00", "0x00010203040506070809"],
    "uniqueidentifier": [
        "'6F9619FF-8B86-D011-B42D-00C04FC964FF'",
        "'00000000-0000-0000-0000-000000000000'",
    ],
}


class Source:
    """A database with one captured table, read by both ways."""

    def __init__(self, server: SourceServer) -> None:
        self.database = SourceDatabase(server, f"blocks_{uuid.uuid4().hex[:8]}")
        self.config = source_options(self.database)

    def pages(
        self,
        limit: PageLimit,
        after: ChangePosition | None = None,
        *,
        lossless: bool = False,
        up_to: Lsn | None = None,
        in_last_range: int = FEW_ROWS,
        options: ColumnsConfig | None = None,
    ) -> tuple[EncodedRows, EncodedRows, int]:
        """All events row by row, all events in blocks, and how many pages came in blocks."""
        with OdbcConnection(self.config) as connection, BlockPaths(self.config) as blocks:
            (instance,) = read_catalog(connection, self.database.name, {}).instances
            assert instance.low_watermark is not None
            options = options or ColumnsConfig()
            exact = ["c_datetime2_7", "c_time_7"] if lossless else []
            columns = current_columns(instance, exact, rules_of(options))
            schema = TableSchema(instance.table, instance.name, instance.low_watermark, columns)
            times = commits_from(connection, instance.low_watermark, 100_000)
            stamps = Stamps(
                {commit.commit_lsn.to_bytes(): n for n, commit in enumerate(times)}, lambda: 77
            )
            reference = EnvelopeEncoder(
                *("s", schema, "topic", 3, 4 if schema.key_columns else None),
                treatment=Treatment(hashes=ValueHash.of_options(options)),
            )
            after = after or ChangePosition.end_of(instance.low_watermark.decrement())
            span = LsnRange(after, up_to or self.database.max_lsn())

            def read(in_blocks: bool) -> tuple[EncodedRows, int]:
                size = RowSize(schema)
                size.in_last_range = in_last_range
                reader = partial(blocks.reader, reference, limit, size, stamps)
                pages = ChangePages(
                    connection,
                    instance,
                    schema,
                    span,
                    limit,
                    span.first_lsn,
                    size,
                    reader if in_blocks else None,
                )
                return _all(pages, reference, stamps)

            by_row, _ = read(False)
            in_blocks, count = read(True)
            return by_row, in_blocks, count


def _all(pages: ChangePages, reference: EnvelopeEncoder, stamps: Stamps) -> tuple[EncodedRows, int]:
    whole, count = EncodedRows(reference.topic, reference.schema_id), 0
    while (page := pages.read()) is not None:
        if isinstance(page, EncodedRows):
            count += 1
            encoded = page
        else:
            encoded = reference.encode(page.rows, stamps.commit_ms, stamps.now_ms())
        whole.deletes += [len(whole) + index for index in encoded.deletes]
        whole.positions += encoded.positions
        whole.keys += encoded.keys
        whole.values += encoded.values
    return whole, count


def columns_of(types: Any) -> dict[str, str]:
    return {"c_" + type_.translate(str.maketrans("(,", "__", ")")): type_ for type_ in types}


def every_type(source: Source) -> None:
    """Rows with every value of every type, and NULL in every one; inserted, changed, deleted."""
    names = columns_of(VALUES)
    columns = ", ".join(f"{name} {type_} NULL" for name, type_ in names.items())
    source.database.execute(f"CREATE TABLE dbo.t (id int PRIMARY KEY, {columns})")
    source.database.enable("t")
    most = max(map(len, VALUES.values()))
    statements = [
        f"INSERT dbo.t VALUES ({number}, "
        + ", ".join(literals[number % len(literals)] for literals in VALUES.values())
        + ")"
        for number in range(most)
    ]
    statements.append(f"INSERT dbo.t (id) VALUES ({most})")
    for number, name in enumerate(names):
        statements.append(f"UPDATE dbo.t SET {name} = NULL WHERE id = {number % most}")
    source.database.transaction(*statements)
    source.database.execute("UPDATE dbo.t SET id = id + 3", "DELETE dbo.t WHERE id % 2 = 0")
    source.database.scan()
