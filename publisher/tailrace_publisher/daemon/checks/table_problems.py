"""Problems of single tables that the catalog and the options show, each with its fix."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from tailrace_publisher.change.column_rules import ColumnRules
from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.errors import ColumnsRefused
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.source.catalog.versions import current_columns
from tailrace_publisher.source.connection.quoting import quote_text
from tailrace_schemas.events.column_types import UnsupportedType, avro_type
from tailrace_schemas.topics.name_patterns import spelled_as
from tailrace_schemas.topics.templates import is_plain_name
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.options.sections import matches


@dataclass(frozen=True, slots=True)
class TableProblem:
    """Why one table cannot be published.

    Attributes:
        is_missing: whether the table does not exist, or is not captured.
        is_of_snapshot: whether only its snapshot is affected.
        is_of_options: whether an option is wrong, which a first start refuses for all tables.
    """

    table: TableName
    text: str
    is_missing: bool = False
    is_of_snapshot: bool = False
    is_of_options: bool = False


def refuses_first_start(problems: Collection[TableProblem], chosen: Collection[TableName]) -> bool:
    """Return whether a first start is refused: for an option, or because no table is left.

    Args:
        chosen: the captured tables that would be published.
    """
    is_none_left = bool(chosen) and set(chosen) <= {problem.table for problem in problems}
    return is_none_left or any(problem.is_of_options for problem in problems)


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
    tables: Collection[str],
    selected: Iterable[CaptureInstance],
    hidden: list[str],
) -> list[TableProblem]:
    """Find tables that tables.include names and that are not captured, or do not exist.

    An entry names a table if it is spelled like one of the database, or can only be a name.
    """
    captured = {i.table.in_database for i in selected}
    problems: list[TableProblem] = []
    for entry in config.tables.include:
        name = entry.replace("\\", "") if is_plain_name(entry) else entry
        there = spelled_as(name, tables)
        if spelled_as(name, captured) is not None or not (there or is_plain_name(entry)):
            continue
        if there is not None:
            table, is_misspelt = _named(config, there), False
            text = (
                f"table {table.in_database} is not captured: run EXEC"
                f" sys.sp_cdc_enable_table @source_schema = {quote_text(table.schema)},"
                f" @source_name = {quote_text(table.table)}, @role_name = NULL"
            )
        else:
            # a table that the login may not see looks like one that is not there
            table, is_misspelt = _named(config, name), not hidden
            text = (
                f"table {name} (tables.include) does not exist in database"
                f" {config.source.database}: check its spelling and the login's permissions"
                f"{unseen_tables(config, hidden)}"
            )
        problem = TableProblem(table, text, is_missing=True, is_of_options=is_misspelt)
        problems.append(problem)
    return problems


def ambiguous_entries(config: PublisherConfig, tables: Collection[str]) -> list[TableProblem]:
    """Find entries that are spelled like a table, and select another one as well.

    Two tables may differ in case alone, or the name as a regular expression matches another name.
    """
    problems: list[TableProblem] = []
    for option, entries in (
        ("tables.include", config.tables.include),
        ("tables.exclude", config.tables.exclude),
    ):
        for entry in entries:
            own = spelled_as(entry, tables)
            others = [] if own is None else [t for t in tables if matches([entry], t) and t != own]
            if own is not None and others:
                text = (
                    f"{option} {entry}: it is the name of table {own}, and as a pattern selects"
                    f" {', '.join(sorted(others))}, too. Fix: write (?-i:{re.escape(own)}) for"
                    f" {own} alone, and add an entry for each other table that is meant"
                )
                problems.append(TableProblem(_named(config, own), text, is_of_options=True))
    return problems


def idle_entries(config: PublisherConfig, selected: Iterable[CaptureInstance]) -> list[str]:
    """Return the patterns of tables.include that select no captured table."""
    captured = {i.table.in_database for i in selected}
    return [
        entry
        for entry in config.tables.include
        if not is_plain_name(entry) and not any(matches([entry], name) for name in captured)
    ]


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
    published = {i.table.in_database: i for i in selected}
    problems: list[TableProblem] = []
    for option, named in (
        ("message_keys", config.message_keys),
        ("lossless_columns", config.lossless_columns),
    ):
        for table, wanted in named.items():
            spelled = spelled_as(table, published)
            if spelled is None:
                text = f"{option}: table {table} is not published: check its spelling"
                problems.append(TableProblem(_named(config, table), text, is_missing=True))
                continue
            if option == "message_keys":
                continue  # its columns: CaptureInstance.key_problem
            columns = [column.name for column in published[spelled].columns]
            problems += [
                TableProblem(
                    published[spelled].table,
                    f"{option}.{table}: column {column} is not captured: check its spelling or"
                    " @captured_column_list",
                )
                for column in wanted
                if spelled_as(column, columns) is None
            ]
    for option, patterns in (
        ("skip.operations", config.skip.operations),
        ("snapshot.where", config.snapshot.where),
        ("outbox", config.outbox),
    ):
        for pattern in patterns:
            name = pattern.replace("\\", "")
            if is_plain_name(pattern) and spelled_as(name, published) is None:
                text = f"{option}: table {name} is not published: check its spelling"
                problems.append(TableProblem(_named(config, name), text, is_missing=True))
    problems += [
        TableProblem(instance.table, f"outbox: table {instance.table.in_database}{text}")
        for instance in selected
        for text in _outbox_problems(config, instance)
    ]
    return [replace(problem, is_of_options=True) for problem in problems]


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
    published = {i.table.in_database: i.table for i in selected}
    problems: list[TableProblem] = []
    for option, name in rules.unmatched(selected):
        of_table = name.rpartition(".")[0]
        text = (
            f"{option} {name}: it is no captured column of a published table: check its spelling or"
            " @captured_column_list"
        )
        spelled = spelled_as(of_table, published)
        table_name = None if spelled is None else published[spelled]
        missing = table_name or _named(config, of_table)
        is_missing = table_name is None
        problem = TableProblem(missing, text, is_missing=is_missing, is_of_options=True)
        problems.append(problem)
    for instance in selected:
        table = f"{instance.table.schema}.{instance.table.table}"
        try:
            columns = current_columns(instance, config.lossless_of(instance.table), rules)
        except ColumnsRefused as error:
            problems += [
                TableProblem(instance.table, text, is_of_options=True) for text in error.problems
            ]
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
