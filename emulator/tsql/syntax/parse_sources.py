"""Grammar of FROM: tables, functions, joins, subqueries, PIVOT, VALUES."""

from __future__ import annotations

from typing import Final

from emulator.errors import not_supported
from emulator.tsql.syntax.nodes import (
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
from emulator.tsql.syntax.parse_expressions import ExpressionParser
from emulator.tsql.syntax.tokens import Kind

_HINTS: Final = frozenset(
    {"NOLOCK", "READUNCOMMITTED", "READCOMMITTED", "READCOMMITTEDLOCK", "REPEATABLEREAD",
     "SERIALIZABLE", "HOLDLOCK", "ROWLOCK", "PAGLOCK", "TABLOCK", "TABLOCKX", "UPDLOCK", "XLOCK",
     "READPAST", "NOWAIT", "NOEXPAND", "FORCESEEK", "FORCESCAN", "INDEX", "SNAPSHOT",
     "KEEPIDENTITY", "KEEPDEFAULTS"}
)  # fmt: skip
NOT_AN_ALIAS: Final = frozenset(
    {"OUTPUT", "USING", "APPLY", "MATCHED", "OFFSET", "THROW", "GO", "WINDOW"}
)
_JOIN_HINTS: Final = ("LOOP", "HASH", "MERGE", "REMOTE")


class SourceParser(ExpressionParser):
    """Sources of a query."""

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
        """A source with the PIVOTs after it."""
        source = self._plain_source()
        while self.at_any("PIVOT", "UNPIVOT"):
            source = self._pivot(source) if self.accept("PIVOT") else self._unpivot(source)
        return source

    def _pivot(self, source: Source) -> Source:
        """``(SUM(x) FOR y IN ([a], [b])) AS p``."""
        self.expect("(")
        aggregate = self._name()
        if not isinstance(aggregate, Call):
            self.fail()
        self.expect("FOR")
        column = ColumnName(self.dotted_name(), self.token.line)
        self.expect("IN")
        values = self.name_list()
        self.expect(")")
        alias = self.table_alias()
        if alias is None:
            self.fail()
        return Pivot(source, aggregate, column, values, alias)

    def _unpivot(self, source: Source) -> Source:
        """``(v FOR k IN (a, b)) AS u``."""
        self.expect("UNPIVOT", "(")
        value = self.identifier()
        self.expect("FOR")
        name = self.identifier()
        self.expect("IN")
        columns = self.name_list()
        self.expect(")")
        alias = self.table_alias()
        if alias is None:
            self.fail()
        return Unpivot(source, value, name, columns, alias)

    def _plain_source(self) -> Source:
        """A table, function, table variable, subquery or parenthesised join."""
        if self.accept("("):
            if self.at_any("SELECT", "WITH", "VALUES") or (self.at("(") and self._is_query_ahead()):
                return self._derived()
            source = self.joined_source()
            self.expect(")")
            return source
        if self.token.kind is Kind.VARIABLE:
            variable = self.advance().text
            if self.at(".") and self.ahead().text == "nodes":
                self.position += 2
                return self._table_function((variable, "nodes"), self.token.line)
            return VariableTable(variable, self.table_alias())
        line = self.token.line
        name = self.dotted_name()
        if name[-1].upper() in {"OPENROWSET", "OPENQUERY", "OPENDATASOURCE", "OPENXML"}:
            raise not_supported(name[-1].upper())
        if self.at("(") and not self._at_old_hint():
            return self._table_function(name, line)
        return self._table(name, line)

    def _table_function(self, name: tuple[str, ...], line: int) -> FunctionTable:
        """Arguments, schema and alias of a table function."""
        self.expect("(")
        arguments = () if self.at(")") else self._function_arguments()
        self.expect(")")
        schema: tuple[SchemaColumn, ...] = ()
        if self.at("WITH", "(") and name[-1].upper() == "OPENJSON":
            schema = self._json_schema()
        alias = self.table_alias()
        columns = self.name_list() if alias and self.at("(") else ()
        return FunctionTable(name, arguments, line, alias, columns, schema)

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
        if self.at("TABLESAMPLE"):
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
        if self.at_name() and self.token.upper not in NOT_AN_ALIAS:
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
