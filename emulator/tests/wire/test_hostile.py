"""Hostile clients: cut, changed and garbled conversations, guessed passwords, slow logins.

Whatever comes, the server stays up, answers the next client, keeps no thread and no memory of it,
and logs no defect of its own.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyodbc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emulator.tests.fix_emulator import EmulatorProcess, in_process_server
from emulator.tests.wire.test_server import Client
from tailrace_emulator.__main__ import main
from tailrace_emulator.security.authentication import Authenticator, LoginRefusedError
from tailrace_emulator.security.passwords import hash_password, is_password, is_strong
from tailrace_emulator.security.throttle import NAMES_MAX, LoginThrottle
from tailrace_emulator.serving.server import Limits, Server
from tailrace_emulator.storage.engine import Engine
from tailrace_emulator.values.clock import SystemClock
from tailrace_emulator.wire.connection import ServerConnection
from tailrace_emulator.wire.login7 import Login7
from tailrace_emulator.wire.packets import HEADER, PacketStatus, PacketType, frame
from tailrace_emulator.wire.prelogin import Encryption, Prelogin
from tailrace_emulator.wire.requests import (
    ProcedureId,
    RpcCall,
    RpcParameter,
    RpcRequest,
    SqlBatch,
    TransactionRequest,
    TransactionRequestType,
)
from tailrace_emulator.wire.tokens import Row
from tailrace_emulator.wire.types import DEFAULT_COLLATION_BYTES, DataType, TypeInfo

LOGIN = Login7(user=EmulatorProcess.user, password=EmulatorProcess.password)
NVARCHAR = TypeInfo(DataType.NVARCHAR, 8000, collation=DEFAULT_COLLATION_BYTES)
WAIT_S = 20

PRELOGIN = frame(PacketType.PRELOGIN, Prelogin(encryption=Encryption.NOT_SUPPORTED).encode())
LOGIN_MESSAGE = frame(PacketType.LOGIN7, LOGIN.encode())
ATTENTION = frame(PacketType.ATTENTION, b"")
CALL = RpcCall(
    ProcedureId.EXECUTESQL,
    (
        RpcParameter("", NVARCHAR, "SELECT @a"),
        RpcParameter("", NVARCHAR, "@a nvarchar(10)"),
        RpcParameter("@a", NVARCHAR, "x"),
    ),
)
REQUESTS = [
    frame(PacketType.SQL_BATCH, SqlBatch("SELECT name FROM sys.databases WHERE 1 = 1").encode()),
    frame(PacketType.RPC, RpcRequest((CALL, CALL)).encode()),
    frame(
        PacketType.TRANSACTION_MANAGER, TransactionRequest(TransactionRequestType.BEGIN).encode()
    ),
    ATTENTION,
]
CONVERSATION = PRELOGIN + LOGIN_MESSAGE + b"".join(REQUESTS)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server whose limits end a silent client at once."""
    limits = Limits(login_timeout_s=5.0, idle_timeout_s=5.0)
    with in_process_server(tmp_path_factory.mktemp("hostile"), limits) as made:
        yield made


@pytest.fixture(autouse=True)
def no_defect(caplog):
    """Nothing that a client sends is a defect of the server."""
    with caplog.at_level(logging.ERROR, "emulator"):
        yield
    assert not caplog.records, caplog.text


