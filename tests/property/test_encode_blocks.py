"""Blocks become the reference's bytes: for every type that they take, and every kind of event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace_publisher.encode.blocks.envelopes import BlockEncoder, EncodedBlock
from tailrace_publisher.encode.columns.column_forms import Declined, Form, NotAscii, cell_of
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.encode.event_kinds import Kind
from tailrace_publisher.encode.event_settings import Treatment
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.events.transforms import ColumnTransform, TransformKind
from tailrace_schemas.position.change_position import Operation, unpack_position
from tests.property.blocks import HEADER, cells_of
from tests.property.oracle import KEY_ID, SERVER, VALUE_ID
from tests.property.test_encode_roundtrip import Page, encoder_of, pages, same, schema_of
from tests.property.values import ALL_TYPES, values

FAST = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


def block_encoder(
    schema: TableSchema, treatment: Treatment | None = None, *, is_ascii: bool = False
) -> BlockEncoder:
    """An encoder; unless all texts are ASCII it knows of every column that they are not."""
    key_id = KEY_ID if schema.key_columns else None
    encoder = BlockEncoder(SERVER, schema, "t.db.dbo.t", VALUE_ID, key_id, treatment)
    beyond = [cells_of(cell, ["é"] if cell.form is Form.ASCII else []) for cell in encoder.cells]
    if is_ascii or not any(len(cells.data) for cells in beyond):
        return encoder
    with pytest.raises(NotAscii):
        encoder.encode_values(beyond)
    return encoder.relearned()


def block_of(encoder: BlockEncoder, rows: Sequence[Sequence[Any]]) -> EncodedBlock:
    columns = list(zip(*rows, strict=True))
    found = [cells_of(cell, column) for cell, column in zip(encoder.cells, columns, strict=True)]
    return encoder.encode_columns(found)


def assert_same(left: EncodedRows, right: EncodedRows) -> None:
    assert left.values == right.values
    assert left.keys == right.keys
    assert left.positions == right.positions
    assert left.deletes == right.deletes
    assert (left.topic, left.schema_id) == (right.topic, right.schema_id)


def in_blocks(column: SchemaColumn) -> bool:
    return cell_of(column) is not None


TAKEN = [kind for kind in ALL_TYPES if in_blocks(SchemaColumn(1, "c", kind))]


def test_all_but_large_and_clr_types_are_taken_in_blocks() -> None:
    left = {str(kind) for kind in ALL_TYPES if kind not in TAKEN}
    assert left == {
        *("varchar(max)", "nvarchar(max)", "varbinary(max)", "text", "ntext", "image", "xml"),
        *("json", "hierarchyid", "geometry", "geography"),
    }


@pytest.mark.parametrize("lossless", [False, True], ids=["plain", "lossless"])
@pytest.mark.parametrize("column_type", TAKEN, ids=str)
@FAST
@given(data=st.data())
def test_every_type_has_the_references_bytes(
    column_type: ColumnType, lossless: bool, data: st.DataObject
) -> None:
    key = SchemaColumn(1, "id", column_type, nullable=False, key_ordinal=1, lossless=lossless)
    column = SchemaColumn(2, "v", column_type, lossless=lossless)
    cell = cell_of(column)
    assert cell is not None
    strategy = values(column_type, lossless=lossless)
    if column_type.name in {"char", "varchar", "nchar", "nvarchar", "sysname"}:
        strategy = strategy.map(lambda text: fitting(text, cell.width // 2 - 1))
    elif column_type.name in {"binary", "varbinary"}:
        strategy = strategy.map(lambda raw: raw[: cell.width])
    images = data.draw(st.lists(st.tuples(strategy, st.none() | strategy), min_size=1, max_size=9))
    commit = bytes(9) + b"\x07"
    rows = [
        (commit, number, bytes(8) + number.to_bytes(2, "big"), 2, b"\x03", *image)
        for number, image in enumerate(images)
    ]
    schema = schema_of([key, column])
    encoder = block_encoder(schema)

    encoded = encoder.encode([block_of(encoder, rows)], {commit: 1_700_000_000_123}, 5)

    assert_same(encoded, encoder_of(schema).encode(rows, {commit: 1_700_000_000_123}, 5))


@pytest.mark.parametrize("operation", [1, 2])
@pytest.mark.parametrize("column_type", ALL_TYPES, ids=str)
def test_null_in_a_column_declared_not_null_is_null(
    column_type: ColumnType, operation: int
) -> None:
    """Servers were seen to delete rows with NULL in a bit NOT NULL column."""
    key = SchemaColumn(1, "id", ColumnType("int"), nullable=False, key_ordinal=1)
    column = SchemaColumn(2, "v", column_type, nullable=False)
    rows = [(COMMIT, 1, bytes(9) + b"\x01", operation, b"\x03", 1, None)]
    as_declared = schema_of([key, column])
    found = encoder_of(as_declared).encode(rows, {COMMIT: 1}, 5)

    as_nullable = schema_of([key, replace(column, nullable=True)])
    assert_same(found, encoder_of(as_nullable).encode(rows, {COMMIT: 1}, 5))
    if in_blocks(column):
        encoder = block_encoder(as_declared)
        assert_same(found, encoder.encode([block_of(encoder, rows)], {COMMIT: 1}, 5))


TEXTS = st.text(st.characters(max_codepoint=0x7F)) | st.text()


@pytest.mark.parametrize("length", [3, 700])
@pytest.mark.parametrize("name", ["char", "varchar"])
@FAST
@given(data=st.data())
def test_texts_that_are_ascii_have_the_references_bytes_and_others_are_found(
    name: str, length: int, data: st.DataObject
) -> None:
    kind = ColumnType(name, length=length)
    schema = schema_of(
        [
            SchemaColumn(1, "id", kind, nullable=False, key_ordinal=1),
            SchemaColumn(2, "v", kind),
            SchemaColumn(3, "w", kind),
        ]
    )
    texts = TEXTS.map(lambda text: text * data.draw(st.sampled_from([1, 90]))).map(
        lambda text: fitting(text, length)
    )
    row = st.tuples(texts, st.none() | texts, st.none() | texts)
    rows = [
        (COMMIT, number, bytes(9) + bytes([number]), 2, b"\x03", *image)
        for number, image in enumerate(data.draw(st.lists(row, min_size=1, max_size=9)))
    ]
    encoder = block_encoder(schema, is_ascii=True)
    beyond = {
        column.name
        for column, values in zip(schema.columns, list(zip(*rows, strict=True))[5:], strict=True)
        if not all(value is None or (value.isascii() and "\0" not in value) for value in values)
    }

    if beyond:
        with pytest.raises(NotAscii, match=", ".join(sorted(beyond))):
            block_of(encoder, rows)
        ascii_before = [cell.form for cell in encoder.cells].count(Form.ASCII)
        encoder = encoder.relearned()
        assert [cell.form for cell in encoder.cells].count(Form.ASCII) == ascii_before - len(beyond)
    encoded = encoder.encode([block_of(encoder, rows)], {COMMIT: 1}, 5)

    assert encoder.relearned() is encoder
    assert_same(encoded, encoder_of(schema).encode(rows, {COMMIT: 1}, 5))


def test_what_is_made_of_texts_is_not_taken_as_ascii() -> None:
    """It comes as nvarchar, whose bytes are no characters."""
    varchar = ColumnType("varchar", length=20)
    cut = ColumnTransform(TransformKind.TRUNCATE, "5")
    columns = [
        KEY,
        SchemaColumn(2, "v", varchar, transform=cut),
        SchemaColumn(3, "w", ColumnType("nvarchar", length=20)),
        SchemaColumn(4, "x", ColumnType("sysname", length=128)),
        SchemaColumn(5, "y", ColumnType("varchar", length=20)),
    ]

    encoder = BlockEncoder(SERVER, schema_of(columns), "t.db.dbo.t", VALUE_ID, KEY_ID)

    forms = [cell.form for cell in encoder.cells[len(HEADER) :]]
    assert forms == [Form.LONG, Form.TEXT, Form.TEXT, Form.TEXT, Form.ASCII]


def fitting(text: str, units: int) -> str:
    """The beginning of a text that has so many UTF-16 code units at most, no pair cut."""
    return text.encode("utf-16-le")[: 2 * units].decode("utf-16-le", "ignore")


def narrow(page: Page) -> tuple[TableSchema, list[tuple[Any, ...]]]:
    """The page without its large columns, which blocks do not take."""
    from tests.property.test_encode_roundtrip import COLUMNS

    kept = [place for place, column in enumerate(COLUMNS) if in_blocks(column)]
    schema = schema_of([COLUMNS[place] for place in kept])
    rows = [
        (*row[:5], *(clipped(COLUMNS[place], row[5 + place]) for place in kept))
        for row in page.rows
    ]
    return schema, rows


def clipped(column: SchemaColumn, value: Any) -> Any:
    if isinstance(value, str):
        return fitting(value, column.type.length)
    return value


@FAST
@given(page=pages(), data=st.data())
def test_every_kind_of_event_has_the_references_bytes(page: Page, data: st.DataObject) -> None:
    schema, rows = narrow(page)
    encoder = block_encoder(schema)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(rows)))) | {len(rows)})
    blocks = []
    start = 0
    for cut in cuts:
        blocks.append(block_of(encoder, rows[start:cut]))
        start = cut

    encoded = encoder.encode(blocks, page.commit_ms, processed_ms=99)

    assert_same(encoded, encoder_of(schema).encode(rows, page.commit_ms, processed_ms=99))


@FAST
@given(page=pages())
def test_keyless_tables_too(page: Page) -> None:
    schema, rows = narrow(page)
    keyless = schema_of([SchemaColumn(c.column_id, c.name, c.type) for c in schema.columns])
    encoder = block_encoder(keyless)

    encoded = encoder.encode([block_of(encoder, rows)], page.commit_ms)

    assert_same(encoded, encoder_of(keyless).encode(rows, page.commit_ms))


@FAST
@given(
    page=pages(),
    skipped=st.sets(st.sampled_from(list(Kind))),
    skips_unchanged=st.booleans(),
    is_same=st.booleans(),
)
def test_what_is_skipped_is_the_same_and_nothing_else_is_gone(
    page: Page, skipped: set[Kind], skips_unchanged: bool, is_same: bool
) -> None:
    schema, rows = narrow(page)
    if is_same:  # updates that set values to what they were
        rows = [
            (*row[:5], *rows[n - 1][5:]) if row[3] == Operation.UPDATE_AFTER else row
            for n, row in enumerate(rows)
        ]
    treatment = Treatment(skipped=skipped, skips_unchanged=skips_unchanged)
    blocks = block_encoder(schema, treatment)
    reference = encoder_of(schema, treatment)

    encoded = blocks.encode([block_of(blocks, rows)], page.commit_ms)
    by_row = reference.encode(rows, page.commit_ms)
    everything = reference.encode(rows, page.commit_ms, is_whole=False)

    assert encoded == by_row
    assert everything.skipped == 0
    assert everything.values == encoder_of(schema).encode(rows, page.commit_ms).values
    assert len(by_row) + by_row.skipped == len(everything)
    images = {tuple(row[:4]): row[5:] for row in rows}
    kept = [value for value, position in zip(everything.values, everything.positions, strict=True)
            if is_kept(position, images, everything, skipped, skips_unchanged)]  # fmt: skip
    assert by_row.values == kept


@pytest.mark.parametrize("skipped", [{Kind.UPDATE}, {Kind.DELETE}, {Kind.INSERT}])
def test_events_that_are_left_have_their_own_rows(skipped: set[Kind]) -> None:
    schema = schema_of([KEY, TEXT])
    rows = [
        row(1, 1, 1, "gone"),
        row(2, 2, 2, "new"),
        row(3, 3, 2, "new"),
        row(4, 3, 2, "newer"),
        row(2, 4, 3, "last"),
    ]
    treatment = Treatment(skipped=skipped)
    blocks, reference = block_encoder(schema, treatment), encoder_of(schema, treatment)

    by_row = reference.encode(rows, {COMMIT: 1})

    assert blocks.encode([block_of(blocks, rows)], {COMMIT: 1}) == by_row
    everything = encoder_of(schema).encode(rows, {COMMIT: 1})
    kinds = [Kind.DELETE, Kind.INSERT, Kind.UPDATE, Kind.INSERT]
    left = [v for v, kind in zip(everything.values, kinds, strict=True) if kind not in skipped]
    assert by_row.values == left


def is_kept(
    position: bytes,
    images: dict[Any, Any],
    everything: EncodedRows,
    skipped: set[Kind],
    skips_unchanged: bool,
) -> bool:
    commit, command, seqval, operation = unpack_position(position)
    moved = position[:-1] + bytes([3]) in everything.positions
    kind = Kind(operation) if operation in {1, 2} else Kind.UPDATE
    if operation in {3, 4} and moved:
        kind = Kind.KEY_DELETE if operation == 3 else Kind.KEY_INSERT
    if kind in skipped:
        return False
    before = images.get((commit, command, seqval, 3))
    after = images.get((commit, command, seqval, 4))
    return not (skips_unchanged and kind is Kind.UPDATE and same_image(before, after))


def same_image(before: Any, after: Any) -> bool:
    return len(before) == len(after) and all(map(same, before, after))


TEXT = SchemaColumn(2, "v", ColumnType("nvarchar", length=5))
NUMBER = SchemaColumn(3, "n", ColumnType("decimal", precision=3, scale=1))
KEY = SchemaColumn(1, "id", ColumnType("int"), nullable=False, key_ordinal=1)
COMMIT = bytes(9) + b"\x01"


def row(operation: int = 2, seqval: int = 1, key: Any = 1, text: Any = "a") -> tuple[Any, ...]:
    return (COMMIT, 1, bytes(9) + bytes([seqval]), operation, b"\x03", key, text)


@pytest.mark.parametrize(
    "rows",
    [
        [row(text="\ud800")],
        [row(text="a\udc00")],
        [row(text="a\ud800"), row(seqval=2, text="\udc00b")],
        [row(key=None)],
        [row(operation=5)],
        [row(operation=0)],
        [row(operation=3)],
        [row(operation=4)],
        [row(operation=3), row(operation=4, seqval=2)],
        [row(operation=3), row(operation=3), row(operation=4)],
        [(None, *row()[1:])],
        [(*row()[:1], None, *row()[2:])],
        [row(), (*row(seqval=2)[:4], b"\x00\x03", *row()[5:])],
    ],
    ids=repr,
)
def test_what_only_the_reference_can_judge_is_declined(rows: list[tuple[Any, ...]]) -> None:
    encoder = block_encoder(schema_of([KEY, TEXT]))

    with pytest.raises(Declined):
        encoder.encode([block_of(encoder, rows)], {COMMIT: 1})


def test_a_commit_without_time_is_declined() -> None:
    encoder = block_encoder(schema_of([KEY, TEXT]))

    with pytest.raises(Declined):
        encoder.encode([block_of(encoder, [row()])], {})


def test_a_value_longer_than_its_cell_is_declined() -> None:
    encoder = block_encoder(schema_of([KEY, TEXT]))
    cells = [cells_of(cell, (value,)) for cell, value in zip(HEADER, row()[:5], strict=True)]
    of_key, of_text = (cell_of(column) for column in (KEY, TEXT))
    assert of_key is not None
    assert of_text is not None
    text = cells_of(of_text, ("abcde",))
    text.lengths[0] = 12

    with pytest.raises(Declined):
        encoder.encode_columns([*cells, cells_of(of_key, (1,)), text])


def test_a_number_of_too_many_digits_is_declined() -> None:
    schema = schema_of([KEY, NUMBER])
    encoder = block_encoder(schema)
    header = [cells_of(cell, (value,)) for cell, value in zip(HEADER, row()[:5], strict=True)]
    of_key, of_number = (cell_of(column) for column in (KEY, NUMBER))
    assert of_key is not None
    assert of_number is not None
    number = cells_of(of_number, (Decimal(1),))
    number.data[0, 3:5] = (0xE8, 0x03)  # 1000

    with pytest.raises(Declined):
        encoder.encode_columns([*header, cells_of(of_key, (1,)), number])


def test_tables_with_large_columns_are_declined_as_a_whole() -> None:
    large = SchemaColumn(2, "v", ColumnType("nvarchar", length=-1))

    with pytest.raises(Declined):
        block_encoder(schema_of([KEY, large]))
