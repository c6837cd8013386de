"""Removal of files that no version of a Delta table that is still read needs.

Delta's own cleanup goes by age alone. A cut may name a version that is far older than the cut, as
the table was quiet since. So the *oldest version* that is read decides here:

- A file of that version that has left the table since has a tombstone that is not older than the
  version. VACUUM removes files whose tombstones are older.
- That version is read from the newest checkpoint at or before it. Earlier entries of the table's
  log are removed, and checksum files of all but the newest versions, as only these are read.

``SLACK_MS`` is left in addition. It covers clocks that differ and long transactions that started
before the version. It also covers queries of a version that has just been forgotten.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_sink.delta.classes import has_delta_log, log_of
from tailrace_sink.delta.file_log import read_text, write_text
from tailrace_sink.tables.lake_table import quote

SLACK_MS: Final = 6 * 3_600_000
CHECKSUMS_KEPT: Final = 10
"""Newest versions whose checksum files stay. Each lists up to 50 files, so they outgrow the log."""
DELETED_MAX: Final = 2_000
"""Entries of a table's log that one run removes; the next run continues."""

_ENTRY: Final = re.compile(r"(\d{20})\.(json|crc|checkpoint(?:\.\d{10}\.\d{10})?\.parquet)")
_CHECKPOINT: Final = re.compile(r"checkpoint(?:\.\d{10}\.(\d{10}))?\.parquet")
_CHECKED: Final = "spark.databricks.delta.retentionDurationCheck.enabled"
_LOGGED: Final = "spark.databricks.delta.vacuum.logging.enabled"
_LISTING: Final = "spark.sql.sources.parallelPartitionDiscovery.parallelism"

_log = structlog.get_logger("tailrace.sink")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a table's log.

    Attributes:
        kind: what follows the version in its name.
        written_ms: when it was written.
    """

    name: str
    version: int
    kind: str
    written_ms: int


class TableLog:
    """The log of one table, as its storage lists it."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        classes, log = log_of(spark, path)
        self._root = classes.path(f"{path}/_delta_log")
        self._path_of = classes.path
        self._storage = self._root.getFileSystem(log.newDeltaHadoopConf())
        self.entries = sorted(self._listed(), key=lambda entry: entry.version)

    def _listed(self) -> list[Entry]:
        found = []
        for status in self._storage.listStatus(self._root):
            name = str(status.getPath().getName())
            match = _ENTRY.fullmatch(name)
            if match is not None:
                written = int(status.getModificationTime())
                found.append(Entry(name, int(match[1]), match[2], written))
        return found

    def written_ms(self, version: int) -> int | None:
        """Return when a version was committed; None if its entry is gone."""
        return next((e.written_ms for e in self._commits if e.version == version), None)

    def version_before(self, moment_ms: int) -> int | None:
        """Return the newest version that was committed before a moment; None without one."""
        older = [entry.version for entry in self._commits if entry.written_ms < moment_ms]
        return max(older, default=None)

    @property
    def newest(self) -> int:
        """The current version; -1 without one."""
        return max((entry.version for entry in self._commits), default=-1)

    @property
    def _commits(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.kind == "json"]

    def trim(self, oldest_version: int) -> int:
        """Remove entries that no version from one on needs; return how many were removed."""
        removed = unneeded(self.entries, oldest_version)[:DELETED_MAX]
        for entry in removed:
            self._storage.delete(self._path_of(self._root, entry.name), False)
        return len(removed)


def unneeded(entries: Sequence[Entry], oldest_version: int) -> list[Entry]:
    """Select entries that are not needed to read a version or a later one, the oldest first."""
    commits = {entry.version for entry in entries if entry.kind == "json"}
    newest = max(commits, default=0)
    bases = {v for v in _checkpoints(entries) if v <= oldest_version} & commits
    base = max(bases, default=0)
    return [
        entry
        for entry in sorted(entries, key=lambda entry: entry.version)
        if entry.version < base
        or (entry.kind == "crc" and entry.version <= newest - CHECKSUMS_KEPT)
    ]


def _checkpoints(entries: Iterable[Entry]) -> set[int]:
    """Select the versions with a whole checkpoint, of which the parts may be several files."""
    parts: Counter[tuple[int, int]] = Counter()
    for entry in entries:
        if (match := _CHECKPOINT.fullmatch(entry.kind)) is not None:
            parts[entry.version, int(match[1] or 1)] += 1
    return {version for (version, of), found in parts.items() if found == of}


def trim_checksums(spark: SparkSession, path: str) -> None:
    """Remove checksum files of older versions of a table."""
    if has_delta_log(spark):
        TableLog(spark, path).trim(0)


def vacuum(
    spark: SparkSession, path: str, horizon_ms: int, *, is_full: bool, may_list: bool
) -> bool:
    """Delete files that left a table before a moment.

    Args:
        spark: a session whose settings may be changed.
        is_full: whether to list the table's folder, too, which finds files of writes that failed;
            its log names the others.
        may_list: whether the folder may be listed: the table's state has a tombstone of each file
            that an older version needs.

    Returns:
        Whether the folder was listed: also if the log no longer names all files.
    """
    # Delta compares with the table's retention; here the oldest version decides.
    spark.conf.set(_CHECKED, "false")
    # Otherwise it lists a few folders with ten thousand tasks, for minutes (measured).
    spark.conf.set(_LISTING, "2")
    # Each would be two versions more.
    spark.conf.set(_LOGGED, "false")
    try:
        # Always: it notes how far it got, and the next one needs the log's entries from there on.
        run_vacuum(spark, path, horizon_ms, "LITE")
    except (PySparkException, Py4JError) as error:
        if "DELTA_CANNOT_VACUUM_LITE" not in str(error):
            raise
        is_full = True
        _log.info("vacuum_lists_folder", table=path, is_deferred=not may_list)
    if not (is_full and may_list):
        return False
    note = f"{path}/_delta_log/_last_vacuum_info"
    noted = read_text(spark, path, note)
    run_vacuum(spark, path, horizon_ms, "FULL")
    if noted is not None:
        write_text(spark, path, note, noted)  # A full one forgets how far the last LITE one got.
    return True


def run_vacuum(spark: SparkSession, path: str, horizon_ms: int, kind: str) -> None:
    """Run Delta's VACUUM; its horizon is later by the time that the statement takes to start."""
    hours = max(0.0, time.time() * 1000 - horizon_ms) / 3_600_000
    spark.sql(f"VACUUM delta.{quote(path)} {kind} RETAIN {hours:.6f} HOURS")
