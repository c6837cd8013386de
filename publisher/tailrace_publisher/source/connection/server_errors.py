"""Converts the driver's reports to typed errors, by SQLSTATE and native number."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from tailrace_publisher.errors import (
    DatabaseUnknown,
    EncryptionRefused,
    LoginRefused,
    PermissionMissing,
    SourceBusy,
    SourceError,
    SourceUnavailable,
)
from tailrace_publisher.options.source import SourceConfig

_LOGIN_REFUSED: Final = frozenset({18456, 18470, 18486, 18487, 18488, 4064, 18452})
_DATABASE_UNKNOWN: Final = frozenset({4060, 911, 916})
_PERMISSION_MISSING: Final = frozenset({229, 230, 262, 297, 300, 371, 15247, 22904})
_BUSY: Final = frozenset(
    {
        *(1205, 1222),  # a deadlock's victim, a lock that was not given in time
        *(3960, 3961),  # snapshot isolation: an update conflict, DDL since the transaction began
        # It was switched off for the database, or row versions that it needs are gone: the next
        # connection finds out.
        *(3952, 3953, 3954, 3955, 3956, 3957, 3958, 3966),
        *(41301, 41302, 41305, 41325, 41839),  # memory-optimized tables: validation failed
        *(701, 802, 1204, 8645, 8651),  # no memory or no locks for the statement now
        22840,  # the lock on the metadata of change data capture was not given
    }
)
_UNAVAILABLE: Final = frozenset(
    {
        # Azure SQL moves or throttles the database, or its limits are reached for now.
        *(40143, 40197, 40501, 40613, 10928, 10929, 49918, 49919, 49920),
        # The availability group's replica changes its role, or does not accept readers yet.
        *(976, 978, 982, 983, 4221),
        # The database is in recovery, being restored, in transition, offline, or one user's.
        *(921, 922, 924, 927, 942, 952, 954),
        # The server starts, upgrades its system tables, is kept for its administrator, or stops.
        *(6005, 17197, 18401, 18451, 18461),
        # The connection broke, or the session was ended.
        *(64, 121, 233, 596, 10053, 10054, 10060),
    }
)
"""Microsoft's transient list, and what its documentation of these errors says. 4060 is on the list
too, but is also the error of a wrong name, so :attr:`SourceError.may_heal` handles it.

https://learn.microsoft.com/azure/azure-sql/database/troubleshoot-common-errors-issues
"""
_WRAPPING: Final = frozenset({*range(22830, 22838), 22841, 22852, 22853})
"""A procedure of change data capture failed because a statement in it did. The text has the number
of that error: "The error returned was 1222: 'Lock request time out period exceeded.'".

See: Database Engine events and errors (22000 to 22999)
"""
_WRAPPED: Final = re.compile(r"(\d+): '")
"""Inferred: does the number stand before the text of the error in every language of the server?"""
_CERTIFICATE: Final = {
    "certificate has expired": (
        "the server's certificate has expired. Fix: renew it there, or correct the clock of this"
        " machine"
    ),
    "certificate is not yet valid": (
        "the server's certificate is not valid yet. Fix: correct the clocks of both machines"
    ),
    "subject name does not match host name": (
        "the server's certificate is for another name. Fix: set source.host, or source.odbc"
        " HostNameInCertificate, to a name that is in it"
    ),
    **dict.fromkeys(
        ("unable to get local issuer", "unable to get issuer", "self-signed", "self signed"),
        "the server's certificate comes from an authority that is not trusted here. Fix: add that"
        " authority to those of this machine (or name its file in the environment variable"
        " SSL_CERT_FILE), or set source.trust_server_certificate if the network is private",
    ),
}
"""By OpenSSL's words, which the driver passes on: what is wrong, and the fix."""
_OF_NAMES: Final = frozenset({195, 207, 208, 4104})
"""These errors quote the name of a function, a column or a table, but no value."""
_LITERAL: Final = re.compile(r"'(?:[^']|'')*'")
_OF_CLR_VALUES: Final = 6522
"""An error in a CLR type, of class 42000, which quotes the value. See: Database engine errors"""
_VALUE_STATES: Final = "22"
"""Class of SQLSTATE: a value could not be converted or computed; the message may quote it."""
# HY008 is a cancelled statement: the publisher must stop.
_UNAVAILABLE_STATES: Final = frozenset({"08001", "08S01", "08003", "08007", "HYT01"})


def source_error(
    config: SourceConfig,
    sqlstate: str,
    numbers: Sequence[int],
    text: str,
    *,
    is_login: bool,
) -> SourceError:
    """Return the typed error of a failure.

    Args:
        config: names the server, the database and the login.
        sqlstate: of the first diagnostic record.
        numbers: native numbers of all records.
        text: the driver's own words.
        is_login: whether it failed while connecting.
    """
    if _WRAPPING.intersection(numbers):
        inner = [int(number) for number in _WRAPPED.findall(text)]
        numbers = [*reversed(inner), *numbers]  # the last one is the cause of those before it
    make, advice = _classify(config, sqlstate, set(numbers), text, is_login=is_login)
    where = f"SQL Server {config.host}:{config.port}"
    number = next((n for n in numbers if n > 0), 0)
    if sqlstate.startswith(_VALUE_STATES) or _OF_CLR_VALUES in numbers:
        text = f"a value of a row was refused (SQLSTATE {sqlstate}, error {number})"
    return make(
        f"{where}, database {config.database}: {advice}{text}", sqlstate=sqlstate, number=number
    )


def without_literals(error: SourceError) -> str:
    """Return the text of an error without the literals that it quotes from a condition."""
    text = str(error)
    return text if error.number in _OF_NAMES else _LITERAL.sub("'…'", text)


def _classify(
    config: SourceConfig, sqlstate: str, numbers: set[int], text: str, *, is_login: bool
) -> tuple[Callable[..., SourceError], str]:
    # A login during a failover or recovery brings one of these with 4060 and 18456: what waits
    # to become available is neither unknown nor refused.
    if numbers & _UNAVAILABLE:
        return SourceUnavailable, "not available. "
    # 18456 follows 4060 when the login may not open the database, so the database goes first.
    if numbers & _DATABASE_UNKNOWN and (is_login or 916 in numbers):
        return DatabaseUnknown, (
            f"database {config.database} does not exist or login {config.account} has no user in"
            " it: check source.database, or CREATE USER for the login. "
        )
    if numbers & _LOGIN_REFUSED or sqlstate == "28000":
        return LoginRefused, (
            f"login {config.account} was refused: check source.user and source.password. "
        )
    if is_login and sqlstate == "08001" and -1 in numbers and max(numbers) <= 0:
        return EncryptionRefused, f"TLS failed: {_why_not_trusted(text)}. "
    if numbers & _PERMISSION_MISSING:
        return PermissionMissing, f"login {config.account} lacks a permission. "
    if numbers & _BUSY or sqlstate in {"40001", "HY008"} or (sqlstate == "HYT00" and not is_login):
        return SourceBusy, "busy. "
    if sqlstate in _UNAVAILABLE_STATES or sqlstate == "HYT00":
        return SourceUnavailable, "not reachable. "
    return SourceError, ""


def _why_not_trusted(text: str) -> str:
    """Return what is wrong with the server's certificate, and the fix, by the driver's words."""
    for words, told in _CERTIFICATE.items():
        if words in text:
            return told
    return (
        "trust the server's certificate on this machine, or set source.trust_server_certificate"
        " where the network is private"
    )
