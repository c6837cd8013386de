"""Where grammars register, and how one reaches another that stands above it.

A grammar is a function that reads what it is named after from a cursor. Grammars call each other as
functions do: a query knows its sources, a source its expressions. Two ways lead back up, and both
go through here: an expression or a source may hold a query, and a statement may hold statements.
Statements register by their first words, so that nothing lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from tailrace_emulator.tsql.syntax.nodes import Query
from tailrace_emulator.tsql.syntax.parse_base import TokenCursor
from tailrace_emulator.tsql.syntax.statements import Statement

StatementGrammar = Callable[[TokenCursor], Statement]
QueryGrammar = Callable[[TokenCursor], Query]
Registered = TypeVar("Registered", bound=StatementGrammar)


class Grammar:
    """The statements by their first words, and the query expression.

    Attributes:
        query: reads a query expression.
    """

    query: QueryGrammar

    def __init__(self) -> None:
        self._statements: dict[tuple[str, ...], StatementGrammar] = {}
        self._longest: dict[str, int] = {}
        """By first word: how many words its longest registration has."""

    def register(self, *words: str) -> Callable[[Registered], Registered]:
        """Registers the grammar of statements that begin with these words.

        It is called with the cursor before the first of them. Of several registrations the longest
        that fits is taken: ``CREATE`` is what no longer one reads.

        Raises:
            ValueError: another grammar has these words.
        """
        if words in self._statements:
            raise ValueError(f"two grammars begin with {' '.join(words)}")

        def add(grammar: Registered) -> Registered:
            self._statements[words] = grammar
            self._longest[words[0]] = max(len(words), self._longest.get(words[0], 0))
            return grammar

        return add

    def register_query(self, grammar: QueryGrammar) -> QueryGrammar:
        """Registers the grammar of query expressions."""
        self.query = grammar
        return grammar

    def is_next(self, cursor: TokenCursor) -> bool:
        """Whether a statement of registered words comes next, rather than a name."""
        return self._next(cursor) is not None

    def statement(self, cursor: TokenCursor) -> Statement:
        """One statement, with the semicolons around it."""
        while cursor.accept(";"):
            pass
        grammar = self._next(cursor)
        statement = _label(cursor) if grammar is None else grammar(cursor)
        while cursor.accept(";"):
            pass
        return statement

    def _next(self, cursor: TokenCursor) -> StatementGrammar | None:
        """The grammar of the statement that comes next."""
        position = cursor.position
        for count in range(self._longest.get(cursor.token.upper, 0), 0, -1):
            words = tuple(token.upper for token in cursor.tokens[position : position + count])
            grammar = self._statements.get(words)
            if grammar is not None:
                return grammar
        return None


def _label(cursor: TokenCursor) -> Statement:
    """``name:``, of which the name can be anything that begins no statement."""
    if not cursor.at_label():
        cursor.fail()
    token = cursor.advance()
    cursor.expect(":")
    return cursor.labels.label(token.text, token.line)


GRAMMAR: Final = Grammar()
"""Filled by the modules of this package that parser.py imports."""

statement: Final = GRAMMAR.register
