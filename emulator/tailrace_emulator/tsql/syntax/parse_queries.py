"""Grammar of queries: SELECT, grouping, set operations, FOR, OPTION."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.syntax import parse_expressions as expressions
from tailrace_emulator.tsql.syntax import parse_sources as sources
from tailrace_emulator.tsql.syntax.grammar import GRAMMAR, statement
from tailrace_emulator.tsql.syntax.grouping import GroupingSets, cube, rollup
from tailrace_emulator.tsql.syntax.nodes import (
    Body,
    CommonTable,
    Derived,
    Expression,
    ForClause,
    Name,
    Over,
    Query,
    Select,
    SelectItem,
    SetOperation,
    Star,
    Top,
)
from tailrace_emulator.tsql.syntax.parse_base import Into, TokenCursor
from tailrace_emulator.tsql.syntax.statements import QueryStatement, Statement
from tailrace_emulator.tsql.syntax.tokens import Kind

_RECURSION_MAX: Final = 32_767


@statement("SELECT")
@statement("(")
def query_statement(cursor: TokenCursor) -> Statement:
    """SELECT, possibly in parentheses."""
    line = cursor.token.line
    return QueryStatement(query_into(cursor, ()), line=line)


@GRAMMAR.register_query
def query(cursor: TokenCursor) -> Query:
    """[WITH ..] expression [ORDER BY ..] [OFFSET ..] [OPTION ..]."""
    common_tables = with_clause(cursor)
    return query_after_with(cursor, common_tables)


def with_clause(cursor: TokenCursor) -> tuple[CommonTable, ...]:
    """``WITH name (columns) AS (query), ...``, or nothing."""
    if not cursor.accept("WITH"):
        return ()
    tables = []
    while True:
        name = cursor.identifier()
        columns = cursor.name_list() if cursor.at("(") else ()
        cursor.expect("AS", "(")
        tables.append(CommonTable(name, columns, query(cursor)))
        cursor.expect(")")
        if not cursor.accept(","):
            return tuple(tables)


def query_into(cursor: TokenCursor, common_tables: tuple[CommonTable, ...]) -> Query:
    """A query that is a statement: its first SELECT may have INTO."""
    cursor.into = Into.HERE
    try:
        return query_after_with(cursor, common_tables)
    finally:
        cursor.into = Into.NOWHERE


def query_after_with(cursor: TokenCursor, common_tables: tuple[CommonTable, ...]) -> Query:
    """The rest of a query."""
    return _rest_of_query(cursor, _unions(cursor), common_tables)


def _rest_of_query(
    cursor: TokenCursor, body: Body, common_tables: tuple[CommonTable, ...]
) -> Query:
    """What follows the expression of a query."""
    order_by = expressions.order_by(cursor) if cursor.at("ORDER") else ()
    offset = fetch = None
    if cursor.accept("OFFSET"):
        offset = expressions.scalar(cursor)
        _rows_word(cursor)
        if cursor.accept("FETCH"):
            if not cursor.accept_any("NEXT", "FIRST"):
                cursor.fail()
            fetch = expressions.scalar(cursor)
            _rows_word(cursor)
            cursor.expect("ONLY")
    for_clause = None
    if cursor.at("FOR") and cursor.ahead().upper in {"XML", "JSON"}:
        for_clause = _for_clause(cursor)
    elif cursor.at("FOR", "BROWSE"):
        raise not_supported("FOR BROWSE")
    common_tables = option_clause(cursor, common_tables)
    return Query(body, common_tables, order_by, offset, fetch, for_clause)


def _for_clause(cursor: TokenCursor) -> ForClause:
    """``FOR JSON PATH, ROOT('x')``, ``FOR XML PATH(''), TYPE`` and the like."""
    cursor.expect("FOR")
    form = cursor.advance().upper
    mode = cursor.accept_any("PATH", "AUTO", "RAW", "EXPLICIT")
    if mode is None or (form == "JSON" and mode in {"RAW", "EXPLICIT"}):
        cursor.fail()
    if mode == "EXPLICIT":
        raise not_supported("FOR XML EXPLICIT")
    clause = ForClause(form, mode, elements=mode == "PATH")
    if form == "XML" and cursor.at("("):
        clause = replace(clause, element=_quoted_argument(cursor))
    while cursor.accept(","):
        clause = _for_option(cursor, clause)
    return clause


def _quoted_argument(cursor: TokenCursor) -> str:
    """``('text')``."""
    cursor.expect("(")
    if cursor.token.kind not in {Kind.STRING, Kind.NATIONAL}:
        cursor.fail()
    text = cursor.advance().text
    cursor.expect(")")
    return text


def _for_option(cursor: TokenCursor, clause: ForClause) -> ForClause:
    """One option after a comma."""
    if cursor.accept("ROOT"):
        return replace(clause, root=_quoted_argument(cursor) if cursor.at("(") else "root")
    if clause.format == "JSON":
        if cursor.accept("INCLUDE_NULL_VALUES"):
            return replace(clause, nulls=True)
        if cursor.accept("WITHOUT_ARRAY_WRAPPER"):
            return replace(clause, wrapped=False)
        cursor.fail()
    if cursor.accept("TYPE"):
        return replace(clause, typed=True)
    if cursor.accept("ELEMENTS"):
        nulls = cursor.accept_any("XSINIL", "ABSENT") == "XSINIL"
        return replace(clause, elements=True, nulls=nulls)
    if cursor.accept("BINARY", "BASE64"):
        return clause
    raise not_supported(f"FOR XML ... {cursor.token.text.upper()}")


def option_clause(
    cursor: TokenCursor, common_tables: tuple[CommonTable, ...] = ()
) -> tuple[CommonTable, ...]:
    """``OPTION (..)``: hints, which change no result; MAXRECURSION goes to the CTEs.

    Raises:
        SqlError: 310 when MAXRECURSION is above 32,767.
    """
    if not cursor.accept("OPTION"):
        return common_tables
    start = cursor.position
    cursor.skip_parenthesised()
    for position in range(start, cursor.position):
        if cursor.tokens[position].upper == "MAXRECURSION":
            text = cursor.tokens[position + 1].text
            limit = int(text) if text.isdigit() else 0
            if limit > _RECURSION_MAX:
                raise messages.error(310, limit, _RECURSION_MAX)
            return tuple(replace(table, max_recursion=limit) for table in common_tables)
    return common_tables


def _rows_word(cursor: TokenCursor) -> None:
    """ROW or ROWS."""
    if not cursor.accept_any("ROW", "ROWS"):
        cursor.fail()


def _unions(cursor: TokenCursor) -> Body:
    """UNION and EXCEPT, from left to right."""
    left = _intersections(cursor)
    while cursor.at_any("UNION", "EXCEPT"):
        operator = cursor.advance().upper
        if operator == "UNION" and cursor.accept("ALL"):
            operator = "UNION ALL"
        left = SetOperation(operator, Query(left), Query(_intersections(cursor)))
    return left


def _intersections(cursor: TokenCursor) -> Body:
    """INTERSECT binds tighter."""
    left = _query_term(cursor)
    while cursor.accept("INTERSECT"):
        left = SetOperation("INTERSECT", Query(left), Query(_query_term(cursor)))
    return left


def _query_term(cursor: TokenCursor) -> Body:
    """SELECT, or a parenthesised query expression."""
    if cursor.accept("("):
        body = _unions(cursor)
        if cursor.at("ORDER"):
            ordered = _rest_of_query(cursor, body, ())
            # Of a part of a set operation, with TOP or OFFSET: as of a derived table.
            source = Derived(ordered, "ordered")
            body = Select((SelectItem(Star()),), cursor.token.line, source=source)
        cursor.expect(")")
        return body
    return select(cursor)


def select(cursor: TokenCursor) -> Select:
    """One SELECT without ORDER BY."""
    line = cursor.token.line
    place, cursor.into = cursor.into, Into.NOWHERE
    cursor.expect("SELECT")
    distinct = cursor.accept_any("ALL", "DISTINCT") == "DISTINCT"
    top = top_clause(cursor)
    items = select_items(cursor)
    into = _into_clause(cursor, place) if cursor.at("INTO") else None
    source = sources.source_list(cursor) if cursor.accept("FROM") else None
    where = expressions.condition(cursor) if cursor.accept("WHERE") else None
    group_by: tuple[Expression, ...] = ()
    sets: GroupingSets = ()
    if cursor.accept("GROUP", "BY"):
        if cursor.at("ALL"):
            raise not_supported("GROUP BY ALL")
        group_by, sets = _group_by(cursor)
    having = expressions.condition(cursor) if cursor.accept("HAVING") else None
    windows = _windows(cursor) if cursor.at("WINDOW") else ()
    cursor.into = Into.NOWHERE if place is Into.NOWHERE else Into.BEFORE
    return Select(items, line, distinct, top, into, source, where, group_by, having, sets, windows)


def _into_clause(cursor: TokenCursor, place: Into) -> Name:
    """``INTO name``.

    Raises:
        SqlError: 196 in another SELECT of a set operation than the first, 156 in a subquery.
    """
    if place is Into.NOWHERE:
        cursor.fail()
    if place is Into.BEFORE:
        raise messages.error(196, line=cursor.token.line)
    cursor.expect("INTO")
    return cursor.dotted_name()


def _windows(cursor: TokenCursor) -> tuple[tuple[str, Over], ...]:
    """``WINDOW name AS (..), ...``."""
    cursor.expect("WINDOW")
    found = []
    while True:
        name = cursor.identifier()
        cursor.expect("AS")
        found.append((name.casefold(), expressions.window(cursor)))
        if not cursor.accept(","):
            return tuple(found)


def _group_by(cursor: TokenCursor) -> tuple[tuple[Expression, ...], GroupingSets]:
    """What follows GROUP BY: all expressions, and the sets when there are several."""
    elements = [_grouping_element(cursor)]
    while cursor.accept(","):
        elements.append(_grouping_element(cursor))
    if cursor.at("WITH") and cursor.ahead().upper in {"ROLLUP", "CUBE"}:
        cursor.advance()
        make = rollup if cursor.advance().upper == "ROLLUP" else cube
        keys = [element[0] for element in elements]
        elements = [make(keys)]
    sets = tuple(
        tuple(expression for keys in chosen for expression in keys) for chosen in product(*elements)
    )
    everything = tuple(dict.fromkeys(e for keys in sets for e in keys))
    plain = len(sets) == 1 and len(sets[0]) > 0
    return (everything, ()) if plain else (everything, sets)


def _grouping_element(cursor: TokenCursor) -> GroupingSets:
    """An expression (one set), ROLLUP, CUBE, GROUPING SETS or ``()``."""
    if cursor.at("ROLLUP", "(") or cursor.at("CUBE", "("):
        make = rollup if cursor.advance().upper == "ROLLUP" else cube
        cursor.expect("(")
        keys = [_grouping_key(cursor)]
        while cursor.accept(","):
            keys.append(_grouping_key(cursor))
        cursor.expect(")")
        return make(keys)
    if cursor.accept("GROUPING", "SETS"):
        cursor.expect("(")
        sets = list(_grouping_element(cursor))
        while cursor.accept(","):
            sets += _grouping_element(cursor)
        cursor.expect(")")
        return tuple(sets)
    return (_grouping_key(cursor),)


def _grouping_key(cursor: TokenCursor) -> tuple[Expression, ...]:
    """An expression, or several in parentheses, or none."""
    if cursor.accept("(", ")"):
        return ()
    start = cursor.position
    if cursor.accept("("):
        keys = expressions.expression_list(cursor)
        if cursor.accept(")") and (len(keys) > 1 or cursor.at_any(",", ")")):
            return keys
        cursor.position = start
    return (expressions.scalar(cursor),)


def top_clause(cursor: TokenCursor) -> Top | None:
    """``TOP (n) [PERCENT] [WITH TIES]``, or nothing."""
    if not cursor.accept("TOP"):
        return None
    if cursor.accept("("):
        count = expressions.scalar(cursor)
        cursor.expect(")")
    else:
        count = expressions.primary(cursor)
    percent = cursor.accept("PERCENT")
    return Top(count, percent, cursor.accept("WITH", "TIES"))


def select_items(cursor: TokenCursor) -> tuple[SelectItem, ...]:
    """A select list."""
    items = [_select_item(cursor)]
    while cursor.accept(","):
        items.append(_select_item(cursor))
    return tuple(items)


def _select_item(cursor: TokenCursor) -> SelectItem:
    """``expression [AS] alias``, ``alias = expression`` or ``@x = expression``."""
    token, following = cursor.token, cursor.ahead()
    if token.kind is Kind.VARIABLE and following.upper in {
        "=",
        "+=",
        "-=",
        "*=",
        "/=",
        "%=",
        "&=",
        "|=",
        "^=",
    }:
        cursor.position += 2
        return SelectItem(
            expressions.condition(cursor), variable=token.text, operator=following.upper
        )
    if following.upper == "=" and (cursor.at_name() or token.kind is Kind.STRING):
        cursor.position += 2
        return SelectItem(expressions.condition(cursor), alias=token.text)
    expression = expressions.condition(cursor)
    if isinstance(expression, Star):
        return SelectItem(expression)
    return SelectItem(expression, alias=_column_alias(cursor))


def _column_alias(cursor: TokenCursor) -> str | None:
    """``[AS] alias``; a string may be one."""
    if cursor.accept("AS"):
        if cursor.token.kind in {Kind.STRING, Kind.NATIONAL}:
            return cursor.advance().text
        return cursor.identifier()
    if cursor.token.kind is Kind.STRING:
        return cursor.advance().text
    if cursor.at_name() and cursor.token.upper not in sources.NOT_AN_ALIAS:
        return cursor.advance().text
    return None
