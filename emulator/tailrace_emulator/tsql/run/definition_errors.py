"""What an error of a definition ends.

The documentation of TRY...CATCH says what most errors of a DDL statement (such as CREATE TABLE) do.
They terminate the transaction outside of TRY and make it uncommittable inside.
"""

from __future__ import annotations

from typing import Final

from tailrace_emulator.messages.errors import NOT_SUPPORTED, Aborts, SqlError
from tailrace_emulator.tsql.syntax.definition_statements import (
    AlterAdd,
    AlterColumn,
    AlterDrop,
    AlterMask,
    CreateTable,
)
from tailrace_emulator.tsql.syntax.statements import Statement

_OF_TABLES: Final = (CreateTable, AlterAdd, AlterColumn, AlterDrop, AlterMask)
_OWN_RULE: Final = frozenset({229, 230, 262, 515, 547, 1205, 1222, 1505})
"""Of permissions, locks and rows: they end what they end in every statement."""


def with_scope_of_definitions(error: SqlError, node: Statement) -> SqlError:
    """The error, which ends the transaction if ``node`` defines a table."""
    if (
        isinstance(node, _OF_TABLES)
        and error.severity > 10
        and error.number < NOT_SUPPORTED
        and error.number not in _OWN_RULE
        and error.aborts != Aborts.REPORTED
    ):
        error.aborts = Aborts.TRANSACTION
    return error
