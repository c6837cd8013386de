"""Grammar of sequences and identity checks."""

from __future__ import annotations

from dataclasses import replace

from tailrace_emulator.tsql.syntax import parse_expressions as expressions
from tailrace_emulator.tsql.syntax.grammar import statement
from tailrace_emulator.tsql.syntax.nodes import Expression, Literal
from tailrace_emulator.tsql.syntax.parse_base import TokenCursor
from tailrace_emulator.tsql.syntax.sequence_statements import CheckIdentity, DefineSequence
from tailrace_emulator.tsql.syntax.statements import Statement
from tailrace_emulator.tsql.syntax.switches import UserOptions
from tailrace_emulator.tsql.syntax.tokens import Kind
from tailrace_emulator.values.types import nvarchar


@statement("CREATE", "SEQUENCE")
def create_sequence(cursor: TokenCursor) -> Statement:
    """CREATE SEQUENCE name [AS type] [START WITH n] [INCREMENT BY n] [MINVALUE n] .."""
    line = cursor.token.line
    cursor.expect("CREATE", "SEQUENCE")
    made = DefineSequence(cursor.dotted_name(), alter=False, line=line)
    if cursor.accept("AS"):
        made = replace(made, type=cursor.data_type())
    return _with_options(cursor, made)


@statement("ALTER", "SEQUENCE")
def alter_sequence(cursor: TokenCursor) -> Statement:
    """ALTER SEQUENCE name [RESTART [WITH n]] [INCREMENT BY n] [MINVALUE n] .."""
    line = cursor.token.line
    cursor.expect("ALTER", "SEQUENCE")
    return _with_options(cursor, DefineSequence(cursor.dotted_name(), alter=True, line=line))


def _with_options(cursor: TokenCursor, made: DefineSequence) -> DefineSequence:
    """The sequence with all the options that follow."""
    while (changed := _sequence_option(cursor, made)) is not None:
        made = changed
    return made


@statement("DBCC", "CHECKIDENT")
def check_identity(cursor: TokenCursor) -> Statement:
    """``DBCC CHECKIDENT (table [, RESEED [, n] | NORESEED]) [WITH NO_INFOMSGS]``."""
    line = cursor.advance().line
    cursor.expect("CHECKIDENT", "(")
    table = _table_text(cursor)
    reseed, value = True, None
    if cursor.accept(","):
        reseed = not cursor.accept("NORESEED")
        if reseed:
            cursor.expect("RESEED")
            value = expressions.scalar(cursor) if cursor.accept(",") else None
    cursor.expect(")")
    silent = cursor.accept("WITH", "NO_INFOMSGS")
    return CheckIdentity(table, reseed, value, silent, line=line)


@statement("DBCC", "USEROPTIONS")
def user_options(cursor: TokenCursor) -> Statement:
    """``DBCC USEROPTIONS [WITH NO_INFOMSGS]``."""
    line = cursor.advance().line
    cursor.expect("USEROPTIONS")
    return UserOptions(cursor.accept("WITH", "NO_INFOMSGS"), line=line)


def _table_text(cursor: TokenCursor) -> Expression:
    """A table's name, as text or as it is."""
    if not cursor.at_name():
        return expressions.scalar(cursor)
    name = ".".join(f"[{part}]" for part in cursor.dotted_name())
    return Literal(nvarchar(len(name)), name)


def _sequence_option(cursor: TokenCursor, made: DefineSequence) -> DefineSequence | None:
    """One option; None at anything else."""
    if cursor.accept("START", "WITH"):
        return replace(made, start=cursor.integer())
    if cursor.accept("INCREMENT", "BY"):
        return replace(made, increment=cursor.integer())
    if made.alter and cursor.accept("RESTART"):
        start = cursor.integer() if cursor.accept("WITH") else made.start
        return replace(made, restart=True, start=start)
    if cursor.accept("MINVALUE"):
        return replace(made, minimum=cursor.integer())
    if cursor.accept("MAXVALUE"):
        return replace(made, maximum=cursor.integer())
    if cursor.accept("CYCLE"):
        return replace(made, cycle=True)
    if cursor.accept("CACHE"):
        return replace(made, cache=cursor.integer() if cursor.token.kind is Kind.NUMBER else "")
    if cursor.accept("NO", "MINVALUE"):
        return replace(made, minimum="")
    if cursor.accept("NO", "MAXVALUE"):
        return replace(made, maximum="")
    if cursor.accept("NO", "CYCLE"):
        return replace(made, cycle=False)
    if cursor.accept("NO", "CACHE"):
        return replace(made, cache=0)
    return None
