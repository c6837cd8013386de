"""SNAPSHOT isolation: one view of everything in a transaction, and what cannot be read in it."""

import pytest

from emulator.tests.unit.cdc.conftest import START_TICKS
from emulator.tests.unit.tsql.conftest import Session
from tailrace_emulator.cdc.extension import ChangeDataCapture
from tailrace_emulator.storage.engine import Engine
from tailrace_emulator.values.clock import ManualClock

CHANGES = "SELECT COUNT(*) FROM cdc.dbo_t_CT"
READINGS = {
    "change table": CHANGES,
    "mapping": "SELECT COUNT(*) FROM cdc.lsn_time_mapping",
    "maximum": "SELECT sys.fn_cdc_get_max_lsn()",
    "minimum": "SELECT sys.fn_cdc_get_min_lsn('dbo_t')",
    "all changes": "SELECT COUNT(*) FROM cdc.fn_cdc_get_all_changes_dbo_t("
    "sys.fn_cdc_get_min_lsn('dbo_t'), sys.fn_cdc_get_max_lsn(), 'all')",
    "net changes": "SELECT COUNT(*) FROM cdc.fn_cdc_get_net_changes_dbo_t("
    "sys.fn_cdc_get_min_lsn('dbo_t'), sys.fn_cdc_get_max_lsn(), 'all')",
    "table": "SELECT COUNT(*) FROM dbo.t",
}


@pytest.fixture
def sessions(tmp_path):
    """Two sessions of a database."""
    engine = Engine(tmp_path, ManualClock(START_TICKS), ChangeDataCapture())
    engine.create_database("shop")
    sessions = [Session(engine, number) for number in (51, 52)]
    yield sessions
    for session in sessions:
        session.context.store.close()
    engine.close()


@pytest.fixture
def sql(sessions):
    """The session that fills a captured table."""
    sql, _ = sessions
    sql("ALTER DATABASE shop SET ALLOW_SNAPSHOT_ISOLATION ON")
    sql("EXEC sys.sp_cdc_enable_db; CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, v int)")
    sql("EXEC sys.sp_cdc_enable_table 'dbo', 't', @role_name = NULL, @supports_net_changes = 1")
    sql("INSERT INTO dbo.t VALUES (1, 1); EXEC sys.sp_cdc_scan")
    return sql


@pytest.fixture
def reader(sql, sessions):
    """A session under SNAPSHOT isolation."""
    _, other = sessions
    other("SET TRANSACTION ISOLATION LEVEL SNAPSHOT")
    return other


@pytest.mark.parametrize("first", READINGS)
def test_a_transaction_sees_one_state_whatever_it_reads_first(sql, reader, first):
    reader("BEGIN TRAN")
    before = reader(READINGS[first]).rows
    sql("INSERT INTO dbo.t VALUES (2, 2); EXEC sys.sp_cdc_scan")
    if first != "minimum":
        assert sql(READINGS[first]).rows != before
    assert reader(READINGS[first]).rows == before
    assert reader(CHANGES).rows == [(1,)]
    assert reader(READINGS["table"]).rows == [(1,)]
    assert reader(READINGS["maximum"]).rows < sql(READINGS["maximum"]).rows
    reader("COMMIT")
    assert reader(CHANGES).rows == [(2,)]


def test_a_function_among_rows_begins_the_view_of_its_query(sql, reader):
    reader("BEGIN TRAN")
    assert len(reader("SELECT n, sys.fn_cdc_get_max_lsn() FROM (VALUES (1), (2)) v(n)").rows) == 2
    sql("UPDATE dbo.t SET v = 9")
    assert reader("UPDATE dbo.t SET v = v + 1").errors == [3960]