def converse(port: int, data: bytes) -> bytes:
    """Send all of it, say that there is no more, and read until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as sock:
        answer = b""
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while part := sock.recv(65536):
                answer += part
        except ConnectionError:
            pass  # the server closed before it had read everything
        return answer


def wait_until(reached: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    pause = threading.Event()
    while not reached():
        assert time.monotonic() < deadline, what
        pause.wait(0.01)


def session_threads() -> int:
    return sum(thread.name.startswith("session ") for thread in threading.enumerate())


def is_alive(server: Server) -> bool:
    client = Client(server.port)
    client.log_in(LOGIN)
    try:
        return Row((1,)) in client.batch("SELECT 1")
    finally:
        client.socket.close()


def test_a_conversation_cut_at_every_byte(server):
    for end in range(0, len(CONVERSATION), 3):
        converse(server.port, CONVERSATION[:end])
    assert is_alive(server)
    wait_until(lambda: session_threads() == 0, "threads of gone clients are left")


@st.composite
def mutated(draw):
    """The conversation with bytes changed, removed, inserted, or whole messages in disorder."""
    if draw(st.booleans()):
        pieces = draw(st.lists(st.sampled_from([PRELOGIN, LOGIN_MESSAGE, *REQUESTS]), max_size=6))
        return PRELOGIN + LOGIN_MESSAGE + b"".join(pieces)
    data = bytearray(CONVERSATION)
    first = draw(st.sampled_from([0, len(PRELOGIN), len(PRELOGIN + LOGIN_MESSAGE)]))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(first, len(data)))
        match draw(st.integers(0, 2)):
            case 0:
                data[at : at + 1] = bytes((draw(st.integers(0, 255)),))
            case 1:
                del data[at : at + draw(st.integers(1, 8))]
            case _:
                data[at:at] = draw(st.binary(min_size=1, max_size=8))
    return bytes(data)


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(raw=mutated())
def test_a_conversation_with_changed_bytes(server, raw):
    converse(server.port, raw)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    garbage=st.binary(min_size=1, max_size=300),
    begin=st.sampled_from(
        [
            b"",
            b"\x16\x03\x01\x00\x40\x01",
            frame(PacketType.PRELOGIN, Prelogin(encryption=Encryption.ON).encode()),
        ]
    ),
    framed=st.booleans(),
)
def test_tls_garbage(server, begin, garbage, framed):
    converse(server.port, begin + (frame(PacketType.PRELOGIN, garbage) if framed else garbage))


def strict_connection(port: int) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["tds/8.0"])
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=WAIT_S))


@pytest.mark.parametrize("inside", [True, False], ids=["inside TLS", "instead of TLS"])
def test_garbage_behind_the_handshake(server, inside):
    connection = strict_connection(server.port)
    connection.sendall(PRELOGIN)
    assert connection.recv(4096)
    garbage = b"\x99" * 500
    if inside:
        connection.sendall(garbage)
    else:
        os.write(connection.fileno(), garbage)
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while connection.recv(4096):
            pass
    connection.close()


def test_the_server_is_well_after_all_that(server):
    assert is_alive(server)
    wait_until(lambda: session_threads() == 0, "threads of gone clients are left")


def memory_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", status)
    assert found is not None
    return int(found[1])


def test_no_memory_is_kept_of_hostile_clients(module_emulator):
    assert module_emulator.process is not None
    pid = module_emulator.process.pid
    huge = HEADER.pack(PacketType.SQL_BATCH, PacketStatus.NORMAL, 8, 0, 0, 0) * 50_000
    broken = PRELOGIN + LOGIN_MESSAGE + REQUESTS[0][:-5]

    def round_of_clients() -> None:
        for _ in range(100):
            converse(module_emulator.port, broken)
        converse(module_emulator.port, PRELOGIN + LOGIN_MESSAGE + huge)

    round_of_clients()
    before = memory_kib(pid)
    round_of_clients()
    round_of_clients()
    assert memory_kib(pid) - before < 10_000
    module_emulator.connect().close()


# Time and numbers ---------------------------------------------------------------------------------


def test_a_login_of_one_byte_at_a_time_has_its_time(serve_in_process):
    server = serve_in_process(Limits(login_timeout_s=0.4))
    sock = socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S)
    began = time.monotonic()
    closed = False
    pause = threading.Event()
    for byte in PRELOGIN + LOGIN_MESSAGE:
        try:
            sock.sendall(bytes((byte,)))
            sock.settimeout(0.05)
            closed = not sock.recv(1024)
        except TimeoutError:
            pass
        except ConnectionError:
            closed = True
        if closed:
            break
        pause.wait(0.01)
    assert closed
    assert time.monotonic() - began < 5
    sock.close()


def test_whoever_only_connects_leaves_room(serve_in_process):
    server = serve_in_process(Limits(pending_logins_max=2))
    logged_in = Client(server.port)
    logged_in.log_in(LOGIN)
    silent = [Client(server.port) for _ in range(2)]
    third = Client(server.port)
    assert third.receive() is None
    for client in (*silent, third):
        client.socket.close()
    wait_until(lambda: session_threads() == 1, "closed connections still wait for their login")
    assert is_alive(server)
    logged_in.socket.close()


def test_whoever_has_the_answer_to_its_login_waits_for_none(serve_in_process, monkeypatch):
    server = serve_in_process(Limits(pending_logins_max=1))
    logged_in, goes_on = ServerConnection.logged_in, threading.Event()

    def answered_but_not_yet_ready(connection):
        goes_on.wait(WAIT_S)
        logged_in(connection)

    monkeypatch.setattr(ServerConnection, "logged_in", answered_but_not_yet_ready)
    first, second = Client(server.port), None
    try:
        first.log_in(LOGIN)
        second = Client(server.port)
        second.log_in(LOGIN)  # not refused: nobody but itself is about to log in
    finally:
        goes_on.set()
        for client in filter(None, (first, second)):
            client.socket.close()


def test_the_server_has_no_default_password(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("TAILRACE_EMULATOR_PASSWORD", raising=False)
    empty = tmp_path / "password"
    empty.write_text("", encoding="utf-8")
    code = main(["--data-dir", str(tmp_path / "data"), "--password-file", str(empty)])
    assert code == 2
    assert "password" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


# Passwords ----------------------------------------------------------------------------------------


def test_passwords_are_hashed_with_a_salt_each():
    first, second = hash_password("Secret-1"), hash_password("Secret-1")
    assert first != second
    assert "Secret-1" not in first
    assert is_password(first, "Secret-1")
    assert not is_password(first, "Secret-2")
    assert is_password(hash_password("\ud800"), "\ud800")


@pytest.mark.parametrize(
    ("password", "strong"),
    [("Abcdefg1", True), ("abcdefg1", False), ("abcdefg1!", True), ("Ab1!", False),
     ("xAliceX1!", False)],
)  # fmt: skip
def test_what_the_policy_asks(password, strong):
    assert is_strong("alice", password) is strong


def test_failures_are_answered_later_and_later_up_to_a_bound():
    throttle = LoginThrottle(delay_s=0.1, delay_max_s=1.0)
    assert [throttle.failed("A") for _ in range(5)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0])
    assert throttle.failed("b") == pytest.approx(0.1)
    throttle.succeeded("a")
    assert throttle.failed("a") == pytest.approx(0.1)
    for number in range(2 * NAMES_MAX):
        throttle.failed(f"name {number}")
    assert throttle.failed("b") == pytest.approx(0.1)


def test_an_unknown_name_is_refused_as_a_wrong_password_is(server):
    with_login = Client(server.port)
    with_login.log_in(LOGIN)
    with_login.batch("CREATE LOGIN known WITH PASSWORD = N'Hard-4-to-guess'")
    answers = []
    for name, password in (("known", "wrong"), ("unknown", "wrong"), ("sa", "wrong"), ("", "")):
        client = Client(server.port)
        error = client.log_in(Login7(user=name, password=password))[0]
        answers.append((error.number, error.state, error.severity, error.text.replace(name, "?")))
        assert client.receive() is None
        client.socket.close()
    assert answers[0] == answers[1] == answers[2]
    assert answers[0][:3] == (18456, 1, 14)
    with_login.batch("DROP LOGIN known")
    with_login.socket.close()


def test_impersonation_ends_with_its_call_and_with_a_reset(server):
    client = Client(server.port)
    client.log_in(LOGIN)
    client.batch("CREATE LOGIN puppet WITH PASSWORD = N'Hard-6-to-guess'")
    text = RpcParameter("", NVARCHAR, "EXECUTE AS LOGIN = @a; SELECT SUSER_SNAME()")
    asking = RpcParameter("", NVARCHAR, "SELECT SUSER_SNAME()")
    name = RpcParameter("@a", NVARCHAR, "puppet")
    call = RpcCall(
        ProcedureId.EXECUTESQL, (text, CALL.parameters[1], RpcParameter("@a", NVARCHAR, "puppet"))
    )
    client.send(PacketType.RPC, RpcRequest((call,)).encode())
    assert Row(("puppet",)) in client.tokens()
    assert Row(("sa",)) in client.batch("SELECT SUSER_SNAME()")
    assert Row(("puppet",)) in client.batch("EXECUTE AS LOGIN = N'puppet'; SELECT SUSER_SNAME()")
    call = RpcCall(ProcedureId.EXECUTESQL, (asking, CALL.parameters[1], name))
    client.send(PacketType.RPC, RpcRequest((call,)).encode())
    assert Row(("puppet",)) in client.tokens()
    assert Row(("puppet",)) in client.batch("SELECT SUSER_SNAME()")
    assert Row(("sa",)) in client.batch("SELECT SUSER_SNAME()", PacketStatus.RESET_CONNECTION)
    client.batch("DROP LOGIN puppet")
    client.socket.close()


def test_a_disabled_and_a_changed_login(server):
    admin = Client(server.port)
    admin.log_in(LOGIN)
    admin.batch("CREATE LOGIN worker WITH PASSWORD = N'Hard-1-to-guess'")

    def number(password: str) -> int | None:
        client = Client(server.port)
        tokens = client.log_in(Login7(user="Worker", password=password))
        client.socket.close()
        return next((t.number for t in tokens if getattr(t, "severity", 0) > 10), None)

    assert number("Hard-1-to-guess") is None
    admin.batch("ALTER LOGIN worker WITH PASSWORD = N'Hard-2-to-guess'")
    assert number("Hard-1-to-guess") == 18456
    assert number("Hard-2-to-guess") is None
    admin.batch("ALTER LOGIN worker DISABLE")
    assert number("Hard-2-to-guess") == 18470
    assert number("Hard-1-to-guess") == 18456
    admin.batch("ALTER LOGIN worker ENABLE; DENY CONNECT SQL TO worker")
    assert number("Hard-2-to-guess") == 18456
    admin.socket.close()


def test_logins_and_permissions_survive_a_restart(emulator):
    admin = emulator.connect()
    admin.execute("CREATE DATABASE shop")
    admin.execute("USE shop")
    admin.execute("CREATE TABLE dbo.t (id int)")
    admin.execute("CREATE LOGIN clerk WITH PASSWORD = N'Hard-3-to-guess', DEFAULT_DATABASE = shop")
    admin.execute("CREATE USER clerk FOR LOGIN clerk")
    admin.execute("CREATE ROLE readers; ALTER ROLE readers ADD MEMBER clerk")
    admin.execute("GRANT SELECT ON dbo.t TO readers")
    admin.execute("BEGIN TRANSACTION; GRANT INSERT ON dbo.t TO readers; ROLLBACK")
    admin.close()
    emulator.kill()
    emulator.start()

    clerk = emulator.connect("shop", UID="clerk", PWD="Hard-3-to-guess")
    assert clerk.execute("SELECT id FROM dbo.t").fetchall() == []
    with pytest.raises(pyodbc.Error, match="INSERT permission was denied"):
        clerk.execute("INSERT INTO dbo.t VALUES (1)")
    clerk.close()
    assert "Hard-3-to-guess" not in emulator.log()
    for file in emulator.data_dir.rglob("server.db*"):
        raw = file.read_bytes()
        assert b"Hard-3-to-guess" not in raw
        assert "Hard-3-to-guess".encode("utf-16-le") not in raw


def test_no_password_is_logged(tmp_path, caplog):
    with (
        caplog.at_level(logging.DEBUG, "tailrace_emulator"),
        in_process_server(tmp_path, None) as made,
    ):
        client = Client(made.port)
        client.log_in(Login7(user="sa", password="Wrong-secret-1"))
        client.socket.close()
        client = Client(made.port)
        client.log_in(LOGIN)
        client.batch("CREATE LOGIN other WITH PASSWORD = N'Hard-5-to-guess'")
        client.batch("CREATE LOGIN other WITH PASSWORD = 'Hard-5-to-guess' nonsense")
        client.socket.close()
    for secret in ("Wrong-secret-1", "Hard-5-to-guess", EmulatorProcess.password):
        assert secret not in caplog.text
    assert "18456" in caplog.text
    assert "Wrong-secret-1" not in repr(Login7(user="sa", password="Wrong-secret-1"))


def test_the_authenticator_keeps_no_password(tmp_path):
    engine = Engine(tmp_path, SystemClock())
    try:
        authenticator = Authenticator(engine, "sa", "Start-password-1")
        assert authenticator.authenticate("SA", "Start-password-1").name == "sa"
        with pytest.raises(LoginRefusedError):
            authenticator.authenticate("sa", "Start-password-2")
        raw = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert b"Start-password-1" not in raw
    finally:
        engine.close()
