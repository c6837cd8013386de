"""Creation of an Iceberg table, in one commit.

Format version 3: rows that change are marked in deletion vectors, and every row has a lineage. The
key's columns are identifier fields. The table starts with an empty snapshot, so the branch for
staging exists from the first moment on. Its data files have a folder that no other table ever had,
so whatever is in there and in none of its snapshots is nobody's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from py4j.protocol import Py4JError

from tailrace_sink.errors import ConfigError
from tailrace_sink.iceberg.catalog import IcebergCatalog
from tailrace_sink.iceberg.loaded_table import LoadedTable
from tailrace_sink.iceberg.names import BRANCH, TableId
from tailrace_sink.iceberg.stamp import Stamp
from tailrace_sink.options.layout_options import NO_LAYOUT, Layout
from tailrace_sink.spark.jvm_errors import cause_classes

PROPERTIES: Final[Mapping[str, str]] = {
    "format-version": "3",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    # A batch is small: shuffling it by partition costs more than some more files.
    "write.distribution-mode": "none",
    "write.metadata.delete-after-commit.enabled": "true",
}
DATA_PROPERTY: Final = "write.data.path"
"""Property with the folder of a table's data files."""
_EXISTS: Final = "org.apache.iceberg.exceptions.AlreadyExistsException"
_NEVER_IDENTIFY: Final = frozenset({"float", "double"})
_OWN: Final = re.compile(r"/[0-9a-f]{32}$")
TRANSFORM: Final = re.compile(
    r"(?P<name>year|month|day|hour)s?\((?P<column>.+)\)"
    r"|(?P<sized>bucket|truncate)\((?P<size>\d+) *, *(?P<of>.+)\)"
)
"""A function of a column to partition by."""


@dataclass(frozen=True, slots=True)
class NewTable:
    """What a table is created with.

    Attributes:
        columns: with types and comments, as for CREATE TABLE of Spark.
        key: names of the key's columns, which are declared NOT NULL.
        layout: partitioned by columns, or by ``day(c)``, ``bucket(16, c)`` and their like;
            clustered means sorted when small files are combined.
        data: address below which its data files get a folder; empty: where the catalog puts them.
    """

    columns: str
    key: Sequence[str] = ()
    layout: Layout = NO_LAYOUT
    properties: Mapping[str, str] = field(default_factory=dict)
    data: str = ""


def create_table(catalog: IcebergCatalog, name: TableId, new: NewTable, stamp: Stamp) -> bool:
    """Create a table, with its branch, unless there is one of this name.

    Returns:
        Whether this call created it.

    Raises:
        ConfigError: the table has no column to partition or to cluster by.
        CatalogUnavailable, CatalogUnusable, ApplyFailed: the catalog failed.
    """
    catalog.ensure_namespace(name)
    schema = _schema(catalog, new)
    properties = {**PROPERTIES, **new.properties}
    builder = catalog.java.buildTable(catalog.identifier(name), schema)
    builder = builder.withPartitionSpec(_partitions(catalog, name, new, schema))
    for column in new.layout.cluster_by:
        known_column(schema, name, column, "cluster_by")
    for entry, text in properties.items():
        builder = builder.withProperty(entry, text)
    try:
        transaction = builder.createTransaction()
        base = new.data or properties.get(DATA_PROPERTY)
        base = base or f"{transaction.table().location()}/data"
        change = transaction.updateProperties()
        change.set(DATA_PROPERTY, f"{base}/{uuid4().hex}")
        change.commit()
        append = transaction.newFastAppend()
        for entry, text in stamp.summary.items():
            append.set(entry, text)
        append.commit()
        snapshot = transaction.table().currentSnapshot().snapshotId()
        transaction.manageSnapshots().createBranch(BRANCH, snapshot).commit()
        transaction.commitTransaction()
    except Py4JError as error:
        if _EXISTS in cause_classes(error):
            return False
        raise catalog.failure(f"creating table {name}", error) from error
    return True


def own_folder(table: LoadedTable) -> str | None:
    """Return the folder that only this table's data files are in; None if somebody changed it."""
    folder = table.property(DATA_PROPERTY)
    return folder if folder is not None and _OWN.search(folder) else None


def _schema(catalog: IcebergCatalog, new: NewTable) -> Any:
    """Return Iceberg's schema of the columns; fields get their ids in this order."""
    struct = catalog.spark_types.fromDDL(new.columns)
    schema = catalog.jvm.spark.SparkSchemaUtil.convert(struct)
    fields = [schema.findField(column) for column in new.key]
    if not fields or any(str(f.type().toString()) in _NEVER_IDENTIFY for f in fields):
        return schema
    ids = catalog.ids([int(f.fieldId()) for f in fields])
    return catalog.jvm.Schema(schema.columns(), ids)


def _partitions(catalog: IcebergCatalog, name: TableId, new: NewTable, schema: Any) -> Any:
    spec = catalog.jvm.PartitionSpec.builderFor(schema)
    for text in new.layout.partition_by:
        found = TRANSFORM.fullmatch(text)
        if found is None:
            spec.identity(known_column(schema, name, text, "partition_by"))
        elif found["sized"]:
            column = known_column(schema, name, found["of"], "partition_by")
            getattr(spec, found["sized"])(column, int(found["size"]))
        else:
            getattr(spec, found["name"])(
                known_column(schema, name, found["column"], "partition_by")
            )
    return spec.build()


def known_column(schema: Any, table: TableId, column: str, option: str) -> str:
    """Return the name of a column that a schema has.

    Raises:
        ConfigError: it has none of that name.
    """
    if schema.findField(column) is None:
        raise ConfigError([f"{option}: table {table} has no column {column}: correct the name"])
    return column
