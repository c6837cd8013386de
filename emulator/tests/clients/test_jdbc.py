"""Microsoft's JDBC driver, in the version that Debezium carries and in the newest one."""

from __future__ import annotations

import decimal
from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from emulator.tests.clients.conftest import Source
from emulator.tests.clients.jvm import driver_jar, jvm_with

VERSIONS = ("12.4.2", "13.2.1")


class Jdbc:
    """The driver in its virtual machine."""

    def __init__(self, gateway: Any, source: Source) -> None:
        self.gateway = gateway
        self.jvm = gateway.jvm
        self.source = source
        self._open: list[Any] = []

    def url(self, **options: str) -> str:
        settings = {
            "databaseName": self.source.database,
            "user": self.source.user,
            "password": self.source.password,
            "encrypt": "false",
            # A time of day goes as it is, not as a datetime that is rounded to 1/300 s.
            "sendTimeAsDatetime": "false",
            "loginTimeout": "30",
        } | options
        parts = ";".join(f"{name}={value}" for name, value in settings.items())
        return f"jdbc:sqlserver://127.0.0.1:{self.source.port};{parts}"

    def connect(self, **options: str) -> Any:
        connection = self.jvm.java.sql.DriverManager.getConnection(self.url(**options))
        self._open.append(connection)
        return connection

    def close(self) -> None:
        for connection in self._open:
            connection.close()
        self._open.clear()


@pytest.fixture(scope="module", params=VERSIONS)
def machine(request: pytest.FixtureRequest, source: Source) -> Iterator[Jdbc]:
    with jvm_with(driver_jar(request.param)) as gateway:
        yield Jdbc(gateway, source)


@pytest.fixture
def jdbc(machine: Jdbc) -> Iterator[Jdbc]:
    yield machine
    machine.close()


@pytest.fixture
def connection(jdbc: Jdbc) -> Any:
    return jdbc.connect()


def rows_of(results: Any, *names: str) -> list[tuple[Any, ...]]:
    """All rows of a result; of the named columns, or of all, each as `getObject` gives it."""
    count = results.getMetaData().getColumnCount()
    wanted: list[Any] = list(names) or list(range(1, count + 1))
    rows = []
    while results.next():
        rows.append(tuple(results.getObject(column) for column in wanted))
    results.close()
    return rows


def query(connection: Any, sql: str, *names: str) -> list[tuple[Any, ...]]:
    return rows_of(connection.createStatement().executeQuery(sql), *names)


def run(connection: Any, *statements: str) -> None:
    statement = connection.createStatement()
    for sql in statements:
        statement.execute(sql)
    statement.close()


def failure(raised: pytest.ExceptionInfo[Py4JJavaError]) -> tuple[str, int, str]:
    """Class, error number and text of a Java SQLException."""
    error = raised.value.java_exception
    return error.getClass().getSimpleName(), error.getErrorCode(), error.getMessage()


# -- connecting


@pytest.mark.parametrize("encrypt", ["true", "false", "strict"])
def test_login(jdbc: Jdbc, encrypt: str):
    options = {"encrypt": encrypt, "trustServerCertificate": "true"}
    if encrypt == "strict":
        options = {"encrypt": encrypt, "serverCertificate": str(jdbc.source.certificate)}
    connection = jdbc.connect(**options)
    about = connection.getMetaData()
    assert about.getDatabaseProductName() == "Microsoft SQL Server"
    assert connection.getCatalog() == jdbc.source.database
    assert query(connection, "SELECT SUSER_SNAME(), DB_NAME()") == [("sa", jdbc.source.database)]
    assert connection.isValid(5)


def test_a_certificate_that_nobody_vouches_for_is_refused(jdbc: Jdbc):
    with pytest.raises(Py4JJavaError) as raised:
        jdbc.connect(encrypt="true", trustServerCertificate="false", loginTimeout="2")
    assert "PKIX" in failure(raised)[2]


def test_wrong_password(jdbc: Jdbc):
    with pytest.raises(Py4JJavaError) as raised:
        jdbc.connect(password="wrong")
    assert failure(raised)[1] == 18456
    assert "Login failed for user 'sa'." in failure(raised)[2]


