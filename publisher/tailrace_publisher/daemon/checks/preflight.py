"""The checks of the source before publishing: they find and report every problem at once.

A problem of the database ends the start. Problems of single tables are returned: the first start
refuses them. A later start, with a checkpoint, leaves those tables out and continues with the
others. It would do the same if the problem arose while it runs (ADR 0008).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import structlog

from tailrace_publisher.change.column_rules import ColumnRules
from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.daemon.checks.protected_rows import (
    encrypted_problems,
    masked_problems,
    warn_of_filters,
    warn_of_switches,
)
from tailrace_publisher.daemon.checks.snapshot_conditions import (
    condition_problems,
    warn_of_large_values,
)
from tailrace_publisher.encode.columns.value_hash import rules_of
from tailrace_publisher.errors import ColumnsRefused, PermissionMissing, PreflightError
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.options.source import ReadMode, SourceConfig
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog import capture_catalog as catalog
from tailrace_publisher.source.catalog import hidden_data as unseen
from tailrace_publisher.source.catalog.instances import Catalog, KnownCatalog, read_catalog
from tailrace_publisher.source.catalog.versions import current_columns
from tailrace_publisher.source.log.queries import is_cdc_enabled, server_version
from tailrace_schemas.events.column_types import UnsupportedType, avro_type
from tailrace_schemas.topics.templates import is_plain_name
from tailrace_schemas.topics.topic_names import TableName

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TableProblem:
    """Why one table cannot be published.

    Attributes:
        text: the problem and the statement that fixes it.
        is_missing: whether the table does not exist, or is not captured.
        is_of_snapshot: whether only its snapshot is affected.
    """

    table: TableName
    text: str
    is_missing: bool = False
    is_of_snapshot: bool = False


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
        *_table_problems(config, tables, selected, hidden),
        *_topic_problems(config, selected),
        *_gate_problems(config, selected, gated),
        *_option_problems(config, selected),
        *_column_problems(config, selected, rules),
        *(TableProblem(*found) for found in encrypted_problems(connection, read)),
        *_mask_problems(config, connection, read),
        *(
            TableProblem(*found, is_of_snapshot=True)
            for found in condition_problems(config.snapshot, connection, selected)
        ),
    ]
    if not selected:
        raise PreflightError([problem.text for problem in problems] or [_nothing(config, hidden)])
    _warn(config, tables, selected)
    warn_of_filters(connection, selected)
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
        f" sys.sp_cdc_enable_table for each table to publish{_unseen(config, hidden)}"
    )


def _unseen(config: PublisherConfig, hidden: list[str]) -> str:
    """Describe instances whose tables are hidden; they matter only if some tables are missing."""
    if not hidden:
        return ""
    return (
        f"; or login {config.source.account} cannot see the source tables of the capture instances"
        f" {', '.join(hidden)}: GRANT SELECT ON SCHEMA::dbo (or on the tables) TO"
        f" [{config.source.account}]"
    )


def _table_problems(
    config: PublisherConfig,
    tables: dict[str, bool],
    selected: Iterable[CaptureInstance],
    hidden: list[str],
) -> list[TableProblem]:
    captured = {f"{i.table.schema}.{i.table.table}".casefold() for i in selected}
    by_name = {name.casefold(): name for name in tables}
    problems: list[TableProblem] = []
    for pattern in config.tables.plain_names():
        name = pattern.replace("\\", "")
        if name.casefold() in captured:
            continue
        if name.casefold() in by_name:
            table = _named(config, by_name[name.casefold()])
            text = (
                f"table {table.schema}.{table.table} is not captured: run EXEC"
                f" sys.sp_cdc_enable_table @source_schema = N'{table.schema}',"
                f" @source_name = N'{table.table}', @role_name = NULL"
            )
        else:
            table = _named(config, name)
            text = (
                f"table {name} (tables.include) does not exist in database"
                f" {config.source.database}: check its spelling and the login's permissions"
                f"{_unseen(config, hidden)}"
            )
        problems.append(TableProblem(table, text, is_missing=True))
    return problems


def _topic_problems(
    config: PublisherConfig, selected: Iterable[CaptureInstance]
) -> list[TableProblem]:
    problems: list[TableProblem] = []
    for table in sorted({instance.table for instance in selected}, key=str):
        try:
            config.topics.data(table)
        except ValueError as error:
            problems.append(TableProblem(table, str(error), is_missing=True))
    return problems


def _named(config: PublisherConfig, name: str) -> TableName:
    """Return the table of a configured name: schema.table."""
    schema, _, table = name.partition(".")
    return TableName(config.source.database, schema, table)


def _gate_problems(
    config: PublisherConfig, selected: Iterable[CaptureInstance], gated: dict[str, str | None]
) -> list[TableProblem]:
    user = config.source.account
    problems = []
    for instance in selected:
        if instance.name not in gated:
            continue
        role = gated[instance.name]
        gate = (
            "" if role is None else f"ALTER ROLE [{role}] ADD MEMBER [{user}] (its gating role), "
        )
        text = (
            f"login {user} may not read the changes of capture instance {instance.name}:"
            f" {gate}GRANT SELECT on all captured columns of {instance.table} TO [{user}]"
        )
        problems.append(TableProblem(instance.table, text))
    return problems


def _option_problems(
    config: PublisherConfig, selected: list[CaptureInstance]
) -> list[TableProblem]:
    published = {f"{i.table.schema}.{i.table.table}".casefold(): i for i in selected}
    problems: list[TableProblem] = []
    for option, named in (
        ("message_keys", config.message_keys),
        ("lossless_columns", config.lossless_columns),
    ):
        for table, wanted in named.items():
            instance = published.get(table.casefold())
            if instance is None:
                text = f"{option}: table {table} is not published: check its spelling"
                problems.append(TableProblem(_named(config, table), text, is_missing=True))
                continue
            known = {column.name.casefold() for column in instance.columns}
            problems += [
                TableProblem(
                    instance.table,
                    f"{option}.{table}: column {column} is not captured: check its spelling or"
                    " @captured_column_list",
                )
                for column in wanted
                if column.casefold() not in known
            ]
    for option, patterns in (
        ("skip.operations", config.skip.operations),
        ("snapshot.where", config.snapshot.where),
    ):
        for pattern in patterns:
            name = pattern.replace("\\", "")
            if is_plain_name(pattern) and name.casefold() not in published:
                text = f"{option}: table {name} is not published: check its spelling"
                problems.append(TableProblem(_named(config, name), text, is_missing=True))
    return problems


def _column_problems(
    config: PublisherConfig, selected: list[CaptureInstance], rules: ColumnRules
) -> list[TableProblem]:
    lossless = {name.casefold(): columns for name, columns in config.lossless_columns.items()}
    published = {f"{i.table.schema}.{i.table.table}".casefold(): i.table for i in selected}
    problems: list[TableProblem] = []
    for option, name in rules.unmatched(selected):
        of_table = name.rpartition(".")[0]
        text = (
            f"{option} {name}: it is no captured column of a published table: check its spelling or"
            " @captured_column_list"
        )
        table_name = published.get(of_table.casefold())
        missing = table_name or _named(config, of_table)
        problems.append(TableProblem(missing, text, is_missing=table_name is None))
    for instance in selected:
        table = f"{instance.table.schema}.{instance.table.table}"
        try:
            columns = current_columns(instance, lossless.get(table.casefold(), ()), rules)
        except ColumnsRefused as error:
            problems += [TableProblem(instance.table, problem) for problem in error.problems]
            continue
        for column in columns:
            try:
                avro_type(column.type, lossless=column.lossless)
            except UnsupportedType as error:
                text = (
                    f"table {table}, column {column.name}: {error}. Fix: exclude the column with"
                    " columns.exclude, or capture the table with a @captured_column_list without it"
                )
                problems.append(TableProblem(instance.table, text))
    return problems


def _as_read(instance: CaptureInstance, rules: ColumnRules) -> CaptureInstance:
    """Return an instance with the columns whose values are read."""
    if rules.options.is_everything:
        return instance
    columns = [c for c in instance.columns if rules.reads(instance, c)]
    return replace(instance, columns=tuple(columns))


def _mask_problems(
    config: PublisherConfig, connection: Connection, selected: list[CaptureInstance]
) -> list[TableProblem]:
    """Find tables whose snapshot would be wrong: a first start refuses them, a later one logs them.

    Their changes are right, so a table that was published before continues.
    """
    masked = masked_problems(config, connection, selected)
    if config.snapshot.reads_first:
        return [TableProblem(table, text, is_of_snapshot=True) for table, text in masked]
    for table, text in masked:
        _log.warning("snapshot_would_be_masked", table=str(table), reason=text)
    return []


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
    for instance in selected:
        computed = [column.name for column in instance.columns if column.is_computed]
        if computed:
            _log.warning(
                "computed_columns_captured",
                table=str(instance.table),
                columns=computed,
                effect="CDC always gives NULL for them",
            )
