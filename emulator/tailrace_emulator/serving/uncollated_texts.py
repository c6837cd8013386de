"""Texts of table-valued parameters that come without a collation.

A client may leave the collation of a varchar column zero and encode the values in the code page of
the database, as tedious does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tailrace_emulator.values.collations import collation, page_of
from tailrace_emulator.wire.code_pages import CodePage, collation_code_page
from tailrace_emulator.wire.requests import RpcParameter
from tailrace_emulator.wire.table_values import TableValue
from tailrace_emulator.wire.types import Value
from tailrace_emulator.wire.types.base import DataType

_NONE: Final = bytes(5)
_TEXTS: Final = frozenset({DataType.BIGVARCHAR, DataType.BIGCHAR, DataType.TEXT})


def in_database_page(parameter: RpcParameter, database_collation: str) -> RpcParameter:
    """The parameter with such texts read in the code page of the database's collation."""
    table = parameter.value
    if not isinstance(table, TableValue) or not table.columns:
        return parameter
    places = {
        place
        for place, column in enumerate(table.columns)
        if column.type.token in _TEXTS and column.type.collation == _NONE
    }
    if not places:
        return parameter
    wire = collation(database_collation).wire
    columns = tuple(
        replace(column, type=replace(column.type, collation=wire)) if place in places else column
        for place, column in enumerate(table.columns)
    )
    page = page_of(database_collation)
    rows = tuple(
        tuple(_reread(value, page) if place in places else value for place, value in enumerate(row))
        for row in table.rows
    )
    return parameter._replace(value=replace(table, columns=columns, rows=rows))


def _reread(value: Value, page: CodePage) -> Value:
    """A text that was read in the code page of no collation, which keeps every byte."""
    if not isinstance(value, str):
        return value
    return page.decode(collation_code_page(_NONE).encode(value))
