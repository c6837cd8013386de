"""A wrong host or port is known before the driver's login, and told apart from a slow server."""

from __future__ import annotations

import socket
import time

import pytest

from tailrace_publisher.errors import SourceUnavailable
from tailrace_publisher.options.source import SourceConfig
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_publisher.source.connection.reachable import check_reachable


def config(host: str, port: int = 1433, **further: object) -> SourceConfig:
    options = {"host": host, "port": port, "database": "Shop", "user": "u", "password": "p"}
    return SourceConfig.model_validate(options | further)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


def test_a_refused_port_is_known_at_once():
    port = free_port()
    began = time.monotonic()
    with pytest.raises(SourceUnavailable) as refused:
        OdbcConnection(config("127.0.0.1", port))
    assert time.monotonic() - began < 8  # a login that fails takes 15
    assert f"127.0.0.1:{port}, database Shop: port {port} refuses" in str(refused.value)
    assert refused.value.retryable


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b"])
def test_an_unknown_host_is_called_unknown(host: str):
    with pytest.raises(SourceUnavailable, match=r"host .* Fix: check source\.host"):
        check_reachable(config(host))


def test_a_server_that_is_slow_after_it_accepts_is_left_to_the_login():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        check_reachable(config("127.0.0.1", port))
        check_reachable(config(r"127.0.0.1\SALES", port))


def test_silence_is_an_error_with_address_and_fix():
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening:
        port = listening.getsockname()[1]
        waiting = [socket.socket() for _ in range(8)]
        for one in waiting:  # fills the queue: what follows gets no answer
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        try:
            with pytest.raises(SourceUnavailable) as silent:
                check_reachable(config("127.0.0.1", port), 0.1)
        finally:
            for one in waiting:
                one.close()
    said = str(silent.value)
    assert said.startswith(f"SQL Server 127.0.0.1:{port}, database Shop: no answer within 0.1 s")
    assert said.endswith("Fix: check source.host, source.port and the firewall")
    assert silent.value.retryable


def test_with_a_failover_partner_the_driver_decides():
    check_reachable(config("127.0.0.1", free_port(), odbc={"Failover_Partner": "other"}))
