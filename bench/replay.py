"""A recorded TDS conversation, played back: what a driver reaches when the server costs nothing.

``record`` stands between a client and a server and keeps the server's answer to each message of the
client; ``python -m bench.replay FILE`` listens, prints its port and answers a message as it was
answered then. It knows no more of TDS than where a message ends and which ones are requests, so the
conversation must be in clear text.
"""

from __future__ import annotations

import pickle
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

HEADER_BYTES: Final = 8
END_OF_MESSAGE: Final = 0x01
REQUESTS: Final = (1, 3)
"""Batch and remote procedure call differ by their bytes, other messages by their type."""

Answers = dict[bytes, bytes]


def read_message(sock: socket.socket) -> bytes:
    """One message with its packet headers; empty when the other side is gone."""
    message = bytearray()
    while True:
        header = _exactly(sock, HEADER_BYTES)
        if not header:
            return b""
        message += header
        message += _exactly(sock, int.from_bytes(header[2:4], "big") - HEADER_BYTES)
        if header[1] & END_OF_MESSAGE:
            return bytes(message)


def key_of(message: bytes) -> bytes:
    """What a message is known by."""
    return message if message[0] in REQUESTS else message[:1]


def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            return b""
        data += more
    return data


@contextmanager
def record(server_port: int, answers: Answers) -> Iterator[int]:
    """Yield the port of a proxy for one connection; ``answers`` fills with the server's bytes."""
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=_pass_on, args=(listener, server_port, answers), daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()
        thread.join(30)


def _pass_on(listener: socket.socket, server_port: int, answers: Answers) -> None:
    client, _ = listener.accept()
    with client, socket.create_connection(("127.0.0.1", server_port)) as server:
        while message := read_message(client):
            server.sendall(message)
            answer = read_message(server)
            answers[key_of(message)] = answer
            client.sendall(answer)


def main(path: str) -> None:
    """Play back until standard input ends."""
    answers: Answers = pickle.loads(Path(path).read_bytes())  # noqa: S301 - recorded just now
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_serve, args=(listener, answers), daemon=True).start()
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    sys.stdin.read()


def _serve(listener: socket.socket, answers: Answers) -> None:
    while True:
        client, _ = listener.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with client, suppress(OSError):  # a client may leave before it has read everything
            while message := read_message(client):
                client.sendall(answers[key_of(message)])


if __name__ == "__main__":
    main(sys.argv[1])
