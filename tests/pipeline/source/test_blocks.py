"""What is read in blocks is, byte for byte, what is read row by row: through the real driver."""

from __future__ import annotations

from decimal import Decimal

import pytest
from structlog.testing import capture_logs

from emulator.tests.fix_sqlserver import SourceServer
from tailrace_publisher.change.ranges import LsnRange
from tailrace_publisher.encode.blocks.cells import Cells
from tailrace_publisher.encode.blocks.envelopes import BlockEncoder
from tailrace_publisher.encode.blocks.values import value_of
from tailrace_publisher.encode.columns.column_forms import Cell, Form
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.errors import CaptureInstanceGone, SourceBehind
from tailrace_publisher.options.columns import ColumnsConfig
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.blocks.block_paths import BlockPaths
from tailrace_publisher.source.catalog.instances import read_catalog
from tailrace_publisher.source.catalog.versions import current_columns
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_publisher.source.pages.page_readers import Stamps
from tailrace_publisher.source.pages.page_size import FEW_ROWS, PageLimit, RowSize
from tailrace_publisher.source.pages.pages import ChangePages
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tests.pipeline.source.both_ways import Source, every_type

ROOMY = PageLimit(2000, 100_000_000)


@pytest.fixture
def source(source_server: SourceServer) -> Source:
    return Source(source_server)


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