# -- values


VALUES = [
    ("bit", "setBoolean", True, True),
    ("tinyint", "setInt", 255, 255),
    ("smallint", "setInt", -32768, -32768),
    ("int", "setInt", -2147483648, -2147483648),
    ("bigint", "setLong", -9223372036854775808, -9223372036854775808),
    ("real", "setFloat", 1.5, 1.5),
    ("float", "setDouble", -2.25e300, -2.25e300),
    ("varchar(20)", "setString", "Grüße", "Grüße"),
    ("nvarchar(20)", "setNString", "日本 🎉", "日本 🎉"),
    ("nvarchar(20)", "setString", "", ""),
    ("char(5)", "setString", "ab", "ab   "),
    ("nvarchar(max)", "setNString", "日" * 5000, "日" * 5000),
    ("varchar(max)", "setString", "v" * 9000, "v" * 9000),
    ("varbinary(20)", "setBytes", b"\x00\x01\xff", b"\x00\x01\xff"),
    ("varbinary(max)", "setBytes", b"\xff" * 9000, b"\xff" * 9000),
    ("binary(4)", "setBytes", b"\x01", b"\x01\x00\x00\x00"),
]


@pytest.mark.parametrize(("declared", "setter", "given", "expected"), VALUES)
def test_a_value_goes_in_by_parameter_and_comes_out_equal(
    connection: Any, declared: str, setter: str, given: Any, expected: Any
):
    run(connection, f"CREATE TABLE #v (value {declared})")
    insert = connection.prepareStatement("INSERT INTO #v VALUES (?)")
    getattr(insert, setter)(1, given)
    assert insert.executeUpdate() == 1
    assert query(connection, "SELECT value FROM #v") == [(expected,)]


TEXTS = [
    ("decimal(38,10)", "java.math.BigDecimal", "1234567890123456789012345678.0123456789"),
    ("numeric(5,0)", "java.math.BigDecimal", "-99999"),
    ("money", "java.math.BigDecimal", "922337203685477.5807"),
    ("smallmoney", "java.math.BigDecimal", "-214748.3648"),
    ("date", "java.sql.Date", "9999-12-31"),
    ("time(0)", "java.time.LocalTime", "23:59:59"),
    ("time(7)", "java.time.LocalTime", "23:59:59.999999900"),
    ("smalldatetime", "java.sql.Timestamp", "2079-06-06 23:59:00.0"),
    ("datetime", "java.sql.Timestamp", "9999-12-31 23:59:59.997"),
    ("datetime2(3)", "java.sql.Timestamp", "0001-01-01 00:00:00.001"),
    ("datetime2(7)", "java.time.LocalDateTime", "9999-12-31T23:59:59.999999900"),
    ("datetimeoffset(7)", "java.time.OffsetDateTime", "2026-11-21T10:11:12.123456700+05:30"),
    ("uniqueidentifier", "java.lang.String", "6F9619FF-8B86-D011-B42D-00C04FC964FF"),
    ("xml", "java.lang.String", '<a b="1">t</a>'),
]


@pytest.mark.parametrize(("declared", "java_type", "text"), TEXTS)
def test_a_value_that_is_told_by_its_text(
    jdbc: Jdbc, connection: Any, declared: str, java_type: str, text: str
):
    """Bound as the Java type's object, read as it; Java says the text of what came back."""
    found = jdbc.jvm.java.lang.Class.forName(java_type)
    strings = jdbc.gateway.new_array(jdbc.jvm.java.lang.Class, 1)
    made: Any = text
    if java_type.startswith("java.time."):
        strings[0] = jdbc.jvm.java.lang.Class.forName("java.lang.CharSequence")
        arguments = jdbc.gateway.new_array(jdbc.jvm.java.lang.Object, 1)
        arguments[0] = text
        made = found.getMethod("parse", strings).invoke(None, arguments)
    elif java_type.startswith("java.sql."):
        made = getattr(jdbc.jvm.java.sql, java_type.rpartition(".")[2]).valueOf(text)
    elif java_type == "java.math.BigDecimal":
        made = decimal.Decimal(text)
    run(connection, f"CREATE TABLE #v (value {declared})")
    insert = connection.prepareStatement("INSERT INTO #v VALUES (?), (NULL)")
    if isinstance(made, decimal.Decimal):
        insert.setBigDecimal(1, made)
    else:
        insert.setObject(1, made)
    assert insert.executeUpdate() == 2
    results = connection.createStatement().executeQuery("SELECT value FROM #v")
    assert results.next()
    value = results.getObject(1, found)
    assert (f"{value:f}" if isinstance(value, decimal.Decimal) else str(value)) == text
    assert results.next()
    assert results.getObject(1) is None


