"""Names of Delta tables in a catalog: statements, and what a catalog answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_sink.errors import NameTaken
from tailrace_sink.spark.jvm_errors import translated
from tailrace_sink.tables.catalog_names import CatalogName
from tailrace_sink.tables.lake_table import literal, properties_ddl, quote

LAKE_PROPERTY: Final = "tailrace.lake"
"""Property of a view: the lake that it reads."""


def quoted(catalog: str, name: CatalogName) -> str:
    """Quote a table's full name."""
    return ".".join(map(quote, (catalog, *name)))


def register(spark: SparkSession, catalog: str, location: str, name: CatalogName) -> None:
    """Give a Delta table a name if it has none. Nothing is written to the table.

    Raises:
        NameTaken: the name belongs to another table.
        PySparkException, Py4JError: the catalog failed.
    """
    full = quoted(catalog, name)
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {quote(catalog)}.{quote(name.schema)}")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {full} USING delta LOCATION {literal(location)}")
    described = spark.sql(f"DESCRIBE TABLE EXTENDED {full}").where("col_name = 'Location'").first()
    found = "" if described is None else str(described["data_type"])
    if _plain(found) != _plain(location):
        raise NameTaken(f"{catalog}.{name}", found or "a view")


def problem_with(spark: SparkSession, catalog: str, location: str, name: CatalogName) -> str | None:
    """Give a Delta table a name; return why it did not get it."""
    try:
        register(spark, catalog, location, name)
    except NameTaken as error:
        return str(error)
    except (PySparkException, Py4JError) as error:
        return str(translated(f"naming {location} {catalog}.{name}", error))
    return None


def replace_views(
    spark: SparkSession,
    catalog: str,
    views: Mapping[CatalogName, str],
    properties: Mapping[str, str],
) -> None:
    """Replace the lake's views in some schemas by others.

    All old views are dropped before the first new one is created. Meanwhile a reader gets an error,
    not views of two cuts.

    Args:
        views: name to the query of each view.
        properties: of each view; with ``LAKE_PROPERTY``.

    Raises:
        NameTaken: a name belongs to something else. Nothing was dropped.
        PySparkException, Py4JError: the catalog failed.
    """
    lake = properties[LAKE_PROPERTY]
    old = [
        name for schema in {v.schema for v in views} for name in _ours(spark, catalog, schema, lake)
    ]
    for name in views.keys() - set(old):
        if spark.catalog.tableExists(quoted(catalog, name)):
            raise NameTaken(f"{catalog}.{name}", "another view or table")
    for name in old:
        spark.sql(f"DROP VIEW IF EXISTS {quoted(catalog, name)}")
    listed = properties_ddl(properties)
    for name, query in sorted(views.items()):
        spark.sql(f"CREATE VIEW {quoted(catalog, name)} TBLPROPERTIES ({listed}) AS {query}")


def _ours(spark: SparkSession, catalog: str, schema: str, lake: str) -> Iterable[CatalogName]:
    """Views of this lake in a schema, which is created if needed."""
    place = f"{quote(catalog)}.{quote(schema)}"
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {place}")
    for row in spark.sql(f"SHOW VIEWS IN {place}").where("NOT isTemporary").collect():
        name = CatalogName(schema, row["viewName"])
        shown = spark.sql(f"SHOW TBLPROPERTIES {quoted(catalog, name)}").collect()
        if dict(map(tuple, shown)).get(LAKE_PROPERTY) == lake:
            yield name


def _plain(location: str) -> str:
    """Return a location without what Hadoop adds to a local path."""
    text = location.rstrip("/")
    if not text.startswith("file:"):
        return text
    return "/" + text.removeprefix("file:").lstrip("/")
