"""Change rows that are kept encoded reach a client exactly as rows encoded from their values."""

import pytest

from emulator.batch import BatchRunner
from emulator.catalog.context import SessionContext
from emulator.cdc.capture_scan import scan
from emulator.clock import SystemClock
from emulator.encoded_rows import keep_encoded_rows
from emulator.responses import ColumnSets
from emulator.results import EncodedRows, ResultSet, Rows
from emulator.storage.engine import Engine
from emulator.storage.transaction import StoreSession

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
    engine = Engine(tmp_path, SystemClock())
    keep_encoded_rows(engine)
    engine.create_database("shop")
    client = Client(engine)
    columns = ", ".join(f"c{n} {name} NULL" for n, name in enumerate(TYPES))
    client.run(f"EXEC sys.sp_cdc_enable_db; CREATE TABLE t (id int PRIMARY KEY, {columns})")
    client.run("EXEC sys.sp_cdc_enable_table N'dbo', N't', @role_name = NULL")
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
