"""The server over bare sockets: what no well-behaved driver would send, and attentions' timing."""

import socket
import ssl

import pytest

from tailrace_emulator.wire.login7 import Login7
from tailrace_emulator.wire.packets import (
    HEADER,
    Message,
    MessageReader,
    PacketStatus,
    PacketType,
    frame,
)
from tailrace_emulator.wire.prelogin import Encryption, Prelogin
from tailrace_emulator.wire.requests import (
    AllHeaders,
    RpcRequest,
    SqlBatch,
    TransactionRequest,
    TransactionRequestType,
)
from tailrace_emulator.wire.token_reader import read_tokens
from tailrace_emulator.wire.tokens import (
    ColMetadata,
    Column,
    Command,
    Done,
    DoneStatus,
    EnvChange,
    EnvChangeType,
    FeatureExtAck,
    LoginAck,
    Row,
    ServerMessage,
    TokenType,
)
from tailrace_emulator.wire.types import DataType, TypeInfo

TIMEOUT_S = 20


class Client:
    """A TDS client of a few lines."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self.reader = MessageReader()

    def send(self, kind, payload=b"", status=PacketStatus.NORMAL):
        self.socket.sendall(frame(kind, payload, status=status))

    def receive(self) -> Message | None:
        """The next message; None when the server closed the connection."""
        while (message := self.reader.next_message()) is None:
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self.reader.receive_data(data)
        return message

    def tokens(self):
        return list(read_tokens(self.receive().payload))

    def log_in(self, login):
        self.send(PacketType.PRELOGIN, Prelogin(encryption=Encryption.NOT_SUPPORTED).encode())
        Prelogin.decode(self.receive().payload)
        self.send(PacketType.LOGIN7, login.encode())
        return self.tokens()

    def batch(self, sql, status=PacketStatus.NORMAL):
        self.send(PacketType.SQL_BATCH, SqlBatch(sql).encode(), status)
        return self.tokens()


@pytest.fixture
def client(module_emulator):
    client = Client(module_emulator.port)
    yield client
    client.socket.close()


@pytest.fixture
def session(client, module_emulator):
    client.log_in(Login7(user="sa", password=module_emulator.password))
    return client


def kinds(tokens):
    return [type(token) for token in tokens]


def test_login_tokens(client, module_emulator):
    tokens = client.log_in(
        Login7(
            user="SA", password=module_emulator.password, packet_bytes=8000, features={10: b"\1"}
        )
    )
    assert kinds(tokens) == [
        EnvChange,
        ServerMessage,
        EnvChange,
        EnvChange,
        ServerMessage,
        LoginAck,
        EnvChange,
        FeatureExtAck,
        Done,
    ]
    assert tokens[0] == EnvChange(EnvChangeType.DATABASE, "master", "master")
    assert tokens[5].program == "Tailrace embedded SQL Server"
    assert tokens[6].new == "8000"


def test_the_odbc_flag_of_a_login_decides_its_first_options(client, module_emulator):
    client.log_in(Login7(user="sa", password=module_emulator.password, is_odbc=False))
    shown = "SELECT @@OPTIONS, @@TEXTSIZE"
    assert Row((0, 4096)) in client.batch(shown)
    client.batch("SET ANSI_DEFAULTS, CONCAT_NULL_YIELDS_NULL ON; SET TEXTSIZE -1; SET DATEFIRST 3")
    assert Row((5432 | 2 | 4, -1)) in client.batch(shown)
    again = "SELECT @@OPTIONS, @@TEXTSIZE, @@DATEFIRST"
    assert Row((0, 4096, 7)) in client.batch(again, PacketStatus.RESET_CONNECTION)


def test_a_reset_brings_back_the_options_of_the_login(session):
    changed = (
        "SET ANSI_WARNINGS, ANSI_NULLS, QUOTED_IDENTIFIER OFF; SET XACT_ABORT ON; SET ROWCOUNT 1;"
        " SET DEADLOCK_PRIORITY 5; SET LOCK_TIMEOUT 7; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"
    )
    session.batch(changed)
    shown = (
        "SELECT @@OPTIONS, @@LOCK_TIMEOUT, deadlock_priority, transaction_isolation_level,"
        " row_count FROM sys.dm_exec_sessions WHERE session_id = @@SPID"
    )
    assert Row((5432 - 8 - 32 - 256 + 16384, 7, 5, 4, 0)) in session.batch(shown)
    assert Row((5432, -1, 0, 2, 0)) in session.batch(shown, PacketStatus.RESET_CONNECTION)


def test_refused_login_tokens(client):
    error, done = client.log_in(Login7(user="sa", password="no"))
    assert (error.number, error.state, error.severity) == (18456, 1, 14)
    assert done == Done(status=DoneStatus.ERROR)
    assert client.receive() is None


def test_unknown_database_tokens(client, module_emulator):
    tokens = client.log_in(Login7(user="sa", password=module_emulator.password, database="no"))
    assert [token.number for token in tokens[:-1]] == [4060, 18456]


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        bytes(100),
        frame(PacketType.LOGIN7, b""),
        frame(PacketType.PRELOGIN, b"\x00\x01"),
        b"\x16\x03\x01\x00\x05hello",
        frame(PacketType.PRELOGIN, Prelogin(encryption=1).encode())
        + frame(PacketType.PRELOGIN, b"no TLS"),
    ],
)
def test_garbage_ends_its_connection_only(client, session, raw):
    other = Client(session.socket.getpeername()[1])
    other.socket.sendall(raw)
    while other.receive() is not None:
        pass
    other.socket.close()
    assert Row((1,)) in session.batch("SELECT 1")


def test_tls_inside_prelogin_stops_at_1_2(client):
    client.send(PacketType.PRELOGIN, Prelogin(encryption=Encryption.ON).encode())
    assert Prelogin.decode(client.receive().payload).encryption == Encryption.ON
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing)
    done = False
    while not done:
        try:
            tls.do_handshake()
            done = True
        except ssl.SSLWantReadError:
            client.send(PacketType.PRELOGIN, outgoing.read())
            incoming.write(client.receive().payload)
    assert tls.version() == "TLSv1.2"


def test_attention_during_a_request_is_acknowledged_in_a_message_of_its_own(session):
    session.send(PacketType.SQL_BATCH, SqlBatch("WAITFOR DELAY '00:01:00'").encode())
    session.send(PacketType.ATTENTION)
    assert isinstance(session.tokens()[-1], Done)
    assert session.tokens() == [Done(status=DoneStatus.ATTENTION)]
    assert Row((1,)) in session.batch("SELECT 1")


def test_attention_after_the_answer_gets_one_done(session):
    session.batch("SELECT 1")
    session.send(PacketType.ATTENTION)
    assert session.tokens() == [Done(status=DoneStatus.ATTENTION)]
    assert Row((1,)) in session.batch("SELECT 1")


def test_attention_stops_a_long_result(session):
    sql = (
        "WITH n AS (SELECT 1 AS v UNION ALL SELECT v + 1 FROM n WHERE v < 1000000)"
        " SELECT v FROM n OPTION (MAXRECURSION 0)"
    )
    session.send(PacketType.SQL_BATCH, SqlBatch(sql).encode())
    session.send(PacketType.ATTENTION)
    rows = sum(isinstance(token, Row) for token in session.tokens())
    assert rows < 1_000_000
    assert session.tokens() == [Done(status=DoneStatus.ATTENTION)]


def test_attention_stops_a_bulk_load(session, module_emulator):
    """It may come while the rows are stored, which is not within any one query."""
    session.batch("CREATE TABLE tempdb.dbo.loaded (id int)")
    session.batch("INSERT BULK tempdb.dbo.loaded ([id] int)")
    columns = ColMetadata((Column("id", TypeInfo(DataType.INTN, 4)),)).encode()
    rows = (bytes((TokenType.ROW, 4)) + n.to_bytes(4, "little") for n in range(100_000))
    session.send(PacketType.BULK_LOAD, columns + b"".join(rows) + Done().encode())
    session.send(PacketType.ATTENTION)
    assert not any(isinstance(t, Done) and t.status & DoneStatus.COUNT for t in session.tokens())
    assert session.tokens() == [Done(status=DoneStatus.ATTENTION)]
    assert Row((0,)) in session.batch("SELECT COUNT(*) FROM tempdb.dbo.loaded WITH (NOLOCK)")
    session.batch("DROP TABLE tempdb.dbo.loaded")


def test_a_client_that_goes_away_in_mid_request_leaves_no_locks(session, module_emulator):
    session.batch("CREATE TABLE tempdb.dbo.left_open (id int)")
    session.batch("BEGIN TRAN; INSERT INTO tempdb.dbo.left_open VALUES (1)")
    session.send(PacketType.SQL_BATCH, SqlBatch("WAITFOR DELAY '00:01:00'").encode())
    session.socket.close()
    other = module_emulator.connect("tempdb")
    other.execute("SET LOCK_TIMEOUT 10000")
    other.execute("DROP TABLE dbo.left_open")


def test_transaction_manager_requests(session):
    session.send(
        PacketType.TRANSACTION_MANAGER, TransactionRequest(TransactionRequestType.BEGIN).encode()
    )
    change, done = session.tokens()
    assert change.kind is EnvChangeType.BEGIN_TRANSACTION
    descriptor = int.from_bytes(change.new, "little")
    assert descriptor
    assert done == Done()
    headers = AllHeaders(descriptor)
    session.send(
        PacketType.TRANSACTION_MANAGER,
        TransactionRequest(
            TransactionRequestType.ROLLBACK, begin_again=True, headers=headers
        ).encode(),
    )
    rolled_back, began, _ = session.tokens()
    assert rolled_back.kind is EnvChangeType.ROLLBACK_TRANSACTION
    assert rolled_back.old == change.new
    assert began.kind is EnvChangeType.BEGIN_TRANSACTION
    assert began.new != change.new
    session.send(
        PacketType.TRANSACTION_MANAGER, TransactionRequest(TransactionRequestType.COMMIT).encode()
    )
    committed, _ = session.tokens()
    assert committed.kind is EnvChangeType.COMMIT_TRANSACTION
    assert committed.old == began.new


def test_commit_without_a_transaction_is_error_3902(session):
    session.send(
        PacketType.TRANSACTION_MANAGER, TransactionRequest(TransactionRequestType.COMMIT).encode()
    )
    error, done = session.tokens()
    assert error.number == 3902
    assert done == Done(status=DoneStatus.ERROR)


def test_reset_connection(session):
    session.batch("USE tempdb; BEGIN TRAN")
    tokens = session.batch("SELECT DB_NAME(), @@TRANCOUNT", PacketStatus.RESET_CONNECTION)
    assert EnvChange(EnvChangeType.RESET_ACKNOWLEDGED) in tokens
    assert Row(("master", 0)) in tokens


def test_a_clr_value_where_a_statement_is_expected_is_an_error_and_not_the_end(session):
    name = "".join(f"{len(part):02x}" + part.encode("utf-16le").hex() for part in ("", "", "dot"))
    call = bytes.fromhex(f"ffff 0a00 0000 00 00 f0 {name} {'ff' * 8}")
    session.send(PacketType.RPC, AllHeaders().encode() + call)
    error, done = session.tokens()
    assert error.number == 214
    assert "@statement" in error.text
    assert done.status == DoneStatus.ERROR
    assert Row((1,)) in session.batch("SELECT 1")


def test_positioned_changes_are_refused_by_name(session):
    session.send(PacketType.RPC, RpcRequest.encode(_positioned_change()))
    error = session.tokens()[0]
    assert error.number == 50900
    assert "cursor" in error.text


def _positioned_change():
    from tailrace_emulator.wire.requests import ProcedureId, RpcCall

    return RpcRequest((RpcCall(ProcedureId.CURSOR),))


def test_bad_password_file(tmp_path):
    from tailrace_emulator.__main__ import main

    password_file = tmp_path / "password"
    password_file.write_text("short")
    arguments = ["--data-dir", str(tmp_path / "data"), "--password-file", str(password_file)]
    assert main(arguments) == 2
    assert main([*arguments[:3], str(tmp_path / "missing")]) == 2


@pytest.mark.parametrize(
    ("sql", "counted"),
    [
        ("DECLARE @v int; SELECT @v = 1; SELECT 'x'", [(Command.SELECT, 1), (Command.SELECT, 1)]),
        ("DECLARE @v int; SELECT @v = 1 WHERE 1 = 0", [(Command.SELECT, 0)]),
        ("DECLARE @v int; SET @v = 1; PRINT 'x'", []),
        ("SET NOCOUNT ON; DECLARE @v int; SELECT @v = 1; SET NOCOUNT OFF", []),
    ],
)
def test_an_assigning_select_counts_its_rows(session, sql, counted):
    """MS-TDS, DONE: the row count is valid where DONE_COUNT is set."""
    done = [token for token in session.batch(sql) if isinstance(token, Done)]
    assert [(d.command, d.count) for d in done if d.status & DoneStatus.COUNT] == counted


def test_packets_name_their_session(session):
    """MS-TDS, packet header: SPID is the process id of the session on the server."""
    session.send(PacketType.SQL_BATCH, SqlBatch("SELECT @@SPID").encode())
    raw = session.socket.recv(65536)
    session.reader.receive_data(raw)
    (row,) = [token for token in session.tokens() if isinstance(token, Row)]
    assert HEADER.unpack_from(raw)[3] == row.values[0]
