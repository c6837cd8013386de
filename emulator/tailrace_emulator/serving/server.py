"""The listener and its connections: the only place where sockets are opened.

One thread accepts, one thread per connection runs its requests, one thread watches the sockets of
busy connections for attentions (transport.py).
"""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.server_views import SERVER_NAME
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.security.authentication import LoginRefusedError
from tailrace_emulator.serving.responses import ColumnSets, ConnectionClosedError, Response
from tailrace_emulator.serving.session import Session
from tailrace_emulator.serving.tls import TLS_FIRST_BYTE, TlsContexts
from tailrace_emulator.serving.transport import InterruptionWatcher, Transport
from tailrace_emulator.values.collations import collation
from tailrace_emulator.values.turns import turns
from tailrace_emulator.wire.connection import Received
from tailrace_emulator.wire.errors import ProtocolError, RemoteProtocolError, UnsupportedTypeError
from tailrace_emulator.wire.login7 import TDS_74, TDS_80, FeatureId, Login7
from tailrace_emulator.wire.packets import PACKET_BYTES_DEFAULT, PACKET_BYTES_MAX, PACKET_BYTES_MIN
from tailrace_emulator.wire.prelogin import Encryption, Prelogin, PreloginOption, choose_encryption
from tailrace_emulator.wire.requests import Attention, GivenUp
from tailrace_emulator.wire.tokens import (
    Done,
    DoneStatus,
    EnvChange,
    EnvChangeType,
    FeatureExtAck,
    LoginAck,
    ServerMessage,
    collation_change,
)

PROGRAM_NAME: Final = "Tailrace embedded SQL Server"
"""Program name of LOGINACK: what a client may show its user as the product."""

RECURSION_MAX: Final = 5000
"""Python calls within each other: some 500 parentheses; beyond, errors 191 and 8631."""

STACK_BYTES: Final = 64 * 1024 * 1024
"""Of each thread; address space, of which only what is used becomes memory."""

FIRST_SESSION_ID: Final = 51
"""User sessions begin here, as in SQL Server."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of what clients may hold.

    Attributes:
        connections_max: more are refused by closing them.
        pending_logins_max: connections that have not logged in; more are refused by closing them,
            so that clients that only connect leave room for others.
        login_timeout_s: from connect to the end of login.
        idle_timeout_s: without a request, or without reading an answer.
        message_bytes_max: longest request; 65,536 packets of 4 KiB, as in SQL Server.
        stop_timeout_s: how long ``stop`` waits for each connection's thread.
    """

    connections_max: int = 1000
    pending_logins_max: int = 500
    login_timeout_s: float = 30.0
    idle_timeout_s: float = 24 * 3600.0
    message_bytes_max: int = 1 << 28
    stop_timeout_s: float = 5.0


OpenSession = Callable[[Login7, int, threading.Event], Session]
"""Makes a session of a login, a session id and the connection's interruption; may refuse it."""