@pytest.mark.parametrize("query", READINGS)
@pytest.mark.parametrize("is_open", [False, True])
def test_a_database_that_does_not_allow_it_is_not_read(sql, reader, query, is_open):
    sql("ALTER DATABASE shop SET ALLOW_SNAPSHOT_ISOLATION OFF")
    if is_open:
        reader("BEGIN TRAN")
    assert reader(READINGS[query]).errors == [3952]
    assert reader.value("@@TRANCOUNT") == 0
    reader("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
    assert not reader(READINGS[query]).errors


def test_changes_are_refused_too_and_hints_are_not(sql, reader):
    sql("ALTER DATABASE shop SET ALLOW_SNAPSHOT_ISOLATION OFF")
    for statement in ("INSERT INTO dbo.t VALUES (2, 2)", "UPDATE dbo.t SET v = 2", "DELETE dbo.t"):
        assert reader(statement).errors == [3952]
    assert reader("SELECT v FROM dbo.t WITH (READCOMMITTEDLOCK)").rows == [(1,)]
    assert not reader("CREATE TABLE #own (a int); INSERT INTO #own VALUES (1)").errors
    assert reader("SELECT a FROM #own").rows == [(1,)]
    assert not reader("SELECT name FROM sys.tables; SELECT 1").errors


def test_a_transaction_that_began_under_another_level_cannot_turn_to_it(reader):
    reader("SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN TRAN; SELECT * FROM dbo.t")
    outcome = reader("SET TRANSACTION ISOLATION LEVEL SNAPSHOT; SELECT * FROM dbo.t")
    assert outcome.errors == [3951]
    assert "the transaction did not start in snapshot isolation" in outcome.texts[0]
    assert reader.value("@@TRANCOUNT") == 0
    assert reader("SELECT v FROM dbo.t").rows == [(1,)]


@pytest.mark.parametrize("first", ["INSERT INTO dbo.t VALUES (7, 7)", READINGS["maximum"]])
def test_other_first_accesses_begin_it_too(reader, first):
    reader("SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN TRAN")
    reader(first)
    reader("SET TRANSACTION ISOLATION LEVEL SNAPSHOT")
    assert reader("INSERT INTO dbo.t VALUES (8, 8)").errors == [3951]


def test_a_transaction_begins_with_its_first_access_and_may_change_level_and_back(sql, reader):
    reader("SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN TRAN; SELECT @@SPID")
    reader("SET TRANSACTION ISOLATION LEVEL SNAPSHOT")
    assert reader("SELECT v FROM dbo.t").rows == [(1,)]
    assert not reader("SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT v FROM dbo.t").errors
    assert not reader("SET TRANSACTION ISOLATION LEVEL SNAPSHOT; SELECT v FROM dbo.t").errors
    sql("UPDATE dbo.t SET v = 2")
    assert reader("SELECT v FROM dbo.t").rows == [(1,)]


@pytest.mark.parametrize("query", ["SELECT z FROM dbo.t", "SELECT * FROM dbo.t", CHANGES])
def test_a_table_that_others_alter_cannot_be_read_any_more(sql, reader, query):
    reader("BEGIN TRAN; SELECT * FROM dbo.t; SELECT * FROM cdc.dbo_t_CT")
    sql("ALTER TABLE dbo.t ADD z int; ALTER TABLE dbo.t ALTER COLUMN v bigint")
    sql("UPDATE dbo.t SET z = 5; EXEC sys.sp_cdc_scan")
    assert reader(query).errors == [3961]
    assert reader.value("@@TRANCOUNT") == 0
    assert not reader(query).errors


def test_what_was_rolled_back_or_leaves_the_columns_does_not_matter(sql, reader):
    reader("BEGIN TRAN; SELECT * FROM dbo.t")
    sql("BEGIN TRAN; ALTER TABLE dbo.t ADD z int; ROLLBACK; CREATE INDEX by_v ON dbo.t (v)")
    assert reader("SELECT * FROM dbo.t").rows == [(1, 1)]


def test_a_table_that_was_made_since_cannot_be_read(sql, reader):
    reader("BEGIN TRAN; SELECT * FROM dbo.t")
    sql("CREATE TABLE dbo.late (id int)")
    assert reader("SELECT * FROM dbo.late").errors == [3961]
