"""Options of the valve of the transaction log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from pydantic import Field, field_validator, model_validator

from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.options.sections import Section, check_patterns, matches


class LogValveConfig(Section):
    """Tables whose capture is given up before the transaction log of the source is full."""

    tables: list[str] = Field(
        default_factory=list,
        description="Patterns on schema.table (regular expression, whole name, case-insensitive),"
        " the first to be given up first; tables of one pattern in the order of their names. Empty:"
        " nothing is given up. A table that is given up loses its capture instances"
        " (sys.sp_cdc_disable_table), for which the login needs db_owner (source.primary). It is"
        " out of the cuts until it is captured again and has a new snapshot.",
    )
    at_percent: float = Field(
        default=90.0,
        ge=10,
        le=99,
        description="Use of the log from which on tables are given up, in percent of the size to"
        " which its files and their disk let it grow; 10 to 99. Higher: less room for the"
        " transactions that run meanwhile, and disabling a table needs room, too.",
    )
    for_s: float = Field(
        default=300.0,
        ge=1,
        le=86_400,
        description="Seconds for which the use must be as high, without falling, before the next"
        " table is given up; 1 to 86400. Lower: the next table goes before the last one has had an"
        " effect. Higher: the log may be full before.",
    )

    @field_validator("tables")
    @classmethod
    def _compiles(cls, patterns: list[str]) -> list[str]:
        check_patterns(patterns)
        return patterns

    @model_validator(mode="after")
    def _names_tables(self) -> Self:
        if self.model_fields_set and not self.tables:
            raise ValueError(
                "tables is empty, so nothing would be given up. Fix: list patterns in"
                " log_valve.tables in the order in which capture is given up, or remove log_valve"
            )
        return self

    @property
    def is_on(self) -> bool:
        """Whether capture of any table may be given up."""
        return bool(self.tables)

    def order_of(self, tables: Iterable[TableName]) -> list[TableName]:
        """Return those of some tables that may be given up, the first to go first."""
        by_name = sorted(tables, key=str)
        found = (
            table
            for pattern in self.tables
            for table in by_name
            if matches([pattern], f"{table.schema}.{table.table}")
        )
        return list(dict.fromkeys(found))