class Server:
    """Serves TDS on one address.

    Args:
        open_session: checks a login and makes its session.
        tls: contexts for encrypted connections.
        host: address to listen on; loopback unless somebody decides otherwise.
        port: 0 takes a free one.
        limits: bounds of what clients may hold.
        server_name: shown in texts of messages.
    """

    def __init__(
        self,
        open_session: OpenSession,
        tls: TlsContexts,
        host: str = "127.0.0.1",
        port: int = 0,
        limits: Limits | None = None,
        server_name: str = SERVER_NAME,
    ) -> None:
        self.open_session = open_session
        self.tls = tls
        self.limits = limits or Limits()
        self.server_name = server_name
        self.watcher = InterruptionWatcher()
        self._listener = socket.create_server((host, port), backlog=128)
        self._clients: dict[int, _Client] = {}
        self._lock = threading.Lock()
        self._stopping = False
        self._accepting = threading.Thread(target=self._accept, name="accept", daemon=True)

    @property
    def port(self) -> int:
        """The port on which it listens."""
        port: int = self._listener.getsockname()[1]
        return port

    def start(self) -> None:
        """Begin to serve.

        Deep statements need deep recursion, for the whole process: threads that start from now on
        have the stack for it.
        """
        sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_MAX))
        threading.stack_size(STACK_BYTES)
        self.watcher.start()
        self._accepting.start()

    def stop(self) -> None:
        """Close everything; statements that run are interrupted and undone. Once is enough."""
        with self._lock:
            if self._stopping:
                return
            self._stopping = True
            clients = list(self._clients.values())
        # Wakes accept; not every system can shut a listener down, closing it is enough there.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for client in clients:
            client.transport.close()
        for client in clients:
            client.join(self.limits.stop_timeout_s)
        self._accepting.join(self.limits.stop_timeout_s)
        self.watcher.stop()

    def forget(self, session_id: int) -> None:
        """A connection ended."""
        with self._lock:
            self._clients.pop(session_id, None)

    def _is_full(self) -> bool:
        """Whether one more connection would be too many; under the lock."""
        pending = sum(not client.is_logged_in for client in self._clients.values())
        limits = self.limits
        return len(self._clients) >= limits.connections_max or pending >= limits.pending_logins_max

    def _accept(self) -> None:
        while True:
            try:
                sock, address = self._listener.accept()
            except OSError:
                return  # stop() closed the listener
            with self._lock:
                if self._stopping or self._is_full():
                    _log.warning("connection from %s refused: too many", address)
                    sock.close()
                    continue
                session_id = FIRST_SESSION_ID
                while session_id in self._clients:
                    session_id += 1
                client = _Client(self, sock, session_id)
                self._clients[session_id] = client
            client.start()


