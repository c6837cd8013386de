"""T-SQL that is shown before it runs: plans of enable and grants, safe fixes of doctor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from pydantic import SecretStr

from tailrace_publisher.errors import DatabaseUnknown, LoginRefused, PermissionMissing
from tailrace_publisher.options.source import SourceConfig
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_publisher.source.connection.quoting import quote_name


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, and what it is for.

    Attributes:
        secret: text in the statement that is never shown.
        database: where it runs, if it is not the source's; it may be left out then.
    """

    sql: str
    purpose: str = ""
    secret: str = ""
    database: str | None = None

    @property
    def text(self) -> str:
        """As it is shown, to be pasted."""
        sql = self.sql.replace(self.secret, "N'<password>'") if self.secret else self.sql
        return f"{sql};  -- {self.purpose}" if self.purpose else f"{sql};"


@dataclass(slots=True)
class Plan:
    """What is to be run, in this order; what may be left out comes last.

    Attributes:
        notes: what is to be known in addition.
        not_runnable: why they cannot be run as they are; None where they can.
        has_use: whether USE changes the database there; not in Azure SQL Database (40508).
    """

    statements: list[Statement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    not_runnable: str | None = None
    has_use: bool = True


def account_of(
    source: SourceConfig, login: str, password: str | None, password_file: Path | None
) -> SourceConfig:
    """The source as another login sees it; its password, or the file whose first line it is."""
    changed = {
        "user": login,
        "password": None if password is None else SecretStr(password),
        "password_file": password_file,
    }
    return source.model_copy(update=changed)


def script(plan: Plan, account: SourceConfig) -> Iterator[str]:
    """Return the lines of a plan as they are pasted: each statement in its database."""
    # Each database by its own USE. See: USE (Transact-SQL)
    for database, statements in _by_database(plan, account):
        name = quote_name(database)
        yield f"USE {name};" if plan.has_use else f"-- Connect to database {name}."
        yield from (statement.text for statement in statements)


def run_plan(plan: Plan, account: SourceConfig) -> dict[str, str]:
    """Run statements as a login, until one in the source's database fails.

    Returns:
        Why statements that may be left out were not run, by database.

    Raises:
        SourceError: the typed reason of a failure of the others.
    """
    refusals = {}
    for database, statements in _by_database(plan, account):
        try:
            with OdbcConnection(account.model_copy(update={"database": database})) as connection:
                for statement in statements:
                    connection.query_sets(statement.sql)
        except (DatabaseUnknown, LoginRefused, PermissionMissing) as error:
            if statements[0].database is None:
                raise
            refusals[database] = str(error)
    return refusals


def _by_database(plan: Plan, account: SourceConfig) -> Iterator[tuple[str, list[Statement]]]:
    for database, statements in groupby(plan.statements, lambda each: each.database):
        yield database or account.database, list(statements)