def test_metadata_of_a_result(connection: Any):
    about = (
        connection.createStatement()
        .executeQuery(
            "SELECT CAST(1 AS decimal(18, 4)) AS amount, CAST(N'a' AS nvarchar(30)) AS name,"
            " SYSDATETIME() AS at, CAST(NULL AS varbinary(max)) AS bytes"
        )
        .getMetaData()
    )
    numbers = range(1, about.getColumnCount() + 1)
    assert [
        (about.getColumnLabel(n), about.getColumnTypeName(n), about.getPrecision(n))
        for n in numbers
    ] == [
        ("amount", "decimal", 18),
        ("name", "nvarchar", 30),
        ("at", "datetime2", 27),
        ("bytes", "varbinary", 2147483647),
    ]
    assert [about.getScale(n) for n in numbers] == [4, 0, 7, 0]


# -- statements


def test_prepared_again_and_again(connection: Any, table: str):
    """The driver's way changes with the count: sp_executesql, sp_prepexec, sp_execute."""
    run(connection, f"CREATE TABLE {table} (id int PRIMARY KEY, name nvarchar(20))")
    insert = connection.prepareStatement(f"INSERT INTO {table} VALUES (?, ?)")
    select = connection.prepareStatement(f"SELECT name FROM {table} WHERE id = ?")
    for number in range(6):
        insert.setInt(1, number)
        insert.setString(2, f"n{number}")
        assert insert.executeUpdate() == 1
        select.setInt(1, number)
        assert rows_of(select.executeQuery()) == [(f"n{number}",)]
    insert.close()
    select.close()


def test_parameter_metadata(connection: Any, table: str):
    run(connection, f"CREATE TABLE {table} (id int PRIMARY KEY, amount decimal(9, 2))")
    insert = connection.prepareStatement(f"INSERT INTO {table} (id, amount) VALUES (?, ?)")
    about = insert.getParameterMetaData()
    assert about.getParameterCount() == 2
    assert [about.getParameterTypeName(n) for n in (1, 2)] == ["int", "decimal"]
    assert (about.getPrecision(2), about.getScale(2)) == (9, 2)


def test_metadata_before_execution(connection: Any, table: str):
    run(connection, f"CREATE TABLE {table} (id int PRIMARY KEY, name nvarchar(20))")
    select = connection.prepareStatement(f"SELECT id, name FROM {table} WHERE id = ?")
    about = select.getMetaData()
    assert [about.getColumnName(n) for n in (1, 2)] == ["id", "name"]


def test_batch(jdbc: Jdbc, connection: Any, table: str):
    run(connection, f"CREATE TABLE {table} (id int PRIMARY KEY, name nvarchar(20), at datetime2)")
    insert = connection.prepareStatement(f"INSERT INTO {table} VALUES (?, ?, ?)")
    at = jdbc.jvm.java.sql.Timestamp.valueOf("2026-01-02 03:04:05.123456")
    for number in range(50):
        insert.setInt(1, number)
        insert.setString(2, f"n{number}")
        insert.setTimestamp(3, at)
        insert.addBatch()
    assert list(insert.executeBatch()) == [1] * 50
    assert query(connection, f"SELECT COUNT(*), MIN(name), MAX(id) FROM {table}") == [
        (50, "n0", 49)
    ]


