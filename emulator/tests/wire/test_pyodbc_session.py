"""Whole sessions through the genuine Microsoft ODBC driver and pyodbc."""

import datetime
import decimal
import threading
import time
import uuid

import pyodbc
import pytest


def tuples(cursor):
    """All rows, as tuples: a pyodbc row equals no tuple."""
    return [tuple(row) for row in cursor.fetchall()]


D = decimal.Decimal
naive = datetime.datetime.fromisoformat
"""SQL Server's datetime2 and datetime have no zone."""


@pytest.fixture(scope="module")
def shop(module_emulator):
    """A database on the module's server."""
    connection = module_emulator.connect()
    connection.execute("CREATE DATABASE shop")
    return module_emulator


@pytest.fixture
def connection(shop):
    return shop.connect("shop")


@pytest.fixture
def table(connection, request):
    """A fresh table: id int primary key, name nvarchar(40), amount decimal(18,4)."""
    name = "dbo.t" + uuid.uuid4().hex[:12]
    connection.execute(
        f"CREATE TABLE {name} (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL,"
        " amount decimal(18, 4) NULL)"
    )
    return name


# -- connecting


@pytest.mark.parametrize("encrypt", ["yes", "no", "optional"])
def test_encryption(shop, encrypt):
    connection = shop.connect("shop", Encrypt=encrypt)
    assert connection.execute("SELECT DB_NAME()").fetchval() == "shop"


def test_strict_encryption(shop):
    connection = shop.connect(
        "shop",
        Encrypt="strict",
        ServerCertificate=str(shop.data_dir / "certificate.pem"),
        HostNameInCertificate="localhost",
        TrustServerCertificate="no",
    )
    assert connection.execute("SELECT DB_NAME()").fetchval() == "shop"


def test_the_program_says_what_it_is(connection):
    assert connection.getinfo(pyodbc.SQL_DBMS_NAME) == "Tailrace embedded SQL Server"


@pytest.mark.parametrize("login", [{"PWD": "wrong password"}, {"UID": "somebody"}])
def test_wrong_login(shop, login):
    with pytest.raises(pyodbc.InterfaceError, match="18456") as caught:
        shop.connect(**login)
    assert caught.value.args[0] == "28000"


def test_several_requests_at_once_on_one_connection_are_refused(shop):
    with pytest.raises(pyodbc.Error):
        shop.connect("shop", MARS_Connection="yes")
    assert shop.connect("shop").execute("SELECT 1").fetchval() == 1


def test_unknown_database(shop):
    with pytest.raises(pyodbc.Error, match='Cannot open database "nowhere"'):
        shop.connect("nowhere")


@pytest.mark.parametrize("size", ["512", "4096", "32767"])
def test_packet_size(shop, size):
    connection = shop.connect("shop", PacketSize=size)
    assert connection.execute("SELECT REPLICATE(N'x', 4000)").fetchval() == "x" * 4000


# -- values


VALUES = [
    ("bit", True),
    ("tinyint", 255),
    ("smallint", -32768),
    ("int", -2147483648),
    ("bigint", 9223372036854775807),
    ("decimal(4, 2)", D("-99.99")),
    ("decimal(18, 4)", D("99999999999999.9999")),
    ("decimal(38, 10)", D("-9999999999999999999999999999.9999999999")),
    ("money", D("-922337203685477.5808")),
    ("smallmoney", D("214748.3647")),
    ("float", 1.7976931348623157e308),
    ("real", 1.5),
    ("char(3)", "ab "),
    ("varchar(20)", "naïve €"),
    ("varchar(max)", "y" * 20000),
    ("nchar(3)", "añ "),
    ("nvarchar(20)", "日本 \U0001f600"),
    ("nvarchar(max)", "Ω" * 20000),
    ("binary(4)", b"\x00\x01\x02\xff"),
    ("varbinary(20)", b""),
    ("varbinary(max)", bytes(range(256)) * 100),
    ("date", datetime.date(1, 1, 1)),
    ("date", datetime.date(9999, 12, 31)),
    ("datetime2(7)", naive("9999-12-31 23:59:59.999999")),
    ("datetime2(0)", naive("0001-01-01 00:00:01")),
    ("datetime", naive("2024-02-29 12:30:15.997000")),
    ("smalldatetime", naive("2024-02-29 12:31:00")),
    ("uniqueidentifier", str(uuid.UUID(int=0x0123456789ABCDEF0123456789ABCDEF)).upper()),
]


