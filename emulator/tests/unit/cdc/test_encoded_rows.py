"""Change rows that are kept encoded reach a client exactly as rows encoded from their values."""

import pytest

from tailrace_emulator.catalog.context import SessionContext
from tailrace_emulator.cdc.capture_scan import scan
from tailrace_emulator.cdc.extension import ChangeDataCapture
from tailrace_emulator.serving.batch import BatchRunner
from tailrace_emulator.serving.encoded_rows import keep_encoded_rows
from tailrace_emulator.serving.responses import ColumnSets
from tailrace_emulator.serving.rpc import Procedures
from tailrace_emulator.storage.encoded_rows import kept_columns
from tailrace_emulator.storage.engine import Engine
from tailrace_emulator.storage.transaction import StoreSession
from tailrace_emulator.values.clock import SystemClock
from tailrace_emulator.values.results import EncodedRows, ResultSet, ReturnValue, Rows
from tailrace_emulator.wire.requests import ProcedureId, RpcCall, RpcParameter
from tailrace_emulator.wire.types import DataType, TypeInfo

TYPES = (
    "bigint", "smallint", "bit", "nvarchar(50)", "varchar(20)", "char(5)", "decimal(18,4)", "money",
    "float", "date", "datetime2(7)", "datetime", "time(3)", "uniqueidentifier", "varbinary(16)",
    "datetimeoffset(2)", "decimal(38,10)",
)  # fmt: skip
VALUES = (
    "5", "-3", "1", "N'né€'", "'é'", "'ab'", "12.5", "-1.05", "1.5", "'2024-02-29'",
    "'9999-12-31T23:59:59.9999999'", "'2001-01-01T10:00:00.003'", "'10:11:12.123'",
    "'6F9619FF-8B86-D011-B42D-00C04FC964FF'", "0x0102", "'2020-01-01T00:00:00.12+02:00'",
    "-1234567890123456789012345678.0123456789",
)  # fmt: skip
COLUMNS = ", ".join(f"c{n}" for n in range(len(TYPES)))
RANGE = (
    "DECLARE @from binary(10) = sys.fn_cdc_get_min_lsn('dbo_t'),"
    " @to binary(10) = sys.fn_cdc_get_max_lsn();"
)


class Client:
    """A session, and the bytes of its results made in both ways."""

    def __init__(self, engine):
        self.context = SessionContext(
            engine=engine, database=engine.database("shop"), store=StoreSession(engine, 51),
            session_id=51, login="sa",
        )  # fmt: skip
        self.runner = BatchRunner(self.context)

    def run(self, sql, *, takes_encoded=False):
        """The rows' bytes, and which columns came encoded."""
        self.context.takes_encoded = takes_encoded
        sets, data, runs, columns = ColumnSets(), b"", set(), ()
        for event in self.runner.run(sql):
            if isinstance(event, ResultSet):
                columns = event.columns
            elif isinstance(event, Rows):
                data += sets[columns][1].encode(event.rows)
            elif isinstance(event, EncodedRows):
                data += sets.partly_encoded(columns, event.first, event.count).encode(event.rows)
                runs.add((event.first, event.count))
        return data, runs

    def same(self, sql):
        """Whether both ways give the same bytes, and which columns came encoded."""
        values, _ = self.run(sql)
        encoded, runs = self.run(sql, takes_encoded=True)
        assert values
        assert encoded == values
        return runs


@pytest.fixture
def client(tmp_path):
    engine = Engine(tmp_path, SystemClock(), ChangeDataCapture())
    keep_encoded_rows(engine)
    engine.create_database("shop")
    client = Client(engine)
    columns = ", ".join(f"c{n} {name} NULL" for n, name in enumerate(TYPES))
    client.run(f"EXEC sys.sp_cdc_enable_db; CREATE TABLE t (id int PRIMARY KEY, {columns})")
    client.run(
        "EXEC sys.sp_cdc_enable_table N'dbo', N't', @role_name = NULL, @supports_net_changes = 1"
    )
    nulls = ", ".join("NULL" for _ in TYPES)
    client.run(
        f"INSERT t VALUES (1, {', '.join(VALUES)}), (2, {nulls});"
        f" INSERT t SELECT 10 + id * 100 + n, {COLUMNS} FROM t CROSS JOIN"
        " (SELECT TOP (40) ROW_NUMBER() OVER (ORDER BY (SELECT 1)) AS n FROM sys.columns) AS n;"
        " UPDATE t SET c4 = 'changed' WHERE id % 7 = 0; DELETE t WHERE id = 2"
    )
    scan(engine, client.context.database)
    yield client
    client.context.store.close()
    engine.close()


