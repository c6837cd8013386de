"""Grammar of EXEC."""

from __future__ import annotations

from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.syntax import parse_expressions as expressions
from tailrace_emulator.tsql.syntax import parse_security as security
from tailrace_emulator.tsql.syntax.grammar import GRAMMAR, statement
from tailrace_emulator.tsql.syntax.parse_base import TokenCursor
from tailrace_emulator.tsql.syntax.statements import Argument, Execute, ExecuteString, Statement
from tailrace_emulator.tsql.syntax.tokens import Kind


@statement("EXEC")
@statement("EXECUTE")
def execute_statement(cursor: TokenCursor) -> Statement:
    """EXEC."""
    line = cursor.token.line
    if not cursor.accept_any("EXEC", "EXECUTE"):
        cursor.fail()
    if cursor.accept("("):
        text = expressions.scalar(cursor)
        cursor.expect(")")
        if cursor.at("AT") or (cursor.at("AS") and cursor.ahead().upper in {"USER", "LOGIN"}):
            raise not_supported("EXEC (text) AT linked server or AS user")
        return ExecuteString(text, line=line)
    if cursor.at("AS") and cursor.ahead().upper in {"USER", "LOGIN", "CALLER"}:
        return security.execute_as(cursor, line)
    return procedure_call(cursor, line)


def procedure_call(cursor: TokenCursor, line: int) -> Statement:
    """``[@rc =] procedure arguments``."""
    result = None
    if cursor.token.kind is Kind.VARIABLE and cursor.ahead().upper == "=":
        result = cursor.variable()
        cursor.expect("=")
    procedure = cursor.variable() if cursor.token.kind is Kind.VARIABLE else cursor.dotted_name()
    arguments: list[Argument] = []
    if _at_argument(cursor):
        arguments.append(_argument(cursor))
        while cursor.accept(","):
            arguments.append(_argument(cursor))
    if cursor.accept("WITH") and not cursor.accept("RECOMPILE"):
        raise not_supported(f"EXEC ... WITH {cursor.token.text.upper()}")
    return Execute(procedure, tuple(arguments), result, line=line)


def _at_argument(cursor: TokenCursor) -> bool:
    """Whether an argument follows."""
    token = cursor.token
    if token.kind in {Kind.END, Kind.OPERATOR}:
        return token.upper == "-"
    if token.kind is Kind.WORD:
        return token.upper in {"NULL", "DEFAULT"} or (
            cursor.at_name() and not GRAMMAR.is_next(cursor)
        )
    return True


def _argument(cursor: TokenCursor) -> Argument:
    """``[@name =] value [OUTPUT]``."""
    name = None
    if cursor.token.kind is Kind.VARIABLE and cursor.ahead().upper == "=":
        name = cursor.variable()
        cursor.expect("=")
    if cursor.accept("DEFAULT"):
        return Argument(name, None)
    value = expressions.argument_value(cursor)
    output = cursor.accept_any("OUTPUT", "OUT") is not None
    return Argument(name, value, output)
