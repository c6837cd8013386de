"""Permanent views of one cut in a catalog: readers need no Tailrace, and no versions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_sink.delta.registration import LABEL_PROPERTY, LAKE_PROPERTY, replace_views
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.state_json import state_of_row
from tailrace_sink.reading.cut_errors import CutUnknown
from tailrace_sink.reading.kept_cuts import require_kept
from tailrace_sink.reading.reader import commit_row
from tailrace_sink.reading.tail_plan import Point
from tailrace_sink.spark.jvm_errors import translated
from tailrace_sink.tables.catalog_names import CatalogName, catalog_names
from tailrace_sink.tables.lake_table import quote, source_path
from tailrace_sink.tables.origins import not_from


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
            raise CutUnknown(f"lake {lake} has no cut yet")
        require_kept(spark, lake, row["batch"])
        versions, left_out = dict(row["tables"]), state_of_row(row.asDict()).left_out
        names = {
            path: CatalogName(f"{name.schema}_{label}", name.table)
            for path, name in catalog_names(versions, catalog.schema_name).items()
        }
        views = {}
        for path, name in names.items():
            at = f"delta.{quote(f'{lake}/{path}')} VERSION AS OF {versions[path]}"
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
