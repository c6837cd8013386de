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
from emulator.tsql.tokens import Kind, Token

_PARSED_BATCHES_MAX: Final = 2000
_TEXT_CACHED_MAX: Final = 16_384


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


@lru_cache(maxsize=_PARSED_BATCHES_MAX)
def _parse_cached(sql: str, quoted_identifier: bool) -> Block:
    return BatchParser(sql, quoted_identifier=quoted_identifier).batch()


def parse_batch(sql: str, *, quoted_identifier: bool = True) -> Block:
    """The statements of a batch.

    Equal texts share one tree, so that compiled plans can be found by node; very long texts (bulk
    INSERTs with literal values) are not kept.

    Raises:
        SqlError: 102, 156 and other syntax errors; 50900 for grammar that is refused by name.
    """
    if len(sql) > _TEXT_CACHED_MAX:
        return BatchParser(sql, quoted_identifier=quoted_identifier).batch()
    return _parse_cached(sql, quoted_identifier)


@lru_cache(maxsize=_PARSED_BATCHES_MAX)
def parse_expression(text: str) -> Expression:
    """A stored DEFAULT, CHECK or computed-column expression."""
    parser = BatchParser(text)
    expression = parser.condition()
    if parser.token.kind is not Kind.END:
        parser.fail()
    return expression


@lru_cache(maxsize=_PARSED_BATCHES_MAX)
def parse_declarations(text: str) -> tuple[ProcedureParameterDefinition, ...]:
    """The second argument of sp_executesql."""
    return BatchParser(text).declaration_list()
