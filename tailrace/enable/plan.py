"""What ``tailrace enable`` and ``tailrace grants`` plan: the T-SQL that sets a source up.

The plan is looked up as the login that is to run it (``--login``): the publisher's own login sees
nothing before it was granted anything. Where only that one is known, names are taken as they are
given, and nothing is run.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final

from tailrace.enable.statements import Plan, Statement
from tailrace.enable.tsql import (
    Captured,
    create_account,
    doctor_grants,
    enable_database,
    least_grants,
    log_grants,
    primary_grants,
)
from tailrace_publisher.errors import (
    DatabaseUnknown,
    LoginRefused,
    PermissionMissing,
    PreflightError,
)
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.options.source import SourceConfig
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog import capture_catalog as catalog
from tailrace_publisher.source.catalog.capture_tsql import CaptureOptions, enable_table
from tailrace_publisher.source.catalog.hidden_data import hiding
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_publisher.source.connection.quoting import quote_name, quote_text
from tailrace_publisher.source.log.queries import is_cdc_enabled
from tailrace_publisher.source.log.server_kind import ServerKind, server_kind
from tailrace_schemas.topics.topic_names import TableName

_SEES_TOO_LITTLE = (DatabaseUnknown, LoginRefused, PermissionMissing)


_OF_RDS: Final = (
    "Amazon RDS: sys.sp_cdc_change_job sets the jobs. With Multi-AZ a failover creates them again:"
    " EXEC rdsadmin.dbo.rds_set_configuration 'cdc_capture_maxtrans', <number> (likewise"
    " cdc_capture_pollinginterval, cdc_cleanup_retention) keeps a setting"
)
"""See: Using change data capture for Amazon RDS for SQL Server, Multi-AZ instances."""


class _NotSeen(Exception):
    """The publisher's own login does not see what is asked for."""


def plan_enable(
    config: PublisherConfig,
    account: SourceConfig,
    wanted: Sequence[tuple[str, str]],
    options: CaptureOptions,
) -> Plan:
    """What turns change data capture on for tables.

    Args:
        account: the source with the login that looks, and that is to run it.
        wanted: schema and name of each.
        options: how they are captured.

    Raises:
        PreflightError: names tables and columns that do not exist.
        SourceError: the server did not answer.
    """
    # See: sys.databases, is_cdc_enabled; sys.sp_cdc_enable_db
    try:
        with OdbcConnection(account) as connection:
            plan = _checked_enable(account, connection, wanted, options)
    except (*_SEES_TOO_LITTLE, _NotSeen) as error:
        if account is not config.source:
            raise
        plan = _unchecked(error)
        enable, needed = enable_database(account.database, None)
        plan.statements = [
            Statement(
                "IF NOT EXISTS (SELECT * FROM sys.databases WHERE name = DB_NAME() AND"
                f" is_cdc_enabled = 1) {enable}",
                needed,
            ),
            *(Statement(enable_table(schema, table, options)) for schema, table in wanted),
        ]
    left_out = [
        ".".join(name)
        for name in wanted
        if not config.tables.selects(TableName(config.source.database, *name))
    ]
    if left_out:
        plan.notes.append(f"tables.include and exclude leave out {', '.join(left_out)}")
    if options.role is not None:
        plan.notes.append(
            f"the publisher's login must be a member of {options.role}: tailrace grants"
        )
    return plan


def _unchecked(error: Exception) -> Plan:
    """A plan that nobody has compared with the database."""
    reason = f"Not compared with the database: {error}"
    return Plan(
        notes=[reason],
        not_runnable=f"{reason}. Fix: add --login with a login that may change the database",
    )


def _checked_enable(
    account: SourceConfig,
    connection: Connection,
    wanted: Sequence[tuple[str, str]],
    options: CaptureOptions,
) -> Plan:
    kind = server_kind(connection)
    plan = Plan(has_use=not kind.is_single_database)
    tables = {
        (schema, table): is_captured
        for schema, table, is_captured in catalog.user_tables(connection)
    }
    known = {(s.casefold(), t.casefold()): (s, t) for s, t in tables}
    spelled = [
        name if name in tables else known.get((name[0].casefold(), name[1].casefold()), name)
        for name in wanted
    ]
    missing = [".".join(name) for name in spelled if name not in tables]
    if missing:
        raise _of_missing(account, connection, missing, [".".join(name) for name in tables])
    if not is_cdc_enabled(connection):
        plan.statements.append(Statement(*enable_database(account.database, kind)))
        if kind.is_rds:
            plan.notes.append(_OF_RDS)
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
    return plan


def _of_missing(
    account: SourceConfig, connection: Connection, missing: Sequence[str], known: Sequence[str]
) -> Exception:
    """Why tables are missing: a login that sees all knows that they do not exist."""
    # NULL is the current database, whatever its name is; a name is parsed.
    # See: HAS_PERMS_BY_NAME (Transact-SQL), remarks.
    asked = "SELECT HAS_PERMS_BY_NAME(NULL, N'DATABASE', N'VIEW DEFINITION')"
    sees_all = bool(connection.query(asked)[0][0])
    names = {name.casefold(): name for name in known}
    near = {name: difflib.get_close_matches(name.casefold(), names, n=1) for name in missing}
    if not sees_all and not any(near.values()):
        return _NotSeen(f"login {account.account} does not see {', '.join(missing)}")
    return PreflightError(
        [
            f"table {name} does not exist in database {account.database}, or login"
            f" {account.account} may not see it"
            + "".join(f": did you mean {names[found]}?" for found in near[name])
            for name in missing
        ]
    )


