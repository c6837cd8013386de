"""Creates the sample database of compose.yaml and runs a small workload.

It only creates what is missing, so a restart continues. The statements are those that an
administrator would type for their own database: docs/real-sqlserver.md explains them.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tailrace_compose.stop_signal import StopSignal
from tailrace_emulator.testing import odbc

if TYPE_CHECKING:
    import pyodbc

_SOURCE_LIMIT_S: Final = 180.0
_RETRY_S: Final = 1.0
_LOGIN_REFUSED: Final = 18456
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
CUSTOMERS: Final = 50

TABLES: Final = {
    "customers": """
        CREATE TABLE dbo.customers (
            customer_id int           NOT NULL CONSTRAINT pk_customers PRIMARY KEY,
            name        nvarchar(80)  NOT NULL,
            city        nvarchar(40)  NULL,
            balance     decimal(12,2) NOT NULL
        )""",
    "orders": """
        CREATE TABLE dbo.orders (
            order_id    int           IDENTITY(1, 1) NOT NULL CONSTRAINT pk_orders PRIMARY KEY,
            customer_id int           NOT NULL,
            amount      decimal(12,2) NOT NULL,
            state       varchar(12)   NOT NULL,
            placed_at   datetime2(3)  NOT NULL
        )""",
}


class ProvisionFailed(Exception):
    """A step cannot be done; the message names the fix."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to create, in the source at host and TDS port, as sa.

    Attributes:
        login: the publisher's login, with the fewest permissions that it needs.
    """

    host: str
    port: int
    password: str
    database: str
    login: str
    login_password: str

    def __post_init__(self) -> None:
        """Check that names are plain, because they go into statements."""
        for variable, name in (
            ("TAILRACE_DATABASE", self.database),
            ("TAILRACE_LOGIN", self.login),
        ):
            if not _NAME.fullmatch(name):
                raise ProvisionFailed(f"{variable}={name!r}: letters, digits and underscores only")

    def connect(self, database: str, *, autocommit: bool = True) -> pyodbc.Connection:
        """Open a connection as sa."""
        import pyodbc

        secret = self.password.replace("}", "}}")
        return pyodbc.connect(
            f"DRIVER={odbc.driver()};SERVER=tcp:{self.host},{self.port};DATABASE={database};"
            f"UID=sa;PWD={{{secret}}};Encrypt=yes;TrustServerCertificate=yes",
            autocommit=autocommit,
            timeout=10,
        )


def wait_for_source(plan: Plan, stop: threading.Event) -> None:
    """Wait until the source accepts sa.

    Raises:
        ProvisionFailed: it does not within three minutes, or refuses the password.
    """
    import pyodbc

    deadline = time.monotonic() + _SOURCE_LIMIT_S
    while not stop.is_set():
        try:
            plan.connect("master").close()
        except pyodbc.Error as error:
            text = str(error.args[-1])
            if f"({_LOGIN_REFUSED})" in text:
                raise ProvisionFailed(
                    f"{plan.host},{plan.port} refuses the password of sa. A volume retains the"
                    " password of its first start. Fix: restore that one in"
                    " secrets/sa_password, or remove the volume (docker compose down --volumes)."
                ) from error
            if time.monotonic() > deadline:
                raise ProvisionFailed(
                    f"{plan.host},{plan.port} does not answer: {text}. Fix: check that its"
                    " container is healthy (docker compose ps): SQL Server needs 2 GB and"
                    " ACCEPT_EULA=Y."
                ) from error
            stop.wait(_RETRY_S)
        else:
            return


def provision(plan: Plan) -> None:
    """Create database, tables, rows, change data capture and login, as far as they are missing.

    Raises:
        pyodbc.Error: the server refused a statement.
    """
    with closing(plan.connect("master")) as connection:
        if connection.execute("SELECT DB_ID(?)", plan.database).fetchval() is None:
            connection.execute(f"CREATE DATABASE [{plan.database}]")
        create_login(connection, plan.login, plan.login_password)
    with closing(plan.connect(plan.database)) as connection:
        for table, definition in TABLES.items():
            if connection.execute("SELECT OBJECT_ID(?)", f"dbo.{table}").fetchval() is None:
                connection.execute(definition)
        if not connection.execute("SELECT COUNT(*) FROM dbo.customers").fetchval():
            connection.cursor().executemany(
                "INSERT INTO dbo.customers (customer_id, name, city, balance) VALUES (?, ?, ?, ?)",
                [(n, f"Customer {n}", "Göteborg", "100.00") for n in range(1, CUSTOMERS + 1)],
            )
        _enable_cdc(connection)
        grant_publisher(connection, plan.login)


def _enable_cdc(connection: pyodbc.Connection) -> None:
    enabled = "SELECT is_cdc_enabled FROM sys.databases WHERE name = DB_NAME()"
    if not connection.execute(enabled).fetchval():
        connection.execute("EXEC sys.sp_cdc_enable_db")
    for table in TABLES:
        tracked = "SELECT is_tracked_by_cdc FROM sys.tables WHERE object_id = OBJECT_ID(?)"
        if not connection.execute(tracked, f"dbo.{table}").fetchval():
            connection.execute(
                "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = ?,"
                " @role_name = NULL",
                table,
            )


def create_login(connection: pyodbc.Connection, login: str, password: str) -> None:
    """Create a login if it is missing."""
    if connection.execute("SELECT SUSER_ID(?)", login).fetchval() is None:
        secret = password.replace("'", "''")
        connection.execute(f"CREATE LOGIN [{login}] WITH PASSWORD = N'{secret}'")


def grant_publisher(connection: pyodbc.Connection, login: str) -> None:
    """Let the publisher read the tables, the change tables, and how far capture job and log are.

    See: sys.dm_db_log_stats (Transact-SQL), permissions: VIEW SERVER STATE is enough in all
    versions; GRANT server permissions (Transact-SQL): in master only.
    """
    if connection.execute("SELECT DATABASE_PRINCIPAL_ID(?)", login).fetchval() is None:
        connection.execute(f"CREATE USER [{login}] FOR LOGIN [{login}]")
    of_tables = [f"SELECT ON dbo.{table}" for table in TABLES]
    for permission in ("SELECT ON SCHEMA::cdc", *of_tables, "VIEW DATABASE STATE"):
        connection.execute(f"GRANT {permission} TO [{login}]")
    ((database,),) = connection.execute("SELECT QUOTENAME(DB_NAME())").fetchall()
    of_server = f"GRANT VIEW SERVER STATE TO [{login}]"
    connection.execute(f"USE master; {of_server}; USE {database}")


def work(plan: Plan, per_second: float, stop: threading.Event) -> None:
    """Run orders, payments and cancellations until the stop, each in one transaction.

    Args:
        per_second: transactions; 0 only waits.
    """
    chance = random.Random()  # noqa: S311 - a workload, not a secret
    with closing(plan.connect(plan.database, autocommit=False)) as connection:
        while not stop.wait(1 / per_second if per_second > 0 else None):
            customer = chance.randint(1, CUSTOMERS)
            amount = f"{chance.randint(100, 9999) / 100:.2f}"
            connection.execute(
                "INSERT INTO dbo.orders (customer_id, amount, state, placed_at)"
                " VALUES (?, ?, 'open', SYSUTCDATETIME())",
                customer,
                amount,
            )
            connection.execute(
                "UPDATE dbo.customers SET balance = balance - CAST(? AS decimal(12, 2))"
                " WHERE customer_id = ?",
                amount,
                customer,
            )
            connection.execute(
                "UPDATE dbo.orders SET state = 'paid' WHERE customer_id = ? AND state = 'open'",
                chance.randint(1, CUSTOMERS),
            )
            # This keeps the table from growing for ever.
            connection.execute(
                "DELETE FROM dbo.orders WHERE placed_at < DATEADD(HOUR, -1, SYSUTCDATETIME())"
            )
            connection.commit()


def _read(path: str, what: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise ProvisionFailed(
            f"{what}: {path}: {error.strerror}. Fix: run ./prepare.sh next to compose.yaml"
        ) from error


def main(arguments: Sequence[str]) -> int:
    """Provision, then work until SIGTERM; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tailrace_compose.provision", description=__doc__
    )
    parser.add_argument("--host", default="127.0.0.1", help="the source's name or address")
    parser.add_argument("--port", type=int, default=1433)
    parser.add_argument("--password-file", required=True, help="file with the password of sa")
    parser.add_argument("--ready-file", type=Path, help="created when everything is in place")
    options = parser.parse_args(arguments)
    try:
        plan = Plan(
            options.host,
            options.port,
            _read(options.password_file, "the password of sa"),
            os.environ.get("TAILRACE_DATABASE", "Shop"),
            os.environ.get("TAILRACE_LOGIN", "tailrace"),
            _read(os.environ.get("TAILRACE_LOGIN_PASSWORD_FILE", ""), "the login's password"),
        )
        per_second = float(os.environ.get("TAILRACE_WORKLOAD_PER_S", "2"))
        with StopSignal() as stop:
            return _run(plan, per_second, options.ready_file, stop)
    except ProvisionFailed as error:
        sys.stderr.write(f"provision: {error}\n")
        return 1


def _run(plan: Plan, per_second: float, ready: Path | None, stop: threading.Event) -> int:
    import pyodbc

    wait_for_source(plan, stop)
    try:
        provision(plan)
        if ready is not None:
            ready.touch()
        sys.stdout.write(f"provisioned {plan.database}; {per_second:g} transactions a second\n")
        sys.stdout.flush()
        work(plan, per_second, stop)
    except pyodbc.Error as error:
        sys.stderr.write(f"provision: {plan.host},{plan.port}: {error.args[-1]}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
