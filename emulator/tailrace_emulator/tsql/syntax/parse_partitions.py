"""Grammar of partition functions and schemes, of SWITCH, and of filegroups."""

from __future__ import annotations

from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.syntax import parse_expressions as expressions
from tailrace_emulator.tsql.syntax.grammar import statement
from tailrace_emulator.tsql.syntax.nodes import Expression, Name
from tailrace_emulator.tsql.syntax.parse_base import TokenCursor
from tailrace_emulator.tsql.syntax.partition_statements import (
    AlterFiles,
    AlterPartitionFunction,
    AlterSwitch,
    CreatePartitionFunction,
    CreatePartitionScheme,
    DropPartitioning,
)
from tailrace_emulator.tsql.syntax.statements import Placement, Statement
from tailrace_emulator.tsql.syntax.tokens import Kind


def placement(cursor: TokenCursor) -> Placement | None:
    """``ON filegroup`` or ``ON scheme(column)``, if it comes next."""
    if not (cursor.at("ON") and cursor.ahead().kind in {Kind.WORD, Kind.QUOTED}):
        return None
    cursor.advance()
    name = cursor.advance().text
    column = None
    if cursor.accept("("):
        column = cursor.identifier()
        cursor.expect(")")
    return Placement(name, column)


def storage_options(cursor: TokenCursor) -> Placement | None:
    """``ON x``, ``TEXTIMAGE_ON x`` and ``WITH (..)``, in any order; returns the first."""
    first: Placement | None = None
    while True:
        if cursor.at("WITH", "("):
            if any(
                token.upper in {"SYSTEM_VERSIONING", "MEMORY_OPTIMIZED", "LEDGER"}
                for token in cursor.tokens[cursor.position : cursor.position + 4]
            ):
                raise not_supported(f"{cursor.ahead(2).text.upper()} tables")
            cursor.accept("WITH")
            cursor.skip_parenthesised()
        elif cursor.at("TEXTIMAGE_ON"):
            cursor.position += 2
        elif (found := placement(cursor)) is not None:
            first = found
        else:
            return first


@statement("CREATE", "PARTITION")
def create_partitioning(cursor: TokenCursor) -> Statement:
    """CREATE PARTITION FUNCTION or SCHEME."""
    line = cursor.token.line
    cursor.expect("CREATE", "PARTITION")
    if cursor.accept("FUNCTION"):
        return _create_function(cursor, line)
    cursor.expect("SCHEME")
    name = cursor.identifier()
    cursor.expect("AS", "PARTITION")
    function = cursor.identifier()
    to_all = cursor.accept("ALL")
    cursor.expect("TO", "(")
    groups = [cursor.advance().text]
    while cursor.accept(","):
        groups.append(cursor.advance().text)
    cursor.expect(")")
    return CreatePartitionScheme(name, function, to_all, tuple(groups), line=line)


def _create_function(cursor: TokenCursor, line: int) -> Statement:
    name = cursor.identifier()
    cursor.expect("(")
    sql_type = cursor.data_type()
    cursor.expect(")")
    cursor.expect("AS", "RANGE")
    right = cursor.accept_any("LEFT", "RIGHT") == "RIGHT"
    cursor.expect("FOR", "VALUES", "(")
    values: list[Expression] = []
    while not cursor.at(")"):
        values.append(expressions.scalar(cursor))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return CreatePartitionFunction(name, sql_type, right, tuple(values), line=line)


@statement("ALTER", "PARTITION")
def alter_partitioning(cursor: TokenCursor) -> Statement:
    """ALTER PARTITION FUNCTION or SCHEME."""
    line = cursor.token.line
    cursor.expect("ALTER", "PARTITION")
    if cursor.accept("SCHEME"):
        name = cursor.identifier()
        cursor.expect("NEXT", "USED")
        if cursor.at_name() or cursor.at("PRIMARY"):
            cursor.advance()
        return AlterFiles(name, "ignored", line=line)
    cursor.expect("FUNCTION")
    name = cursor.identifier()
    cursor.expect("(", ")")
    word = cursor.accept_any("SPLIT", "MERGE")
    if word is None:
        cursor.fail()
    cursor.expect("RANGE", "(")
    value = expressions.scalar(cursor)
    cursor.expect(")")
    return AlterPartitionFunction(name, word == "SPLIT", value, line=line)


