"""What is read in blocks is, byte for byte, what is read row by row: through the real driver."""

from __future__ import annotations

import uuid
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from emulator.tests.fix_sqlserver import SourceServer
from tailrace_publisher.change.ranges import LsnRange
from tailrace_publisher.encode.blocks.cells import Cells
from tailrace_publisher.encode.blocks.envelopes import BlockEncoder
from tailrace_publisher.encode.blocks.values import value_of
from tailrace_publisher.encode.columns.column_forms import Cell, Form
from tailrace_publisher.encode.columns.value_hash import ValueHash, rules_of
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.encode.event_settings import Treatment
from tailrace_publisher.errors import CaptureInstanceGone, SourceBehind
from tailrace_publisher.options.columns import ColumnsConfig
from tailrace_publisher.ports import Connection
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

ROOMY = PageLimit(2000, 100_000_000)

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


@pytest.fixture
def source(source_server: SourceServer) -> Source:
    return Source(source_server)


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


@pytest.mark.parametrize("lossless", [False, True], ids=["plain", "lossless"])
def test_every_type_has_the_same_bytes(source: Source, lossless: bool):
    every_type(source)

    by_row, in_blocks, count = source.pages(ROOMY, lossless=lossless)

    assert count
    assert len(by_row) > 40
    assert in_blocks == by_row


def test_what_is_made_of_columns_has_the_same_bytes(source: Source):
    every_type(source)
    text = "c_(n?(var)?char_.*|sysname)"
    exact = "c_((small|tiny|big)?int|bit|decimal.*|numeric.*|uniqueidentifier)"
    whole = "c_(date|time.*|datetime.*|smalldatetime|float|real|money|smallmoney|.*binary.*)"

    for options in (
        ColumnsConfig(hash=[rf".*\.({text}|{exact})"], salt="a salt of ours"),
        ColumnsConfig(truncate={rf".*\.{text}": 2}, mask={rf".*\.({exact}|{whole})": "it's"}),
        ColumnsConfig(exclude=[r".*\.c_(?!int|nvarchar_30_).*"]),
    ):
        by_row, in_blocks, count = source.pages(ROOMY, options=options)

        assert count
        assert len(by_row) > 40
        assert in_blocks == by_row


def test_a_text_that_is_cut_inside_a_pair_loses_the_half(source: Source):
    source.database.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v nvarchar(9), w text)")
    source.database.enable("t")
    source.database.execute("INSERT dbo.t VALUES (1, N'a\U0001f600b', 'a long text')")
    source.database.scan()
    options = ColumnsConfig(truncate={r".*\.[vw]": 2})

    by_row, in_blocks, _ = source.pages(ROOMY, options=options)

    assert in_blocks == by_row
    assert b"\x02\x02\x02a\x02\x04a " in by_row.values[0]


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 2000])
@pytest.mark.parametrize("size", [1, 100_000_000])
def test_pages_of_any_size_hold_the_same_events(source: Source, rows: int, size: int):
    source.database.execute(
        "CREATE TABLE dbo.t (id int PRIMARY KEY, text nvarchar(200), other int)"
    )
    source.database.enable("t")
    source.database.transaction(*[f"INSERT dbo.t VALUES ({n}, N'é {n}', {n})" for n in range(9)])
    for number in range(4):
        source.database.execute(f"UPDATE dbo.t SET other = -1 WHERE id = {number}")
    source.database.transaction(
        "UPDATE dbo.t SET text = N'all'", "UPDATE dbo.t SET id = id + 5", "DELETE dbo.t"
    )
    source.database.scan()

    by_row, in_blocks, count = source.pages(PageLimit(rows, size))

    assert (count > 0) == (rows > 1)
    assert in_blocks == by_row
    assert len(set(by_row.positions)) == len(by_row) > 30


def test_blocks_begin_where_a_range_turns_out_to_have_many_rows(source: Source):
    """Few in the range before: by row, until so many have come, before images on either side."""
    source.database.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, other int)")
    source.database.enable("t")
    rows = FEW_ROWS
    source.database.transaction(*[f"INSERT dbo.t VALUES ({n}, {n})" for n in range(rows)])
    source.database.transaction("UPDATE dbo.t SET other = -1")
    source.database.scan()

    for page_rows in (7, 8, 100):
        by_row, in_blocks, count = source.pages(
            PageLimit(page_rows, 100_000_000), in_last_range=FEW_ROWS - 1
        )
        assert in_blocks == by_row
        assert len(by_row) == 2 * rows
        assert 0 < count < len(by_row) // page_rows * 2


