"""The fence: a sink that was replaced cannot write to any lake table (ADR 0058).

The log says which sink is the newest, but a commit of another table does not read the log. So each
table names its owner by log and epoch (``tailrace.owner``). A sink takes a table before it reads
it. That commit changes the table's metadata, so Delta refuses every commit in progress. Later
commits see the newer owner:

- A transaction of the sink's own compares the owner in the version that it read.
- A statement has a transaction version that starts with the epoch. Taking the table has written
  that of the newer sink, so Delta skips the statement.
- An ALTER has neither. The owner is compared before it runs, and Delta refuses it if another sink
  takes the table meanwhile.

A compaction needs no fence: it changes no row, and Delta refuses it if rows changed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final

from pyspark.sql import SparkSession

from tailrace_sink.delta.commits import in_parts
from tailrace_sink.delta.conflicts import retried
from tailrace_sink.delta.file_log import table_metadata
from tailrace_sink.delta.foreign_commits import OwnVersions
from tailrace_sink.delta.transaction import DeltaTransaction
from tailrace_sink.errors import ApplyFailed
from tailrace_sink.ports.writes import Owner
from tailrace_sink.tables.lake_table import OWNER_PROPERTY, properties_ddl, quote

_EPOCH_BITS: Final = 40
_TRANSACTION: Final = "spark.databricks.delta.write"
_NUMBERS: Final = count(1)
"""Numbers of this process's statements. Only one process has an epoch; Delta skips a number that it
has seen."""
COMMITTED: Final = "spark.databricks.delta.lastCommitVersionInSession"
"""Setting with the version of the session's last commit. Delta does not set it when it skips a
write."""


def epochs_scope(log: str) -> str:
    """Return the application id whose versions start with the epoch of a log's sink."""
    return f"tailrace-fold-{log}"


@dataclass(frozen=True, slots=True)
class Fence:
    """Comparison of a sink with the owner of a table, at every commit, which ``own`` records."""

    owner: Owner
    own: OwnVersions

    def enter(self, spark: SparkSession, location: str) -> bool:
        """Take a table from its owner, before it is read.

        Returns:
            Whether another sink owned it; False also without a table.

        Raises:
            LakeTaken: a newer sink owns it.
            PySparkException, Py4JError: Spark failed.
        """
        return retried(f"taking {location}", partial(self._enter, spark, location))

    def require(self, location: str, owner: str | None) -> None:
        """Refuse to write to a table that another sink owns.

        Args:
            owner: the table's property, in the version on which the write builds.

        Raises:
            LakeTaken: a newer sink owns it.
            RowsChanged: the table that the sink took is gone.
            ApplyFailed: an older version of the table was restored, so it must be taken again.
        """
        if owner != self.owner.text:
            self.owner.check()
            if owner is None:
                raise self.own.changed(location, "it was removed, or created again")
            raise ApplyFailed(f"writing to {location}", f"its owner {owner} is no known sink")

    def alter(self, spark: SparkSession, location: str, statement: str) -> None:
        """Run an ALTER of a table that this sink owns.

        Raises:
            LakeTaken: a newer sink owns it.
            PySparkException, Py4JError: Spark failed.
        """

        def run() -> None:
            self.require_now(spark, location)
            self._noted(spark, location, partial(spark.sql, statement))

        retried(f"altering {location}", run)

    def write(self, spark: SparkSession, location: str, run: Callable[[], object]) -> None:
        """Run a statement, or another write, that changes rows of a table.

        Args:
            spark: the session of the write; used by this thread only.
            run: does the write; called again after a conflict.

        Raises:
            LakeTaken: a newer sink owns the table; nothing was written.
            ApplyFailed: as :meth:`require` raises it.
            PySparkException, Py4JError: Spark failed.
        """

        def numbered() -> None:
            write = partial(_as_version, spark, *self.next_version(), run)
            self._noted(spark, location, write)
            self.require_now(spark, location)

        retried(f"writing to {location}", numbered)

    def write_once(
        self,
        spark: SparkSession,
        location: str,
        application: str,
        batch: int,
        run: Callable[[], object],
    ) -> None:
        """Run a statement once per batch id.

        The batch id is the transaction version. A newer sink finishes this batch before any later
        one. So Delta skips the statement of an older sink, if it came late.

        Args:
            application: scope of the version.

        Raises:
            LakeTaken: a newer sink owns the table.
            ApplyFailed: as :meth:`require` raises it.
            PySparkException, Py4JError: Spark failed.
        """

        def as_batch() -> None:
            self.require_now(spark, location)
            self._noted(spark, location, partial(_as_version, spark, application, batch, run))
            self.require_now(spark, location)

        retried(f"writing to {location}", as_batch)

    def next_version(self) -> tuple[str, int]:
        """Return a transaction version that no other commit has: application id and number."""
        return self._application, self._version(next(_NUMBERS))

    def _noted(self, spark: SparkSession, location: str, write: Callable[[], object]) -> None:
        """Write, and record the version that it committed."""
        spark.conf.unset(COMMITTED)
        write()
        version = spark.conf.get(COMMITTED, None)
        self.own.note(location, None if version is None else int(version))

    @property
    def _application(self) -> str:
        return epochs_scope(self.owner.log)

    def _version(self, number: int) -> int:
        return (self.owner.epoch << _EPOCH_BITS) | number

    def require_now(self, spark: SparkSession, location: str) -> None:
        """Call :meth:`require` with the newest version of a table."""
        metadata = table_metadata(spark, location)
        self.require(
            location, None if metadata is None else metadata.properties.get(OWNER_PROPERTY)
        )

    def _enter(self, spark: SparkSession, location: str) -> bool:
        metadata = table_metadata(spark, location)
        if metadata is None or metadata.properties.get(OWNER_PROPERTY) == self.owner.text:
            return False

        def taken() -> bool:
            self._take(location, DeltaTransaction(spark, location))
            return True

        if not in_parts(spark, f"taking {location}", taken):
            self._take_publicly(spark, location)
        return True

    def _take_publicly(self, spark: SparkSession, location: str) -> None:
        """Take a table in two commits, as no public statement does both.

        The version is first. From then on Delta skips statements of an older sink, and refuses
        those in progress. Appends and ALTERs are refused once the owner is set.
        """
        self.owner.check()
        none = spark.read.format("delta").load(location).limit(0)
        writer = none.write.format("delta").mode("append").option("txnAppId", self._application)
        writer.option("txnVersion", self._version(0)).save(location)
        self.owner.check()
        owner = properties_ddl({OWNER_PROPERTY: self.owner.text})
        spark.sql(f"ALTER TABLE delta.{quote(location)} SET TBLPROPERTIES ({owner})")

    def _take(self, location: str, transaction: DeltaTransaction) -> None:
        # A newer sink is in the log before it takes any table. So in this order the log knows every
        # sink that the table may name. An unknown one came with a copy that was restored.
        self.owner.check()
        transaction.add_version(self._application, self._version(0))
        self.own.note(location, transaction.commit_property(OWNER_PROPERTY, self.owner.text))


def _as_version(
    spark: SparkSession, application: str, version: int, run: Callable[[], object]
) -> None:
    """Run a write with a transaction version; Delta skips it if the table has that version."""
    settings = {
        f"{_TRANSACTION}.txnAppId": application,
        f"{_TRANSACTION}.txnVersion": str(version),
    }
    with ExitStack() as stack:
        for name, value in settings.items():
            # A setting that is left would silently skip the session's next write.
            stack.callback(spark.conf.unset, name)
            spark.conf.set(name, value)
        run()
