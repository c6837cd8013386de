"""The parser's entry points, and the grammar of procedures and views."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from emulator.errors import not_supported
from emulator.tsql.nodes import Expression
from emulator.tsql.parse_control import ControlParser
from emulator.tsql.statements import (
    Block,
    CreateModule,
    ProcedureParameterDefinition,
    Statement,
)
from emulator.tsql.text_cache import TextCache
from emulator.tsql.tokens import Kind, Token

_EXPRESSIONS_MAX: Final = 2000


class BatchParser(ControlParser):
    """A whole batch, a module or a list of declarations."""

    def module(self, start: Token, mode: str, kind: str) -> Statement:
        """A module takes the rest of the batch."""
        name = self.dotted_name()
        if kind == "PROCEDURE":
            return self._procedure(start, mode, name)
        if kind == "VIEW":
            columns = self.name_list() if self.at("(") else ()
            if self.accept("WITH"):
                while not self.at("AS"):
                    self.advance()
            self.expect("AS")
            query = self.query()
            if self.accept("WITH"):
                self.expect("CHECK", "OPTION")
            self.accept(";")
            if self.token.kind is not Kind.END:
                self.fail()
            return CreateModule(
                "VIEW", name, mode, self.text_between(start), query=query,
                column_names=columns, line=start.line,
            )  # fmt: skip
        raise not_supported(f"{mode} {kind}")

    def _procedure(self, start: Token, mode: str, name: tuple[str, ...]) -> Statement:
        """Parameters and body of a procedure."""
        parenthesised = self.accept("(")
        parameters = []
        if self.token.kind is Kind.VARIABLE:
            parameters.append(self._parameter_definition())
            while self.accept(","):
                parameters.append(self._parameter_definition())
        if parenthesised:
            self.expect(")")
        if self.accept("WITH"):
            while not self.at("AS"):
                if self.token.kind is Kind.END:
                    self.fail()
                self.advance()
        self.expect("AS")
        body = self.batch()
        if not body.statements:
            self.fail()
        return CreateModule(
            "PROCEDURE", name, mode, self.text_between(start), tuple(parameters), body,
            line=start.line,
        )  # fmt: skip

    def _parameter_definition(self) -> ProcedureParameterDefinition:
        """``@x type [= default] [OUTPUT]``."""
        name = self.variable()
        self.accept("AS")
        sql_type = self.data_type()
        default = self._argument_value() if self.accept("=") else None
        output = self.accept_any("OUTPUT", "OUT") is not None
        if self.accept("READONLY"):
            raise not_supported("table-valued parameters")
        return ProcedureParameterDefinition(name, sql_type, default, output)

    def declaration_list(self) -> tuple[ProcedureParameterDefinition, ...]:
        """The parameter declarations of sp_executesql."""
        parameters = []
        if self.token.kind is not Kind.END:
            parameters.append(self._parameter_definition())
            while self.accept(","):
                parameters.append(self._parameter_definition())
        if self.token.kind is not Kind.END:
            self.fail()
        return tuple(parameters)


_BATCHES: Final = TextCache[Block](characters_max=2_000_000, text_max=65_536)


def parse_batch(sql: str, *, quoted_identifier: bool = True) -> Block:
    """The statements of a batch.

    Equal texts share one tree, so that compiled plans can be found by node.

    Raises:
        SqlError: 102, 156 and other syntax errors; 50900 for grammar that is refused by name.
    """
    return _BATCHES.get(
        sql,
        (sql, quoted_identifier),
        lambda: BatchParser(sql, quoted_identifier=quoted_identifier).batch(),
    )


@lru_cache(maxsize=_EXPRESSIONS_MAX)
def parse_expression(text: str) -> Expression:
    """A stored DEFAULT, CHECK or computed-column expression."""
    parser = BatchParser(text)
    expression = parser.condition()
    if parser.token.kind is not Kind.END:
        parser.fail()
    return expression


@lru_cache(maxsize=_EXPRESSIONS_MAX)
def parse_declarations(text: str) -> tuple[ProcedureParameterDefinition, ...]:
    """The second argument of sp_executesql."""
    return BatchParser(text).declaration_list()
