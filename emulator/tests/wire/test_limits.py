"""What one client may hold: connections, time before login, length of a request."""

import datetime
import socket

import pytest

from emulator.tests.fix_emulator import EmulatorProcess
from emulator.tests.wire.test_server import Client
from tailrace_emulator.serving.server import Limits
from tailrace_emulator.serving.tls import ensure_certificate
from tailrace_emulator.wire.login7 import Login7
from tailrace_emulator.wire.packets import PacketType
from tailrace_emulator.wire.requests import SqlBatch
from tailrace_emulator.wire.tokens import Row

LOGIN = Login7(user=EmulatorProcess.user, password=EmulatorProcess.password)


def test_a_client_that_does_not_log_in_is_sent_away(serve_in_process):
    client = Client(serve_in_process(Limits(login_timeout_s=0.2)).port)
    assert client.receive() is None
    client.socket.close()


def test_an_idle_client_is_sent_away(serve_in_process):
    client = Client(serve_in_process(Limits(idle_timeout_s=2.0)).port)
    client.log_in(LOGIN)
    assert Row((1,)) in client.batch("SELECT 1")
    assert client.receive() is None
    client.socket.close()


def test_one_connection_too_many_is_closed(serve_in_process):
    port = serve_in_process(Limits(connections_max=1)).port
    first = Client(port)
    first.log_in(LOGIN)
    second = Client(port)
    assert second.receive() is None
    second.socket.close()
    assert Row((1,)) in first.batch("SELECT 1")
    first.socket.close()


def test_a_request_beyond_the_limit_ends_its_connection(serve_in_process):
    client = Client(serve_in_process(Limits(message_bytes_max=10_000)).port)
    client.log_in(LOGIN)
    client.send(PacketType.SQL_BATCH, SqlBatch("SELECT 1 -- " + "x" * 10_000).encode())
    assert client.receive() is None
    client.socket.close()


def test_a_stopped_server_accepts_nobody(serve_in_process):
    server = serve_in_process()
    client = Client(server.port)
    client.log_in(LOGIN)
    port = server.port
    server.stop()
    assert client.receive() is None
    client.socket.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_the_certificate_is_made_once(tmp_path):
    now = datetime.datetime.now(datetime.UTC)
    first = [path.read_bytes() for path in ensure_certificate(tmp_path, now)]
    again = [path.read_bytes() for path in ensure_certificate(tmp_path, now)]
    assert first == again
    assert (tmp_path / "private_key.pem").stat().st_mode & 0o077 == 0
