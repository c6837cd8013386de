"""The table format port: what the fold and the readers need of lake tables (ADR 0096).

Nothing above it names a format. ``delta`` implements it. Every method takes a session, which only
the calling thread uses, and a table's path below the lake (``LakeTable.path``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.plan.sink_state import CutPoint
from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.ports.writes import (
    Check,
    Destination,
    Examine,
    Latest,
    Once,
    Owner,
    Published,
    WrittenFiles,
)
from tailrace_sink.rows.writer_schema import WriterSchema
from tailrace_sink.tables.lake_table import Feature, Kind, LakeTable


class TableReader(Protocol):
    """The tables of one lake, as any session may read them."""

    def version(self, spark: SparkSession, path: str) -> int:
        """Return the newest version of a table; -1 if there is none."""

    def described(
        self, spark: SparkSession, table: TableName, kind: Kind, at: int | None = None
    ) -> LakeTable | None:
        """Describe a table, now or at a version; None if there is none.

        Raises:
            LakeTableChanged: somebody else changed columns or properties that the sink needs.
        """

    def rows(self, spark: SparkSession, path: str, at: int | None = None) -> DataFrame:
        """Read a table, now or at a version."""

    def name(self, path: str) -> str:
        """Return a table's name in SQL; ``VERSION AS OF`` may follow it in a query."""

    def require_own_rows(
        self, spark: SparkSession, path: str, since: int, log: str, prefix: str
    ) -> None:
        """Require that only the sink has changed rows of a table since a version.

        Args:
            since: version of the last cut.
            log: id of the log's table, to which the sink's epochs belong.
            prefix: of the sink's topics.

        Raises:
            RowsChanged: somebody else changed rows since that version, or it is gone.
        """