@pytest.mark.parametrize(("declared", "value"), VALUES)
def test_a_value_goes_in_by_parameter_and_comes_out_equal(connection, declared, value):
    connection.execute(f"DROP TABLE IF EXISTS v; CREATE TABLE v (k int, x {declared} NULL)")
    cursor = connection.cursor()
    cursor.execute("INSERT INTO v VALUES (1, ?), (2, NULL)", value)
    assert cursor.rowcount == 2
    rows = tuples(cursor.execute("SELECT x FROM v ORDER BY k"))
    assert rows == [(value,), (None,)]
    cursor.execute("INSERT INTO v VALUES (3, ?)", None)
    assert cursor.execute("SELECT x FROM v WHERE k = 3").fetchval() is None


def test_time_of_day(connection):
    value = datetime.time(23, 59, 59)
    connection.execute("DROP TABLE IF EXISTS clock; CREATE TABLE clock (x time(7))")
    connection.execute("INSERT INTO clock VALUES (?)", value)
    assert connection.execute("SELECT x FROM clock").fetchval() == value


def test_what_code_page_1252_lacks_is_a_question_mark(connection):
    assert connection.execute("SELECT CAST(N'日本' AS varchar(10))").fetchval() == "??"


def test_description_is_exact(connection):
    cursor = connection.execute(
        "SELECT CAST(1 AS bigint) AS a, CAST(1.5 AS decimal(10, 3)) AS b, CAST('x' AS varchar(7))"
        " AS c, SYSUTCDATETIME() AS d"
    )
    names = [(d[0], d[1], d[4], d[5]) for d in cursor.description]
    assert names == [
        ("a", int, 19, 0),
        ("b", decimal.Decimal, 10, 3),
        ("c", str, 7, 0),
        ("d", datetime.datetime, 27, 7),
    ]


def test_more_parameters_types_at_once(connection):
    row = connection.execute(
        "SELECT ?, ?, ?, ?, ?, ?",
        1,
        "abc",
        2.5,
        D("12.34"),
        naive("2024-01-02 03:04:05.678901"),
        b"\x01\x02",
    ).fetchone()
    assert tuple(row) == (
        1,
        "abc",
        2.5,
        D("12.34"),
        naive("2024-01-02 03:04:05.678901"),
        b"\x01\x02",
    )


def test_long_parameters(connection):
    text, data = "é" * 9000, b"\x07" * 9000
    row = connection.execute("SELECT LEN(?), DATALENGTH(?)", text, data).fetchone()
    assert tuple(row) == (9000, 9000)


# -- statements


def test_rowcount_and_several_results(connection, table):
    cursor = connection.cursor()
    cursor.execute(f"INSERT INTO {table} (id) VALUES (1), (2), (3)")
    assert cursor.rowcount == 3
    cursor.execute(
        f"SET NOCOUNT ON; UPDATE {table} SET name = N'x'; SELECT id FROM {table} ORDER BY id;"
        f" SELECT COUNT(*) FROM {table}"
    )
    assert tuples(cursor) == [(1,), (2,), (3,)]
    assert cursor.nextset()
    assert tuples(cursor) == [(3,)]
    assert not cursor.nextset()


def test_prepared_again_and_again(connection, table):
    cursor = connection.cursor()
    for key in range(20):
        cursor.execute(f"INSERT INTO {table} VALUES (?, ?, ?)", key, f"name {key}", D(key))
        assert cursor.rowcount == 1
    cursor.execute(f"SELECT COUNT(*), SUM(amount) FROM {table} WHERE id < ?", 10)
    assert tuple(cursor.fetchone()) == (10, D("45.0000"))


def test_executemany(connection, table):
    cursor = connection.cursor()
    cursor.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", [(1, "a", D(1)), (2, None, None)])
    assert cursor.execute(f"SELECT COUNT(*) FROM {table}").fetchval() == 2