@statement("DROP", "PARTITION")
def drop_partitioning(cursor: TokenCursor) -> Statement:
    """DROP PARTITION FUNCTION or SCHEME."""
    line = cursor.token.line
    cursor.expect("DROP", "PARTITION")
    kind = cursor.accept_any("FUNCTION", "SCHEME")
    if kind is None:
        cursor.fail()
    return DropPartitioning(kind, cursor.identifier(), line=line)


def alter_switch(cursor: TokenCursor, table: Name, line: int) -> Statement:
    """``[PARTITION n] TO target [PARTITION n]``, after ALTER TABLE .. SWITCH."""
    source = expressions.scalar(cursor) if cursor.accept("PARTITION") else None
    cursor.expect("TO")
    target = cursor.dotted_name()
    destination = expressions.scalar(cursor) if cursor.accept("PARTITION") else None
    if cursor.accept("WITH"):
        if any(t.upper == "TRUNCATE_TARGET" for t in cursor.tokens[cursor.position :]):
            raise not_supported("ALTER TABLE ... SWITCH WITH (TRUNCATE_TARGET = ON)")
        cursor.skip_parenthesised()
    return AlterSwitch(table, source, target, destination, line=line)


def alter_files(cursor: TokenCursor, database: str, line: int) -> Statement | None:
    """ADD, REMOVE and MODIFY of files and filegroups, after ALTER DATABASE name."""
    if cursor.accept("ADD", "FILEGROUP"):
        group = cursor.identifier()
        if cursor.accept("CONTAINS"):
            raise not_supported(f"filegroups that contain {cursor.token.text.upper()}")
        return AlterFiles(database, "add_filegroup", group, line=line)
    if cursor.accept("REMOVE", "FILEGROUP"):
        return AlterFiles(database, "remove_filegroup", cursor.identifier(), line=line)
    if cursor.accept("MODIFY", "FILEGROUP"):
        group = cursor.advance().text
        if not cursor.accept("DEFAULT"):
            raise not_supported(f"ALTER DATABASE ... MODIFY FILEGROUP {cursor.token.text}")
        return AlterFiles(database, "default_filegroup", group, line=line)
    if cursor.accept("ADD", "FILE"):
        files = [_file(cursor)]
        while cursor.accept(","):
            files.append(_file(cursor))
        group = "PRIMARY"
        if cursor.accept("TO", "FILEGROUP"):
            group = cursor.advance().text
        return AlterFiles(database, "add_file", group, tuple(files), line=line)
    if cursor.accept("ADD", "LOG", "FILE") or cursor.accept("MODIFY", "FILE"):
        _file(cursor)
        while cursor.accept(","):
            _file(cursor)
        return AlterFiles(database, "ignored", line=line)
    return None


def database_files(cursor: TokenCursor) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """``CONTAINMENT = NONE ON PRIMARY (..), FILEGROUP x (..) LOG ON (..)``: the filegroups."""
    if cursor.accept("CONTAINMENT", "=") and not cursor.accept("NONE"):
        raise not_supported("contained databases")
    groups: dict[str, tuple[str, ...]] = {}
    if cursor.accept("ON"):
        group = "PRIMARY"
        cursor.accept("PRIMARY")
        while True:
            if cursor.accept("FILEGROUP"):
                group = cursor.identifier()
                cursor.accept("DEFAULT")
            groups[group] = (*groups.get(group, ()), _file(cursor))
            if not cursor.accept(","):
                break
    if cursor.accept("LOG", "ON"):
        _file(cursor)
        while cursor.accept(","):
            _file(cursor)
    return tuple((name, files) for name, files in groups.items() if name != "PRIMARY")


def _file(cursor: TokenCursor) -> str:
    """``( NAME = x, FILENAME = 'y', .. )``: its logical name."""
    cursor.expect("(", "NAME", "=")
    name = cursor.advance().text
    depth = 1
    while depth:
        token = cursor.advance()
        if token.kind is Kind.END:
            cursor.fail()
        depth += (token.upper == "(") - (token.upper == ")")
    return name
