"""T-SQL that is shown before it is run: what enable and grants plan, the doctor's safe fixes."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click
import structlog
from pydantic import SecretStr

from tailrace.doctor.findings import Finding
from tailrace.enable import CaptureOptions, enable_database, enable_table, least_grants
from tailrace_publisher.config import PublisherConfig
from tailrace_publisher.errors import PreflightError, SourceError
from tailrace_publisher.ports import Connection
from tailrace_publisher.source import catalog
from tailrace_publisher.source.connection import OdbcConnection
from tailrace_publisher.source.queries import is_cdc_enabled
from tailrace_publisher.source_options import SourceConfig
from tailrace_schemas.topics import TableName


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, and what it is for."""

    sql: str
    purpose: str = ""

    @property
    def text(self) -> str:
        """As it is shown, to be pasted."""
        return f"{self.sql};  -- {self.purpose}" if self.purpose else f"{self.sql};"


@dataclass(slots=True)
class Plan:
    """What is to be run in the source's database, in this order.

    Attributes:
        statements: the statements.
        notes: what is to be known beside them.
    """

    statements: list[Statement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Let a report speak alone: nothing is logged meanwhile."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


def plan_enable(
    config: PublisherConfig, wanted: Sequence[tuple[str, str]], options: CaptureOptions
) -> Plan:
    """What turns change data capture on for tables.

    Args:
        config: says where.
        wanted: schema and name of each.
        options: how they are captured.

    Raises:
        PreflightError: names tables and columns that are not there.
        SourceError: the server did not answer.
    """
    plan = Plan()
    with OdbcConnection(config.source) as connection:
        tables = {
            (schema, table): is_captured
            for schema, table, is_captured in catalog.user_tables(connection)
        }
        known = {(s.casefold(), t.casefold()): (s, t) for s, t in tables}
        spelled = [known.get((s.casefold(), t.casefold()), (s, t)) for s, t in wanted]
        missing = [".".join(name) for name in spelled if name not in tables]
        if missing:
            names = {".".join(name).casefold(): ".".join(name) for name in tables}
            raise PreflightError([_not_there(config, name, names) for name in missing])
        if not is_cdc_enabled(connection):
            plan.statements.append(Statement(enable_database(), "needs sysadmin"))
        for schema, table in spelled:
            name = f"{schema}.{table}"
            _check_columns(connection, name, (schema, table), options.columns)
            if tables[schema, table] and options.capture_instance is None:
                plan.notes.append(
                    f"{name} is captured already; a second capture instance, with its columns of"
                    " today, needs --capture-instance"
                )
                continue
            plan.statements.append(Statement(enable_table(schema, table, options)))
    left_out = [
        ".".join(name)
        for name in spelled
        if not config.tables.selects(TableName(config.source.database, *name))
    ]
    if left_out:
        plan.notes.append(f"tables.include and exclude leave out {', '.join(left_out)}")
    if options.role is not None:
        plan.notes.append(
            f"the publisher's login must be a member of {options.role}: tailrace grants"
        )
    return plan


def _not_there(config: PublisherConfig, name: str, by_name: dict[str, str]) -> str:
    near = difflib.get_close_matches(name.casefold(), by_name, n=1)
    hint = f": did you mean {by_name[near[0]]}?" if near else ""
    return (
        f"table {name} does not exist in database {config.source.database}, or login"
        f" {config.source.account} may not see it{hint}"
    )


def _check_columns(
    connection: Connection, name: str, table: tuple[str, str], wanted: Sequence[str]
) -> None:
    rows = connection.query(
        "SELECT c.name FROM sys.columns AS c JOIN sys.tables AS t ON t.object_id = c.object_id JOIN"
        " sys.schemas AS s ON s.schema_id = t.schema_id WHERE s.name = ? AND t.name = ?",
        *table,
    )
    known = {str(row[0]).casefold(): str(row[0]) for row in rows}
    missing = [column for column in wanted if column.casefold() not in known]
    if missing:
        raise PreflightError(
            [
                f"table {name} has no column {', '.join(missing)}: its columns are"
                f" {', '.join(known.values())}"
            ]
        )


def plan_grants(config: PublisherConfig, user: str) -> Plan:
    """What gives a user what the publisher needs, for the tables that are captured and selected.

    Raises:
        SourceError: the server did not answer.
    """
    schemas: set[str] = set()
    roles: set[str] = set()
    plan = Plan()
    with OdbcConnection(config.source) as connection:
        if is_cdc_enabled(connection):
            rows = connection.query(
                "SELECT s.name, t.name, c.role_name FROM cdc.change_tables AS c JOIN sys.tables AS"
                " t ON t.object_id = c.source_object_id JOIN sys.schemas AS s ON s.schema_id ="
                " t.schema_id"
            )
            for schema, table, role in rows:
                if config.tables.selects(TableName(config.source.database, schema, table)):
                    schemas.add(str(schema))
                    roles.update([] if role is None else [str(role)])
        else:
            plan.notes.append("CDC is not enabled: tailrace enable comes first")
        known = connection.query("SELECT DATABASE_PRINCIPAL_ID(?)", user)[0][0]
    if known is None:
        plan.notes.append(
            f"there is no user {user} in {config.source.database}: CREATE LOGIN and CREATE USER"
            " come first"
        )
    grants = least_grants(user, schemas, roles, config.source.read_mode)
    plan.statements += [Statement(sql, purpose) for sql, purpose in grants]
    return plan


def run_plan(
    plan: Plan,
    source: SourceConfig,
    *,
    login: str | None,
    password: str | None,
    password_file: Path | None,
) -> None:
    """Run statements in the source's database, until one fails.

    Args:
        plan: the statements.
        source: where.
        login: as whom; None as the publisher's login.
        password: of the login, or None where it is in a file.
        password_file: file whose first line is its password.

    Raises:
        SourceError: the typed reason of a failure.
    """
    account = source
    if login is not None:
        changed = {
            "user": login,
            "password": None if password is None else SecretStr(password),
            "password_file": password_file,
        }
        account = source.model_copy(update=changed)
    with OdbcConnection(account) as connection:
        for statement in plan.statements:
            connection.query_sets(statement.sql)


def run_safe_fixes(source: SourceConfig, findings: Iterable[Finding], *, ask: bool) -> None:
    """Show each fix that is safe, and run it."""
    fixes = {f.fix.text: f for f in findings if f.fix is not None and f.fix.is_safe}
    if not fixes:
        click.echo("There is nothing that --fix may mend.", err=True)
    for sql, finding in fixes.items():
        click.echo(f"{finding.subject}: {sql}", err=True)
        if ask and not click.confirm("Run it?", err=True):
            continue
        try:
            with OdbcConnection(source) as connection:
                connection.query_sets(sql)
        except SourceError as error:
            click.echo(f"It failed: {error}", err=True)
        else:
            click.echo("Done.", err=True)
