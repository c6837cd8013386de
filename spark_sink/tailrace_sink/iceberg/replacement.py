"""Other columns for a table, which is about to be emptied and filled again.

The columns get new field ids, so no value of an old one is ever read as one of a new one. Versions
before have the old columns. Their identities stay in a property, by field id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JError

from tailrace_sink.iceberg.catalog import IcebergCatalog
from tailrace_sink.iceberg.loaded_table import LoadedTable
from tailrace_sink.iceberg.names import TableId
from tailrace_sink.iceberg.new_table import TRANSFORM, known_column
from tailrace_sink.iceberg.past_columns import FORMER_PROPERTY, former_identities
from tailrace_sink.tables.column_identity import Identity


def replace_columns(
    catalog: IcebergCatalog,
    table: LoadedTable,
    columns: str,
    identities: Mapping[str, Identity],
    partition_by: Sequence[str],
    properties: Mapping[str, str],
) -> None:
    """Replace all columns of a table, in one commit; rows have no values in the new ones.

    Args:
        columns: the new ones, as for CREATE TABLE of Spark.
        identities: of the present columns that mirror the source's, by name.

    Raises:
        ConfigError: the table has no column to partition by.
        CatalogUnavailable, CatalogUnusable, ApplyFailed: the catalog failed.
    """
    name, present = table.name, table.java.schema()
    schema = catalog.jvm.spark.SparkSchemaUtil.convert(catalog.spark_types.fromDDL(columns))
    former = former_identities(table.properties)
    for column, identity in identities.items():
        former[int(present.findField(column).fieldId())] = identity
    kept = {FORMER_PROPERTY: json.dumps(former, separators=(",", ":"))}
    try:
        transaction = table.java.newTransaction()
        _without_partitions(transaction)
        update = transaction.updateSchema().setIdentifierFields(catalog.ids(()))
        for field in list(present.columns()):
            update.deleteColumn(field.name())
        for field in list(schema.columns()):
            update.addColumn(field.name(), field.type(), field.doc())
        update.commit()
        if partition_by:
            spec = transaction.updateSpec()
            for text in partition_by:
                spec.addField(_term(catalog, name, schema, text))
            spec.commit()
        change = transaction.updateProperties()
        for entry, text in {**properties, **kept}.items():
            change.set(entry, text)
        change.commit()
        transaction.commitTransaction()
    except Py4JError as error:
        raise catalog.failure(f"replacing the columns of table {name}", error) from error


def _term(catalog: IcebergCatalog, table: TableId, schema: Any, text: str) -> Any:
    """Return Iceberg's form of a column, or of a function of it, to partition by."""
    found, of = TRANSFORM.fullmatch(text), catalog.jvm.expressions.Expressions
    if found is None:
        return of.ref(known_column(schema, table, text, "partition_by"))
    if found["sized"]:
        column = known_column(schema, table, found["of"], "partition_by")
        return getattr(of, found["sized"])(column, int(found["size"]))
    return getattr(of, found["name"])(known_column(schema, table, found["column"], "partition_by"))


def _without_partitions(transaction: Any) -> None:
    fields = list(transaction.table().spec().fields())
    if fields:
        update = transaction.updateSpec()
        for field in fields:
            update.removeField(field.name())
        update.commit()
