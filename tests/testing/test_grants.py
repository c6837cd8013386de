"""Grants that find the captured tables where they run."""

from __future__ import annotations

from contextlib import closing

from tailrace.enable.tsql import least_grants
from tailrace.testing import EmulatedSqlServer


def test_no_text_is_added_up_over_rows():
    # See: SELECT @local_variable (Transact-SQL): it may have the text of the last row alone.
    assert [sql for sql, _ in least_grants("reader", None) if "+=" in sql] == []


def test_every_captured_table_and_role_is_granted():
    with EmulatedSqlServer() as server, closing(server.connect()) as connection:
        connection.autocommit = True
        for sql in (
            "CREATE DATABASE shop",
            "USE shop",
            "EXEC sys.sp_cdc_enable_db",
            "CREATE USER reader WITHOUT LOGIN",
            "CREATE TABLE dbo.orders (id int PRIMARY KEY)",
            "EXEC sys.sp_cdc_enable_table N'dbo', N'orders', @role_name = N'of orders'",
            "CREATE TABLE dbo.texts (id int PRIMARY KEY)",
            "EXEC sys.sp_cdc_enable_table N'dbo', N'texts', @role_name = N'gate'",
            *(sql for sql, _ in least_grants("reader", None) if "CURSOR" in sql),
        ):
            connection.execute(sql)
        connection.execute("EXECUTE AS USER = N'reader'")
        found = connection.execute(
            "SELECT HAS_PERMS_BY_NAME(N'dbo.orders', N'OBJECT', N'SELECT'),"
            " HAS_PERMS_BY_NAME(N'dbo.texts', N'OBJECT', N'SELECT'),"
            " IS_MEMBER(N'of orders'), IS_MEMBER(N'gate')"
        ).fetchone()

    assert tuple(found) == (1, 1, 1, 1)
