"""One connection's bytes: socket, TLS and protocol together, and the watch for attentions.

While a request is executed nobody reads the socket, so a single watcher thread of the server waits
on the sockets of all busy connections. What it reads can only be an attention or the end of the
connection; both set the connection's ``interrupted`` event. A lock keeps the two threads apart:
it covers TLS and protocol state, never a blocking send.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable

from tailrace_emulator.serving.responses import ConnectionClosedError
from tailrace_emulator.serving.tls import TlsChannel, TlsContexts
from tailrace_emulator.values.turns import turns
from tailrace_emulator.wire.connection import NEED_DATA, NeedData, ServerConnection, ServerEvent
from tailrace_emulator.wire.errors import RemoteProtocolError
from tailrace_emulator.wire.packets import PACKET_BYTES_DEFAULT, MessageWriter, PacketType, frame

_RECEIVE_BYTES = 256 * 1024
_TICK_S = 0.02
"""How often running requests are looked at: an attention waits at most twice as long."""
KILL_GRACE_S = 2.0
"""How long the answer of a killed request may take to go out, seconds."""
_log = logging.getLogger(__name__)


class Transport:
    """Reads messages from and writes messages to one client.

    Attributes:
        packet_bytes: size of a packet, as negotiated.
        spid: session id, in every packet that is sent.
        interrupted: set by an attention or by the client's going away.
        closed: whether the client went away.
        killed: whether another session ended this one.
        interrupt_statement: called at an interruption, from another thread than the request's.
        deadline: until when (time.monotonic()) the client may continue sending, however slowly;
            None after its login.
    """

    def __init__(self, sock: socket.socket, message_bytes_max: int) -> None:
        self.socket = sock
        self.protocol = ServerConnection(message_bytes_max)
        self.packet_bytes = PACKET_BYTES_DEFAULT
        self.spid = 0
        self.interrupted = threading.Event()
        self.closed = False
        self.killed = False
        self.interrupt_statement: Callable[[], None] | None = None
        self.deadline: float | None = None
        self._tls: TlsChannel | None = None
        self._lock = threading.Lock()
        self._attention = False
        self._executing = False

    def receive(self) -> ServerEvent:
        """The next message; waits for it as long as the socket's timeout allows.

        Raises:
            ConnectionClosedError: the client is gone or was silent for too long.
            RemoteProtocolError: it does not speak TDS.
        """
        with self._lock:
            message = self.protocol.next_message()
        while isinstance(message, NeedData):
            turns.give()
            data = self._receive_bytes()
            turns.take()
            with self._lock:
                self._feed(data)
                message = self.protocol.next_message()
        return message

    def send(self, data: bytes) -> None:
        """Send packets, through TLS when it is up.

        Raises:
            ConnectionClosedError: the client is gone or did not read for too long.
        """
        if self._tls is not None:
            with self._lock:
                data = self._tls.encrypt(data)
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise ConnectionClosedError(str(error)) from error

    def message_writer(self) -> MessageWriter:
        """Begins an answer."""
        return MessageWriter(PacketType.TABULAR_RESULT, self.packet_bytes, self.spid)

    def send_message(self, payload: bytes, kind: PacketType = PacketType.TABULAR_RESULT) -> None:
        """Send a whole message."""
        self.send(frame(kind, payload, self.packet_bytes, self.spid))

    # -- TLS

    def peek_first_byte(self) -> int:
        """The first byte that the client sends, without taking it."""
        self._limit_wait()
        try:
            first = self.socket.recv(1, socket.MSG_PEEK)
        except OSError as error:
            raise ConnectionClosedError(str(error)) from error
        if not first:
            raise ConnectionClosedError("closed before the first byte")
        return first[0]

    def start_strict_tls(self, contexts: TlsContexts) -> None:
        """TDS 8: TLS from the first byte."""
        channel = TlsChannel(contexts.strict)
        done = False
        while not done:
            flight, done = self._handshake_step(channel, self._receive_bytes())
            if flight:
                self.send(flight)
        self._tls = channel
        with self._lock:
            self._feed(b"")  # the last flight may have been followed by PRELOGIN

    def start_tls_inside_prelogin(self, contexts: TlsContexts) -> None:
        """TDS 7: the handshake travels inside PRELOGIN packets, afterwards TLS is outermost.

        Raises:
            ConnectionClosedError: no agreement was reached.
        """
        channel = TlsChannel(contexts.inside_prelogin)
        self.protocol.begin_tls()
        done = False
        while not done:
            message = self.receive()
            data = getattr(message, "data", b"")
            flight, done = self._handshake_step(channel, data)
            if flight:
                self.send_message(flight, PacketType.PRELOGIN)
        with self._lock:
            rest = self.protocol.tls_established()
            self._tls = channel
            self._feed(rest)

    @staticmethod
    def _handshake_step(channel: TlsChannel, data: bytes) -> tuple[bytes, bool]:
        try:
            return channel.handshake(data)
        except ssl.SSLError as error:
            raise ConnectionClosedError(f"TLS handshake failed: {error.reason}") from error

    # -- attention

    def begin_request(self) -> None:
        """A request is about to be executed; its attention may have come along with it."""
        with self._lock:
            self._executing = True
            self._take_attention()

    def check_interruption(self) -> None:
        """Read what came while a request was executing; called when the socket is readable."""
        try:
            with self._lock:
                if not self._executing:
                    return  # what came is the next request, which the connection's thread reads
                self._feed(self._receive_bytes(socket.MSG_DONTWAIT))
                self._take_attention()
        except (ConnectionClosedError, RemoteProtocolError) as error:
            _log.info("session %d went away during a request: %s", self.spid, error)
            self.closed = True
            with self._lock:
                self._interrupt()

    def _take_attention(self) -> None:
        if self.protocol.next_message() is not NEED_DATA:
            self._attention = True
            self._interrupt()

    def _interrupt(self) -> None:
        """Under the lock: what it interrupts must not be the next request."""
        self.interrupted.set()
        if self._executing and self.interrupt_statement is not None:
            self.interrupt_statement()

    def finish_request(self) -> bool:
        """The answer is ready but for its last packet: what comes now is the next request.

        Returns:
            Whether an attention came meanwhile, which must be acknowledged in a second message.
        """
        with self._lock:
            self._executing = False
            self.protocol.response_finished()
            attention = self._attention
            self._attention = False
            if not self.closed:
                self.interrupted.clear()
            return attention

    def close(self) -> None:
        """Close the socket; a thread that waits on it wakes."""
        self.closed = True
        with self._lock:
            self._interrupt()
        with contextlib.suppress(OSError):  # the client closed first
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def kill(self) -> None:
        """End the connection, from another thread and without waiting for its end.

        A request that runs is interrupted and its answer, which says so, is sent. A client that
        does not read it within KILL_GRACE_S is not waited for.
        """
        with self._lock:
            self.killed = True
            executing = self._executing
            if executing:
                self._interrupt()
        if not executing:
            self.close()
            return
        last_resort = threading.Timer(KILL_GRACE_S, self.close)
        last_resort.daemon = True
        last_resort.start()

    def _limit_wait(self) -> None:
        """Let the next wait end at the deadline.

        Raises:
            ConnectionClosedError: the deadline has passed.
        """
        if self.deadline is None:
            return
        remaining_s = self.deadline - time.monotonic()
        if remaining_s <= 0:
            raise ConnectionClosedError("no login within the time that there is for it")
        self.set_timeout(remaining_s)

    def set_timeout(self, timeout_s: float) -> None:
        """How long the socket may be waited for from now on, in seconds.

        Raises:
            ConnectionClosedError: it was closed meanwhile, by ``stop`` or a KILL.
        """
        try:
            self.socket.settimeout(timeout_s)
        except OSError as error:
            raise ConnectionClosedError(str(error)) from error

    def _receive_bytes(self, flags: int = 0) -> bytes:
        self._limit_wait()
        try:
            data = self.socket.recv(_RECEIVE_BYTES, flags)
        except OSError as error:
            raise ConnectionClosedError(str(error)) from error
        if not data:
            raise ConnectionClosedError("closed by the client")
        return data

    def _feed(self, data: bytes) -> None:
        if self._tls is not None:
            try:
                data = self._tls.decrypt(data)
            except (ssl.SSLError, EOFError) as error:
                raise ConnectionClosedError(str(error)) from error
        self.protocol.receive_data(data)


class InterruptionWatcher:
    """Waits on the sockets of busy connections, in one thread for the whole server.

    Nearly every request is over before anything could interrupt it. So a socket is waited on only
    when its request is found running twice, ``_TICK_S`` apart. While no request runs the thread
    sleeps.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._selector.register(self._wake_reader, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._watch, name="interruptions", daemon=True)
        self._lock = threading.Lock()
        self._busy: dict[Transport, bool] = {}
        """Connections with a request under way, and whether it was found so before."""
        self._watched: set[Transport] = set()
        self._sleeps = True
        self._stopped = False

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching and free what was held."""
        self._stopped = True
        self._wake_writer.send(b"\0")
        self._thread.join(timeout=5)
        self._selector.close()
        self._wake_reader.close()
        self._wake_writer.close()

    def begin(self, transport: Transport) -> None:
        """A request of this connection is about to be executed."""
        with self._lock:
            self._busy[transport] = False
            wake, self._sleeps = self._sleeps, False
        if wake:
            self._wake_writer.send(b"\0")

    def end(self, transport: Transport) -> None:
        """The request is done."""
        with self._lock:
            self._busy.pop(transport, None)
            if transport in self._watched:
                self._watched.discard(transport)
                # Not there any more when its socket was closed meanwhile.
                with contextlib.suppress(KeyError, ValueError):
                    self._selector.unregister(transport.socket)

    def _watch(self) -> None:
        timeout: float | None = None
        while True:
            for key, _ in self._selector.select(timeout):
                check: Callable[[], None] | None = key.data
                if check is None:
                    self._wake_reader.recv(4096)
                    if self._stopped:
                        return
                    continue
                check()
                transport = check.__self__  # type: ignore[attr-defined]
                if transport.closed:
                    self.end(transport)
            timeout = self._look()

    def _look(self) -> float | None:
        """Watch what has been running for a while; returns how long to wait then."""
        with self._lock:
            for transport, found_before in self._busy.items():
                if not found_before:
                    self._busy[transport] = True
                elif transport not in self._watched:
                    self._watched.add(transport)
                    # A connection that is closed has ended its request itself.
                    with contextlib.suppress(KeyError, ValueError):
                        self._selector.register(
                            transport.socket, selectors.EVENT_READ, transport.check_interruption
                        )
            self._sleeps = not self._busy
            return None if self._sleeps else _TICK_S
