"""What is written to a lake table: appends, files and last changes (``table_format``)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tailrace_sink.tables.key_bounds import KeyBound
from tailrace_sink.tables.lake_table import LakeTable

Check = Callable[[], None]
"""Called after the rows were read and before their commit; raises :class:`NotAsCounted`."""


Name = TypeVar("Name")
"""Of a table: its path below the lake, or its name in a catalog."""


class NotAsCounted(Exception):
    """The rows that were read are not what the ledger counts, or their number is unknown."""


class RowsChanged(Exception):
    """Somebody else changed rows of a table, or put an older version of it back.

    Attributes:
        path: of the table, below the lake.
        change: which commit it was, or what shows it.
    """

    def __init__(self, path: str, change: str) -> None:
        self.path = path
        self.change = change
        super().__init__(f"{path}: {change}")


@dataclass(frozen=True, slots=True)
class Published(Generic[Name]):
    """What became of the tables of a batch.

    Attributes:
        versions: of each table; others than staged if it stands on a compaction of somebody else.
        is_done: whether readers see them all. Otherwise they are to be published again.
        changed: tables that must stop, with what somebody else did to their rows.
        rewritten: tables that must be staged again, as somebody else moved rows that it deletes.
    """

    versions: Mapping[Name, int]
    is_done: bool = False
    changed: Mapping[Name, str] = field(default_factory=dict)
    rewritten: Collection[Name] = ()


class AppendRefused(Exception):
    """The table has, or may have, keys of the rows: they must be merged."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Identity of a sink, compared at every commit of a lake table.

    Attributes:
        log: id of the log's table, to which epochs belong.
        check: raises ``LakeTaken`` if the log has a newer sink.
    """

    log: str
    epoch: int
    check: Callable[[], None]

    @property
    def text(self) -> str:
        """Value of the property of tables that this sink owns."""
        return f"{self.log} {self.epoch}"


@dataclass(frozen=True, slots=True)
class Once:
    """Identity of a write that takes effect once.

    Attributes:
        scope: batches of one scope grow in a table.
    """

    scope: str
    batch: int


class Added(Protocol):
    """The files of an append before its commit, and those of the table."""

    @property
    def added(self) -> list[Any]:
        """Files of the append."""

    def bounds_of_added(self, table: LakeTable) -> list[KeyBound]:
        """Compute the bounds of the append's keys."""

    def files_meeting(self, bounds: Sequence[KeyBound]) -> list[Any] | None:
        """Select the table's files that may have a key between bounds; None if unknown."""

    def has_none_between(self, bounds: Sequence[KeyBound]) -> bool:
        """Whether no file of the table can have a key between bounds; False without any."""

    def rows_of(self, files: Sequence[Any]) -> DataFrame:
        """Read the rows of some files."""


Examine = Callable[[Added], None]
"""Examines an append before its commit; raises :class:`AppendRefused`."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A table to write.

    Attributes:
        last_only: whether it gets the last change of each key only; else every change.
        keeps_deletes: whether the last change of a deleted key is a row.
    """

    table: LakeTable
    last_only: bool = False
    keeps_deletes: bool = False


class WrittenFiles(Protocol):
    """Files of one table's part of a batch, which were counted and are in no version yet."""

    @property
    def is_reduced(self) -> bool:
        """Whether each task wrote the last change of each key only."""

    @property
    def lacking(self) -> int:
        """How many changes that are no rows lack large values."""

    def keys(self, key: Sequence[str]) -> pa.Table | None:
        """Read the keys of all changes; None if they are too many."""

    def has_distinct(self, key: Sequence[str]) -> bool:
        """Whether all rows are known to have different keys; False also if they are too many."""

    def changes(self, spark: SparkSession, table: LakeTable) -> DataFrame:
        """Read the changes."""

    def append(self, spark: SparkSession, once: Once, examine: Examine | None) -> None:
        """Append the files once.

        Raises:
            NotAsCounted: the table was altered meanwhile.
            AppendRefused, AppendSkipped: as of :meth:`TableWriter.append`.
        """

    def discard(self) -> None:
        """Delete the files that no version can have."""


@dataclass(frozen=True)
class Latest:
    """The last change of each key.

    Attributes:
        read: returns them in the table's columns and the ``_cdc_*`` columns.
        local: the rows in memory, if they are few.
        lacking: condition of rows that do not hold all their values; None: all do. Of rows in
            memory, one does not.
        exact: the bounds, not rounded; empty: unknown.
        written: files with the rows, which may become the table's; else None.
    """

    read: Callable[[], DataFrame]
    bounds: Sequence[KeyBound]
    count: int
    local: pa.Table | None
    lacking: str | None
    exact: Sequence[KeyBound] = ()
    written: WrittenFiles | None = None

    @cached_property
    def rows(self) -> DataFrame:
        """The rows; of those in memory, Spark's form."""
        return self.read()

    def lacks_values(self) -> bool:
        """Whether any row does not hold all its values.

        Raises:
            PySparkException, Py4JError: Spark failed.
        """
        if self.lacking is None:
            return False
        return self.local is not None or bool(self.rows.where(self.lacking).limit(1).collect())
