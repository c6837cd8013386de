"""Salted hashes of values: SHA-256 of the salt's and the value's bytes, in hexadecimal digits.

Debezium writes the same with ``column.mask.hash.v2.SHA-256.with.salt...``, but cut to the column's
length.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

from tailrace_publisher.change.column_rules import ColumnRules
from tailrace_publisher.options.columns import ColumnsConfig

_ID_DIGITS: Final = 8
_ID_OF: Final = b"tailrace salt\0"


class ValueHash:
    """Hashes values with one salt, which it never exposes."""

    def __init__(self, salt: str) -> None:
        self._salted = sha256(salt.encode())
        self._id = sha256(_ID_OF + salt.encode()).hexdigest()[:_ID_DIGITS]

    @classmethod
    def of_options(cls, options: ColumnsConfig) -> ValueHash | None:
        """Create with the salt of the options; None if nothing is hashed.

        Raises:
            ConfigError: the salt's file cannot be read.
        """
        salt = options.read_salt()
        return None if salt is None else cls(salt)

    @property
    def salt_id(self) -> str:
        """A few digits of a hash of the salt, which distinguish salts."""
        return self._id

    def of(self, value: Any) -> str | None:
        """Return the hash of a text, None for NULL; half a surrogate pair is hashed as in WTF-8."""
        if value is None:
            return None
        state = self._salted.copy()
        state.update(str(value).encode("utf-8", "surrogatepass"))
        return state.hexdigest()


def rules_of(options: ColumnsConfig) -> ColumnRules:
    """Return the rules of the options for columns.

    Raises:
        ConfigError: the salt's file cannot be read.
    """
    hashes = ValueHash.of_options(options)
    return ColumnRules(options, "" if hashes is None else hashes.salt_id)
