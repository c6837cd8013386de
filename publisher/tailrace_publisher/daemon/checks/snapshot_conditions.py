"""The conditions of snapshot.where, before anything is read by them: the server judges them.

A snapshot with a condition is short of rows, and their changes arrive all the same. What a change
row may lack, a large value that the change left alone, is then nowhere.
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
    """Tables whose condition the server refuses, and what it says.

    Args:
        options: the conditions.
        connection: where to ask; no row is read.
        selected: the capture instances that are published.

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
            yield table, f"{text}: {without_literals(error)}; mend it, or leave it out"


def warn_of_large_values(options: SnapshotConfig, read: Iterable[CaptureInstance]) -> None:
    """Tell of tables with a condition and large columns, whose values may not arrive.

    Args:
        options: the conditions.
        read: the capture instances that are published, with the columns whose values are read.
    """
    newest = {instance.table: instance for instance in read}
    for table, instance in newest.items():
        large = [column.name for column in instance.columns if column.type.is_large]
        if large and options.where_of(table) is not None:
            _log.warning(
                "snapshot_leaves_large_values_out",
                table=str(table),
                columns=large,
                effect="the next update of a row that snapshot.where leaves out may lack those of"
                " its large values that it leaves alone: they are unavailable in the event then,"
                " and NULL in the lake",
                fix="leave the columns out (columns.exclude), or the condition",
            )
