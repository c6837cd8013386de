"""The checks of the source before publishing: they find and report every problem at once.

A problem of the database ends the start. Problems of single tables are returned. A start leaves
those tables out and publishes the others, as if a problem arose while it runs (ADR 0008). A first
start refuses wrong options, and a configuration that leaves no table (ADR 0122).
"""

from __future__ import annotations

from dataclasses import replace

import structlog

from tailrace_publisher.change.column_rules import ColumnRules
from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.daemon.checks.protected_rows import (
    hidden_problems,
    warn_of_switches,
)
from tailrace_publisher.daemon.checks.snapshot_conditions import (
    condition_problems,
    warn_of_large_values,
)
from tailrace_publisher.daemon.checks.table_problems import (
    TableProblem,
    ambiguous_entries,
    column_problems,
    gate_problems,
    idle_entries,
    option_problems,
    table_problems,
    topic_problems,
    unseen_tables,
)
from tailrace_publisher.encode.columns.value_hash import rules_of
from tailrace_publisher.errors import PermissionMissing, PreflightError
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.options.source import ReadMode, SourceConfig
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog import capture_catalog as catalog
from tailrace_publisher.source.catalog import hidden_data as unseen
from tailrace_publisher.source.catalog.instances import Catalog, KnownCatalog, read_catalog
from tailrace_publisher.source.log.queries import is_cdc_enabled, server_version
from tailrace_schemas.topics.topic_names import TableName

_log = structlog.get_logger(__name__)


def check_source(
    config: PublisherConfig, connection: Connection, known: KnownCatalog
) -> tuple[list[TableProblem], Catalog]:
    """Check the database, the tables and the options that name tables.

    Args:
        known: what is already known of the capture instances.

    Returns:
        Problems of single tables, and the catalog as it was read.

    Raises:
        PreflightError: a problem of the whole database, with the statement that fixes it.
        SourceError: the server did not answer.
    """
    database = config.source.database
    _log.info("source_connected", version=server_version(connection), database=database)
    if not is_cdc_enabled(connection):
        raise PreflightError(
            [
                f"CDC is not enabled for database {database}. Fix: EXEC sys.sp_cdc_enable_db in it,"
                " then EXEC sys.sp_cdc_enable_table for each table to publish"
            ]
        )
    try:
        tables = catalog.tables(connection)
        captured = read_catalog(connection, database, config.message_keys, known)
        hidden = unseen.hidden_instances(connection)
        gated = unseen.gated_instances(connection)
    except PermissionMissing as error:
        raise PreflightError(
            [
                f"login {config.source.account} may not read the CDC tables of {database}"
                f" ({error}): {_grants(config.source)}, and the"
                " same on the schemas of the tables for the initial snapshot"
            ]
        ) from error
    selected = [i for i in captured.instances if config.tables.selects(i.table)]
    rules = rules_of(config.columns)
    read = [_as_read(instance, rules) for instance in selected]
    problems = [
        *table_problems(config, tables, selected, hidden),
        *ambiguous_entries(config, tables),
        *topic_problems(config, selected),
        *gate_problems(config, selected, gated),
        *option_problems(config, selected),
        *column_problems(config, selected, rules),
        *hidden_problems(config, captured.hidden, selected, rules),
        *(
            TableProblem(*found, is_of_snapshot=True, is_of_options=True)
            for found in condition_problems(config.snapshot, connection, selected)
        ),
    ]
    if not selected:
        raise PreflightError([problem.text for problem in problems] or [_nothing(config, hidden)])
    _warn(config, tables, selected)
    warn_of_switches(connection, selected)
    warn_of_large_values(config.snapshot, read)
    return problems, captured


def _grants(source: SourceConfig) -> str:
    """Return what makes the catalog of capture instances and schema cdc readable in a mode."""
    if source.read_mode is ReadMode.DIRECT:
        return f"GRANT SELECT ON SCHEMA::cdc TO [{source.account}]"
    tables = ", ".join(f"cdc.{table}" for table in catalog.METADATA_TABLES)
    return (
        f"GRANT VIEW DEFINITION ON SCHEMA::cdc, and GRANT SELECT on {tables}, TO"
        f" [{source.account}] (tailrace grants)"
    )


def _nothing(config: PublisherConfig, hidden: list[str]) -> str:
    return (
        f"no table of database {config.source.database} is captured and matches tables.include"
        f" {config.tables.include} without tables.exclude {config.tables.exclude}: run EXEC"
        f" sys.sp_cdc_enable_table for each table to publish{unseen_tables(config, hidden)}"
    )


def _as_read(instance: CaptureInstance, rules: ColumnRules) -> CaptureInstance:
    """Return an instance with the columns whose values are read."""
    if rules.options.is_everything:
        return instance
    columns = [c for c in instance.columns if rules.reads(instance, c)]
    return replace(instance, columns=tuple(columns))


def _warn(
    config: PublisherConfig, tables: dict[str, bool], selected: list[CaptureInstance]
) -> None:
    """Log what works but may surprise."""
    uncaptured = [
        name
        for name, is_captured in tables.items()
        if not is_captured
        and config.tables.selects(TableName(config.source.database, *name.split(".", 1)))
    ]
    if uncaptured:
        _log.warning("tables_without_cdc", tables=sorted(uncaptured), effect="not published")
    for entry in idle_entries(config, selected):
        _log.warning(
            "pattern_selects_nothing",
            option="tables.include",
            pattern=entry,
            effect="no captured table matches it",
            fix="check its spelling, and that its tables are captured; write a backslash before"
            " each character that stands for itself",
        )
    for instance in selected:
        collations = instance.in_other_collations
        if collations:
            _log.warning(
                "columns_in_other_collations",
                table=str(instance.table),
                columns=[f"{name} {collation}" for name, collation in collations.items()],
                effect="the capture process may store other characters than the table has",
                fix="make them nchar or nvarchar, or give them the collation of the database",
            )
        computed = [column.name for column in instance.columns if column.is_computed]
        if computed:
            _log.warning(
                "computed_columns_captured",
                table=str(instance.table),
                columns=computed,
                effect="CDC always gives NULL for them",
            )
