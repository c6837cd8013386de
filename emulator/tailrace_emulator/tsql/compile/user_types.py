"""What the name of a declared type means in a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage.model import UserType
from tailrace_emulator.tsql.certain import known
from tailrace_emulator.tsql.syntax.definition_statements import CreateModule
from tailrace_emulator.tsql.syntax.parser import parse_batch
from tailrace_emulator.tsql.syntax.statements import (
    ColumnDefinition,
    ConstraintDefinition,
    Declaration,
)
from tailrace_emulator.tsql.syntax.type_names import NamedType, unknown_type
from tailrace_emulator.tsql.syntax.type_statements import CreateType
from tailrace_emulator.values.types import SqlType

if TYPE_CHECKING:
    from tailrace_emulator.storage.engine import Database


@dataclass(frozen=True, slots=True)
class TableShape:
    """The parts of a table variable of a table type."""

    user_type: UserType
    columns: tuple[ColumnDefinition, ...]
    constraints: tuple[ConstraintDefinition, ...]


def find_type(database: Database, parts: Sequence[str]) -> UserType | None:
    """The user-defined type of a dotted name: in schema dbo when it says none."""
    if len(parts) > 3 or not parts:
        return None
    schema = parts[-2] if len(parts) > 1 and parts[-2] else "dbo"
    return database.user_type(schema, parts[-1])


def resolved(database: Database, declared: SqlType, ordinal: int = 1, line: int = 1) -> SqlType:
    """What a declared type is: a system type, or the NamedType of a table type.

    Raises:
        SqlError: 2715, there is no such type; ``ordinal`` is the place of its user.
    """
    if not isinstance(declared, NamedType):
        return declared
    found = find_type(database, declared.parts)
    if found is None:
        raise unknown_type(declared.name, line, ordinal)
    if found.type is not None:
        return found.type
    shown = f"{found.schema}.{found.name}"
    return NamedType(shown, parts=(found.schema, found.name))


def scalar_type(database: Database, declared: SqlType | None) -> SqlType | None:
    """The type of a scalar variable; None of a table variable.

    Raises:
        SqlError: 2715 for an unknown type.
    """
    if declared is None:
        return None
    found = resolved(database, declared)
    return None if isinstance(found, NamedType) else found


def with_types(database: Database, node: CreateModule) -> CreateModule:
    """A module whose parameters and result have their types looked up.

    Raises:
        SqlError: 2715 for an unknown type.
    """
    named = any(isinstance(p.type, NamedType) for p in node.parameters)
    if not named and not isinstance(node.returns, NamedType):
        return node
    return replace(
        node,
        parameters=tuple(
            replace(p, type=resolved(database, p.type, number))
            for number, p in enumerate(node.parameters, 1)
        ),
        returns=None if node.returns is None else resolved(database, node.returns),
    )


def table_shape(database: Database, named: NamedType) -> TableShape:
    """The columns and constraints of a table type.

    Raises:
        SqlError: 2715 for an unknown type.
    """
    found = find_type(database, named.parts)
    if found is None or not found.is_table:
        raise unknown_type(named.name)
    (statement,) = parse_batch(found.text).statements
    node = known(statement if isinstance(statement, CreateType) else None, "text of a table type")
    return TableShape(found, node.columns, node.constraints)


def declared_table(database: Database, declaration: Declaration) -> TableShape | None:
    """The shape of a variable that is declared with a table type; None of any other.

    Raises:
        SqlError: 2715 for an unknown type.
    """
    if declaration.type is None:
        return None
    found = resolved(database, declaration.type)
    return table_shape(database, found) if isinstance(found, NamedType) else None


def no_type(name: str) -> SqlError:
    """218."""
    return messages.error(218, name)
