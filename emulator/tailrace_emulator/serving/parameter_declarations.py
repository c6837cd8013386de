"""The @params text of sp_executesql and sp_prepare: names and types of a text's parameters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.syntax.parse_base import TokenCursor
from tailrace_emulator.tsql.syntax.tokens import Kind
from tailrace_emulator.values.types import SqlType


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declared parameter; ``name`` with its @."""

    name: str
    type: SqlType
    output: bool = False


@lru_cache(maxsize=2048)
def parse_declarations(text: str) -> tuple[Declaration, ...]:
    """Parse ``@P1 int, @P2 nvarchar(40) OUTPUT``.

    Raises:
        SqlError: 102 for bad syntax, 2715 for an unknown type.
    """
    cursor = TokenCursor(text)
    if _at_end(cursor):
        return ()
    declarations = [_declaration(cursor)]
    while cursor.accept(","):
        declarations.append(_declaration(cursor))
    if not _at_end(cursor):
        cursor.fail()
    return tuple(declarations)


def _at_end(cursor: TokenCursor) -> bool:
    return cursor.token.kind is Kind.END


def _declaration(cursor: TokenCursor) -> Declaration:
    name = cursor.variable()
    cursor.accept("AS")
    sql_type = cursor.declared_type()
    if cursor.at("="):
        raise not_supported("default values in a parameter list")
    output = cursor.accept_any("OUTPUT", "OUT") is not None
    cursor.accept("READONLY")
    return Declaration(name, sql_type, output)
