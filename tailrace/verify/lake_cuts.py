"""The cuts of the lake that a comparison reads, and whether the lake's tables still are these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.reading.change_rows import NotThere
from tailrace.reading.lake import newest_logged, reading_options
from tailrace.verify.not_provable import NotProvable
from tailrace.verify.source_rows import wait_for
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import LakeRowsChanged
from tailrace_sink.reading.reader import read
from tailrace_sink.tables.lake_table import companion_paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace_sink.options.config import SinkConfig
    from tailrace_sink.reading.cut import Cut


class LakeCuts:
    """The newest cuts of a lake.

    Args:
        wait_s: for a cut that has an LSN.

    Attributes:
        is_late: whether the last cut lacks the LSN that it was asked for.
    """

    def __init__(self, spark: SparkSession, config: SinkConfig, wait_s: float) -> None:
        self._config = config
        self._lake = read(spark, config.lake)
        self._wait_s = wait_s
        self._late: dict[bool, str] = {}
        self.is_late = False

    def check(self) -> None:
        """Check that the lake has a cut at all, before a table of the source is read.

        Raises:
            NotThere: no cut was published into it yet.
        """
        if self._logged() is None:
            raise NotThere(
                f"the lake {self._config.lake} has no cut yet: nothing of this database was"
                " published and applied. Fix: start publisher and sink (tailrace status shows how"
                " far they are), then verify"
            )

    def newest(self, reached: Lsn, *, in_tables: bool = False) -> Cut:
        """Wait for a cut that has an LSN, and return the newest one, with the LSN or not.

        Args:
            in_tables: whether the LSN must be in the tables; else the log's tail suffices.
        """
        lsn_of = self._folded if in_tables else self._logged
        # A sink that did not move while it was waited for once is not waited for again.
        late = self._late.pop(in_tables, None)
        is_still = late is not None and lsn_of() == late

        def has_it() -> bool | None:
            found = lsn_of()
            return True if found is not None and Lsn.parse(found) >= reached else None

        wait_for(has_it, 0 if is_still else self._wait_s)
        # Not by its LSN, which means the first cut of several: a repair closes an LSN again.
        cut = self._lake.of_tables() if in_tables else self._lake.as_of()
        self.is_late = Lsn.parse(cut.closed_lsn) < reached
        if self.is_late:
            self._late[in_tables] = cut.closed_lsn
        return cut

    def require_own_rows(self, table: TableName) -> None:
        """Require that only the sink has changed rows of a table since the newest cut.

        Raises:
            NotProvable: somebody else changed rows since, or the table is gone.
        """
        try:
            self._lake.require_own_rows(table)
        except LakeRowsChanged as error:
            raise NotProvable(str(error)) from error

    def companions(self, table: TableName) -> list[str]:
        """Return the paths of a table's companions in the newest cut of the tables."""
        at = self._lake.of_tables().at
        paths = companion_paths(at.homes.get(table.path) or table.path)
        return [path for path in paths if path in at.versions]

    def _logged(self) -> str | None:
        """Return the closed LSN of the lake's log."""
        return newest_logged(self._config.log_path, reading_options(self._config))

    def _folded(self) -> str:
        """Return the closed LSN of the lake's tables."""
        return self._lake.of_tables().closed_lsn
