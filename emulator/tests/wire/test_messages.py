"""Every message as a row of (bytes, object), encoded, decoded, and received byte by byte."""

import pytest

from tailrace_emulator.wire.bulk_load import BulkLoad
from tailrace_emulator.wire.connection import (
    NEED_DATA,
    Received,
    ServerConnection,
    State,
    TlsHandshake,
)
from tailrace_emulator.wire.errors import (
    LocalProtocolError,
    RemoteProtocolError,
    UnsupportedTypeError,
)
from tailrace_emulator.wire.login7 import Login7, scramble_password, unscramble_password
from tailrace_emulator.wire.packets import PacketStatus, PacketType, frame
from tailrace_emulator.wire.prelogin import Encryption, Prelogin, choose_encryption
from tailrace_emulator.wire.requests import (
    AllHeaders,
    Attention,
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
from tailrace_emulator.wire.types import DEFAULT_COLLATION_BYTES, PLP, DataType, TypeInfo

HEADERS = "16000000 12000000 0200 0807060504030201 01000000"
IN_TRANSACTION = AllHeaders(0x0102030405060708)
INT = TypeInfo(DataType.INTN, 4)
BIGINT = TypeInfo(DataType.INTN, 8)
NVARCHAR = TypeInfo(DataType.NVARCHAR, 8, collation=DEFAULT_COLLATION_BYTES)

PRELOGIN = (
    "00 0010 0006 01 0016 0001 04 0017 0001 ff 10 00 1027 0000 01 00",
    Prelogin((16, 0, 4135, 0), Encryption.ON),
)
LOGIN = Login7(
    packet_bytes=8000,
    client_pid=77,
    host="host",
    user="sa",
    password="pässword",
    application="app",
    server="server",
    library="ODBC",
    language="us_english",
    database="dömain",
    read_only_intent=True,
    features={1: b"", 10: b"\x01"},
)
REQUESTS = [
    (
        PacketType.SQL_BATCH,
        HEADERS + "53004500",
        SqlBatch("SE", IN_TRANSACTION),
    ),
    (
        PacketType.TRANSACTION_MANAGER,
        HEADERS + "0500 02 00",
        TransactionRequest(TransactionRequestType.BEGIN, isolation=2, headers=IN_TRANSACTION),
    ),
    (
        PacketType.TRANSACTION_MANAGER,
        HEADERS + "0700 00 00",
        TransactionRequest(TransactionRequestType.COMMIT, headers=IN_TRANSACTION),
    ),
    (
        PacketType.TRANSACTION_MANAGER,
        HEADERS + "0800 04 61006200 01 05 00",
        TransactionRequest(
            TransactionRequestType.ROLLBACK,
            name="ab",
            isolation=5,
            begin_again=True,
            headers=IN_TRANSACTION,
        ),
    ),
    (
        PacketType.TRANSACTION_MANAGER,
        HEADERS + "0900 02 7300",
        TransactionRequest(TransactionRequestType.SAVE, name="s", headers=IN_TRANSACTION),
    ),
    (
        PacketType.RPC,
        HEADERS + "0300 730070003100 0000 00 00 26 04 04 07000000",
        RpcRequest((RpcCall("sp1", (RpcParameter("", INT, 7),)),), IN_TRANSACTION),
    ),
    (
        PacketType.RPC,
        HEADERS
        + "ffff 0c00 0200 00 00 26 04 04 01000000 02 40006100 01 e7 0800 0904d00034 0200 7800"
        + "ff ffff 0f00 0000 00 00 26 04 00",
        RpcRequest(
            (
                RpcCall(
                    ProcedureId.EXECUTE,
                    (
                        RpcParameter("", INT, 1),
                        RpcParameter("@a", NVARCHAR, "x", ParameterStatus.BY_REFERENCE),
                    ),
                    flags=2,
                ),
                RpcCall(ProcedureId.UNPREPARE, (RpcParameter("", INT, None),)),
            ),
            IN_TRANSACTION,
        ),
    ),
    (
        PacketType.RPC,  # a table of two columns, one left to its default, and one row
        HEADERS
        + "0100 7000 0000 00 00 f3 00 01 7300 01 7400 0200"
        + "00000000 0000 26 04 00 00000000 0002 26 08 00 00 01 04 05000000 01 00 00",
        RpcRequest(
            (
                RpcCall(
                    "p",
                    (
                        RpcParameter(
                            "",
                            TABLE_TYPE,
                            TableValue(
                                ("", "s", "t"),
                                (TableColumn(INT), TableColumn(BIGINT, is_default=True)),
                                ((5, None), (None, None)),
                            ),
                        ),
                    ),
                ),
            ),
            IN_TRANSACTION,
        ),
    ),
    (
        PacketType.RPC,  # no table: the parameter's default
        HEADERS + "0100 7000 0000 00 02 f3 00 00 01 7400 ffff 00 00",
        RpcRequest(
            (RpcCall("p", (RpcParameter("", TABLE_TYPE, TableValue(("", "", "t")), 2),)),),
            IN_TRANSACTION,
        ),
    ),
    (PacketType.ATTENTION, "", Attention()),
]


def logged_in() -> ServerConnection:
    connection = ServerConnection()
    connection.receive_data(frame(PacketType.PRELOGIN, Prelogin().encode()))
    connection.next_message()
    connection.receive_data(frame(PacketType.LOGIN7, Login7().encode()))
    connection.next_message()
    connection.logged_in()
    return connection


def receive_byte_by_byte(connection: ServerConnection, raw: bytes) -> object:
    for at in range(len(raw) - 1):
        connection.receive_data(raw[at : at + 1])
        assert connection.next_message() is NEED_DATA
    connection.receive_data(raw[-1:])
    return connection.next_message()


@pytest.mark.parametrize(
    "value",
    [
        "0000",  # no columns
        "ffff 01 00",  # rows without columns
        "0100 00000000 0000 26 04 00 02",  # neither row nor end
        "0100 00000000 0000 26 04 00 07",  # what is no token
        "0100 00000000 0000 26 04 00 10 0200 010001 020001 00 00",  # an order of more columns
        "0100 00000000 0000 f3 000000 ffff 00 00 00 00 00",  # a table inside of a table
        "ff7f 00000000 0000 26 04 00",  # columns that do not come
    ],
)
def test_bad_tables(value: str):
    head = HEADERS + "0100 7000 0000 00 00 f3 00 00 01 7400"
    with pytest.raises(RemoteProtocolError):
        RpcRequest.decode(bytes.fromhex(head + value))


def test_prelogin_both_ways():
    raw, message = PRELOGIN
    assert message.encode() == bytes.fromhex(raw)
    assert Prelogin.decode(bytes.fromhex(raw)) == message
    framed = frame(PacketType.PRELOGIN, bytes.fromhex(raw), 512)
    assert receive_byte_by_byte(ServerConnection(), framed) == message


@pytest.mark.parametrize(
    ("client", "answer"),
    [(0, 2), (1, 1), (2, 2), (3, 1), (None, 2)],
)
def test_encryption_choice(client, answer):
    assert choose_encryption(client) == answer


@pytest.mark.parametrize(
    "raw", ["", "00", "00001000", "ff", "00 0006 0006 ff", "00 0006 0002 ff 1000"]
)
def test_bad_prelogin(raw):
    with pytest.raises(RemoteProtocolError):
        Prelogin.decode(bytes.fromhex(raw))


def test_password_scrambling_is_the_documented_one():
    # 'a' = 61 00: nibbles swapped 16 00, XOR A5 -> B3 A5
    assert scramble_password("a") == bytes.fromhex("b3a5")
    assert unscramble_password(bytes.fromhex("b3a5")) == "a"


def test_login_both_ways():
    assert Login7.decode(LOGIN.encode()) == LOGIN
    connection = ServerConnection()
    connection.receive_data(frame(PacketType.PRELOGIN, Prelogin().encode()))
    connection.next_message()
    framed = frame(PacketType.LOGIN7, LOGIN.encode(), 512)
    assert receive_byte_by_byte(connection, framed) == LOGIN


def test_login_does_not_show_its_password():
    assert "pässword" not in repr(LOGIN)


@pytest.mark.parametrize("length", [0, 35, 93, 120])
def test_cut_login(length):
    with pytest.raises(RemoteProtocolError):
        Login7.decode(LOGIN.encode()[:length])


@pytest.mark.parametrize(("kind", "raw", "message"), REQUESTS)
def test_request_both_ways(kind, raw, message):
    payload = bytes.fromhex(raw)
    assert message.encode() == payload
    connection = logged_in()
    framed = frame(kind, payload, 512, status=PacketStatus.RESET_CONNECTION)
    reset = kind is not PacketType.ATTENTION
    assert receive_byte_by_byte(connection, framed) == Received(message, reset)
    assert connection.state is State.EXECUTING


@pytest.mark.parametrize(("kind", "raw", "message"), REQUESTS)
def test_every_cut_of_a_request_is_refused_or_another_request(kind, raw, message):
    payload = bytes.fromhex(raw)
    for length in range(len(payload)):
        connection = logged_in()
        connection.receive_data(frame(kind, payload[:length]))
        try:
            received = connection.next_message()
        except RemoteProtocolError:
            continue
        assert received != Received(message)


def test_rpc_may_end_with_a_separator():
    request = RpcRequest((RpcCall(ProcedureId.EXECUTE),))
    assert RpcRequest.decode(request.encode() + b"\xff") == request


def test_a_parameter_of_a_clr_type_says_only_its_name():
    info = TypeInfo(DataType.UDT, PLP, type_name=("", "sys", "hierarchyid"))
    request = RpcRequest((RpcCall("p", (RpcParameter("@h", info, b"\x58"),)),))
    assert RpcRequest.decode(request.encode()) == request


def test_unsupported_parameter_type_leaves_the_connection_usable():
    payload = bytes.fromhex("81 0100 00000000 0000 f3 00000000 00")
    connection = logged_in()
    connection.receive_data(frame(PacketType.BULK_LOAD, payload))
    with pytest.raises(UnsupportedTypeError, match="TVP"):
        connection.next_message()
    connection.response_finished()
    connection.receive_data(frame(PacketType.SQL_BATCH, SqlBatch("x").encode()))
    assert connection.next_message() == Received(SqlBatch("x"))


def test_tls_handshake_inside_prelogin():
    connection = ServerConnection()
    connection.receive_data(frame(PacketType.PRELOGIN, Prelogin(encryption=1).encode()))
    connection.next_message()
    connection.begin_tls()
    connection.receive_data(frame(PacketType.PRELOGIN, b"hello") + b"\x17\x03\x03encrypted")
    assert connection.next_message() == TlsHandshake(b"hello")
    assert connection.tls_established() == b"\x17\x03\x03encrypted"
    connection.receive_data(frame(PacketType.LOGIN7, LOGIN.encode()))
    assert connection.next_message() == LOGIN


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (PacketType.LOGIN7, State.INITIAL),
        (PacketType.SQL_BATCH, State.LOGIN),
        (PacketType.PRELOGIN, State.READY),
        (PacketType.SQL_BATCH, State.EXECUTING),
        (PacketType.RPC, State.EXECUTING),
    ],
)
def test_a_message_in_the_wrong_state(kind, state):
    connection = ServerConnection()
    connection.state = state
    connection.receive_data(frame(kind, b""))
    with pytest.raises(RemoteProtocolError, match=state.name):
        connection.next_message()


