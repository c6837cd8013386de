"""A database of the embedded SQL Server: its tables, its capture process and its change tables."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pyodbc

from emulator.tests.fix_sqlserver import SourceServer
from tailrace_publisher.options.source import SourceConfig
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn


class SourceDatabase:
    """A database with CDC enabled; the test drives the capture process itself."""

    def __init__(self, server: SourceServer, name: str, *, cdc: bool = True) -> None:
        self.server = server
        self.name = name
        self._scanning = threading.Lock()
        server.create_database(name)
        self.connection: pyodbc.Connection = server.connect(name)
        if cdc:
            self.execute("EXEC sys.sp_cdc_enable_db")

    def execute(self, *statements: str) -> None:
        """Run statements, each in a transaction of its own."""
        for statement in statements:
            self.connection.execute(statement)

    def transaction(self, *statements: str) -> None:
        """Run statements in one transaction."""
        connection = self.server.connect(self.name, autocommit=False)
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        connection.close()

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Rows of a statement."""
        return [tuple(row) for row in self.connection.execute(sql, *parameters).fetchall()]

    def enable(self, table: str, **parameters: str) -> None:
        """Enable CDC for dbo.<table>, and let the capture process recognise it."""
        further = "".join(f", @{name} = {value}" for name, value in parameters.items())
        self.execute(
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo',"
            f" @source_name = N'{table}', @role_name = NULL{further}"
        )
        self.scan()

    def scan(self, connection: pyodbc.Connection | None = None) -> None:
        """Let the capture process read the log to its end.

        One session at a time, as on any server (error 22903); a thread has a connection of its own.
        """
        with self._scanning:
            self.server.scan(connection or self.connection)

    def max_lsn(self) -> Lsn:
        """The newest LSN of the database."""
        return Lsn.from_bytes(self.query("SELECT sys.fn_cdc_get_max_lsn()")[0][0])

    def change_rows(self, instance: str) -> list[tuple[ChangePosition, dict[str, Any]]]:
        """Rows of a change table, before images left out, in order: position and values."""
        cursor = self.connection.execute(
            f"SELECT * FROM cdc.[{instance}_CT] WHERE [__$operation] <> 3"
            " ORDER BY [__$start_lsn], [__$command_id], [__$seqval], [__$operation]"
        )
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        return [
            (
                ChangePosition(
                    Lsn.from_bytes(row["__$start_lsn"]),
                    row["__$command_id"] or 0,
                    Lsn.from_bytes(row["__$seqval"]),
                    Operation(row["__$operation"]),
                ),
                {name: value for name, value in row.items() if not name.startswith("__$")},
            )
            for row in rows
        ]

    def positions(self, instance: str) -> Counter[ChangePosition]:
        """Positions of a change table's events, each once."""
        return Counter(position for position, _ in self.change_rows(instance))


def source_options(source: SourceDatabase, **further: Any) -> SourceConfig:
    """How a publisher connects to it."""
    server = source.server
    return SourceConfig.model_validate(
        {
            "host": server.host,
            "port": server.port,
            "database": source.name,
            "user": server.user,
            "password": server.password,
            "trust_server_certificate": True,
            **further,
        }
    )
