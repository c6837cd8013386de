"""Grammar of INSERT, UPDATE, DELETE, MERGE and TRUNCATE."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from emulator.errors import not_supported
from emulator.tsql.syntax.bulk_load import InsertBulk
from emulator.tsql.syntax.nodes import (
    Call,
    ColumnName,
    CommonTable,
    DefaultMark,
    Expression,
    Name,
    Query,
    SelectItem,
    Source,
    TableName,
    VariableTable,
)
from emulator.tsql.syntax.parse_queries import QueryParser
from emulator.tsql.syntax.statements import (
    Assignment,
    Delete,
    Insert,
    Merge,
    MergeClause,
    Output,
    Statement,
    Target,
    Truncate,
    Update,
)
from emulator.tsql.syntax.text_statements import WRITE
from emulator.tsql.syntax.tokens import Kind

_ASSIGNMENTS: Final = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=")


class DataParser(QueryParser):
    """Statements that change rows."""

    def execute_statement(self) -> Statement:
        """EXEC; the control grammar provides it."""
        raise NotImplementedError

    def data_statement(self, common_tables: tuple[CommonTable, ...]) -> Statement | None:
        """The statement after a WITH clause, or None when it is a query."""
        if self.at("INSERT"):
            return self.insert(common_tables)
        if self.at("UPDATE"):
            return self.update(common_tables)
        if self.at("DELETE"):
            return self.delete(common_tables)
        if self.at("MERGE"):
            return self.merge(common_tables)
        return None

    def target(self) -> Target:
        """What a statement changes."""
        if self.token.kind is Kind.VARIABLE:
            return VariableTable(self.advance().text)
        line = self.token.line
        name = self.dotted_name()
        return TableName(name, line, None, self.table_hints())

    def insert(self, common_tables: tuple[CommonTable, ...] = ()) -> Insert | InsertBulk:
        """INSERT."""
        line = self.token.line
        self.expect("INSERT")
        if self.accept("BULK"):
            return self._insert_bulk(line)
        top = self.top()
        self.accept("INTO")
        target = self.target()
        columns = self._column_list() if self.at("(") and not self._query_in_parentheses() else ()
        output = self.output()
        if self.accept("DEFAULT", "VALUES"):
            return Insert(target, columns, default_values=True, output=output, top=top, line=line)
        if self.at_any("EXEC", "EXECUTE"):
            execute = self.execute_statement()
            return Insert(target, columns, execute=execute, output=output, line=line)
        if self.at("VALUES"):
            query = Query(self.value_rows())
        elif self.at("WITH"):
            query = self.query()
        else:
            # OPTION at the query's end is about the tables of the WITH before INSERT.
            query = self.query_after_with(common_tables)
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

    def _insert_bulk(self, line: int) -> InsertBulk:
        """``INSERT BULK table (column type [COLLATE c] [NULL], ...) [WITH (option, ...)]``."""
        target = self.target()
        columns: list[str] = []
        self.expect("(")
        while True:
            columns.append(self.identifier())
            self.data_type()
            if self.accept("COLLATE"):
                self.identifier()
            self.accept("NOT")
            self.accept("NULL")
            if not self.accept(","):
                break
        self.expect(")")
        options: set[str] = set()
        if self.accept("WITH"):
            self.expect("(")
            while True:
                options.add(self.advance().upper)
                if self.accept("="):
                    self.advance()
                elif self.at("("):
                    self.skip_parenthesised()
                if not self.accept(","):
                    break
            self.expect(")")
        return InsertBulk(target, tuple(columns), frozenset(options), line=line)

    def _query_in_parentheses(self) -> bool:
        """Whether ``(`` begins a query rather than a column list."""
        return self.ahead().upper in {"SELECT", "WITH", "("}

    def _column_list(self) -> tuple[str, ...]:
        """Target columns; a qualifier before a column is allowed and redundant."""
        self.expect("(")
        names = [self.dotted_name()[-1]]
        while self.accept(","):
            names.append(self.dotted_name()[-1])
        self.expect(")")
        return tuple(names)

    def _row_values(self) -> tuple[Expression, ...]:
        """Values of one row, DEFAULT among them."""
        values = [self._value_or_default()]
        while self.accept(","):
            values.append(self._value_or_default())
        return tuple(values)

    def _value_or_default(self) -> Expression:
        """A value, or DEFAULT."""
        return DefaultMark() if self.accept("DEFAULT") else self.scalar()

    def output(self) -> Output | None:
        """``OUTPUT list [INTO target [(columns)]]``."""
        if not self.accept("OUTPUT"):
            return None
        items: tuple[SelectItem, ...] = self.select_items()
        if not self.accept("INTO"):
            return Output(items)
        into = self.target()
        columns = self._column_list() if self.at("(") else ()
        return Output(items, into, columns)

    def update(self, common_tables: tuple[CommonTable, ...] = ()) -> Update:
        """UPDATE."""
        line = self.token.line
        self.expect("UPDATE")
        top = self.top()
        target = self.target()
        self.expect("SET")
        assignments = self.assignments()
        output = self.output()
        source = self.sources() if self.accept("FROM") else None
        where = self._where()
        common_tables = self.options(common_tables)
        return Update(target, assignments, source, where, output, top, common_tables, line=line)

    def _where(self) -> Expression | None:
        """WHERE."""
        where = None
        if self.accept("WHERE"):
            if self.at("CURRENT", "OF"):
                raise not_supported("WHERE CURRENT OF")
            where = self.condition()
        return where

    def assignments(self) -> tuple[Assignment, ...]:
        """``a = 1, b += 2, @x = c = 3``."""
        items = [self._assignment()]
        while self.accept(","):
            items.append(self._assignment())
        return tuple(items)

    def _assignment(self) -> Assignment:
        """One assignment of SET."""
        if self.token.kind is Kind.VARIABLE:
            variable = self.advance().text
            operator = self._assignment_operator()
            if self.at_name() and self.ahead().upper in _ASSIGNMENTS:
                column = self.dotted_name()
                column_operator = self._assignment_operator()
                return Assignment(column, self._value_or_default(), column_operator, variable)
            return Assignment(None, self.scalar(), operator, variable)
        column = self.dotted_name()
        if self.at("("):
            return self._write(column)
        operator = self._assignment_operator()
        return Assignment(column, self._value_or_default(), operator)

    def _write(self, name: Name) -> Assignment:
        """``column.WRITE(expression, offset, length)``."""
        line = self.advance().line
        if len(name) < 2 or name[-1].upper() != "WRITE":
            raise not_supported(f"the method .{name[-1]}() in SET")
        arguments = [self.scalar()]
        for _ in range(2):
            self.expect(",")
            arguments.append(self.scalar())
        self.expect(")")
        column = name[:-1]
        return Assignment(column, Call((WRITE,), (ColumnName(column, line), *arguments), line))

    def _assignment_operator(self) -> str:
        """``=``, ``+=`` and the like."""
        operator = self.accept_any(*_ASSIGNMENTS)
        if operator is None:
            self.fail()
        return operator

    def delete(self, common_tables: tuple[CommonTable, ...] = ()) -> Delete:
        """DELETE."""
        line = self.token.line
        self.expect("DELETE")
        top = self.top()
        self.accept("FROM")
        target = self.target()
        output = self.output()
        source = self.sources() if self.accept("FROM") else None
        where = self._where()
        common_tables = self.options(common_tables)
        return Delete(target, source, where, output, top, common_tables, line=line)

    def merge(self, common_tables: tuple[CommonTable, ...] = ()) -> Merge:
        """MERGE."""
        line = self.token.line
        self.expect("MERGE")
        top = self.top()
        self.accept("INTO")
        plain = self.target()
        alias = self.table_alias()
        target: Target = (
            VariableTable(plain.name, alias)
            if isinstance(plain, VariableTable)
            else TableName(plain.name, plain.line, alias, plain.hints)
        )
        self.expect("USING")
        source: Source = self.joined_source()
        self.expect("ON")
        condition = self.condition()
        clauses = []
        while self.accept("WHEN"):
            clauses.append(self._merge_clause())
        output = self.output()
        common_tables = self.options(common_tables)
        return Merge(
            target, source, condition, tuple(clauses), output, top, common_tables, line=line
        )

    def _merge_clause(self) -> MergeClause:
        """WHEN [NOT] MATCHED [BY ..] [AND ..] THEN action."""
        when = "MATCHED"
        if self.accept("NOT"):
            self.expect("MATCHED")
            when = "TARGET"
            if self.accept("BY"):
                by = self.accept_any("TARGET", "SOURCE")
                if by is None:
                    self.fail()
                when = by
        else:
            self.expect("MATCHED")
        condition = self.condition() if self.accept("AND") else None
        self.expect("THEN")
        if self.accept("DELETE"):
            return MergeClause(when, condition, "DELETE")
        if self.accept("UPDATE", "SET"):
            return MergeClause(when, condition, "UPDATE", self.assignments())
        self.expect("INSERT")
        columns = self._column_list() if self.at("(") else ()
        if self.accept("DEFAULT", "VALUES"):
            return MergeClause(when, condition, "INSERT", (), columns, None)
        self.expect("VALUES", "(")
        values = self._row_values()
        self.expect(")")
        return MergeClause(when, condition, "INSERT", (), columns, values)

    def truncate(self) -> Truncate:
        """TRUNCATE TABLE."""
        line = self.token.line
        self.expect("TRUNCATE", "TABLE")
        name_line = self.token.line
        table = TableName(self.dotted_name(), name_line)
        if self.at("WITH", "(", "PARTITIONS"):
            raise not_supported("TRUNCATE TABLE ... WITH (PARTITIONS)")
        return Truncate(table, line=line)