def test_a_batch_with_an_error_in_the_middle(connection: Any, table: str):
    run(connection, f"CREATE TABLE {table} (id int PRIMARY KEY)")
    insert = connection.prepareStatement(f"INSERT INTO {table} VALUES (?)")
    for number in (1, 2, 1, 3):
        insert.setInt(1, number)
        insert.addBatch()
    with pytest.raises(Py4JJavaError) as raised:
        insert.executeBatch()
    name, number, _ = failure(raised)
    assert (name, number) == ("BatchUpdateException", 2627)
    assert list(raised.value.java_exception.getUpdateCounts()) == [1, 1, -3, 1]


def test_generated_keys(connection: Any, table: str):
    run(connection, f"CREATE TABLE {table} (id int IDENTITY(7, 1) PRIMARY KEY, name varchar(9))")
    insert = connection.prepareStatement(f"INSERT INTO {table} VALUES (?)", 1)
    insert.setString(1, "a")
    insert.executeUpdate()
    results = insert.getGeneratedKeys()
    assert results.next()
    assert results.getInt(1) == 7


def test_procedure_with_output(connection: Any, table: str):
    run(
        connection,
        f"CREATE PROCEDURE dbo.p_{table} @a int, @b int OUTPUT AS SET @b = @a * 2; RETURN 3",
    )
    call = connection.prepareCall(f"{{? = call dbo.p_{table}(?, ?)}}")
    call.registerOutParameter(1, 4)
    call.setInt(2, 21)
    call.registerOutParameter(3, 4)
    call.execute()
    assert (call.getInt(1), call.getInt(3)) == (3, 42)


def test_several_results(connection: Any):
    statement = connection.createStatement()
    assert statement.execute("SELECT 1; SELECT N'zwei'")
    assert rows_of(statement.getResultSet()) == [(1,)]
    assert statement.getMoreResults()
    assert rows_of(statement.getResultSet()) == [("zwei",)]
    assert not statement.getMoreResults()
    assert statement.getUpdateCount() == -1


def test_a_large_result_in_portions(connection: Any, table: str):
    """responseBuffering is adaptive: the rows are read as they are asked for."""
    run(
        connection,
        f"CREATE TABLE {table} (id int IDENTITY PRIMARY KEY, name char(200))",
        f"INSERT INTO {table} (name) SELECT TOP 5000 'x' FROM sys.all_columns a, sys.all_columns b",
    )
    statement = connection.createStatement()
    statement.setFetchSize(100)
    results = statement.executeQuery(f"SELECT id FROM {table} ORDER BY id")
    for number in range(1, 51):
        assert results.next()
        assert results.getInt(1) == number
    results.close()
    statement.close()
    assert query(connection, "SELECT 1") == [(1,)]


# -- transactions, errors, limits


def test_rollback_and_savepoint(jdbc: Jdbc, connection: Any, table: str):
    run(connection, f"CREATE TABLE {table} (id int PRIMARY KEY)")
    connection.setAutoCommit(False)
    run(connection, f"INSERT INTO {table} VALUES (1)")
    savepoint = connection.setSavepoint()
    run(connection, f"INSERT INTO {table} VALUES (2)")
    connection.rollback(savepoint)
    connection.commit()
    run(connection, f"INSERT INTO {table} VALUES (3)")
    connection.rollback()
    connection.setAutoCommit(True)
    assert query(jdbc.connect(), f"SELECT id FROM {table}") == [(1,)]


@pytest.mark.parametrize("level", [1, 2, 4, 8, 4096])
def test_isolation_levels(connection: Any, level: int):
    connection.setTransactionIsolation(level)
    assert connection.getTransactionIsolation() == level
    assert query(connection, "SELECT 1") == [(1,)]


def test_error_numbers(connection: Any, table: str):
    run(connection, f"CREATE TABLE {table} (id int PRIMARY KEY)")
    insert = f"INSERT INTO {table} VALUES (1)"
    run(connection, insert)
    for sql, number in (
        (insert, 2627),
        ("SELECT * FROM dbo.nowhere", 208),
        ("DECLARE @none int = 1/0", 8134),
        ("SELECT 1 +", 102),
        ("RAISERROR(N'ours', 16, 1)", 50000),
    ):
        with pytest.raises(Py4JJavaError) as raised:
            run(connection, sql)
        assert failure(raised)[:2] == ("SQLServerException", number), sql
    assert query(connection, f"SELECT id FROM {table}") == [(1,)]


