"""Grammar of procedures, views, functions and triggers: each takes the rest of its batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from emulator.errors import not_supported
from emulator.tsql.syntax.definition_statements import CreateModule, ProcedureParameterDefinition
from emulator.tsql.syntax.nodes import Name
from emulator.tsql.syntax.parse_control import ControlParser
from emulator.tsql.syntax.statements import Block, Declaration, Statement
from emulator.tsql.syntax.switches import SwitchTrigger
from emulator.tsql.syntax.tokens import Kind, Token

_TRIGGER_EVENTS: Final = ("INSERT", "UPDATE", "DELETE")


class BatchParser(ControlParser):
    """A whole batch, a module or a list of declarations."""

    def module(self, start: Token, mode: str, kind: str) -> Statement:
        """A module takes the rest of the batch."""
        name = self.dotted_name()
        if kind == "PROCEDURE":
            return self._procedure(start, mode, name)
        if kind == "VIEW":
            columns = self.name_list() if self.at("(") else ()
            is_schema_bound = self.accept("WITH") and self._view_options()
            self.expect("AS")
            query = self.query()
            has_check_option = self.accept("WITH")
            if has_check_option:
                self.expect("CHECK", "OPTION")
            self.accept(";")
            if self.token.kind is not Kind.END:
                self.fail()
            return CreateModule(
                "VIEW", name, mode, self.text_between(start), query=query,
                column_names=columns, is_schema_bound=is_schema_bound,
                has_check_option=has_check_option, line=start.line,
            )  # fmt: skip
        if kind == "TRIGGER":
            return self._trigger(start, mode, name)
        return self._function(start, mode, name)

    def _view_options(self) -> bool:
        """What follows WITH before AS; returns whether SCHEMABINDING is among it."""
        is_schema_bound = False
        while True:
            if self.at("ENCRYPTION"):
                raise not_supported("views WITH ENCRYPTION")
            if self.accept("SCHEMABINDING"):
                is_schema_bound = True
            else:
                self.expect("VIEW_METADATA")
            if not self.accept(","):
                return is_schema_bound

    # Functions ----------------------------------------------------------------------------------

    def _function(self, start: Token, mode: str, name: Name) -> Statement:
        """``(parameters) RETURNS type|TABLE|@r TABLE (..) AS ..``."""
        self.expect("(")
        parameters: list[ProcedureParameterDefinition] = []
        if not self.at(")"):
            parameters.append(self._parameter_definition())
            while self.accept(","):
                parameters.append(self._parameter_definition())
        self.expect(")")
        self.expect("RETURNS")
        made = CreateModule(
            "FUNCTION", name, mode, "", tuple(parameters), line=start.line,
        )  # fmt: skip
        if self.token.kind is Kind.VARIABLE:
            result = self.variable()
            self.expect("TABLE")
            columns, constraints, _ = self.table_elements((result,))
            made = replace(
                made, returns_table=Declaration(result, None, None, columns, constraints)
            )
        elif not self.accept("TABLE"):
            made = replace(made, returns=self.declared_type())
        made = self._function_options(made)
        self.accept("AS")
        if made.returns is None and made.returns_table is None:
            self.expect("RETURN")
            parenthesised = self.at("(") and self.ahead().upper in {"SELECT", "WITH"}
            if parenthesised:
                self.expect("(")
            made = replace(made, query=self.query())
            if parenthesised:
                self.expect(")")
        else:
            self.returns_value = made.returns is not None
            if not self.at("BEGIN"):
                self.fail()
            block = self.statement()
            if not isinstance(block, Block):
                self.fail()
            made = replace(made, body=block)
        while self.accept(";"):
            pass
        if self.token.kind is not Kind.END:
            self.fail()
        self.labels.check()
        return replace(made, text=self.text_between(start))

    def _function_options(self, made: CreateModule) -> CreateModule:
        """``WITH option, ..``."""
        if not self.accept("WITH"):
            return made
        while True:
            if self.accept("RETURNS", "NULL", "ON", "NULL", "INPUT"):
                made = replace(made, null_on_null=True)
            elif self.accept("SCHEMABINDING"):
                made = replace(made, is_schema_bound=True)
            elif self.accept("INLINE"):
                self.expect("=")
                self._on_or_off()
            elif not self.accept("CALLED", "ON", "NULL", "INPUT"):
                made = replace(made, execute_as=self._module_option() or made.execute_as)
            if not self.accept(","):
                return made

    # Triggers -----------------------------------------------------------------------------------

    def _trigger(self, start: Token, mode: str, name: Name) -> Statement:
        """``ON table [WITH ..] FOR|AFTER|INSTEAD OF events AS statements``."""
        self.expect("ON")
        if self.at_any("DATABASE", "ALL"):
            raise not_supported("DDL and logon triggers (CREATE TRIGGER ... ON DATABASE)")
        table = self.dotted_name()
        execute_as = self._module_options()
        is_instead_of = self.accept("INSTEAD", "OF")
        if not is_instead_of and self.accept_any("FOR", "AFTER") is None:
            self.fail()
        events: list[str] = []
        while True:
            event = self.accept_any(*_TRIGGER_EVENTS)
            if event is None or event in events:
                self.fail()
            events.append(event)
            if not self.accept(","):
                break
        self.accept("WITH", "APPEND")
        self.accept("NOT", "FOR", "REPLICATION")
        self.expect("AS")
        body = self._module_body()
        return CreateModule(
            "TRIGGER", name, mode, self.text_between(start), body=body, table=table,
            events=tuple(events), is_instead_of=is_instead_of, execute_as=execute_as,
            line=start.line,
        )  # fmt: skip

    def switch_trigger(self) -> Statement:
        """``ENABLE|DISABLE TRIGGER names|ALL ON table``."""
        token = self.advance()
        self.expect("TRIGGER")
        names: list[Name] = []
        if not self.accept("ALL"):
            names.append(self.dotted_name())
            while self.accept(","):
                names.append(self.dotted_name())
        self.expect("ON")
        if self.at_any("DATABASE", "ALL"):
            raise not_supported("DDL and logon triggers")
        disable = token.upper == "DISABLE"
        return SwitchTrigger(self.dotted_name(), tuple(names), disable, line=token.line)

    def _module_options(self) -> str | None:
        """``WITH option, ..``; returns whom EXECUTE AS names; None for the caller."""
        if not self.accept("WITH"):
            return None
        execute_as = self._module_option()
        while self.accept(","):
            execute_as = self._module_option() or execute_as
        return execute_as

    def _module_option(self) -> str | None:
        """One of them; returns what EXECUTE AS says."""
        if self.accept_any("EXECUTE", "EXEC"):
            self.expect("AS")
            if self.token.kind in {Kind.STRING, Kind.NATIONAL}:
                return self.advance().text
            word = self.accept_any("CALLER", "OWNER", "SELF")
            if word is None:
                self.fail()
            return None if word == "CALLER" else word
        if not self.accept_any("ENCRYPTION", "RECOMPILE", "SCHEMABINDING"):
            self.fail()
        return None

    def _module_body(self) -> Block:
        """The statements after AS, to the end of the batch."""
        body = self.batch()
        if not body.statements:
            self.fail()
        return body

    # Procedures ---------------------------------------------------------------------------------

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
        execute_as = self._module_options()
        if self.accept("FOR"):
            self.expect("REPLICATION")
        self.expect("AS")
        body = self._module_body()
        return CreateModule(
            "PROCEDURE", name, mode, self.text_between(start), tuple(parameters), body,
            execute_as=execute_as, line=start.line,
        )  # fmt: skip

    def _parameter_definition(self) -> ProcedureParameterDefinition:
        """``@x type [= default] [OUTPUT]``."""
        name = self.new_variable()
        self.accept("AS")
        sql_type = self.declared_type()
        default = self._argument_value() if self.accept("=") else None
        output = self.accept_any("OUTPUT", "OUT") is not None
        readonly = self.accept("READONLY")
        return ProcedureParameterDefinition(name, sql_type, default, output, readonly)

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
