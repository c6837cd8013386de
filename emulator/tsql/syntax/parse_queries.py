"""Grammar of queries: SELECT, grouping, set operations, FOR, OPTION."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Final

from emulator.errors import not_supported
from emulator.tsql import messages
from emulator.tsql.syntax.grouping import GroupingSets, cube, rollup
from emulator.tsql.syntax.nodes import (
    Body,
    CommonTable,
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
from emulator.tsql.syntax.parse_base import Into
from emulator.tsql.syntax.parse_sources import NOT_AN_ALIAS, SourceParser
from emulator.tsql.syntax.tokens import Kind

_RECURSION_MAX: Final = 32_767


class QueryParser(SourceParser):
    """Queries and their sources."""

    def query(self) -> Query:
        """[WITH ..] expression [ORDER BY ..] [OFFSET ..] [OPTION ..]."""
        common_tables = self.common_tables()
        return self.query_after_with(common_tables)

    def common_tables(self) -> tuple[CommonTable, ...]:
        """``WITH name (columns) AS (query), ...``, or nothing."""
        if not self.accept("WITH"):
            return ()
        tables = []
        while True:
            name = self.identifier()
            columns = self.name_list() if self.at("(") else ()
            self.expect("AS", "(")
            tables.append(CommonTable(name, columns, self.query()))
            self.expect(")")
            if not self.accept(","):
                return tuple(tables)

    def query_into(self, common_tables: tuple[CommonTable, ...]) -> Query:
        """A query that is a statement: its first SELECT may have INTO."""
        self._into = Into.HERE
        try:
            return self.query_after_with(common_tables)
        finally:
            self._into = Into.NOWHERE

    def query_after_with(self, common_tables: tuple[CommonTable, ...]) -> Query:
        """The rest of a query."""
        body = self._unions()
        order_by = self.order_by() if self.at("ORDER") else ()
        offset = fetch = None
        if self.accept("OFFSET"):
            offset = self.scalar()
            self._rows_word()
            if self.accept("FETCH"):
                if not self.accept_any("NEXT", "FIRST"):
                    self.fail()
                fetch = self.scalar()
                self._rows_word()
                self.expect("ONLY")
        for_clause = None
        if self.at("FOR") and self.ahead().upper in {"XML", "JSON"}:
            for_clause = self._for_clause()
        elif self.at("FOR", "BROWSE"):
            raise not_supported("FOR BROWSE")
        common_tables = self.options(common_tables)
        return Query(body, common_tables, order_by, offset, fetch, for_clause)

    def _for_clause(self) -> ForClause:
        """``FOR JSON PATH, ROOT('x')``, ``FOR XML PATH(''), TYPE`` and the like."""
        self.expect("FOR")
        form = self.advance().upper
        mode = self.accept_any("PATH", "AUTO", "RAW", "EXPLICIT")
        if mode is None or (form == "JSON" and mode in {"RAW", "EXPLICIT"}):
            self.fail()
        if mode == "EXPLICIT":
            raise not_supported("FOR XML EXPLICIT")
        clause = ForClause(form, mode, elements=mode == "PATH")
        if form == "XML" and self.at("("):
            clause = replace(clause, element=self._quoted_argument())
        while self.accept(","):
            clause = self._for_option(clause)
        return clause

    def _quoted_argument(self) -> str:
        """``('text')``."""
        self.expect("(")
        if self.token.kind not in {Kind.STRING, Kind.NATIONAL}:
            self.fail()
        text = self.advance().text
        self.expect(")")
        return text

    def _for_option(self, clause: ForClause) -> ForClause:
        """One option after a comma."""
        if self.accept("ROOT"):
            return replace(clause, root=self._quoted_argument() if self.at("(") else "root")
        if clause.format == "JSON":
            if self.accept("INCLUDE_NULL_VALUES"):
                return replace(clause, nulls=True)
            if self.accept("WITHOUT_ARRAY_WRAPPER"):
                return replace(clause, wrapped=False)
            self.fail()
        if self.accept("TYPE"):
            return replace(clause, typed=True)
        if self.accept("ELEMENTS"):
            nulls = self.accept_any("XSINIL", "ABSENT") == "XSINIL"
            return replace(clause, elements=True, nulls=nulls)
        if self.accept("BINARY", "BASE64"):
            return clause
        raise not_supported(f"FOR XML ... {self.token.text.upper()}")

    def options(self, common_tables: tuple[CommonTable, ...] = ()) -> tuple[CommonTable, ...]:
        """``OPTION (..)``: hints, which change no result; MAXRECURSION goes to the CTEs.

        Raises:
            SqlError: 310 when MAXRECURSION is above 32,767.
        """
        if not self.accept("OPTION"):
            return common_tables
        start = self.position
        self.skip_parenthesised()
        for position in range(start, self.position):
            if self.tokens[position].upper == "MAXRECURSION":
                text = self.tokens[position + 1].text
                limit = int(text) if text.isdigit() else 0
                if limit > _RECURSION_MAX:
                    raise messages.compile_error(
                        310,
                        f"The value {limit} specified for the MAXRECURSION option exceeds the"
                        f" allowed maximum of {_RECURSION_MAX}.",
                        severity=15,
                    )
                return tuple(replace(table, max_recursion=limit) for table in common_tables)
        return common_tables

    def _rows_word(self) -> None:
        """ROW or ROWS."""
        if not self.accept_any("ROW", "ROWS"):
            self.fail()

    def _unions(self) -> Body:
        """UNION and EXCEPT, from left to right."""
        left = self._intersections()
        while self.at_any("UNION", "EXCEPT"):
            operator = self.advance().upper
            if operator == "UNION" and self.accept("ALL"):
                operator = "UNION ALL"
            left = SetOperation(operator, Query(left), Query(self._intersections()))
        return left

    def _intersections(self) -> Body:
        """INTERSECT binds tighter."""
        left = self._query_term()
        while self.accept("INTERSECT"):
            left = SetOperation("INTERSECT", Query(left), Query(self._query_term()))
        return left

    def _query_term(self) -> Body:
        """SELECT, or a parenthesised query expression."""
        if self.accept("("):
            body = self._unions()
            self.expect(")")
            return body
        return self.select()

    def select(self) -> Select:
        """One SELECT without ORDER BY."""
        line = self.token.line
        place, self._into = self._into, Into.NOWHERE
        self.expect("SELECT")
        distinct = self.accept_any("ALL", "DISTINCT") == "DISTINCT"
        top = self.top()
        items = self.select_items()
        into = self._into_clause(place) if self.at("INTO") else None
        source = self.sources() if self.accept("FROM") else None
        where = self.condition() if self.accept("WHERE") else None
        group_by: tuple[Expression, ...] = ()
        sets: GroupingSets = ()
        if self.accept("GROUP", "BY"):
            if self.at("ALL"):
                raise not_supported("GROUP BY ALL")
            group_by, sets = self._group_by()
        having = self.condition() if self.accept("HAVING") else None
        windows = self._windows() if self.at("WINDOW") else ()
        self._into = Into.NOWHERE if place is Into.NOWHERE else Into.BEFORE
        return Select(
            items, line, distinct, top, into, source, where, group_by, having, sets, windows
        )

    def _into_clause(self, place: Into) -> Name:
        """``INTO name``.

        Raises:
            SqlError: 196 in another SELECT of a set operation than the first, 156 in a subquery.
        """
        if place is Into.NOWHERE:
            self.fail()
        if place is Into.BEFORE:
            raise messages.compile_error(
                196,
                "SELECT INTO must be the first query in a statement containing a UNION, INTERSECT"
                " or EXCEPT operator.",
                severity=15,
                line=self.token.line,
            )
        self.expect("INTO")
        return self.dotted_name()

    def _windows(self) -> tuple[tuple[str, Over], ...]:
        """``WINDOW name AS (..), ...``."""
        self.expect("WINDOW")
        found = []
        while True:
            name = self.identifier()
            self.expect("AS")
            found.append((name.casefold(), self.window()))
            if not self.accept(","):
                return tuple(found)

    def _group_by(self) -> tuple[tuple[Expression, ...], GroupingSets]:
        """What follows GROUP BY: all expressions, and the sets when there are several."""
        elements = [self._grouping_element()]
        while self.accept(","):
            elements.append(self._grouping_element())
        if self.at("WITH") and self.ahead().upper in {"ROLLUP", "CUBE"}:
            self.advance()
            make = rollup if self.advance().upper == "ROLLUP" else cube
            keys = [element[0] for element in elements]
            elements = [make(keys)]
        sets = tuple(
            tuple(expression for keys in chosen for expression in keys)
            for chosen in product(*elements)
        )
        everything = tuple(dict.fromkeys(e for keys in sets for e in keys))
        plain = len(sets) == 1 and len(sets[0]) > 0
        return (everything, ()) if plain else (everything, sets)

    def _grouping_element(self) -> GroupingSets:
        """An expression (one set), ROLLUP, CUBE, GROUPING SETS or ``()``."""
        if self.at("ROLLUP", "(") or self.at("CUBE", "("):
            make = rollup if self.advance().upper == "ROLLUP" else cube
            self.expect("(")
            keys = [self._grouping_key()]
            while self.accept(","):
                keys.append(self._grouping_key())
            self.expect(")")
            return make(keys)
        if self.accept("GROUPING", "SETS"):
            self.expect("(")
            sets = list(self._grouping_element())
            while self.accept(","):
                sets += self._grouping_element()
            self.expect(")")
            return tuple(sets)
        return (self._grouping_key(),)

    def _grouping_key(self) -> tuple[Expression, ...]:
        """An expression, or several in parentheses, or none."""
        if self.accept("(", ")"):
            return ()
        start = self.position
        if self.accept("("):
            keys = self.expression_list()
            if self.accept(")") and (len(keys) > 1 or self.at_any(",", ")")):
                return keys
            self.position = start
        return (self.scalar(),)

    def top(self) -> Top | None:
        """``TOP (n) [PERCENT] [WITH TIES]``, or nothing."""
        if not self.accept("TOP"):
            return None
        if self.accept("("):
            count = self.scalar()
            self.expect(")")
        else:
            count = self._primary()
        percent = self.accept("PERCENT")
        return Top(count, percent, self.accept("WITH", "TIES"))

    def select_items(self) -> tuple[SelectItem, ...]:
        """A select list."""
        items = [self._select_item()]
        while self.accept(","):
            items.append(self._select_item())
        return tuple(items)

    def _select_item(self) -> SelectItem:
        """``expression [AS] alias``, ``alias = expression`` or ``@x = expression``."""
        token, following = self.token, self.ahead()
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
            self.position += 2
            return SelectItem(self.condition(), variable=token.text, operator=following.upper)
        if following.upper == "=" and (self.at_name() or token.kind is Kind.STRING):
            self.position += 2
            return SelectItem(self.condition(), alias=token.text)
        expression = self.condition()
        if isinstance(expression, Star):
            return SelectItem(expression)
        return SelectItem(expression, alias=self._column_alias())

    def _column_alias(self) -> str | None:
        """``[AS] alias``; a string may be one."""
        if self.accept("AS"):
            if self.token.kind in {Kind.STRING, Kind.NATIONAL}:
                return self.advance().text
            return self.identifier()
        if self.token.kind is Kind.STRING:
            return self.advance().text
        if self.at_name() and self.token.upper not in NOT_AN_ALIAS:
            return self.advance().text
        return None
