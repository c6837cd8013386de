"""Avro's variable-length integers by table.

A zigzag number is cut into digits of 14 bits, two bytes each, so any long takes one to five
look-ups. ``CONTINUED`` holds the two bytes of a digit that more digits follow, ``FINAL`` the one or
two bytes of the last. The ``OPTIONAL`` tables prefix the branch index of ``["null", type]``.
"""

from __future__ import annotations

from typing import Final

DIGIT_BITS: Final = 14
DIGITS: Final = 1 << DIGIT_BITS
DIGIT_MASK: Final = DIGITS - 1

NULL: Final = b"\x00"
"""Branch 0 of ``["null", type]``."""
PRESENT: Final = b"\x02"
"""Branch 1 of ``["null", type]``."""

CONTINUED: Final = [bytes(((n & 0x7F) | 0x80, (n >> 7) | 0x80)) for n in range(DIGITS)]
FINAL: Final = [
    bytes((n,)) if n < 0x80 else bytes(((n & 0x7F) | 0x80, n >> 7)) for n in range(DIGITS)
]
OPTIONAL_CONTINUED: Final = [PRESENT + digit for digit in CONTINUED]
OPTIONAL_FINAL: Final = [PRESENT + digit for digit in FINAL]


def encode_long(value: int, bits: int = 64) -> bytes:
    """Encode one int or long of any size.

    Raises:
        OverflowError: the value does not fit that many bits.
    """
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise OverflowError(f"{value} does not fit {bits} bits")
    rest = (value << 1) ^ (value >> (bits - 1))
    parts: list[bytes] = []
    while rest >= DIGITS:
        parts.append(CONTINUED[rest & DIGIT_MASK])
        rest >>= DIGIT_BITS
    parts.append(FINAL[rest])
    return b"".join(parts)


def encode_string(text: str) -> bytes:
    """Encode one string: its length in bytes, then UTF-8.

    Raises:
        UnicodeEncodeError: a surrogate without its other half.
    """
    raw = text.encode()
    return encode_long(len(raw)) + raw


def encode_strings(texts: tuple[str, ...]) -> bytes:
    """Encode an array of strings: one block and the end mark, as fastavro and Java write it."""
    if not texts:
        return b"\x00"
    return b"".join((encode_long(len(texts)), *map(encode_string, texts), b"\x00"))
