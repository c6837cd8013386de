"""From column and constraint definitions to the catalog's objects."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import Aborts, SqlError, not_supported
from tailrace_emulator.storage.model import Check, Column, ForeignKey, Identity, Index
from tailrace_emulator.tsql.certain import known
from tailrace_emulator.tsql.compile.comparison import compares_to_null
from tailrace_emulator.tsql.compile.compiler import Compilation
from tailrace_emulator.tsql.compile.names import stored_table
from tailrace_emulator.tsql.compile.queries import QueryCompiler
from tailrace_emulator.tsql.compile.scope import BoundSource, Scope, SourceColumn
from tailrace_emulator.tsql.functions.masking import read_mask
from tailrace_emulator.tsql.syntax.nodes import Call, ColumnName, Expression
from tailrace_emulator.tsql.syntax.parser import parse_expression
from tailrace_emulator.tsql.syntax.statements import ColumnDefinition, ConstraintDefinition
from tailrace_emulator.tsql.syntax.type_names import SYSNAME_DECLARED, NamedType, unknown_type
from tailrace_emulator.tsql.syntax.walk import walk
from tailrace_emulator.values.collations import collation
from tailrace_emulator.values.types import INCOMPARABLE_TYPES, MAX, SYSNAME_USER_TYPE_ID

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.database import Database
    from tailrace_emulator.storage.model import UserType
    from tailrace_emulator.values.types import SqlType


_KEY_DIGITS: Final = {
    "id": "3213E83F",
    "Id": "3214EC07",
    "ID": "3214EC27",
    "name": "72E12F1A",
    "email": "AB6E6164",
    "username": "F3DBC572",
}
"""The first eight digits of the generated name of a key of one column."""


@dataclass(slots=True)
class TableParts:
    """What CREATE TABLE says, as the catalog keeps it."""

    columns: list[Column]
    indexes: list[Index]
    foreign_keys: list[ForeignKey]
    checks: list[Check]
    referenced: list[str] = field(default_factory=list)
    """For each foreign key: the table that it references, as written."""


class DefinitionBuilder:
    """Turns definitions of one table into columns, indexes and constraints."""

    def __init__(
        self, compilation: Compilation, table: str, database: Database | None = None
    ) -> None:
        """``database`` is the table's, if it is not the current one."""
        self.compilation = compilation
        compilation.takes_ordered_sequences = False
        self.context: SessionContext = compilation.context
        self.table = table
        self.database = database or compilation.database

    def parts(
        self,
        definitions: Sequence[ColumnDefinition],
        constraints: Sequence[ConstraintDefinition],
    ) -> TableParts:
        """Everything of a new table; column ids are 1, 2, ...

        Raises:
            SqlError: 8110, 1911, 2744 and what expressions raise.
        """
        every = [*constraints]
        for definition in definitions:
            every += definition.constraints
        key = {
            name.casefold()
            for constraint in every
            if constraint.kind == "PRIMARY KEY"
            for name in constraint.columns
        }
        columns = self._columns(definitions, key)
        if sum(c.identity is not None for c in columns) > 1:
            raise messages.error(2744, self.table)
        parts = TableParts(columns, [], [], [])
        clustered_named = any(c.clustered for c in every)
        if sum(c.kind == "PRIMARY KEY" for c in every) > 1:
            raise messages.error(8110, self.table)
        for constraint in every:
            made = self.constraint(constraint, columns, clustered_free=not clustered_named)
            if isinstance(made, Index):
                parts.indexes.append(made)
            elif isinstance(made, ForeignKey):
                parts.foreign_keys.append(made)
                parts.referenced.append(messages.dotted(constraint.referenced))
            else:
                parts.checks.append(made)
        self._check_conditions(parts)
        return parts

    def _columns(self, definitions: Sequence[ColumnDefinition], key: set[str]) -> list[Column]:
        """The columns; computed ones may name those that come after them."""
        computed = {d.name.casefold() for d in definitions if d.computed is not None}
        for definition in definitions:
            self._refuse_computed(definition, computed)
        made: dict[int, Column] = {}
        for is_computed in (False, True):
            for number, definition in enumerate(definitions, 1):
                if (definition.computed is not None) is is_computed:
                    before = [made[n] for n in sorted(made)]
                    in_key = definition.name.casefold() in key
                    made[number] = self.column(definition, before, number, in_key=in_key)
        return [made[number] for number in sorted(made)]

    def _may_be_null(self) -> bool:
        """Whether a column that says neither NULL nor NOT NULL may be NULL."""
        return self.compilation.context.options.ansi_null_dflt_on or self.table.startswith("@")

    def _check_padding(self, sql_type: SqlType, *, nullable: bool) -> None:
        """Refuses columns that would lose their trailing blanks or zeros."""
        is_fixed = sql_type.name in {"char", "binary"}
        if (
            not self.compilation.semantics.ansi_padding
            and (sql_type.name in {"varchar", "varbinary"} or (is_fixed and nullable))
            and sql_type.length != MAX
            and not self.table.startswith("@")
        ):
            raise not_supported(f"columns of type {sql_type.name} made under SET ANSI_PADDING OFF")

    def _refuse_null_comparison(self, node: Expression) -> None:
        """Refuses ``= NULL`` in what would keep the ANSI_NULLS OFF of its creation."""
        if not self.compilation.semantics.ansi_nulls and compares_to_null(node):
            raise not_supported("comparing with NULL in a definition under SET ANSI_NULLS OFF")

    def _check_conditions(self, parts: TableParts) -> None:
        """Compiles CHECK expressions once, so that errors in them surface now."""
        expressions = QueryCompiler(self.compilation).expressions
        scope = Scope(sources=[self._pseudo_source(parts.columns)])
        for check in parts.checks:
            self._refuse_null_comparison(parse_expression(check.expression))
            expressions.condition(parse_expression(check.expression), scope)

    def _pseudo_source(self, columns: Sequence[Column]) -> BoundSource:
        """Columns without a table, for expressions that are only looked at."""
        return BoundSource(
            self.table, [SourceColumn(c.name, c.type, c.nullable, "NULL") for c in columns], "t"
        )

    def column(
        self,
        definition: ColumnDefinition,
        before: Sequence[Column],
        column_id: int,
        *,
        in_key: bool = False,
    ) -> Column:
        """One column.

        Raises:
            SqlError: 8147, 2749 for IDENTITY where it cannot be; 1759 and what expressions raise.
        """
        if definition.computed is not None:
            return self._computed(definition, before, column_id)
        declared = known(definition.type, "type of a column")
        alias = self._alias(declared, column_id or len(before) + 1)
        sql_type = self._collated(declared if alias is None else known(alias.type, "alias type"))
        nullable = definition.nullable
        is_sysname = declared is SYSNAME_DECLARED
        if nullable is None and (is_sysname or (alias is not None and not alias.nullable)):
            nullable = False
        if nullable is None:
            nullable = not in_key and definition.identity is None and self._may_be_null()
        elif nullable and in_key:
            raise messages.error(8111, self.table, aborts=Aborts.SCOPE)
        if sql_type.name == "timestamp" and definition.nullable is None:
            nullable = False
        self._check_padding(sql_type, nullable=nullable)
        identity = None
        if definition.identity is not None:
            self._check_identity(definition, sql_type)
            nullable = False
            identity = Identity(*definition.identity)
        default = None
        name = None
        if definition.default is not None:
            default = normalised(definition.default)
            QueryCompiler(self.compilation).expressions.value(parse_expression(default), Scope())
            name = definition.default_name or generated_name("DF", self.table, definition.name)
        mask = ""
        if definition.mask is not None:
            mask = read_mask(definition.mask, definition.name, sql_type).text
        return Column(
            column_id,
            definition.name,
            sql_type,
            nullable,
            identity,
            default,
            name,
            mask=mask,
            user_type_id=SYSNAME_USER_TYPE_ID
            if is_sysname
            else (0 if alias is None else alias.user_type_id),
        )

    def _alias(self, declared: SqlType, ordinal: int) -> UserType | None:
        """The alias type that a column is declared with; None for a system type.

        Raises:
            SqlError: 2715 for an unknown type.
        """
        if not isinstance(declared, NamedType):
            return None
        schema = declared.parts[-2] if len(declared.parts) > 1 else "dbo"
        found = self.compilation.database.user_type(schema, declared.parts[-1])
        if found is None or found.is_table or len(declared.parts) > 2:
            raise unknown_type(declared.name, ordinal=ordinal)
        return found

    def _collated(self, sql_type: SqlType) -> SqlType:
        """Text without COLLATE has the database's collation.

        Raises:
            SqlError: 448 no such collation, 452 COLLATE on other types, 459 a collation without a
                code page on char or varchar.
        """
        if not sql_type.is_character or sql_type.name == "xml":
            if sql_type.collation is not None and sql_type.name != "xml":
                raise messages.error(452)
            return replace(sql_type, collation=None)
        name = sql_type.collation
        if name is None or name.casefold() in {"database_default", "catalog_default"}:
            name = self.compilation.database.collation
        found = collation(name)
        if not found.page and sql_type.name in {"char", "varchar", "text"}:
            raise messages.error(459, found.name)
        return replace(sql_type, collation=found.name)

    def _check_identity(self, definition: ColumnDefinition, sql_type: SqlType) -> None:
        """IDENTITY wants an integer, or a decimal without scale."""
        integers = {"tinyint", "smallint", "int", "bigint"}
        if sql_type.name not in integers and not (
            sql_type.name in {"decimal", "numeric"} and sql_type.scale == 0
        ):
            raise messages.error(2749, definition.name)

    def _computed(
        self, definition: ColumnDefinition, before: Sequence[Column], column_id: int
    ) -> Column:
        """A computed column: its type is that of its expression."""
        if definition.mask is not None:
            raise not_supported("a mask on a computed column")
        text = normalised(definition.computed or "")
        computed = {c.name.casefold() for c in before if c.computed is not None}
        self._refuse_computed(definition, computed)
        scope = Scope(sources=[self._pseudo_source(before)])
        expression = parse_expression(text)
        self._refuse_null_comparison(expression)
        value = QueryCompiler(self.compilation).expressions.value(expression, scope)
        # Expressions count as nullable, as they may overflow; ISNULL is the documented way out.
        is_never_null = isinstance(expression, Call) and expression.name[-1].upper() == "ISNULL"
        return Column(
            column_id,
            definition.name,
            value.type,
            nullable=definition.nullable is None and not (is_never_null and not value.nullable),
            computed=text,
            persisted=definition.persisted,
        )

    def _refuse_computed(self, definition: ColumnDefinition, computed: set[str]) -> None:
        """1759 where a computed column names another one."""
        if definition.computed is None or not computed:
            return
        for node in walk(parse_expression(definition.computed)):
            if isinstance(node, ColumnName) and node.parts[-1].casefold() in computed:
                raise messages.error(1759, node.parts[-1], self.table)

    # Constraints --------------------------------------------------------------------------------

    def constraint(
        self,
        definition: ConstraintDefinition,
        columns: Sequence[Column],
        *,
        clustered_free: bool,
    ) -> Index | ForeignKey | Check:
        """A key, foreign key or check.

        Raises:
            SqlError: 1911, 1769 or 1770 for an unknown column, 1763 or 1767 for a table.
        """
        if definition.kind == "CHECK":
            name = definition.name or generated_name("CK", self.table, *definition.columns[:1])
            return Check(name, definition.expression)
        if definition.kind == "FOREIGN KEY":
            return self._foreign_key(definition, columns)
        primary = definition.kind == "PRIMARY KEY"
        clustered = definition.clustered
        if clustered is None:
            clustered = primary and clustered_free
        ids = tuple(self.key_column_id(columns, name) for name in definition.columns)
        names = {column.column_id: column.name for column in columns}
        kind = "PK" if primary else "UQ"
        name = definition.name or generated_name(kind, self.table, *(names[n] for n in ids))
        return Index(
            0,
            name,
            ids,
            definition.descending or (False,) * len(ids),
            unique=True,
            primary_key=primary,
            unique_constraint=not primary,
            clustered=clustered,
            ignore_dup_key=definition.ignore_dup_key,
        )

    def key_column_id(self, columns: Sequence[Column], name: str) -> int:
        """The id of a named column that is to be part of a key.

        Raises:
            SqlError: 1911; 1919 for a type that no key may have.
        """
        found = self.column_id(columns, name)
        column = next(c for c in columns if c.column_id == found)
        large = column.type.length == MAX or column.type.name in INCOMPARABLE_TYPES
        if large and column.computed is None:
            raise messages.error(1919, column.name, self.table)
        return found

    def column_id(self, columns: Sequence[Column], name: str) -> int:
        """The id of a named column.

        Raises:
            SqlError: 1911 for an unknown column.
        """
        folded = name.casefold()
        found = next((c for c in columns if c.name.casefold() == folded), None)
        if found is None:
            raise messages.error(1911, name)
        return found.column_id

    def _foreign_key(
        self, definition: ConstraintDefinition, columns: Sequence[Column]
    ) -> ForeignKey:
        """REFERENCES; without named columns it has none yet: see foreign_key_rules.py."""
        name = definition.name or generated_name("FK", self.table, *definition.columns[:1])
        ids = _referred_ids(1769, name, self.table, columns, definition.columns)
        own = definition.referenced[-1].casefold() == self.table.casefold()
        shown = messages.dotted(definition.referenced)
        referenced_columns = columns
        referenced_id = 0
        try:
            database, referenced = stored_table(self.context, definition.referenced, 1)
        except SqlError as error:
            if not own or error.number != 208:
                raise messages.error(1767, name, shown, state=1, aborts=Aborts.SCOPE) from error
        else:
            if database is not self.database:
                raise messages.error(1763, shown)
            referenced_columns = referenced.columns
            referenced_id = referenced.object_id
        named = definition.referenced_columns
        referenced_ids = _referred_ids(1770, name, shown, referenced_columns, named)
        return ForeignKey(
            name, ids, referenced_id, referenced_ids, definition.on_delete, definition.on_update
        )


