"""Names are reversible and stay within what Kafka and Avro allow."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from tailrace_schemas.topics.escaped_names import avro_name, topic_part, unescape
from tailrace_schemas.topics.topic_names import TableName, TopicNames

# SQL Server identifiers: 1 to 128 UTF-16 units of nearly anything when quoted.
IDENTIFIERS = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("_x0123456789ABCDEFabcdef.-"),
    min_size=1,
    max_size=30,
)


@example("_x0041_")
@example("_x0041")
@example("__x0041_")
@example("_x_x0041_")
@example("a.b")
@example("9lives")
@example("\U0001f600")
@given(IDENTIFIERS)
def test_names_come_back(name: str) -> None:
    assert unescape(topic_part(name)) == name
    assert unescape(avro_name(name)) == name


@given(IDENTIFIERS)
def test_names_are_allowed(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]+", topic_part(name))
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", avro_name(name))


@given(IDENTIFIERS, IDENTIFIERS)
def test_different_names_stay_different(a: str, b: str) -> None:
    assert (topic_part(a) == topic_part(b)) == (a == b)
    assert (avro_name(a) == avro_name(b)) == (a == b)


_SHORT = st.text(
    st.characters(codec="ascii", categories=["L", "N"]) | st.sampled_from("._ "),
    min_size=1,
    max_size=8,
)


@given(_SHORT, _SHORT, _SHORT)
def test_a_topic_names_its_table(database: str, schema: str, table: str) -> None:
    names = TopicNames("prefix-1")
    name = TableName(database, schema, table)
    topic = names.data(name)
    assert names.table_of(topic) == name
    assert topic not in {names.offsets, names.progress, names.ddl(database)}
