"""The syntax tree of definitions: CREATE, ALTER and DROP."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tailrace_emulator.tsql.syntax.nodes import (
    Expression,
    Name,
    Node,
    Query,
)
from tailrace_emulator.tsql.syntax.statements import (
    Block,
    ColumnDefinition,
    ConstraintDefinition,
    Declaration,
    Placement,
    Statement,
)
from tailrace_emulator.values.types import SqlType


@dataclass(frozen=True, slots=True, eq=False)
class CreateDatabase(Statement):
    """CREATE DATABASE; ``collation`` is empty for the server's. Filegroups with their files."""

    name: str
    collation: str = ""
    filegroups: tuple[tuple[str, tuple[str, ...]], ...] = ()


MODIFY_NAME: Final = "MODIFY NAME"


@dataclass(frozen=True, slots=True, eq=False)
class AlterDatabase(Statement):
    """ALTER DATABASE name SET option value, ...; a new name is the option MODIFY_NAME."""

    name: str
    settings: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, eq=False)
class CreateSchema(Statement):
    """CREATE SCHEMA; ``owner`` of AUTHORIZATION."""

    name: str
    owner: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CreateTable(Statement):
    """CREATE TABLE."""

    name: Name
    columns: tuple[ColumnDefinition, ...]
    constraints: tuple[ConstraintDefinition, ...]
    indexes: tuple[CreateIndex, ...] = ()
    placement: Placement | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CreateIndex(Statement):
    """CREATE INDEX."""

    name: str
    table: Name
    columns: tuple[str, ...]
    descending: tuple[bool, ...]
    unique: bool = False
    clustered: bool = False
    included: tuple[str, ...] = ()
    where: Expression | None = None
    placement: Placement | None = None
    ignore_dup_key: bool = False
    drop_existing: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class DropObject(Statement):
    """DROP kind [IF EXISTS] names; an index also has its table."""

    kind: str
    names: tuple[Name, ...]
    if_exists: bool = False
    table: Name = ()


@dataclass(frozen=True, slots=True, eq=False)
class AlterAdd(Statement):
    """ALTER TABLE ADD columns and constraints."""

    table: Name
    columns: tuple[ColumnDefinition, ...] = ()
    constraints: tuple[ConstraintDefinition, ...] = ()
    text: str = field(default="")
    validate: bool = True
    """Not WITH NOCHECK."""


@dataclass(frozen=True, slots=True, eq=False)
class AlterDrop(Statement):
    """ALTER TABLE DROP; items are (COLUMN or CONSTRAINT, name)."""

    table: Name
    items: tuple[tuple[str, str], ...]
    if_exists: bool = False
    text: str = field(default="")


@dataclass(frozen=True, slots=True, eq=False)
class AlterColumn(Statement):
    """ALTER TABLE ALTER COLUMN."""

    table: Name
    column: ColumnDefinition
    text: str = field(default="")


@dataclass(frozen=True, slots=True, eq=False)
class AlterMask(Statement):
    """ALTER TABLE ALTER COLUMN .. ADD MASKED or DROP MASKED.

    Attributes:
        mask: the masking function; None to drop it.
    """

    table: Name
    column: str
    mask: str | None
    text: str = field(default="")


@dataclass(frozen=True, slots=True, eq=False)
class ProcedureParameterDefinition(Node):
    """A parameter of CREATE PROCEDURE."""

    name: str
    type: SqlType
    default: Expression | None = None
    output: bool = False
    readonly: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class CreateModule(Statement):
    """CREATE/ALTER PROCEDURE, VIEW, FUNCTION or TRIGGER; ``text`` is the whole statement."""

    kind: str
    name: Name
    mode: str
    text: str
    parameters: tuple[ProcedureParameterDefinition, ...] = ()
    body: Block | None = None
    query: Query | None = None
    column_names: tuple[str, ...] = ()
    table: Name = ()
    """Of a trigger, as the next two."""
    events: tuple[str, ...] = ()
    is_instead_of: bool = False
    returns: SqlType | None = None
    """Of a scalar function."""
    returns_table: Declaration | None = None
    """Of a function that fills a table variable."""
    null_on_null: bool = False
    """RETURNS NULL ON NULL INPUT."""
    execute_as: str | None = None
    """OWNER, SELF or a user's name; None for the caller."""
    is_schema_bound: bool = False
    has_check_option: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class CreateSynonym(Statement):
    """CREATE SYNONYM name FOR base."""

    name: Name
    base: Name
