"""The last changes of messages in memory: those of their events, or none that Spark must decode."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from hypothesis import given

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.rows.changes_in_memory import latest_in_memory
from tailrace_sink.rows.last_change import available_flag
from tailrace_sink.tables.lake_table import Kind
from tailrace_sink.tables.new_table import new_table
from tailrace_sink.tables.origins import ORIGIN, in_shared_table
from tests.property.test_columns import FAST, position_of
from tests.property.test_encode_roundtrip import Page, encoder_of, pages
from tests.property.test_last_changes import LARGE, MIRROR, WRITER


def messages_of(page: Page) -> pa.ChunkedArray:
    values = encoder_of(WRITER.version).encode(page.rows, page.commit_ms, processed_ms=99).values
    return pa.chunked_array([pa.array(values[:2], pa.binary()), pa.array(values[2:], pa.binary())])


@given(page=pages())
@FAST
def test_each_key_has_its_last_change_and_says_which_large_values_it_has(page: Page):
    found = latest_in_memory(messages_of(page), MIRROR, [WRITER], [])
    assert found is not None
    names = [column.name for column in MIRROR.columns] + list(MIRROR.cdc_columns)
    assert found.column_names == [*names, *(available_flag(n) for n in range(len(LARGE)))]

    by_position = {position_of(event): event for event in page.events}
    rows = found.to_pylist()
    keys = [tuple(row[name] for name in MIRROR.key) for row in rows]
    assert len(set(keys)) == len(keys)
    for row in rows:
        last = by_position[row["_cdc_position"]]
        assert row["_cdc_op"] == last.op
        for number, name in enumerate(LARGE):
            has = last.op != "d" and name not in last.unavailable
            assert row[available_flag(number)] in ({True} if has else {True, False})
    assert max(by_position, default=None) == max((r["_cdc_position"] for r in rows), default=None)


def test_spark_decodes_what_is_not_decoded_by_columns():
    framed = bytes([0]) + (WRITER.schema_id + 1).to_bytes(4, "big") + b"x"
    for value in (b"", framed, None):
        values = pa.chunked_array([pa.array([value], pa.binary())])
        assert latest_in_memory(values, MIRROR, [WRITER], []) is None
    nothing = pa.chunked_array([], pa.binary())
    assert latest_in_memory(nothing, MIRROR, [WRITER], []) is not None
    columns = (*MIRROR.columns[:-1], replace(MIRROR.columns[-1], type="VARIANT"))
    assert latest_in_memory(nothing, replace(MIRROR, columns=columns), [WRITER], []) is None


@given(page=pages(), others=pages())
@FAST
def test_of_several_tables_each_row_has_its_origin_and_others_are_passed_over(
    page: Page, others: Page
):
    shared = new_table(in_shared_table(WRITER.version, TableName("shop", "all", "t")), Kind.MIRROR)
    assert shared.is_shared
    other = replace(WRITER, schema_id=WRITER.schema_id + 1)
    header = bytes([0]) + other.schema_id.to_bytes(4, "big")
    of_others = [header + of.as_py()[5:] for of in messages_of(others)]
    values = pa.chunked_array([*messages_of(page).chunks, pa.array(of_others, pa.binary())])

    alone = latest_in_memory(messages_of(page), MIRROR, [WRITER], [])
    found = latest_in_memory(values, shared, [WRITER], [other])

    assert alone is not None
    assert found is not None
    assert found.select(list(origin_of())).to_pylist() == [origin_of()] * found.num_rows
    ordered = [("_cdc_position", "ascending")]
    names = alone.column_names
    assert found.select(names).sort_by(ordered).to_pylist() == alone.sort_by(ordered).to_pylist()


def origin_of() -> dict[str, str]:
    source = WRITER.version.table
    return dict(zip(ORIGIN, (source.database, source.schema, source.table), strict=True))