def test_fast_executemany(connection, table):
    cursor = connection.cursor()
    cursor.fast_executemany = True
    rows = [(n, None if n % 3 == 0 else f"näme {n}", D(n) / 4) for n in range(2500)]
    cursor.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", rows)
    found = cursor.execute(f"SELECT id, name, amount FROM {table} ORDER BY id").fetchall()
    assert [tuple(row) for row in found] == rows


def test_fast_executemany_with_an_error_in_the_middle(connection, table):
    cursor = connection.cursor()
    cursor.fast_executemany = True
    with pytest.raises(pyodbc.IntegrityError):
        cursor.executemany(f"INSERT INTO {table} (id) VALUES (?)", [(1,), (2,), (1,), (3,)])
    assert cursor.execute("SELECT 1").fetchval() == 1


def test_a_cursor_that_is_not_read_to_its_end(connection):
    cursor = connection.cursor()
    cursor.execute(
        "WITH n AS (SELECT 1 AS v UNION ALL SELECT v + 1 FROM n WHERE v < 30000)"
        " SELECT v, REPLICATE('x', 100) FROM n OPTION (MAXRECURSION 0)"
    )
    assert cursor.fetchone()[0] == 1
    cursor.close()
    assert connection.execute("SELECT 1").fetchval() == 1


def test_messages(connection):
    cursor = connection.execute("PRINT 'hello'")
    assert "hello" in cursor.messages[0][1]


def test_procedure_call(connection):
    rows = tuples(connection.execute("{CALL sp_executesql(?)}", "SELECT 7 AS x"))
    assert rows == [(7,)]


# -- errors


@pytest.mark.parametrize(
    ("sql", "error", "number", "state"),
    [
        ("SELECT * FROM dbo.nowhere", pyodbc.ProgrammingError, 208, "42S02"),
        ("SELECT nothing FROM sys.tables", pyodbc.ProgrammingError, 207, "42S22"),
        ("SELECT 1 / 0", pyodbc.DataError, 8134, "22012"),
        ("SELEC 1", pyodbc.ProgrammingError, None, "42000"),
        ("SELECT CAST('x' AS int)", pyodbc.DataError, 245, "22018"),
        ("RAISERROR('own', 16, 1)", pyodbc.ProgrammingError, 50000, "42000"),
        ("THROW 51000, 'own', 1", pyodbc.ProgrammingError, 51000, "42000"),
        ("EXEC dbo.nothing", pyodbc.ProgrammingError, 2812, "42000"),
    ],
)
def test_error_classes(connection, sql, error, number, state):
    with pytest.raises(error) as caught:
        connection.execute(sql).fetchall()
    assert caught.value.args[0] == state
    if number is not None:
        assert f"({number})" in caught.value.args[1]
    assert connection.execute("SELECT 1").fetchval() == 1


def test_constraint_errors(connection, table):
    connection.execute(f"INSERT INTO {table} (id) VALUES (1)")
    with pytest.raises(pyodbc.IntegrityError, match="2627"):
        connection.execute(f"INSERT INTO {table} (id) VALUES (1)")
    with pytest.raises(pyodbc.IntegrityError, match="515"):
        connection.execute(f"INSERT INTO {table} (name) VALUES (N'x')")


def test_an_error_in_a_later_statement_comes_with_nextset(connection):
    cursor = connection.execute("SELECT 1; SELECT 1 / 0")
    assert tuples(cursor) == [(1,)]
    with pytest.raises(pyodbc.DataError):
        cursor.nextset()


# -- transactions


def test_commit_and_rollback(shop, table):
    connection = shop.connect("shop", autocommit=False)
    connection.execute(f"INSERT INTO {table} (id) VALUES (1)")
    connection.rollback()
    connection.execute(f"INSERT INTO {table} (id) VALUES (2)")
    connection.commit()
    connection.execute(f"INSERT INTO {table} (id) VALUES (3)")
    connection.close()  # what is open is rolled back
    assert tuples(shop.connect("shop").execute(f"SELECT id FROM {table}")) == [(2,)]


