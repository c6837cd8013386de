"""Grammar of batches: control flow, variables, EXEC, transactions, SET."""

from __future__ import annotations

from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.syntax import parse_data as data
from tailrace_emulator.tsql.syntax import parse_definitions as definitions
from tailrace_emulator.tsql.syntax import parse_execute as executing
from tailrace_emulator.tsql.syntax import parse_expressions as expressions
from tailrace_emulator.tsql.syntax import parse_queries as queries
from tailrace_emulator.tsql.syntax.grammar import GRAMMAR, statement
from tailrace_emulator.tsql.syntax.nodes import TableName
from tailrace_emulator.tsql.syntax.parse_base import TokenCursor
from tailrace_emulator.tsql.syntax.parse_time_options import parse_only_setting, quotes_setting
from tailrace_emulator.tsql.syntax.statements import (
    Block,
    CursorStatement,
    Declaration,
    Declare,
    If,
    Ignored,
    Jump,
    Print,
    RaiseError,
    Return,
    SetIdentityInsert,
    SetOption,
    SetVariable,
    Statement,
    Throw,
    Transaction,
    TryCatch,
    Use,
    WaitFor,
    While,
)
from tailrace_emulator.tsql.syntax.switches import SetContextInfo
from tailrace_emulator.tsql.syntax.tokens import Kind


def batch(cursor: TokenCursor) -> Block:
    """Every statement up to the end."""
    statements: list[Statement] = []
    while True:
        while cursor.accept(";"):
            pass
        if cursor.token.kind is Kind.END:
            cursor.labels.check()
            return Block(
                tuple(statements), quotes_setting(cursor.tokens), parse_only_setting(cursor.tokens)
            )
        if not statements and _at_procedure(cursor):
            statements.append(executing.procedure_call(cursor, cursor.token.line))
        else:
            statements.append(GRAMMAR.statement(cursor))


def _at_procedure(cursor: TokenCursor) -> bool:
    """Whether the batch begins with a call without EXEC."""
    return cursor.at_name() and not cursor.at_label() and not GRAMMAR.is_next(cursor)


# Control flow -----------------------------------------------------------------------------------


@statement("BEGIN", "DISTRIBUTED")
def _begin_distributed(cursor: TokenCursor) -> Statement:
    """BEGIN DISTRIBUTED TRANSACTION."""
    cursor.expect("BEGIN", "DISTRIBUTED")
    raise not_supported("distributed transactions")


@statement("BEGIN", "TRAN")
@statement("BEGIN", "TRANSACTION")
def _begin_transaction(cursor: TokenCursor) -> Statement:
    """BEGIN TRANSACTION."""
    line = cursor.advance().line
    cursor.advance()
    return _transaction(cursor, "BEGIN", line)


@statement("BEGIN", "TRY")
def _begin_try(cursor: TokenCursor) -> Statement:
    """BEGIN TRY .. END TRY BEGIN CATCH .. END CATCH."""
    line = cursor.token.line
    cursor.expect("BEGIN", "TRY")
    body = _block(cursor, "TRY", line)
    while cursor.accept(";"):
        pass
    catch_line = cursor.token.line
    cursor.expect("BEGIN", "CATCH")
    return TryCatch(body, _block(cursor, "CATCH", catch_line), line=line)


@statement("BEGIN")
def _begin(cursor: TokenCursor) -> Statement:
    """BEGIN .. END."""
    line = cursor.advance().line
    statements: list[Statement] = []
    cursor.labels.enter()
    while not cursor.at("END"):
        if cursor.token.kind is Kind.END:
            cursor.fail()
        statements.append(GRAMMAR.statement(cursor))
    cursor.labels.leave()
    cursor.expect("END")
    if not statements:
        raise cursor.syntax_error()
    return Block(tuple(statements), line=line)


def _block(cursor: TokenCursor, word: str, line: int) -> Block:
    """Statements up to ``END TRY`` or ``END CATCH``."""
    statements: list[Statement] = []
    cursor.labels.enter()
    while True:
        while cursor.accept(";"):
            pass
        if cursor.accept("END", word):
            cursor.labels.leave()
            return Block(tuple(statements), line=line)
        if cursor.token.kind is Kind.END:
            cursor.fail()
        statements.append(GRAMMAR.statement(cursor))


@statement("IF")
def _if(cursor: TokenCursor) -> Statement:
    """IF condition statement [ELSE statement]."""
    line = cursor.token.line
    cursor.expect("IF")
    condition = expressions.condition(cursor)
    then = GRAMMAR.statement(cursor)
    otherwise = GRAMMAR.statement(cursor) if cursor.accept("ELSE") else None
    return If(condition, then, otherwise, line=line)


