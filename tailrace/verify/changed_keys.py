"""Which rows changed between two LSNs, by the change tables."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.verify.not_provable import NotProvable
from tailrace.verify.table_shape import ONE_PROCESSOR, Key, TableShape
from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.errors import SourceError
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog.hidden_data import check_changes_visible, hidden_data
from tailrace_publisher.source.log.queries import (
    INVALID_OBJECT,
    OUT_OF_INTERVAL,
    all_changes,
    change_table,
    holds_after,
)
from tailrace_schemas.position.lsn import Lsn


def changed_keys(
    connection: Connection, shape: TableShape, after: Lsn, up_to: Lsn
) -> set[Key] | None:
    """Return the keys with changes in (after, up_to]; of a keyless table None if it has any.

    Args:
        connection: to where changes are captured first.

    Raises:
        NotProvable: the change tables do not hold all of these changes.
        ValuesHidden: the login reads masks of keys.
        SourceError: the server did not answer.
    """
    keys: set[Key] = set()
    if up_to <= after:
        return keys
    wanted = {column.name for column in shape.key}
    read = [i for i in shape.instances if wanted <= {column.name for column in i.columns}]

    def check_visible(instance: CaptureInstance) -> None:
        hidden = hidden_data(connection, only=instance)
        check_changes_visible(hidden, instance, wanted)

    for instance in read:
        check_visible(instance)  # before and after: rights may be granted in between
        try:
            keys.update(_changed_in(connection, instance, shape, after, up_to))
        except SourceError as error:
            if error.number == OUT_OF_INTERVAL:
                raise _not_held(shape, after) from error
            if error.number != INVALID_OBJECT:  # It was dropped: another one may hold them all.
                raise
        check_visible(instance)
    # Queried after the changes were read: the cleanup job may have removed some meanwhile.
    if not any(holds_after(connection, instance.name, after) for instance in read):
        raise _not_held(shape, after)
    return keys if shape.key or not keys else None


def _changed_in(
    connection: Connection, instance: CaptureInstance, shape: TableShape, after: Lsn, up_to: Lsn
) -> Iterator[Key]:
    """Yield the keys of the changes that one capture instance has, of both images of an update."""
    # DISTINCT would unite what a collation calls equal: letters of another case, blanks.
    texts = ", ".join(column.source for column in shape.key) or "1"
    rows_of, parameters = change_table(instance.name), [after.to_bytes(), up_to.to_bytes()]
    if instance.by_function:
        rows_of = f"{all_changes(instance.name)}(?, ?, N'all update old')"
        parameters = [after.increment().to_bytes(), up_to.to_bytes(), *parameters]
    rows = connection.query(
        f"SELECT {texts} FROM {rows_of}"
        f" WHERE [__$start_lsn] > ? AND [__$start_lsn] <= ? {ONE_PROCESSOR}",
        *parameters,
    )
    yield from map(tuple, rows)


def _not_held(shape: TableShape, after: Lsn) -> NotProvable:
    return NotProvable(
        f"table {shape.table}: no change table holds its changes since {after}, so rows that"
        " changed meanwhile are not known. Fix: run tailrace verify again when the lake has"
        " caught up"
    )
