"""A value longer than its type says is refused by the server's message; the connection goes on."""

import struct

import pytest

from emulator.tests.wire.test_server import Client
from tailrace_emulator.wire.login7 import Login7
from tailrace_emulator.wire.packets import PacketType
from tailrace_emulator.wire.requests import AllHeaders, ProcedureId
from tailrace_emulator.wire.table_values import TableColumn, TableValue
from tailrace_emulator.wire.tokens import ColMetadata, Column, Done, Row, ServerMessage, TokenType
from tailrace_emulator.wire.types import DEFAULT_COLLATION_BYTES, DataType, TypeInfo
from tailrace_emulator.wire.types.registry import encode_type_info

STREAM = (
    "The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is"
    " incorrect. "
)
LENGTH = "Data type 0x{:02X} has an invalid data length or metadata length."
TEXT = DEFAULT_COLLATION_BYTES


@pytest.fixture(scope="module")
def database(module_emulator):
    connection = module_emulator.connect()
    connection.execute("CREATE DATABASE lengths")
    connection.execute("USE lengths")
    connection.execute("CREATE TABLE t (id int IDENTITY, v nvarchar(4000), b varbinary(100))")
    connection.execute("CREATE TYPE texts AS TABLE (n int, v nvarchar(4000))")
    connection.execute(
        "CREATE PROCEDURE put_all @t texts READONLY AS INSERT t (v) SELECT v FROM @t"
    )
    return module_emulator


@pytest.fixture
def client(database):
    made = Client(database.port)
    made.log_in(Login7(user="sa", password=database.password, database="lengths"))
    yield made
    assert Row((0,)) in made.batch("SELECT COUNT(*) FROM t")  # on the same connection
    made.socket.close()


def parameter(name, info, value):
    """A parameter as a careless client sends it: nothing is checked."""
    raw = name.encode("utf-16-le")
    return bytes((len(name),)) + raw + b"\0" + encode_type_info(info) + value


def nvarchar(text, declared=8000):
    raw = text.encode("utf-16-le")
    info = TypeInfo(DataType.NVARCHAR, declared, collation=TEXT)
    return info, struct.pack("<H", len(raw)) + raw


def called(client, head, *parameters):
    client.send(PacketType.RPC, AllHeaders().encode() + head + bytes(2) + b"".join(parameters))
    return errors_of(client.tokens())


def executed(client, sql, declared, *parameters):
    head = struct.pack("<HH", 0xFFFF, ProcedureId.EXECUTESQL)
    texts = (parameter("", *nvarchar(sql)), parameter("", *nvarchar(declared)))
    return called(client, head, *texts, *parameters)


def errors_of(tokens):
    return [
        (t.number, t.severity, t.text)
        for t in tokens
        if isinstance(t, ServerMessage) and t.severity > 10
    ]


@pytest.mark.parametrize(
    ("info", "value"),
    [
        nvarchar("more than ten bytes", declared=10),
        nvarchar("declared with more than 8000", declared=8002),
        (TypeInfo(DataType.NCHAR, 4, collation=TEXT), b"\x06\0" + b"a\0" * 3),
        (TypeInfo(DataType.BIGVARCHAR, 2, collation=TEXT), b"\x03\0abc"),
        (TypeInfo(DataType.BIGCHAR, 2, collation=TEXT), b"\x03\0abc"),
        (TypeInfo(DataType.BIGVARBINARY, 2), b"\x03\0abc"),
        (TypeInfo(DataType.BIGBINARY, 2), b"\x03\0abc"),
        (TypeInfo(DataType.INTN, 4), b"\x03abc"),
        (TypeInfo(DataType.FLTN, 8), b"\x03abc"),
        (TypeInfo(DataType.DATETIME2N, 8, scale=7), b"\x03abc"),
        (TypeInfo(DataType.GUID, 16), b"\x03abc"),
    ],
)
def test_a_parameter(client, info, value):
    given = parameter("@b", info, value), parameter("@c", TypeInfo(DataType.INTN, 4), b"\x04abcd")
    found = executed(client, "INSERT t (v) VALUES (@b)", "@b nvarchar(4000), @c int", *given)
    assert found == [(8016, 16, f'{STREAM}Parameter 3 ("@b"): {LENGTH.format(info.token)}')]


def test_the_calls_before_it_have_run(client):
    head = struct.pack("<HH", 0xFFFF, ProcedureId.EXECUTESQL) + bytes(2)
    good = head + parameter("", *nvarchar("SELECT 7"))
    bad = head + parameter("", *nvarchar("SELECT 8", declared=4))
    client.send(PacketType.RPC, AllHeaders().encode() + b"\xff".join((good, bad)))
    tokens = client.tokens()
    assert [number for number, *_ in errors_of(tokens)] == [8016]
    assert [token for token in tokens if isinstance(token, Row)] == [Row((7,))]


def test_a_table_valued_parameter(client):
    info, value = nvarchar("abcdef", declared=4)
    table = TableValue(
        ("", "dbo", "texts"),
        (TableColumn(TypeInfo(DataType.INTN, 4)), TableColumn(info)),
        ((1, "ab"), (2, "cd")),
    ).encode()
    short = struct.pack("<H", 4) + "cd".encode("utf-16-le")
    assert table.count(short) == 1
    head = struct.pack("<H", 7) + "put_all".encode("utf-16-le")
    found = called(client, head, b"\0\0" + table.replace(short, value))
    text = f'{STREAM}Table-valued parameter 1 (""), row 2, column 2: {LENGTH.format(0xE7)}'
    assert found == [(8037, 16, text)]


def test_a_bulk_load(client):
    info, value = nvarchar("abcdef", declared=4)
    binary = TypeInfo(DataType.BIGVARBINARY, 100)
    client.batch("INSERT BULK t ([b] varbinary(100), [v] nvarchar(2))")
    columns = ColMetadata((Column("b", binary), Column("v", info))).encode()
    row = bytes((TokenType.ROW,)) + b"\x01\0x" + value
    client.send(PacketType.BULK_LOAD, columns + row + row + Done().encode())
    text = "Received an invalid column length from the bcp client for colid 2."
    assert errors_of(client.tokens()) == [(4815, 16, text)]
