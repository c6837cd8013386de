"""Tables whose values or rows the server hides from the login, and partitions that may be switched.

``source.catalog.hidden_data`` says what is hidden, and why such values are never published.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import structlog

from tailrace_publisher.change.column_rules import ColumnRules
from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.daemon.checks.table_problems import TableProblem
from tailrace_publisher.errors import ColumnsRefused, ValuesHidden
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog.hidden_data import (
    HiddenData,
    check_changes_visible,
    check_not_encrypted,
    check_rows_visible,
)
from tailrace_publisher.source.catalog.partitions import captured_partitions, partitioned
from tailrace_publisher.source.catalog.versions import current_columns
from tailrace_schemas.events.envelope import SchemaColumn
from tailrace_schemas.events.transforms import TransformKind
from tailrace_schemas.topics.topic_names import TableName

_log = structlog.get_logger(__name__)


def check_readable(
    hidden: HiddenData, instance: CaptureInstance, columns: Iterable[SchemaColumn]
) -> None:
    """Check that the changes of a capture instance may be read as they are.

    A column that the options mask is read all the same: the server masks any expression over it.

    Raises:
        ValuesHidden: they may not, whatever the mode of snapshots.
    """
    published = list(columns)
    read = [
        column.name
        for column in published
        if column.transform is None or column.transform.kind is not TransformKind.MASK
    ]
    check_not_encrypted(hidden, instance, read)
    check_changes_visible(hidden, instance, [column.name for column in published])


def hidden_problems(
    config: PublisherConfig,
    hidden: HiddenData,
    selected: Sequence[CaptureInstance],
    rules: ColumnRules,
) -> list[TableProblem]:
    """Find tables that may not be read as they are, each with the fix.

    Hidden rows concern a start only if it reads them. Else changes are published, and every later
    request to read the rows is refused.
    """
    if not hidden.sees_policies:
        _log.info(
            "security_policies_unseen",
            effect="a security policy that filters rows of a table is noticed only if the login"
            " has VIEW DEFINITION on the policy",
            fix="if there are security policies: GRANT VIEW DEFINITION to the login in the database"
            " (tailrace grants)",
        )
    problems: dict[TableName, TableProblem] = {}
    for instance in selected:
        table = instance.table
        try:
            columns = current_columns(instance, config.lossless_of(table), rules)
            check_readable(hidden, instance, columns)
        except ColumnsRefused:
            continue  # which the check of columns reports
        except ValuesHidden as error:
            problems[table] = TableProblem(table, str(error))
            continue
        try:
            check_rows_visible(hidden, instance, [column.name for column in columns])
        except ValuesHidden as error:
            if config.snapshot.reads_first:
                problems.setdefault(table, TableProblem(table, str(error), is_of_snapshot=True))
            else:
                _log.warning("snapshot_would_be_wrong", reason=str(error))
    return list(problems.values())


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