def test_nobody_sees_what_is_not_committed(shop, connection, table):
    writer = shop.connect("shop", autocommit=False)
    writer.execute(f"INSERT INTO {table} (id) VALUES (1)")
    assert writer.execute(f"SELECT COUNT(*) FROM {table}").fetchval() == 1
    connection.execute("SET LOCK_TIMEOUT 0")
    with pytest.raises(pyodbc.Error, match="1222"):
        connection.execute(f"SELECT COUNT(*) FROM {table}")
    writer.commit()
    assert connection.execute(f"SELECT COUNT(*) FROM {table}").fetchval() == 1


def test_a_failed_statement_does_not_end_the_transaction(shop, table):
    connection = shop.connect("shop", autocommit=False)
    connection.execute(f"INSERT INTO {table} (id) VALUES (1)")
    with pytest.raises(pyodbc.IntegrityError):
        connection.execute(f"INSERT INTO {table} (id) VALUES (2), (1)")
    connection.execute(f"INSERT INTO {table} (id) VALUES (3)")
    connection.commit()
    assert tuples(connection.execute(f"SELECT id FROM {table} ORDER BY id")) == [(1,), (3,)]


def test_transactions_in_text(connection, table):
    connection.execute(
        f"BEGIN TRAN; INSERT INTO {table} (id) VALUES (1); SAVE TRAN s;"
        f" INSERT INTO {table} (id) VALUES (2); ROLLBACK TRAN s; COMMIT"
    )
    assert tuples(connection.execute(f"SELECT id FROM {table}")) == [(1,)]
    assert connection.execute("SELECT @@TRANCOUNT").fetchval() == 0


def test_autocommit_may_be_switched(connection, table):
    connection.autocommit = False
    connection.execute(f"INSERT INTO {table} (id) VALUES (1)")
    connection.rollback()
    connection.autocommit = True
    connection.execute(f"INSERT INTO {table} (id) VALUES (2)")
    assert tuples(connection.execute(f"SELECT id FROM {table}")) == [(2,)]


# -- interruption


@pytest.mark.parametrize(
    "sql",
    [
        "WAITFOR DELAY '00:00:20'",
        "SELECT COUNT_BIG(*) FROM numbers a CROSS JOIN numbers b CROSS JOIN numbers c"
        " WHERE a.v + b.v + c.v < 0",
        "DELETE a FROM numbers a WHERE EXISTS"
        " (SELECT * FROM numbers b CROSS JOIN numbers c WHERE a.v + b.v + c.v < 0)",
        "SET NOCOUNT ON; BEGIN TRAN; UPDATE numbers SET v = v + 1;"
        " WHILE 1 = 1 UPDATE numbers SET v = v + 1",
    ],
)
def test_query_timeout(shop, sql):
    connection = shop.connect("shop")
    connection.execute(
        "DROP TABLE IF EXISTS numbers; CREATE TABLE numbers (v int);"
        " WITH n AS (SELECT 1 AS v UNION ALL SELECT v + 1 FROM n WHERE v < 2000)"
        " INSERT INTO numbers SELECT v FROM n OPTION (MAXRECURSION 0)"
    )
    connection.timeout = 1
    began = time.monotonic()
    with pytest.raises(pyodbc.OperationalError, match="HYT00"):
        connection.execute(sql).fetchall()
    assert time.monotonic() - began < 10
    connection.timeout = 0
    connection.execute("IF @@TRANCOUNT > 0 ROLLBACK")
    row = connection.execute("SELECT COUNT(*), SUM(v) FROM numbers").fetchone()
    assert tuple(row) == (2000, 2_001_000)


def test_cancel_from_another_thread(connection, table):
    cursor = connection.cursor()
    done = threading.Event()

    def cancel():
        while not done.wait(0.2):  # the first may come before the request
            cursor.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        with pytest.raises(pyodbc.Error):
            # Without counts: once they fill a packet, execute returns before it is cancelled.
            cursor.execute(f"SET NOCOUNT ON; WHILE 1 = 1 UPDATE {table} SET name = name")
    finally:
        done.set()
        thread.join()
    assert connection.execute("SELECT 1").fetchval() == 1


