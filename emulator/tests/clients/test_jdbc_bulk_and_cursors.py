"""Bulk copies and server cursors of Microsoft's JDBC driver."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from emulator.tests.clients.conftest import Source
from emulator.tests.clients.jvm import driver_jar, jvm_with
from emulator.tests.clients.test_jdbc import VERSIONS, Jdbc, query, rows_of, run


@pytest.fixture(scope="module")
def machine(source: Source) -> Iterator[Jdbc]:
    with jvm_with(driver_jar(VERSIONS[-1])) as gateway:
        yield Jdbc(gateway, source)


@pytest.fixture
def jdbc(machine: Jdbc) -> Iterator[Jdbc]:
    yield machine
    machine.close()


@pytest.fixture
def connection(jdbc: Jdbc) -> Any:
    return jdbc.connect()


@pytest.fixture
def table() -> str:
    return f"t_{uuid.uuid4().hex[:12]}"


# -- bulk load

BULK_COLUMNS = (
    "i int, b bit, d decimal(18, 4), mo money, f float, r real, dt datetime, sd smalldatetime,"
    " d2 datetime2(7), t time(3), da date, o datetimeoffset(3), g uniqueidentifier, ch char(4),"
    " v varchar(40) COLLATE Cyrillic_General_CI_AS, n nvarchar(40), nm nvarchar(max),"
    " bi binary(3), vb varbinary(max), x xml, tx text, nt ntext, im image"
)
BULK_VALUES = (
    "5, 1, -1.5, 2.5, 1e100, 1.5, '2020-01-02T03:04:05.007', '2020-01-02T03:04',"
    " '0001-01-02T03:04:05.1234567', '03:04:05.123', '9999-12-31', '2020-01-02T03:04:05.123+02:00',"
    " '6F9619FF-8B86-D011-B42D-00C04FC964FF', 'ab', N'Привет', N'日本', REPLICATE(N'日', 9000),"
    " 0x01, CAST(REPLICATE('a', 9000) AS varbinary(max)), '<a/>', 'text', N'日', 0x00FF"
)


def test_bulk_copy_of_every_type(jdbc: Jdbc, connection: Any, table: str):
    run(
        connection,
        f"CREATE TABLE {table}_from (id int NOT NULL, {BULK_COLUMNS})",
        f"CREATE TABLE {table}_to (id int IDENTITY PRIMARY KEY, {BULK_COLUMNS},"
        " added int NOT NULL DEFAULT 7)",
        f"INSERT INTO {table}_from VALUES (10, {BULK_VALUES})",
        f"INSERT INTO {table}_from (id) VALUES (20)",
    )
    rows = jdbc.connect().createStatement().executeQuery(f"SELECT * FROM {table}_from ORDER BY id")
    copy = jdbc.jvm.com.microsoft.sqlserver.jdbc.SQLServerBulkCopy(connection)
    options = jdbc.jvm.com.microsoft.sqlserver.jdbc.SQLServerBulkCopyOptions()
    options.setKeepIdentity(True)
    copy.setBulkCopyOptions(options)
    copy.setDestinationTableName(f"dbo.{table}_to")
    names = ["id", *(part.split()[0] for part in BULK_COLUMNS.replace("18, 4", "18").split(", "))]
    for name in names:
        copy.addColumnMapping(name, name)
    copy.writeToServer(rows)
    copy.close()
    shown = ", ".join(
        f"CAST({n} AS nvarchar(max))" if n in {"tx", "nt", "x"} else n for n in names if n != "im"
    )
    shown += ", CAST(im AS varbinary(max))"
    given = query(connection, f"SELECT {shown} FROM {table}_from ORDER BY id")
    assert [list(map(str, r)) for r in query(connection, f"SELECT {shown} FROM {table}_to")] == [
        list(map(str, r)) for r in given
    ]
    assert query(connection, f"SELECT DISTINCT added FROM {table}_to") == [(7,)]


def test_batch_as_bulk_copy(jdbc: Jdbc, table: str):
    connection = jdbc.connect(useBulkCopyForBatchInsert="true")
    run(
        connection,
        f"CREATE TABLE {table} (id int PRIMARY KEY, name nvarchar(20), n int CHECK (n > 0))",
    )
    insert = connection.prepareStatement(f"INSERT INTO {table} (id, name, n) VALUES (?, ?, ?)")
    for number in range(1, 301):
        insert.setInt(1, number)
        insert.setString(2, f"näme {number}")
        insert.setInt(3, number)
        insert.addBatch()
    assert list(insert.executeBatch()) == [1] * 300
    assert query(connection, f"SELECT COUNT(*), MAX(name), SUM(n) FROM {table}") == [
        (300, "näme 99", 45150)
    ]


# -- table-valued parameters


def test_a_table_as_parameter(jdbc: Jdbc, connection: Any, table: str):
    run(
        connection,
        f"CREATE TYPE dbo.{table}_type AS TABLE (id int NOT NULL PRIMARY KEY, name nvarchar(20)"
        " NULL, amount decimal(18, 4) NULL CHECK (amount > 0))",
        f"CREATE TABLE {table} (id int PRIMARY KEY, name nvarchar(20), amount decimal(18, 4))",
        f"CREATE PROCEDURE {table}_add @rows dbo.{table}_type READONLY, @factor int AS"
        f" INSERT {table} SELECT id, name, amount * @factor FROM @rows",
    )
    given = jdbc.jvm.com.microsoft.sqlserver.jdbc.SQLServerDataTable()
    types = jdbc.jvm.java.sql.Types
    given.addColumnMetadata("id", types.INTEGER)
    given.addColumnMetadata("name", types.NVARCHAR)
    given.addColumnMetadata("amount", types.DECIMAL)
    for row in ((1, "één", "1.5"), (2, None, "2.25")):
        cells = jdbc.gateway.new_array(jdbc.jvm.java.lang.Object, 3)
        cells[0], cells[1] = row[0], row[1]
        cells[2] = jdbc.jvm.java.math.BigDecimal(row[2])
        given.addRow(cells)
    call = connection.prepareCall(f"{{call {table}_add(?, ?)}}")
    call.setStructured(1, f"dbo.{table}_type", given)
    call.setInt(2, 10)
    call.execute()
    statement = connection.prepareStatement(f"INSERT {table} SELECT id + 10, name, amount FROM ?")
    statement.setStructured(1, f"dbo.{table}_type", given)
    assert statement.executeUpdate() == 2
    found = query(connection, f"SELECT id, name, CAST(amount AS varchar(20)) FROM {table}")
    assert found == [
        (1, "één", "15.0000"), (2, None, "22.5000"), (11, "één", "1.5000"), (12, None, "2.2500"),
    ]  # fmt: skip


# -- server cursors


def test_a_result_that_is_scrolled(connection: Any, table: str, jdbc: Jdbc):
    run(connection, f"CREATE TABLE {table} (id int NOT NULL, name nvarchar(20) NULL)")
    rows = ", ".join(f"({n}, N'näme {n}')" for n in range(1, 51))
    run(connection, f"INSERT INTO {table} VALUES {rows}")
    kind = jdbc.jvm.java.sql.ResultSet
    statement = connection.prepareStatement(
        f"SELECT id, name FROM {table} WHERE id > ? ORDER BY id",
        kind.TYPE_SCROLL_INSENSITIVE,
        kind.CONCUR_READ_ONLY,
    )
    for over in (10, 20):  # prepared and opened at once, then executed again
        statement.setInt(1, over)
        statement.setFetchSize(8)
        results = statement.executeQuery()
        assert results.getMetaData().getColumnCount() == 2
        assert results.next()
        assert (results.getInt(1), results.getString(2)) == (over + 1, f"näme {over + 1}")
        assert results.last()
        assert (results.getInt(1), results.getRow()) == (50, 50 - over)
        assert results.previous()
        assert results.getInt(1) == 49
        assert results.absolute(5)
        assert results.getInt(1) == over + 5
        assert results.relative(-2)
        assert results.getInt(1) == over + 3
        assert results.first()
        assert not results.previous()
        assert results.isBeforeFirst()
        results.afterLast()
        assert [results.getInt(1) for _ in range(3) if results.previous()] == [50, 49, 48]
        results.beforeFirst()
        found = []
        while results.next():
            found.append(results.getInt(1))
        assert found == list(range(over + 1, 51))
        results.close()


def test_a_cursor_that_only_goes_forward(jdbc: Jdbc, table: str):
    connection = jdbc.connect(selectMethod="cursor")
    run(connection, f"CREATE TABLE {table} (id int NOT NULL)")
    run(connection, f"INSERT INTO {table} VALUES (1), (2), (3)")
    statement = connection.createStatement()
    statement.setFetchSize(2)
    assert rows_of(statement.executeQuery(f"SELECT id FROM {table} ORDER BY id")) == [
        (1,), (2,), (3,),
    ]  # fmt: skip
    with pytest.raises(Py4JJavaError, match="Invalid object name"):
        statement.executeQuery("SELECT id FROM dbo.nothing")


def test_a_result_that_is_changed_in_place_is_refused(connection: Any, jdbc: Jdbc):
    kind = jdbc.jvm.java.sql.ResultSet
    statement = connection.createStatement(kind.TYPE_SCROLL_SENSITIVE, kind.CONCUR_UPDATABLE)
    with pytest.raises(Py4JJavaError, match="updatable server cursors"):
        statement.executeQuery("SELECT 1")
