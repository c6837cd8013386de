"""A condition that is given as an option stays within the parentheses that it is put into."""

from __future__ import annotations

import pytest

from tailrace_publisher.errors import ConfigError
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.options.sql_condition import check_condition
from tailrace_schemas.topics.topic_names import TableName
from tests.least_options import LEAST

ORDERS = TableName("db", "dbo", "orders")


@pytest.mark.parametrize(
    "text",
    [
        "status = 'open' OR status IS NULL",
        "id IN (SELECT order_id FROM dbo.kept WHERE (n > 0)) AND (1 = 1)",
        "note <> 'x;--?()/*' AND N'it''s' <> note",
        "[what? -- (]]] = 1",
        '"a;""b" = 1',
        "day >= {d '2026-01-01'}\nAND n < 5",
    ],
)
def test_a_condition_that_ends_where_its_text_does_is_taken(text: str):
    check_condition(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("n = 1) OR (1 = 1", "')' at character 6: it closes what was not opened"),
        ("(n = 1", "1 of its parentheses are not closed"),
        ("n = 1 -- all", "'--' at character 7: a comment"),
        ("n = 1 /* all", "'/*' at character 7: a comment"),
        ("n */ 1", "'*/' at character 3"),
        ("n = 1; DROP TABLE t", "';' at character 6: it ends the statement"),
        ("n = ?", "'?' at character 5: it stands for a parameter"),
        ("n = 'x", "at character 5: the text that begins there does not end"),
        ("n = 'x'' AND (n = 1", "at character 5: the text that begins there does not end"),
        ("[n]] = 1", "at character 1: the name that begins there does not end"),
        ('"n = 1', "at character 1: the name that begins there does not end"),
        ("n = \0", "it is no character of a statement"),
    ],
)
def test_one_that_does_not_is_refused_by_name(text: str, why: str):
    with pytest.raises(ConfigError) as raised:
        PublisherConfig.load(LEAST | {"snapshot": {"where": {r"dbo\.orders": text}}})

    (problem,) = raised.value.problems
    assert problem.startswith(r"snapshot.where: the condition of 'dbo\\.orders': ")
    assert why in problem


def test_the_first_pattern_that_matches_counts():
    where = {r"DBO\.orders": "n > 1", r".*\.ord.*": "n > 2"}
    options = PublisherConfig.load(LEAST | {"snapshot": {"where": where}}).snapshot

    assert options.where_of(ORDERS) == "n > 1"
    assert options.where_of(TableName("db", "sales", "orders")) == "n > 2"
    assert options.where_of(TableName("db", "dbo", "other")) is None


def test_a_pattern_is_a_regular_expression():
    with pytest.raises(ConfigError, match="not a regular expression"):
        PublisherConfig.load(LEAST | {"snapshot": {"where": {"(": "n > 1"}}})
