"""Errors of reading a lake without Spark."""

from __future__ import annotations

from typing import Final

from tailrace_sink.errors import SinkError

WITH_SPARK: Final = "read it with Spark: tailrace_sink.read(spark, lake)"


class LakeUnreadable(SinkError):
    """A part of the lake cannot be read."""

    def __init__(self, address: str, reason: str) -> None:
        self.address = address
        super().__init__(
            f"{address} cannot be read ({reason}). Fix: check the address, the options of the store"
            " and the permissions on it"
        )


class FeatureUnsupported(SinkError):
    """A lake table has a feature of Delta that no installed reader supports.

    Attributes:
        features: Delta's names of the features that the table has.
    """

    def __init__(self, table: str, version: int, features: tuple[str, ...], reason: str) -> None:
        self.table = table
        self.features = features
        super().__init__(
            f"table {table} at version {version} has Delta's features {', '.join(features)}, of"
            f" which deltalake does not read all, nor does DuckDB here ({reason}). Fix:"
            " install DuckDB's delta extension (pip install 'tailrace[lake]'), or"
            f" {WITH_SPARK}"
        )


class NeedsSpark(SinkError):
    """A read that only Spark's reader does."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what}: {reason}. Fix: {WITH_SPARK}")


class QueryFailed(SinkError):
    """DuckDB refuses a statement."""

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(f"{reason}. Fix: {fix}")


class ColumnsChanged(SinkError):
    """A source table got columns or types that a stream of its changes started without.

    Attributes:
        columns: name and type of each.
    """

    def __init__(self, table: str, columns: list[str]) -> None:
        self.table = table
        self.columns = tuple(columns)
        super().__init__(
            f"table {table} has columns that this stream started without: {', '.join(columns)}."
            " Fix: start the query again, with the same checkpoint. It continues where it stopped,"
            " with the new columns"
        )
