"""What the protocol can say and no value of its type can be is refused.

NaN and infinity, which float and real cannot hold, and lengths beyond those of the type.

https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors-8000-to-8999
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.values.types import SqlType, StorageValue
from tailrace_emulator.values.variants import unpacked
from tailrace_emulator.wire.requests import RpcParameter
from tailrace_emulator.wire.table_values import TableValue
from tailrace_emulator.wire.types import TypeInfo
from tailrace_emulator.wire.types.base import DataType

_FLOATS: Final = frozenset((DataType.FLTN, DataType.FLT4, DataType.FLT8))
_FLOAT_VARIANTS: Final = frozenset(map(chr, (DataType.FLT4, DataType.FLT8)))
"""How a sql_variant of float or real begins."""


def check_parameters(parameters: Sequence[RpcParameter]) -> None:
    """Refuse a call whose parameters have such values.

    Raises:
        SqlError: 8023, or 8043 in a table-valued parameter; 8016 or 8037 for a length that its
            type cannot have.
    """
    for number, parameter in enumerate(parameters, 1):
        value = parameter.value
        if parameter.has_wrong_length:
            raise messages.error(8016, number, parameter.name, f"{parameter.type.token:02X}")
        if type(value) is TableValue:
            _check_table(number, parameter.name, value)
        elif _is_wrong(value, parameter.type):
            raise messages.error(8023, number, parameter.name, _shown(parameter.type))


def _check_table(number: int, name: str, table: TableValue) -> None:
    if table.wrong_length is not None and table.columns is not None:
        wrong_row, wrong_place = table.wrong_length
        token = table.columns[wrong_place - 1].type.token
        raise messages.error(8037, number, name, wrong_row, wrong_place, f"{token:02X}")
    for place, column in enumerate(table.columns or ()):
        if column.type.token not in _FLOATS and column.type.token is not DataType.SSVARIANT:
            continue
        for row_number, row in enumerate(table.rows, 1):
            if _is_wrong(row[place], column.type):
                shown = _shown(column.type)
                raise messages.error(8043, number, name, row_number, place + 1, shown)


def check_bulk_load(
    types: Sequence[SqlType], rows: Iterable[Sequence[StorageValue]], names: Sequence[str]
) -> None:
    """Refuse a bulk load whose rows have such values.

    Args:
        names: of the columns, as INSERT BULK lists them.

    Raises:
        SqlError: 7339 for NaN or infinity.
    """
    places = [n for n, t in enumerate(types) if t.name in {"float", "real", "sql_variant"}]
    if not places:
        return
    for row in rows:
        for place in places:
            value = row[place]
            if not _is_finite(value, is_variant=types[place].name == "sql_variant"):
                name = names[place] if place < len(names) else ""
                raise messages.error(7339, "STREAM", "(null)", "[!BulkInsert]", name)


def _is_wrong(value: object, info: TypeInfo) -> bool:
    return not _is_finite(value, is_variant=info.token is DataType.SSVARIANT)


def _is_finite(value: object, *, is_variant: bool) -> bool:
    """Whether a value is not NaN or infinity; other values than numbers are always."""
    if is_variant and isinstance(value, str) and value[0] in _FLOAT_VARIANTS:
        value = unpacked(value)[1]
    return type(value) is not float or math.isfinite(value)


def _shown(info: TypeInfo) -> str:
    """The type as messages name it."""
    if info.token is DataType.SSVARIANT:
        return "sql_variant"
    return "real" if info.length == 4 else "float"
