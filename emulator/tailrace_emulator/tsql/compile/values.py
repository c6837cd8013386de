"""Compiled expressions: SQLite text with the type that SQL Server gives its value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage.collation import ordering_of
from tailrace_emulator.tsql.conversions import check_allowed
from tailrace_emulator.tsql.conversions.families import Family, family
from tailrace_emulator.tsql.conversions.rules import Rule
from tailrace_emulator.tsql.syntax.nodes import TableName, VariableTable
from tailrace_emulator.values.types import INT, SqlType, StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.storage.catalog_state import Module
    from tailrace_emulator.storage.database import Database

View = tuple["Database", "Module"]
Views = tuple[View, ...]
"""Views within each other, the outermost first."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A value known when the statement is compiled."""

    value: StorageValue


HIDDEN: Final = "\0rid"
"""How the names of hidden columns begin: row ids that a change through a query needs."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The column of a table that a value is, unchanged, so that it can be assigned through.

    Attributes:
        rid: name of the hidden column with the row's id.
        target: the table, as the query names it.
        column: the column's name; empty for the row id itself.
        views: through which it is seen, the outermost first.
    """

    rid: str
    target: TableName | VariableTable
    column: str
    views: Views = ()


@dataclass(frozen=True, slots=True)
class Value:
    """A scalar expression.

    Attributes:
        sql: SQLite text, usable as an operand without further parentheses.
        type: its SQL Server type.
        nullable: whether it can be NULL.
        constant: its value when it is a literal.
        identity: whether it is an identity column, for COLMETADATA.
        computed: whether it is a computed column.
        name: the column's name when it is one.
        stored: whether it is a column of a stored table, which SQLite may seek in an index.
        literal: whether it is written as a constant: NULL has no type of its own then, and an
            integer counts its digits towards a decimal.
        origin: the column of a table that it is; only while a change goes through a query.
        form: ``json`` when its text is JSON that is not escaped where JSON is built of it.
        explicit: whether its collation was given by COLLATE, and beats a column's.
        mask: of a column that the session sees masked, its masking function.
        learn: called with the type that its surroundings give an undeclared parameter.
    """

    sql: str
    type: SqlType
    nullable: bool = True
    constant: Constant | None = None
    identity: bool = False
    computed: bool = False
    name: str = ""
    stored: bool = False
    learn: Callable[[SqlType], None] | None = None
    literal: bool = False
    form: str = ""
    explicit: bool = False
    origin: Origin | None = None
    mask: str = ""

    @property
    def is_null(self) -> bool:
        """Whether it is the literal NULL, which takes the type of its surroundings."""
        return self.literal and self.constant is not None and self.constant.value is None

    @property
    def collated(self) -> str:
        """Its text with its collation, for comparing, grouping and ordering."""
        ordering = ordering_of(self.type)
        return self.sql if ordering is None else f"{self.sql} COLLATE {ordering}"


NULL_VALUE: Final = Value("NULL", INT, nullable=True, constant=Constant(None), literal=True)

_UNSAFE: Final = frozenset("\0\x01?")
"""Characters that cannot be in a text literal: SQLite ends it at NUL, and plans are scanned for the
other two, which mark holes and parameters."""


def literal_sql(value: StorageValue) -> str:
    """SQLite text of a constant."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, str):
        if not _UNSAFE.isdisjoint(value):
            return f"CAST(x'{value.encode().hex()}' AS TEXT)"
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, float):
        return repr(value)
    return str(value) if value >= 0 else f"({value})"


def constant(value: StorageValue, sql_type: SqlType, *, literal: bool = False) -> Value:
    """A constant; ``literal`` when it is written as one."""
    return Value(literal_sql(value), sql_type, value is None, Constant(value), literal=literal)


def ruled(sql: str, rule: Rule) -> str:
    """SQLite text of a value passed through a conversion, whatever it is."""
    return f"cv({sql}, {literal_sql(rule.text())})"


def apply(value: Value, rule: Rule) -> Value:
    """``value`` passed through a conversion; a constant is converted at once if it can be.

    Raises:
        SqlError: 206, 257, 281 or 529 when there is no such conversion.
    """
    conversion, target = rule.conversion(), rule.target
    if conversion is None:
        return replace(value, type=target, literal=False)
    if value.constant is not None:
        if value.constant.value is None:
            return replace(value, type=target, literal=False)
        try:
            return constant(conversion(value.constant.value), target)
        except SqlError:
            # It fails when, and only if, a row reaches it: CASE may shield it.
            pass
    return Value(ruled(value.sql, rule), target, value.nullable)


def converted(value: Value, target: SqlType, *, explicit: bool = False) -> Value:
    """``value`` in another type.

    Raises:
        SqlError: 206, 257 or 529 when there is no such conversion.
    """
    source = value.type
    if source == target and value.learn is None:
        return replace(value, literal=False) if value.is_null else value
    if value.is_null:
        if value.learn is not None:
            value.learn(target)
        return replace(value, type=target, literal=False)
    check_allowed(source, target, explicit=explicit)
    native = _native(value, target)
    if native is not None:
        return native
    return apply(value, Rule(source, target))


def _native(value: Value, target: SqlType) -> Value | None:
    """A conversion that SQLite can do alone: int to a narrow decimal that must hold it."""
    if (
        value.constant is None
        and family(value.type) is Family.INTEGER
        and value.type.name in {"bit", "tinyint", "smallint", "int"}
        and target.name in {"decimal", "numeric"}
        and target.scale > 0
        and target.precision <= 18
        and target.precision - target.scale >= 10
    ):
        return Value(f"({value.sql} * {10**target.scale})", target, value.nullable)
    return None
