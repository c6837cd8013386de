"""The update mask of a change row: one bit per captured column, by ordinal in the change table.

The rightmost bit is the first captured column, so in the stored varbinary the *last* byte holds
columns 1 to 8. Inserts and deletes set every bit; both rows of an update carry the columns that
changed.
"""

from __future__ import annotations


def mask_bytes(bits: int, column_count: int) -> bytes:
    """The varbinary of a bit set over ``column_count`` captured columns.

    Args:
        bits: bit ``n - 1`` is the column of ordinal ``n``.
        column_count: number of captured columns; the length is that many bits in whole bytes.
    """
    return bits.to_bytes((column_count + 7) // 8, "big")


def full_mask(column_count: int) -> bytes:
    """The mask of inserts and deletes: all defined bits."""
    return mask_bytes((1 << column_count) - 1, column_count)


def is_bit_set(position: int, mask: bytes) -> bool:
    """Whether the column of that 1-based ordinal is in the mask; False beyond its length."""
    if position < 1 or position > 8 * len(mask):
        return False
    byte = mask[len(mask) - 1 - (position - 1) // 8]
    return bool(byte >> ((position - 1) % 8) & 1)
