"""A case reads the log, also where an Agent starts the capture job late and keeps it running."""

import pyodbc
import pytest

from emulator.tests.conformance.test_conformance import Scanning, native_number
from emulator.tests.fix_emulator import EmulatorProcess
from emulator.tests.fix_sqlserver import drop_database

STOP = "EXEC sys.sp_cdc_stop_job @job_type = N'capture'"


@pytest.fixture
def server(tmp_path):
    made = EmulatorProcess(tmp_path / "emulator", agent="auto")
    made.start()
    yield made
    made.close_connections()
    made.stop()


@pytest.fixture
def shop(server: EmulatorProcess) -> pyodbc.Connection:
    connection = server.connect()
    connection.execute("CREATE DATABASE shop")
    connection.execute("USE shop")
    connection.execute("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY)")
    connection.execute("EXEC sys.sp_cdc_enable_db")
    connection.execute("EXEC sys.sp_cdc_enable_table N'dbo', N't', @role_name = NULL")
    return connection


def test_the_first_scan_waits_for_a_job_that_starts_after_the_first_stop(shop):
    shop.execute(STOP)
    pauses = []

    def starts_meanwhile():
        pauses.append(None)
        shop.execute("EXEC sys.sp_cdc_start_job @job_type = N'capture'")

    scan = Scanning(has_agent=True, pause=starts_meanwhile)
    shop.execute("INSERT dbo.t VALUES (1)")
    scan(shop)

    assert len(pauses) == 1
    assert shop.execute("SELECT COUNT(*) FROM cdc.dbo_t_CT").fetchval() == 1
    with pytest.raises(pyodbc.Error) as refused:
        shop.execute(STOP)
    assert native_number(refused.value) == 22022  # it is stopped, so it captures nothing more

    shop.execute("INSERT dbo.t VALUES (2)")
    scan(shop)
    assert len(pauses) == 1
    assert shop.execute("SELECT COUNT(*) FROM cdc.dbo_t_CT").fetchval() == 2


def test_a_database_is_dropped_while_its_capture_job_runs_and_someone_is_connected(server, shop):
    other = server.connect("shop")
    other.execute("SELECT COUNT(*) FROM dbo.t").fetchval()

    drop_database(shop, "shop")

    assert shop.execute("SELECT DB_ID(N'shop')").fetchval() is None
