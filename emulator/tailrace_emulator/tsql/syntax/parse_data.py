"""Grammar of INSERT, UPDATE, DELETE, MERGE and TRUNCATE."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.syntax import parse_execute as executing
from tailrace_emulator.tsql.syntax import parse_expressions as expressions
from tailrace_emulator.tsql.syntax import parse_queries as queries
from tailrace_emulator.tsql.syntax import parse_sources as sources
from tailrace_emulator.tsql.syntax.bulk_load import InsertBulk
from tailrace_emulator.tsql.syntax.grammar import statement
from tailrace_emulator.tsql.syntax.nodes import (
    Call,
    ColumnName,
    CommonTable,
    Expression,
    Name,
    Query,
    SelectItem,
    Source,
    TableName,
    VariableTable,
)
from tailrace_emulator.tsql.syntax.parse_base import TokenCursor
from tailrace_emulator.tsql.syntax.statements import (
    Assignment,
    Delete,
    Insert,
    Merge,
    MergeClause,
    Output,
    QueryStatement,
    Statement,
    Target,
    Truncate,
    Update,
)
from tailrace_emulator.tsql.syntax.text_statements import WRITE
from tailrace_emulator.tsql.syntax.tokens import Kind

_ASSIGNMENTS: Final = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=")


@statement("WITH")
def with_statement(cursor: TokenCursor) -> Statement:
    """WITH before SELECT or a data statement."""
    line = cursor.token.line
    common_tables = queries.with_clause(cursor)
    if cursor.at("INSERT"):
        return insert(cursor, common_tables)
    if cursor.at("UPDATE"):
        return update(cursor, common_tables)
    if cursor.at("DELETE"):
        return delete(cursor, common_tables)
    if cursor.at("MERGE"):
        return merge(cursor, common_tables)
    return QueryStatement(queries.query_into(cursor, common_tables), line=line)


def target_table(cursor: TokenCursor) -> Target:
    """What a statement changes."""
    if cursor.token.kind is Kind.VARIABLE:
        return VariableTable(cursor.advance().text)
    line = cursor.token.line
    name = cursor.dotted_name()
    return TableName(name, line, None, sources.table_hints(cursor))


@statement("INSERT")
def insert(cursor: TokenCursor, common_tables: tuple[CommonTable, ...] = ()) -> Insert | InsertBulk:
    """INSERT."""
    line = cursor.token.line
    cursor.expect("INSERT")
    if cursor.accept("BULK"):
        return _insert_bulk(cursor, line)
    top = queries.top_clause(cursor)
    cursor.accept("INTO")
    target = target_table(cursor)
    columns = _column_list(cursor) if cursor.at("(") and not _query_in_parentheses(cursor) else ()
    output = output_clause(cursor)
    if cursor.accept("DEFAULT", "VALUES"):
        return Insert(target, columns, default_values=True, output=output, top=top, line=line)
    if cursor.at_any("EXEC", "EXECUTE"):
        execute = executing.execute_statement(cursor)
        return Insert(target, columns, execute=execute, output=output, line=line)
    if cursor.at("VALUES"):
        query = Query(sources.value_rows(cursor))
    elif cursor.at("WITH"):
        query = queries.query(cursor)
    else:
        # OPTION at the query's end is about the tables of the WITH before INSERT.
        query = queries.query_after_with(cursor, common_tables)
        common_tables = query.common_tables
        query = replace(query, common_tables=())
    return Insert(
        target,
        columns,
        query=query,
        output=output,
        top=top,
        common_tables=common_tables,
        line=line,
    )


def _insert_bulk(cursor: TokenCursor, line: int) -> InsertBulk:
    """``INSERT BULK table (column type [COLLATE c] [NULL], ...) [WITH (option, ...)]``."""
    target = target_table(cursor)
    columns: list[str] = []
    cursor.expect("(")
    while True:
        columns.append(cursor.identifier())
        cursor.data_type()
        if cursor.accept("COLLATE"):
            cursor.identifier()
        cursor.accept("NOT")
        cursor.accept("NULL")
        if not cursor.accept(","):
            break
    cursor.expect(")")
    options: set[str] = set()
    if cursor.accept("WITH"):
        cursor.expect("(")
        while True:
            options.add(cursor.advance().upper)
            if cursor.accept("="):
                cursor.advance()
            elif cursor.at("("):
                cursor.skip_parenthesised()
            if not cursor.accept(","):
                break
        cursor.expect(")")
    return InsertBulk(target, tuple(columns), frozenset(options), line=line)


def _query_in_parentheses(cursor: TokenCursor) -> bool:
    """Whether ``(`` begins a query rather than a column list."""
    return cursor.ahead().upper in {"SELECT", "WITH", "("}


def _column_list(cursor: TokenCursor) -> tuple[str, ...]:
    """Target columns; a qualifier before a column is allowed and redundant."""
    cursor.expect("(")
    names = [cursor.dotted_name()[-1]]
    while cursor.accept(","):
        names.append(cursor.dotted_name()[-1])
    cursor.expect(")")
    return tuple(names)


def output_clause(cursor: TokenCursor) -> Output | None:
    """``OUTPUT list [INTO target [(columns)]]``."""
    if not cursor.accept("OUTPUT"):
        return None
    items: tuple[SelectItem, ...] = queries.select_items(cursor)
    if not cursor.accept("INTO"):
        return Output(items)
    into = target_table(cursor)
    columns = _column_list(cursor) if cursor.at("(") else ()
    return Output(items, into, columns)


@statement("UPDATE")
def update(cursor: TokenCursor, common_tables: tuple[CommonTable, ...] = ()) -> Update:
    """UPDATE."""
    line = cursor.token.line
    cursor.expect("UPDATE")
    top = queries.top_clause(cursor)
    target = target_table(cursor)
    cursor.expect("SET")
    assignments = set_list(cursor)
    output = output_clause(cursor)
    source = sources.source_list(cursor) if cursor.accept("FROM") else None
    where = _where(cursor)
    common_tables = queries.option_clause(cursor, common_tables)
    return Update(target, assignments, source, where, output, top, common_tables, line=line)


def _where(cursor: TokenCursor) -> Expression | None:
    """WHERE."""
    where = None
    if cursor.accept("WHERE"):
        if cursor.at("CURRENT", "OF"):
            raise not_supported("WHERE CURRENT OF")
        where = expressions.condition(cursor)
    return where


def set_list(cursor: TokenCursor) -> tuple[Assignment, ...]:
    """``a = 1, b += 2, @x = c = 3``."""
    items = [_assignment(cursor)]
    while cursor.accept(","):
        items.append(_assignment(cursor))
    return tuple(items)


def _assignment(cursor: TokenCursor) -> Assignment:
    """One assignment of SET."""
    if cursor.token.kind is Kind.VARIABLE:
        variable = cursor.advance().text
        operator = assignment_operator(cursor)
        if cursor.at_name() and cursor.ahead().upper in _ASSIGNMENTS:
            column = cursor.dotted_name()
            column_operator = assignment_operator(cursor)
            return Assignment(column, sources.value_or_default(cursor), column_operator, variable)
        return Assignment(None, expressions.scalar(cursor), operator, variable)
    column = cursor.dotted_name()
    if cursor.at("("):
        return _write(cursor, column)
    operator = assignment_operator(cursor)
    return Assignment(column, sources.value_or_default(cursor), operator)


def _write(cursor: TokenCursor, name: Name) -> Assignment:
    """``column.WRITE(expression, offset, length)``."""
    line = cursor.advance().line
    if len(name) < 2 or name[-1].upper() != "WRITE":
        raise not_supported(f"the method .{name[-1]}() in SET")
    arguments = [expressions.scalar(cursor)]
    for _ in range(2):
        cursor.expect(",")
        arguments.append(expressions.scalar(cursor))
    cursor.expect(")")
    column = name[:-1]
    return Assignment(column, Call((WRITE,), (ColumnName(column, line), *arguments), line))


def assignment_operator(cursor: TokenCursor) -> str:
    """``=``, ``+=`` and the like."""
    operator = cursor.accept_any(*_ASSIGNMENTS)
    if operator is None:
        cursor.fail()
    return operator


@statement("DELETE")
def delete(cursor: TokenCursor, common_tables: tuple[CommonTable, ...] = ()) -> Delete:
    """DELETE."""
    line = cursor.token.line
    cursor.expect("DELETE")
    top = queries.top_clause(cursor)
    cursor.accept("FROM")
    target = target_table(cursor)
    output = output_clause(cursor)
    source = sources.source_list(cursor) if cursor.accept("FROM") else None
    where = _where(cursor)
    common_tables = queries.option_clause(cursor, common_tables)
    return Delete(target, source, where, output, top, common_tables, line=line)


@statement("MERGE")
def merge(cursor: TokenCursor, common_tables: tuple[CommonTable, ...] = ()) -> Merge:
    """MERGE."""
    line = cursor.token.line
    cursor.expect("MERGE")
    top = queries.top_clause(cursor)
    cursor.accept("INTO")
    plain = target_table(cursor)
    alias = sources.table_alias(cursor)
    target: Target = (
        VariableTable(plain.name, alias)
        if isinstance(plain, VariableTable)
        else TableName(plain.name, plain.line, alias, plain.hints)
    )
    cursor.expect("USING")
    source: Source = sources.joined_source(cursor)
    cursor.expect("ON")
    condition = expressions.condition(cursor)
    clauses = []
    while cursor.accept("WHEN"):
        clauses.append(_merge_clause(cursor))
    output = output_clause(cursor)
    common_tables = queries.option_clause(cursor, common_tables)
    return Merge(target, source, condition, tuple(clauses), output, top, common_tables, line=line)


def _merge_clause(cursor: TokenCursor) -> MergeClause:
    """WHEN [NOT] MATCHED [BY ..] [AND ..] THEN action."""
    when = "MATCHED"
    if cursor.accept("NOT"):
        cursor.expect("MATCHED")
        when = "TARGET"
        if cursor.accept("BY"):
            by = cursor.accept_any("TARGET", "SOURCE")
            if by is None:
                cursor.fail()
            when = by
    else:
        cursor.expect("MATCHED")
    condition = expressions.condition(cursor) if cursor.accept("AND") else None
    cursor.expect("THEN")
    if cursor.accept("DELETE"):
        return MergeClause(when, condition, "DELETE")
    if cursor.accept("UPDATE", "SET"):
        return MergeClause(when, condition, "UPDATE", set_list(cursor))
    cursor.expect("INSERT")
    columns = _column_list(cursor) if cursor.at("(") else ()
    if cursor.accept("DEFAULT", "VALUES"):
        return MergeClause(when, condition, "INSERT", (), columns, None)
    cursor.expect("VALUES", "(")
    values = sources.values_or_defaults(cursor)
    cursor.expect(")")
    return MergeClause(when, condition, "INSERT", (), columns, values)


@statement("TRUNCATE")
def truncate(cursor: TokenCursor) -> Truncate:
    """TRUNCATE TABLE."""
    line = cursor.token.line
    cursor.expect("TRUNCATE", "TABLE")
    name_line = cursor.token.line
    table = TableName(cursor.dotted_name(), name_line)
    if cursor.at("WITH", "(", "PARTITIONS"):
        raise not_supported("TRUNCATE TABLE ... WITH (PARTITIONS)")
    return Truncate(table, line=line)
