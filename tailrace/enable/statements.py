"""T-SQL that is shown before it runs: plans of enable and grants, safe fixes of doctor."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

from tailrace_publisher.options.source import SourceConfig
from tailrace_publisher.source.connection.connection import OdbcConnection


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, and what it is for.

    Attributes:
        secret: text in the statement that is never shown.
    """

    sql: str
    purpose: str = ""
    secret: str = ""

    @property
    def text(self) -> str:
        """As it is shown, to be pasted."""
        sql = self.sql.replace(self.secret, "N'<password>'") if self.secret else self.sql
        return f"{sql};  -- {self.purpose}" if self.purpose else f"{sql};"


@dataclass(slots=True)
class Plan:
    """What is to be run in the source's database, in this order.

    Attributes:
        notes: what is to be known in addition.
        not_runnable: why they cannot be run as they are; None where they can.
    """

    statements: list[Statement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    not_runnable: str | None = None


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


def run_plan(plan: Plan, account: SourceConfig) -> None:
    """Run statements in the source's database as a login, until one fails.

    Raises:
        SourceError: the typed reason of a failure.
    """
    with OdbcConnection(account) as connection:
        for statement in plan.statements:
            connection.query_sets(statement.sql)
