"""Grammar of CREATE."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.certain import known
from tailrace_emulator.tsql.syntax import parse_expressions as expressions
from tailrace_emulator.tsql.syntax import parse_partitions as partitions
from tailrace_emulator.tsql.syntax.definition_statements import (
    CreateDatabase,
    CreateIndex,
    CreateSchema,
    CreateSynonym,
    CreateTable,
)
from tailrace_emulator.tsql.syntax.grammar import statement
from tailrace_emulator.tsql.syntax.index_clauses import index_tail
from tailrace_emulator.tsql.syntax.nodes import Name
from tailrace_emulator.tsql.syntax.parse_base import TokenCursor
from tailrace_emulator.tsql.syntax.statements import (
    ColumnDefinition,
    ConstraintDefinition,
    Statement,
)
from tailrace_emulator.tsql.syntax.tokens import Kind
from tailrace_emulator.tsql.syntax.type_statements import CreateType

_DATABASE_OPTIONS: Final = {
    "CATALOG_COLLATION": "DATABASE_DEFAULT",
    "LEDGER": "OFF",
    "TRUSTWORTHY": "OFF",
    "DB_CHAINING": "OFF",
}


@statement("CREATE")
def create_other(cursor: TokenCursor) -> Statement:
    """CREATE of what nobody registered."""
    cursor.expect("CREATE")
    if cursor.token.kind in {Kind.WORD, Kind.QUOTED}:
        raise not_supported(f"CREATE {cursor.token.text.upper()}")
    cursor.fail()


@statement("CREATE", "SYNONYM")
def create_synonym(cursor: TokenCursor) -> Statement:
    """CREATE SYNONYM name FOR name."""
    line = cursor.token.line
    cursor.expect("CREATE", "SYNONYM")
    name = cursor.dotted_name()
    cursor.expect("FOR")
    return CreateSynonym(name, cursor.dotted_name(), line=line)


@statement("CREATE", "TYPE")
def create_type(cursor: TokenCursor) -> Statement:
    """CREATE TYPE name FROM type [NULL | NOT NULL], or AS TABLE (..)."""
    start = cursor.token
    cursor.expect("CREATE", "TYPE")
    name = cursor.dotted_name()
    if cursor.accept("FROM"):
        sql_type = cursor.declared_type()
        nullable = not cursor.accept("NOT", "NULL")
        cursor.accept("NULL")
        return CreateType(name, sql_type, nullable, line=start.line)
    if cursor.accept("EXTERNAL"):
        raise not_supported("CLR types (CREATE TYPE ... EXTERNAL NAME)")
    cursor.expect("AS", "TABLE")
    columns, constraints, _ = table_elements(cursor, name)
    if cursor.at("WITH", "(", "MEMORY_OPTIMIZED"):
        raise not_supported("memory-optimised table types")
    text = cursor.expression_between(start)
    return CreateType(name, None, True, columns, constraints, text, line=start.line)


@statement("CREATE", "DATABASE")
def create_database(cursor: TokenCursor) -> Statement:
    """CREATE DATABASE name [options]."""
    line = cursor.token.line
    cursor.expect("CREATE", "DATABASE")
    name = cursor.identifier()
    filegroups = partitions.database_files(cursor)
    collation = cursor.identifier() if cursor.accept("COLLATE") else ""
    if cursor.accept("WITH"):
        _database_options(cursor)
    if cursor.at("AS") or cursor.at("FOR"):
        raise not_supported("snapshots and attached files (CREATE DATABASE ... AS, FOR)")
    return CreateDatabase(name, collation, filegroups, line=line)


def _database_options(cursor: TokenCursor) -> None:
    """``CATALOG_COLLATION = DATABASE_DEFAULT, LEDGER = OFF``: the settings that there are.

    See: CREATE DATABASE (Transact-SQL), option.

    Raises:
        SqlError: 50900 for another option or setting.
    """
    while True:
        name = cursor.word()
        cursor.expect("=")
        value = cursor.advance().text.upper()
        if _DATABASE_OPTIONS.get(name) != value:
            raise not_supported(f"CREATE DATABASE ... WITH {name} = {value}")
        if not cursor.accept(","):
            return


@statement("CREATE", "SCHEMA")
def create_schema(cursor: TokenCursor) -> Statement:
    """CREATE SCHEMA [name] [AUTHORIZATION owner]."""
    line = cursor.token.line
    cursor.expect("CREATE", "SCHEMA")
    owner = None
    if cursor.accept("AUTHORIZATION"):
        name = owner = cursor.identifier()
    else:
        name = cursor.identifier()
        if cursor.accept("AUTHORIZATION"):
            owner = cursor.identifier()
    return CreateSchema(name, owner, line=line)


# Tables -----------------------------------------------------------------------------------------


@statement("CREATE", "TABLE")
def create_table(cursor: TokenCursor) -> Statement:
    """CREATE TABLE name ( .. )."""
    line = cursor.token.line
    cursor.expect("CREATE", "TABLE")
    name = cursor.dotted_name()
    columns, constraints, indexes = table_elements(cursor, name)
    placement = partitions.storage_options(cursor)
    return CreateTable(name, columns, constraints, indexes, placement, line=line)


def table_elements(
    cursor: TokenCursor, name: Name
) -> tuple[tuple[ColumnDefinition, ...], tuple[ConstraintDefinition, ...], tuple[CreateIndex, ...]]:
    """The elements in the parentheses of a table."""
    cursor.expect("(")
    columns: list[ColumnDefinition] = []
    constraints: list[ConstraintDefinition] = []
    indexes: list[CreateIndex] = []
    while not cursor.at(")"):
        if cursor.at_any("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"):
            constraints.append(table_constraint(cursor))
        elif cursor.accept("INDEX"):
            indexes.append(_inline_index(cursor, name))
        elif cursor.at("PERIOD", "FOR"):
            raise not_supported("temporal tables (PERIOD FOR SYSTEM_TIME)")
        else:
            columns.append(column_definition(cursor))
            while cursor.accept("INDEX"):
                indexes.append(_inline_index(cursor, name, columns[-1].name))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(columns), tuple(constraints), tuple(indexes)


def _inline_index(cursor: TokenCursor, table: Name, column: str | None = None) -> CreateIndex:
    """``INDEX name [UNIQUE] [CLUSTERED] (columns)`` inside CREATE TABLE.

    Args:
        column: the column that it stands at, if it does.
    """
    name = cursor.identifier()
    unique = cursor.accept("UNIQUE")
    clustered = cursor.accept_any("CLUSTERED", "NONCLUSTERED") == "CLUSTERED"
    _refuse_other_kinds(cursor)
    columns: tuple[str, ...] = () if column is None else (column,)
    descending: tuple[bool, ...] = (False,) * len(columns)
    included: tuple[str, ...] = ()
    where = None
    if column is None:
        columns, descending = _key_columns(cursor)
        included = cursor.name_list() if cursor.accept("INCLUDE") else ()
        where = expressions.condition(cursor) if cursor.accept("WHERE") else None
    placement, options = index_tail(cursor)
    return CreateIndex(
        *(name, table, columns, descending, unique, clustered, included, where, placement),
        ignore_dup_key=bool(options.ignore_dup_key),
    )


def _refuse_other_kinds(cursor: TokenCursor) -> None:
    """Kinds of index that there are not.

    Raises:
        SqlError: 50900 at COLUMNSTORE and HASH.
    """
    if cursor.at("COLUMNSTORE"):
        raise not_supported("columnstore indexes")
    if cursor.at("HASH"):
        raise not_supported("hash indexes")


def column_definition(cursor: TokenCursor) -> ColumnDefinition:
    """A column with its constraints."""
    name = cursor.identifier()
    if cursor.accept("AS"):
        return _computed_column(cursor, name)
    definition = ColumnDefinition(name, cursor.declared_type())
    constraints: list[ConstraintDefinition] = []
    while True:
        constraint_name = cursor.identifier() if cursor.accept("CONSTRAINT") else None
        if cursor.accept("DEFAULT"):
            definition = replace(
                definition,
                default=_expression_text(cursor),
                default_name=constraint_name,
                with_values=cursor.accept("WITH", "VALUES"),
            )
        elif cursor.at_any("PRIMARY", "UNIQUE", "CHECK", "REFERENCES", "FOREIGN"):
            constraints.append(_constraint(cursor, constraint_name, (name,)))
        elif (changed := column_option(cursor, definition)) is not None:
            definition = changed
        else:
            return replace(definition, constraints=tuple(constraints))


def _computed_column(cursor: TokenCursor, name: str) -> ColumnDefinition:
    """``name AS expression [PERSISTED [NOT NULL]]``."""
    text = _expression_text(cursor)
    persisted = cursor.accept("PERSISTED")
    nullable = False if cursor.accept("NOT", "NULL") else None
    constraints = []
    while cursor.at_any("PRIMARY", "UNIQUE", "CONSTRAINT"):
        constraint_name = cursor.identifier() if cursor.accept("CONSTRAINT") else None
        constraints.append(_constraint(cursor, constraint_name, (name,)))
    return ColumnDefinition(
        name,
        None,
        nullable=nullable,
        computed=text,
        persisted=persisted,
        constraints=tuple(constraints),
    )


def column_option(cursor: TokenCursor, definition: ColumnDefinition) -> ColumnDefinition | None:
    """NULL, NOT NULL, IDENTITY, COLLATE and options without effect; None at anything else."""
    if cursor.accept("NOT", "NULL"):
        return replace(definition, nullable=False)
    if cursor.accept("NULL"):
        return replace(definition, nullable=True)
    if cursor.accept("IDENTITY"):
        seed = increment = 1
        if cursor.accept("("):
            seed = cursor.integer()
            cursor.expect(",")
            increment = cursor.integer()
            cursor.expect(")")
        return replace(definition, identity=(seed, increment))
    if cursor.accept("COLLATE"):
        collation = cursor.identifier()
        declared = known(definition.type, "type of a column with COLLATE")
        return replace(definition, type=replace(declared, collation=collation))
    if cursor.accept("NOT", "FOR", "REPLICATION") or cursor.accept_any("ROWGUIDCOL", "SPARSE"):
        return definition
    if cursor.at("MASKED"):
        return replace(definition, mask=mask_clause(cursor))
    if any(map(cursor.at, ("GENERATED", "ENCRYPTED", "COLUMN_SET"))):
        raise not_supported(f"column option {cursor.token.text.upper()}")
    return None


def mask_clause(cursor: TokenCursor) -> str:
    """``MASKED WITH (FUNCTION = 'mask')``; gives the mask."""
    cursor.expect("MASKED", "WITH", "(", "FUNCTION", "=")
    if cursor.token.kind not in {Kind.STRING, Kind.NATIONAL}:
        cursor.fail()
    mask = cursor.advance().text
    cursor.expect(")")
    return mask


def _expression_text(cursor: TokenCursor) -> str:
    """Source of a scalar expression."""
    start = cursor.token
    expressions.condition(cursor)
    return cursor.expression_between(start)


def table_constraint(cursor: TokenCursor) -> ConstraintDefinition:
    """A constraint that stands alone."""
    name = cursor.identifier() if cursor.accept("CONSTRAINT") else None
    return _constraint(cursor, name, ())


def _constraint(
    cursor: TokenCursor, name: str | None, columns: tuple[str, ...]
) -> ConstraintDefinition:
    """A constraint after its name; ``columns`` are those of the column it belongs to."""
    if cursor.accept("PRIMARY", "KEY"):
        return _key_constraint(cursor, "PRIMARY KEY", name, columns)
    if cursor.accept("UNIQUE"):
        return _key_constraint(cursor, "UNIQUE", name, columns)
    if cursor.accept("CHECK"):
        cursor.accept("NOT", "FOR", "REPLICATION")
        start = cursor.token
        cursor.expect("(")
        expressions.condition(cursor)
        cursor.expect(")")
        text = cursor.expression_between(start)
        return ConstraintDefinition("CHECK", name, columns, expression=text)
    if cursor.accept("DEFAULT"):
        text = _expression_text(cursor)
        cursor.expect("FOR")
        column = cursor.identifier()
        return ConstraintDefinition("DEFAULT", name, (column,), expression=text)
    if cursor.accept("FOREIGN", "KEY") and cursor.at("("):
        columns = cursor.name_list()
    return _foreign_key(cursor, name, columns)


def _key_constraint(
    cursor: TokenCursor, kind: str, name: str | None, columns: tuple[str, ...]
) -> ConstraintDefinition:
    """PRIMARY KEY and UNIQUE."""
    word = cursor.accept_any("CLUSTERED", "NONCLUSTERED")
    clustered = None if word is None else word == "CLUSTERED"
    descending = (False,) * len(columns)
    if cursor.at("("):
        columns, descending = _key_columns(cursor)
    if kind == "PRIMARY KEY" and clustered is False:
        _refuse_other_kinds(cursor)
    placement, options = index_tail(cursor)
    return ConstraintDefinition(
        *(kind, name, columns, descending, clustered),
        placement=placement,
        ignore_dup_key=bool(options.ignore_dup_key),
    )


def _key_columns(cursor: TokenCursor) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """``(a, b DESC)``."""
    cursor.expect("(")
    columns, descending = [], []
    while True:
        columns.append(cursor.identifier())
        descending.append(cursor.accept_any("ASC", "DESC") == "DESC")
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(columns), tuple(descending)


def _foreign_key(
    cursor: TokenCursor, name: str | None, columns: tuple[str, ...]
) -> ConstraintDefinition:
    """``REFERENCES table (columns) [ON DELETE ..] [ON UPDATE ..]``."""
    cursor.expect("REFERENCES")
    referenced = cursor.dotted_name()
    referenced_columns = cursor.name_list() if cursor.at("(") else ()
    actions = {"DELETE": "NO_ACTION", "UPDATE": "NO_ACTION"}
    while cursor.at("ON") and cursor.ahead().upper in actions:
        cursor.advance()
        event = cursor.advance().upper
        if cursor.accept("NO", "ACTION"):
            actions[event] = "NO_ACTION"
        elif cursor.accept("CASCADE"):
            actions[event] = "CASCADE"
        else:
            cursor.expect("SET")
            word = cursor.accept_any("NULL", "DEFAULT")
            if word is None:
                cursor.fail()
            actions[event] = f"SET_{word}"
    cursor.accept("NOT", "FOR", "REPLICATION")
    return ConstraintDefinition(
        "FOREIGN KEY",
        name,
        columns,
        referenced=referenced,
        referenced_columns=referenced_columns,
        on_delete=actions["DELETE"],
        on_update=actions["UPDATE"],
    )


@statement("CREATE", "UNIQUE")
@statement("CREATE", "CLUSTERED")
@statement("CREATE", "NONCLUSTERED")
@statement("CREATE", "INDEX")
def create_index(cursor: TokenCursor) -> Statement:
    """CREATE [UNIQUE] [CLUSTERED] INDEX name ON table (columns) [INCLUDE (..)]."""
    line = cursor.token.line
    cursor.expect("CREATE")
    unique = cursor.accept("UNIQUE")
    clustered = cursor.accept_any("CLUSTERED", "NONCLUSTERED") == "CLUSTERED"
    _refuse_other_kinds(cursor)
    cursor.expect("INDEX")
    name = cursor.identifier()
    cursor.expect("ON")
    table = cursor.dotted_name()
    columns, descending = _key_columns(cursor)
    included = cursor.name_list() if cursor.accept("INCLUDE") else ()
    where = expressions.condition(cursor) if cursor.accept("WHERE") else None
    placement, options = index_tail(cursor)
    return CreateIndex(
        *(name, table, columns, descending, unique, clustered, included, where, placement),
        ignore_dup_key=bool(options.ignore_dup_key),
        drop_existing=options.drop_existing,
        line=line,
    )
