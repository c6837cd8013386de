"""What ``tailrace enable`` and ``grants`` print, by version and edition of the server."""

from __future__ import annotations

import pytest

from tailrace.doctor.jobs import _more_transactions
from tailrace.enable.statements import Plan, Statement, script
from tailrace.enable.tsql import create_account, doctor_grants, enable_database, log_grants
from tailrace_publisher.options.source import SourceConfig
from tailrace_publisher.source.log.server_kind import ServerKind

OF_2019 = ServerKind(3, 15)
OF_2022 = ServerKind(2, 16)
AZURE = ServerKind(5, 12)
INSTANCE = ServerKind(8, 12)
RDS = ServerKind(3, 15, is_rds=True)


@pytest.mark.parametrize(
    ("kind", "right"),
    [
        (OF_2019, "VIEW SERVER STATE"),
        (RDS, "VIEW SERVER STATE"),
        (None, "VIEW SERVER STATE"),
        (OF_2022, "VIEW SERVER PERFORMANCE STATE"),
        (INSTANCE, "VIEW SERVER PERFORMANCE STATE"),
    ],
)
def test_the_right_to_see_the_log_is_the_servers_and_may_be_left_out(
    kind: ServerKind | None, right: str
):
    ((database, sql, purpose),) = log_grants("reader", kind)
    assert (database, sql) == ("master", f"GRANT {right} TO [reader]")
    assert "may be left out" in purpose


def test_in_azure_sql_database_nothing_is_granted_on_a_server():
    assert log_grants("reader", AZURE) == doctor_grants("reader", AZURE) == []
    ((sql, _),) = create_account("reader", "N'secret'", AZURE)
    assert sql.endswith("CREATE USER [reader] WITH PASSWORD = N'secret'")


def test_there_is_no_use_where_a_connection_sees_one_database():
    account = SourceConfig.model_validate(
        {"host": "h", "database": "shop", "user": "u", "password": "p"}
    )
    statements = [Statement("SELECT 1")]
    assert list(script(Plan(statements), account)) == ["USE [shop];", "SELECT 1;"]
    alone = Plan(statements, has_use=False)
    assert list(script(alone, account)) == ["-- Connect to database [shop].", "SELECT 1;"]


@pytest.mark.parametrize(
    ("kind", "sql", "needed"),
    [
        (OF_2019, "EXEC sys.sp_cdc_enable_db", "sysadmin"),
        (None, "EXEC sys.sp_cdc_enable_db", "sysadmin"),
        (AZURE, "EXEC sys.sp_cdc_enable_db", "db_owner"),
        (RDS, "EXEC msdb.dbo.rds_cdc_enable_db N'it''s'", "master user"),
    ],
)
def test_a_database_is_enabled_as_its_server_has_it(kind: ServerKind | None, sql: str, needed: str):
    found, purpose = enable_database("it's", kind)
    assert found == sql
    assert needed in purpose


def test_what_runs_the_capture_is_told_of_more_transactions():
    assert "sp_cdc_start_job" in _more_transactions(2000, OF_2022)
    assert "sp_cdc_start_job" not in _more_transactions(2000, AZURE)
    assert "rds_set_configuration 'cdc_capture_maxtrans', 2000" in _more_transactions(2000, RDS)
