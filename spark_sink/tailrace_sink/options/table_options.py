"""Options of the sink by table: how a lake table follows the schema of its source."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, field_validator

from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.options.endpoint import EndpointOptions
from tailrace_service.options.sections import TableSelection, check_patterns, matches


class SchemaMode(StrEnum):
    """How a lake table follows a change of its source table's columns."""

    EVOLVE = "evolve"
    FAIL = "fail"
    LENIENT = "lenient"
    IGNORE = "ignore"


def _no_tables() -> TableSelection:
    return TableSelection(include=[])


class TableOptions(EndpointOptions):
    """The options that choose by table."""

    changelog: TableSelection = Field(
        default_factory=_no_tables,
        description="Tables that also get an append-only <table>.changes with every change; default"
        " none. Costs one more append per batch and table. If the lake has the table already, it"
        " starts with the rows that the table holds.",
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

    def schema_mode_of(self, table: TableName) -> SchemaMode:
        """Return the schema mode of a table."""
        name = f"{table.schema}.{table.table}"
        found = (mode for pattern, mode in self.schema_modes.items() if matches([pattern], name))
        return next(found, self.schema_mode)