def _check_columns(
    connection: Connection, name: str, table: tuple[str, str], wanted: Sequence[str]
) -> None:
    # See: sys.columns; Metadata Visibility Configuration
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


def plan_grants(config: PublisherConfig, account: SourceConfig, user: str) -> Plan:
    """What gives a user what the publisher needs, for the tables that are captured and selected.

    Args:
        account: the source with the login that looks, and that is to run it.

    Raises:
        SourceError: the server did not answer.
    """
    # See: the page of sys.sp_cdc_enable_db; GRANT
    captured: Captured | None = None
    kind: ServerKind | None = None
    try:
        with OdbcConnection(account) as connection:
            kind = server_kind(connection)
            plan = _account_plan(config, connection, user, kind)
            if not is_cdc_enabled(connection):
                plan.not_runnable = (
                    f"CDC is not enabled in database {config.source.database}, so there is no"
                    " schema cdc. Fix: run tailrace enable first"
                )
                plan.notes.append("CDC is not enabled: tailrace enable comes first")
            else:
                captured = _captured(config, connection)
    except _SEES_TOO_LITTLE as error:
        if account is not config.source:
            raise
        plan = _unchecked(error)
        plan.statements += [Statement(*each) for each in create_account(user, "N'<password>'")]
    if captured is None:
        plan.notes.append("SELECT is granted on all tables that are captured when this runs")
    grants = least_grants(user, captured, config.source.read_mode)
    plan.statements += [Statement(sql, purpose) for sql, purpose in grants]
    if config.source_changes:
        _add_primary(config, plan, kind)
    elsewhere = log_grants(user, kind) + doctor_grants(user, kind)
    plan.statements += [
        Statement(sql, purpose, database=database) for database, sql, purpose in elsewhere
    ]
    return plan


def _add_primary(config: PublisherConfig, plan: Plan, kind: ServerKind | None) -> None:
    """Add what changing the source needs: a login of its own, so that the other only reads."""
    options = ", ".join(config.source_changes)
    primary = config.source.primary
    if primary.user is None:
        plan.notes.append(
            f"{options}: needs a login in the role db_owner. Fix: give source.primary one of its"
            " own, so that the publisher's login only reads"
        )
        return
    given = create_account(primary.user, "N'<password>'", kind)
    plan.statements += [Statement(*each) for each in given]
    plan.statements += [Statement(*each) for each in primary_grants(primary.user, options)]
    plan.not_runnable = plan.not_runnable or (
        f"replace the password of login {primary.user} in the statements if it does not exist yet"
    )


def _captured(config: PublisherConfig, connection: Connection) -> Captured:
    """The captured tables that are selected, and their gating roles."""
    # See: cdc.change_tables, role_name
    rows = connection.query(
        "SELECT s.name, t.name, c.role_name FROM cdc.change_tables AS c JOIN sys.tables AS"
        " t ON t.object_id = c.source_object_id JOIN sys.schemas AS s ON s.schema_id ="
        " t.schema_id"
    )
    selected = [
        (str(schema), str(table), role)
        for schema, table, role in rows
        if config.tables.selects(TableName(config.source.database, schema, table))
    ]
    roles = [str(role) for _, _, role in selected if role]
    tables = [(schema, table) for schema, table, _ in selected]
    masked, policies = hiding(connection, tables)
    return Captured(tables, roles, masked, policies)


def _account_plan(
    config: PublisherConfig, connection: Connection, user: str, kind: ServerKind
) -> Plan:
    """The statements that make login and user, where there are none."""
    # See: DATABASE_PRINCIPAL_ID; SUSER_ID; CREATE USER
    plan = Plan(has_use=not kind.is_single_database)
    if connection.query("SELECT DATABASE_PRINCIPAL_ID(?)", user)[0][0] is not None:
        return plan
    name = quote_name(user)
    if kind.is_single_database:
        secret = quote_text(_password_of(config.source, user) or "<password>")
        ((sql, what),) = create_account(user, secret, kind)
        plan.statements.append(Statement(sql, what, secret))
        return plan
    if connection.query("SELECT SUSER_ID(?)", user)[0][0] is None:
        password = _password_of(config.source, user)
        if password is None:
            plan.not_runnable = (
                f"there is no login {user}, and its password is not configured here. Fix: run"
                f" CREATE LOGIN {name} WITH PASSWORD = N'<password>' first"
            )
        secret = quote_text(password or "<password>")
        plan.statements.append(
            Statement(f"CREATE LOGIN {name} WITH PASSWORD = {secret}", "on the server", secret)
        )
    plan.statements.append(Statement(f"CREATE USER {name} FOR LOGIN {name}"))
    return plan


def _password_of(source: SourceConfig, user: str) -> str | None:
    """The configured password of the publisher's login; None for another user."""
    if user != source.user or (source.password is None and source.password_file is None):
        return None
    return source.read_password()