class TableWriter(TableReader, Protocol):
    """The tables of one lake, as the sink with one epoch writes them.

    Writes are run again after a conflict with another writer. All of them raise ``LakeTaken`` if a
    newer sink has the table, and ``PySparkException`` or ``Py4JError`` if Spark failed. Writes of
    rows raise ``PartitionValueRefused`` instead of writing a value that the format does not hold.
    """

    @property
    def reserved(self) -> frozenset[str]:
        """Names, in lower case, that no column can have."""

    def begin(self, cut: CutPoint) -> None:
        """Begin a batch, to which all writes belong from now on."""

    def publish(self, spark: SparkSession, versions: Mapping[str, int]) -> Published[str]:
        """Let readers see the versions of a batch's tables, if they do not yet.

        Args:
            versions: path to the version of each table that the batch wrote.

        Returns:
            If it is not done: why, and the versions with which to call it again. Somebody else has
            committed in between. Tables to be staged again must be read again before.

        Raises:
            SinkError: none was published, or perhaps all; applying the batch again settles it.
        """

    def bytes(self, spark: SparkSession, path: str) -> int:
        """Return the bytes of the table's files; 0 if there is none."""

    def take(self, spark: SparkSession, path: str) -> None:
        """Take a table from an older sink, before it is read."""

    def builds_on(self, spark: SparkSession, path: str, since: int | None) -> int:
        """Return the version on which a batch builds; -1 if there is no table.

        Args:
            since: version of the last cut; None: the table is adopted as it is.

        Raises:
            RowsChanged: somebody else changed rows since that version, or it is gone.
        """

    def written(self, spark: SparkSession, path: str, since: int) -> int:
        """Return the version with what a batch wrote.

        Args:
            since: version on which it built.

        Raises:
            RowsChanged: somebody else changed rows meanwhile.
        """

    def create(self, spark: SparkSession, table: LakeTable) -> None:
        """Create a table if there is none."""

    def replace(self, spark: SparkSession, table: LakeTable) -> LakeTable:
        """Replace a table by an empty one of other columns; earlier versions stay.

        Returns:
            The table with the features that it has now.
        """

    def alter(self, spark: SparkSession, path: str, change: str | Feature) -> None:
        """Change a table's columns or properties.

        Args:
            change: the clause after ``ALTER TABLE`` and the name; or a feature to turn on.
        """

    def append(
        self,
        rows: DataFrame,
        path: str,
        once: Once,
        check: Check | None = None,
        examine: Examine | None = None,
    ) -> None:
        """Append rows once.

        Args:
            check: called after the rows were written and before the commit. If it raises, the table
                stays as it was.
            examine: the same, after ``check``.

        Raises:
            AppendRefused: ``examine`` raised it, or could not be called.
            AppendSkipped: the table has a later batch of the scope.
        """

    def upsert(self, spark: SparkSession, table: LakeTable, latest: Latest) -> bool:
        """Apply the last change of each key in one commit; False if a MERGE is needed."""

    def run(
        self,
        spark: SparkSession,
        path: str,
        statement: str,
        once: Once | None = None,
        rows: DataFrame | None = None,
    ) -> None:
        """Run a statement that changes rows; with ``once``, once.

        Args:
            rows: what the statement writes, other than rows of the table; read before.
        """

    def done(self, spark: SparkSession, path: str, once: Once) -> int | None:
        """Return the newest batch of a scope in a table, if it is a given one or later."""

    def write_files(
        self,
        spark: SparkSession,
        writers: Sequence[WriterSchema],
        ranges: TopicRange,
        destinations: Sequence[Destination],
    ) -> Mapping[str, WrittenFiles]:
        """Write the changes of a bulk range into files of some tables.

        Args:
            writers: all schemas that the messages may have.

        Returns:
            Path of a table to its files; empty if Spark must decode this range.

        Raises:
            NotAsCounted: the messages are not what the ledger counts.
        """

    def removal(self, path: str) -> str:
        """Return what an operator does to remove a table, as the words of an imperative."""

    def retain(self, spark: SparkSession, path: str, since: int | None) -> None:
        """Update properties for retention and maintenance to the options.

        Args:
            since: version of the last cut; None if the table is not in it.

        Raises:
            RowsChanged: somebody else changed rows since.
        """

    def is_refused(self, error: PySparkException | Py4JError) -> bool:
        """Whether a constraint or a property of the table refused a write; the sink sets none."""

    def is_conflict(self, error: PySparkException | Py4JError) -> bool:
        """Whether a commit conflicted with another one."""


class Compaction(Protocol):
    """Compaction of lake tables between batches."""

    def note(self, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """Record which tables are due, by their versions before and after a batch."""

    def run(self) -> str | None:
        """Compact the table that has waited longest; return its path, or None if none is due.

        Raises:
            SinkError: Spark failed. A conflict with a writer is left to the next run instead.
        """


class TableFormat(TableReader, Protocol):
    """A table format, chosen when the sink starts."""

    @property
    def versions_slow_writes(self) -> bool:
        """Whether those of no kept cut are removed at once, as each one makes writes slower."""

    def writer(self, owner: Owner) -> TableWriter:
        """Return the tables as one sink writes them."""

    def prove(self) -> None:
        """Prove what the format needs of a catalog, once at the start.

        Raises:
            SinkError: the catalog does not do it, or does not answer.
        """

    def warm_up(self, spark: SparkSession) -> None:
        """Do the first writes, which take long, into tables of the sink's own.

        Raises:
            SinkError: the lake cannot be written.
        """

    def expire(self, spark: SparkSession, path: str, oldest: int, *, is_full: bool) -> bool:
        """Remove what only versions before one need; False: the caller removes Delta's files.

        Args:
            oldest: version in the oldest kept cut.
            is_full: whether to look for files of writes that failed, too.

        Raises:
            PySparkException, Py4JError: the table cannot be read or written.
        """

    def compaction(self, spark: SparkSession) -> Compaction:
        """Return the compaction, in a session of its own."""
