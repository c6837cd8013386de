"""Staged snapshots on another base: somebody else moved the main branch and changed no row.

The same files are staged once more on what the main branch is now, so only metadata is written.
That is right as long as nobody has touched the data files whose rows the batch deletes. A
compaction writes such rows into other files, where a deletion vector of the batch does not reach
them. Then the table is staged again.

Staged snapshots follow each other, and each keeps its entries of the summary.
See: Iceberg Table Spec, "Deletion Vectors" (one for each data file) and "Snapshots".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tailrace_sink.iceberg.classes import FileClasses
from tailrace_sink.iceberg.loaded_table import Change, LoadedTable, Snapshot
from tailrace_sink.iceberg.names import BRANCH, MAIN

_OURS: Final = "tailrace."
"""Start of the names of the sink's entries in a summary."""


class Rebased(NamedTuple):
    """A change of the staging branch, and the snapshot at its end."""

    change: Change
    head: int


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The files that a snapshot added and removed, of Java."""

    added: list[Any]
    removed: list[Any]
    added_deletes: list[Any]
    removed_deletes: list[Any]

    @property
    def has_only_new_rows(self) -> bool:
        """Whether the snapshot is an append, perhaps an empty one."""
        return not (self.removed or self.added_deletes or self.removed_deletes)

    @property
    def touched(self) -> set[str | None]:
        """Data files that it removed, or whose rows it deleted; None: some that it does not name.

        A file of position deletes may be about many data files (Iceberg Table Spec, "Scan
        Planning").
        """
        deletes = (*self.added_deletes, *self.removed_deletes)
        return {_location(file) for file in self.removed} | {_about(file) for file in deletes}


def rebased(
    classes: FileClasses,
    table: LoadedTable,
    staged: Sequence[Snapshot],
    between: Iterable[Snapshot],
) -> Rebased | None:
    """Return the change that puts staged snapshots on the newest snapshot of the main branch.

    Args:
        staged: in the order of their commits.
        between: those of the main branch that the staged ones do not stand on.

    Returns:
        None if the batch deletes rows of files that somebody else has touched.

    Raises:
        Py4JError: metadata cannot be read or written, or a file that the batch removes is gone.
    """
    changes = [_changes(classes, table, snapshot) for snapshot in staged]
    own = {_location(file) for change in changes for file in change.added}
    needed = set[str | None]().union(*(change.touched for change in changes)) - own
    if needed and any(meet(needed, _changes(classes, table, of).touched) for of in between):
        return None
    transaction = table.java.newTransaction()
    transaction.manageSnapshots().replaceBranch(BRANCH, table.head(MAIN)).commit()
    for snapshot, change in zip(staged, changes, strict=True):
        _stage(transaction, table, snapshot, change)
    change_of_branch = table.changed_by(transaction)
    return Rebased(change_of_branch, _head(transaction))


def meet(needed: Collection[str | None], touched: Collection[str | None]) -> bool:
    """Whether two sets of data files may have one in common; None stands for unknown files."""
    if not needed or not touched:
        return False
    return None in needed or None in touched or not set(needed).isdisjoint(touched)


def _changes(classes: FileClasses, table: LoadedTable, snapshot: Snapshot) -> FileChanges:
    builder = classes.changes.builderFor(table.java)
    found = builder.snapshot(table.java.snapshot(snapshot.id)).build()
    return FileChanges(
        list(_items(found.addedDataFiles())),
        list(_items(found.removedDataFiles())),
        list(_items(found.addedDeleteFiles())),
        list(_items(found.removedDeleteFiles())),
    )


def _stage(transaction: Any, table: LoadedTable, snapshot: Snapshot, change: FileChanges) -> None:
    """Stage the files of a snapshot once more, with its entries of the summary."""
    if change.has_only_new_rows:
        commit = transaction.newAppend()
        for file in change.added:
            commit.appendFile(file)
    else:
        commit = transaction.newRowDelta()
        for file in change.added:
            commit.addRows(file)
        for file in change.removed:
            commit.removeRows(file)
        for file in change.added_deletes:
            commit.addDeletes(file)
        for file in change.removed_deletes:
            commit.removeDeletes(file)
        # What was committed before it has been compared; what it removes must be there.
        commit.validateFromSnapshot(_head(transaction)).validateDeletedFiles()
    for name, text in dict(table.java.snapshot(snapshot.id).summary()).items():
        if name.startswith(_OURS):
            commit.set(name, text)
    commit.toBranch(BRANCH).commit()


def _head(transaction: Any) -> int:
    return int(transaction.currentMetadata().ref(BRANCH).snapshotId())


def _location(file: Any) -> str:
    return str(file.location())


def _about(deletes: Any) -> str | None:
    found = deletes.referencedDataFile()
    return None if found is None else str(found)


def _items(found: Any) -> Iterator[Any]:
    items = found.iterator()
    while items.hasNext():
        yield items.next()
