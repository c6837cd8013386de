"""Passwords at rest: scrypt with a salt of their own; and what CHECK_POLICY requires of them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from typing import Final

_COST: Final = 2**14
_BLOCK: Final = 8
_SALT_BYTES: Final = 16
_KEY_BYTES: Final = 32
_FORMAT: Final = "scrypt"

POLICY_LENGTH_MIN: Final = 8
POLICY_KINDS_MIN: Final = 3
"""Of upper case, lower case, digits and other characters."""


def hash_password(password: str, salt: bytes | None = None) -> str:
    """A password as the catalog keeps it: format, cost, salt and key; 16 MB and some 40 ms."""
    salt = os.urandom(_SALT_BYTES) if salt is None else salt
    key = _key(password, salt, _COST)
    parts = (base64.b64encode(salt).decode(), base64.b64encode(key).decode())
    return "$".join((_FORMAT, str(_COST), *parts))


def _key(password: str, salt: bytes, cost: int) -> bytes:
    raw = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(raw, salt=salt, n=cost, r=_BLOCK, p=1, dklen=_KEY_BYTES)


def is_password(kept: str, password: str) -> bool:
    """Whether a password is the one that was hashed; takes as long either way."""
    _, cost, salt, key = kept.split("$")
    made = _key(password, base64.b64decode(salt), int(cost))
    return hmac.compare_digest(made, base64.b64decode(key))


def is_strong(name: str, password: str) -> bool:
    """Whether CHECK_POLICY accepts it: eight characters of three kinds, and not the login's name.

    https://learn.microsoft.com/sql/relational-databases/security/password-policy
    """
    kinds = (str.isupper, str.islower, str.isdigit)
    present = [any(kind(c) for c in password) for kind in kinds]
    present.append(any(not c.isalnum() for c in password))
    return (
        len(password) >= POLICY_LENGTH_MIN
        and sum(present) >= POLICY_KINDS_MIN
        and name.casefold() not in password.casefold()
    )
