"""Connects to the server's port before the driver does, whose failed login takes 17 s.

Only an answer counts: a refused port, an unknown host, no route. Silence is left to the login, as a
slow network may need longer; its failure is then reported as what it is.
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


def is_reachable(config: SourceConfig, limit_s: float = LIMIT_S) -> bool:
    """Return whether the port accepts a connection; False if nothing answered in time.

    With a failover partner the driver tries a second server, so there is no look.

    Args:
        limit_s: bound of each address of the host.

    Raises:
        SourceUnavailable: the host is unknown or has no route, or its port refuses.
    """
    if "Failover_Partner" in config.odbc:
        return True
    host = config.host.partition("\\")[0]
    host = "localhost" if host.casefold() in _THIS_MACHINE else host
    try:
        with socket.create_connection((host, config.port), timeout=limit_s):
            return True
    except TimeoutError:
        return False
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
    raise _unavailable(config, reason)


def silent(config: SourceConfig) -> SourceUnavailable:
    """Return the error of a login to a server that did not even accept a connection."""
    return _unavailable(
        config,
        f"no answer within {config.login_timeout_s} s: no server has this address, or a firewall"
        " drops what is sent. Fix: check source.host, source.port and the firewall",
    )


def _unavailable(config: SourceConfig, reason: str) -> SourceUnavailable:
    where = f"SQL Server {config.host}:{config.port}, database {config.database}"
    return SourceUnavailable(f"{where}: {reason}", sqlstate=_UNREACHABLE_STATE, number=0)
