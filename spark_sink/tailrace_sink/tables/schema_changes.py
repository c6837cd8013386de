"""Changes with which a lake table follows the schema versions of its source. Pure.

A crash may interrupt a series of statements anywhere. Each name is announced before a column gets
it (``column_identity``), and the table's present columns are read from the table. So the next run
computes the rest of the series.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tailrace_schemas.events.envelope import TableSchema
from tailrace_sink.errors import UnsupportedSchemaChange
from tailrace_sink.options.table_options import SchemaMode
from tailrace_sink.tables.column_identity import (
    COLUMNS_PROPERTY,
    DROPPED_PROPERTY,
    PENDING_PROPERTY,
    dropped_text,
    identities_text,
    parse_identities,
    retired_id,
    source_id,
)
from tailrace_sink.tables.lake_table import (
    NO_ZONE,
    RESERVED,
    SCHEMA_LSN_PROPERTY,
    Feature,
    LakeColumn,
    LakeTable,
    literal,
    quote,
    set_properties,
)
from tailrace_sink.tables.new_table import check_names, column_ddl, lake_column
from tailrace_sink.tables.schema_record import (
    SCHEMA_RECORD_PROPERTY,
    Change,
    column_changes,
    not_followed,
    record_text,
)
from tailrace_sink.tables.schema_refusal import (
    check_key,
    does_not_fit,
    not_plain,
    require_unchanged,
    way_out,
)
from tailrace_sink.tables.type_widening import Widening, widening


def evolve(
    existing: LakeTable,
    versions: Iterable[TableSchema],
    *,
    stays_plain: bool = False,
    mode: SchemaMode = SchemaMode.EVOLVE,
    batch: int = 0,
) -> tuple[LakeTable, list[str | Feature]]:
    """Follow schema versions, oldest first.

    A version newer than the table's renames and widens columns; an older one only adds missing
    ones. A dropped column stays with its values. If another column gets its name, it is renamed to
    ``<name>_dropped_<column_id>``. A type that the lake's type already holds changes nothing.
    All versions of a table with several sources count as older ones.

    Args:
        existing: the table as it is.
        stays_plain: whether to refuse changes that need a ``Feature``.
        mode: how the table follows; the text above is ``evolve``.
        batch: id of the batch, for the record of the changes.

    Returns:
        The table afterwards, and its changes in order: features to turn on, and clauses of
        ``ALTER TABLE``.

    Raises:
        SchemaChangeRefused: the mode does not allow a change.
        UnsupportedSchemaChange: the lake cannot follow without losing values.
        UnsupportedType: a column has a type without a lake form.
    """
    changes = _Changes(existing, stays_plain, mode)
    table = existing
    for version in sorted(versions, key=lambda version: version.schema_lsn):
        lsn = str(version.schema_lsn)
        # The table's own version counts as newer: it may have been ignored by another mode.
        # A version of one source of several says nothing of the columns of the others.
        is_newer = lsn >= table.schema_lsn and not table.is_shared
        changes.follow(version, is_newer=is_newer, is_new=lsn > table.schema_lsn)
        table = replace(table, schema_lsn=max(table.schema_lsn, lsn))
    table = replace(
        table,
        columns=tuple(changes.columns.values()),
        features=frozenset(changes.features),
        dropped=frozenset(changes.dropped),
    )
    recorded = _recorded(existing, table, changes, batch)
    if recorded:
        changes.alter(set_properties(recorded))
    record = recorded.get(SCHEMA_RECORD_PROPERTY, existing.schema_record)
    return replace(table, recorded=table.identities, schema_record=record), changes.statements


def _recorded(
    existing: LakeTable, table: LakeTable, changes: _Changes, batch: int
) -> dict[str, str]:
    """Return the properties that settle the columns, in one commit with the record of changes."""
    recorded = {}
    if table.identities != existing.recorded or changes.announced:
        recorded = {COLUMNS_PROPERTY: table.identities, PENDING_PROPERTY: ""}
    if table.dropped != existing.dropped:
        recorded[DROPPED_PROPERTY] = dropped_text(table.dropped)
    if table.schema_lsn != existing.schema_lsn:
        recorded[SCHEMA_LSN_PROPERTY] = table.schema_lsn
    settled = parse_identities(existing.recorded)
    entries = changes.notes
    if settled:
        after = {column.name: column.identity for column in table.columns}
        entries = [
            *column_changes(settled, after, table.dropped - existing.dropped),
            *changes.notes,
        ]
    if entries:
        recorded[SCHEMA_RECORD_PROPERTY] = record_text(batch, existing.schema_record, entries)
    return recorded


def require_plain(table: LakeTable) -> None:
    """Refuse a new table that needs a feature which not every reader supports.

    Raises:
        UnsupportedSchemaChange: with the column that needs it.
    """
    for column in table.columns:
        if column.needs_mapping:
            raise not_plain(table, column.name, "its name", Feature.COLUMN_MAPPING)


@dataclass(slots=True)
class _Changes:
    """The changes so far, and the columns after them."""

    table: LakeTable
    stays_plain: bool
    mode: SchemaMode
    statements: list[str | Feature] = field(default_factory=list)
    columns: dict[int, LakeColumn] = field(init=False)
    features: set[Feature] = field(init=False)
    dropped: set[int] = field(init=False)
    notes: list[Change] = field(default_factory=list)
    announced: str = ""

    def __post_init__(self) -> None:
        self.columns = {column.column_id: column for column in self.table.columns}
        self.features = set(self.table.features)
        self.dropped = set(self.table.dropped)

    def alter(self, change: str | Feature) -> None:
        self.statements.append(change)

    def follow(self, version: TableSchema, *, is_newer: bool, is_new: bool) -> None:
        """Follow one version.

        Args:
            is_newer: whether no later version was followed.
            is_new: whether the version was not followed before.
        """
        if self.mode is SchemaMode.IGNORE:
            if is_new:
                self.notes += not_followed(self.columns, version)
            version = replace(
                version,
                columns=tuple(c for c in version.columns if c.column_id in self.columns),
            )
        else:
            check_names(version)
        wanted = {column.column_id: lake_column(column) for column in version.columns}
        if self.mode is SchemaMode.FAIL:
            there = replace(self.table, dropped=frozenset(self.dropped))
            require_unchanged(there, self.columns, wanted, version, is_newer=is_newer)
        if not self.table.kind.appends or self.table.is_shared:
            check_key(self.table, self.columns.values(), wanted.values(), version)
        if is_newer:
            self.dropped |= {i for i in self.columns if i > 0 and i not in wanted}
        self.dropped -= wanted.keys()
        if is_newer and self.mode is not SchemaMode.IGNORE:
            self._rename_all(wanted)
        self._add([column for id_, column in wanted.items() if id_ not in self.columns])
        for column in wanted.values():
            self._retype(column, is_newer=is_newer)

    def _rename_all(self, wanted: Mapping[int, LakeColumn]) -> None:
        """Rename every column to its newest name; some need a third name between."""
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
            if column_id not in self.columns or self.columns[column_id].name == column.name:
                continue
            if self.columns[column_id].name.lower() == column.name.lower():
                # Spark compares names without case: it says that the new one is there already.
                self._rename(column_id, f"{RESERVED}renaming_{column_id}")
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
        match widening(present.type, column.type, is_few=self.table.has_few_widenings):
            case Widening.HOLDS:
                pass
            case Widening.WIDENS if self.mode is not SchemaMode.IGNORE:
                self._make_ready(
                    Feature.TYPE_WIDENING, present.name, f"its new type {column.sql_type}"
                )
                self._make_ready_for(column.type)
                self.alter(f"ALTER COLUMN {quote(present.name)} TYPE {column.type}")
                present = replace(present, type=column.type)
            case _ if self._may_retire(present):
                present = self._retire(present, column, is_newer=is_newer)
            case _:
                raise does_not_fit(self.table, present, column)
        if self.table.is_shared and column.is_large and not present.is_large:
            # Of a large column, a change of any source may lack the value.
            present = replace(present, sql_type=column.sql_type)
        if is_newer and present.identity != column.identity:
            changed = replace(present, sql_type=column.sql_type, key_ordinal=column.key_ordinal)
            if present.has_our_comment and present.comment != column.comment:
                comment = f"COMMENT {literal(column.sql_type)}"
                self.alter(f"ALTER COLUMN {quote(present.name)} {comment}")
                changed = replace(changed, comment=column.comment)
            present = changed
        self.columns[column.column_id] = present

    def _may_retire(self, column: LakeColumn) -> bool:
        is_key = column.key_ordinal > 0 and not self.table.kind.appends
        return self.mode is SchemaMode.LENIENT and not is_key

    def _retire(self, present: LakeColumn, column: LakeColumn, *, is_newer: bool) -> LakeColumn:
        """Keep the values of a column under another name, next to one of the other type.

        Returns:
            The column that holds the newest type.
        """
        known = [c for i, c in self.columns.items() if i < 0 and source_id(i) == column.column_id]
        if not is_newer and any(widening(old.type, column.type) is Widening.HOLDS for old in known):
            return present
        number = len(known) + 1
        name = f"{present.name}_old_{number}"
        self._not_foreign(name)
        retired = retired_id(column.column_id, number)
        if not is_newer:
            self._add([replace(column, column_id=retired, name=name, key_ordinal=0)])
            return present
        old = replace(present, column_id=retired, name=name, key_ordinal=0)
        self._make_ready(Feature.COLUMN_MAPPING, present.name, f"its new type {column.sql_type}")
        self._make_ready_for(column.type)
        self._announce([old])
        self.alter(f"RENAME COLUMN {quote(present.name)} TO {quote(name)}")
        self.alter(f"ADD COLUMNS ({column_ddl(column)})")
        others = [c for i, c in self.columns.items() if i != column.column_id]
        place = list(self.columns).index(column.column_id)
        ordered = [*others[:place], old, *others[place:], column]
        self.columns = {c.column_id: c for c in ordered}
        return column

    def _announce(self, columns: Iterable[LakeColumn]) -> None:
        named = {column.name: column.identity for column in self.columns.values()}
        named |= {column.name: column.identity for column in columns}
        self.announced = identities_text(named.items())
        self.alter(set_properties({PENDING_PROPERTY: self.announced}))

    def _make_ready(self, feature: Feature, column: str, reason: str) -> None:
        if feature in self.features:
            return
        if self.stays_plain:
            raise not_plain(self.table, column, reason, feature)
        self.alter(feature)
        self.features.add(feature)

    def _make_ready_for(self, type_: str) -> None:
        """Turn the feature of a type on, which a new table has from its start."""
        is_first = all(column.type != NO_ZONE for column in self.columns.values())
        if type_ == NO_ZONE and is_first and Feature.NO_ZONE not in self.features:
            self.alter(Feature.NO_ZONE)

    def _not_foreign(self, name: str) -> None:
        if name.lower() in self.table.foreign:
            raise UnsupportedSchemaChange(
                str(self.table.table),
                name,
                "the lake's table has a column of that name that is not from the source",
                f"rename or drop it, and {way_out(self.table)}",
            )
