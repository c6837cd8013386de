"""Which columns a name can mean: the sources of a query and of the queries around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.certain import known
from tailrace_emulator.tsql.compile.values import HIDDEN, Origin, Value
from tailrace_emulator.tsql.syntax.nodes import Name, Over
from tailrace_emulator.values.types import CLR_TYPES, SqlType

_IDENTITY: Final = "$identity"
"""The identity column, whatever its name."""


@dataclass(slots=True)
class SourceColumn:
    """A column of a source; ``make`` compiles a computed column when it is first used."""

    name: str
    type: SqlType | None
    nullable: bool
    sql: str
    identity: bool = False
    computed: bool = False
    stored: bool = False
    make: Callable[[], Value] | None = None
    check: Callable[[], None] | None = None
    """Raises when the session may not read it."""
    origin: Origin | None = None
    form: str = ""
    mask: str = ""
    """The masking function, where the session may not see its values."""

    def value(self) -> Value:
        """The column as an expression."""
        if self.check is not None:
            self.check()
        if self.make is not None:
            made = self.make()
            return Value(made.sql, made.type, self.nullable, computed=True, name=self.name)
        return Value(
            self.sql,
            known(self.type, "type of a column"),
            self.nullable,
            identity=self.identity,
            computed=self.computed,
            name=self.name,
            stored=self.stored,
            origin=self.origin,
            form=self.form,
            mask=self.mask,
        )


@dataclass(slots=True)
class BoundSource:
    """A source in FROM.

    Attributes:
        alias: the name that qualifies its columns.
        path: schema and database of a table without alias, for ``dbo.t.c``.
        columns: in the order of the source.
        table: the SQLite name of the common table expression that it reads, if it is one.
        stored: database id and object id of the stored table that it is, if it is one.
    """

    alias: str
    columns: list[SourceColumn]
    key: str
    path: Name = ()
    table: str = ""
    stored: tuple[int, int] | None = None

    def answers_to(self, qualifier: Name) -> bool:
        """Whether ``qualifier.column`` can mean this source."""
        folded = tuple(part.casefold() for part in qualifier)
        if folded[-1] != self.alias.casefold():
            return False
        if len(folded) == 1:
            return True
        path = tuple(part.casefold() for part in self.path)
        return bool(path) and path[-len(folded) + 1 :] == folded[:-1]

    def find(self, name: str) -> SourceColumn | None:
        """The column of that name."""
        folded = name.casefold()
        found = next((c for c in self.columns if c.name.casefold() == folded), None)
        if found is None and folded == _IDENTITY:
            return next((c for c in self.columns if c.identity), None)
        return found


class Clause(Enum):
    """A part of an aggregate query: the error of a column that is not grouped.

    https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors-8000-to-8999
    """

    SELECT_LIST = 8120
    HAVING = 8121
    ORDER_BY = 8127


@dataclass(slots=True)
class Scope:
    """The sources of one query, and the scope around it.

    ``grouped`` is set while the select list, HAVING or ORDER BY of an aggregate query is compiled.
    It has the texts of the GROUP BY expressions, outside of which no column may occur.
    """

    parent: Scope | None = None
    sources: list[BoundSource] = field(default_factory=list)
    grouped: frozenset[str] | None = None
    clause: Clause = Clause.SELECT_LIST
    """What is being compiled while ``grouped`` is set."""
    inside_aggregate: bool = False
    absent: frozenset[str] = frozenset()
    """Of ``grouped``, those that are not in the grouping set of this SELECT: NULL there."""
    windows: tuple[tuple[str, Over], ...] = ()
    """The WINDOW clause."""

    def ungrouped(self) -> Scope:
        """The same sources without the rules of GROUP BY."""
        return replace(self, grouped=None, absent=frozenset())

    def resolve(self, parts: Name, line: int) -> SourceColumn:
        """The column that a name means, innermost query first.

        Raises:
            SqlError: 207, 209, 4104; 8120, 8121 or 8127 for a column outside of GROUP BY.
        """
        scope: Scope | None = self
        while scope is not None:
            found = scope.local(parts, line)
            if found is not None:
                scope.check_grouped(found)
                return found
            scope = scope.parent
        if len(parts) == 1:
            raise messages.invalid_column(parts[0], line)
        if self._knows_qualifier(parts[:-1]):
            raise messages.invalid_column(parts[-1], line)
        self.refuse_member(parts, line, "property")
        raise messages.unbound(parts, line)

    def local(self, parts: Name, line: int) -> SourceColumn | None:
        """The column among this query's own sources."""
        qualifier, name = parts[:-1], parts[-1]
        matches = [
            column
            for source in self.sources
            if not qualifier or source.answers_to(qualifier)
            if (column := source.find(name)) is not None
        ]
        if len(matches) > 1:
            raise messages.ambiguous_column(name, line)
        return matches[0] if matches else None

    def refuse_member(self, parts: Name, line: int, kind: str) -> None:
        """Refuses what is a method or property of a column of a CLR type; nothing else.

        Raises:
            SqlError: 50900 for such a member.
        """
        owners = (scope.local(parts[:-1], line) for scope in self._chain()) if parts[:-1] else ()
        owner = next((column for column in owners if column is not None), None)
        if owner is not None and owner.type is not None and owner.type.name in CLR_TYPES:
            raise not_supported(f"the {kind} {parts[-1]} of {owner.type.name}")

    def _knows_qualifier(self, qualifier: Name) -> bool:
        """Whether any source around answers to it."""
        return any(
            source.answers_to(qualifier) for scope in self._chain() for source in scope.sources
        )

    def _chain(self) -> Iterator[Scope]:
        """This scope and those around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def check_grouped(self, column: SourceColumn) -> None:
        """Refuses a column that GROUP BY does not determine."""
        if self.grouped is None or self.inside_aggregate or column.sql in self.grouped:
            return
        source = next(s for s in self.sources if column in s.columns)
        raise messages.error(self.clause.value, source.alias, column.name)

    def starred(self, qualifier: Name, line: int) -> list[SourceColumn]:
        """What ``*`` or ``t.*`` stands for.

        Raises:
            SqlError: 107 when the prefix matches no source.
        """
        sources = [s for s in self.sources if not qualifier or s.answers_to(qualifier)]
        if qualifier and not sources:
            raise messages.error(107, messages.dotted(qualifier), line=line)
        return [
            column
            for source in sources
            for column in source.columns
            if not column.name.startswith(HIDDEN)
        ]

    def hidden(self) -> list[SourceColumn]:
        """The row ids that sources show for a change through this query."""
        return [c for source in self.sources for c in source.columns if c.name.startswith(HIDDEN)]
