"""python-tds: a client of its own, whose protocol shares nothing with Microsoft's drivers."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytds
import pytest
from pytds.tds_types import IntType, NVarCharType

from emulator.tests.clients.conftest import Source

D = decimal.Decimal
naive = datetime.datetime.fromisoformat


@pytest.fixture
def connect(source: Source) -> Iterator[Callable[..., Any]]:
    opened: list[Any] = []

    def make(**options: Any) -> Any:
        settings: dict[str, Any] = {
            "dsn": "127.0.0.1",
            "port": source.port,
            "database": source.database,
            "user": source.user,
            "password": source.password,
            "autocommit": True,
            "login_timeout": 20,
        }
        opened.append(pytds.connect(**(settings | options)))
        return opened[-1]

    yield make
    for connection in opened:
        connection.close()


def rows(connection: Any, sql: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


def run(connection: Any, *statements: str) -> None:
    with connection.cursor() as cursor:
        for sql in statements:
            cursor.execute(sql)


@pytest.mark.parametrize("encrypted", [False, True])
def test_login(connect, source: Source, encrypted: bool):
    options = {"cafile": str(source.certificate), "validate_host": False} if encrypted else {}
    connection = connect(**options)
    assert rows(connection, "SELECT DB_NAME(), SUSER_SNAME()") == [(source.database, "sa")]


def test_wrong_password(connect):
    with pytest.raises(pytds.OperationalError, match="Login failed for user 'sa'") as raised:
        connect(password="wrong")
    assert raised.value.msg_no == 18456


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ("bit", True),
        ("tinyint", 255),
        ("smallint", -32768),
        ("int", -2147483648),
        ("bigint", -9223372036854775808),
        ("real", 1.5),
        ("float", -2.25e300),
        ("decimal(38,10)", D("1234567890123456789012345678.0123456789")),
        ("money", D("922337203685477.5807")),
        ("varchar(20)", "Grüße"),
        ("nvarchar(20)", "日本 🎉"),
        ("nvarchar(20)", ""),
        ("nvarchar(max)", "日" * 5000),
        ("varbinary(20)", pytds.Binary(b"\x00\x01\xff")),
        ("varbinary(max)", pytds.Binary(b"\xff" * 9000)),
        ("date", datetime.date(9999, 12, 31)),
        ("time(6)", datetime.time(23, 59, 59, 999999)),
        ("datetime2(6)", naive("9999-12-31T23:59:59.999999")),
        ("datetime", naive("2026-01-02T03:04:05.120")),
        (
            "datetimeoffset(6)",
            datetime.datetime(
                2026, 1, 2, 3, 4, 5, 6, datetime.timezone(datetime.timedelta(minutes=330))
            ),
        ),
        ("uniqueidentifier", uuid.UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff")),
        ("int", None),
    ],
)
def test_a_value_goes_in_by_parameter_and_comes_out_equal(connect, declared: str, value: Any):
    connection = connect()
    run(connection, f"CREATE TABLE #v (value {declared})")
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO #v VALUES (%s)", (value,))
        assert cursor.rowcount == 1
    assert rows(connection, "SELECT value FROM #v") == [(value,)]


def test_callproc_with_output(connect, table: str):
    """python-tds keeps an output by its place among all parameters."""
    connection = connect()
    run(
        connection,
        f"CREATE PROCEDURE dbo.p_{table} @a int, @b int OUTPUT AS SET @b = @a * 2; RETURN 3",
    )
    with connection.cursor() as cursor:
        values = cursor.callproc(f"dbo.p_{table}", [21, pytds.output(param_type="int")])
        assert values == [21, 42]
        assert cursor.get_proc_return_status() == 3


def test_callproc_with_output_behind_rows(connect, table: str):
    connection = connect()
    run(
        connection,
        f"CREATE PROCEDURE dbo.q_{table} @b int OUTPUT, @a int AS"
        " SELECT @a AS a; SET @b = @a * 2; RETURN 3",
    )
    with connection.cursor() as cursor:
        cursor.callproc(f"dbo.q_{table}", [pytds.output(param_type="int"), 21])
        assert cursor.fetchall() == [(21,)]
        assert not cursor.nextset()
        assert cursor.get_proc_return_status() == 3
        assert cursor.get_proc_outputs() == [42]


def test_several_results_and_description(connect):
    with connect().cursor() as cursor:
        cursor.execute("SELECT 1 AS one; SELECT N'zwei' AS two, 3 AS three")
        assert [column[0] for column in cursor.description] == ["one"]
        assert cursor.fetchall() == [(1,)]
        assert cursor.nextset()
        assert cursor.fetchall() == [("zwei", 3)]
        assert not cursor.nextset()


def test_rollback(connect, table: str):
    connection = connect(autocommit=False)
    run(connection, f"CREATE TABLE {table} (id int PRIMARY KEY)")
    connection.commit()
    run(connection, f"INSERT INTO {table} VALUES (1)")
    connection.rollback()
    run(connection, f"INSERT INTO {table} VALUES (2)")
    connection.commit()
    assert rows(connect(), f"SELECT id FROM {table}") == [(2,)]


def test_errors_have_their_numbers(connect, table: str):
    connection = connect()
    run(connection, f"CREATE TABLE {table} (id int PRIMARY KEY)")
    run(connection, f"INSERT INTO {table} VALUES (1)")
    for sql, number, kind in (
        (f"INSERT INTO {table} VALUES (1)", 2627, pytds.IntegrityError),
        ("SELECT * FROM dbo.nowhere", 208, pytds.ProgrammingError),
        ("RAISERROR(N'ours', 16, 1)", 50000, pytds.OperationalError),
    ):
        with pytest.raises(kind) as raised:
            run(connection, sql)
        assert raised.value.number == number
    assert rows(connection, f"SELECT id FROM {table}") == [(1,)]


def test_query_timeout(connect):
    """The client sends an attention, and the connection goes on."""
    connection = connect(timeout=1)
    with pytest.raises(pytds.TimeoutError):
        run(connection, "WAITFOR DELAY '00:01:00'")
    assert rows(connection, "SELECT 1") == [(1,)]


def test_bulk_load(connect, table: str):
    connection = connect()
    run(connection, f"CREATE TABLE {table} (id int PRIMARY KEY, name nvarchar(20))")
    columns = [pytds.Column("id", type=IntType()), pytds.Column("name", type=NVarCharType(20))]
    with connection.cursor() as cursor:
        cursor.copy_to(
            data=[(number, f"n{number}") for number in range(100)],
            table_or_view=table,
            columns=columns,
        )
    assert rows(connection, f"SELECT COUNT(*), MAX(name) FROM {table}") == [(100, "n99")]


def test_reading_a_cdc_function(connect):
    found = rows(
        connect(),
        "SELECT __$operation, id, name FROM cdc.fn_cdc_get_all_changes_dbo_Tracked("
        "sys.fn_cdc_get_min_lsn(%s), sys.fn_cdc_get_max_lsn(), N'all')",
        ("dbo_Tracked",),
    )
    assert found == [(2, 1, "één"), (2, 2, "zwei"), (4, 1, "Один"), (1, 2, "zwei")]
