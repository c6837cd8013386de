"""Grammar of ALTER and DROP."""

from __future__ import annotations

from typing import Final

from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.syntax import parse_definitions as definitions
from tailrace_emulator.tsql.syntax import parse_partitions as partitions
from tailrace_emulator.tsql.syntax.definition_statements import (
    MODIFY_NAME,
    AlterAdd,
    AlterColumn,
    AlterDatabase,
    AlterDrop,
    AlterMask,
    DropObject,
)
from tailrace_emulator.tsql.syntax.grammar import statement
from tailrace_emulator.tsql.syntax.index_clauses import (
    at_index_options,
    index_options,
    rebuild_options,
)
from tailrace_emulator.tsql.syntax.maintenance_statements import AlterIndex
from tailrace_emulator.tsql.syntax.nodes import Name
from tailrace_emulator.tsql.syntax.parse_base import TokenCursor
from tailrace_emulator.tsql.syntax.statements import (
    ColumnDefinition,
    ConstraintDefinition,
    Ignored,
    Statement,
)
from tailrace_emulator.tsql.syntax.switches import SwitchConstraints, SwitchTrigger
from tailrace_emulator.tsql.syntax.tokens import Kind, Token

_DROPPABLE: Final = (
    "TABLE", "DATABASE", "SCHEMA", "PROCEDURE", "PROC", "VIEW", "FUNCTION", "TRIGGER",
    "SYNONYM", "SEQUENCE", "TYPE",
)  # fmt: skip


@statement("ALTER")
def alter_other(cursor: TokenCursor) -> Statement:
    """ALTER of what nobody registered."""
    cursor.expect("ALTER")
    raise not_supported(f"ALTER {cursor.token.text.upper()}")


@statement("ALTER", "TABLE")
def alter_table(cursor: TokenCursor) -> Statement:
    """ALTER TABLE name action."""
    start = cursor.token
    cursor.expect("ALTER", "TABLE")
    table = cursor.dotted_name()
    said = None
    if cursor.at("WITH") and cursor.ahead().upper in {"CHECK", "NOCHECK"}:
        said = cursor.ahead().upper
        cursor.position += 2
    if cursor.accept("ADD"):
        return _alter_add(cursor, start, table, validate=said != "NOCHECK")
    if cursor.at("CHECK", "CONSTRAINT") or cursor.at("NOCHECK", "CONSTRAINT"):
        return _switch_constraints(cursor, start, table, validate=said == "CHECK")
    if cursor.accept("DROP"):
        return _alter_drop(cursor, start, table)
    if cursor.accept("ALTER", "COLUMN"):
        return _alter_column(cursor, start, table)
    if cursor.at("ENABLE", "TRIGGER") or cursor.at("DISABLE", "TRIGGER"):
        return _alter_triggers(cursor, start, table)
    if cursor.accept("SWITCH"):
        return partitions.alter_switch(cursor, table, start.line)
    if cursor.accept("REBUILD"):
        options = rebuild_options(cursor)
        return AlterIndex(None, table, options.ignore_dup_key, of_table=True, line=start.line)
    if cursor.accept("SET"):
        cursor.skip_parenthesised()
        return Ignored("ALTER TABLE", line=start.line)
    raise not_supported(f"ALTER TABLE ... {cursor.token.text.upper()}")


def _alter_column(cursor: TokenCursor, start: Token, table: Name) -> Statement:
    """``name type [option ..] [WITH (ONLINE = ..)]``; or a mask, added or dropped."""
    name = cursor.identifier()
    if cursor.accept("DROP", "MASKED"):
        return AlterMask(table, name, None, cursor.text_between(start), line=start.line)
    if cursor.at("ADD", "MASKED"):
        cursor.expect("ADD")
        mask = definitions.mask_clause(cursor)
        return AlterMask(table, name, mask, cursor.text_between(start), line=start.line)
    if cursor.at_any("ADD", "DROP"):
        raise not_supported(f"ALTER COLUMN {cursor.token.upper}")
    definition = ColumnDefinition(name, cursor.declared_type())
    while (changed := definitions.column_option(cursor, definition)) is not None:
        definition = changed
    if at_index_options(cursor):
        index_options(cursor)
    return AlterColumn(table, definition, cursor.text_between(start), line=start.line)


def _switch_constraints(
    cursor: TokenCursor, start: Token, table: Name, *, validate: bool
) -> Statement:
    """CHECK|NOCHECK CONSTRAINT names|ALL."""
    disable = cursor.advance().upper == "NOCHECK"
    cursor.expect("CONSTRAINT")
    names: list[str] = []
    if not cursor.accept("ALL"):
        names.append(cursor.identifier())
        while cursor.accept(","):
            names.append(cursor.identifier())
    text = cursor.text_between(start)
    return SwitchConstraints(table, tuple(names), disable, validate, text, line=start.line)


def _alter_triggers(cursor: TokenCursor, start: Token, table: Name) -> Statement:
    """ALTER TABLE t ENABLE|DISABLE TRIGGER names|ALL."""
    disable = cursor.advance().upper == "DISABLE"
    cursor.expect("TRIGGER")
    names: list[Name] = []
    if not cursor.accept("ALL"):
        names.append((cursor.identifier(),))
        while cursor.accept(","):
            names.append((cursor.identifier(),))
    return SwitchTrigger(table, tuple(names), disable, line=start.line)


