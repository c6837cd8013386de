"""The cleanup procedures beside other sessions' locks on a change table, in T-SQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from emulator.tests.unit.tsql.conftest import NOW, other, sql
from tailrace_emulator.cdc.extension import ChangeDataCapture
from tailrace_emulator.storage.engine import Engine
from tailrace_emulator.values.clock import ManualClock

__all__ = ["other", "sql"]
"""Sessions of that folder's kind, on an engine with change data capture."""

CLEANUP = (
    "DECLARE @failed bit, @mark binary(10) = (SELECT MAX(__$start_lsn) FROM cdc.dbo_t_CT);"
    " EXEC sys.sp_cdc_cleanup_change_table N'dbo_t', @mark, @fCleanupFailed = @failed OUTPUT;"
    " SELECT @failed"
)
CLAIMS = [
    "SELECT COUNT(*) FROM cdc.dbo_t_CT WITH (TABLOCKX)",
    "UPDATE cdc.dbo_t_CT SET v = 9 WHERE id = 1",
    "DELETE cdc.dbo_t_CT WHERE id = 1",
]


@pytest.fixture
def engine(tmp_path) -> Iterator[Engine]:
    engine = Engine(tmp_path, ManualClock(NOW), ChangeDataCapture())
    engine.create_database("shop")
    yield engine
    engine.close()


@pytest.fixture
def captured(sql):
    for text in (
        "EXEC sys.sp_cdc_enable_db",
        "CREATE TABLE t (id int NOT NULL PRIMARY KEY, v int)",
        "EXEC sys.sp_cdc_enable_table N'dbo', N't', @role_name = NULL",
        "INSERT t VALUES (1, 1)",
        "INSERT t VALUES (2, 2)",
        "EXEC sys.sp_cdc_stop_job N'capture'; EXEC sys.sp_cdc_scan",
    ):
        outcome = sql(text)
        assert not outcome.errors, outcome.texts
        sql.context.engine.clock.advance(1)
    assert sql("SELECT id FROM cdc.dbo_t_CT").rows == [(1,), (2,)]
    return sql


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_lock_timeout_is_told_as_a_failure(captured, other, claim):
    assert not other(f"BEGIN TRAN; {claim}").errors
    outcome = captured(f"SET LOCK_TIMEOUT 0; {CLEANUP}")
    assert (outcome.errors, outcome.rows) == ([], [(1,)])
    assert "The error returned was 1222: 'Lock request time out" in outcome.messages[0]
    assert captured("UPDATE cdc.dbo_t_CT SET v = 3 WHERE id = 1").errors == [1222]
    assert not other("COMMIT").errors
    assert captured(CLEANUP).rows == [(0,)]
    assert captured("SELECT id FROM cdc.dbo_t_CT").rows == [(2,)]


@pytest.mark.parametrize(
    "claim",
    [*CLAIMS, "UPDATE cdc.lsn_time_mapping SET tran_id = 0x77", "UPDATE t SET v = 5 WHERE id = 2"],
)
def test_disabling_waits_for_who_has_changed_what_goes(captured, other, claim):
    disable = "EXEC sys.sp_cdc_disable_table N'dbo', N't', N'all'"
    assert not other(f"BEGIN TRAN; {claim}").errors
    assert captured(f"SET LOCK_TIMEOUT 0; {disable}").errors == [1222]
    assert captured("SELECT COUNT(*) FROM cdc.change_tables").rows == [(1,)]
    assert not other("COMMIT").errors
    assert not captured(disable).errors
    assert captured("SELECT COUNT(*) FROM cdc.lsn_time_mapping").rows == [(0,)]
    assert captured("SELECT OBJECT_ID('cdc.dbo_t_CT')").rows == [(None,)]
