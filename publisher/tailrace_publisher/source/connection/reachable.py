"""Connects to the server's port before the driver does, whose failed login takes 17 s.

Only the connection is checked: a server that accepts it may take as long as the login may. A
client repeats its first packet after one second, so silence for two is the loss of both.
"""

from __future__ import annotations

import socket
from typing import Final

from tailrace_publisher.errors import SourceUnavailable
from tailrace_publisher.options.source import SourceConfig

LIMIT_S: Final = 2.0
_UNREACHABLE_STATE: Final = "08001"
_THIS_MACHINE: Final = frozenset({".", "(local)"})
"""The driver's own names of it."""


def check_reachable(config: SourceConfig, limit_s: float = LIMIT_S) -> None:
    """Check that the port accepts a connection.

    With a failover partner the driver tries a second server, so there is no check.

    Args:
        limit_s: bound of each address of the host.

    Raises:
        SourceUnavailable: the host is unknown or has no route, or its port refuses or is silent.
    """
    if "Failover_Partner" in config.odbc:
        return
    host = config.host.partition("\\")[0]
    host = "localhost" if host.casefold() in _THIS_MACHINE else host
    try:
        with socket.create_connection((host, config.port), timeout=limit_s):
            return
    except TimeoutError:
        reason = (
            f"no answer within {limit_s:g} s: no server has this address, or a firewall drops what"
            " is sent. Fix: check source.host, source.port and the firewall"
        )
    except socket.gaierror as error:
        reason = f"host {host} is unknown ({error.strerror}). Fix: check source.host"
    except UnicodeError:
        reason = f"host {host} is no host name. Fix: check source.host"
    except ConnectionRefusedError:
        reason = (
            f"port {config.port} refuses connections: nothing listens there. Fix: start the"
            " server, or check source.host and source.port"
        )
    except OSError as error:
        reason = (
            f"there is no route to the host ({error.strerror}). Fix: check source.host, and the"
            " network of this machine"
        )
    where = f"SQL Server {config.host}:{config.port}, database {config.database}"
    raise SourceUnavailable(f"{where}: {reason}", sqlstate=_UNREACHABLE_STATE, number=0)
