"""Values that no change table has: which rows of a table are re-read after a hand-over (pure).

An instance that takes over has columns that the former one lacks. Their values from before its
start are in no change table (ADR 0084). SQL Server logs no change of a row for an instance that
captures none of the changed columns, and none for what DDL fills in. So change tables do not even
say which rows have such values. The source does: all rows where one of the columns is not NULL.
They are read as a partial snapshot once everything up to the hand-over is published.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.source.connection.quoting import quote_name
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.lsn import Lsn

_NO_ROW = "1 = 0"


@dataclass(frozen=True, slots=True)
class Patch:
    """A re-read that is due, or that runs.

    Attributes:
        columns: names of the columns that the former instance lacks.
        after: the hand-over: later changes have the columns.
        is_whole: whether NULL is news, too, because a column of that name was published before.
    """

    columns: tuple[str, ...]
    after: Lsn
    is_whole: bool = False

    def write(self) -> str:
        """Return the form that a checkpoint stores."""
        return json.dumps(
            {"columns": self.columns, "after": str(self.after), "is_whole": self.is_whole}
        )

    @classmethod
    def read(cls, text: str) -> Patch:
        """Read the form that a checkpoint stores.

        Raises:
            ValueError: it has another form.
        """
        try:
            found = json.loads(text)
            return cls(tuple(found["columns"]), Lsn.parse(found["after"]), bool(found["is_whole"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a patch: {error!r}") from error

    def joined(self, later: Patch) -> Patch:
        """Return one patch for two hand-overs."""
        columns = (*self.columns, *(name for name in later.columns if name not in self.columns))
        return Patch(
            columns, max(self.after, later.after), is_whole=self.is_whole or later.is_whole
        )

    def condition(self, instance: CaptureInstance, where: str | None = None) -> str | None:
        """Return the condition of the rows to read, in T-SQL; None for all rows.

        Args:
            instance: the one that is read. A column may be dropped again before its turn.
            where: the condition of the table's snapshots; None for all rows.
        """
        both = [f"({condition})" for condition in (self._lacking(instance), where) if condition]
        return " AND ".join(both) or None

    def _lacking(self, instance: CaptureInstance) -> str | None:
        if self.is_whole:
            return None
        present = {c.name for c in instance.columns if c.in_source and not c.is_computed}
        wanted = [f"{quote_name(name)} IS NOT NULL" for name in self.columns if name in present]
        return " OR ".join(wanted) or _NO_ROW


def patch_of(
    former: Iterable[tuple[int, str]],
    newer: CaptureInstance,
    after: Lsn,
    published: Iterable[TableSchema] = (),
) -> Patch | None:
    """Return what a hand-over leaves out; None if the newer instance gains no column.

    A computed column is NULL in every change table, and in snapshots.

    Args:
        former: id and name of the columns that were captured before.
        after: LSN from which on the newer instance holds the changes.
        published: versions from before the hand-over. An instance before the former one may have
            had the column, and nobody knows which rows were set to NULL since.
    """
    known = dict(former)
    gained = [
        column
        for column in newer.columns
        if column.column_id not in known and column.in_source and not column.is_computed
    ]
    if not gained:
        return None
    names = tuple(column.name for column in gained)
    had = {*known.values(), *(column.name for version in published for column in version.columns)}
    return Patch(names, after, is_whole=not had.isdisjoint(names))


def columns_before(
    names: Sequence[str], instances: Sequence[CaptureInstance], registered: Sequence[TableSchema]
) -> list[tuple[int, str]] | None:
    """Return id and name of the columns that were captured so far; None if nobody knows them.

    Args:
        names: of the instances that were read, oldest first.
        instances: those that the table has.
        registered: the versions in the registry, which outlive their instances.
    """
    for name in reversed(names):
        for instance in instances:
            if instance.name == name:
                return [(column.column_id, column.name) for column in instance.columns]
        versions = [version for version in registered if version.capture_instance == name]
        if versions:
            newest = max(versions, key=lambda version: version.schema_lsn)
            return [(column.column_id, column.name) for column in newest.columns]
    return None
