"""Problems of single tables that the catalog and the options show, each with its fix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tailrace_publisher.change.column_rules import ColumnRules
from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.errors import ColumnsRefused
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.source.catalog.versions import current_columns
from tailrace_schemas.events.column_types import UnsupportedType, avro_type
from tailrace_schemas.topics.templates import is_plain_name
from tailrace_schemas.topics.topic_names import TableName


@dataclass(frozen=True, slots=True)
class TableProblem:
    """Why one table cannot be published.

    Attributes:
        is_missing: whether the table does not exist, or is not captured.
        is_of_snapshot: whether only its snapshot is affected.
    """

    table: TableName
    text: str
    is_missing: bool = False
    is_of_snapshot: bool = False


def unseen_tables(config: PublisherConfig, hidden: list[str]) -> str:
    """Describe instances whose tables are hidden; they matter only if some tables are missing."""
    if not hidden:
        return ""
    return (
        f"; or login {config.source.account} cannot see the source tables of the capture instances"
        f" {', '.join(hidden)}: GRANT SELECT ON each of these tables TO"
        f" [{config.source.account}] (tailrace grants prints the statements)"
    )


def table_problems(
    config: PublisherConfig,
    tables: dict[str, bool],
    selected: Iterable[CaptureInstance],
    hidden: list[str],
) -> list[TableProblem]:
    """Find tables that tables.include names and that are not captured, or do not exist."""
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
                f"{unseen_tables(config, hidden)}"
            )
        problems.append(TableProblem(table, text, is_missing=True))
    return problems


def topic_problems(
    config: PublisherConfig, selected: Iterable[CaptureInstance]
) -> list[TableProblem]:
    """Find tables whose topic cannot have its name."""
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


def gate_problems(
    config: PublisherConfig, selected: Iterable[CaptureInstance], gated: dict[str, str | None]
) -> list[TableProblem]:
    """Find capture instances whose changes the login may not read."""
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


def option_problems(config: PublisherConfig, selected: list[CaptureInstance]) -> list[TableProblem]:
    """Find tables and columns that an option names and that are not published."""
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
        ("outbox", config.outbox),
    ):
        for pattern in patterns:
            name = pattern.replace("\\", "")
            if is_plain_name(pattern) and name.casefold() not in published:
                text = f"{option}: table {name} is not published: check its spelling"
                problems.append(TableProblem(_named(config, name), text, is_missing=True))
    return problems + [
        TableProblem(instance.table, f"outbox: table {instance.table.in_database}{text}")
        for instance in selected
        for text in _outbox_problems(config, instance)
    ]


def _outbox_problems(config: PublisherConfig, instance: CaptureInstance) -> Iterator[str]:
    outbox = config.outbox_of(instance.table)
    if outbox is None:
        return
    names = [column.name for column in instance.columns]
    for option, column in outbox.unknown_columns(names).items():
        yield (
            f", option {option}: column {column} is not captured. Fix: name the column in"
            " publisher.outbox, or check @captured_column_list"
        )
    if "c" in config.skip.operations_of(instance.table):
        yield (
            ": skip.operations leaves out its inserts, which are the messages. Fix: remove c from"
            " the operations of this table"
        )


def column_problems(
    config: PublisherConfig, selected: list[CaptureInstance], rules: ColumnRules
) -> list[TableProblem]:
    """Find columns that no event can hold, and rules of columns that match none."""
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
            columns = current_columns(instance, config.lossless_of(instance.table), rules)
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
