"""encode -> fastavro = identity, for every SQL Server type and every kind of event."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.encode.event_kinds import Kind
from tailrace_publisher.encode.event_settings import Treatment
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName
from tests.property.oracle import KEY_ID, SERVER, VALUE_ID, ExpectedEvent, Oracle
from tests.property.values import ALL_TYPES, values

FAST = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))


def encoder_of(schema: TableSchema, treatment: Treatment | None = None) -> EnvelopeEncoder:
    key_id = KEY_ID if schema.key_columns else None
    return EnvelopeEncoder(SERVER, schema, "t.db.dbo.t", VALUE_ID, key_id, treatment)


_SNAPSHOT = {Kind.READ: ("true", "last"), Kind.PATCH: ("patch", "patch")}


def encode_snapshot(
    encoder: EnvelopeEncoder,
    rows: Sequence[Sequence[Any]],
    fence: Lsn,
    read_ms: int,
    last: bool,
    kind: Kind = Kind.READ,
) -> EncodedRows:
    """Events of snapshot rows, or of a patch, whose fence is known at once."""
    return encoder.snapshot_events(*encoder.encode_images(rows, fence), fence, read_ms, last, kind)


def schema_of(columns: Sequence[SchemaColumn]) -> TableSchema:
    return TableSchema(TableName("db", "dbo", "t"), "dbo_t", Lsn(42, 7, 1), tuple(columns))


def same(left: Any, right: Any) -> bool:
    """Equality that tells -0.0 from 0.0 and a UUID from nothing."""
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack("<d", left) == struct.pack("<d", right)
    if isinstance(left, uuid.UUID):
        return str(left) == str(right)
    return bool(left == right)


@pytest.mark.parametrize("lossless", [False, True], ids=["plain", "lossless"])
@pytest.mark.parametrize("column_type", ALL_TYPES, ids=str)
@FAST
@given(data=st.data())
def test_every_type_reads_back_as_itself_and_is_what_fastavro_writes(
    column_type: ColumnType, lossless: bool, data: st.DataObject
) -> None:
    columns = (
        SchemaColumn(1, "id", column_type, nullable=False, key_ordinal=1, lossless=lossless),
        SchemaColumn(2, "v", column_type, lossless=lossless),
    )
    strategy = values(column_type, lossless=lossless)
    rows = data.draw(st.lists(st.tuples(strategy, st.none() | strategy), min_size=1, max_size=8))
    schema = schema_of(columns)
    oracle = Oracle(schema)
    fence = Lsn(42, 8, 3)

    kind = data.draw(st.sampled_from([Kind.READ, Kind.PATCH]))
    encoded = encode_snapshot(encoder_of(schema), rows, fence, 1_700_000_000_123, True, kind)

    for index, row in enumerate(rows):
        expected = ExpectedEvent(
            op="r" if kind is Kind.READ else "u",
            before=None,
            after=row,
            commit_lsn=fence.to_bytes(),
            command_id=0,
            seqval=Lsn.ZERO.to_bytes(),
            operation=0,
            ts_ms=1_700_000_000_123,
            snapshot=_SNAPSHOT[kind][index == len(rows) - 1],
            processed_ms=1_700_000_000_123,
        )
        assert encoded.values[index] == oracle.value(expected)
        assert encoded.keys[index] == oracle.key_of(row)
        after = oracle.read(encoded.values[index])["after"]
        assert same(row[0], after["id"])
        assert same(row[1], after["v"])


@dataclass
class Page:
    """Rows for the encoder and the events that must come of them."""

    rows: list[tuple[Any, ...]]
    events: list[ExpectedEvent]
    key_rows: list[Sequence[Any]]
    commit_ms: dict[bytes, int]


COLUMNS = (
    SchemaColumn(1, "id", ColumnType("int"), nullable=False, key_ordinal=2),
    SchemaColumn(2, "Größe in €", ColumnType("decimal", precision=38, scale=6)),
    SchemaColumn(3, "code", ColumnType("nvarchar", length=10), key_ordinal=1),  # nullable key
    SchemaColumn(4, "body", ColumnType("nvarchar", length=-1)),
    SchemaColumn(5, "old", ColumnType("text")),
    *(SchemaColumn(n, f"c{n}", ColumnType("bit")) for n in range(6, 12)),  # mask over two bytes
)
NAMES = ["id", "Gr_x00F6__x00DF_e_x0020_in_x0020__x20AC_", "code", "body", "old"]
NAMES += [f"c{n}" for n in range(6, 12)]
IMAGES = st.tuples(
    *(
        values(column.type) if column.is_required else st.none() | values(column.type)
        for column in COLUMNS
    )
)


@st.composite
def pages(draw: st.DrawFn) -> Page:
    """A page of changes in clustered order with all kinds of events."""
    page = Page([], [], [], {})
    vlf = 5
    for block in range(draw(st.integers(1, 3))):
        commit = Lsn(vlf, block, 9).to_bytes()
        page.commit_ms[commit] = draw(st.integers(-(2**40), 2**45))
        for slot in range(draw(st.integers(1, 5))):
            where = (commit, draw(st.integers(0, 2**31 - 1)), Lsn(vlf, block, slot).to_bytes())
            _change(draw, page, where)
    return page


def _change(draw: st.DrawFn, page: Page, where: tuple[bytes, int, bytes]) -> None:
    commit, command_id, seqval = where
    kind = draw(st.sampled_from(["insert", "delete", "update", "key update"]))
    all_bits = (2 ** len(COLUMNS) - 1).to_bytes(2, "big")
    row = draw(IMAGES)

    def event(op: str, before: Any, after: Any, operation: int, **more: Any) -> None:
        serial = 1 if op == "d" else 2
        page.key_rows.append(before if op == "d" else after)
        page.events.append(
            ExpectedEvent(
                op,
                before,
                after,
                commit,
                command_id,
                seqval,
                operation,
                page.commit_ms[commit],
                serial=serial,
                processed_ms=99,
                **more,
            )
        )

    if kind == "insert":
        page.rows.append((*where, 2, all_bits, *row))
        event("c", None, row, 2)
        return
    if kind == "delete":
        page.rows.append((*where, 1, all_bits, *row))
        event("d", row, None, 1, unavailable=["old"] if row[4] is None else [])
        return
    changed = draw(st.sets(st.integers(0, len(COLUMNS) - 1)))
    after = list(draw(IMAGES))
    if kind == "update":
        after[0], after[2] = row[0], row[2]
    elif (after[0], after[2]) == (row[0], row[2]):
        after[0] = 7 if row[0] != 7 else 8
    mask = sum(1 << bit for bit in changed).to_bytes(2, "big")
    names = [NAMES[bit] for bit in sorted(changed)]
    page.rows.append((*where, 3, mask, *row))
    page.rows.append((*where, 4, mask, *after))

    def unknown(image: Sequence[Any], *, is_before: bool = False) -> list[str]:
        """A text (``old``) has no before image, whatever the mask says of it."""
        told = changed - {4} if is_before else changed
        return [NAMES[bit] for bit in (3, 4) if image[bit] is None and bit not in told]

    if kind == "update":
        event("u", row, after, 4, changed=names, unavailable=unknown(after))
    else:
        event("d", row, None, 3, changed=names, unavailable=unknown(row, is_before=True))
        event("c", None, after, 4, changed=names, unavailable=unknown(after))


@FAST
@given(page=pages())
def test_every_kind_of_change_is_what_fastavro_writes(page: Page) -> None:
    schema = schema_of(COLUMNS)
    oracle = Oracle(schema)

    encoded = encoder_of(schema).encode(page.rows, page.commit_ms, processed_ms=99)

    assert encoded.values == [oracle.value(event) for event in page.events]
    assert encoded.keys == [oracle.key_of(row) for row in page.key_rows]
    assert encoded.deletes == [i for i, event in enumerate(page.events) if event.op == "d"]
    positions = [
        event.commit_lsn
        + event.command_id.to_bytes(4, "big")
        + event.seqval
        + bytes([event.operation])
        for event in page.events
    ]
    assert encoded.positions == positions


@FAST
@given(page=pages(), cut=st.data())
def test_slices_put_together_are_the_whole(page: Page, cut: st.DataObject) -> None:
    encoded = encoder_of(schema_of(COLUMNS)).encode(page.rows, page.commit_ms)
    at = cut.draw(st.integers(0, len(encoded)))
    left, right = encoded.slice(0, at), encoded.slice(at, len(encoded))

    assert left.values + right.values == encoded.values
    assert left.keys + right.keys == encoded.keys
    assert left.positions + right.positions == encoded.positions
    assert left.deletes + [index + at for index in right.deletes] == encoded.deletes
