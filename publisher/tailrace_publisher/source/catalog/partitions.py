"""Partitions of captured tables, which reveal a switch (ADR 0055).

ALTER TABLE ... SWITCH moves rows between tables and writes no change rows. The partition moves with
its rows, so its id enters or leaves the table. Other statements also give a table new ids: an index
rebuild, SPLIT and MERGE. A switch differs in having an empty side: the target of a switch must be
empty.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Self

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.ports import Connection
from tailrace_schemas.topics.topic_names import TableName

_IDS_MAX = 500
"""Ids in one statement."""
_FIXED = "="
"""Prefix of the text form if the server refuses SWITCH for the table."""


class Comparison(Enum):
    """What two queries of a table's partitions show of its rows."""

    SAME = auto()
    """No rows entered or left with a partition."""
    MOVED = auto()
    """It has other partitions instead: an index rebuild, unless another table has the old ones."""
    SWITCHED = auto()
    """Rows entered or left with a partition."""


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partitions of a table's heap or clustered index.

    Attributes:
        rows: the server's number of rows by partition id. None if only known not to be empty. Empty
            in records of an earlier release, for tables whose partitions may not be switched.
        is_fixed: whether the server refuses to switch them.
    """

    rows: Mapping[int, int | None]
    is_fixed: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form.

        Raises:
            ValueError: the text has another form.
        """
        marks = text.removeprefix(_FIXED).split()
        rows = {int(m.rstrip("-"), 16): 0 if m.endswith("-") else None for m in marks}
        return cls(rows, is_fixed=text.startswith(_FIXED))

    def __str__(self) -> str:
        """Return the ids, hexadecimal; a minus follows that of an empty partition.

        Row counts are left out: the text is stored, and must change only with the partitions.
        """
        marks = (f"{i:x}" if n != 0 else f"{i:x}-" for i, n in sorted(self.rows.items()))
        return (_FIXED if self.is_fixed else "") + " ".join(marks)

    def compare(self, before: Partitions) -> Comparison:
        """Return what happened to the rows since an earlier query."""
        if not before.rows or (before.is_fixed and self.is_fixed):
            return Comparison.SAME
        left = any(n != 0 for i, n in before.rows.items() if i not in self.rows)
        came = any(n != 0 for i, n in self.rows.items() if i not in before.rows)
        if left != came and not self._was_split_or_merged(before):
            return Comparison.SWITCHED
        return Comparison.MOVED if self.gone(before) else Comparison.SAME

    def gone(self, before: Partitions) -> list[int]:
        """Return the ids that the table had and does not have any more."""
        return sorted(before.rows.keys() - self.rows.keys())

    def _was_split_or_merged(self, before: Partitions) -> bool:
        """Return whether the number of partitions changed, and that of all rows did not.

        SPLIT and MERGE move rows from one partition of the table to another.
        """
        counts = [n for n in (*before.rows.values(), *self.rows.values()) if n is not None]
        is_known = len(counts) == len(before.rows) + len(self.rows)
        total = sum(n or 0 for n in self.rows.values()) - sum(n or 0 for n in before.rows.values())
        return is_known and len(self.rows) != len(before.rows) and total == 0


def captured_partitions(connection: Connection) -> dict[int, Partitions]:
    """Read the partitions of captured tables, by source table's object id.

    The server refuses to switch partitions of a table with an instance that was enabled with
    @allow_partition_switch = 0. For a table in one partition ``partition_switch`` is always 1.

    https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-table-transact-sql
    https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-partitions-transact-sql
    """
    # See: sys.partitions; sys.sp_cdc_enable_table, @allow_partition_switch
    rows = connection.query(
        "SELECT p.object_id, p.partition_id, p.rows, c.allows_switch FROM sys.partitions p"
        " JOIN (SELECT source_object_id, MIN(CAST(partition_switch AS int)) AS allows_switch"
        " FROM cdc.change_tables GROUP BY source_object_id) c"
        " ON c.source_object_id = p.object_id WHERE p.index_id IN (0, 1)"
    )
    found: defaultdict[int, dict[int, int | None]] = defaultdict(dict)
    fixed: set[int] = set()
    for object_id, partition_id, count, allows_switch in rows:
        found[object_id][partition_id] = int(count or 0)
        if not allows_switch:
            fixed.add(object_id)
    return {number: Partitions(ids, number in fixed) for number, ids in found.items()}


def partitioned(
    found: Mapping[int, Partitions], instances: Iterable[CaptureInstance]
) -> dict[TableName, int]:
    """Return the tables of some instances with several switchable partitions, and how many."""
    counts = {
        i.table: len(found[i.source_object_id].rows)
        for i in instances
        if i.source_object_id in found and not found[i.source_object_id].is_fixed
    }
    return {table: count for table, count in counts.items() if count > 1}


def are_elsewhere(connection: Connection, ids: Collection[int]) -> bool:
    """Return whether a table has one of these partitions, as far as the login sees its tables."""
    # See: sys.partitions; Metadata Visibility Configuration. Inferred: do partition ids go with the
    # rows at ALTER TABLE ... SWITCH?
    wanted = sorted(ids)
    for first in range(0, len(wanted), _IDS_MAX):
        # The numbers come from the server and seldom repeat, so they are not bound as parameters.
        listed = ", ".join(str(number) for number in wanted[first : first + _IDS_MAX])
        sql = f"SELECT COUNT(*) FROM sys.partitions WHERE partition_id IN ({listed})"
        if connection.query(sql)[0][0]:
            return True
    return False
