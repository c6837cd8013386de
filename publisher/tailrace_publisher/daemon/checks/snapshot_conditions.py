"""The check of conditions in snapshot.where by the server, before any row is read.

A snapshot with a condition lacks rows, but all changes of these rows arrive. A change row may lack
a large value that the change did not touch. If the snapshot skipped the row, that value is nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import structlog

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.errors import SourceError
from tailrace_publisher.options.snapshots import SnapshotConfig
from tailrace_publisher.ports import Connection
from tailrace_publisher.snapshot.statements import check_statement
from tailrace_publisher.source.connection.server_errors import without_literals
from tailrace_schemas.topics.topic_names import TableName

_log = structlog.get_logger(__name__)


def condition_problems(
    options: SnapshotConfig, connection: Connection, selected: Iterable[CaptureInstance]
) -> Iterator[tuple[TableName, str]]:
    """Find tables whose condition the server refuses, each with the server's message.

    Args:
        connection: for the check, which reads no row.
        selected: the published capture instances.

    Raises:
        SourceError: the server did not answer.
    """
    newest = {instance.table: instance for instance in selected}
    for table, instance in newest.items():
        where = options.where_of(table)
        if where is None:
            continue
        try:
            connection.query(check_statement(instance, where), 0)
        except SourceError as error:
            if error.retryable:
                raise
            text = f"snapshot.where: the server refuses the condition of table {table}"
            yield table, f"{text}: {without_literals(error)}. Fix: correct it, or remove it"


def warn_of_large_values(options: SnapshotConfig, read: Iterable[CaptureInstance]) -> None:
    """Warn of tables with a condition and large columns, whose values may not arrive.

    Args:
        read: the published capture instances, with the columns whose values are read.
    """
    newest = {instance.table: instance for instance in read}
    for table, instance in newest.items():
        large = [column.name for column in instance.columns if column.type.is_large]
        if large and options.where_of(table) is not None:
            _log.warning(
                "snapshot_leaves_large_values_out",
                table=str(table),
                columns=large,
                effect="snapshot.where skips rows; a later update of such a row may lack the large"
                " values that it did not change: they are unavailable in the event and NULL in the"
                " lake",
                fix="exclude the columns (columns.exclude), or remove the condition",
            )
