"""Errors of reading a lake without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Self

from tailrace_sink.errors import SinkError

WITH_SPARK: Final = "read it with Spark: tailrace_sink.read(spark, lake)"


class ExtraMissing(ModuleNotFoundError):
    """A package of an extra is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"{package} is not installed. Fix: pip install 'tailrace[{extra}]'", name=package
        )


@contextmanager
def from_extra(extra: str) -> Iterator[None]:
    """Name the extra that brings a package which an import in the block does not find.

    Raises:
        ExtraMissing: the package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if not package or package.startswith("tailrace"):
            raise
        raise ExtraMissing(package, extra) from error


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

    @classmethod
    def of(cls, error: Exception, fix: str) -> Self:
        """Create the error for one of DuckDB, in one line: without its picture of the place."""
        reason = " ".join(str(error).partition("\n\nLINE ")[0].split())
        return cls(reason.rstrip(".!"), fix)


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
