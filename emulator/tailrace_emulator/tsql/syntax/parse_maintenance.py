"""Grammar of statistics, ALTER INDEX, KILL, and of DBCC commands without an effect here."""

from __future__ import annotations

from typing import Final

from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.syntax import parse_expressions as expressions
from tailrace_emulator.tsql.syntax.grammar import statement
from tailrace_emulator.tsql.syntax.index_clauses import options_in_parentheses, rebuild_options
from tailrace_emulator.tsql.syntax.maintenance_statements import (
    AlterIndex,
    ConsoleCommand,
    CreateStatistics,
    DropStatistics,
    Kill,
    UpdateStatistics,
)
from tailrace_emulator.tsql.syntax.parse_base import TokenCursor
from tailrace_emulator.tsql.syntax.statements import Statement
from tailrace_emulator.tsql.syntax.tokens import Kind

_WITHOUT_EFFECT: Final = (
    "FREEPROCCACHE", "DROPCLEANBUFFERS", "FREESYSTEMCACHE", "FREESESSIONCACHE", "UPDATEUSAGE",
)  # fmt: skip
"""They throw caches away or correct counts, of which there are none."""


@statement("CREATE", "STATISTICS")
def create_statistics(cursor: TokenCursor) -> Statement:
    """CREATE STATISTICS name ON table (columns) [WHERE ..] [WITH ..]."""
    line = cursor.token.line
    cursor.expect("CREATE", "STATISTICS")
    name = cursor.identifier()
    cursor.expect("ON")
    table = cursor.dotted_name()
    columns = cursor.name_list()
    where = ""
    if cursor.accept("WHERE"):
        start = cursor.token
        expressions.condition(cursor)
        where = cursor.text_between(start)
    options = _statistics_options(cursor)
    return CreateStatistics(name, table, columns, where, "NORECOMPUTE" in options, line=line)


@statement("UPDATE", "STATISTICS")
def update_statistics(cursor: TokenCursor) -> Statement:
    """UPDATE STATISTICS table [name | (names)] [WITH ..]."""
    line = cursor.token.line
    cursor.expect("UPDATE", "STATISTICS")
    table = cursor.dotted_name()
    names: tuple[str, ...] = ()
    if cursor.at("("):
        names = cursor.name_list()
    elif cursor.at_name():
        names = (cursor.identifier(),)
    _statistics_options(cursor)
    return UpdateStatistics(table, names, line=line)


def _statistics_options(cursor: TokenCursor) -> set[str]:
    """``WITH FULLSCAN, NORECOMPUTE, ...``: the words."""
    words: set[str] = set()
    if not cursor.accept("WITH"):
        return words
    while True:
        words.add(cursor.advance().upper)
        if words & {"SAMPLE"} and cursor.token.kind is Kind.NUMBER:
            cursor.advance()
            cursor.accept_any("PERCENT", "ROWS")
        if cursor.accept("ON"):
            cursor.expect("PARTITIONS")
            cursor.skip_parenthesised()
        if cursor.accept("="):
            cursor.advance()
        if not cursor.accept(","):
            return words


@statement("DROP", "STATISTICS")
def drop_statistics(cursor: TokenCursor) -> Statement:
    """DROP STATISTICS table.name, ..."""
    line = cursor.token.line
    cursor.expect("DROP", "STATISTICS")
    names = [cursor.dotted_name()]
    while cursor.accept(","):
        names.append(cursor.dotted_name())
    if any(len(name) < 2 for name in names):
        cursor.fail()
    return DropStatistics(tuple(names), line=line)


@statement("ALTER", "INDEX")
def alter_index(cursor: TokenCursor) -> Statement:
    """ALTER INDEX name|ALL ON table REBUILD|REORGANIZE|SET .."""
    line = cursor.token.line
    cursor.expect("ALTER", "INDEX")
    index = None if cursor.accept("ALL") else cursor.identifier()
    cursor.expect("ON")
    table = cursor.dotted_name()
    if cursor.accept("SET"):
        options = options_in_parentheses(cursor)
        return AlterIndex(index, table, options.ignore_dup_key, line=line)
    if not cursor.accept_any("REBUILD", "REORGANIZE"):
        raise not_supported(f"ALTER INDEX ... {cursor.token.text.upper()}")
    options = rebuild_options(cursor)
    return AlterIndex(index, table, options.ignore_dup_key, line=line)


@statement("DBCC")
def console_command(cursor: TokenCursor) -> Statement:
    """DBCC name [(arguments)] [WITH options]."""
    line = cursor.token.line
    cursor.expect("DBCC")
    name = cursor.accept_any(*_WITHOUT_EFFECT)
    if name is None:
        raise not_supported(f"DBCC {cursor.token.text.upper()}")
    if cursor.at("("):
        cursor.skip_parenthesised()
    silent = False
    if cursor.accept("WITH"):
        while True:
            silent = cursor.advance().upper == "NO_INFOMSGS" or silent
            if not cursor.accept(","):
                break
    return ConsoleCommand(name, silent, line=line)


@statement("KILL")
def kill(cursor: TokenCursor) -> Statement:
    """KILL session_id [WITH STATUSONLY]."""
    line = cursor.advance().line
    if cursor.token.kind is Kind.STRING or cursor.at_any("QUERY", "STATS"):
        raise not_supported("KILL of anything but a session")
    negative = cursor.accept("-")
    if cursor.token.kind is not Kind.NUMBER or not cursor.token.text.isdecimal():
        cursor.fail()
    number = int(cursor.advance().text)
    status_only = False
    if cursor.accept("WITH"):
        cursor.expect("STATUSONLY")
        status_only = True
    return Kill(-number if negative else number, status_only, line=line)
