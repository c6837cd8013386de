"""The rule by which lake tables get names in a catalog, and how its options are read."""

from __future__ import annotations

import re

import pytest

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import ConfigError
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.tables.catalog_names import catalog_names
from tests.least_options import LEAST_OF_SINK

ALLOWED = re.compile(r"[a-z0-9_]+")


def names_of(*paths: str, template: str = "{schema}") -> list[str]:
    found = catalog_names(paths, template)
    return [str(found[path]) for path in paths]


def test_a_name_is_schema_and_table_in_lower_case():
    assert names_of("shop/dbo/Orders", "shop/Sales/Order_Lines") == [
        "dbo.orders",
        "sales.order_lines",
    ]


def test_a_companion_has_its_table_s_name_and_its_kind():
    assert names_of("shop/dbo/orders.changes", "shop/dbo/orders.history") == [
        "dbo.orders_changes",
        "dbo.orders_history",
    ]


def test_the_template_tells_databases_apart():
    names = names_of("shop/dbo/t", "stock/dbo/t", template="{database}_{schema}")
    assert names == ["shop_dbo.t", "stock_dbo.t"]


@pytest.mark.parametrize("table", ["order lines", "Straße", "a.b", "naïve", "日本"])
def test_other_characters_are_replaced_and_the_name_says_which_table_it_was(table: str):
    path = TableName("shop", "dbo", table).path
    (name,) = catalog_names([path], "{schema}").values()
    assert all(ALLOWED.fullmatch(part) for part in name)
    assert re.search(r"_[0-9a-f]{6}$", name.table)
    with_others = catalog_names([path, "shop/dbo/order_lines", "shop/dbo/a_b"], "{schema}")
    assert with_others[path] == name, "it does not depend on other tables"


def test_no_two_tables_have_one_name():
    paths = ["shop/dbo/Orders", "shop/dbo/orders", "stock/dbo/orders", "shop/dbo/orders.changes"]
    paths.append("shop/dbo/orders_changes")
    names = catalog_names(paths, "{schema}")
    assert len(set(names.values())) == len(paths)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"kind": "glue"}, "hive"),
        ({"kind": "hive", "metastore": "folder"}, "absolute folder"),
        ({"schema_name": "{table}"}, "{database} and {schema}"),
        ({"schema_name": "{0}"}, "{database} and {schema}"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], fault: str):
    with pytest.raises(ConfigError, match=re.escape(fault)):
        SinkConfig.load({**LEAST_OF_SINK, "catalog": options})