@statement("ENABLE", "TRIGGER")
@statement("DISABLE", "TRIGGER")
def switch_trigger(cursor: TokenCursor) -> Statement:
    """``ENABLE|DISABLE TRIGGER names|ALL ON table``."""
    token = cursor.advance()
    cursor.expect("TRIGGER")
    names: list[Name] = []
    if not cursor.accept("ALL"):
        names.append(cursor.dotted_name())
        while cursor.accept(","):
            names.append(cursor.dotted_name())
    cursor.expect("ON")
    if cursor.at_any("DATABASE", "ALL"):
        raise not_supported("DDL and logon triggers")
    disable = token.upper == "DISABLE"
    return SwitchTrigger(cursor.dotted_name(), tuple(names), disable, line=token.line)


def _alter_add(cursor: TokenCursor, start: Token, table: Name, *, validate: bool) -> Statement:
    """ADD columns and constraints."""
    columns: list[ColumnDefinition] = []
    constraints: list[ConstraintDefinition] = []
    while True:
        if cursor.at("PERIOD", "FOR"):
            raise not_supported("temporal tables (PERIOD FOR SYSTEM_TIME)")
        if cursor.at_any("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "DEFAULT"):
            constraints.append(definitions.table_constraint(cursor))
        else:
            columns.append(definitions.column_definition(cursor))
        if not cursor.accept(","):
            break
    return AlterAdd(
        table,
        tuple(columns),
        tuple(constraints),
        cursor.text_between(start),
        validate,
        line=start.line,
    )


def _alter_drop(cursor: TokenCursor, start: Token, table: Name) -> Statement:
    """DROP [CONSTRAINT] a, COLUMN b, c."""
    items: list[tuple[str, str]] = []
    kind, if_exists = "CONSTRAINT", False
    while True:
        word = cursor.accept_any("COLUMN", "CONSTRAINT")
        if word:
            kind = word
        if_exists = cursor.accept("IF", "EXISTS") or if_exists
        items.append((kind, cursor.identifier()))
        if at_index_options(cursor):
            index_options(cursor)
        if not cursor.accept(","):
            break
    return AlterDrop(table, tuple(items), if_exists, cursor.text_between(start), line=start.line)


@statement("ALTER", "DATABASE")
def alter_database(cursor: TokenCursor) -> Statement:
    """ALTER DATABASE name SET option [value], ... [WITH ..], or MODIFY NAME = name."""
    line = cursor.token.line
    cursor.expect("ALTER", "DATABASE")
    name = "" if cursor.accept("CURRENT") else cursor.identifier()
    if cursor.accept("MODIFY", "NAME"):
        cursor.expect("=")
        return AlterDatabase(name, ((MODIFY_NAME, cursor.identifier()),), line=line)
    if not cursor.accept("SET"):
        files = partitions.alter_files(cursor, name, line)
        if files is not None:
            return files
        raise not_supported(f"ALTER DATABASE ... {cursor.token.text.upper()}")
    settings = []
    while True:
        option = cursor.advance().text.upper()
        cursor.accept("=")
        value = ""
        if cursor.at("("):
            cursor.skip_parenthesised()
        elif cursor.token.kind in {Kind.WORD, Kind.NUMBER} and not cursor.at("WITH"):
            value = cursor.advance().text.upper()
            if cursor.at("("):  # QUERY_STORE = ON (..)
                cursor.skip_parenthesised()
        settings.append((option, value))
        if not cursor.accept(","):
            break
    if cursor.accept("WITH"):
        cursor.accept("ROLLBACK")
        cursor.advance()
    return AlterDatabase(name, tuple(settings), line=line)


@statement("DROP")
def drop(cursor: TokenCursor) -> Statement:
    """DROP kind [IF EXISTS] names."""
    line = cursor.token.line
    cursor.expect("DROP")
    kind = cursor.accept_any(*_DROPPABLE)
    if kind is None:
        raise not_supported(f"DROP {cursor.token.text.upper()}")
    if_exists = cursor.accept("IF", "EXISTS")
    names = [cursor.dotted_name()]
    while cursor.accept(","):
        names.append(cursor.dotted_name())
    kind = "PROCEDURE" if kind == "PROC" else kind
    if kind == "TRIGGER" and cursor.accept("ON"):
        raise not_supported("DDL and logon triggers (DROP TRIGGER ... ON DATABASE)")
    return DropObject(kind, tuple(names), if_exists, line=line)


@statement("DROP", "INDEX")
def drop_index(cursor: TokenCursor) -> Statement:
    """DROP INDEX [IF EXISTS] name ON table, or table.name."""
    line = cursor.token.line
    cursor.expect("DROP", "INDEX")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.dotted_name()
    table = cursor.dotted_name() if cursor.accept("ON") else name[:-1]
    if at_index_options(cursor):
        index_options(cursor)
    return DropObject("INDEX", (name[-1:],), if_exists, table, line=line)
