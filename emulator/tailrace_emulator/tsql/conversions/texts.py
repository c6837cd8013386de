"""Conversions to character types and to uniqueidentifier."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from tailrace_emulator import messages
from tailrace_emulator.tsql.conversions.families import Family, family, is_national
from tailrace_emulator.tsql.conversions.formatting import (
    decimal_text,
    float_text,
    moment_formatter,
    money_text,
)
from tailrace_emulator.tsql.conversions.temporal import TICKS_PER_MINUTE
from tailrace_emulator.tsql.conversions.xml import xml_text
from tailrace_emulator.values.collations import counts_characters, page_of
from tailrace_emulator.values.types import (
    MAX,
    TICKS_PER_DAY,
    SqlType,
    pack_guid,
    unpack_decimal,
    unpack_guid,
    unpack_offset,
)
from tailrace_emulator.wire.code_pages import CodePage
from tailrace_emulator.wire.half_pairs import decode_units, joined, spread, units

Text = Callable[[Any], str]

_GUID_LENGTH = 36


def clip(text: str, length: int, page: CodePage | None, *, splits: bool = True) -> str:
    """The first ``length`` UTF-16 units of a text, or bytes of it in a code page.

    Args:
        splits: whether half of a pair may be left at the end.
    """
    if page is not None:
        return page.cut(text, length)
    if units(text) <= length:
        return text
    if units(text) == len(text):
        return text[:length]
    cut = joined(spread(text)[:length])
    return cut if splits or text.startswith(cut) else cut[:-1]


def _page(target: SqlType) -> CodePage | None:
    """The code page in whose bytes a type's length counts; None for UTF-16."""
    return None if is_national(target) else page_of(target.collation)


def to_text(source: SqlType, target: SqlType, style: int | None) -> Text | None:
    """Anything as text, before its length is looked at; None when it is text already."""
    kind = family(source)
    number = style or 0
    if source.name == "xml" and target.name != "xml":
        page_kept = None if is_national(target) else page_of(target.collation).kept
        return xml_text if page_kept is None else lambda value: page_kept(xml_text(value))
    if kind is Family.TEXT:
        if is_national(target):
            return None
        page = page_of(target.collation)
        if not is_national(source) and page_of(source.collation) is page:
            return None
        return page.kept
    if kind is Family.INTEGER:
        return str
    if kind is Family.DECIMAL:
        if source.name in {"money", "smallmoney"}:
            return lambda value: money_text(unpack_decimal(value), number)
        scale = source.scale
        return lambda value: decimal_text(unpack_decimal(value), scale)
    if kind is Family.FLOAT:
        return lambda value: float_text(value, number)
    if kind is Family.BINARY:
        return _binary_to_text(target, number)
    if kind is Family.GUID:
        return lambda value: str(unpack_guid(value)).upper()
    return _temporal_to_text(source, kind, style)


def _binary_to_text(target: SqlType, style: int) -> Text:
    """Style 0 reads the bytes as characters, 1 and 2 write them as hexadecimal digits."""
    if style in {1, 2}:
        prefix = "0x" if style == 1 else ""
        return lambda value: prefix + value.hex().upper()
    if is_national(target):
        return lambda value: decode_units(bytes(value[: len(value) // 2 * 2]))
    return page_of(target.collation).decode


def _temporal_to_text(source: SqlType, kind: Family, style: int | None) -> Text:
    """Dates and times in a style."""
    text = moment_formatter(source, style)
    if kind is Family.DATE:
        return lambda value: text(value * TICKS_PER_DAY, 0)
    if kind is Family.OFFSET:

        def local(value: str) -> str:
            ticks, offset = unpack_offset(value)
            return text(ticks + offset * TICKS_PER_MINUTE, offset)

        return local
    return lambda value: text(value, 0)


def fitted(source: SqlType, target: SqlType) -> Text | None:
    """Cuts and pads text to a type as CAST does; None when nothing can be needed."""
    length = target.length
    if length in {0, MAX}:
        return None
    page = _page(target)
    kind = family(source)
    fixed = target.name in {"char", "nchar"}
    if kind is Family.TEXT and not fixed and 0 < source.length <= length:
        same_units = is_national(source) if page is None else page is _page(source)
        if same_units:
            return None
    overflow = _overflow(source, kind, target)
    splits = not counts_characters(target.collation)

    def fit(value: str) -> str:
        if overflow is not None and len(value) > length:
            value = overflow(value)
        value = clip(value, length, page, splits=splits)
        return _filled(value, length, page) if fixed else value

    return fit


def _filled(value: str, length: int, page: CodePage | None) -> str:
    """Text with the blanks that a fixed length requires."""
    size = units(value) if page is None else page.size(value)
    return value + " " * (length - size)


def _overflow(source: SqlType, kind: Family, target: SqlType) -> Callable[[str], str] | None:
    """What a number or uniqueidentifier does that has no room; None: it is simply cut."""
    if kind is Family.GUID:

        def no_room(_: str) -> str:
            raise messages.error(8170)

        return no_room
    if kind is Family.INTEGER and source.name != "bigint" and not is_national(target):
        return lambda _: "*"
    if kind in {Family.INTEGER, Family.DECIMAL, Family.FLOAT}:
        name = "expression" if kind is not Family.DECIMAL else "numeric"

        def overflowed(_: str) -> str:
            raise messages.numeric_overflow(name, target.name)

        return overflowed
    return None


def truncation_check(target: SqlType, table: str, column: str) -> Callable[[Any], Any]:
    """Refuses what does not fit a column, and pads what is too short for a fixed one.

    Trailing blanks (and in binary columns trailing zeros) that do not fit are cut silently.
    """
    length = target.length
    if family(target) is Family.BINARY:
        return _binary_truncation_check(target, table, column)
    page = _page(target)
    fixed = target.name in {"char", "nchar"}

    def check(value: str) -> str:
        size = units(value) if page is None else page.size(value)
        if length != MAX and size > length:
            kept = clip(value, length, page, splits=False)
            if value[len(kept) :].strip(" "):
                raise messages.truncated(table, column, kept)
            value = kept
        return _filled(value, length, page) if fixed else value

    return check


def _binary_truncation_check(target: SqlType, table: str, column: str) -> Callable[[Any], Any]:
    """The same for binary columns."""
    length = 8 if target.name == "timestamp" else target.length
    fixed = target.name == "binary"

    def check(value: bytes) -> bytes:
        if length not in {MAX, 0} and len(value) > length:
            if value[length:].strip(b"\0"):
                raise messages.truncated(table, column, "0x" + value[:length].hex().upper())
            value = value[:length]
        return value.ljust(length, b"\0") if fixed else value

    return check


def to_guid(source: SqlType) -> Callable[[Any], Any] | None:
    """To uniqueidentifier, from text or its 16 bytes."""
    kind = family(source)
    if kind is Family.GUID:
        return None
    if kind is Family.TEXT:

        def parse(value: str) -> bytes:
            text = value.strip()
            if text.startswith("{"):
                text = text[1 : 1 + _GUID_LENGTH]
            try:
                if len(text) < _GUID_LENGTH or text[8] != "-":
                    raise messages.uniqueidentifier_conversion_failed()
                return pack_guid(uuid.UUID(text[:_GUID_LENGTH]))
            except ValueError as error:
                raise messages.uniqueidentifier_conversion_failed() from error

        return parse
    return lambda value: pack_guid(uuid.UUID(bytes_le=bytes(value[:16]).ljust(16, b"\0")))
