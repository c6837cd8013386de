"""The values of an RPC call -> the declared parameters of the text that it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.serving.parameter_declarations import Declaration
from tailrace_emulator.tsql.conversions import converter
from tailrace_emulator.tsql.run.table_arguments import clash
from tailrace_emulator.tsql.syntax.type_names import NamedType
from tailrace_emulator.values.results import Parameter, TableRows
from tailrace_emulator.values.tds_types import sent_type
from tailrace_emulator.values.types import SqlType
from tailrace_emulator.wire.half_pairs import kept_value
from tailrace_emulator.wire.requests import RpcParameter
from tailrace_emulator.wire.table_values import TableValue
from tailrace_emulator.wire.types import TypeInfo

Conversion = Callable[[Any], Any]


class ParameterBinding:
    """Binds values to one text's declared parameters, again and again.

    A driver sends a value in a type of its own choice; it is converted to the declared one. The
    conversion is remembered with the type that was sent, as thousands of executions of a
    prepared text are alike.
    """

    def __init__(self, sql: str, declarations: tuple[Declaration, ...]) -> None:
        self._sql = sql
        self._declarations = declarations
        self._folded = [declaration.name.casefold() for declaration in declarations]
        self._known: list[tuple[TypeInfo | None, Conversion | None]] = [(None, None)] * len(
            declarations
        )

    def bind(self, given: Sequence[RpcParameter]) -> list[Parameter]:
        """Values go by name where they have one, else by position.

        Raises:
            SqlError: 8178 a declared parameter has no value, 8144 too many values; the errors of
                converting a value.
        """
        declarations = self._declarations
        if len(given) > len(declarations):
            raise messages.error(8144, "", state=1)
        order = self._positions(given) if any(p.name for p in given) else range(len(given))
        if len(order) < len(declarations):
            raise self._not_supplied(declarations[len(order)])
        parameters = []
        for position, (declaration, index) in enumerate(zip(declarations, order, strict=True)):
            sent = given[index]
            value = kept_value(sent.value)
            if isinstance(value, TableValue):
                parameters.append(self._table(declaration, value))
                continue
            if value is not None:
                conversion = self._conversion(position, sent.type)
                value = value if conversion is None else conversion(value)
            parameters.append(
                Parameter(declaration.name, declaration.type, value, sent.is_output, None, index)
            )
        return parameters

    def _positions(self, given: Sequence[RpcParameter]) -> list[int]:
        """For each declared parameter, where its value is."""
        named = {p.name.casefold(): index for index, p in enumerate(given) if p.name}
        positions = []
        for position, (declaration, folded) in enumerate(
            zip(self._declarations, self._folded, strict=True)
        ):
            index = named.get(folded)
            if index is None:
                if position >= len(given) or given[position].name:
                    raise self._not_supplied(declaration)
                index = position
            positions.append(index)
        return positions

    def _conversion(self, position: int, sent: TypeInfo) -> Conversion | None:
        known, conversion = self._known[position]
        if known is not sent and known != sent:
            conversion = converter(sent_type(sent), self._declarations[position].type)
            self._known[position] = (sent, conversion)
        return conversion

    def _table(self, declaration: Declaration, value: TableValue) -> Parameter:
        if not isinstance(declaration.type, NamedType):
            raise clash("table type", declaration.type.name)
        return table_parameter(declaration.name, declaration.type, value)

    def _not_supplied(self, declaration: Declaration) -> SqlError:
        declared = ",".join(f"{d.name} {d.type}" for d in self._declarations)
        return messages.error(8178, f"({declared}){self._sql[:1000]}", declaration.name)


def table_parameter(name: str, sql_type: SqlType, value: TableValue) -> Parameter:
    """A table-valued parameter."""
    columns = value.columns or ()
    rows = TableRows(
        value.type_name,
        [sent_type(column.type) for column in columns],
        [tuple(map(kept_value, row)) for row in value.rows],
        frozenset(place for place, column in enumerate(columns) if column.is_default),
    )
    return Parameter(name, sql_type, None, table=rows)
