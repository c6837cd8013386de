"""What a request's answer says beside its rows: who gave up, which place, which type, how bad."""

import struct

import pytest

from emulator.tests.wire.test_server import Client
from tailrace_emulator.wire.bulk_load import BulkLoad
from tailrace_emulator.wire.errors import RemoteProtocolError
from tailrace_emulator.wire.login7 import Login7
from tailrace_emulator.wire.packets import HEADER, PacketStatus, PacketType
from tailrace_emulator.wire.requests import (
    ParameterStatus,
    ProcedureId,
    RpcCall,
    RpcParameter,
    RpcRequest,
    SqlBatch,
    TransactionRequest,
    TransactionRequestType,
)
from tailrace_emulator.wire.table_values import TABLE_TYPE, TableColumn, TableValue
from tailrace_emulator.wire.token_reader import read_tokens
from tailrace_emulator.wire.tokens import (
    Done,
    DoneStatus,
    LoginAck,
    ReturnValue,
    Row,
    ServerMessage,
)
from tailrace_emulator.wire.types import DEFAULT_COLLATION_BYTES, PLP, DataType, TypeInfo

OUT = ParameterStatus.BY_REFERENCE
INT = TypeInfo(DataType.INTN, 4)
BIGINT = TypeInfo(DataType.INTN, 8)
INT_FIXED = TypeInfo(DataType.INT4, 4)
NVARCHAR = TypeInfo(DataType.NVARCHAR, 8000, collation=DEFAULT_COLLATION_BYTES)


def nvarchar(length):
    return TypeInfo(DataType.NVARCHAR, 2 * length, collation=DEFAULT_COLLATION_BYTES)


@pytest.fixture
def session(module_emulator):
    client = Client(module_emulator.port)
    client.log_in(Login7(user="sa", password=module_emulator.password))
    yield client
    client.socket.close()


def call(session, procedure, *parameters):
    session.send(PacketType.RPC, RpcRequest((RpcCall(procedure, parameters),)).encode())
    return session.tokens()


def outputs(tokens):
    """Ordinal, name, type token and value of each output parameter."""
    return [
        (t.ordinal, t.name, t.type.token, t.value) for t in tokens if isinstance(t, ReturnValue)
    ]


def numbers(tokens):
    return [t.number for t in tokens if isinstance(t, ServerMessage) and t.severity > 10]


def test_a_request_given_up_by_its_client_is_answered_with_one_done(session):
    payload = SqlBatch("SELECT 1").encode()
    first = HEADER.pack(PacketType.SQL_BATCH, 0, 8 + len(payload), 0, 1, 0) + payload
    status = PacketStatus.END_OF_MESSAGE | PacketStatus.IGNORE
    session.socket.sendall(first + HEADER.pack(PacketType.SQL_BATCH, status, 8, 0, 2, 0))
    assert session.tokens() == [Done(status=DoneStatus.ERROR)]
    session.socket.sendall(HEADER.pack(PacketType.RPC, status, 8, 0, 1, 0))
    assert session.tokens() == [Done(status=DoneStatus.ERROR)]
    assert Row((1,)) in session.batch("SELECT 1")


def test_a_login_given_up_is_no_login(module_emulator):
    client = Client(module_emulator.port)
    status = PacketStatus.END_OF_MESSAGE | PacketStatus.IGNORE
    client.socket.sendall(HEADER.pack(PacketType.PRELOGIN, status, 8, 0, 1, 0))
    tokens = client.log_in(Login7(user="sa", password=module_emulator.password))
    assert any(isinstance(token, LoginAck) for token in tokens)
    client.socket.close()


def test_every_packet_names_the_session(session):
    session.send(PacketType.SQL_BATCH, SqlBatch("SELECT @@SPID, REPLICATE('x', 8000)").encode())
    raw = b""
    while len(raw) < 8000:
        raw += session.socket.recv(65536)
    ids, payload = set(), b""
    while raw:
        _, _, length, spid, _, _ = HEADER.unpack_from(raw)
        ids.add(spid)
        payload, raw = payload + raw[8:length], raw[length:]
    (row,) = [t for t in read_tokens(payload) if isinstance(t, Row)]
    assert ids == {row.values[0]}