@statement("WHILE")
def _while(cursor: TokenCursor) -> Statement:
    """WHILE condition statement."""
    line = cursor.token.line
    cursor.expect("WHILE")
    condition = expressions.condition(cursor)
    return While(condition, GRAMMAR.statement(cursor), line=line)


@statement("BREAK")
@statement("CONTINUE")
def _jump(cursor: TokenCursor) -> Statement:
    """BREAK, CONTINUE."""
    token = cursor.advance()
    return Jump(token.upper, line=token.line)


@statement("RETURN")
def _return(cursor: TokenCursor) -> Statement:
    """RETURN [value]."""
    line = cursor.advance().line
    if cursor.returns_value:
        return Return(expressions.scalar(cursor), line=line)
    starts = cursor.token.kind in {Kind.NUMBER, Kind.VARIABLE} or cursor.at_any("-", "(")
    if cursor.at_any("SELECT") or cursor.token.kind is Kind.END:
        starts = False
    return Return(expressions.scalar(cursor) if starts else None, line=line)


@statement("GOTO")
def _goto(cursor: TokenCursor) -> Statement:
    """GOTO label."""
    cursor.expect("GOTO")
    return cursor.labels.jump(cursor.identifier(), cursor.tokens[cursor.position - 1].line)


# Variables --------------------------------------------------------------------------------------


@statement("DECLARE")
def _declare(cursor: TokenCursor) -> Statement:
    """DECLARE."""
    line = cursor.token.line
    cursor.expect("DECLARE")
    if cursor.token.kind is not Kind.VARIABLE:
        return _declare_cursor(cursor, line)
    declarations = [_declaration(cursor)]
    while cursor.accept(","):
        declarations.append(_declaration(cursor))
    return Declare(tuple(declarations), line=line)


def _declaration(cursor: TokenCursor) -> Declaration:
    """One variable."""
    name = cursor.new_variable()
    cursor.accept("AS")
    if cursor.accept("TABLE"):
        columns, constraints, _ = definitions.table_elements(cursor, (name,))
        return Declaration(name, None, None, columns, constraints)
    sql_type = cursor.declared_type()
    value = expressions.scalar(cursor) if cursor.accept("=") else None
    return Declaration(name, sql_type, value)


def _declare_cursor(cursor: TokenCursor, line: int) -> Statement:
    """DECLARE name CURSOR [options] FOR query."""
    name = cursor.identifier()
    while not cursor.accept("CURSOR"):
        cursor.word()
    while not cursor.accept("FOR"):
        cursor.word()
    query = queries.query(cursor)
    if cursor.accept("FOR"):
        if cursor.at("UPDATE"):
            raise not_supported("updatable cursors (FOR UPDATE)")
        cursor.expect("READ", "ONLY")
    return CursorStatement("DECLARE", name, query, line=line)


@statement("OPEN")
@statement("FETCH")
@statement("CLOSE")
@statement("DEALLOCATE")
def _cursor(cursor: TokenCursor) -> Statement:
    """OPEN, FETCH, CLOSE, DEALLOCATE."""
    token = cursor.advance()
    into: list[str] = []
    if token.upper == "FETCH" and not cursor.accept("FROM"):
        if cursor.at_any("PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE"):
            raise not_supported(f"FETCH {cursor.token.upper}")
        cursor.accept("NEXT")
        cursor.accept("FROM")
    name = cursor.variable() if cursor.token.kind is Kind.VARIABLE else cursor.identifier()
    if token.upper == "FETCH" and cursor.accept("INTO"):
        into.append(cursor.variable())
        while cursor.accept(","):
            into.append(cursor.variable())
    return CursorStatement(token.upper, name, None, tuple(into), line=token.line)


@statement("SET")
def _set(cursor: TokenCursor) -> Statement:
    """SET variable or option."""
    line = cursor.token.line
    cursor.expect("SET")
    if cursor.token.kind is Kind.VARIABLE:
        name = cursor.variable()
        operator = data.assignment_operator(cursor)
        if cursor.at("CURSOR"):
            raise not_supported("cursor variables")
        return SetVariable(name, operator, expressions.condition(cursor), line=line)
    if cursor.accept("IDENTITY_INSERT"):
        target = TableName(cursor.dotted_name(), line)
        return SetIdentityInsert(target, cursor.on_or_off(), line=line)
    if cursor.accept("TRANSACTION"):
        cursor.expect("ISOLATION", "LEVEL")
        words = [cursor.word()]
        if words[0] in {"READ", "REPEATABLE"}:
            words.append(cursor.word())
        return SetOption(("ISOLATION",), " ".join(words), line=line)
    if cursor.accept("CONTEXT_INFO"):
        return SetContextInfo(expressions.scalar(cursor), line=line)
    if cursor.at("OFFSETS"):
        raise not_supported("SET OFFSETS")
    prefix = "STATISTICS " if cursor.accept("STATISTICS") else ""
    options = [prefix + cursor.word()]
    while cursor.accept(","):
        options.append(prefix + cursor.word())
    return SetOption(tuple(options), _option_value(cursor), line=line)