def test_attention_while_executing():
    connection = logged_in()
    connection.receive_data(frame(PacketType.SQL_BATCH, SqlBatch("x").encode()))
    connection.next_message()
    connection.receive_data(frame(PacketType.ATTENTION, b""))
    assert connection.next_message() == Received(Attention())
    connection.response_finished()
    assert connection.state is State.READY


@pytest.mark.parametrize("step", ["begin_tls", "tls_established", "logged_in", "response_finished"])
def test_our_own_steps_in_the_wrong_state(step):
    with pytest.raises(LocalProtocolError):
        getattr(ServerConnection(), step)()


BULK = (
    "81 0200"
    "00000000 0900 26 04 0169 00"
    "00000000 0900 23 64000000 0904d00034 01 0100 7400 0174 00"
    "d1 04 07000000 10" + "00" * 24 + "02000000 6162"
    "d2 01 00"
    "d2 02 04 08000000"
    "fd 0000 0000 0000000000000000"
)


def test_bulk_load():
    load = BulkLoad.decode(bytes.fromhex(BULK))
    assert [info.token for info in load.columns] == [DataType.INTN, DataType.TEXT]
    assert load.rows == ((7, "ab"), (None, None), (8, None))
    assert BulkLoad.decode(b"") == BulkLoad((), ())


@pytest.mark.parametrize("cut", range(1, len(bytes.fromhex(BULK)) - 13))
def test_a_cut_bulk_load_is_refused(cut):
    whole = bytes.fromhex(BULK)
    try:
        load = BulkLoad.decode(whole[:cut])
    except RemoteProtocolError:
        return
    assert load.rows != BulkLoad.decode(whole).rows


def test_a_bulk_load_begins_with_its_columns():
    with pytest.raises(RemoteProtocolError):
        BulkLoad.decode(bytes.fromhex("d1 00"))
