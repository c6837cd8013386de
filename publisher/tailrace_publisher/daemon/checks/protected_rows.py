"""Data that the server hides from its readers, so that they read other values or fewer rows.

The capture process reads the log, which has everything. The initial snapshot reads the table as the
publisher's login sees it. With dynamic data masking it sees other values, with row-level security
fewer rows, and the server does not say so. Columns of Always Encrypted are bytes in both.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog import hidden_data as unseen
from tailrace_publisher.source.catalog.partitions import captured_partitions, partitioned
from tailrace_schemas.topics.topic_names import TableName

_log = structlog.get_logger(__name__)


def encrypted_problems(
    connection: Connection, selected: Iterable[CaptureInstance]
) -> list[tuple[TableName, str]]:
    """Find tables with captured columns of Always Encrypted, each with the fix."""
    encrypted = unseen.encrypted_columns(connection)
    problems: list[tuple[TableName, str]] = []
    for instance in selected:
        hidden = set(encrypted.get(instance.source_object_id, ()))
        names = [column.name for column in instance.columns if column.name in hidden]
        if names:
            text = (
                f"table {instance.table}, columns {', '.join(names)}: they are encrypted by Always"
                " Encrypted, and only the column's key makes their values readable. Fix: exclude"
                " them with columns.exclude, or capture the table with a @captured_column_list"
                " without them"
            )
            problems.append((instance.table, text))
    return problems


def masked_problems(
    config: PublisherConfig, connection: Connection, selected: Iterable[CaptureInstance]
) -> list[tuple[TableName, str]]:
    """Find tables whose snapshot would hold masks instead of values, each with the fix."""
    masked = unseen.masked_columns(connection)
    problems: dict[TableName, str] = {}
    for instance in selected:
        hidden = set(masked.get(instance.source_object_id, ()))
        names = [column.name for column in instance.columns if column.name in hidden]
        if names:
            problems[instance.table] = (
                f"table {instance.table}, columns {', '.join(names)}: login {config.source.account}"
                " reads masks instead of their values (dynamic data masking), so a snapshot would"
                f" be wrong. Fix: GRANT UNMASK TO [{config.source.account}], or set"
                " snapshot.mode: no_data"
            )
    return list(problems.items())


def warn_of_filters(connection: Connection, selected: Iterable[CaptureInstance]) -> None:
    """Warn of tables whose rows are not all visible to the login."""
    filtered = unseen.filtering_policies(connection)
    for table, object_id in sorted({(i.table, i.source_object_id) for i in selected}, key=str):
        if object_id in filtered:
            _log.warning(
                "rows_filtered_by_security_policy",
                table=str(table),
                policies=sorted(set(filtered[object_id])),
                effect="a snapshot has only the rows that the publisher's login sees; changes are"
                " complete",
                fix="let the policy's predicate return 1 for the publisher's user",
            )


def warn_of_switches(connection: Connection, instances: Iterable[CaptureInstance]) -> None:
    """Warn of partitioned tables whose partitions may be switched, which CDC does not log."""
    partitions = captured_partitions(connection)
    for table, count in sorted(partitioned(partitions, instances).items(), key=str):
        _log.warning(
            "partition_switch_allowed",
            table=str(table),
            partitions=count,
            effect="a switch writes no change rows: the publisher notices it, and stops the table"
            " or takes a new snapshot (snapshot.on_gap)",
            fix="if you switch no partitions, enable the table with @allow_partition_switch = 0",
        )
