"""Permanent views of one cut in a catalog: readers need no Tailrace, and no versions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_sink.errors import NameTaken
from tailrace_sink.log.formats import tables_of
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.state_json import state_of_row
from tailrace_sink.reading.cut_errors import CutUnknown
from tailrace_sink.reading.kept_cuts import require_kept
from tailrace_sink.reading.point import Point
from tailrace_sink.reading.reader import commit_row
from tailrace_sink.spark.jvm_errors import translated
from tailrace_sink.tables.catalog_names import CatalogName, catalog_names
from tailrace_sink.tables.lake_table import literal, properties_ddl, quote, source_path
from tailrace_sink.tables.origins import not_from

LAKE_PROPERTY: Final = "tailrace.lake"
"""Property of a view: the lake that it reads."""
LABEL_PROPERTY: Final = "tailrace.name"
"""Property of a view: the name that its cut was given."""


@dataclass(frozen=True, slots=True)
class CutViews:
    """Views that were created.

    Attributes:
        names: of the views, in order.
    """

    names: tuple[CatalogName, ...]
    closed_lsn: str
    closed_commit_time: datetime | None


def create_cut_views(spark: SparkSession, config: SinkConfig, label: str, point: Point) -> CutViews:
    """Create a view of each table of a cut, in schemas that end with a label.

    The versions are those of one commit row; changes that only the log has are not in them.

    Args:
        spark: a session with the catalog.
        label: e.g. ``cut``, for views ``dbo_cut.orders``. The lake's earlier views with it are
            replaced.

    Raises:
        CutForgotten: retention removed the cut. The earlier views stay.
        CutUnknown: no cut is that old.
        NameTaken: a name belongs to something else.
        SinkError: lake or catalog cannot be read or written.
    """
    lake, catalog = config.lake, config.catalog
    try:
        row = commit_row(spark, lake, point)
        if row is None:
            raise CutUnknown.no_cut(lake, point.phrase, None)
        require_kept(spark, lake, row["batch"])
        versions, left_out = dict(row["tables"]), state_of_row(row.asDict()).left_out
        names = {
            path: CatalogName(f"{name.schema}_{label}", name.table)
            for path, name in catalog_names(versions, catalog.schema_name).items()
        }
        tables, views = tables_of(spark, lake), {}
        for path, name in names.items():
            at = f"{tables.name(path)} VERSION AS OF {versions[path]}"
            others = not_from(left_out.get(source_path(path), ())) or "true"
            views[name] = f"SELECT * FROM {at} WHERE {others}"
        properties = {
            LAKE_PROPERTY: lake,
            LABEL_PROPERTY: label,
            "tailrace.lsn": row["through_lsn"],
            "tailrace.batch": str(row["batch"]),
        }
        replace_views(spark, catalog.name, views, properties)
    except (PySparkException, Py4JError) as error:
        raise translated(f"creating views of {lake} in {catalog.name}", error) from error
    return CutViews(tuple(sorted(views)), row["through_lsn"], row["through_commit_time"])


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
        if spark.catalog.tableExists(name.within(catalog)):
            raise NameTaken(f"{catalog}.{name}", "another view or table")
    for name in old:
        spark.sql(f"DROP VIEW IF EXISTS {name.within(catalog)}")
    listed = properties_ddl(properties)
    for name, query in sorted(views.items()):
        spark.sql(f"CREATE VIEW {name.within(catalog)} TBLPROPERTIES ({listed}) AS {query}")


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
            shown = spark.sql(f"SHOW TBLPROPERTIES {name.within(catalog)}").collect()
            has = dict(map(tuple, shown))
            named = has.get(LABEL_PROPERTY, label if schema in schemas else None)
            if has.get(LAKE_PROPERTY) == lake and named == label:
                yield name
