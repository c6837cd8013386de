"""Log sequence numbers as CDC's functions and views see them: ten bytes, big-endian.

A log sequence number is vlf (4 bytes), block (4 bytes), slot (2 bytes). The functions treat it as
one 80-bit unsigned number: https://learn.microsoft.com/sql/relational-databases/system-functions/sys-fn-cdc-increment-lsn-transact-sql
"""

from __future__ import annotations

from typing import Final

LSN_BYTES: Final = 10
ZERO_LSN: Final = bytes(LSN_BYTES)
_MODULUS: Final = 1 << (8 * LSN_BYTES)


def increment(lsn: bytes) -> bytes:
    """The next LSN, with carry; the largest one wraps to zero (inferred)."""
    return ((int.from_bytes(lsn, "big") + 1) % _MODULUS).to_bytes(LSN_BYTES, "big")


def decrement(lsn: bytes) -> bytes:
    """The previous LSN, with borrow; zero wraps to the largest (inferred)."""
    return ((int.from_bytes(lsn, "big") - 1) % _MODULUS).to_bytes(LSN_BYTES, "big")


def text(lsn: bytes) -> str:
    """The form of the dynamic management views, ``xxxxxxxx:xxxxxxxx:xxxx``."""
    digits = lsn.hex()
    return f"{digits[:8]}:{digits[8:16]}:{digits[16:]}"


def terminated_text(lsn: bytes) -> str:
    """As nvarchar(23) of sys.dm_cdc_log_scan_sessions and dm_cdc_errors, which U+0000 ends."""
    return text(lsn) + "\0"