# -- the driver's catalogue functions


def test_catalogue_functions(connection):
    connection.execute(
        "DROP TABLE IF EXISTS dbo.orders; CREATE TABLE dbo.orders (region char(2) NOT NULL,"
        " id int NOT NULL, note nvarchar(30) NULL, amount decimal(9, 2) NULL,"
        " CONSTRAINT pk_orders PRIMARY KEY (region, id))"
    )
    cursor = connection.cursor()
    tables = cursor.tables(table="orders").fetchall()
    assert [(t.table_cat, t.table_schem, t.table_name, t.table_type) for t in tables] == [
        ("shop", "dbo", "orders", "TABLE")
    ]
    columns = cursor.columns(table="orders").fetchall()
    assert [(c.column_name, c.type_name, c.column_size, c.nullable) for c in columns] == [
        ("region", "char", 2, 0),
        ("id", "int", 10, 0),
        ("note", "nvarchar", 30, 1),
        ("amount", "decimal", 9, 1),
    ]
    keys = cursor.primaryKeys("orders").fetchall()
    assert [(k.column_name, k.key_seq, k.pk_name) for k in keys] == [
        ("region", 1, "pk_orders"),
        ("id", 2, "pk_orders"),
    ]
    statistics = cursor.statistics("orders", unique=True).fetchall()
    assert [s.column_name for s in statistics if s.index_name] == ["region", "id"]


# -- life of the process


def test_what_was_committed_survives_kill_and_restart(emulator):
    connection = emulator.connect()
    connection.execute("CREATE DATABASE d")
    connection.execute("CREATE TABLE d.dbo.t (id int PRIMARY KEY)")
    connection.execute("INSERT INTO d.dbo.t VALUES (1)")
    uncommitted = emulator.connect("d", autocommit=False)
    uncommitted.execute("INSERT INTO t VALUES (2)")
    emulator.kill()
    emulator.close_connections()
    emulator.start()
    assert tuples(emulator.connect("d").execute("SELECT id FROM t")) == [(1,)]


def test_sigterm_stops_it_cleanly_while_clients_are_busy(emulator):
    connection = emulator.connect()
    errors = []

    def wait():
        try:
            connection.execute("WAITFOR DELAY '00:01:00'")
        except pyodbc.Error as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    emulator.connect().execute("SELECT 1")
    assert emulator.stop() == 0
    thread.join(10)
    assert not thread.is_alive()
    assert errors


def test_describe_first_result_set(connection, table):
    columns = tuples(
        connection.execute(
            "{CALL sp_describe_first_result_set(?, ?)}",
            f"SELECT id, name AS n, amount + @p AS x FROM {table}",
            "@p int",
        )
    )
    assert [len(column) for column in columns] == [39] * 3
    assert [(c[1], c[2], c[3], c[5], c[6]) for c in columns] == [
        (1, "id", False, "int", 4),
        (2, "n", True, "nvarchar(40)", 80),
        (3, "x", True, "decimal(19,4)", 9),
    ]


def test_describe_undeclared_parameters(connection, table):
    sql = f"UPDATE {table} SET name = @n, amount = @a WHERE id = @i"
    rows = tuples(connection.execute("{CALL sp_describe_undeclared_parameters(?)}", sql))
    assert [len(row) for row in rows] == [24] * 3
    assert [(row[1], row[3]) for row in rows] == [
        ("@n", "nvarchar(40)"),
        ("@a", "decimal(18,4)"),
        ("@i", "int"),
    ]


def test_set_options_of_a_batch_with_parameters_end_with_it(connection: pyodbc.Connection):
    """As of sp_executesql: SET Statements (Transact-SQL), considerations."""
    level = "SELECT transaction_isolation_level FROM sys.dm_exec_sessions WHERE session_id = @@SPID"
    connection.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
    inside = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCK_TIMEOUT 7; SELECT ?"
    connection.execute(inside, 1).fetchall()
    assert connection.execute(level).fetchval() == 4
    assert connection.execute("SELECT @@LOCK_TIMEOUT").fetchval() == -1
