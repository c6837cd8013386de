"""NaN and infinity are no values of float and real: refused on every way in, as SQL Server does."""

import math
import struct

import pyodbc
import pytest

from emulator.tests.wire.test_server import Client
from tailrace_emulator.wire.login7 import Login7
from tailrace_emulator.wire.packets import PacketType
from tailrace_emulator.wire.requests import ProcedureId, RpcCall, RpcParameter, RpcRequest
from tailrace_emulator.wire.table_values import TABLE_TYPE, TableColumn, TableValue
from tailrace_emulator.wire.tokens import ColMetadata, Column, Done, Row, ServerMessage, TokenType
from tailrace_emulator.wire.types import DEFAULT_COLLATION_BYTES, DataType, TypeInfo

NVARCHAR = TypeInfo(DataType.NVARCHAR, 8000, collation=DEFAULT_COLLATION_BYTES)
FLOAT = TypeInfo(DataType.FLTN, 8)
REAL = TypeInfo(DataType.FLTN, 4)
VARIANT = TypeInfo(DataType.SSVARIANT, 8009)
INT = TypeInfo(DataType.INTN, 4)
NOT_FINITE = [math.nan, math.inf, -math.inf]
INVALID = (
    "The supplied value is not a valid instance of data type {}. Check the source data for invalid"
    " values. An example of an invalid value is data of numeric type with scale greater than"
    " precision."
)
STREAM = (
    "The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is"
    " incorrect. "
)


@pytest.fixture(scope="module")
def database(module_emulator):
    connection = module_emulator.connect()
    connection.execute("CREATE DATABASE finite")
    connection.execute("USE finite")
    connection.execute("CREATE TABLE t (id int IDENTITY, v float, r real, s sql_variant)")
    connection.execute("CREATE TYPE numbers AS TABLE (n int, v float)")
    connection.execute("CREATE PROCEDURE put @n int, @v float AS INSERT t (v) VALUES (@v)")
    connection.execute(
        "CREATE PROCEDURE put_all @t numbers READONLY AS INSERT t (v) SELECT v FROM @t"
    )
    return module_emulator


@pytest.fixture
def client(database):
    made = Client(database.port)
    made.log_in(Login7(user="sa", password=database.password, database="finite"))
    made.batch("DELETE t")
    yield made
    assert Row((0,)) in made.batch("SELECT COUNT(*) FROM t")
    made.socket.close()


def called(client, *calls):
    """The errors of an RPC request: number, state, severity, text."""
    client.send(PacketType.RPC, RpcRequest(calls).encode())
    return errors_of(client.tokens())


def errors_of(tokens):
    return [
        (t.number, t.state, t.severity, t.text)
        for t in tokens
        if isinstance(t, ServerMessage) and t.severity > 10
    ]


def sent(sql, declared, *parameters):
    """A call of sp_executesql."""
    texts = (RpcParameter("", NVARCHAR, sql), RpcParameter("", NVARCHAR, declared))
    return RpcCall(ProcedureId.EXECUTESQL, (*texts, *parameters))


@pytest.mark.parametrize("value", NOT_FINITE)
@pytest.mark.parametrize(("info", "name"), [(FLOAT, "float"), (REAL, "real")])
def test_a_parameter_of_a_text(client, info, name, value):
    call = sent(
        "INSERT t (v) VALUES (@b)",
        f"@a int, @b {name}",
        RpcParameter("@a", INT, 1),
        RpcParameter("@b", info, value),
    )
    text = f'{STREAM}Parameter 4 ("@b"): {INVALID.format(name)}'
    assert called(client, call) == [(8023, 1, 16, text)]


@pytest.mark.parametrize("value", NOT_FINITE)
def test_a_parameter_of_a_procedure(client, value):
    call = RpcCall("put", (RpcParameter("", INT, 1), RpcParameter("", FLOAT, value)))
    text = f'{STREAM}Parameter 2 (""): {INVALID.format("float")}'
    assert called(client, call) == [(8023, 1, 16, text)]


@pytest.mark.parametrize("value", NOT_FINITE)
@pytest.mark.parametrize(("token", "shape"), [(DataType.FLT8, "<d"), (DataType.FLT4, "<f")])
def test_a_variant(client, token, shape, value):
    packed = (bytes((token, 0)) + struct.pack(shape, value)).decode("latin-1")
    call = sent("INSERT t (s) VALUES (@a)", "@a sql_variant", RpcParameter("@a", VARIANT, packed))
    text = f'{STREAM}Parameter 3 ("@a"): {INVALID.format("sql_variant")}'
    assert called(client, call) == [(8023, 1, 16, text)]


@pytest.mark.parametrize("value", NOT_FINITE)
def test_a_table_valued_parameter(client, value):
    rows = ((1, 1.5), (2, value))
    table = TableValue(("", "dbo", "numbers"), (TableColumn(INT), TableColumn(FLOAT)), rows)
    call = RpcCall("put_all", (RpcParameter("@t", TABLE_TYPE, table),))
    text = f'{STREAM}Table-valued parameter 1 ("@t"), row 2, column 2: {INVALID.format("float")}'
    assert called(client, call) == [(8043, 1, 16, text)]


@pytest.mark.parametrize("value", NOT_FINITE)
def test_a_bulk_load(client, value):
    client.batch("INSERT BULK t ([v] float, [r] real)")
    columns = ColMetadata((Column("v", FLOAT), Column("r", REAL)))
    rows = b"".join(
        bytes((TokenType.ROW, 8)) + struct.pack("<d", 1.5) + b"\x04" + struct.pack("<f", r)
        for r in (2.5, value)
    )
    client.send(PacketType.BULK_LOAD, columns.encode() + rows + Done().encode())
    text = (
        "OLE DB provider 'STREAM' for linked server '(null)' returned invalid data for column"
        " '[!BulkInsert].r'."
    )
    assert errors_of(client.tokens()) == [(7339, 1, 16, text)]


@pytest.mark.parametrize("value", NOT_FINITE)
@pytest.mark.parametrize("fast", [False, True])
def test_through_the_driver(database, client, value, fast):
    connection = database.connect("finite")
    cursor = connection.cursor()
    cursor.fast_executemany = fast
    with pytest.raises(pyodbc.Error, match="not a valid instance of data type float") as raised:
        cursor.executemany("INSERT t (v) VALUES (?)", [(value,), (value,)])
    assert "(8023)" in raised.value.args[1]
    cursor.execute("INSERT t (v) VALUES (?); DELETE t", 1.5)
