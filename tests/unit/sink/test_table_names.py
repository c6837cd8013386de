"""When a lake table's name in the catalog is given, and when it is removed."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tailrace_sink.delta.registration import Answer
from tailrace_sink.log.names_table import NamesTable
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.upkeep.table_names import TableNames
from tests.least_options import LEAST

ORDERS, ITEMS = "shop/dbo/orders", "shop/dbo/items"
HISTORY = f"{ITEMS}.history"
ALL = {"dbo.orders", "dbo.items", "dbo.items_history"}


class Catalog:
    """Carries orders out as a catalog would.

    Attributes:
        names: in the catalog.
        refuses: names that it neither gives nor removes.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.orders = 0
        self.refuses: set[str] = set()

    def __call__(self, order: Mapping[str, Any]) -> list[Answer]:
        self.orders += 1
        answers = []
        for verb in ("drop", "names"):
            for path, name in order[verb]:
                problem = "no answer" if name in self.refuses else None
                if problem is None:
                    (self.names.add if verb == "names" else self.names.discard)(name)
                answers.append(Answer(path, name, problem))
        return answers


class NamedLake:
    """A lake with a catalog, whose sink is started again for each look."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.catalog = Catalog()

    def look(self, *paths: str, **options: Any) -> set[str]:
        """Names after a start whose cut has some tables."""
        config = self.config(**options)
        names = TableNames(config, "", self.catalog)
        names.want(paths)
        names.settle(lambda: False)
        names.close()
        return self.catalog.names

    def config(self, **options: Any) -> SinkConfig:
        kinds = {r"dbo\.items": ["mirror", "history"]}
        given = {"catalog": {"kind": "spark"}, "kinds": kinds, **options}
        least = {name: LEAST[name] for name in ("kafka", "registry", "prefix")}
        return SinkConfig.load({**least, "lake": str(self.folder), **given})


@pytest.fixture
def lake(tmp_path: Path) -> NamedLake:
    """A lake whose tables have their names."""
    for path in (ORDERS, ITEMS, HISTORY):
        write_deltalake(f"{tmp_path}/{path}", pa.table({"id": [1]}))
    lake = NamedLake(tmp_path)
    assert lake.look(ORDERS, ITEMS, HISTORY) == ALL
    return lake


def test_a_table_outside_of_the_cut_keeps_its_name_as_long_as_it_is_there(lake: NamedLake):
    assert lake.look() == ALL
    assert lake.catalog.orders == 1
    shutil.rmtree(lake.folder / ORDERS)
    assert lake.look(ITEMS, HISTORY) == ALL - {"dbo.orders"}


def test_a_name_goes_when_the_configuration_has_no_such_table(lake: NamedLake):
    assert lake.look(ORDERS, ITEMS, HISTORY, kinds={}) == ALL - {"dbo.items_history"}
    excluded = {"tables": {"exclude": [r"dbo\.orders"]}}
    assert lake.look(ORDERS, ITEMS, HISTORY, **excluded) == {"dbo.items", "dbo.items_history"}
    assert lake.look(ITEMS, into={r"dbo\.(orders|items)": "all.rows"}) == set()
    write_deltalake(f"{lake.folder}/shop/all/rows", pa.table({"id": [1]}))
    assert lake.look("shop/all/rows", into={r"dbo\..*": "all.rows"}) == {"all.rows"}


def test_another_name_replaces_the_old_one(lake: NamedLake):
    template = {"catalog": {"kind": "spark", "schema_name": "{database}"}}
    after = lake.look(ORDERS, ITEMS, HISTORY, **template)
    assert after == {"shop.orders", "shop.items", "shop.items_history"}
    assert lake.look(ORDERS, ITEMS, HISTORY, **template) == after
    assert lake.catalog.orders == 2, "nothing was left to do"


def test_a_name_that_could_not_be_removed_is_tried_again(lake: NamedLake):
    excluded = {"tables": {"exclude": [r"dbo\.orders"]}}
    lake.catalog.refuses = {"dbo.orders"}
    assert lake.look(ITEMS, HISTORY, **excluded) == ALL
    lake.catalog.refuses = set()
    assert lake.look(ITEMS, HISTORY, **excluded) == ALL - {"dbo.orders"}
    assert {path for path, _ in NamesTable(lake.config()).read()} == {ITEMS, HISTORY}
