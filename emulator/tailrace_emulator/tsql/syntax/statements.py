"""The syntax tree of statements that change rows, control a batch or set an option."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace_emulator.tsql.syntax.nodes import (
    CommonTable,
    Expression,
    Name,
    Node,
    Query,
    SelectItem,
    Source,
    TableName,
    Top,
    VariableTable,
)
from tailrace_emulator.values.types import SqlType


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Statement(Node):
    """Any statement; ``line`` is where it begins in its batch."""

    line: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class QueryStatement(Statement):
    """SELECT, whether it returns rows, fills variables or makes a table."""

    query: Query


# Data -------------------------------------------------------------------------------------------

Target = TableName | VariableTable


@dataclass(frozen=True, slots=True, eq=False)
class Output(Node):
    """OUTPUT list [INTO target (columns)]."""

    items: tuple[SelectItem, ...]
    into: Target | None = None
    into_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Assignment(Node):
    """``column = value``, ``@variable = value`` or ``@variable = column = value``."""

    column: Name | None
    value: Expression
    operator: str = "="
    variable: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Insert(Statement):
    """INSERT. Exactly one of query, execute and default_values says where rows come from."""

    target: Target
    columns: tuple[str, ...] = ()
    query: Query | None = None
    execute: Statement | None = None
    default_values: bool = False
    output: Output | None = None
    top: Top | None = None
    common_tables: tuple[CommonTable, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Update(Statement):
    """UPDATE."""

    target: Target
    assignments: tuple[Assignment, ...]
    source: Source | None = None
    where: Expression | None = None
    output: Output | None = None
    top: Top | None = None
    common_tables: tuple[CommonTable, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Delete(Statement):
    """DELETE."""

    target: Target
    source: Source | None = None
    where: Expression | None = None
    output: Output | None = None
    top: Top | None = None
    common_tables: tuple[CommonTable, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class MergeClause(Node):
    """A WHEN of MERGE: ``when`` is MATCHED, TARGET (not matched by target) or SOURCE.

    ``action`` is UPDATE, DELETE or INSERT.
    """

    when: str
    condition: Expression | None
    action: str
    assignments: tuple[Assignment, ...] = ()
    columns: tuple[str, ...] = ()
    values: tuple[Expression, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Merge(Statement):
    """MERGE."""

    target: Target
    source: Source
    condition: Expression
    clauses: tuple[MergeClause, ...]
    output: Output | None = None
    top: Top | None = None
    common_tables: tuple[CommonTable, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Truncate(Statement):
    """TRUNCATE TABLE."""

    target: TableName


# Control ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Block(Statement):
    """BEGIN ... END, or a batch: what it sets QUOTED_IDENTIFIER and PARSEONLY to at last, if so."""

    statements: tuple[Statement, ...]
    quoted_identifier: bool | None = None
    parse_only: bool | None = None


@dataclass(frozen=True, slots=True, eq=False)
class If(Statement):
    """IF ... ELSE."""

    condition: Expression
    then: Statement
    otherwise: Statement | None


@dataclass(frozen=True, slots=True, eq=False)
class While(Statement):
    """WHILE."""

    condition: Expression
    body: Statement


@dataclass(frozen=True, slots=True, eq=False)
class TryCatch(Statement):
    """BEGIN TRY ... END CATCH."""

    body: Block
    handler: Block


@dataclass(frozen=True, slots=True, eq=False)
class Jump(Statement):
    """BREAK or CONTINUE."""

    kind: str


@dataclass(frozen=True, slots=True, eq=False)
class Return(Statement):
    """RETURN [value]."""

    value: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class ColumnDefinition(Node):
    """A column of CREATE TABLE, ALTER TABLE or a table variable; expressions as T-SQL text."""

    name: str
    type: SqlType | None
    nullable: bool | None = None
    identity: tuple[int, int] | None = None
    default: str | None = None
    default_name: str | None = None
    computed: str | None = None
    persisted: bool = False
    with_values: bool = False
    constraints: tuple[ConstraintDefinition, ...] = ()
    mask: str | None = None
    """The function of MASKED WITH; None without it."""


@dataclass(frozen=True, slots=True)
class Placement:
    """``ON name`` a filegroup, or ``ON name(column)`` a partition scheme."""

    name: str
    column: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ConstraintDefinition(Node):
    """A constraint; ``kind`` is PRIMARY KEY, UNIQUE, CHECK, FOREIGN KEY or DEFAULT."""

    kind: str
    name: str | None = None
    columns: tuple[str, ...] = ()
    descending: tuple[bool, ...] = ()
    clustered: bool | None = None
    expression: str = ""
    referenced: Name = ()
    referenced_columns: tuple[str, ...] = ()
    on_delete: str = "NO_ACTION"
    on_update: str = "NO_ACTION"
    placement: Placement | None = None
    ignore_dup_key: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Declaration(Node):
    """One variable of a DECLARE; a table variable has columns instead of a type."""

    name: str
    type: SqlType | None
    value: Expression | None = None
    columns: tuple[ColumnDefinition, ...] = ()
    constraints: tuple[ConstraintDefinition, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Declare(Statement):
    """DECLARE."""

    declarations: tuple[Declaration, ...]


@dataclass(frozen=True, slots=True, eq=False)
class SetVariable(Statement):
    """SET @x = value, also += and the like."""

    name: str
    operator: str
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class SetOption(Statement):
    """SET option value; ``value`` is ON, OFF, a word or a number, upper-cased."""

    options: tuple[str, ...]
    value: str


@dataclass(frozen=True, slots=True, eq=False)
class SetIdentityInsert(Statement):
    """SET IDENTITY_INSERT table ON|OFF."""

    target: TableName
    on: bool


@dataclass(frozen=True, slots=True, eq=False)
class Print(Statement):
    """PRINT."""

    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class RaiseError(Statement):
    """RAISERROR (message, severity, state, arguments) WITH options."""

    arguments: tuple[Expression, ...]
    options: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Throw(Statement):
    """THROW [number, message, state]."""

    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Argument(Node):
    """An argument of EXEC; ``value`` None is DEFAULT."""

    name: str | None
    value: Expression | None
    output: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Execute(Statement):
    """EXEC procedure; ``procedure`` is a name, or a variable that holds one."""

    procedure: Name | str
    arguments: tuple[Argument, ...] = ()
    result: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ExecuteString(Statement):
    """EXEC (text)."""

    text: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Transaction(Statement):
    """``action`` is BEGIN, COMMIT, ROLLBACK or SAVE; ``name`` may be a variable."""

    action: str
    name: str | None = None
    variable: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Use(Statement):
    """USE database."""

    database: str


@dataclass(frozen=True, slots=True, eq=False)
class WaitFor(Statement):
    """WAITFOR DELAY or TIME."""

    kind: str
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Ignored(Statement):
    """A statement that is accepted and changes nothing that anyone could see."""

    what: str


@dataclass(frozen=True, slots=True, eq=False)
class CursorStatement(Statement):
    """OPEN, FETCH, CLOSE, DEALLOCATE and DECLARE of a cursor."""

    action: str
    name: str
    query: Query | None = None
    into: tuple[str, ...] = ()