def _option_value(cursor: TokenCursor) -> str:
    """The value of an option, as written."""
    cursor.accept("=")
    if cursor.at("-"):
        return str(cursor.integer())
    token = cursor.advance()
    if token.kind is Kind.END:
        cursor.position -= 0
        cursor.fail()
    return token.text


# Messages ---------------------------------------------------------------------------------------


@statement("PRINT")
def _print(cursor: TokenCursor) -> Statement:
    """PRINT."""
    line = cursor.advance().line
    return Print(expressions.condition(cursor), line=line)


@statement("RAISERROR")
def _raiserror(cursor: TokenCursor) -> Statement:
    """RAISERROR (..) [WITH options]."""
    line = cursor.advance().line
    cursor.expect("(")
    arguments = expressions.expression_list(cursor)
    cursor.expect(")")
    options: set[str] = set()
    if cursor.accept("WITH"):
        options.add(cursor.word())
        while cursor.accept(","):
            options.add(cursor.word())
    return RaiseError(arguments, frozenset(options), line=line)


@statement("THROW")
def _throw(cursor: TokenCursor) -> Statement:
    """THROW [number, message, state]."""
    line = cursor.advance().line
    if cursor.token.kind in {Kind.NUMBER, Kind.VARIABLE}:
        return Throw(expressions.expression_list(cursor), line=line)
    return Throw((), line=line)


# Transactions -----------------------------------------------------------------------------------


def _transaction(cursor: TokenCursor, action: str, line: int) -> Statement:
    """The optional name of a transaction."""
    if cursor.token.kind is Kind.VARIABLE:
        return Transaction(action, None, cursor.variable(), line=line)
    name = None
    if cursor.at_name() and not GRAMMAR.is_next(cursor):
        name = cursor.advance().text
    if cursor.accept("WITH"):
        if cursor.accept("MARK"):
            raise not_supported("BEGIN TRANSACTION WITH MARK")
        cursor.skip_parenthesised()
    return Transaction(action, name, None, line=line)


@statement("COMMIT")
@statement("ROLLBACK")
def _commit_or_rollback(cursor: TokenCursor) -> Statement:
    """COMMIT, ROLLBACK."""
    token = cursor.advance()
    if cursor.accept_any("TRAN", "TRANSACTION"):
        return _transaction(cursor, token.upper, token.line)
    cursor.accept("WORK")
    return Transaction(token.upper, None, None, line=token.line)


@statement("SAVE")
def _save(cursor: TokenCursor) -> Statement:
    """SAVE TRAN name."""
    line = cursor.advance().line
    if not cursor.accept_any("TRAN", "TRANSACTION"):
        cursor.fail()
    return _transaction(cursor, "SAVE", line)


# The rest ---------------------------------------------------------------------------------------


@statement("USE")
def _use(cursor: TokenCursor) -> Statement:
    """USE."""
    line = cursor.advance().line
    return Use(cursor.identifier(), line=line)


@statement("CHECKPOINT")
def _checkpoint(cursor: TokenCursor) -> Statement:
    """CHECKPOINT."""
    return Ignored("CHECKPOINT", line=cursor.advance().line)


@statement("RECONFIGURE")
def _reconfigure(cursor: TokenCursor) -> Statement:
    """RECONFIGURE [WITH OVERRIDE]."""
    cursor.expect("RECONFIGURE")
    cursor.accept("WITH", "OVERRIDE")
    return Ignored("RECONFIGURE")


@statement("BACKUP")
@statement("RESTORE")
@statement("BULK")
@statement("SHUTDOWN")
def _refused(cursor: TokenCursor) -> Statement:
    """What is refused by its first word."""
    raise not_supported(cursor.token.upper)


@statement("WAITFOR")
def _waitfor(cursor: TokenCursor) -> Statement:
    """WAITFOR DELAY|TIME value."""
    line = cursor.advance().line
    kind = cursor.accept_any("DELAY", "TIME")
    if kind is None:
        raise not_supported("WAITFOR other than DELAY and TIME")
    return WaitFor(kind, expressions.argument_value(cursor), line=line)
