"""ALTER statements with which a lake table follows the schema versions of its source. Pure.

A crash may interrupt a series of statements anywhere. Each name is announced before a column gets
it (``column_identity``), and the table's present columns are read from the table. So the next run
computes the rest of the series.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tailrace_schemas.events.envelope import TableSchema
from tailrace_sink.errors import UnsupportedSchemaChange
from tailrace_sink.tables.column_identity import COLUMNS_PROPERTY, PENDING_PROPERTY, identities_text
from tailrace_sink.tables.lake_table import (
    NO_ZONE,
    RESERVED,
    SCHEMA_LSN_PROPERTY,
    Feature,
    LakeColumn,
    LakeTable,
    check_names,
    column_ddl,
    lake_column,
    literal,
    properties_ddl,
    quote,
)
from tailrace_sink.tables.type_widening import Widening, widening


def evolve(
    existing: LakeTable,
    versions: Iterable[TableSchema],
    location: str,
    *,
    stays_plain: bool = False,
) -> tuple[LakeTable, list[str]]:
    """Follow schema versions, oldest first.

    A version newer than the table's renames and widens columns; an older one only adds missing
    ones. A dropped column stays with its values. If another column gets its name, it is renamed to
    ``<name>_dropped_<column_id>``. A type that the lake's type already holds changes nothing.

    Args:
        existing: the table as it is.
        stays_plain: whether to refuse changes that need a ``Feature``.

    Returns:
        The table afterwards, and the ALTER statements in order.

    Raises:
        UnsupportedSchemaChange: the lake cannot follow without losing values.
        UnsupportedType: a column has a type without a lake form.
    """
    changes = _Changes(existing, f"ALTER TABLE delta.{quote(location)}", stays_plain)
    table = existing
    for version in sorted(versions, key=lambda version: version.schema_lsn):
        check_names(version)
        changes.follow(version, is_newer=str(version.schema_lsn) > table.schema_lsn)
        table = replace(table, schema_lsn=max(table.schema_lsn, str(version.schema_lsn)))
    table = replace(
        table, columns=tuple(changes.columns.values()), features=frozenset(changes.features)
    )
    recorded = {}
    if table.identities != existing.recorded or changes.announced:
        recorded = {COLUMNS_PROPERTY: table.identities, PENDING_PROPERTY: ""}
    if table.schema_lsn != existing.schema_lsn:
        recorded[SCHEMA_LSN_PROPERTY] = table.schema_lsn
    if recorded:
        changes.alter(f"SET TBLPROPERTIES ({properties_ddl(recorded)})")
    return replace(table, recorded=table.identities), changes.statements


def require_plain(table: LakeTable) -> None:
    """Refuse a new table that needs a feature which not every reader supports.

    Raises:
        UnsupportedSchemaChange: with the column that needs it.
    """
    for column in table.columns:
        if column.needs_mapping:
            raise _not_plain(table, column.name, "its name", Feature.COLUMN_MAPPING)


@dataclass(slots=True)
class _Changes:
    """The statements so far, and the columns after them."""

    table: LakeTable
    begin: str
    stays_plain: bool
    statements: list[str] = field(default_factory=list)
    columns: dict[int, LakeColumn] = field(init=False)
    features: set[Feature] = field(init=False)
    announced: str = ""

    def __post_init__(self) -> None:
        self.columns = {column.column_id: column for column in self.table.columns}
        self.features = set(self.table.features)

    def alter(self, change: str) -> None:
        self.statements.append(f"{self.begin} {change}")

    def follow(self, version: TableSchema, *, is_newer: bool) -> None:
        wanted = {column.column_id: lake_column(column) for column in version.columns}
        if not self.table.kind.appends:
            _check_key(self.table, self.columns.values(), wanted.values(), version)
        if is_newer:
            self._rename_all(wanted)
        self._add([column for id_, column in wanted.items() if id_ not in self.columns])
        for column in wanted.values():
            self._retype(column, is_newer=is_newer)

    def _rename_all(self, wanted: Mapping[int, LakeColumn]) -> None:
        """Rename every column to its newest name; columns that swap names need a third name."""
        new_names = {column.name.lower(): column_id for column_id, column in wanted.items()}
        for column_id, column in list(self.columns.items()):
            taker = new_names.get(column.name.lower())
            if taker is None or taker == column_id:
                continue
            if column_id in wanted:
                self._rename(column_id, f"{RESERVED}renaming_{column_id}")
            else:
                self._rename(column_id, f"{column.name}_dropped_{column_id}")
        for column_id, column in wanted.items():
            if column_id in self.columns and self.columns[column_id].name != column.name:
                self._rename(column_id, column.name)

    def _rename(self, column_id: int, name: str) -> None:
        old = self.columns[column_id]
        renamed = replace(old, name=name)
        self._not_foreign(name)
        self._make_ready(Feature.COLUMN_MAPPING, old.name, f"its new name {name}")
        self._announce([renamed])
        self.alter(f"RENAME COLUMN {quote(old.name)} TO {quote(name)}")
        self.columns[column_id] = renamed

    def _add(self, columns: list[LakeColumn]) -> None:
        if not columns:
            return
        for column in columns:
            self._not_foreign(column.name)
            if column.needs_mapping:
                self._make_ready(Feature.COLUMN_MAPPING, column.name, "its name")
            self._make_ready_for(column.type)
        self._announce(columns)
        self.alter(f"ADD COLUMNS ({', '.join(map(column_ddl, columns))})")
        self.columns |= {column.column_id: column for column in columns}

    def _retype(self, column: LakeColumn, *, is_newer: bool) -> None:
        present = self.columns[column.column_id]
        match widening(present.type, column.type):
            case Widening.HOLDS:
                pass
            case Widening.WIDENS:
                self._make_ready(
                    Feature.TYPE_WIDENING, present.name, f"its new type {column.sql_type}"
                )
                self._make_ready_for(column.type)
                self.alter(f"ALTER COLUMN {quote(present.name)} TYPE {column.type}")
                present = replace(present, type=column.type)
            case _:
                raise UnsupportedSchemaChange(
                    str(self.table.table),
                    column.name,
                    f"its type became {column.sql_type}, which a lake column of type"
                    f" {present.type} does not hold and cannot be widened to",
                    way_out(self.table),
                )
        if is_newer and present.identity != column.identity:
            changed = replace(present, sql_type=column.sql_type, key_ordinal=column.key_ordinal)
            if present.has_our_comment and present.comment != column.comment:
                comment = f"COMMENT {literal(column.sql_type)}"
                self.alter(f"ALTER COLUMN {quote(present.name)} {comment}")
                changed = replace(changed, comment=column.comment)
            present = changed
        self.columns[column.column_id] = present

    def _announce(self, columns: Iterable[LakeColumn]) -> None:
        named = {column.name: column.identity for column in self.columns.values()}
        named |= {column.name: column.identity for column in columns}
        self.announced = identities_text(named.items())
        self.alter(f"SET TBLPROPERTIES ({properties_ddl({PENDING_PROPERTY: self.announced})})")

    def _make_ready(self, feature: Feature, column: str, reason: str) -> None:
        if feature in self.features:
            return
        if self.stays_plain:
            raise _not_plain(self.table, column, reason, feature)
        self.alter(f"SET TBLPROPERTIES ({properties_ddl({feature.value: feature.on})})")
        self.features.add(feature)

    def _make_ready_for(self, type_: str) -> None:
        """Turn the feature of a type on: Delta does this at CREATE, but not at ALTER."""
        if type_ == NO_ZONE and all(c.type != NO_ZONE for c in self.columns.values()):
            feature = {"delta.feature.timestampNtz": "supported"}
            self.alter(f"SET TBLPROPERTIES ({properties_ddl(feature)})")

    def _not_foreign(self, name: str) -> None:
        if name.lower() in self.table.foreign:
            raise UnsupportedSchemaChange(
                str(self.table.table),
                name,
                "the lake's table has a column of that name that is not from the source",
                f"rename or drop it, and {way_out(self.table)}",
            )


def _not_plain(
    table: LakeTable, column: str, reason: str, feature: Feature
) -> UnsupportedSchemaChange:
    return UnsupportedSchemaChange(
        str(table.table),
        column,
        f"{reason} needs Delta's {feature.value}, which sink.profile compatible does not allow",
        f"use sink.profile fast, or {way_out(table)}",
    )


def _check_key(
    table: LakeTable,
    present: Iterable[LakeColumn],
    wanted: Iterable[LakeColumn],
    version: TableSchema,
) -> None:
    old = {column.column_id: column.key_ordinal for column in present if column.key_ordinal}
    new = {column.column_id: column.key_ordinal for column in wanted if column.key_ordinal}
    if old != new:
        raise UnsupportedSchemaChange(
            str(table.table),
            "",
            f"its key changed with schema version {version.schema_lsn}",
            way_out(table),
        )


def way_out(table: LakeTable) -> str:
    """Return the fix of a change that the lake cannot follow."""
    name = f"{table.table.schema}.{table.table.table}"
    snapshot = f"take a new snapshot of the source table (tailrace snapshot '{name}')"
    if table.kind.appends:
        return f"move the lake's table {table.path} away, and {snapshot}; or use tables.exclude"
    return f"{snapshot}, which replaces the lake's table; or use tables.exclude"
