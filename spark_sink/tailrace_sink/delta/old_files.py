"""Removal of files that no version of a Delta table that is still read needs.

Delta's own cleanup goes by age alone. A cut may name a version that is far older than the cut, as
the table was quiet since. So the *oldest version* that is read decides here:

- A file of that version that has left the table since has a tombstone that is not older than the
  version. VACUUM removes files whose tombstones are older.
- That version is read from the newest checkpoint at or before it. Earlier entries of the table's
  log are removed, and checksum files of all but the newest versions, as only these are read.
- Each checkpoint lists all files and all tombstones, so those of a large log are thinned out. A
  version between two of them is read from the earlier one and the entries after it.

``SLACK_MS`` is left in addition. It covers clocks that differ and long transactions that started
before the version. It also covers queries of a version that has just been forgotten.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_sink.delta.classes import has_delta_log, log_of
from tailrace_sink.delta.file_log import current_snapshot, read_text, write_text
from tailrace_sink.spark.jvm_names import jvm_of
from tailrace_sink.tables.lake_table import quote

SLACK_MS: Final = 6 * 3_600_000
CHECKSUMS_KEPT: Final = 10
"""Newest versions whose checksum files stay. Each lists up to 50 files, so they outgrow the log."""
CHECKPOINT_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes of a log's checkpoints above which some are left out, by the size of the newest one."""
DELETED_MAX: Final = 500
"""Entries of a table's log that one run removes: 10 s in an object store. The next continues."""

_ENTRY: Final = re.compile(
    r"/((\d{20})\.(json|crc|checkpoint(?:\.\d{10}\.\d{10})?\.parquet))$", re.MULTILINE
)
_CHECKPOINT: Final = re.compile(r"checkpoint(?:\.\d{10}\.(\d{10}))?\.parquet")
_CHECKPOINTS_KEPT: Final = 3
"""Newest checkpoints that stay in any case: a reader may be about to read them."""
_MISSING_MAX: Final = 5
"""Consecutive versions without a checksum file: Delta does not write one for each."""
_CHECKED: Final = "spark.databricks.delta.retentionDurationCheck.enabled"
_LOGGED: Final = "spark.databricks.delta.vacuum.logging.enabled"
_LISTING: Final = "spark.sql.sources.parallelPartitionDiscovery.parallelism"

_log = structlog.get_logger("tailrace.sink")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a table's log; ``kind`` is what follows the version in its name."""

    name: str
    version: int
    kind: str


