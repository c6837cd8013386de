"""One row of each key in a mirror, also after rows left the source unseen (ADR 0064).

The source creates a row once, so created rows are appended instead of merged. A partition that is
switched out breaks this rule. Its keys may be created again while the table has the old rows.

- The keys of an append are compared with the table's before the commit. File statistics are enough
  if no file overlaps, which costs no Spark job. Else the keys of some files are read.
- A snapshot of the table removes what this does not prevent.
"""

from __future__ import annotations

from typing import Final

import structlog
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_sink.ports.table_format import TableWriter
from tailrace_sink.ports.writes import Added, AppendRefused
from tailrace_sink.rows.mirror_statements import same_key
from tailrace_sink.tables.lake_table import POSITION, LakeTable, quote
from tailrace_sink.tables.origins import own_rows

_COMPARED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of overlapping files whose keys are read before an append. GUIDs and other keys without an
order overlap with every file. Without a bound each append would read all keys of the table."""
_VIEW: Final = "_tailrace_doubled"
_LEAVES: Final = "_cdc_leaves"

_log = structlog.get_logger("tailrace.sink")


def require_new_keys(table: LakeTable, added: Added) -> None:
    """Refuse an append of keys that the table already has.

    Args:
        added: the append, before its commit.

    Raises:
        AppendRefused: the table has one of the keys.
    """
    meeting = added.files_meeting(added.bounds_of_added(table))
    if not meeting or sum(int(file.size()) for file in meeting) > _COMPARED_BYTES_MAX:
        return
    keys = [quote(name) for name in table.key]
    there, new = (
        added.rows_of(files).select(*keys).alias(name)
        for name, files in (("there", meeting), ("new", added.added))
    )
    same = F.expr(" AND ".join(same_key(table, "new", "there")))
    if new.join(there, same, "left_semi").limit(1).collect():
        _log.warning(
            "created_keys_merged",
            table=str(table.table),
            reason="rows were created with keys that the lake table already has: rows left the"
            " source table without change rows",
        )
        raise AppendRefused


def require_distinct_keys(table: LakeTable, added: Added) -> None:
    """Refuse an append in which two rows have the same key.

    The keys are read from the files, a fraction of the events' bytes. They are compared by hash: a
    collision only reduces the changes in vain.

    Raises:
        AppendRefused: two rows may have the same key.
    """
    keys = F.xxhash64(*(quote(name) for name in table.key)).alias("hash")
    hashes = added.rows_of(added.added).select(keys).groupBy("hash").count()
    if hashes.where("count > 1").limit(1).collect():
        raise AppendRefused


def require_none_between(table: LakeTable, added: Added) -> None:
    """Refuse an append between keys that the table has.

    Raises:
        AppendRefused: the statistics of the table's files do not rule out one of the keys.
    """
    if not added.has_none_between(added.bounds_of_added(table)):
        raise AppendRefused


def leave_one_row_each(spark: SparkSession, tables: TableWriter, table: LakeTable) -> None:
    """Delete all rows of each doubled key except that of its last change.

    Args:
        spark: used by this thread only.

    Raises:
        LakeTaken: a newer sink has the table.
        PySparkException, Py4JError: Spark failed.
    """
    rows = tables.rows(spark, table.path).where(own_rows(table))
    keys = [quote(name) for name in table.key]
    # Hashes are grouped faster than texts. A collision only runs the statement in vain.
    hashes = rows.groupBy(F.xxhash64(*keys)).count()
    if not hashes.where("count > 1").limit(1).collect():
        return
    names = [quote(name) for name in rows.columns]
    last = f"max_by(struct({', '.join(names)}), coalesce({POSITION}, X'')) AS last"
    doubled = rows.groupBy(*keys).agg(F.expr(last), F.count(F.lit(1)).alias("n")).where("n > 1")
    # Of two copies one matches the old rows, which are deleted. The other is inserted.
    copies = doubled.select("last.*", F.explode(F.array(F.lit(True), F.lit(False))).alias(_LEAVES))
    copies.createOrReplaceTempView(_VIEW)
    same = " AND ".join(same_key(table, "t", "s"))
    statement = (
        f"MERGE INTO {tables.name(table.path)} t USING {_VIEW} s ON s.{_LEAVES} AND {same}"
        f" WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND NOT s.{_LEAVES} THEN INSERT"
        f" ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
    )
    tables.run(spark, table.path, statement)
    _log.warning("doubled_keys_removed", table=str(table.table))
