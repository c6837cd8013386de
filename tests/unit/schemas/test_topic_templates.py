"""Names of topics by templates, and back; what cannot be meant is told with pattern and table."""

from __future__ import annotations

import pytest
from hypothesis import given

from tailrace_publisher.errors import ConfigError
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema, envelope_schema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.templates import TopicTemplate
from tailrace_schemas.topics.topic_names import TableName, TopicNames
from tailrace_sink.errors import SNAPSHOT_HELPS, UnsupportedTopicName
from tailrace_sink.fold.table_batch import TableBatches
from tailrace_sink.plan.topic_ranges import TopicRange
from tests.least_options import LEAST
from tests.property.test_names_property import IDENTIFIERS


def names(**templates: str) -> TopicNames:
    """By pattern; of database shop."""
    of = (TopicTemplate(pattern, template) for pattern, template in templates.items())
    return TopicNames("p.eu", tuple(of), "shop")


def table(schema: str, name: str) -> TableName:
    return TableName("shop", schema, name)


@pytest.mark.parametrize(
    ("templates", "of", "topic"),
    [
        ({".*": "{prefix}.{schema}.{table}"}, ("dbo", "orders"), "p.eu.dbo.orders"),
        ({".*": "{prefix}-{table}.{schema}"}, ("dbo", "a_b"), "p.eu-a_b.dbo"),
        ({".*": "{prefix}_{schema}_{table}"}, ("dbo", "order_items"), "p.eu_dbo_order_items"),
        ({r"dbo\..*": "{prefix}.{table}"}, ("dbo", "a.b"), "p.eu.a_x002E_b"),
        ({r"dbo\.orders": "{prefix}.v2"}, ("dbo", "orders"), "p.eu.v2"),
        ({r"dbo\.(a|b)": "{prefix}.ab.{table}"}, ("dbo", "b"), "p.eu.ab.b"),
        ({".*": "{prefix}.cdc.{database}.{schema}.{table}"}, ("s", "t"), "p.eu.cdc.shop.s.t"),
        ({"DBO[.].*": "{prefix}.x.{schema}.{table}"}, ("dbo", "t"), "p.eu.x.dbo.t"),
        ({r"sales\..*": "{prefix}.{table}"}, ("dbo", "t"), "p.eu.shop.dbo.t"),
    ],
)
def test_the_first_template_that_matches_names_the_topic_and_gives_the_table_back(
    templates: dict[str, str], of: tuple[str, str], topic: str
):
    found = names(**templates)
    assert found.data(table(*of)) == topic
    assert found.table_of(topic) == table(*of)


def test_the_first_pattern_counts_and_other_names_are_nobodys():
    found = names(**{r"dbo\.orders": "{prefix}.first", ".*": "{prefix}.{schema}.{table}"})
    assert found.data(table("dbo", "orders")) == "p.eu.first"
    nobodys = ["p.eu.dbo.orders", "p.eu.shop.dbo.t", "p.eu.shop.ddl", found.progress, "p.dbo.t"]
    assert [found.table_of(name) for name in nobodys] == [None] * len(nobodys)


@given(IDENTIFIERS, IDENTIFIERS)
def test_with_dots_between_every_table_is_told_apart(schema: str, name: str):
    found = names(**{".*": "{prefix}.t.{table}.{schema}"})
    named = table(schema[:9], name[:9])  # not longer than topics may be
    assert found.table_of(found.data(named)) == named


@pytest.mark.parametrize(
    ("templates", "of", "told"),
    [
        ({".*": "{prefix}_{schema}_{table}"}, ("a_b", "c"), "also that of shop.a.b_c"),
        ({r"dbo\..*": "{prefix}.{table}"}, ("dbo", "progress"), "the publisher's own"),
        ({".*": "{prefix}.{schema}.{table}"}, ("shop", "ddl"), "the publisher's own"),
        ({r"dbo\.Orders": "{prefix}.o"}, ("dbo", "orders"), "spells the table shop.dbo.Orders"),
        (
            {r"dbo\.a": "{prefix}.x", r"dbo\.b": "{prefix}.x"},
            ("dbo", "b"),
            "the topic of shop.dbo.b would be p.eu.x, .* also that of shop.dbo.a",
        ),
        ({".*": "{prefix}.{schema}.{table}"}, ("dbo", "n" * 242), "has 251 characters"),
    ],
)
def test_a_table_that_cannot_have_the_name_is_told(
    templates: dict[str, str], of: tuple[str, str], told: str
):
    with pytest.raises(ValueError, match=told):
        names(**templates).data(table(*of))


@pytest.mark.parametrize(
    ("pattern", "template", "told"),
    [
        (".*", "{prefix}.{schema}.{tabel}", r"\{tabel\} is no placeholder; there are \{prefix\}"),
        (".*", "{prefix}.{table}", r"\{schema\} is missing"),
        (r"dbo\.a|sales\.b", "{prefix}.{table}", r"\{schema\} is missing"),
        (r"dbo..*", "{prefix}.{table}", r"\{schema\} is missing"),
        (r"dbo\..*", "{prefix}.all", r"\{table\} is missing: a topic holds one table"),
        (".*", "{schema}.{table}", r"begin with \{prefix\}"),
        (".*", "{prefix}{schema}.{table}", r"begin with \{prefix\}"),
        (r"a\.b", "", r"begin with \{prefix\}"),
        (".*", "{prefix}.{schema}{table}", "text between its placeholders"),
        (".*", "{prefix}.{schema}.{table}.{table}", r"\{table\} is there twice"),
        (".*", "{prefix}.{schema}/{table}", "letters, digits"),
        (".*", "{prefix}.{schema}.{table", "'}'"),
        (".*", "{prefix}.{schema}.{table!r}", "a name in braces"),
        (".*", "{prefix}.{schema}.{}", "a name in braces"),
        ("(", "{prefix}.{schema}.{table}", "is not a regular expression"),
    ],
)
def test_a_template_that_cannot_be_meant_is_told_with_the_options(
    pattern: str, template: str, told: str
):
    with pytest.raises(ConfigError, match=told) as raised:
        PublisherConfig.load(LEAST | {"topic_names": {pattern: template}})
    (problem,) = raised.value.problems
    assert problem.startswith("topic_names")


def test_the_sink_stops_a_table_by_the_options_name():
    column = SchemaColumn(1, "id", ColumnType("int"), nullable=False, key_ordinal=1)
    listed = [
        TableSchema(table("dbo", name), f"dbo_{name}", Lsn(1, 1, 1), (column,))
        for name in ("orders", "items", "log")
    ]
    schemas = {number: envelope_schema("p", found) for number, found in enumerate(listed)}
    default = TopicNames("p")
    topics = ["p.dbo.orders", "p.cdc.dbo.items", default.data(listed[2].table)]
    ranges = [
        TopicRange(topic, {0: (0, 1)}, 1, frozenset({number}))
        for number, topic in enumerate(topics)
    ]

    batches, stopped = TableBatches(default, lambda _: True, schemas.__getitem__).of(ranges)

    assert [batch.topic for batch in batches] == topics[2:]
    assert set(stopped) == set(topics[:2])
    error = stopped["p.dbo.orders"]
    assert isinstance(error, UnsupportedTopicName)
    assert "topic_names" in str(error)
    assert SNAPSHOT_HELPS not in str(error), "a snapshot would be in the same topic"