def _referred_ids(
    number: int, key: str, table: str, columns: Sequence[Column], names: Sequence[str]
) -> tuple[int, ...]:
    """The ids of a foreign key's columns on one side.

    Raises:
        SqlError: 1769 or 1770 for an unknown column.
    """
    by_name = {column.name.casefold(): column.column_id for column in columns}
    for name in names:
        if name.casefold() not in by_name:
            raise messages.error(number, key, name, table)
    return tuple(by_name[name.casefold()] for name in names)


def generated_name(prefix: str, table: str, *columns: str) -> str:
    """A constraint name as the server makes them.

    ``DF__table__colum__0123ABCD``; of a key ``PK__table__3213E83F0123ABCD``, where the first eight
    digits depend on the columns alone. So the keys of a table have one order by name wherever it is
    created. See: public scripts with names that SQL Server generated.
    """
    number = uuid.uuid4().hex.upper()[:8]
    if prefix in {"PK", "UQ"}:
        return f"{prefix}__{table[:8]}__{_digits_of(columns)}{number}"
    middle = ["", columns[0][:5]] if columns else []
    return "_".join([prefix, "", table[:9], *middle, "", number])


def _digits_of(columns: Sequence[str]) -> str:
    """The eight digits of key columns: those of SQL Server where they are known.

    Inferred: how it computes them; here other columns have the digits of a stable hash.
    """
    known_digits = _KEY_DIGITS.get(columns[0]) if len(columns) == 1 else None
    hashed = hashlib.blake2s("\0".join(columns).encode(), digest_size=4)
    return known_digits or hashed.hexdigest().upper()


def normalised(text: str) -> str:
    """An expression as the catalog shows it: in parentheses, a number in two pairs."""
    inner = text.strip()
    while inner.startswith("(") and _closes_at_end(inner):
        inner = inner[1:-1].strip()
    number = inner.lstrip("+-").replace(".", "", 1).isdigit()
    return f"(({inner}))" if number else f"({inner})"


def _closes_at_end(text: str) -> bool:
    """Whether the parenthesis that opens a text is the one that closes it."""
    depth, quoted = 0, False
    for position, character in enumerate(text):
        if character == "'":
            quoted = not quoted
        elif not quoted:
            depth += (character == "(") - (character == ")")
            if depth == 0:
                return position == len(text) - 1
    return False
