"""Grammar of queries: SELECT, set operations, FROM."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from emulator.errors import not_supported
from emulator.tsql.nodes import (
    Body,
    CommonTable,
    DefaultMark,
    Derived,
    Expression,
    ForClause,
    FunctionTable,
    Join,
    Query,
    SchemaColumn,
    Select,
    SelectItem,
    SetOperation,
    Source,
    Star,
    TableName,
    Top,
    ValueRows,
    VariableTable,
)
from emulator.tsql.parse_expressions import ExpressionParser
from emulator.tsql.tokens import Kind

_HINTS: Final = frozenset(
    {"NOLOCK", "READUNCOMMITTED", "READCOMMITTED", "READCOMMITTEDLOCK", "REPEATABLEREAD",
     "SERIALIZABLE", "HOLDLOCK", "ROWLOCK", "PAGLOCK", "TABLOCK", "TABLOCKX", "UPDLOCK", "XLOCK",
     "READPAST", "NOWAIT", "NOEXPAND", "FORCESEEK", "FORCESCAN", "INDEX", "SNAPSHOT",
     "KEEPIDENTITY", "KEEPDEFAULTS"}
)  # fmt: skip
_NOT_AN_ALIAS: Final = frozenset(
    {"OUTPUT", "USING", "APPLY", "MATCHED", "OFFSET", "THROW", "GO", "WINDOW"}
)
_JOIN_HINTS: Final = ("LOOP", "HASH", "MERGE", "REMOTE")


class QueryParser(ExpressionParser):
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
        self.options()
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

    def options(self) -> None:
        """``OPTION (..)``: hints, which change no result."""
        if self.accept("OPTION"):
            self.skip_parenthesised()

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
        self.expect("SELECT")
        distinct = self.accept_any("ALL", "DISTINCT") == "DISTINCT"
        top = self.top()
        items = self.select_items()
        into = self.dotted_name() if self.accept("INTO") else None
        source = self.sources() if self.accept("FROM") else None
        where = self.condition() if self.accept("WHERE") else None
        group_by: tuple[Expression, ...] = ()
        if self.accept("GROUP", "BY"):
            if self.at_any("ROLLUP", "CUBE", "GROUPING"):
                raise not_supported(f"GROUP BY {self.token.upper}")
            group_by = self.expression_list()
            if self.at("WITH") and self.ahead().upper in {"ROLLUP", "CUBE"}:
                raise not_supported(f"GROUP BY WITH {self.ahead().upper}")
        having = self.condition() if self.accept("HAVING") else None
        if self.at("WINDOW"):
            raise not_supported("the WINDOW clause")
        return Select(items, line, distinct, top, into, source, where, group_by, having)

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
        if self.at_name() and self.token.upper not in _NOT_AN_ALIAS:
            return self.advance().text
        return None

    # FROM ---------------------------------------------------------------------------------------

    def sources(self) -> Source:
        """``a, b JOIN c ON ..``."""
        source = self.joined_source()
        while self.accept(","):
            source = Join("CROSS", source, self.joined_source())
        return source

    def joined_source(self) -> Source:
        """One element with the joins after it."""
        source = self._source()
        while kind := self._join_kind():
            source = self._join(kind, source)
        return source

    def _join(self, kind: str, left: Source) -> Source:
        """What follows a join word; ``a JOIN b JOIN c ON .. ON ..`` nests to the right."""
        right = self._source()
        if kind == "CROSS" or kind.endswith("APPLY"):
            return Join(kind, left, right)
        while not self.at("ON"):
            inner = self._join_kind()
            if inner is None:
                self.fail()
            right = self._join(inner, right)
        self.expect("ON")
        return Join(kind, left, right, self.condition())

    def _join_kind(self) -> str | None:
        """The words of a join, or nothing."""
        if self.accept("CROSS", "JOIN"):
            return "CROSS"
        if self.accept("CROSS", "APPLY"):
            return "CROSS APPLY"
        if self.accept("OUTER", "APPLY"):
            return "OUTER APPLY"
        if self.accept("JOIN"):
            return "INNER"
        if not self.at_any("INNER", "LEFT", "RIGHT", "FULL"):
            return None
        kind = self.advance().upper
        self.accept("OUTER")
        self.accept_any(*_JOIN_HINTS)
        self.expect("JOIN")
        return kind

    def _source(self) -> Source:
        """A table, function, table variable, subquery or parenthesised join."""
        if self.accept("("):
            if self.at_any("SELECT", "WITH", "VALUES") or (self.at("(") and self._is_query_ahead()):
                return self._derived()
            source = self.joined_source()
            self.expect(")")
            return source
        if self.token.kind is Kind.VARIABLE:
            variable = self.advance().text
            return VariableTable(variable, self.table_alias())
        line = self.token.line
        name = self.dotted_name()
        if name[-1].upper() in {"OPENROWSET", "OPENQUERY", "OPENDATASOURCE", "OPENXML"}:
            raise not_supported(name[-1].upper())
        if self.at("(") and not self._at_old_hint():
            self.expect("(")
            arguments = () if self.at(")") else self._function_arguments()
            self.expect(")")
            schema: tuple[SchemaColumn, ...] = ()
            if self.at("WITH", "(") and name[-1].upper() == "OPENJSON":
                schema = self._json_schema()
            alias = self.table_alias()
            columns = self.name_list() if alias and self.at("(") else ()
            return FunctionTable(name, arguments, line, alias, columns, schema)
        return self._table(name, line)

    def _json_schema(self) -> tuple[SchemaColumn, ...]:
        """``WITH (name type ['path'] [AS JSON], ...)``."""
        self.expect("WITH", "(")
        columns = []
        while True:
            name = self.identifier()
            sql_type = self.data_type()
            path = None
            if self.token.kind in {Kind.STRING, Kind.NATIONAL}:
                path = self.advance().text
            columns.append(SchemaColumn(name, sql_type, path, self.accept("AS", "JSON")))
            if not self.accept(","):
                break
        self.expect(")")
        return tuple(columns)

    def _function_arguments(self) -> tuple[Expression, ...]:
        """Arguments of a table function, DEFAULT among them."""
        items = [self._function_argument()]
        while self.accept(","):
            items.append(self._function_argument())
        return tuple(items)

    def _function_argument(self) -> Expression:
        return DefaultMark() if self.accept("DEFAULT") else self.scalar()

    def _table(self, name: tuple[str, ...], line: int) -> TableName:
        """Alias and hints of a table."""
        if self.at("FOR") and self.ahead().upper in {"SYSTEM_TIME", "PATH"}:
            raise not_supported(f"FOR {self.ahead().upper} in FROM")
        hints = self.table_hints()
        alias = self.table_alias()
        hints += self.table_hints()
        if self.at_any("PIVOT", "UNPIVOT", "TABLESAMPLE"):
            raise not_supported(self.token.upper)
        return TableName(name, line, alias, hints)

    def _at_old_hint(self) -> bool:
        """Whether ``(NOLOCK)`` follows a table name."""
        return self.ahead().upper in _HINTS and self.ahead(2).upper in {")", ","}

    def table_hints(self) -> tuple[str, ...]:
        """``WITH (hints)`` or ``(NOLOCK)``."""
        if not (self.at("WITH", "(") or (self.at("(") and self._at_old_hint())):
            return ()
        self.accept("WITH")
        start = self.position + 1
        self.skip_parenthesised()
        return tuple(
            token.upper for token in self.tokens[start : self.position - 1] if token.upper in _HINTS
        )

    def table_alias(self) -> str | None:
        """``[AS] alias``."""
        if self.accept("AS"):
            return self.identifier()
        if self.at_name() and self.token.upper not in _NOT_AN_ALIAS:
            return self.advance().text
        return None

    def _is_query_ahead(self) -> bool:
        """Whether nested parentheses hold a query rather than a join."""
        offset = 0
        while self.ahead(offset).upper == "(":
            offset += 1
        return self.ahead(offset).upper in {"SELECT", "WITH", "VALUES"}

    def _derived(self) -> Derived:
        """``( query ) alias (columns)``; the opening parenthesis was taken."""
        query = Query(self.value_rows()) if self.at("VALUES") else self.query()
        self.expect(")")
        alias = self.table_alias()
        if alias is None:
            self.fail()
        columns = self.name_list() if self.at("(") else ()
        return Derived(query, alias, columns)

    def value_rows(self) -> ValueRows:
        """``VALUES (..), (..)``."""
        line = self.token.line
        self.expect("VALUES")
        rows = []
        while True:
            self.expect("(")
            rows.append(self._row_values())
            self.expect(")")
            if not self.accept(","):
                return ValueRows(tuple(rows), line)

    def _row_values(self) -> tuple[Expression, ...]:
        """The values of one row; the data grammar adds DEFAULT."""
        return self.expression_list()
