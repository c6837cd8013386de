"""Grammar of FROM: tables, functions, joins, subqueries, PIVOT, VALUES."""

from __future__ import annotations

from typing import Final

from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.syntax import parse_expressions as expressions
from tailrace_emulator.tsql.syntax.grammar import GRAMMAR
from tailrace_emulator.tsql.syntax.nodes import (
    Call,
    ColumnName,
    DefaultMark,
    Derived,
    Expression,
    FunctionTable,
    Join,
    Pivot,
    Query,
    SchemaColumn,
    Source,
    TableName,
    Unpivot,
    ValueRows,
    VariableTable,
)
from tailrace_emulator.tsql.syntax.parse_base import TokenCursor
from tailrace_emulator.tsql.syntax.tokens import Kind

_HINTS: Final = frozenset(
    {"NOLOCK", "READUNCOMMITTED", "READCOMMITTED", "READCOMMITTEDLOCK", "REPEATABLEREAD",
     "SERIALIZABLE", "HOLDLOCK", "ROWLOCK", "PAGLOCK", "TABLOCK", "TABLOCKX", "UPDLOCK", "XLOCK",
     "READPAST", "NOWAIT", "NOEXPAND", "FORCESEEK", "FORCESCAN", "INDEX", "SNAPSHOT",
     "KEEPIDENTITY", "KEEPDEFAULTS"}
)  # fmt: skip
NOT_AN_ALIAS: Final = frozenset(
    {"OUTPUT", "USING", "APPLY", "MATCHED", "OFFSET", "THROW", "GO", "WINDOW"}
)
_ABSENT: Final = frozenset({"CHANGETABLE", "PREDICT"})
_JOIN_HINTS: Final = ("LOOP", "HASH", "MERGE", "REMOTE")


# FROM -------------------------------------------------------------------------------------------


def source_list(cursor: TokenCursor) -> Source:
    """``a, b JOIN c ON ..``."""
    source = joined_source(cursor)
    while cursor.accept(","):
        source = Join("CROSS", source, joined_source(cursor))
    return source


def joined_source(cursor: TokenCursor) -> Source:
    """One element with the joins after it."""
    source = _source(cursor)
    while kind := _join_kind(cursor):
        source = _join(cursor, kind, source)
    return source


def _join(cursor: TokenCursor, kind: str, left: Source) -> Source:
    """What follows a join word; ``a JOIN b JOIN c ON .. ON ..`` nests to the right."""
    right = _source(cursor)
    if kind == "CROSS" or kind.endswith("APPLY"):
        return Join(kind, left, right)
    while not cursor.at("ON"):
        inner = _join_kind(cursor)
        if inner is None:
            cursor.fail()
        right = _join(cursor, inner, right)
    cursor.expect("ON")
    return Join(kind, left, right, expressions.condition(cursor))


def _join_kind(cursor: TokenCursor) -> str | None:
    """The words of a join, or nothing."""
    if cursor.accept("CROSS", "JOIN"):
        return "CROSS"
    if cursor.accept("CROSS", "APPLY"):
        return "CROSS APPLY"
    if cursor.accept("OUTER", "APPLY"):
        return "OUTER APPLY"
    if cursor.accept("JOIN"):
        return "INNER"
    if not cursor.at_any("INNER", "LEFT", "RIGHT", "FULL"):
        return None
    kind = cursor.advance().upper
    cursor.accept("OUTER")
    cursor.accept_any(*_JOIN_HINTS)
    cursor.expect("JOIN")
    return kind


def _source(cursor: TokenCursor) -> Source:
    """A source with the PIVOTs after it."""
    source = _plain_source(cursor)
    while cursor.at_any("PIVOT", "UNPIVOT"):
        source = _pivot(cursor, source) if cursor.accept("PIVOT") else _unpivot(cursor, source)
    return source


def _pivot(cursor: TokenCursor, source: Source) -> Source:
    """``(SUM(x) FOR y IN ([a], [b])) AS p``."""
    cursor.expect("(")
    aggregate = expressions.column_or_call(cursor)
    if not isinstance(aggregate, Call):
        cursor.fail()
    cursor.expect("FOR")
    column = ColumnName(cursor.dotted_name(), cursor.token.line)
    cursor.expect("IN")
    values = cursor.name_list()
    cursor.expect(")")
    alias = table_alias(cursor)
    if alias is None:
        cursor.fail()
    return Pivot(source, aggregate, column, values, alias)


def _unpivot(cursor: TokenCursor, source: Source) -> Source:
    """``(v FOR k IN (a, b)) AS u``."""
    cursor.expect("UNPIVOT", "(")
    value = cursor.identifier()
    cursor.expect("FOR")
    name = cursor.identifier()
    cursor.expect("IN")
    columns = cursor.name_list()
    cursor.expect(")")
    alias = table_alias(cursor)
    if alias is None:
        cursor.fail()
    return Unpivot(source, value, name, columns, alias)