def test_query_timeout(connection: Any):
    statement = connection.createStatement()
    statement.setQueryTimeout(1)
    with pytest.raises(Py4JJavaError) as raised:
        statement.execute("WAITFOR DELAY '00:01:00'")
    assert failure(raised)[0] == "SQLTimeoutException"
    assert query(connection, "SELECT 1") == [(1,)]


def test_lock_timeout(jdbc: Jdbc, connection: Any, table: str):
    run(connection, f"CREATE TABLE {table} (id int PRIMARY KEY)", f"INSERT INTO {table} VALUES (1)")
    connection.setAutoCommit(False)
    run(connection, f"UPDATE {table} SET id = 2")
    other = jdbc.connect(lockTimeout="100")
    with pytest.raises(Py4JJavaError) as raised:
        run(other, f"DELETE FROM {table}")
    assert failure(raised)[1] == 1222
    connection.rollback()


# -- catalogue


def test_catalogue(connection: Any, table: str, source: Source):
    run(
        connection,
        f"CREATE TABLE {table} (a int NOT NULL, b nvarchar(20) NULL, c decimal(9, 2) DEFAULT 0,"
        f" CONSTRAINT pk_{table} PRIMARY KEY (a))",
        f"CREATE UNIQUE INDEX ux_{table} ON {table} (b, c)",
        f"CREATE TABLE {table}_child (id int PRIMARY KEY, a int REFERENCES {table} (a))",
    )
    about = connection.getMetaData()
    database = source.database
    assert rows_of(about.getTables(database, "dbo", table, None), "TABLE_NAME", "TABLE_TYPE") == [
        (table, "TABLE")
    ]
    assert rows_of(
        about.getColumns(database, "dbo", table, "%"),
        "COLUMN_NAME",
        "DATA_TYPE",
        "TYPE_NAME",
        "COLUMN_SIZE",
        "DECIMAL_DIGITS",
        "NULLABLE",
        "COLUMN_DEF",
    ) == [
        ("a", 4, "int", 10, 0, 0, None),
        ("b", -9, "nvarchar", 20, None, 1, None),
        ("c", 3, "decimal", 9, 2, 1, "((0))"),
    ]
    assert rows_of(about.getPrimaryKeys(database, "dbo", table), "COLUMN_NAME", "PK_NAME") == [
        ("a", f"pk_{table}")
    ]
    indexes = about.getIndexInfo(database, "dbo", table, True, False)
    assert rows_of(indexes, "INDEX_NAME", "ORDINAL_POSITION", "COLUMN_NAME")[1:] == [
        (f"pk_{table}", 1, "a"),
        (f"ux_{table}", 1, "b"),
        (f"ux_{table}", 2, "c"),
    ]
    imported = about.getImportedKeys(database, "dbo", f"{table}_child")
    assert rows_of(imported, "PKTABLE_NAME", "PKCOLUMN_NAME", "FKCOLUMN_NAME") == [
        (table, "a", "a")
    ]
    assert (source.database,) in rows_of(about.getCatalogs())
    assert ("dbo",) in rows_of(about.getSchemas(), "TABLE_SCHEM")
    assert ("nvarchar",) in rows_of(about.getTypeInfo(), "TYPE_NAME")


# -- change data capture


def test_reading_a_cdc_function(connection: Any):
    select = connection.prepareStatement(
        "SELECT __$operation, id, name FROM cdc.fn_cdc_get_all_changes_dbo_Tracked("
        "sys.fn_cdc_get_min_lsn(?), sys.fn_cdc_get_max_lsn(), N'all update old')"
    )
    select.setString(1, "dbo_Tracked")
    assert rows_of(select.executeQuery()) == [
        (2, 1, "één"),
        (2, 2, "zwei"),
        (3, 1, "één"),
        (4, 1, "Один"),
        (1, 2, "zwei"),
    ]
