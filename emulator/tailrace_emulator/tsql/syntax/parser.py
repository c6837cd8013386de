"""The parser's entry points. Importing this module fills the registry of grammars."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.tsql.syntax import (
    parse_absent,
    parse_alter,
    parse_control,
    parse_data,
    parse_definitions,
    parse_execute,
    parse_expressions,
    parse_maintenance,
    parse_modules,
    parse_objects,
    parse_partitions,
    parse_queries,
    parse_security,
    parse_text,
)
from tailrace_emulator.tsql.syntax.definition_statements import ProcedureParameterDefinition
from tailrace_emulator.tsql.syntax.nodes import Expression
from tailrace_emulator.tsql.syntax.parse_base import TokenCursor
from tailrace_emulator.tsql.syntax.statements import Block, Statement
from tailrace_emulator.tsql.syntax.text_cache import TextCache
from tailrace_emulator.tsql.syntax.tokens import Kind

__all__ = [
    "parse_absent",
    "parse_alter",
    "parse_batch",
    "parse_control",
    "parse_data",
    "parse_declarations",
    "parse_definitions",
    "parse_execute",
    "parse_expression",
    "parse_expressions",
    "parse_maintenance",
    "parse_module",
    "parse_modules",
    "parse_objects",
    "parse_partitions",
    "parse_queries",
    "parse_security",
    "parse_text",
]

_EXPRESSIONS_MAX: Final = 2000


_BATCHES: Final = TextCache[Block](characters_max=500_000, text_max=65_536)


def parse_batch(sql: str, *, quoted_identifier: bool = True) -> Block:
    """The statements of a batch.

    Equal texts share one tree, so that compiled plans can be found by node.

    Raises:
        SqlError: 102, 156 and other syntax errors; 191 for text that is nested too deeply; 50900
            for grammar that is refused by name.
    """
    try:
        return _BATCHES.get(
            sql,
            (sql, quoted_identifier),
            lambda: parse_control.batch(TokenCursor(sql, quoted_identifier=quoted_identifier)),
        )
    except RecursionError:
        raise messages.nested_too_deeply() from None


def parse_module(text: str, quoted_identifier: bool) -> Statement:
    """The CREATE statement of a stored procedure, function, view or trigger."""
    (statement,) = parse_batch(text, quoted_identifier=quoted_identifier).statements
    return statement


@lru_cache(maxsize=_EXPRESSIONS_MAX)
def parse_expression(text: str) -> Expression:
    """A stored DEFAULT, CHECK or computed-column expression."""
    cursor = TokenCursor(text)
    try:
        expression = parse_expressions.condition(cursor)
    except RecursionError:
        raise messages.nested_too_deeply() from None
    if cursor.token.kind is not Kind.END:
        cursor.fail()
    return expression


@lru_cache(maxsize=_EXPRESSIONS_MAX)
def parse_declarations(text: str) -> tuple[ProcedureParameterDefinition, ...]:
    """The second argument of sp_executesql."""
    return parse_modules.declaration_list(TokenCursor(text))
