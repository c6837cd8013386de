"""Commits of somebody else between two versions of a table that the sink writes.

A batch builds on the version of the last commit row. If that is the newest version, or all later
ones are of this process, nothing is read. Otherwise each later commit is read from the table's log.
A commit belongs to the sink if it has a transaction version of the sink. Any other may only
move rows to other files, as an OPTIMIZE does: none of its files has ``dataChange``. Or it may
change columns that somebody else has added.

See: Delta Transaction Log Protocol, "Add File and Remove File" (``dataChange``) and "Transaction
Identifiers".
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any, Final

from pyspark.sql import SparkSession

from tailrace_sink.delta.file_log import read_text, table_metadata, table_version
from tailrace_sink.delta.files.parquet_files import physical_names
from tailrace_sink.delta.public_reads import PropertiesUnknown
from tailrace_sink.ports.writes import RowsChanged
from tailrace_sink.tables.column_identity import COLUMNS_PROPERTY
from tailrace_sink.tables.exchanged_columns import exchanged_columns
from tailrace_sink.tables.lake_table import OWNER_PROPERTY, SCHEMA_LSN_PROPERTY

_METADATA: Final = '"metaData"'
_LISTED_MAX: Final = 3
"""Commits that a reason names; an operator needs the first ones."""

Spares = Callable[[int], bool]


class OwnVersions:
    """Versions of tables that this process committed; each table is used by one thread at a time.

    Args:
        lake: address below which the tables are.
        epochs: the application id whose versions start with the sink's epoch.
        batches: what application ids start with whose versions are batch ids.
    """

    def __init__(self, lake: str, epochs: str, batches: str) -> None:
        self._lake = lake
        self._epochs = epochs
        self._batches = batches
        self._versions: dict[str, set[int]] = {}

    def note(self, location: str, version: int | None) -> None:
        """Record a commit; None if its version is unknown, and its log entry is read later."""
        if version is not None:
            self._versions.setdefault(location, set()).add(version)

    def builds_on(
        self,
        spark: SparkSession,
        location: str,
        since: int,
        batch: int | None = None,
        spares: Spares = lambda _: False,
    ) -> int:
        """Return the newest version of a table whose rows only the sink has changed since another.

        Args:
            since: version in the last cut, or at the last look.
            batch: the present one. A later one in the table is of another state of the lake. None:
                they are not compared.
            spares: returns whether the commit of a version left the sink's columns as they were.

        Raises:
            RowsChanged: somebody else changed rows, or the known version is gone.
            PySparkException, Py4JError: Spark failed.
        """
        newest = table_version(spark, location)
        if newest < 0:
            gone = f"there is no table, and version {since} is in the lake's cut"
            raise self.changed(location, gone)
        if newest < since:
            raise self.changed(
                location,
                f"its newest version is {newest}, and {since} is in the lake's cut: an older copy"
                " was restored, or files of its log were removed",
            )
        own = self._versions.pop(location, set())
        found, is_altered = [], False
        for version in range(since + 1, newest + 1):
            if version not in own:
                name = f"{location}/_delta_log/{version:020d}.json"
                text = read_text(spark, location, name)
                reason = "its log entry is gone" if text is None else self._foreign(text, batch)
                is_altered |= text is not None and _METADATA in text
                if reason is not None and (text is None or not spares(version)):
                    found.append(f"version {version}: {reason}")
        if found and not _is_of_0_1(spark, location, since):
            more = len(found) - _LISTED_MAX
            listed = "; ".join(found[:_LISTED_MAX])
            raise self.changed(location, f"{listed}; and {more} more" if more > 0 else listed)
        change = _exchanged(spark, location, since) if is_altered else None
        if change is not None:
            raise self.changed(location, change)
        return newest

    def changed(self, location: str, change: str) -> RowsChanged:
        """Return the error of a table whose rows somebody else changed."""
        return RowsChanged(location.removeprefix(f"{self._lake}/"), change)

    def _foreign(self, text: str, batch: int | None) -> str | None:
        """Describe a commit of somebody else that changed rows; None for any other."""
        actions = [json.loads(line) for line in text.splitlines() if line]
        versions = {of["txn"]["appId"]: of["txn"]["version"] for of in actions if "txn" in of}
        batches = [n for scope, n in versions.items() if scope.startswith(self._batches)]
        if batch is not None and max(batches, default=0) > batch:
            return f"batch {max(batches)} of this sink, which the commit table lacks"
        changed = (of.get("add") or of.get("remove") for of in actions)
        # A writer that leaves the entry out may have changed rows.
        is_ours = batches or self._epochs in versions
        if is_ours or not any(file.get("dataChange", True) for file in changed if file):
            return None
        return _described(next((of["commitInfo"] for of in actions if "commitInfo" in of), {}))


def _is_of_0_1(spark: SparkSession, location: str, version: int) -> bool:
    """Return whether a version is of release 0.1, which did not mark its commits."""
    try:
        metadata = table_metadata(spark, location, version)
    except PropertiesUnknown:
        return False  # So the commits stay somebody else's.
    properties = {} if metadata is None else metadata.properties
    return SCHEMA_LSN_PROPERTY in properties and OWNER_PROPERTY not in properties


def _exchanged(spark: SparkSession, location: str, since: int) -> str | None:
    """Describe how somebody else has exchanged columns since a version, if so."""
    was, now = table_metadata(spark, location, since), table_metadata(spark, location)
    if was is None or now is None:
        return None
    if was.properties.get(COLUMNS_PROPERTY) != now.properties.get(COLUMNS_PROPERTY):
        return None  # The sink has altered the table.
    return exchanged_columns(now.properties, *map(physical_names, (was.schema, now.schema)))


def _described(info: dict[str, Any]) -> str:
    """Describe a commit: its operation, its user if known, and its time."""
    words = [str(info.get("operation") or "a commit")]
    if info.get("userName"):
        words.append(f"by {info['userName']}")
    if isinstance(info.get("timestamp"), int):
        at = dt.datetime.fromtimestamp(info["timestamp"] / 1000, dt.UTC)
        words.append(f"at {at:%Y-%m-%d %H:%M:%S} UTC")
    return " ".join(words)
