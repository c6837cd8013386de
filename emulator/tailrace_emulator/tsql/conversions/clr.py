"""Conversions to hierarchyid, geometry and geography, and to text.

Inferred: that text and binary become such a value by themselves, and that the way back has to be
asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.tsql.conversions.families import Family, family
from tailrace_emulator.values import hierarchy, spatial
from tailrace_emulator.values.types import SqlType


def to_clr(source: SqlType, target: SqlType) -> Callable[[Any], bytes] | None:
    """From text (Parse) or binary; None from the type itself."""
    kind, name = family(source), target.name
    if kind is Family.CLR:
        return None
    if kind is Family.TEXT:
        return _path if name == "hierarchyid" else lambda text: _point(text, name)
    return _short if name == "hierarchyid" else lambda raw: _shape(raw, name)


def clr_text(source: SqlType) -> Callable[[bytes], str]:
    """The text of values of such a type (ToString).

    Raises:
        SqlError: 50900 for geometry and geography.
    """
    if source.name != "hierarchyid":
        raise not_supported(f"{source.name} values as text")

    def text(value: bytes) -> str:
        found = hierarchy.shown(value)
        if found is None:
            raise _failed(
                "hierarchyid",
                "HierarchyIdException: 24000: SqlHierarchyId operation"
                " failed because HierarchyId object was constructed from an invalid"
                " binary string",
            )
        return found

    return text


def _path(text: str) -> bytes:
    found = hierarchy.parsed(text)
    if found is None:
        raise _failed(
            "hierarchyid",
            "HierarchyIdException: 24001: SqlHierarchyId.Parse failed"
            f" because the input string '{text}' is not a valid string representation"
            " of a SqlHierarchyId node",
        )
    return found


def _short(raw: bytes) -> bytes:
    if len(raw) > hierarchy.BYTES_MAX:
        raise _failed(
            "hierarchyid",
            "HierarchyIdException: 24000: SqlHierarchyId operation failed"
            " because HierarchyId object was constructed from an invalid binary string",
        )
    return raw


def _point(text: str, name: str) -> bytes:
    try:
        found = spatial.point(text, geography=name == "geography")
    except ValueError as error:
        raise _failed(name, f"FormatException: {error}") from error
    if found is None:
        raise not_supported(f"the text of other {name} values than POINT (their bytes are taken)")
    return found


def _shape(raw: bytes, name: str) -> bytes:
    if not spatial.is_value(raw):
        raise _failed(name, "FormatException: 24210: Invalid format")
    return raw


def _failed(name: str, reason: str) -> SqlError:
    return messages.error(6522, name, reason)