def test_outputs_of_a_text_have_their_place_among_all_parameters_and_the_sent_type(session):
    tokens = call(
        session,
        ProcedureId.EXECUTESQL,
        RpcParameter("", NVARCHAR, "SET @b = @a + 1; SET @c = N'longer'; SET @d = 7"),
        RpcParameter("", NVARCHAR, "@a int, @b int OUTPUT, @c nvarchar(20) OUTPUT, @d int OUTPUT"),
        RpcParameter("@a", INT, 1),
        RpcParameter("@b", BIGINT, None, OUT),
        RpcParameter("@c", nvarchar(4), None, OUT),
        RpcParameter("@d", NVARCHAR, None, OUT),
    )
    assert outputs(tokens) == [
        (3, "@b", DataType.INTN, 2),
        (4, "@c", DataType.NVARCHAR, "long"),
        (5, "@d", DataType.NVARCHAR, "7"),
    ]
    assert [t.type.length for t in tokens if isinstance(t, ReturnValue)] == [8, 8, 8000]


def test_outputs_sent_in_another_order_keep_their_places(session):
    tokens = call(
        session,
        ProcedureId.EXECUTESQL,
        RpcParameter("", NVARCHAR, "SELECT @a = 1, @b = 2"),
        RpcParameter("", NVARCHAR, "@a int OUTPUT, @b int OUTPUT"),
        RpcParameter("@b", INT, None, OUT),
        RpcParameter("@a", INT_FIXED, 0, OUT),
    )
    assert sorted(outputs(tokens)) == [
        (2, "@b", DataType.INTN, 2),
        (3, "@a", DataType.INTN, 1),
    ]


def test_outputs_of_a_prepared_text(session):
    tokens = call(
        session,
        ProcedureId.PREPEXEC,
        RpcParameter("", INT, None, OUT),
        RpcParameter("", NVARCHAR, "@a int, @b int OUTPUT"),
        RpcParameter("", NVARCHAR, "SET @b = @a"),
        RpcParameter("", INT, 5),
        RpcParameter("", INT, None, OUT),
    )
    handle, value = outputs(tokens) if outputs(tokens)[0][0] == 0 else outputs(tokens)[::-1]
    assert (handle[0], value[0], value[3]) == (0, 4, 5)
    tokens = call(
        session,
        ProcedureId.EXECUTE,
        RpcParameter("", INT, handle[3]),
        RpcParameter("", INT, 6),
        RpcParameter("", BIGINT, None, OUT),
    )
    assert [(o[0], o[3]) for o in outputs(tokens)] == [(2, 6)]


def test_outputs_of_procedures_by_position_and_name(session):
    session.batch("DROP PROCEDURE IF EXISTS outputs")
    session.batch(
        "CREATE PROCEDURE outputs @a int, @b int OUTPUT, @c decimal(10, 2) OUTPUT AS"
        " SELECT @b = @a + 1, @c = 2.5"
    )
    positional = call(
        session,
        "outputs",
        RpcParameter("", INT, 1),
        RpcParameter("", INT, None, OUT),
        RpcParameter("", TypeInfo(DataType.DECIMALN, 9, 18, 4), None, OUT),
    )
    assert [(o[0], o[3]) for o in outputs(positional)] == [(1, 2), (2, 25000)]
    second_only = call(
        session,
        "outputs",
        RpcParameter("", INT, 1),
        RpcParameter("", INT, None),
        RpcParameter("", TypeInfo(DataType.FLTN, 8), None, OUT),
    )
    assert outputs(second_only) == [(2, "@c", DataType.FLTN, 2.5)]
    named = call(
        session,
        "outputs",
        RpcParameter("@c", NVARCHAR, None, OUT),
        RpcParameter("@b", INT, None, OUT),
        RpcParameter("@a", INT, 1),
    )
    assert sorted(outputs(named)) == [
        (0, "@c", DataType.NVARCHAR, "2.50"),
        (1, "@b", DataType.INTN, 2),
    ]


def test_an_output_that_does_not_convert_is_an_error_of_the_call(session):
    tokens = call(
        session,
        ProcedureId.EXECUTESQL,
        RpcParameter("", NVARCHAR, "SET @a = N'x'; SET @b = 1"),
        RpcParameter("", NVARCHAR, "@a nvarchar(9) OUTPUT, @b int OUTPUT"),
        RpcParameter("@a", INT, None, OUT),
        RpcParameter("@b", INT, None, OUT),
    )
    assert numbers(tokens) == [245]
    assert outputs(tokens) == [(3, "@b", DataType.INTN, 1)]
    assert Row((1,)) in session.batch("SELECT 1")


