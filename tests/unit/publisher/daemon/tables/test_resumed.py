"""Whether a table goes on with the version that its checkpoint names, or the registry is asked."""

from dataclasses import replace
from datetime import datetime

import pytest

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.daemon.tables.coverage import PublishedTable
from tailrace_publisher.daemon.tables.resumed_versions import fingerprint_of, resumed_version
from tailrace_publisher.daemon.tables.table_record import TableRecord
from tailrace_publisher.daemon.tables.table_state import TableState
from tailrace_publisher.source.catalog.table_instances import TableInstances
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import (
    SchemaColumn,
    TableSchema,
    envelope_schema,
    table_schema_of,
)
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

TABLE = TableName("shop", "dbo", "orders")
BEGUN, LATER = Lsn(1, 1, 1), Lsn(1, 2, 1)
COLUMNS = (
    SchemaColumn(1, "id", ColumnType("int"), nullable=False, key_ordinal=1),
    SchemaColumn(2, "paid", ColumnType("decimal", precision=9, scale=2), nullable=False),
    SchemaColumn(3, "note", ColumnType("nvarchar", length=20)),
)
VERSION = TableSchema(TABLE, "dbo_orders", BEGUN, COLUMNS)
RECORD = TableRecord(
    TableState.FOLLOWED,
    covers_from=BEGUN,
    instances=("dbo_orders",),
    schema_lsn=BEGUN,
    schema_fingerprint=fingerprint_of(VERSION),
)


def instance(name: str = "dbo_orders") -> CaptureInstance:
    return CaptureInstance(
        name=name,
        table=TABLE,
        low_watermark=BEGUN,
        create_date=datetime.fromisoformat("2026-01-01"),
        object_id=1,
        source_object_id=2,
        supports_net_changes=False,
        ordered_by_command_id=True,
        columns=(),
        key=(),
        identity=(),
    )


def table(*names: str) -> PublishedTable:
    return PublishedTable(TABLE, TableInstances(map(instance, names or ("dbo_orders",))))


def test_a_table_that_is_as_it_was_goes_on_as_the_registry_would_have_it():
    registered = table_schema_of(envelope_schema("p", VERSION))
    assert fingerprint_of(registered) == fingerprint_of(VERSION)
    assert resumed_version(table(), RECORD, COLUMNS, [BEGUN]) == registered


@pytest.mark.parametrize(
    "columns",
    [
        COLUMNS[:2],
        (*COLUMNS[:2], replace(COLUMNS[2], type=ColumnType("nvarchar", length=21))),
        (*COLUMNS[:2], replace(COLUMNS[2], name="remark")),
        (*COLUMNS[:2], replace(COLUMNS[2], ordinal=4)),
        (replace(COLUMNS[0], key_ordinal=0), *COLUMNS[1:]),
    ],
)
def test_other_columns_are_asked_for(columns: tuple[SchemaColumn, ...]):
    assert resumed_version(table(), RECORD, columns, []) is None


def test_ddl_behind_the_version_is_asked_for_though_the_columns_are_the_same_again():
    assert resumed_version(table(), RECORD, COLUMNS, [BEGUN, LATER]) is None


@pytest.mark.parametrize("names", [("another",), ("dbo_orders", "another")])
def test_another_instance_is_asked_for(names: tuple[str, ...]):
    assert resumed_version(table(*names), RECORD, COLUMNS, []) is None


@pytest.mark.parametrize(
    "record",
    [
        TableRecord(),
        replace(RECORD, schema_fingerprint=None),  # of an earlier release
        replace(RECORD, schema_lsn=LATER),
        replace(RECORD, state=TableState.STOPPED),
        replace(RECORD, instances=("older", "dbo_orders")),
    ],
)
def test_what_the_checkpoint_does_not_say_is_asked_for(record: TableRecord):
    assert resumed_version(table(), record, COLUMNS, []) is None
