"""Errors of streams of changes."""

from __future__ import annotations

from tailrace_sink.errors import SinkError


class StreamBroken(SinkError):
    """A stream of changes cannot continue without a gap.

    Attributes:
        after: LSN of the last change that it has; empty: it had none yet.
    """

    def __init__(self, reason: str, after: str) -> None:
        self.after = after
        place = f"after LSN {after}" if after else "from the start of the log"
        super().__init__(
            f"{reason}. The stream cannot continue {place} without a gap. Fix: read the tables as"
            " of a newer cut, and start a query with a new checkpoint location after the LSN of"
            " that cut. To prevent it: keep the log longer than a query may be stopped"
            " (sink.retention), and every change in it (sink.bulk_changes: 0)"
        )


class SparkUnsupported(SinkError):
    """This release of Spark has no data sources in Python."""

    def __init__(self, version: str) -> None:
        super().__init__(
            f"tailrace.spark needs Spark 4.0 or later, and PySpark is {version}: earlier releases"
            " have no data sources in Python. Fix: install pyspark 4.0.1 to 4.2, or read changes"
            " without Spark: tailrace.lake.open(lake).changes(table)"
        )


class ColumnsDiffer(SinkError):
    """A source table got other columns between the load of a DataFrame and its start."""

    def __init__(self) -> None:
        super().__init__(
            "the columns differ from those of the DataFrame: a source table got others since it was"
            " loaded, or .schema(...) was given. Fix: load it again, without .schema(...)"
        )
