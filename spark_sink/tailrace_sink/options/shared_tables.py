"""Which lake table has the rows of a source table: its own, or one that several share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.options.sections import check_patterns, matches

_PARTS: Final = 2


@dataclass(frozen=True, slots=True)
class SharedTables:
    """The rules of ``sink.into``.

    Attributes:
        rules: pattern on schema.table to the schema.table of a lake table; the first one counts.
    """

    rules: Mapping[str, str] = field(default_factory=dict)

    def lake_table(self, source: TableName) -> TableName:
        """Return the name of the lake table with a source table's rows."""
        for pattern, into in self.rules.items():
            if matches([pattern], source.in_database):
                return TableName(source.database, *into.split("."))
        return source

    def is_taken(self, source: TableName) -> bool:
        """Whether a shared table has the name of a source table."""
        return source.in_database in self.rules.values()

    def sources(self, lake_table: TableName, tables: Iterable[TableName]) -> list[TableName]:
        """Select the source tables whose rows a lake table has."""
        return sorted(table for table in tables if self.lake_table(table) == lake_table)


def check_rules(rules: Mapping[str, str]) -> None:
    """Check the option.

    Raises:
        ValueError: names the first wrong pattern or lake table.
    """
    check_patterns(rules)
    for pattern, into in rules.items():
        if len([part for part in into.split(".") if part]) != _PARTS or into.count(".") != 1:
            raise ValueError(f"{pattern}: {into!r} is no name of a lake table; use schema.table")