def _plain_source(cursor: TokenCursor) -> Source:
    """A table, function, table variable, subquery or parenthesised join."""
    if cursor.accept("("):
        if cursor.at_any("SELECT", "WITH", "VALUES") or (
            cursor.at("(") and _is_query_ahead(cursor)
        ):
            return _derived(cursor)
        source = joined_source(cursor)
        cursor.expect(")")
        return source
    if cursor.token.kind is Kind.VARIABLE:
        variable = cursor.advance().text
        if cursor.at(".") and cursor.ahead().text == "nodes":
            cursor.position += 2
            return _table_function(cursor, (variable, "nodes"), cursor.token.line)
        return VariableTable(variable, table_alias(cursor))
    line = cursor.token.line
    if cursor.accept("::"):  # a table function of the system, as SQL Server 2000 named them
        return _table_function(cursor, ("sys", cursor.identifier()), line)
    name = cursor.dotted_name()
    if name[-1].upper() in _ABSENT:
        raise not_supported(name[-1].upper())
    if cursor.at("(") and not _at_old_hint(cursor):
        return _table_function(cursor, name, line)
    return _table(cursor, name, line)


def _table_function(cursor: TokenCursor, name: tuple[str, ...], line: int) -> FunctionTable:
    """Arguments, schema and alias of a table function."""
    cursor.expect("(")
    arguments = () if cursor.at(")") else values_or_defaults(cursor)
    cursor.expect(")")
    schema: tuple[SchemaColumn, ...] = ()
    if cursor.at("WITH", "(") and name[-1].upper() == "OPENJSON":
        schema = _json_schema(cursor)
    alias = table_alias(cursor)
    columns = cursor.name_list() if alias and cursor.at("(") else ()
    return FunctionTable(name, arguments, line, alias, columns, schema)


def _json_schema(cursor: TokenCursor) -> tuple[SchemaColumn, ...]:
    """``WITH (name type ['path'] [AS JSON], ...)``."""
    cursor.expect("WITH", "(")
    columns = []
    while True:
        name = cursor.identifier()
        sql_type = cursor.data_type()
        path = None
        if cursor.token.kind in {Kind.STRING, Kind.NATIONAL}:
            path = cursor.advance().text
        columns.append(SchemaColumn(name, sql_type, path, cursor.accept("AS", "JSON")))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(columns)


def values_or_defaults(cursor: TokenCursor) -> tuple[Expression, ...]:
    """Values of a row, or arguments of a table function: DEFAULT may be among them."""
    values = [value_or_default(cursor)]
    while cursor.accept(","):
        values.append(value_or_default(cursor))
    return tuple(values)


def value_or_default(cursor: TokenCursor) -> Expression:
    """A value, or DEFAULT."""
    return DefaultMark() if cursor.accept("DEFAULT") else expressions.scalar(cursor)


def _table(cursor: TokenCursor, name: tuple[str, ...], line: int) -> TableName:
    """Alias and hints of a table."""
    if cursor.at("FOR") and cursor.ahead().upper in {"SYSTEM_TIME", "PATH"}:
        raise not_supported(f"FOR {cursor.ahead().upper} in FROM")
    hints = table_hints(cursor)
    alias = table_alias(cursor)
    hints += table_hints(cursor)
    if cursor.at("TABLESAMPLE"):
        raise not_supported(cursor.token.upper)
    return TableName(name, line, alias, hints)


def _at_old_hint(cursor: TokenCursor) -> bool:
    """Whether ``(NOLOCK)`` follows a table name."""
    return cursor.ahead().upper in _HINTS and cursor.ahead(2).upper in {")", ","}


def table_hints(cursor: TokenCursor) -> tuple[str, ...]:
    """``WITH (hints)`` or ``(NOLOCK)``."""
    if not (cursor.at("WITH", "(") or (cursor.at("(") and _at_old_hint(cursor))):
        return ()
    cursor.accept("WITH")
    start = cursor.position + 1
    cursor.skip_parenthesised()
    return tuple(
        token.upper for token in cursor.tokens[start : cursor.position - 1] if token.upper in _HINTS
    )


def table_alias(cursor: TokenCursor) -> str | None:
    """``[AS] alias``."""
    if cursor.accept("AS"):
        return cursor.identifier()
    if cursor.at_name() and cursor.token.upper not in NOT_AN_ALIAS:
        return cursor.advance().text
    return None


def _is_query_ahead(cursor: TokenCursor) -> bool:
    """Whether nested parentheses hold a query rather than a join."""
    offset = 0
    while cursor.ahead(offset).upper == "(":
        offset += 1
    return cursor.ahead(offset).upper in {"SELECT", "WITH", "VALUES"}


def _derived(cursor: TokenCursor) -> Derived:
    """``( query ) alias (columns)``; the opening parenthesis was taken."""
    query = Query(value_rows(cursor)) if cursor.at("VALUES") else GRAMMAR.query(cursor)
    cursor.expect(")")
    alias = table_alias(cursor)
    if alias is None:
        cursor.fail()
    columns = cursor.name_list() if cursor.at("(") else ()
    return Derived(query, alias, columns)


def value_rows(cursor: TokenCursor) -> ValueRows:
    """``VALUES (..), (..)``."""
    line = cursor.token.line
    cursor.expect("VALUES")
    rows = []
    while True:
        cursor.expect("(")
        rows.append(values_or_defaults(cursor))
        cursor.expect(")")
        if not cursor.accept(","):
            return ValueRows(tuple(rows), line)
