"""What the server says of partitions, and which tables allow to switch them."""

from __future__ import annotations

import uuid
from typing import cast

import pytest
from structlog.testing import capture_logs

from emulator.tests.fix_sqlserver import GivenServer, SourceServer
from tailrace_publisher.daemon.checks.protected_rows import warn_of_switches
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog.instances import read_catalog
from tailrace_publisher.source.catalog.partitions import are_elsewhere, captured_partitions
from tailrace_publisher.source.connection.connection import OdbcConnection
from tests.pipeline.source_database import SourceDatabase, source_options


@pytest.fixture
def source(source_server: SourceServer) -> SourceDatabase:
    """Captured tables: one in a single partition, one in three, one in three that stay."""
    source = SourceDatabase(source_server, f"parts_{uuid.uuid4().hex[:8]}")
    source.execute(
        "CREATE PARTITION FUNCTION by_id (int) AS RANGE RIGHT FOR VALUES (10, 20)",
        "CREATE PARTITION SCHEME by_id AS PARTITION by_id ALL TO ([PRIMARY])",
        "CREATE TABLE dbo.whole (id int PRIMARY KEY)",
        "CREATE TABLE dbo.parts (id int PRIMARY KEY) ON by_id (id)",
        "CREATE TABLE dbo.fixed (id int PRIMARY KEY) ON by_id (id)",
        "CREATE TABLE dbo.archive (id int PRIMARY KEY)",
        "INSERT dbo.parts VALUES (1), (11)",
    )
    source.enable("whole")
    source.enable("parts")
    source.enable("fixed", allow_partition_switch="0")
    return source


def test_a_switch_exchanges_ids(source: SourceDatabase):
    """What ADR 0055 infers."""
    ids = (
        "SELECT partition_number, partition_id FROM sys.partitions WHERE index_id IN (0, 1)"
        " AND object_id = OBJECT_ID(?) ORDER BY partition_number"
    )
    parts = source.query(ids, "dbo.parts")
    ((_, archive),) = source.query(ids, "dbo.archive")

    source.execute("ALTER TABLE dbo.parts SWITCH PARTITION 2 TO dbo.archive")

    assert source.query(ids, "dbo.archive") == [(1, parts[1][1])]
    assert source.query(ids, "dbo.parts") == [parts[0], (2, archive), parts[2]]

    if not isinstance(source.server, GivenServer):
        return  # the embedded server rebuilds nothing
    source.execute("ALTER INDEX ALL ON dbo.parts REBUILD")
    rebuilt = {partition for _, partition in source.query(ids, "dbo.parts")}
    assert not rebuilt & {partition for _, partition in [*parts, (0, archive)]}


def test_partitions_of_captured_tables_and_which_may_be_switched(source: SourceDatabase):
    with OdbcConnection(source_options(source)) as connection:
        ids = {
            str(name): connection.query("SELECT OBJECT_ID(?)", f"dbo.{name}")[0][0]
            for name in ("whole", "parts", "fixed", "archive")
        }
        found = captured_partitions(connection)
        assert found.keys() == {ids["whole"], ids["parts"], ids["fixed"]}
        assert [number for number, one in found.items() if one.is_fixed] == [ids["fixed"]]
        assert list(found[ids["whole"]].rows.values()) == [0]
        assert sorted(found[ids["parts"]].rows.values(), key=str) == [0, 1, 1]
        assert are_elsewhere(connection, found[ids["parts"]].rows)
        assert not are_elsewhere(connection, [1, 2])

        instances = read_catalog(connection, source.name, {}).instances
        with capture_logs() as logs:
            warn_of_switches(cast(Connection, connection), instances)
    (told,) = logs
    assert told["event"] == "partition_switch_allowed"
    assert (told["table"], told["partitions"]) == (f"{source.name}.dbo.parts", 3)
