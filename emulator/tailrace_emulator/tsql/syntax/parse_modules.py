"""Grammar of procedures, views, functions and triggers: each takes the rest of its batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.syntax import parse_control as control
from tailrace_emulator.tsql.syntax import parse_definitions as definitions
from tailrace_emulator.tsql.syntax import parse_expressions as expressions
from tailrace_emulator.tsql.syntax import parse_queries as queries
from tailrace_emulator.tsql.syntax.definition_statements import (
    CreateModule,
    ProcedureParameterDefinition,
)
from tailrace_emulator.tsql.syntax.grammar import GRAMMAR, StatementGrammar, statement
from tailrace_emulator.tsql.syntax.nodes import Name
from tailrace_emulator.tsql.syntax.parse_base import TokenCursor
from tailrace_emulator.tsql.syntax.statements import Block, Declaration, Statement
from tailrace_emulator.tsql.syntax.tokens import Kind, Token

_TRIGGER_EVENTS: Final = ("INSERT", "UPDATE", "DELETE")
_MODES: Final = ("CREATE", "ALTER", "CREATE OR ALTER")
ModuleGrammar = Callable[[TokenCursor, Token, str, Name], Statement]


def _module(*words: str) -> Callable[[ModuleGrammar], ModuleGrammar]:
    """Registers the grammar of a kind of module after CREATE, ALTER and CREATE OR ALTER.

    It is called with the cursor after the module's name, and is given the first token, the words
    before the kind, and the name.
    """

    def register(read: ModuleGrammar) -> ModuleGrammar:
        for mode in _MODES:
            for word in words:
                statement(*mode.split(), word)(_named(read, mode))
        return read

    return register


def _named(read: ModuleGrammar, mode: str) -> StatementGrammar:
    """The grammar of a whole definition, from the grammar of what follows the name."""
    count = len(mode.split()) + 1

    def definition(cursor: TokenCursor) -> Statement:
        start = cursor.token
        cursor.position += count
        return read(cursor, start, mode, cursor.dotted_name())

    return definition


@statement("CREATE", "OR", "ALTER")
def create_or_alter_other(cursor: TokenCursor) -> Statement:
    """CREATE OR ALTER of what is no module."""
    cursor.expect("CREATE", "OR", "ALTER")
    cursor.fail()


@_module("VIEW")
def view(cursor: TokenCursor, start: Token, mode: str, name: Name) -> Statement:
    """``[(columns)] [WITH options] AS query [WITH CHECK OPTION]``."""
    columns = cursor.name_list() if cursor.at("(") else ()
    is_schema_bound = cursor.accept("WITH") and _view_options(cursor)
    cursor.expect("AS")
    query = queries.query(cursor)
    has_check_option = cursor.accept("WITH")
    if has_check_option:
        cursor.expect("CHECK", "OPTION")
    cursor.accept(";")
    if cursor.token.kind is not Kind.END:
        cursor.fail()
    return CreateModule(
        "VIEW", name, mode, cursor.text_between(start), query=query,
        column_names=columns, is_schema_bound=is_schema_bound,
        has_check_option=has_check_option, line=start.line,
    )  # fmt: skip


def _view_options(cursor: TokenCursor) -> bool:
    """What follows WITH before AS; returns whether SCHEMABINDING is among it."""
    is_schema_bound = False
    while True:
        if cursor.at("ENCRYPTION"):
            raise not_supported("views WITH ENCRYPTION")
        if cursor.accept("SCHEMABINDING"):
            is_schema_bound = True
        else:
            cursor.expect("VIEW_METADATA")
        if not cursor.accept(","):
            return is_schema_bound


# Functions --------------------------------------------------------------------------------------


@_module("FUNCTION")
def function(cursor: TokenCursor, start: Token, mode: str, name: Name) -> Statement:
    """``(parameters) RETURNS type|TABLE|@r TABLE (..) AS ..``."""
    cursor.expect("(")
    parameters: list[ProcedureParameterDefinition] = []
    if not cursor.at(")"):
        parameters.append(_parameter_definition(cursor))
        while cursor.accept(","):
            parameters.append(_parameter_definition(cursor))
    cursor.expect(")")
    cursor.expect("RETURNS")
    made = CreateModule(
        "FUNCTION", name, mode, "", tuple(parameters), line=start.line,
    )  # fmt: skip
    if cursor.token.kind is Kind.VARIABLE:
        result = cursor.variable()
        cursor.expect("TABLE")
        columns, constraints, _ = definitions.table_elements(cursor, (result,))
        made = replace(made, returns_table=Declaration(result, None, None, columns, constraints))
    elif not cursor.accept("TABLE"):
        made = replace(made, returns=cursor.declared_type())
    made = _function_options(cursor, made)
    cursor.accept("AS")
    if made.returns is None and made.returns_table is None:
        cursor.expect("RETURN")
        parenthesised = cursor.at("(") and cursor.ahead().upper in {"SELECT", "WITH"}
        if parenthesised:
            cursor.expect("(")
        made = replace(made, query=queries.query(cursor))
        if parenthesised:
            cursor.expect(")")
    else:
        cursor.returns_value = made.returns is not None
        if not cursor.at("BEGIN"):
            cursor.fail()
        block = GRAMMAR.statement(cursor)
        if not isinstance(block, Block):
            cursor.fail()
        made = replace(made, body=block)
    while cursor.accept(";"):
        pass
    if cursor.token.kind is not Kind.END:
        cursor.fail()
    cursor.labels.check()
    return replace(made, text=cursor.text_between(start))


def _function_options(cursor: TokenCursor, made: CreateModule) -> CreateModule:
    """``WITH option, ..``."""
    if not cursor.accept("WITH"):
        return made
    while True:
        if cursor.accept("RETURNS", "NULL", "ON", "NULL", "INPUT"):
            made = replace(made, null_on_null=True)
        elif cursor.accept("SCHEMABINDING"):
            made = replace(made, is_schema_bound=True)
        elif cursor.accept("INLINE"):
            cursor.expect("=")
            cursor.on_or_off()
        elif not cursor.accept("CALLED", "ON", "NULL", "INPUT"):
            made = replace(made, execute_as=_module_option(cursor) or made.execute_as)
        if not cursor.accept(","):
            return made


# Triggers ---------------------------------------------------------------------------------------


@_module("TRIGGER")
def trigger(cursor: TokenCursor, start: Token, mode: str, name: Name) -> Statement:
    """``ON table [WITH ..] FOR|AFTER|INSTEAD OF events AS statements``."""
    cursor.expect("ON")
    if cursor.at_any("DATABASE", "ALL"):
        raise not_supported("DDL and logon triggers (CREATE TRIGGER ... ON DATABASE)")
    table = cursor.dotted_name()
    execute_as = _module_options(cursor)
    is_instead_of = cursor.accept("INSTEAD", "OF")
    if not is_instead_of and cursor.accept_any("FOR", "AFTER") is None:
        cursor.fail()
    events: list[str] = []
    while True:
        event = cursor.accept_any(*_TRIGGER_EVENTS)
        if event is None or event in events:
            cursor.fail()
        events.append(event)
        if not cursor.accept(","):
            break
    cursor.accept("WITH", "APPEND")
    cursor.accept("NOT", "FOR", "REPLICATION")
    cursor.expect("AS")
    body = _module_body(cursor)
    return CreateModule(
        "TRIGGER", name, mode, cursor.text_between(start), body=body, table=table,
        events=tuple(events), is_instead_of=is_instead_of, execute_as=execute_as,
        line=start.line,
    )  # fmt: skip


def _module_options(cursor: TokenCursor) -> str | None:
    """``WITH option, ..``; returns whom EXECUTE AS names; None for the caller."""
    if not cursor.accept("WITH"):
        return None
    execute_as = _module_option(cursor)
    while cursor.accept(","):
        execute_as = _module_option(cursor) or execute_as
    return execute_as


def _module_option(cursor: TokenCursor) -> str | None:
    """One of them; returns what EXECUTE AS says."""
    if cursor.accept_any("EXECUTE", "EXEC"):
        cursor.expect("AS")
        if cursor.token.kind in {Kind.STRING, Kind.NATIONAL}:
            return cursor.advance().text
        word = cursor.accept_any("CALLER", "OWNER", "SELF")
        if word is None:
            cursor.fail()
        return None if word == "CALLER" else word
    if cursor.at("NATIVE_COMPILATION"):
        raise not_supported("natively compiled modules (WITH NATIVE_COMPILATION)")
    if not cursor.accept_any("ENCRYPTION", "RECOMPILE", "SCHEMABINDING"):
        cursor.fail()
    return None


def _module_body(cursor: TokenCursor) -> Block:
    """The statements after AS, to the end of the batch."""
    body = control.batch(cursor)
    if not body.statements:
        cursor.fail()
    return body


# Procedures -------------------------------------------------------------------------------------


@_module("PROCEDURE", "PROC")
def procedure(cursor: TokenCursor, start: Token, mode: str, name: Name) -> Statement:
    """Parameters and body of a procedure."""
    parenthesised = cursor.accept("(")
    parameters = []
    if cursor.token.kind is Kind.VARIABLE:
        parameters.append(_parameter_definition(cursor))
        while cursor.accept(","):
            parameters.append(_parameter_definition(cursor))
    if parenthesised:
        cursor.expect(")")
    execute_as = _module_options(cursor)
    if cursor.accept("FOR"):
        cursor.expect("REPLICATION")
    cursor.expect("AS")
    body = _module_body(cursor)
    return CreateModule(
        "PROCEDURE", name, mode, cursor.text_between(start), tuple(parameters), body,
        execute_as=execute_as, line=start.line,
    )  # fmt: skip


def _parameter_definition(cursor: TokenCursor) -> ProcedureParameterDefinition:
    """``@x type [= default] [OUTPUT]``."""
    name = cursor.new_variable()
    cursor.accept("AS")
    sql_type = cursor.declared_type()
    default = expressions.argument_value(cursor) if cursor.accept("=") else None
    output = cursor.accept_any("OUTPUT", "OUT") is not None
    readonly = cursor.accept("READONLY")
    return ProcedureParameterDefinition(name, sql_type, default, output, readonly)


def declaration_list(cursor: TokenCursor) -> tuple[ProcedureParameterDefinition, ...]:
    """The parameter declarations of sp_executesql."""
    parameters = []
    if cursor.token.kind is not Kind.END:
        parameters.append(_parameter_definition(cursor))
        while cursor.accept(","):
            parameters.append(_parameter_definition(cursor))
    if cursor.token.kind is not Kind.END:
        cursor.fail()
    return tuple(parameters)
