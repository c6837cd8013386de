"""Options of the sink by table: kinds of lake tables, and how they follow their source."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from pydantic import Field, field_validator

from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.options.endpoint import EndpointOptions
from tailrace_service.options.sections import TableSelection, check_patterns, matches
from tailrace_sink.options.shared_tables import SharedTables, check_rules
from tailrace_sink.tables.lake_table import Kind, table_at


class SchemaMode(StrEnum):
    """How a lake table follows a change of its source table's columns."""

    EVOLVE = "evolve"
    FAIL = "fail"
    LENIENT = "lenient"
    IGNORE = "ignore"


class TableKind(StrEnum):
    """A lake table that a source table gets."""

    MIRROR = "mirror"
    CHANGELOG = "changelog"
    HISTORY = "history"


_COMPANIONS: Final = {TableKind.CHANGELOG: Kind.CHANGES, TableKind.HISTORY: Kind.HISTORY}


def _no_tables() -> TableSelection:
    return TableSelection(include=[])


class TableOptions(EndpointOptions):
    """The options that choose by table."""

    tables: TableSelection = Field(
        default_factory=TableSelection, description="Which tables the lake gets; default all."
    )
    kinds: dict[str, list[TableKind]] = Field(
        default_factory=dict,
        description="Pattern on schema.table (regular expression, whole name, case-insensitive) to"
        " the lake tables that these tables get: mirror, the rows as they are; changelog, an"
        " append-only <table>.changes with every change; history, a <table>.history with the"
        " validity intervals of every row (SCD type 2). The first matching pattern counts; without"
        " one: mirror. mirror is in every list, as the others start with its rows. Each further one"
        " costs one more commit per batch and table. Tables without a key have every change in"
        " their only table. docs/readers.md says from when on a later kind is whole.",
    )
    changelog: TableSelection = Field(
        default_factory=_no_tables,
        description="Deprecated, removed in the next minor release: use kinds. Tables that also get"
        " an append-only <table>.changes.",
    )
    into: dict[str, str] = Field(
        default_factory=dict,
        description="Pattern on schema.table (regular expression, whole name, case-insensitive) to"
        " the schema.table of one lake table for all tables that match, e.g. the same table of each"
        " tenant. Its key starts with _cdc_database, _cdc_schema and _cdc_table, the origin of each"
        " row. Its columns are those of all sources, by name. The first matching pattern counts."
        " The other options by table then name the lake table. The name must not be that of a"
        " source table. Set later, it stops each source until a new snapshot of it.",
    )
    schema_mode: SchemaMode = Field(
        default=SchemaMode.EVOLVE,
        description="What a lake table does when the columns of its source table change. evolve:"
        " it follows, and stops if it would lose values. fail: it stops at every change,"
        " until you allow it. lenient: as evolve, but a column whose new type does not fit keeps"
        " its values as <column>_old_1, next to a new column. ignore: it keeps its columns and"
        " their names, and stops if a value does not fit. docs/schema-changes.md lists each case.",
    )
    schema_modes: dict[str, SchemaMode] = Field(
        default_factory=dict,
        description="Pattern on schema.table (regular expression, whole name, case-insensitive) to"
        " the schema_mode of these tables. The first matching pattern counts; schema_mode holds"
        " for the others.",
    )

    @field_validator("schema_modes")
    @classmethod
    def _compile(cls, rules: dict[str, SchemaMode]) -> dict[str, SchemaMode]:
        check_patterns(rules)
        return rules

    @field_validator("into")
    @classmethod
    def _is_usable(cls, rules: dict[str, str]) -> dict[str, str]:
        check_rules(rules)
        return rules

    @field_validator("kinds")
    @classmethod
    def _has_mirror(cls, rules: dict[str, list[TableKind]]) -> dict[str, list[TableKind]]:
        check_patterns(rules)
        for pattern, kinds in rules.items():
            if TableKind.MIRROR not in kinds:
                raise ValueError(f"{pattern}: add mirror; the other kinds start with its rows")
        return rules

    @property
    def shared_tables(self) -> SharedTables:
        """Which lake table has the rows of each source table."""
        return SharedTables(self.into)

    def kinds_of(self, table: TableName) -> frozenset[TableKind]:
        """Return the kinds of lake tables of a source table."""
        name = f"{table.schema}.{table.table}"
        found = (kinds for pattern, kinds in self.kinds.items() if matches([pattern], name))
        kinds = frozenset(next(found, [TableKind.MIRROR]))
        return kinds | {TableKind.CHANGELOG} if self.changelog.selects(table) else kinds

    def companions_of(self, table: TableName) -> list[Kind]:
        """Return the kinds of the companions that a keyed lake table should have."""
        wanted = self.kinds_of(table)
        return [kind for name, kind in _COMPANIONS.items() if name in wanted]

    def has_lake_table(self, path: str) -> bool:
        """Whether there should be a lake table at a path below the lake, if a source has rows."""
        table, kind = table_at(path)
        if kind is not Kind.MIRROR and kind not in self.companions_of(table):
            return False
        shared = self.shared_tables
        is_own = self.tables.selects(table) and shared.lake_table(table) == table
        return is_own or shared.is_taken(table)

    def schema_mode_of(self, table: TableName) -> SchemaMode:
        """Return the schema mode of a table."""
        name = f"{table.schema}.{table.table}"
        found = (mode for pattern, mode in self.schema_modes.items() if matches([pattern], name))
        return next(found, self.schema_mode)