def test_the_variables_of_exec_take_the_outputs_of_their_places(session):
    session.batch("DROP PROCEDURE IF EXISTS two_outputs")
    session.batch(
        "CREATE PROCEDURE two_outputs @a int OUTPUT, @b int OUTPUT AS SELECT @a = 1, @b = 2"
    )
    tokens = session.batch("DECLARE @x int = 0; EXEC two_outputs 5, @x OUTPUT; SELECT @x")
    assert Row((2,)) in tokens


@pytest.mark.parametrize(
    ("token", "declared", "name"),
    [
        (DataType.NTEXT, 2, "nvarchar(max)"),
        (DataType.TEXT, 1, "varchar(max)"),
        (DataType.NTEXT, 0, "ntext"),
    ],
)
def test_text_may_be_longer_than_its_client_declared(session, token, declared, name):
    info = struct.pack("<BI", token, declared) + DEFAULT_COLLATION_BYTES
    raw = "long text".encode("utf-16-le" if token is DataType.NTEXT else "ascii")
    head = RpcRequest(
        (
            RpcCall(
                ProcedureId.EXECUTESQL,
                (
                    RpcParameter("", NVARCHAR, "SELECT CAST(@a AS nvarchar(20))"),
                    RpcParameter("", NVARCHAR, f"@a {name}"),
                ),
            ),
        )
    ).encode()
    parameter = b"\x00\x00" + info + struct.pack("<I", len(raw)) + raw
    session.send(PacketType.RPC, head + parameter)
    assert Row(("long text",)) in session.tokens()


def test_an_image_may_be_longer_than_its_client_declared(session):
    head = RpcRequest(
        (
            RpcCall(
                ProcedureId.EXECUTESQL,
                (
                    RpcParameter("", NVARCHAR, "SELECT DATALENGTH(@a)"),
                    RpcParameter("", NVARCHAR, "@a varbinary(max)"),
                ),
            ),
        )
    ).encode()
    parameter = b"\x00\x00" + struct.pack("<BII", DataType.IMAGE, 1, 4) + b"abcd"
    session.send(PacketType.RPC, head + parameter)
    assert Row((4,)) in session.tokens()


NAME = "a".encode("utf-16-le")
COUNTED = b"\x01" + b"\x05\x00" + "[t].x".encode("utf-16-le")
TWO_PARTS = b"\x02" + b"\x01\x00" + NAME + b"\x03\x00" + "tab".encode("utf-16-le")
ONE_NAME = b"\x05\x00" + "[t].x".encode("utf-16-le")
LONG_NAME = b"\x02\x01" + ("n" * 258).encode("utf-16-le")


@pytest.mark.parametrize(
    "table", [COUNTED, TWO_PARTS, ONE_NAME, LONG_NAME, b"\x00\x00", b"\x00", b"\x01\x00" + NAME]
)
@pytest.mark.parametrize("rows", [0, 2])
def test_the_table_of_a_bulk_column_comes_with_or_without_a_count(table, rows):
    column = struct.pack("<IH", 0, 9) + struct.pack("<BI", DataType.NTEXT, 0x7FFFFFFE)
    column += DEFAULT_COLLATION_BYTES + table + b"\x01" + NAME
    number = struct.pack("<IHBB", 0, 9, DataType.INTN, 4) + b"\x01" + NAME
    text = "xy".encode("utf-16-le")
    value = b"\x10" + bytes(24) + struct.pack("<I", len(text)) + text
    row = b"\xd1" + value + struct.pack("<Bi", 4, 7)
    payload = b"\x81\x02\x00" + column + number + row * rows + Done().encode()
    load = BulkLoad.decode(payload)
    assert [info.token for info in load.columns] == [DataType.NTEXT, DataType.INTN]
    assert load.rows == (("xy", 7),) * rows


def test_what_is_no_table_name_is_no_bulk_load():
    column = struct.pack("<IH", 0, 9) + struct.pack("<BI", DataType.NTEXT, 0x7FFFFFFE)
    payload = b"\x81\x01\x00" + column + DEFAULT_COLLATION_BYTES + b"\x09" * 8
    with pytest.raises(RemoteProtocolError):
        BulkLoad.decode(payload)


