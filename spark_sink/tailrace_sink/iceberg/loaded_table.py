"""A table's metadata at one moment, and changes that build on it, through Spark's JVM.

The catalog refuses a change if a branch that it moves has moved since the metadata was read. That
comparison is the only thing on which publication and fence rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tailrace_sink.iceberg.names import TableId
from tailrace_sink.iceberg.stamp import Stamp


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of a table.

    Attributes:
        stamp: None if no sink wrote it.
        schema_id: of the columns with which it was written; None in very old tables.
    """

    id: int
    parent: int | None
    operation: str
    stamp: Stamp | None
    schema_id: int | None


@dataclass(frozen=True, slots=True)
class Change:
    """New metadata of a table, and the metadata that it builds on, both of Java."""

    table: TableId
    operations: Any
    base: Any
    changed: Any


class LoadedTable:
    """A table as its metadata was at one moment."""

    def __init__(self, name: TableId, table: Any, builder_from: Any) -> None:
        self.name = name
        self.java = table
        self._from = builder_from
        self._operations: Any = table.operations()
        self._base: Any = self._operations.current()

    @property
    def uuid(self) -> str:
        """Its id, which differs from that of a table that had its name before."""
        return str(self._base.uuid())

    @property
    def properties(self) -> dict[str, str]:
        """All of the table's properties: of some, each is asked for."""
        return dict(self._base.properties())

    def property(self, name: str) -> str | None:
        """Return one of the table's properties."""
        found = self._base.property(name, None)
        return None if found is None else str(found)

    def head(self, branch: str) -> int | None:
        """Return the id of a branch's newest snapshot; None without the branch."""
        reference = self._base.ref(branch)
        return None if reference is None else int(reference.snapshotId())

    def snapshot(self, snapshot: int) -> Snapshot | None:
        """Return a snapshot; None if it has expired."""
        found = self._base.snapshot(snapshot)
        if found is None:
            return None
        parent, schema = found.parentId(), found.schemaId()
        return Snapshot(
            int(found.snapshotId()),
            None if parent is None else int(parent),
            str(found.operation()),
            Stamp.of(found.summary() or {}),
            None if schema is None else int(schema),
        )

    def parent(self, snapshot: int) -> int | None:
        """Return the snapshot before another one; None if there is none, or it has expired."""
        found = self._base.snapshot(snapshot)
        parent = None if found is None else found.parentId()
        return None if parent is None else int(parent)

    def summary_entry(self, snapshot: int, name: str) -> str | None:
        """Return an entry of a snapshot's summary; None if it has none, or has expired."""
        found = self._base.snapshot(snapshot)
        summary = None if found is None else found.summary()
        return None if summary is None else summary.get(name)

    def again(self) -> LoadedTable:
        """Return the table as the last commit with it left it; that needs no request."""
        return LoadedTable(self.name, self.java, self._from)

    def history(self, head: int | None) -> Iterator[Snapshot]:
        """Yield a snapshot and those before it, newest first, down to the oldest kept."""
        while head is not None:
            found = self.snapshot(head)
            if found is None:
                return
            yield found
            head = found.parent

    def was_main(self, snapshot: int) -> bool:
        """Whether a snapshot is, or was, the newest one of the main branch."""
        return any(int(of.snapshotId()) == snapshot for of in list(self._base.snapshotLog()))

    def lost_columns(self, schema_id: int | None) -> list[str]:
        """Return names of columns of a schema that the table no longer has under any name."""
        current = self._base.schema()
        if schema_id is None or schema_id == current.schemaId():
            return []
        written = self._base.schemasById().get(schema_id)
        if written is None:
            return []
        fields = list(written.columns())
        return [str(f.name()) for f in fields if current.findField(f.fieldId()) is None]

    def other_ids(self, schema_id: int | None) -> tuple[dict[str, int], dict[str, int]] | None:
        """Return the field ids by name of a schema and of the present one; None if it is that."""
        current, written = self._base.schema(), self._base.schemasById().get(schema_id)
        if written is None or written.schemaId() == current.schemaId():
            return None
        was, now = (
            {str(field.name()): int(field.fieldId()) for field in list(schema.columns())}
            for schema in (written, current)
        )
        return was, now

    def with_heads(self, heads: Mapping[str, int]) -> Change:
        """Return the change that moves branches to some snapshots of the table."""
        builder = self._from(self._base)
        for branch, snapshot in heads.items():
            builder.setBranchSnapshot(snapshot, branch)
        return Change(self.name, self._operations, self._base, builder.build())

    def with_empty_snapshot(self, stamp: Stamp, branch: str | None = None) -> Change:
        """Return the change that adds a snapshot without rows to the main branch.

        Args:
            branch: moves there as well.
        """
        transaction = self.java.newTransaction()
        append = transaction.newFastAppend()
        for name, text in stamp.summary.items():
            append.set(name, text)
        append.commit()
        change = self.changed_by(transaction)
        if branch is None:
            return change
        snapshot = change.changed.currentSnapshot().snapshotId()
        changed = self._from(change.changed).setBranchSnapshot(snapshot, branch).build()
        return replace(change, changed=changed)

    def changed_by(self, transaction: Any) -> Change:
        """Return the changes of a transaction of Java, which has not committed them."""
        start, changed = transaction.startMetadata(), transaction.currentMetadata()
        return Change(self.name, self._operations, start, changed)
