"""What Tailrace asks of the embedded server: every statement that the publisher sends.

The simulation knows these statements by their whole text, and fails on any other. Here each one
runs on the embedded server, so that a change of either side is noticed by the product's tests; the
embedded server's own tests say whether its answers are SQL Server's.
"""

from __future__ import annotations

import pyodbc
import pytest

from emulator.tests.fix_emulator import EmulatorProcess
from tests.simulation.sqlserver.connection import statements  # knows all of them

DATABASE = "Contract"
LSN = bytes(10)
MOMENT = "2026-01-02T03:04:05.000"
GUID = "00000000-0000-0000-0000-000000000001"
PARAMETERS = {
    "DB_ID(?)": (DATABASE,),
    "sys.fn_cdc_get_min_lsn(?)": ("dbo_orders",),
    "OBJECT_ID(?)": ("cdc.dbo_orders_CT",),
    "TOP (?) start_lsn, tran_end_time, tran_id, DATEPART": (10, "UTC", LSN),
    "TOP (?) start_lsn, tran_end_time, tran_id FROM": (10, LSN),
    "start_lsn > ? AND tran_end_time > CAST(? AS datetime)": (LSN, MOMENT),
    "fn_cdc_map_time_to_lsn": (MOMENT, MOMENT),
    "CAST(? AS datetimeoffset(3)) AT TIME ZONE ?": (f"{MOMENT}+00:00", "UTC"),
    "GETDATE() AT TIME ZONE ?": ("UTC",),
    "The published commit is gone": (LSN, MOMENT, LSN),
    "The database is another one": (GUID, GUID),
    "The capture instance is gone": (1, "none"),
}
"""By a part of the statement; all others take an LSN."""
# Nothing to show in a database without such things.
EMPTY = (
    "WHERE NOT EXISTS (SELECT * FROM sys.tables",
    "= 0x00000000000000000000",
    "HAVING MIN(CAST(partition_switch AS int)) = 1",
    "tran_end_time > CAST(? AS datetime)",
    "WHERE start_lsn = ?",
)
BY_CHANGE_TABLE = ("WHERE ct.object_id = ?", "cdc.change_tables WHERE object_id = ?")
REFUSED = {
    "sys.dm_os_volume_stats": "does not support sys.dm_os_volume_stats",
    "cdc.cdc_jobs": "Invalid object name 'cdc.cdc_jobs'",
    "THROW 51001, N'The published commit is gone.'": "The published commit is gone",
    "THROW 51001, N'The database is another one.'": "The database is another one",
    "THROW 51002, N'The capture instance is gone.'": "The capture instance is gone",
}
"""It has no volume of its own: the publisher then forecasts no full disk. Azure SQL Database alone
has the table of jobs in schema cdc. A guard of a change ends its batch, as its facts are untrue."""


@pytest.fixture(scope="module")
def connection(module_emulator: EmulatorProcess) -> pyodbc.Connection:
    module_emulator.create_database(DATABASE)
    connection = module_emulator.connect(DATABASE)
    for statement in (
        "EXEC sys.sp_cdc_enable_db",
        "CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY, note nvarchar(20), amount int)",
        "EXEC sys.sp_cdc_enable_table N'dbo', N'orders', @role_name = NULL",
        "EXEC sys.sp_cdc_scan",
        "INSERT dbo.orders VALUES (1, N'é', 5), (2, NULL, 6)",
        "UPDATE dbo.orders SET note = N'two' WHERE id = 2",
        "ALTER TABLE dbo.orders DROP COLUMN amount",
        "ALTER TABLE dbo.orders ALTER COLUMN note nvarchar(40)",
        "DELETE dbo.orders WHERE id = 1",
        "EXEC sys.sp_cdc_scan",
    ):
        connection.execute(statement)
    return connection


@pytest.mark.parametrize("text", sorted(statements._EXACT))
def test_every_statement_of_the_publisher_is_answered(connection: pyodbc.Connection, text: str):
    known = [given for part, given in PARAMETERS.items() if part in text]
    parameters = known[0] if known else (LSN,) * text.count("?")
    if any(text.endswith(part) for part in BY_CHANGE_TABLE):
        found = connection.execute("SELECT OBJECT_ID('cdc.dbo_orders_CT')").fetchone()
        assert found is not None
        parameters = (found[0],)
    refused = [words for view, words in REFUSED.items() if view in text]
    if refused:
        with pytest.raises(pyodbc.ProgrammingError, match=refused[0]):
            connection.execute(text, *parameters)
        return
    cursor = connection.execute(text, *parameters)
    assert cursor.description is not None
    rows = cursor.fetchall()
    assert rows or any(part in text for part in EMPTY)


def test_change_rows_are_read_in_pages_and_through_the_query_function(
    connection: pyodbc.Connection,
):
    changes = connection.execute(
        "SELECT TOP (10) [__$operation], [id], [note] FROM cdc.[dbo_orders_CT]"
        " WHERE [__$start_lsn] >= ? ORDER BY [__$start_lsn], [__$command_id], [__$seqval],"
        " [__$operation]",
        LSN,
    ).fetchall()
    inserted = [(2, 1, "é"), (2, 2, None)]
    updated = [(3, 2, None), (4, 2, "two")]
    assert [tuple(row) for row in changes] == [*inserted, *updated, (1, 1, "é")]
    through = connection.execute(
        "DECLARE @low binary(10) = sys.fn_cdc_get_min_lsn(N'dbo_orders'),"
        " @high binary(10) = sys.fn_cdc_get_max_lsn();"
        " SELECT [__$operation], [id], [note]"
        " FROM cdc.[fn_cdc_get_all_changes_dbo_orders](@low, @high, N'all update old')"
    ).fetchall()
    assert sorted(map(repr, through)) == sorted(map(repr, changes))