def test_texts_beyond_ascii_are_read_in_blocks_too(source: Source):
    """A column is taken as ASCII until it has one that is not: its page is then read again."""
    source.database.execute(
        "CREATE TABLE dbo.t (id varchar(9) PRIMARY KEY, a varchar(400), b char(9), c varchar(9))"
    )
    source.database.enable("t")
    for begin in range(0, 60, 20):
        beyond = [(20, "a"), (40, "b")]
        texts = ["'é'" if (begin, name) in beyond else f"'{name}'" for name in "abc"]
        source.database.transaction(
            *[f"INSERT dbo.t VALUES ('{n}', REPLICATE('a', {n} % 7), 'b', '')"
              for n in range(begin, begin + 19)],
            f"INSERT dbo.t VALUES ('{begin + 19}', {', '.join(texts)})",
        )  # fmt: skip
    source.database.scan()

    for page_rows in (7, 100):
        by_row, in_blocks, count = source.pages(PageLimit(page_rows, 100_000_000))
        assert in_blocks == by_row
        assert len(by_row) == 60
        assert count == -(-60 // page_rows)


def test_blocks_do_not_open_a_cursor_at_the_server(source: Source):
    """Which the driver does where more than one row is to be fetched when a statement is run."""
    with BlockPaths(source.config) as blocks:
        connection = blocks.connection
        for _ in range(3):
            connection.execute("SELECT 1; SELECT 2;")  # several results are refused of a cursor
            found = []
            for _ in range(2):
                (columns,) = list(connection.blocks([Cell(Form.LONG, 8)], 100))
                found.append(int(columns[0].data.view("<i8")[0, 0]))
                connection.next_set()
            assert found == [1, 2]


def test_few_rows_again_are_read_by_row(source: Source):
    source.database.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, other int)")
    source.database.enable("t")
    source.database.transaction(*[f"INSERT dbo.t VALUES ({n}, {n})" for n in range(FEW_ROWS - 1)])
    source.database.scan()

    by_row, found, count = source.pages(ROOMY, in_last_range=FEW_ROWS - 1)

    assert count == 0
    assert found == by_row


def test_every_position_is_resumed_behind_alike(source: Source):
    source.database.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, other int)")
    source.database.enable("t")
    source.database.transaction(*[f"INSERT dbo.t VALUES ({n}, {n})" for n in range(3)])
    source.database.transaction("UPDATE dbo.t SET id = id + 1", "UPDATE dbo.t SET other = 0")
    source.database.execute("DELETE dbo.t")
    source.database.scan()
    whole, _, _ = source.pages(ROOMY)

    for number, position in enumerate(whole.positions, 1):
        by_row, in_blocks, _ = source.pages(
            PageLimit(2, 100_000_000), ChangePosition.from_bytes(position)
        )
        assert in_blocks == by_row
        assert in_blocks.positions == whole.positions[number:]


def test_a_table_with_a_large_column_is_read_row_by_row(source: Source):
    source.database.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, text nvarchar(max))")
    source.database.enable("t")
    source.database.execute("INSERT dbo.t VALUES (1, N'a')")
    source.database.scan()

    by_row, in_blocks, count = source.pages(ROOMY)

    assert count == 0
    assert in_blocks == by_row


def test_a_keyless_table_has_the_same_events(source: Source):
    source.database.execute("CREATE TABLE dbo.t (id int, text varchar(9))")
    source.database.enable("t")
    source.database.execute("INSERT dbo.t VALUES (1, 'a'), (1, NULL)", "UPDATE dbo.t SET id = 2")
    source.database.execute("DELETE dbo.t")
    source.database.scan()

    by_row, in_blocks, count = source.pages(ROOMY)

    assert count
    assert in_blocks == by_row


