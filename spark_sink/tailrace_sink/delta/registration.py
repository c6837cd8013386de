"""Names of Delta tables in a catalog: statements, and what a catalog answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_sink.errors import NameTaken
from tailrace_sink.spark.jvm_errors import translated
from tailrace_sink.tables.catalog_names import CatalogName
from tailrace_sink.tables.lake_table import literal, quote

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


def register(spark: SparkSession, catalog: str, location: str, name: CatalogName) -> None:
    """Give a Delta table a name if it has none. Nothing is written to the table.

    Raises:
        NameTaken: the name belongs to another table.
        PySparkException, Py4JError: the catalog failed.
    """
    full = name.within(catalog)
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
        spark.sql(f"DROP TABLE IF EXISTS {name.within(catalog)}")


def _registered_location(spark: SparkSession, catalog: str, name: CatalogName) -> str:
    """Read where a table of a catalog is, also if its files are gone; empty without a table."""
    place = f"{quote(catalog)}.{quote(name.schema)}"
    shown = spark.sql(f"SHOW TABLE EXTENDED IN {place} LIKE {literal(name.table)}")
    lines = "\n".join(row["information"] for row in shown.where("NOT isTemporary").collect())
    found = [line for line in lines.splitlines() if line.startswith(_LOCATION)]
    return found[0].removeprefix(_LOCATION) if found else ""


def _plain(location: str) -> str:
    """Return a location without what Hadoop adds to a local path."""
    text = location.rstrip("/")
    if not text.startswith("file:"):
        return text
    return "/" + text.removeprefix("file:").lstrip("/")
