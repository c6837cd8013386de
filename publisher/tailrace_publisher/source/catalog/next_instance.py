"""The capture instance that takes over from another one: its name, and how it is created.

The names of a rotation are a sequence: ``dbo_orders``, ``dbo_orders_r1``, ``dbo_orders_r2``. So the
catalog alone says which instance succeeds which, after any crash. Of two publishers that rotate the
same table, the server refuses the second.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Sequence
from itertools import count
from typing import Final

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.errors import CaptureInstanceGone
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog.added_columns import CAPTURES_ALL
from tailrace_publisher.source.catalog.capture_tsql import (
    CaptureOptions,
    disable_table,
    enable_table,
)
from tailrace_publisher.source.catalog.instances import Catalog

_NAME_MAX: Final = 100
"""Characters of a capture instance's name.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-table-transact-sql
"""
_NUMBERED: Final = re.compile(r"(?P<stem>.+)_r(?P<number>[1-9]\d{0,8})", re.DOTALL)


def lacks_change(newest: CaptureInstance, added: Sequence[str]) -> str:
    """Return how a table's columns differ from those of its newest instance; empty if not at all.

    Args:
        added: columns that were added since the instance was created.
    """
    dropped = [column.name for column in newest.columns if not column.in_source]
    return ", ".join([f"added {name}" for name in added] + [f"dropped {name}" for name in dropped])


def next_name(name: str, taken: Collection[str]) -> str:
    """Return the name of the instance that takes over.

    Args:
        taken: names of all instances of the database.
    """
    stem, number = _parts(name)
    used = {other.casefold() for other in taken}
    return next(
        made
        for made in (_numbered(stem, n) for n in count(number + 1))
        if made.casefold() not in used
    )


def succeeds(newer: str, older: str) -> bool:
    """Return whether an instance's name is a later one of a rotation than another's."""
    stem, number = _parts(newer)
    older_stem, older_number = _parts(older)
    is_same = _numbered(older_stem, number).casefold() == _numbered(stem, number).casefold()
    return number > older_number and is_same


def next_options(
    connection: Connection,
    instance: CaptureInstance,
    added: Sequence[str],
    taken: Collection[str],
) -> CaptureOptions:
    """Return how to create the instance that takes over: like the present one, with new columns.

    An index that is gone is not named, so the primary key identifies rows.

    Args:
        added: columns that it captures in addition.
        taken: names of all instances of the database.

    Raises:
        CaptureInstanceGone: the instance was dropped meanwhile, or the login may not see it.
        SourceError: the server did not answer.
    """
    # See: cdc.change_tables; sys.indexes; Contained Database Collations (CATALOG_DEFAULT).
    # Inferred: has cdc.change_tables the database's collation where the catalog has another?
    rows = connection.query(
        "SELECT ct.role_name, i.name, ct.filegroup_name, ct.supports_net_changes,"
        " ct.partition_switch FROM cdc.change_tables ct LEFT JOIN sys.indexes i"
        " ON i.object_id = ct.source_object_id AND i.is_unique = 1"
        " AND i.name = ct.index_name COLLATE CATALOG_DEFAULT"
        " WHERE ct.object_id = ?",
        instance.object_id,
    )
    if not rows:
        raise CaptureInstanceGone(instance.name)
    role, index, filegroup, net_changes, partition_switch = rows[0]
    left_out = set(instance.not_captured.values()) - set(added)
    kept = [column.name for column in instance.columns if column.in_source]
    return CaptureOptions(
        capture_instance=next_name(instance.name, taken),
        # Without a list, a column that is being added now is captured, too.
        columns=[*kept, *added] if left_out else (),
        role=role,
        filegroup=filegroup,
        index=index,
        net_changes=bool(net_changes),
        partition_switch=bool(partition_switch),
    )


def rotation_statements(
    connection: Connection, instance: CaptureInstance, catalog: Catalog
) -> tuple[str, str]:
    """Return what a rotation runs: the statements that create an instance, and drop another one.

    Raises:
        SourceError: the server did not answer.
    """
    added = catalog.uncaptured.get(instance.object_id, CAPTURES_ALL).asked_for
    taken = [other.name for other in catalog.instances]
    table = instance.source_table.schema, instance.source_table.table
    options = next_options(connection, instance, added, taken)
    return enable_table(*table, options), disable_table(*table, instance.name)


def _parts(name: str) -> tuple[str, int]:
    found = _NUMBERED.fullmatch(name)
    return (name, 0) if found is None else (found["stem"], int(found["number"]))


def _numbered(stem: str, number: int) -> str:
    """Return a name; a stem that is too long is cut, and its checksum keeps it apart."""
    suffix = f"_r{number}"
    if len(stem) + len(suffix) <= _NAME_MAX:
        return stem + suffix
    mark = f"_{zlib.crc32(stem.encode()):08x}{suffix}"
    return stem[: _NAME_MAX - len(mark)] + mark
