"""One embedded server for the tests of all clients, with a table under change data capture."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyodbc
import pytest
from pyspark.sql import SparkSession

from emulator.tests.fix_emulator import EmulatorProcess
from tailrace_compose.local.java import SPARK_QUICK_START, java_executable

DATABASE = "Clients"


@dataclass(frozen=True)
class Source:
    """A server with a database, and what its change table holds.

    `dbo.Tracked (id int primary key, name nvarchar(20))` saw an insert of two rows, an update of
    the first and a delete of the second, so `cdc.fn_cdc_get_all_changes_dbo_Tracked` has four
    changes with the option N'all', and five with N'all update old'.
    """

    emulator: EmulatorProcess
    database: str = DATABASE

    @property
    def port(self) -> int:
        return self.emulator.port

    @property
    def user(self) -> str:
        return self.emulator.user

    @property
    def password(self) -> str:
        return self.emulator.password

    @property
    def certificate(self) -> Path:
        """The server's certificate, for clients that verify it (Encrypt=strict always does)."""
        return self.emulator.data_dir / "certificate.pem"

    def connect(self) -> pyodbc.Connection:
        """A connection by which a test prepares or checks what its client does."""
        return self.emulator.connect(self.database)


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    server = EmulatorProcess(tmp_path_factory.mktemp("clients"))
    server.start()
    try:
        server.connect().execute(f"CREATE DATABASE [{DATABASE}]")
        connection = server.connect(DATABASE)
        for statement in (
            "EXEC sys.sp_cdc_enable_db",
            "CREATE TABLE dbo.Tracked (id int NOT NULL PRIMARY KEY, name nvarchar(20))",
            "EXEC sys.sp_cdc_enable_table N'dbo', N'Tracked', @role_name = NULL",
            "INSERT INTO dbo.Tracked VALUES (1, N'één'), (2, N'zwei')",
            "UPDATE dbo.Tracked SET name = N'Один' WHERE id = 1",
            "DELETE FROM dbo.Tracked WHERE id = 2",
            "EXEC sys.sp_cdc_scan",
        ):
            connection.execute(statement)
        yield Source(server)
    finally:
        server.close_connections()
        server.stop()


@pytest.fixture
def table() -> str:
    """A name that no other test uses; the test makes the table itself."""
    return "t" + uuid.uuid4().hex[:12]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session without Tailrace's settings: Spark is a client like any other."""
    folder = tmp_path_factory.mktemp("spark")
    os.environ.setdefault("JAVA_HOME", str(Path(java_executable()).resolve().parents[1]))
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", SPARK_QUICK_START)
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .getOrCreate()
    )
    yield session
    session.stop()
