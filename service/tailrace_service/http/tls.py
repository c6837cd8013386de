"""The certificate that an endpoint shows."""

from __future__ import annotations

import ssl
from pathlib import Path


def read_tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """What an endpoint needs to speak TLS, 1.2 or newer; None where no certificate is given.

    Args:
        certificate: PEM, followed by its chain.
        key: PEM, without a password; None where it is in the certificate's file.

    Raises:
        ValueError: the files are not there, or do not go together.
    """
    if certificate is None:
        if key is not None:
            raise ValueError("a key needs its certificate")
        return None
    for file in filter(None, (certificate, key)):
        if not file.is_file():
            raise ValueError(f"there is no file {file}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # With a password that is none, OpenSSL does not ask for one on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ssl.SSLError) as error:
        raise ValueError(
            f"{certificate} and its key do not go together, are not PEM, or the key has a password:"
            f" {error}"
        ) from error
    return context
