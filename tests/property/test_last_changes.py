"""The last change of each key, by columns: what a pass over the changes one by one finds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tailrace_sink.columns.change_columns import ChangeDecoder
from tailrace_sink.columns.last_changes import LastChanges
from tailrace_sink.columns.spec import Work, Writer
from tailrace_sink.rows.column_targets import target_of
from tailrace_sink.tables.lake_table import Kind
from tailrace_sink.tables.new_table import new_table
from tests.property.test_columns import FAST, position_of, writer_of
from tests.property.test_encode_roundtrip import COLUMNS, Page, encoder_of, pages, schema_of

WRITER = writer_of(schema_of(COLUMNS))
MIRROR = new_table(WRITER.version, Kind.MIRROR)
LARGE: Final = ("body", "old")
Row = dict[str, Any]


def decoder_and_reducer(keeps_deletes: bool) -> tuple[ChangeDecoder, LastChanges]:
    target = target_of(MIRROR, [WRITER], "", {}, 32, last_only=True, keeps_deletes=keeps_deletes)
    decoder = ChangeDecoder(Work((Writer(WRITER.schema_id, WRITER.avro),), (target,)))
    return decoder, LastChanges(target, decoder.schemas[0])


@given(page=pages())
@FAST
def test_a_change_has_a_large_value_unless_its_event_names_it(page: Page):
    decoder, _ = decoder_and_reducer(keeps_deletes=False)
    values = encoder_of(WRITER.version).encode(page.rows, page.commit_ms, processed_ms=99).values
    (batch,) = decoder.decode(pa.array(values, pa.binary())).rows[0]
    for row, event in zip(batch.to_pylist(), page.events, strict=True):
        for number, name in enumerate(LARGE):
            has = event.op != "d" and name not in event.unavailable
            assert row[f"_cdc_available_{number}"] == (position_of(event) if has else None)


@dataclass
class Change:
    key: tuple[int, str | None]
    position: int
    op: str
    values: tuple[str | None, str | None]
    lacks: tuple[bool, bool]
    number: int

    def row(self, schema: pa.Schema) -> Row:
        row: Row = dict.fromkeys(schema.names)
        row |= {"id": self.key[0], "code": self.key[1], "c6": bool(self.number % 2)}
        position = self.position.to_bytes(25, "big")
        row |= {"_cdc_position": position, "_cdc_op": self.op, "_cdc_lsn": str(self.number)}
        for place, name in enumerate(LARGE):
            has = self.op != "d" and not self.lacks[place]
            row[name] = self.values[place] if not self.lacks[place] else None
            row[f"_cdc_available_{place}"] = position if has else None
        return row


@st.composite
def histories(draw: st.DrawFn) -> list[Change]:
    """Changes of few keys, in any order; no position is there twice."""
    positions = draw(
        st.lists(st.integers(0, 30) | st.integers(0, 2**200 - 1), unique=True, max_size=40)
    )
    texts = st.sampled_from([None, "", "a", "b"])
    return [
        Change(
            (draw(st.integers(0, 3)), draw(st.sampled_from([None, "", "k"]))),
            position,
            draw(st.sampled_from("crud")),
            (draw(texts), draw(texts)),
            (draw(st.booleans()), draw(st.booleans())),
            number,
        )
        for number, position in enumerate(positions)
    ]


def expected(changes: Iterable[Change], schema: pa.Schema) -> dict[Any, Row]:
    found: dict[Any, Row] = {}
    for change in sorted(changes, key=lambda change: change.position):
        row, before = change.row(schema), found.get(change.key)
        for place, name in enumerate(LARGE):
            flag = f"_cdc_available_{place}"
            if row[flag] is None:
                row |= {flag: before[flag], name: before[name]} if before else {name: None}
        found[change.key] = row
    return found


@given(changes=histories(), data=st.data())
def test_it_is_what_a_pass_over_all_changes_finds(changes: list[Change], data: st.DataObject):
    """Also when changes are reduced part after part."""
    keeps_deletes = data.draw(st.booleans())
    decoder, reducer = decoder_and_reducer(keeps_deletes)
    (schema,) = decoder.schemas
    held = schema.empty_table()
    for change in changes:
        held = pa.concat_tables([held, pa.Table.from_pylist([change.row(schema)], schema)])
        if data.draw(st.booleans()):
            held = reducer.reduced(held)
    reduced = reducer.reduced(held)

    assert reduced.schema.equals(schema)
    found = {(row["id"], row["code"]): row for row in reduced.to_pylist()}
    wanted = expected(changes, schema)
    for row in found.values():
        for place, name in enumerate(LARGE):
            if row[f"_cdc_available_{place}"] is None:
                row[name] = None  # whatever it is, nobody reads it
    assert found == wanted
    assert reduced.num_rows == len(wanted)

    rows, rest, lacking = reducer.parted(reduced)
    is_row = [row for row in wanted.values() if keeps_deletes or row["_cdc_op"] != "d"]
    whole = [row for row in is_row if all(row[f"_cdc_available_{n}"] for n in range(2))]
    assert rows.schema.names == schema.names[: rows.num_columns]
    assert {(row["id"], row["code"]) for row in rows.to_pylist()} == {
        (row["id"], row["code"]) for row in whole
    }
    assert rows.num_rows + rest.num_rows == len(wanted)
    assert lacking == len(is_row) - len(whole)