class _Client(threading.Thread):
    """One connection from its first byte to its last."""

    def __init__(self, server: Server, sock: socket.socket, session_id: int) -> None:
        super().__init__(name=f"session {session_id}", daemon=True)
        self._server = server
        self._session_id = session_id
        self._column_sets = ColumnSets()
        self._strict = False
        self.is_logged_in = False
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.transport = Transport(sock, server.limits.message_bytes_max)
        self.transport.spid = session_id

    def run(self) -> None:
        session: Session | None = None
        try:
            self.transport.deadline = time.monotonic() + self._server.limits.login_timeout_s
            session = self._log_in()
            self.transport.deadline = None
            if session is not None:
                self.transport.set_timeout(self._server.limits.idle_timeout_s)
                self._serve(session)
        except ConnectionClosedError as error:
            _log.debug("session %d: %s", self._session_id, error)
        except ProtocolError as error:
            _log.warning("session %d broke the protocol: %s", self._session_id, error)
        except Exception:  # noqa: BLE001 -- a thread's last line of defence, with its traceback
            _log.exception("session %d ended by a defect of the server", self._session_id)
        finally:
            self._end(session)

    def _end(self, session: Session | None) -> None:
        self.transport.close()
        try:
            if session is not None:
                session.close()
        except Exception:  # noqa: BLE001 -- the connection is gone either way
            _log.exception("session %d could not be closed", self._session_id)
        finally:
            turns.give()
            self._server.forget(self._session_id)

    # -- login

    def _log_in(self) -> Session | None:
        transport = self.transport
        if transport.peek_first_byte() == TLS_FIRST_BYTE:
            self._strict = True
            transport.start_strict_tls(self._server.tls)
        prelogin = transport.receive()
        if not isinstance(prelogin, Prelogin):
            raise RemoteProtocolError("the first message is not PRELOGIN")
        encryption = choose_encryption(prelogin.encryption)
        if self._strict:
            encryption = Encryption(min(prelogin.encryption or 0, Encryption.REQUIRED))
        transport.send_message(_prelogin_answer(prelogin, encryption).encode())
        if encryption is Encryption.ON and not self._strict:
            transport.start_tls_inside_prelogin(self._server.tls)
        login = transport.receive()
        if not isinstance(login, Login7):
            raise RemoteProtocolError("no LOGIN7 after PRELOGIN")
        try:
            session = self._server.open_session(login, self._session_id, transport.interrupted)
        except LoginRefusedError as refusal:
            _log.info("login refused: %s", refusal)
            self._refuse(refusal.errors)
            return None
        except SqlError as error:
            self._refuse((error,))
            return None
        # Before the answer: who has it may connect again at once, and must not be in its own way.
        self.is_logged_in = True
        transport.interrupt_statement = session.interrupt
        session.can_be_killed(transport.kill)
        asked = login.packet_bytes or PACKET_BYTES_DEFAULT
        packet_bytes = min(max(asked, PACKET_BYTES_MIN), PACKET_BYTES_MAX)
        transport.send_message(self._login_answer(login, session, packet_bytes))
        transport.packet_bytes = packet_bytes
        transport.protocol.logged_in()
        return session

    def _refuse(self, errors: tuple[SqlError, ...]) -> None:
        tokens = [self._message(e.number, e.state, e.severity, e.message) for e in errors]
        tokens.append(Done(status=DoneStatus.ERROR).encode())
        self.transport.send_message(b"".join(tokens))

    def _login_answer(self, login: Login7, session: Session, packet_bytes: int) -> bytes:
        database = session.context.database.name
        text = collation(session.context.database.collation).wire
        language = session.context.options.language
        tokens = [
            EnvChange(EnvChangeType.DATABASE, database, "master").encode(),
            self._message(5701, 2, 0, messages.text(5701, database)),
            collation_change(text).encode(),
            EnvChange(EnvChangeType.LANGUAGE, language, "").encode(),
            self._message(5703, 1, 0, messages.text(5703, language)),
            LoginAck(PROGRAM_NAME, tds_version=TDS_80 if self._strict else TDS_74).encode(),
            EnvChange(EnvChangeType.PACKET_SIZE, str(packet_bytes), str(packet_bytes)).encode(),
        ]
        if FeatureId.UTF8_SUPPORT in login.features:
            tokens.append(FeatureExtAck(((FeatureId.UTF8_SUPPORT, b"\x01"),)).encode())
        tokens.append(Done().encode())
        return b"".join(tokens)

    def _message(self, number: int, state: int, severity: int, text: str) -> bytes:
        name = self._server.server_name
        return ServerMessage(number, state, severity, text, name, line=1).encode()

    # -- requests

    def _serve(self, session: Session) -> None:
        transport = self.transport
        while not transport.closed:
            try:
                received = transport.receive()
            except UnsupportedTypeError as error:
                self._answer_error(not_supported(f"parameters of type {error.type_name}"))
                continue
            if not isinstance(received, Received):
                raise RemoteProtocolError(f"{type(received).__name__} after login")
            if isinstance(received.request, Attention):
                # It came when the answer was already out.
                transport.finish_request()
                transport.send_message(Done(status=DoneStatus.ATTENTION).encode())
            elif isinstance(received.request, GivenUp):
                transport.finish_request()
                transport.send_message(Done(status=DoneStatus.ERROR).encode())
            elif not self._execute(session, received):
                return

    def _execute(self, session: Session, received: Received) -> bool:
        transport = self.transport
        writer = transport.message_writer()

        def send(data: bytes) -> None:
            if transport.closed:
                raise ConnectionClosedError("closed during a request")
            packets = writer.write(data)
            if packets:
                turns.give()  # the client may read slowly
                transport.send(packets)

        response = Response(send, self._column_sets, self._server.server_name)
        transport.begin_request()
        self._server.watcher.begin(transport)
        try:
            may_go_on = session.execute(received.request, response, reset=received.reset)
        finally:
            self._server.watcher.end(transport)
            attention = transport.finish_request()
        # Only now: once the last packet is out, the client's next request may come at any moment.
        transport.send(writer.finish())
        turns.give()
        if attention:
            # The interrupted answer ended as a message of its own; JDBC waits for ever otherwise.
            transport.send_message(Done(status=DoneStatus.ATTENTION).encode())
        return may_go_on and not transport.killed

    def _answer_error(self, error: SqlError) -> None:
        transport = self.transport
        transport.finish_request()
        tokens = self._message(error.number, error.state, error.severity, error.message)
        transport.send_message(tokens + Done(status=DoneStatus.ERROR).encode())


def _prelogin_answer(client: Prelogin, encryption: Encryption) -> Prelogin:
    """Our PRELOGIN: no MARS; an instance name is always right; federated login is echoed only."""
    others = {int(PreloginOption.INSTANCE): b"\0", int(PreloginOption.THREAD_ID): b""}
    federated = int(PreloginOption.FEDERATED_AUTHENTICATION_REQUIRED)
    if federated in client.others:
        others[federated] = b"\0"
    return Prelogin(encryption=encryption, others=others)
