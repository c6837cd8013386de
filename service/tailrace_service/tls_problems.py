"""Why a certificate is not accepted, as one sentence with what to do about it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

# https://docs.openssl.org/master/man3/X509_STORE_CTX_get_error/
_EXPIRED: Final = 10
_NOT_YET: Final = 9
_OTHER_NAME: Final = frozenset({62, 64})  # of a host, of an address
_NO_AUTHORITY: Final = frozenset({2, 18, 19, 20, 21, 24})
_TLS: Final = frozenset({"ssl", "sasl_ssl"})
_OFF: Final = frozenset({"false", "f", "0"})


def certificate_problem(error: BaseException, where: str, trusted_by: str) -> str | None:
    """What is wrong with a server's certificate; None where the error is about something else.

    Args:
        error: what was raised, with the errors that it came from.
        where: whose certificate: ``the registry's certificate``.
        trusted_by: the option that names the authorities.
    """
    found: BaseException | None = error
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        if isinstance(found, ssl.SSLCertVerificationError):
            return _sentence(found, where, trusted_by)
        seen.add(id(found))
        found = found.__cause__ or found.__context__
    return None


def _sentence(error: ssl.SSLCertVerificationError, where: str, trusted_by: str) -> str:
    if error.verify_code == _EXPIRED:
        return f"{where} has expired: renew it there, or look at the clock of this machine"
    if error.verify_code == _NOT_YET:
        return f"{where} is not valid yet: look at the clocks of both machines"
    if error.verify_code in _OTHER_NAME:
        return (
            f"{where} is for another name ({error.verify_message.rstrip('.')}): connect under a"
            " name that is in it, or have one made with this name"
        )
    if error.verify_code in _NO_AUTHORITY:
        return (
            f"{where} comes from an authority that is not trusted here ({error.verify_message}):"
            f" name the file of that authority in {trusted_by}"
        )
    return f"{where} is not accepted: {error.verify_message}"


def broker_certificate_problem(
    bootstrap: str, options: Mapping[str, str], timeout_s: float
) -> str | None:
    """What is wrong with the certificate of the first broker that answers; None where nothing is.

    The Kafka client reports every failure as a closed connection, so this connects on its own.
    """
    if options.get("security.protocol", "").casefold() not in _TLS:
        return None
    if options.get("enable.ssl.certificate.verification", "").casefold() in _OFF:
        return None
    authorities = options.get("ssl.ca.location")
    trusted_by = "kafka.extra ssl.ca.location"
    try:
        context = ssl.create_default_context(cafile=authorities)
    except (OSError, ssl.SSLError) as error:
        there = (
            "is there, and" if authorities and Path(authorities).exists() else "is not there, or"
        )
        return f"{trusted_by} {authorities} {there} holds no certificates: {error}"
    context.check_hostname = options.get("ssl.endpoint.identification.algorithm", "https") != "none"
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        try:
            with (
                socket.create_connection((host.strip("[]"), int(port)), timeout_s) as plain,
                context.wrap_socket(plain, server_hostname=host.strip("[]")),
            ):
                return None
        except ssl.SSLCertVerificationError as error:
            return certificate_problem(error, f"the certificate of broker {address}", trusted_by)
        except ssl.SSLError as error:
            return f"broker {address} does not agree on TLS ({error}): is it a port with TLS?"
        except (OSError, ValueError):
            continue
    return None