class TableLog:
    """The log of one table, as its storage lists it."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        classes, log = log_of(spark, path)
        self._root = classes.path(f"{path}/_delta_log")
        self._path_of = classes.path
        self._storage = self._root.getFileSystem(log.newDeltaHadoopConf())
        self.entries = entries_in(_paths(spark, self._storage.listStatus(self._root)))
        self._commits = [entry for entry in self.entries if entry.kind == "json"]

    def written_ms(self, version: int) -> int | None:
        """Return when a version was committed; None if its entry is gone."""
        found = next((entry for entry in self._commits if entry.version == version), None)
        return None if found is None else self._written_ms(found)

    def version_before(self, moment_ms: int) -> int | None:
        """Return the newest version that was committed before a moment; None without one."""
        after = bisect_left(self._commits, moment_ms, key=self._written_ms)
        return self._commits[after - 1].version if after else None

    @property
    def newest(self) -> int:
        """The current version; -1 without one."""
        return self._commits[-1].version if self._commits else -1

    def trim(self, oldest_version: int) -> int:
        """Remove entries that no version from one on needs; return how many were removed.

        Fewer than ``DELETED_MAX`` means that none is left.
        """
        newest = max(_checkpoints(self.entries), default=-1)
        parts = [e for e in self.entries if e.version == newest and _CHECKPOINT.fullmatch(e.kind)]
        size = sum(int(self._status(part).getLen()) for part in parts)
        room = CHECKPOINT_BYTES_MAX // max(size, 1)
        removed = unneeded(self.entries, oldest_version, room)[:DELETED_MAX]
        for entry in removed:
            self._storage.delete(self._path_of(self._root, entry.name), False)
        return len(removed)

    def _written_ms(self, entry: Entry) -> int:
        return int(self._status(entry).getModificationTime())

    def _status(self, entry: Entry) -> Any:
        return self._storage.getFileStatus(self._path_of(self._root, entry.name))


def _paths(spark: SparkSession, listed: Any) -> str:
    """Return the paths of listed files, one a line.

    It takes few calls of the JVM: of 42,000 files, calls for each took 16 s (measured). An object
    store lists in an array of its own type, for which Py4J finds no method.
    """
    jvm, count = jvm_of(spark), len(listed)
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - no public way
    statuses = gateway.new_array(jvm.org.apache.hadoop.fs.FileStatus, count)
    jvm.java.lang.System.arraycopy(listed, 0, statuses, 0, count)
    paths = jvm.org.apache.hadoop.fs.FileUtil.stat2Paths(statuses)
    return str(jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(paths).mkString("\n"))


def entries_in(listing: str) -> list[Entry]:
    """Select the entries of a log among the paths of its files, one a line, by version."""
    found = (Entry(m[1], int(m[2]), m[3]) for m in _ENTRY.finditer(listing))
    return sorted(found, key=lambda entry: entry.version)


def unneeded(entries: Sequence[Entry], oldest_version: int, checkpoints_max: int) -> list[Entry]:
    """Select entries that are not needed to read a version or a later one, the oldest first.

    Args:
        checkpoints_max: number of checkpoints that the log keeps.
    """
    commits = {entry.version for entry in entries if entry.kind == "json"}
    newest = max(commits, default=0)
    whole = sorted(_checkpoints(entries) & commits)
    base = max((version for version in whole if version <= oldest_version), default=0)
    surplus = _surplus([version for version in whole if version >= base], checkpoints_max)
    return [
        entry
        for entry in sorted(entries, key=lambda entry: entry.version)
        if entry.version < base
        or (entry.kind == "crc" and entry.version <= newest - CHECKSUMS_KEPT)
        or (entry.kind.startswith("checkpoint") and entry.version in surplus)
    ]


def _surplus(versions: Sequence[int], count_max: int) -> set[int]:
    """Select checkpoints in excess of a number: neither the oldest nor the newest ones.

    The distance of those that stay is a power of two. So they stay when the log moves on, and are
    not thinned out again each day.
    """
    if len(versions) <= max(count_max, _CHECKPOINTS_KEPT + 2):
        return set()
    distance = 1
    while (versions[-1] - versions[0]) / distance > max(count_max - _CHECKPOINTS_KEPT - 1, 1):
        distance *= 2
    last, removed = versions[0], set()
    for version in versions[1:-_CHECKPOINTS_KEPT]:
        if version - last < distance:
            removed.add(version)
        else:
            last = version
    return removed


def _checkpoints(entries: Iterable[Entry]) -> set[int]:
    """Select the versions with a whole checkpoint, of which the parts may be several files."""
    parts: Counter[tuple[int, int]] = Counter()
    for entry in entries:
        if (match := _CHECKPOINT.fullmatch(entry.kind)) is not None:
            parts[entry.version, int(match[1] or 1)] += 1
    return {version for (version, of), found in parts.items() if found == of}


def trim_checksums(spark: SparkSession, path: str) -> None:
    """Remove checksum files of older versions of a table, down to those that an earlier run left.

    Their names are known, so the log is not listed.
    """
    if not has_delta_log(spark):
        return
    classes, log = log_of(spark, path)
    storage = classes.path(path).getFileSystem(log.newDeltaHadoopConf())
    newest = int(current_snapshot(spark, path).version()) - CHECKSUMS_KEPT
    missing = 0
    for version in range(newest, max(newest - DELETED_MAX, -1), -1):
        name = f"{path}/_delta_log/{version:020}.crc"
        missing = 0 if storage.delete(classes.path(name), False) else missing + 1
        if missing == _MISSING_MAX:
            return


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
