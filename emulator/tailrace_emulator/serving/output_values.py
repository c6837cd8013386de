"""Output parameters on their way back: in the type that the client sent, as a variable of its own.

A call's parameter is to the client what the variable of ``EXEC p @v OUTPUT`` is to a batch. The
procedure's value is converted to its type, and text that is longer is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tailrace_emulator.tsql.conversions import convert
from tailrace_emulator.values.results import ReturnValue
from tailrace_emulator.values.tds_types import from_wire, to_wire
from tailrace_emulator.values.types import MAX, SqlType, StorageValue
from tailrace_emulator.wire.code_pages import collation_code_page
from tailrace_emulator.wire.requests import RpcParameter
from tailrace_emulator.wire.table_values import TableValue
from tailrace_emulator.wire.types.base import DataType, TypeInfo


class SentParameters(NamedTuple):
    """All parameters of a call as sent, and how many come before those of its text."""

    parameters: Sequence[RpcParameter] = ()
    skipped: int = 0

    def ordinal(self, value: ReturnValue) -> int:
        """Where among all parameters of the call, from 0, an output value belongs."""
        return max(value.position + self.skipped, 0)

    def as_sent(self, value: ReturnValue) -> tuple[TypeInfo, StorageValue]:
        """An output value in the type that the client sent.

        Raises:
            SqlError: it does not convert.
        """
        ordinal = self.ordinal(value)
        sent = self.parameters[ordinal] if ordinal < len(self.parameters) else None
        if sent is None or sent.type.token is DataType.NULL or isinstance(sent.value, TableValue):
            return to_wire(value.type), value.value
        return _in_type(value.type, value.value, sent.type)


def _in_type(
    declared: SqlType, value: StorageValue, sent: TypeInfo
) -> tuple[TypeInfo, StorageValue]:
    """A value and its TYPE_INFO, both in the sent type."""
    target = from_wire(sent)
    info = to_wire(target)
    if sent.collation:
        info = replace(info, collation=sent.collation)
    if value is None:
        return info, None
    if declared.is_character and target.is_character and isinstance(value, str):
        return info, _cut(value, target, info)
    if replace(declared, collation=None) == replace(target, collation=None):
        return info, value
    return info, convert(value, declared, target)


def _cut(text: str, target: SqlType, info: TypeInfo) -> str:
    """As much of a text as its type holds."""
    if target.length == MAX or target.name == "xml":
        return text
    text = text[: target.length]
    if target.name not in {"nchar", "nvarchar"}:
        encode = collation_code_page(info.collation).encode
        while len(encode(text)) > target.length:
            text = text[:-1]
    return text
