"""Row images of one version, put together from two: as if the row had been encoded like that."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace_publisher.encode.columns.image_columns import ImageColumns
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName
from tests.property.values import ALL_TYPES, values


@pytest.mark.parametrize("lossless", [False, True], ids=["plain", "lossless"])
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_columns_of_another_image_are_put_into_one(lossless: bool, data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(ALL_TYPES), min_size=1, max_size=4))
    columns = tuple(
        SchemaColumn(number, f"c{number}", each, nullable=number % 3 > 0, lossless=lossless)
        for number, each in enumerate(types, 1)
    )
    required = {place for place, column in enumerate(columns) if column.is_required}
    row_of = st.tuples(
        *(
            values(each, lossless=lossless)
            if place in required
            else st.none() | values(each, lossless=lossless)
            for place, each in enumerate(types)
        )
    )
    row, other = data.draw(row_of), data.draw(row_of)
    places = data.draw(st.sets(st.integers(0, len(columns) - 1)))
    schema = TableSchema(TableName("db", "dbo", "t"), "dbo_t", Lsn(42, 7, 1), columns)
    encoder = EnvelopeEncoder("server", schema, "t.db.dbo.t", 1, None)
    mixed = [other[place] if place in places else value for place, value in enumerate(row)]
    (image, others, right), _ = encoder.encode_images([row, other, mixed], Lsn(42, 8, 1))

    assert ImageColumns(schema).put_together(image, others, places) == right