@pytest.mark.parametrize(
    ("query", "run"),
    [
        ("SELECT * FROM cdc.dbo_t_CT", (5, 18)),
        (f"SELECT id, {COLUMNS}, [__$seqval] FROM cdc.dbo_t_CT ORDER BY [__$start_lsn]", (0, 18)),
        (f"SELECT [__$operation], id, {COLUMNS} FROM cdc.dbo_t_CT WHERE c1 IS NULL", (1, 18)),
        (f"SELECT TOP (3) id, {COLUMNS} FROM cdc.dbo_t_CT AS x ORDER BY x.id DESC", (0, 18)),
        (f"SELECT id + 1, id, {COLUMNS}, c1 FROM cdc.dbo_t_CT WITH (NOLOCK)", (1, 18)),
        (f"{RANGE} SELECT * FROM cdc.fn_cdc_get_all_changes_dbo_t(@from, @to, N'all')", (4, 18)),
        (
            f"{RANGE} SELECT TOP (9) [__$operation], id, {COLUMNS}, [__$seqval] FROM"
            " shop.cdc.[fn_cdc_get_all_changes_dbo_t](@from, @to, N'all update old') AS f"
            " WHERE f.[__$start_lsn] <= @to ORDER BY [__$start_lsn] DESC, [__$seqval]",
            (1, 18),
        ),
        (f"{RANGE} SELECT * FROM cdc.fn_cdc_get_net_changes_dbo_t(@from, @to, N'all')", (3, 18)),
        (
            f"SELECT d.[__$start_lsn], id, {COLUMNS}, m.tran_begin_time FROM cdc.dbo_t_CT AS d"
            " LEFT JOIN cdc.lsn_time_mapping AS m ON m.start_lsn = d.[__$start_lsn]"
            " WHERE d.[__$operation] NOT IN (3) ORDER BY d.[__$start_lsn], d.[__$command_id]",
            (1, 18),
        ),
        (  # the publisher's page inside a transaction
            "DECLARE @lsn binary(10) = (SELECT MIN([__$start_lsn]) FROM cdc.dbo_t_CT), @command int"
            " = 1, @seqval binary(10) = 0x00; SELECT TOP (5) [__$start_lsn], [__$command_id],"
            f" [__$seqval], [__$operation], [__$update_mask], id, {COLUMNS} FROM cdc.[dbo_t_CT]"
            " WHERE [__$start_lsn] = @lsn AND [__$command_id] >= @command AND ([__$command_id] >"
            " @command OR ([__$command_id] = @command AND ([__$seqval] > @seqval OR ([__$seqval] ="
            " @seqval AND [__$operation] > 1)))) ORDER BY [__$start_lsn], [__$command_id],"
            " [__$seqval], [__$operation]",
            (5, 18),
        ),
        (
            f"SELECT id, {COLUMNS} FROM cdc.lsn_time_mapping AS m INNER JOIN cdc.dbo_t_CT AS d"
            " ON m.start_lsn = d.[__$start_lsn]",
            (0, 18),
        ),
    ],
)
def test_whole_rows_come_encoded(client, query, run):
    assert client.same(query) == {run}


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT {COLUMNS} FROM cdc.dbo_t_CT",
        f"SELECT DISTINCT id, {COLUMNS} FROM cdc.dbo_t_CT ORDER BY id",
        f"SELECT id, {COLUMNS} FROM cdc.dbo_t_CT UNION ALL SELECT id, {COLUMNS} FROM t",
        f"SELECT q.id FROM (SELECT id, {COLUMNS} FROM cdc.dbo_t_CT) AS q",
        f"SELECT TOP (2) WITH TIES id, {COLUMNS} FROM cdc.dbo_t_CT ORDER BY id",
        f"SELECT id, {COLUMNS} FROM t",
        f"WITH q AS (SELECT * FROM cdc.dbo_t_CT) SELECT id, {COLUMNS} FROM q",
        f"SELECT id, {COLUMNS} FROM cdc.dbo_t_CT GROUP BY id, {COLUMNS}",
        f"SELECT id, {COLUMNS} FROM cdc.lsn_time_mapping AS m LEFT JOIN cdc.dbo_t_CT AS d"
        " ON m.start_lsn = d.[__$start_lsn] AND d.id = 1",
        f"SELECT a.id, {', '.join(f'b.c{n}' for n in range(len(TYPES)))} FROM cdc.dbo_t_CT AS a"
        " INNER JOIN cdc.dbo_t_CT AS b ON a.id = 1 AND b.id = 2",
    ],
)
def test_other_queries_come_as_values(client, query):
    assert client.same(query) == set()


def test_a_changed_type_makes_kept_bytes_stale(client):
    client.run("ALTER TABLE t ALTER COLUMN c4 varchar(40); INSERT t (id, c4) VALUES (900, 'long')")
    scan(client.context.engine, client.context.database)
    assert client.same("SELECT * FROM cdc.dbo_t_CT") == {(5, 18)}
    client.run("ALTER TABLE t ALTER COLUMN c0 decimal(20, 2)")
    client.run("ALTER TABLE t DROP COLUMN c3; INSERT t (id, c0) VALUES (901, 1.25)")
    scan(client.context.engine, client.context.database)
    assert client.same("SELECT * FROM cdc.dbo_t_CT") == {(5, 18)}


def test_a_change_table_that_is_written_by_hand_shows_its_values(client):
    client.run("BEGIN TRAN; UPDATE cdc.dbo_t_CT SET c4 = 'by hand' WHERE id % 2 = 0")
    assert client.same("SELECT * FROM cdc.dbo_t_CT") == set()
    client.run("COMMIT")
    assert client.same("SELECT * FROM cdc.dbo_t_CT") == {(5, 18)}


