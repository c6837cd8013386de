"""Further keywords of the ODBC connection string: which are known, and which a login needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import SecretStr

KEYWORDS: Final = (
    "Authentication",
    "ClientCertificate",
    "ClientKey",
    "Failover_Partner",
    "FailoverPartnerSPN",
    "HostNameInCertificate",
    "IpAddressPreference",
    "KeepAlive",
    "KeepAliveInterval",
    "Language",
    "MultiSubnetFailover",
    "PacketSize",
    "ServerCertificate",
    "ServerSPN",
    "TransparentNetworkIPResolution",
    "Trusted_Connection",
    "WSID",
)
"""Keywords of the Microsoft driver that change how it connects, but nothing that is read.

The driver silently ignores an unknown keyword, so others are refused here.
https://learn.microsoft.com/sql/connect/odbc/dsn-connection-string-attribute
"""

_OPTIONS: Final = {
    "address": "source.host and source.port",
    "addr": "source.host and source.port",
    "server": "source.host and source.port",
    "database": "source.database",
    "driver": "source.driver",
    "encrypt": "source.encrypt",
    "trustservercertificate": "source.trust_server_certificate",
    "applicationintent": "source.application_intent",
    "uid": "source.user",
    "user": "source.user",
    "pwd": "source.password or source.password_file",
    "password": "source.password or source.password_file",
}
_SPELLED: Final = {keyword.casefold(): keyword for keyword in KEYWORDS}
_NO_USER: Final = frozenset({"activedirectoryintegrated"})
_MAYBE_USER: Final = frozenset({"activedirectorymsi"})
_NEEDS_A_PERSON: Final = frozenset({"activedirectoryinteractive", "activedirectorydevicecode"})


def spelled(given: Mapping[str, SecretStr]) -> dict[str, SecretStr]:
    """Return the keywords as Microsoft spells them.

    Raises:
        ValueError: a keyword is not allowed here; the text names what to use instead.
    """
    found: dict[str, SecretStr] = {}
    for name, value in given.items():
        keyword = _SPELLED.get(name.casefold())
        if keyword is None:
            option = _OPTIONS.get(name.casefold())
            why = f"it is the option {option}" if option else f"use one of {', '.join(KEYWORDS)}"
            raise ValueError(f"{name}: {why}")
        if keyword in found:
            raise ValueError(f"{keyword} is given twice")
        found[keyword] = value
    return found


def check_login(
    odbc: Mapping[str, SecretStr], user: str | None, *, has_password: bool, has_both: bool
) -> None:
    """Check that user and password fit the way of logging in.

    Args:
        odbc: the keywords, as Microsoft spells them.
        has_both: whether a password and its file are given.

    Raises:
        ValueError: names what to set and what to remove.
    """
    way = _value(odbc, "Authentication")
    is_trusted = _value(odbc, "Trusted_Connection") in {"yes", "true", "1"}
    if way in _NEEDS_A_PERSON:
        raise ValueError(
            "odbc.Authentication prompts a person for each connection. Fix: use ActiveDirectoryMsi,"
            " ActiveDirectoryServicePrincipal, ActiveDirectoryPassword or ActiveDirectoryIntegrated"
        )
    if is_trusted and way:
        raise ValueError("give one of odbc.Trusted_Connection and odbc.Authentication")
    if is_trusted or way in _NO_USER | _MAYBE_USER:
        if has_password or (user is not None and way not in _MAYBE_USER):
            raise ValueError(
                "leave out user and password: this way of logging in takes the account of the"
                " process (ActiveDirectoryMsi may name an identity in user)"
            )
        return
    if user is None:
        raise ValueError("user is missing: set it, or a way of logging in without one in odbc")
    if has_both or not has_password:
        raise ValueError("give exactly one of password and password_file")


def _value(odbc: Mapping[str, SecretStr], keyword: str) -> str:
    value = odbc.get(keyword)
    return "" if value is None else value.get_secret_value().casefold()
