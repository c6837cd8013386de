"""Reversible names: any SQL Server identifier as a Kafka topic part or an Avro name.

A character that the target does not allow becomes ``_xHHHH_``, its UTF-16 code unit in hex. SQL
Server's FOR XML uses the same escape for names. An ``_`` that would read as such an escape is
escaped itself, so that :func:`unescape` returns the identifier.
"""

from __future__ import annotations

import re
from typing import Final

_TOPIC_PART: Final = re.compile(r"[A-Za-z0-9-]")
_AVRO_PART: Final = re.compile(r"[A-Za-z0-9]")
_ESCAPE: Final = re.compile(r"_x([0-9A-F]{4})_")
_LOOKS_ESCAPED: Final = re.compile(r"_x[0-9A-F]{4}")  # whatever follows could close it


def _escape(name: str, allowed: re.Pattern[str]) -> str:
    parts: list[str] = []
    for index, char in enumerate(name):
        if allowed.match(char) or (char == "_" and not _LOOKS_ESCAPED.match(name, index)):
            parts.append(char)
            continue
        raw = char.encode("utf-16-be", "surrogatepass")
        parts.extend(f"_x{raw[i]:02X}{raw[i + 1]:02X}_" for i in range(0, len(raw), 2))
    return "".join(parts)


def unescape(name: str) -> str:
    """The identifier that :func:`topic_part` or :func:`avro_name` was given."""
    units = _ESCAPE.sub(lambda match: chr(int(match.group(1), 16)), name)
    return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


def topic_part(name: str) -> str:
    """An identifier as one dot-free part of a topic name."""
    return _escape(name, _TOPIC_PART)


def avro_name(name: str) -> str:
    """An identifier as an Avro name (``[A-Za-z_][A-Za-z0-9_]*``)."""
    escaped = _escape(name, _AVRO_PART)
    if escaped[:1].isdigit():
        return f"_x{ord(escaped[0]):04X}_{escaped[1:]}"
    return escaped
