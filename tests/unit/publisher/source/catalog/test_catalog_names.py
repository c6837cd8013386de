"""Names and types of the catalog, asked of tables with the columns that SQL Server's views have."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.source.catalog.capture_catalog import columns_of_captured_tables
from tailrace_publisher.source.catalog.next_instance import next_options
from tailrace_schemas.topics.topic_names import TableName

VIEWS = """
CREATE TABLE sys.types (name, system_type_id, user_type_id);
CREATE TABLE sys.columns (object_id, name, column_id, system_type_id, user_type_id, max_length,
    precision, scale, is_nullable, collation_name);
CREATE TABLE sys.indexes (object_id, name, is_unique);
CREATE TABLE cdc.change_tables (object_id, source_object_id, role_name, index_name, filegroup_name,
    supports_net_changes, partition_switch);
INSERT INTO cdc.change_tables VALUES (1, 2, NULL, 'UX_Main', NULL, 0, 1);
INSERT INTO sys.indexes VALUES (2, 'ux_main', 1);
INSERT INTO sys.types VALUES ('varbinary', 165, 165), ('nvarchar', 231, 231),
    ('sysname', 231, 256), ('geography', 240, 130), ('vector', 165, 255), ('json', 244, 244);
"""


class Catalog:
    def __init__(self) -> None:
        self.database = sqlite3.connect(":memory:")
        for schema in ("sys", "cdc"):
            self.database.execute(f"ATTACH ':memory:' AS {schema}")
        self.database.executescript(VIEWS)
        self.database.create_collation(
            "CATALOG_DEFAULT", lambda a, b: (a.lower() > b.lower()) - (a.lower() < b.lower())
        )

    def query(self, sql: str, *parameters: Any) -> list[Any]:
        return self.database.execute(sql, parameters).fetchall()


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    found = Catalog()
    yield found
    found.database.close()


@pytest.mark.parametrize(
    ("system", "user", "name"),
    [
        (165, 255, "vector"),
        (165, 165, "varbinary"),
        (244, 244, "json"),
        (231, 256, "nvarchar"),
        (231, 257, "nvarchar"),
        (240, 130, "geography"),
    ],
)
def test_a_type_has_its_own_name_though_it_shares_its_system_type(
    catalog: Catalog, system: int, user: int, name: str
):
    column = (2, "c", 1, system, user, 20, 0, 0, 1, None)
    catalog.query(f"INSERT INTO sys.columns VALUES ({', '.join('?' * len(column))})", *column)

    found = columns_of_captured_tables(catalog)

    assert [row.type.name for row in found[2]] == [name]


def test_names_of_indexes_compare_by_the_collation_of_the_catalog(catalog: Catalog):
    instance = CaptureInstance(
        "dbo_t",
        TableName("db", "dbo", "t"),
        None,
        datetime(2013, 1, 1),  # noqa: DTZ001
        1,
        2,
        supports_net_changes=False,
        ordered_by_command_id=True,
        columns=(),
        key=(),
        identity=(),
    )

    assert next_options(catalog, instance, [], []).index == "ux_main"