def test_insert_exec_takes_values(client):
    client.run("CREATE PROCEDURE changes AS SELECT * FROM cdc.dbo_t_CT")
    client.run("SELECT * INTO copied FROM cdc.dbo_t_CT WHERE 1 = 0")
    client.run("INSERT copied EXEC changes", takes_encoded=True)
    order = "ORDER BY [__$start_lsn], [__$command_id], [__$seqval], [__$operation]"
    copied, _ = client.run(f"SELECT id, {COLUMNS} FROM copied {order}")
    assert copied == client.run(f"SELECT id, {COLUMNS} FROM cdc.dbo_t_CT {order}")[0] != b""


def test_a_type_that_comes_back_does_not_bring_back_kept_bytes(client):
    client.run("ALTER TABLE t ALTER COLUMN c10 datetime2(0)")
    client.run("ALTER TABLE t ALTER COLUMN c10 datetime2(7)")
    scan(client.context.engine, client.context.database)
    assert client.same("SELECT * FROM cdc.dbo_t_CT") == {(5, 18)}


def test_what_a_restart_finds_is_taken_as_it_was_kept(tmp_path, client):
    query = "SELECT * FROM cdc.dbo_t_CT"
    before, _ = client.run(query, takes_encoded=True)
    client.context.store.close()
    client.context.engine.close()
    engine = Engine(tmp_path, SystemClock(), ChangeDataCapture())
    keep_encoded_rows(engine)
    again = Client(engine)
    assert again.same(query) == {(5, 18)}
    assert again.run(query, takes_encoded=True)[0] == before
    ((stale,),) = again.context.store.connection.execute(
        f'SELECT count(*) FROM "{change_table(again).sqlite_name}" WHERE layout IS NOT ?',
        (engine.row_encoding.layout(kept_columns(change_table(again))),),
    )
    assert stale == 0
    again.context.store.close()
    engine.close()


def test_cleanup_and_a_new_scan_leave_kept_rows_that_are_true(client):
    client.run(
        "DECLARE @to binary(10) = sys.fn_cdc_get_max_lsn();"
        " EXEC sys.sp_cdc_cleanup_change_table N'dbo_t', @to, 5000"
    )
    client.run("INSERT t (id, c4) VALUES (950, 'new'); UPDATE t SET c4 = NULL WHERE id < 200")
    scan(client.context.engine, client.context.database)
    assert client.same("SELECT * FROM cdc.dbo_t_CT ORDER BY [__$start_lsn]") == {(5, 18)}


def test_a_server_cursor_has_values(client):
    client.context.takes_encoded = True
    procedures = Procedures(client.runner)

    def text(value):
        return RpcParameter("", TypeInfo(DataType.NVARCHAR, 8000, collation=bytes(5)), value)

    def number(value, status=0):
        return RpcParameter("", TypeInfo(DataType.INTN, 4), value, status)

    statement = f"SELECT id, {COLUMNS} FROM cdc.dbo_t_CT WHERE id = 1"
    opening = (number(0, 1), text(statement), number(8, 1), number(1, 1), number(0, 1))
    events, _ = procedures.call(RpcCall(ProcedureId.CURSOR_OPEN, opening))
    opened = [event for event in events if isinstance(event, ReturnValue)]
    fetched, _ = procedures.call(
        RpcCall(
            ProcedureId.CURSOR_FETCH,
            (number(opened[0].value), number(2), number(0), number(5)),
        )
    )
    (rows,) = [event.rows for event in fetched if isinstance(event, Rows)]
    assert [(row[0], row[2]) for row in rows] == [(1, -3)]
    assert client.context.takes_encoded


def change_table(client):
    return client.context.database.table("cdc", "dbo_t_CT")


@pytest.mark.parametrize(
    ("columns", "values", "runs"),
    [
        ("a sql_variant, b int", "(CAST(1.5 AS decimal(3,1)), 2)", set()),
        ("a varchar(max), b int", "('large', 2)", set()),
        ("a text", "('large')", set()),
        ("a xml", "('<x/>')", set()),
        (
            "a varchar(9) COLLATE Cyrillic_General_CI_AS, b char(9) COLLATE Japanese_CI_AS,"
            " c nchar(3), d binary(4), e real",
            "(N'Привет', N'日本', N'é', 0x01, 1.5)",
            {(5, 6)},
        ),
        ("a timestamp, b int", "(2)", {(5, 3)}),
        ("a AS (id * 2), b rowversion, c smalldatetime", "('2020-02-29')", {(5, 4)}),
    ],
)
def test_what_is_kept_depends_on_the_types(client, columns, values, runs):
    client.run(f"CREATE TABLE u (id int PRIMARY KEY DEFAULT 7, {columns})")
    client.run("EXEC sys.sp_cdc_enable_table N'dbo', N'u', @role_name = NULL")
    client.run(f"INSERT u VALUES (1, {values[1:]}; UPDATE u SET id = 5")
    scan(client.context.engine, client.context.database)
    assert client.same("SELECT * FROM cdc.dbo_u_CT") == runs