def test_a_replica_that_is_behind_is_told_of(source: Source):
    source.database.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    source.database.enable("t")
    source.database.execute("INSERT dbo.t VALUES (1)")
    source.database.scan()

    with pytest.raises(SourceBehind):
        source.pages(ROOMY, up_to=Lsn.MAX)
    with BlockPaths(source.config) as blocks, OdbcConnection(source.config) as connection:
        pages = _in_blocks(source, blocks, connection, up_to=Lsn.MAX)
        with pytest.raises(SourceBehind):
            pages.read()


def _in_blocks(
    source: Source, blocks: BlockPaths, connection: Connection, up_to: Lsn
) -> ChangePages:
    (instance,) = read_catalog(connection, source.database.name, {}).instances
    assert instance.low_watermark is not None
    columns = current_columns(instance)
    schema = TableSchema(instance.table, instance.name, instance.low_watermark, columns)
    size = RowSize(schema)
    reference = EnvelopeEncoder("s", schema, "topic", 3, 4)
    reader = blocks.reader(reference, ROOMY, size, Stamps({}, lambda: 0))
    assert reader is not None
    span = LsnRange(ChangePosition.end_of(instance.low_watermark.decrement()), up_to)
    return ChangePages(
        connection, instance, schema, span, ROOMY, instance.low_watermark, size, lambda: reader
    )


def test_a_disabled_instance_is_gone(source: Source):
    source.database.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    source.database.enable("t")
    source.database.execute("INSERT dbo.t VALUES (1)")
    source.database.scan()
    with BlockPaths(source.config) as blocks, OdbcConnection(source.config) as connection:
        pages = _in_blocks(source, blocks, connection, source.database.max_lsn())
        source.database.execute("EXEC sys.sp_cdc_disable_table N'dbo', N't', N'all'")

        with pytest.raises(CaptureInstanceGone):
            pages.read()


def test_a_block_holds_until_the_next_but_one_is_fetched(source: Source):
    cells = (Cell(Form.LONG, 8), Cell(Form.TEXT, 22), numeric := Cell(Form.NUMERIC, 19, 9, 2))
    rows = [f"SELECT {n}, N'é{n}', CAST({n}.25 AS decimal(9,2))" for n in range(6)]
    with BlockPaths(source.config) as paths:
        connection = paths.connection
        connection.execute(" UNION ALL ".join(rows))
        held: list[list[Cells]] = []
        for block in connection.blocks(cells, 2):
            held.append(block)
            for number, columns in enumerate(held[-2:], len(held) - len(held[-2:])):
                assert columns[0].data.view("<i8")[:, 0].tolist() == [2 * number, 2 * number + 1]
                assert value_of(cells[1], columns[1], 1) == f"é{2 * number + 1}"
                assert value_of(numeric, columns[2], 0) == Decimal(f"{2 * number}.25")
        assert len(held) == 3
        connection.execute("SELECT N'aside'")
        assert connection.values(20) == ["aside".encode("utf-16-le")]
        connection.execute("SELECT 7, N'behind', 7.25")
        (behind,) = connection.blocks(cells, 2)

        assert behind[0].data.view("<i8").tolist() == [[7]]
        assert held[2][0].data.view("<i8").tolist() == [[4], [5]]


@pytest.mark.parametrize("place", ["header_of", "encode_values", "encode"])
def test_a_fault_of_the_block_path_leaves_the_rows_to_the_reference(
    source: Source, place: str, monkeypatch: pytest.MonkeyPatch
):
    source.database.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v nvarchar(9))")
    source.database.enable("t")
    source.database.execute("INSERT dbo.t VALUES (1, N'Erika'), (2, N'Otto')")
    source.database.scan()

    def fail(*_: object) -> None:
        raise ZeroDivisionError("Erika")

    monkeypatch.setattr(BlockEncoder, place, fail)
    with capture_logs() as logs:
        by_row, after_fault, count = source.pages(ROOMY)

    assert (count, len(by_row)) == (0, 2)
    assert after_fault == by_row
    (told,) = [entry for entry in logs if entry["event"] == "blocks_failed"]
    assert (told["error"], told["log_level"]) == ("ZeroDivisionError", "error")
    assert "Erika" not in str(logs)
