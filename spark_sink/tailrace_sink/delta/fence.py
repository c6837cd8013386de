"""The fence: what a sink that was replaced still wants to write reaches no lake table.

The log says which sink is the newest, but a commit of another table does not ask it. So each table
names the sink that has it, by log and epoch (``tailrace.owner``). A sink takes a table before it
reads anything of it. That commit changes the table's metadata, and Delta refuses every commit that
was in the making meanwhile. Those that begin later see the newer owner:

- A transaction of our own compares the owner in the version that it read.
- A statement carries a transaction version that begins with the epoch. The taking of the table has
  written the newer sink's, so Delta skips the statement.
- An ALTER has neither; the owner is compared before it runs, and Delta refuses it when the table is
  taken in the meantime (ADR 0058).

A compaction needs no fence: it leaves every row as it is, and Delta refuses it where rows changed.
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
from tailrace_sink.delta.transaction import DeltaTransaction
from tailrace_sink.errors import ApplyFailed
from tailrace_sink.tables.lake_table import OWNER_PROPERTY, properties_ddl, quote

_EPOCH_BITS: Final = 40
_TRANSACTION: Final = "spark.databricks.delta.write"
_NUMBERS: Final = count(1)
"""Of this process's statements: an epoch is one process's, and Delta skips a number that it has."""


@dataclass(frozen=True, slots=True)
class Fence:
    """What a sink shows with every commit of a lake table.

    Attributes:
        log: id of the log's table, in which epochs count.
        epoch: this sink's.
        check: raises ``LakeTaken`` when the log has a newer sink.
    """

    log: str
    epoch: int
    check: Callable[[], None]

    @property
    def owner(self) -> str:
        """The value of a table's property."""
        return f"{self.log} {self.epoch}"

    def enter(self, spark: SparkSession, location: str) -> bool:
        """Take a table from the sink that had it, before it is read.

        Returns:
            Whether it was another's; False also when there is no table.

        Raises:
            LakeTaken: a newer sink has it.
            PySparkException, Py4JError: Spark failed.
        """
        return retried(f"taking {location}", partial(self._enter, spark, location))

    def require(self, location: str, owner: str | None) -> None:
        """Refuse to write to a table that another sink has.

        Args:
            location: of the table.
            owner: the table's property, in the version that the write follows.

        Raises:
            LakeTaken: a newer sink has it.
            ApplyFailed: an older version of the table was restored; it has to be taken again.
        """
        if owner != self.owner:
            self.check()
            raise ApplyFailed(f"writing to {location}", f"it names {owner}, which is no sink's")

    def alter(self, spark: SparkSession, location: str, statement: str) -> None:
        """Carry out an ALTER of a table that this sink has.

        Raises:
            LakeTaken: a newer sink has it.
            PySparkException, Py4JError: Spark failed.
        """

        def run() -> None:
            self.require_now(spark, location)
            spark.sql(statement)

        retried(f"altering {location}", run)

    def write(self, spark: SparkSession, location: str, run: Callable[[], object]) -> None:
        """Carry out a statement, or another write, that changes the rows of a table.

        Args:
            spark: the session that it runs in; it is this thread's own.
            location: of the table.
            run: carries it out; again after a conflict.

        Raises:
            LakeTaken: a newer sink has it; nothing was written.
            ApplyFailed: as for :meth:`require`.
            PySparkException, Py4JError: Spark failed.
        """

        def numbered() -> None:
            settings = {
                f"{_TRANSACTION}.txnAppId": self._application,
                f"{_TRANSACTION}.txnVersion": str(self._version(next(_NUMBERS))),
            }
            with ExitStack() as stack:
                for name, value in settings.items():
                    # Left over, it would drop the session's next write without a word.
                    stack.callback(spark.conf.unset, name)
                    spark.conf.set(name, value)
                run()
            self.require_now(spark, location)

        retried(f"writing to {location}", numbered)

    @property
    def _application(self) -> str:
        return f"tailrace-fold-{self.log}"

    def _version(self, number: int) -> int:
        return (self.epoch << _EPOCH_BITS) | number

    def require_now(self, spark: SparkSession, location: str) -> None:
        """:meth:`require` of the newest version of a table."""
        metadata = table_metadata(spark, location)
        self.require(
            location, None if metadata is None else metadata.properties.get(OWNER_PROPERTY)
        )

    def _enter(self, spark: SparkSession, location: str) -> bool:
        metadata = table_metadata(spark, location)
        if metadata is None or metadata.properties.get(OWNER_PROPERTY) == self.owner:
            return False

        def taken() -> bool:
            self._take(DeltaTransaction(spark, location))
            return True

        if not in_parts(spark, f"taking {location}", taken):
            self.check()
            owner = properties_ddl({OWNER_PROPERTY: self.owner})
            spark.sql(f"ALTER TABLE delta.{quote(location)} SET TBLPROPERTIES ({owner})")
        return True

    def _take(self, transaction: DeltaTransaction) -> None:
        # A newer sink is in the log before it takes any table: asked in this order, the log knows
        # every sink that the table may name. A sink that it does not know was restored from a copy.
        self.check()
        transaction.add_version(self._application, self._version(0))
        transaction.commit_property(OWNER_PROPERTY, self.owner)