def test_a_transaction_that_a_request_named_is_rolled_back_by_its_name(session):
    request = TransactionRequest(TransactionRequestType.BEGIN, name="work")
    session.send(PacketType.TRANSACTION_MANAGER, request.encode())
    session.tokens()
    assert numbers(session.batch("ROLLBACK TRANSACTION other")) == [6401]
    assert Row((1,)) in session.batch("SELECT @@TRANCOUNT")
    rollback = TransactionRequest(
        TransactionRequestType.ROLLBACK, name="Work", begin_again=True, next_name="after"
    )
    session.send(PacketType.TRANSACTION_MANAGER, rollback.encode())
    assert numbers(session.tokens()) == []
    assert numbers(session.batch("ROLLBACK TRANSACTION work")) == [6401]
    assert numbers(session.batch("ROLLBACK TRANSACTION after")) == []
    session.batch("BEGIN TRANSACTION named; COMMIT")
    session.send(
        PacketType.TRANSACTION_MANAGER, TransactionRequest(TransactionRequestType.BEGIN).encode()
    )
    session.tokens()
    assert numbers(session.batch("ROLLBACK TRANSACTION named")) == [6401]
    assert numbers(session.batch("ROLLBACK")) == []


def test_the_done_after_an_error_that_ends_the_connection_says_so(session):
    tokens = session.batch("RAISERROR('the end', 20, 1) WITH LOG")
    assert tokens[-1].status & DoneStatus.SERVER_ERROR
    assert not tokens[-1].status & DoneStatus.ERROR
    assert session.receive() is None


LOGIN = "CREATE LOGIN changing WITH PASSWORD = 'First-Word1', CHECK_EXPIRATION = ON"


def logged_in(module_emulator, password, change=None):
    """The errors of a login, and whether it got in."""
    client = Client(module_emulator.port)
    tokens = client.log_in(Login7(user="changing", password=password, change_password=change))
    client.socket.close()
    return numbers(tokens), any(isinstance(token, LoginAck) for token in tokens)


def test_a_login_may_change_its_password(session, module_emulator):
    session.batch("IF SUSER_ID('changing') IS NOT NULL DROP LOGIN changing")
    session.batch(LOGIN)
    assert logged_in(module_emulator, "wrong", "Second-Word2") == ([18456], False)
    assert logged_in(module_emulator, "First-Word1", "short") == ([18464], False)
    assert logged_in(module_emulator, "First-Word1", "longbutplain") == ([18466], False)
    assert logged_in(module_emulator, "First-Word1", "Second-Word2") == ([], True)
    assert logged_in(module_emulator, "First-Word1") == ([18456], False)
    assert logged_in(module_emulator, "Second-Word2") == ([], True)
    session.batch("ALTER LOGIN changing WITH PASSWORD = 'Third-Word3' MUST_CHANGE")
    assert logged_in(module_emulator, "Third-Word3") == ([18488], False)
    assert logged_in(module_emulator, "Third-Word3", "Fourth-Word4") == ([], True)
    assert logged_in(module_emulator, "Fourth-Word4") == ([], True)


def test_the_password_that_the_server_was_started_with_stays(module_emulator):
    client = Client(module_emulator.port)
    login = Login7(user="sa", password=module_emulator.password, change_password="Other-Word5")
    assert numbers(client.log_in(login)) == [50900, 18456]
    client.socket.close()


def test_temporary_procedures_end_with_their_session(session, module_emulator):
    def found():
        shown = session.batch("SELECT COUNT(*) FROM tempdb.sys.procedures WHERE name LIKE '%gone%'")
        return next(t.values[0] for t in shown if isinstance(t, Row))

    other = Client(module_emulator.port)
    other.log_in(Login7(user="sa", password=module_emulator.password))
    other.batch("CREATE PROCEDURE #gone AS SELECT 1")
    other.batch("CREATE PROCEDURE ##gone AS SELECT 2")
    assert found() == 2
    assert Row((2,)) in session.batch("EXEC ##gone")
    assert numbers(session.batch("EXEC #gone")) == [2812]
    other.batch("SELECT 1", PacketStatus.RESET_CONNECTION)
    assert found() == 0
    assert numbers(other.batch("EXEC #gone")) == [2812]
    other.batch("CREATE PROCEDURE #gone AS SELECT 1")
    other.socket.close()
    for _ in range(200):
        if not found():
            return
        session.batch("WAITFOR DELAY '00:00:00.050'")
    raise AssertionError("the procedure of an ended session is still there")


