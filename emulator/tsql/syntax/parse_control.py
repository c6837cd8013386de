"""Grammar of batches: control flow, variables, EXEC, transactions, SET."""

from __future__ import annotations

from collections.abc import Callable

from emulator.errors import not_supported
from emulator.tsql.syntax import literals
from emulator.tsql.syntax.labels import LabelScope
from emulator.tsql.syntax.nodes import Expression, GlobalVariable, TableName, Unary, Variable
from emulator.tsql.syntax.nodes import Literal as LiteralNode
from emulator.tsql.syntax.parse_objects import ObjectParser
from emulator.tsql.syntax.parse_time_options import parse_only_setting, quotes_setting
from emulator.tsql.syntax.statements import (
    Argument,
    Block,
    CursorStatement,
    Declaration,
    Declare,
    Execute,
    ExecuteString,
    If,
    Ignored,
    Jump,
    Print,
    QueryStatement,
    RaiseError,
    Return,
    SetIdentityInsert,
    SetOption,
    SetVariable,
    Statement,
    Throw,
    Transaction,
    TryCatch,
    Use,
    WaitFor,
    While,
)
from emulator.tsql.syntax.switches import SetContextInfo
from emulator.tsql.syntax.tokens import Kind
from emulator.types import nvarchar


class ControlParser(ObjectParser):
    """A whole batch."""

    def __init__(self, sql: str, *, quoted_identifier: bool = True) -> None:
        super().__init__(sql, quoted_identifier=quoted_identifier)
        self.labels = LabelScope()
        self.returns_value = False
        """Whether the body of a scalar function is read, where RETURN has a value of any type."""
        self._statements: dict[str, Callable[[], Statement]] = {
            "SELECT": self._query_statement,
            "(": self._query_statement,
            "WITH": self._with_statement,
            "INSERT": self.insert,
            "UPDATE": self.update_statement,
            "DELETE": self.delete,
            "MERGE": self.merge,
            "TRUNCATE": self.truncate,
            "CREATE": self.create,
            "ALTER": self.alter,
            "DROP": self.drop,
            "BEGIN": self._begin,
            "IF": self._if,
            "WHILE": self._while,
            "BREAK": self._jump,
            "CONTINUE": self._jump,
            "RETURN": self._return,
            "DECLARE": self._declare,
            "SET": self._set,
            "PRINT": self._print,
            "RAISERROR": self._raiserror,
            "THROW": self._throw,
            "EXEC": self.execute_statement,
            "EXECUTE": self.execute_statement,
            "COMMIT": self._commit_or_rollback,
            "ROLLBACK": self._commit_or_rollback,
            "SAVE": self._save,
            "USE": self._use,
            "WAITFOR": self._waitfor,
            "GRANT": self.permission_statement,
            "DENY": self.permission_statement,
            "REVOKE": self.permission_statement,
            "REVERT": self.revert,
            "READTEXT": self.read_text,
            "WRITETEXT": self.write_text,
            "UPDATETEXT": self.update_text,
            "CHECKPOINT": self._checkpoint,
            "DBCC": self.console_command,
            "KILL": self.kill,
            "OPEN": self._cursor,
            "FETCH": self._cursor,
            "CLOSE": self._cursor,
            "DEALLOCATE": self._cursor,
        }

    def batch(self) -> Block:
        """Every statement up to the end."""
        statements: list[Statement] = []
        while True:
            while self.accept(";"):
                pass
            if self.token.kind is Kind.END:
                self.labels.check()
                return Block(
                    tuple(statements), quotes_setting(self.tokens), parse_only_setting(self.tokens)
                )
            if self._at_label():
                statements.append(self.statement())
            elif self.at("ENABLE", "TRIGGER") or self.at("DISABLE", "TRIGGER"):
                statements.append(self.switch_trigger())
            elif not statements and self.at_name() and self.token.upper not in self._statements:
                statements.append(self._procedure_call(self.token.line))
            else:
                statements.append(self.statement())

    def statement(self) -> Statement:
        """One statement."""
        while self.accept(";"):
            pass
        method = self._statements.get(self.token.upper)
        if method is None:
            if self.at("ENABLE", "TRIGGER") or self.at("DISABLE", "TRIGGER"):
                return self.switch_trigger()
            if self._at_label():
                token = self.advance()
                self.expect(":")
                return self.labels.label(token.text, token.line)
            if self.accept("GOTO"):
                return self.labels.jump(self.identifier(), self.tokens[self.position - 1].line)
            if self.at_any("BACKUP", "RESTORE", "BULK", "SHUTDOWN", "RECONFIGURE"):
                if self.accept("RECONFIGURE"):
                    self.accept("WITH", "OVERRIDE")
                    return Ignored("RECONFIGURE")
                raise not_supported(self.token.upper)
            self.fail()
        statement = method()
        while self.accept(";"):
            pass
        return statement

    def _at_label(self) -> bool:
        """Whether ``name:`` follows."""
        return self.token.kind is Kind.WORD and self.ahead().upper == ":"

    # Queries ------------------------------------------------------------------------------------

    def _query_statement(self) -> Statement:
        """SELECT."""
        line = self.token.line
        return QueryStatement(self.query_into(()), line=line)

    def _with_statement(self) -> Statement:
        """WITH before SELECT or a data statement."""
        line = self.token.line
        common_tables = self.common_tables()
        statement = self.data_statement(common_tables)
        if statement is not None:
            return statement
        return QueryStatement(self.query_into(common_tables), line=line)

    # Control flow -------------------------------------------------------------------------------

    def _begin(self) -> Statement:
        """BEGIN: a block, a transaction or a TRY."""
        line = self.token.line
        self.expect("BEGIN")
        if self.accept("DISTRIBUTED"):
            raise not_supported("distributed transactions")
        if self.accept_any("TRAN", "TRANSACTION"):
            return self._transaction("BEGIN", line)
        if self.accept("TRY"):
            body = self._block("TRY", line)
            while self.accept(";"):
                pass
            catch_line = self.token.line
            self.expect("BEGIN", "CATCH")
            return TryCatch(body, self._block("CATCH", catch_line), line=line)
        statements: list[Statement] = []
        self.labels.enter()
        while not self.at("END"):
            if self.token.kind is Kind.END:
                self.fail()
            statements.append(self.statement())
        self.labels.leave()
        self.expect("END")
        if not statements:
            raise self.syntax_error()
        return Block(tuple(statements), line=line)

    def _block(self, word: str, line: int) -> Block:
        """Statements up to ``END TRY`` or ``END CATCH``."""
        statements: list[Statement] = []
        self.labels.enter()
        while True:
            while self.accept(";"):
                pass
            if self.accept("END", word):
                self.labels.leave()
                return Block(tuple(statements), line=line)
            if self.token.kind is Kind.END:
                self.fail()
            statements.append(self.statement())

    def _if(self) -> Statement:
        """IF condition statement [ELSE statement]."""
        line = self.token.line
        self.expect("IF")
        condition = self.condition()
        then = self.statement()
        otherwise = self.statement() if self.accept("ELSE") else None
        return If(condition, then, otherwise, line=line)

    def _while(self) -> Statement:
        """WHILE condition statement."""
        line = self.token.line
        self.expect("WHILE")
        condition = self.condition()
        return While(condition, self.statement(), line=line)

    def _jump(self) -> Statement:
        """BREAK, CONTINUE."""
        token = self.advance()
        return Jump(token.upper, line=token.line)

    def _return(self) -> Statement:
        """RETURN [value]."""
        line = self.advance().line
        if self.returns_value:
            return Return(self.scalar(), line=line)
        starts = self.token.kind in {Kind.NUMBER, Kind.VARIABLE} or self.at_any("-", "(")
        if self.at_any("SELECT") or self.token.kind is Kind.END:
            starts = False
        return Return(self.scalar() if starts else None, line=line)

    # Variables ----------------------------------------------------------------------------------

    def _declare(self) -> Statement:
        """DECLARE."""
        line = self.token.line
        self.expect("DECLARE")
        if self.token.kind is not Kind.VARIABLE:
            return self._declare_cursor(line)
        declarations = [self._declaration()]
        while self.accept(","):
            declarations.append(self._declaration())
        return Declare(tuple(declarations), line=line)

    def _declaration(self) -> Declaration:
        """One variable."""
        name = self.new_variable()
        self.accept("AS")
        if self.accept("TABLE"):
            columns, constraints, _ = self.table_elements((name,))
            return Declaration(name, None, None, columns, constraints)
        sql_type = self.declared_type()
        value = self.scalar() if self.accept("=") else None
        return Declaration(name, sql_type, value)

    def _declare_cursor(self, line: int) -> Statement:
        """DECLARE name CURSOR [options] FOR query."""
        name = self.identifier()
        while not self.accept("CURSOR"):
            self.advance_word()
        while not self.accept("FOR"):
            self.advance_word()
        query = self.query()
        if self.accept("FOR"):
            if self.at("UPDATE"):
                raise not_supported("updatable cursors (FOR UPDATE)")
            self.expect("READ", "ONLY")
        return CursorStatement("DECLARE", name, query, line=line)

    def advance_word(self) -> str:
        """Takes any word."""
        if self.token.kind is not Kind.WORD:
            self.fail()
        return self.advance().upper

    def _cursor(self) -> Statement:
        """OPEN, FETCH, CLOSE, DEALLOCATE."""
        token = self.advance()
        into: list[str] = []
        if token.upper == "FETCH" and not self.accept("FROM"):
            if self.at_any("PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE"):
                raise not_supported(f"FETCH {self.token.upper}")
            self.accept("NEXT")
            self.accept("FROM")
        name = self.variable() if self.token.kind is Kind.VARIABLE else self.identifier()
        if token.upper == "FETCH" and self.accept("INTO"):
            into.append(self.variable())
            while self.accept(","):
                into.append(self.variable())
        return CursorStatement(token.upper, name, None, tuple(into), line=token.line)

    def _set(self) -> Statement:
        """SET variable or option."""
        line = self.token.line
        self.expect("SET")
        if self.token.kind is Kind.VARIABLE:
            name = self.variable()
            operator = self._assignment_operator()
            if self.at("CURSOR"):
                raise not_supported("cursor variables")
            return SetVariable(name, operator, self.condition(), line=line)
        if self.accept("IDENTITY_INSERT"):
            target = TableName(self.dotted_name(), line)
            return SetIdentityInsert(target, self._on_or_off(), line=line)
        if self.accept("TRANSACTION"):
            self.expect("ISOLATION", "LEVEL")
            words = [self.advance_word()]
            if words[0] in {"READ", "REPEATABLE"}:
                words.append(self.advance_word())
            return SetOption(("ISOLATION",), " ".join(words), line=line)
        if self.accept("CONTEXT_INFO"):
            return SetContextInfo(self.scalar(), line=line)
        if self.at("OFFSETS"):
            raise not_supported("SET OFFSETS")
        prefix = "STATISTICS " if self.accept("STATISTICS") else ""
        options = [prefix + self.advance_word()]
        while self.accept(","):
            options.append(prefix + self.advance_word())
        return SetOption(tuple(options), self._option_value(), line=line)

    def _on_or_off(self) -> bool:
        """ON or OFF."""
        word = self.accept_any("ON", "OFF")
        if word is None:
            self.fail()
        return word == "ON"

    def _option_value(self) -> str:
        """The value of an option, as written."""
        self.accept("=")
        if self.at("-"):
            return str(self.integer())
        token = self.advance()
        if token.kind is Kind.END:
            self.position -= 0
            self.fail()
        return token.text

    # Messages -----------------------------------------------------------------------------------

    def _print(self) -> Statement:
        """PRINT."""
        line = self.advance().line
        return Print(self.condition(), line=line)

    def _raiserror(self) -> Statement:
        """RAISERROR (..) [WITH options]."""
        line = self.advance().line
        self.expect("(")
        arguments = self.expression_list()
        self.expect(")")
        options: set[str] = set()
        if self.accept("WITH"):
            options.add(self.advance_word())
            while self.accept(","):
                options.add(self.advance_word())
        return RaiseError(arguments, frozenset(options), line=line)

    def _throw(self) -> Statement:
        """THROW [number, message, state]."""
        line = self.advance().line
        if self.token.kind in {Kind.NUMBER, Kind.VARIABLE}:
            return Throw(self.expression_list(), line=line)
        return Throw((), line=line)

    # EXEC ---------------------------------------------------------------------------------------

    def execute_statement(self) -> Statement:
        """EXEC."""
        line = self.token.line
        if not self.accept_any("EXEC", "EXECUTE"):
            self.fail()
        if self.accept("("):
            text = self.scalar()
            self.expect(")")
            if self.at("AT") or (self.at("AS") and self.ahead().upper in {"USER", "LOGIN"}):
                raise not_supported("EXEC (text) AT linked server or AS user")
            return ExecuteString(text, line=line)
        if self.at("AS") and self.ahead().upper in {"USER", "LOGIN", "CALLER"}:
            return self.execute_as(line)
        return self._procedure_call(line)

    def impersonated(self) -> Expression:
        """The name of a user or login."""
        return self._argument_value()

    def _procedure_call(self, line: int) -> Statement:
        """``[@rc =] procedure arguments``."""
        result = None
        if self.token.kind is Kind.VARIABLE and self.ahead().upper == "=":
            result = self.variable()
            self.expect("=")
        procedure = self.variable() if self.token.kind is Kind.VARIABLE else self.dotted_name()
        arguments: list[Argument] = []
        if self._at_argument():
            arguments.append(self._argument())
            while self.accept(","):
                arguments.append(self._argument())
        if self.accept("WITH") and not self.accept("RECOMPILE"):
            raise not_supported(f"EXEC ... WITH {self.token.text.upper()}")
        return Execute(procedure, tuple(arguments), result, line=line)

    def _at_argument(self) -> bool:
        """Whether an argument follows."""
        token = self.token
        if token.kind in {Kind.END, Kind.OPERATOR}:
            return token.upper == "-"
        if token.kind is Kind.WORD:
            return token.upper in {"NULL", "DEFAULT"} or (
                token.upper not in self._statements and self.at_name()
            )
        return True

    def _argument(self) -> Argument:
        """``[@name =] value [OUTPUT]``."""
        name = None
        if self.token.kind is Kind.VARIABLE and self.ahead().upper == "=":
            name = self.variable()
            self.expect("=")
        if self.accept("DEFAULT"):
            return Argument(name, None)
        value = self._argument_value()
        output = self.accept_any("OUTPUT", "OUT") is not None
        return Argument(name, value, output)

    def _argument_value(self) -> Expression:
        """A constant, a variable, or a bare word, which is a string."""
        if self.token.kind is Kind.VARIABLE:
            name = self.advance().text
            return GlobalVariable(name) if name.startswith("@@") else Variable(name)
        if self.accept("NULL"):
            return literals.NULL
        if self.at_name():
            text = self.advance().text
            return LiteralNode(nvarchar(max(1, len(text))), text)
        if self.accept("-"):
            return Unary("-", self._primary())
        return self._primary()

    # Transactions -------------------------------------------------------------------------------

    def _transaction(self, action: str, line: int) -> Statement:
        """The optional name of a transaction."""
        if self.token.kind is Kind.VARIABLE:
            return Transaction(action, None, self.variable(), line=line)
        name = None
        if self.at_name() and self.token.upper not in self._statements:
            name = self.advance().text
        if self.accept("WITH"):
            if self.accept("MARK"):
                raise not_supported("BEGIN TRANSACTION WITH MARK")
            self.skip_parenthesised()
        return Transaction(action, name, None, line=line)

    def _commit_or_rollback(self) -> Statement:
        """COMMIT, ROLLBACK."""
        token = self.advance()
        if self.accept_any("TRAN", "TRANSACTION"):
            return self._transaction(token.upper, token.line)
        self.accept("WORK")
        return Transaction(token.upper, None, None, line=token.line)

    def _save(self) -> Statement:
        """SAVE TRAN name."""
        line = self.advance().line
        if not self.accept_any("TRAN", "TRANSACTION"):
            self.fail()
        return self._transaction("SAVE", line)

    # The rest -----------------------------------------------------------------------------------

    def _use(self) -> Statement:
        """USE."""
        line = self.advance().line
        return Use(self.identifier(), line=line)

    def _checkpoint(self) -> Statement:
        """CHECKPOINT."""
        return Ignored("CHECKPOINT", line=self.advance().line)

    def _waitfor(self) -> Statement:
        """WAITFOR DELAY|TIME value."""
        line = self.advance().line
        kind = self.accept_any("DELAY", "TIME")
        if kind is None:
            raise not_supported("WAITFOR other than DELAY and TIME")
        return WaitFor(kind, self._argument_value(), line=line)
