"""Names of Delta tables in a catalog: statements, and what a catalog answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_sink.errors import NameTaken
from tailrace_sink.spark.jvm_errors import translated
from tailrace_sink.tables.catalog_names import CatalogName
from tailrace_sink.tables.lake_table import literal, properties_ddl, quote

LAKE_PROPERTY: Final = "tailrace.lake"
"""Property of a view: the lake that it reads."""
LABEL_PROPERTY: Final = "tailrace.name"
"""Property of a view: the name that its cut was given."""
_LOCATION: Final = "Location: "


class Answer(NamedTuple):
    """What became of one name of a lake table.

    Attributes:
        path: of the table, below the lake.
        problem: why the catalog is not as ordered; None if it is.
    """

    path: str
    name: str
    problem: str | None


def carry_out(spark: SparkSession, order: Mapping[str, Any]) -> Iterator[Answer]:
    """Remove names of lake tables from a catalog, and give others, one after the other.

    Args:
        order: ``lake``, ``catalog``, and in ``drop`` and ``names`` pairs of a table's path below
            the lake and its name.
    """
    catalog = order["catalog"]
    for verb, act in (("drop", unregister), ("names", register)):
        for path, text in order[verb]:
            location, name = f"{order['lake']}/{path}", CatalogName.parse(text)
            yield Answer(path, text, _problem(act, spark, catalog, location, name))


def _problem(
    act: Callable[[SparkSession, str, str, CatalogName], None],
    spark: SparkSession,
    catalog: str,
    location: str,
    name: CatalogName,
) -> str | None:
    try:
        act(spark, catalog, location, name)
    except NameTaken as error:
        return str(error)
    except (PySparkException, Py4JError) as error:
        return str(translated(f"naming {location} {catalog}.{name}", error))
    return None


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


def unregister(spark: SparkSession, catalog: str, location: str, name: CatalogName) -> None:
    """Remove a Delta table's name. Its files stay, and so does another table of that name.

    Raises:
        PySparkException, Py4JError: the catalog failed.
    """
    try:
        found = _registered_location(spark, catalog, name)
    except PySparkException as error:
        if error.getCondition() != "SCHEMA_NOT_FOUND":
            raise
        return
    if _plain(found) == _plain(location):
        spark.sql(f"DROP TABLE IF EXISTS {quoted(catalog, name)}")


def _registered_location(spark: SparkSession, catalog: str, name: CatalogName) -> str:
    """Read where a table of a catalog is, also if its files are gone; empty without a table."""
    place = f"{quote(catalog)}.{quote(name.schema)}"
    shown = spark.sql(f"SHOW TABLE EXTENDED IN {place} LIKE {literal(name.table)}")
    lines = "\n".join(row["information"] for row in shown.where("NOT isTemporary").collect())
    found = [line for line in lines.splitlines() if line.startswith(_LOCATION)]
    return found[0].removeprefix(_LOCATION) if found else ""


def replace_views(
    spark: SparkSession,
    catalog: str,
    views: Mapping[CatalogName, str],
    properties: Mapping[str, str],
) -> None:
    """Replace the lake's views of one name, in all schemas of the catalog, by others.

    All old views are dropped before the first new one is created. Meanwhile a reader gets an error,
    not views of two cuts.

    Args:
        views: name to the query of each view.
        properties: of each view; with ``LAKE_PROPERTY`` and ``LABEL_PROPERTY``.

    Raises:
        NameTaken: a name belongs to something else. Nothing was dropped.
        PySparkException, Py4JError: the catalog failed.
    """
    schemas = {view.schema for view in views}
    for schema in sorted(schemas):
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS {quote(catalog)}.{quote(schema)}")
    old = list(_ours(spark, catalog, schemas, properties))
    for name in views.keys() - set(old):
        if spark.catalog.tableExists(quoted(catalog, name)):
            raise NameTaken(f"{catalog}.{name}", "another view or table")
    for name in old:
        spark.sql(f"DROP VIEW IF EXISTS {quoted(catalog, name)}")
    listed = properties_ddl(properties)
    for name, query in sorted(views.items()):
        spark.sql(f"CREATE VIEW {quoted(catalog, name)} TBLPROPERTIES ({listed}) AS {query}")


def _ours(
    spark: SparkSession, catalog: str, schemas: Collection[str], properties: Mapping[str, str]
) -> Iterator[CatalogName]:
    """Find the lake's views of one name.

    Args:
        schemas: in which views of an earlier release, without the property of the name, are meant.
    """
    lake, label = properties[LAKE_PROPERTY], properties[LABEL_PROPERTY]
    like = literal(f"*{label}")
    found = {row[0] for row in spark.sql(f"SHOW SCHEMAS IN {quote(catalog)} LIKE {like}").collect()}
    for schema in sorted(found):
        views = spark.sql(f"SHOW VIEWS IN {quote(catalog)}.{quote(schema)}")
        for row in views.where("NOT isTemporary").collect():
            name = CatalogName(schema, row["viewName"])
            shown = spark.sql(f"SHOW TBLPROPERTIES {quoted(catalog, name)}").collect()
            has = dict(map(tuple, shown))
            named = has.get(LABEL_PROPERTY, label if schema in schemas else None)
            if has.get(LAKE_PROPERTY) == lake and named == label:
                yield name


def _plain(location: str) -> str:
    """Return a location without what Hadoop adds to a local path."""
    text = location.rstrip("/")
    if not text.startswith("file:"):
        return text
    return "/" + text.removeprefix("file:").lstrip("/")