def test_a_call_resets_the_connection(session):
    session.batch("CREATE TABLE #t (id int); SET LOCK_TIMEOUT 5; USE tempdb; BEGIN TRANSACTION")
    tokens = call(session, "sp_reset_connection")
    assert numbers(tokens) == []
    shown = session.batch("SELECT @@LOCK_TIMEOUT, DB_NAME(), @@TRANCOUNT, OBJECT_ID('tempdb..#t')")
    assert Row((-1, "master", 0, None)) in shown
    calls = (RpcCall("[sys].[sp_reset_connection]"), RpcCall("sp_who"))
    session.send(PacketType.RPC, RpcRequest(calls).encode())
    assert numbers(session.tokens()) == []


def dones(tokens):
    """The statements' ends: kind and, where it counts, the count."""
    return [
        (t.kind.name, t.count if t.status & DoneStatus.COUNT else None)
        for t in tokens
        if isinstance(t, Done)
    ]


def test_print_select_assignments_and_cursor_statements_have_ends_of_their_own(session):
    statements = "DECLARE @x int; PRINT 'a'; SET @x = 1; SELECT @x = 2; SELECT @x"
    ended = dones(session.batch(statements))
    # python-tds' test_assigning_select: an assigning SELECT is an end with a count.
    assert ended == [("DONE", None), ("DONE", 1), ("DONE", 1)]
    cursor = (
        "DECLARE @x int; DECLARE c CURSOR FOR SELECT 1 AS a; OPEN c; FETCH NEXT FROM c INTO @x;"
        " CLOSE c; DEALLOCATE c"
    )
    assert dones(session.batch(cursor)) == [("DONE", None)] * 5
    assert dones(session.batch("SET NOCOUNT ON; " + cursor + "; PRINT 'b'; SET @x = 2")) == [
        ("DONE", None)
    ]
    session.batch("SET NOCOUNT OFF")
    text = (RpcParameter("", NVARCHAR, "DECLARE @x int; SET @x = 1; PRINT 'c'; SELECT @x"),)
    assert dones(call(session, ProcedureId.EXECUTESQL, *text)) == [
        ("DONE_IN_PROC", None),
        ("DONE_IN_PROC", 1),
        ("DONE_PROC", None),
    ]


def test_set_of_a_variable_ends_without_a_done(session):
    """tedious' parameterised-statements-test: no doneInProc, or one with a count of 1."""
    text = (RpcParameter("", NVARCHAR, "DECLARE @x int; SET @x = 1"),)
    assert dones(call(session, ProcedureId.EXECUTESQL, *text)) == [("DONE_PROC", None)]


def test_the_driver_reaches_rows_behind_assignments(module_emulator):
    connection = module_emulator.connect()
    sql = "DECLARE @x int; SET @x = 1; SELECT @x = @x + 1; SELECT @x AS x"
    assert [tuple(row) for row in connection.execute(sql)] == [(2,)]
    rows = connection.execute("DECLARE @n int; SET @n = 5; SELECT @n + ? AS x", 1).fetchall()
    assert [tuple(row) for row in rows] == [(6,)]


@pytest.mark.parametrize(("collation", "page"), [("Chinese_PRC_CI_AS", 936), ("Greek_CI_AS", 1253)])
def test_texts_of_a_table_without_a_collation_are_in_the_databases_code_page(
    session, collation, page
):
    """As tedious sends them (collation-test.ts)."""
    name, text = f"page_{page}", "中文" if page == 936 else "λόγος"
    session.batch(f"CREATE DATABASE {name} COLLATE {collation}")
    session.batch(f"USE {name}")
    session.batch("CREATE TYPE texts AS TABLE (v varchar(10), c varchar(max), n nvarchar(10))")
    session.batch(
        "CREATE PROCEDURE show_all @t texts READONLY AS SELECT CAST(v AS nvarchar(10)),"
        " CAST(c AS nvarchar(10)), n FROM @t"
    )
    sent = text.encode(f"cp{page}").decode("cp1252")
    columns = (
        TableColumn(TypeInfo(DataType.BIGVARCHAR, 10, collation=bytes(5))),
        TableColumn(TypeInfo(DataType.BIGVARCHAR, PLP, collation=bytes(5))),
        TableColumn(NVARCHAR),
    )
    table = TableValue(("", "dbo", "texts"), columns, ((sent, sent, "λ"), (None, "a", None)))
    tokens = call(session, "show_all", RpcParameter("", TABLE_TYPE, table))
    assert [t.text for t in tokens if isinstance(t, ServerMessage)] == []
    rows = [token.values for token in tokens if isinstance(token, Row)]
    assert rows == [(text, text, "λ"), (None, "a", None)]
