"""The options of changes that are not published."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.options.sections import Section, check_patterns, matches

Operations = Annotated[list[Literal["c", "u", "d"]], Field(min_length=1)]


class SkipConfig(Section):
    """Changes that are read but not published.

    LSNs are closed as if the changes had been published, and the ledger counts what is in the
    topics. Nothing of a table is skipped until its snapshot is published.
    """

    unchanged: bool = Field(
        default=False,
        description="Skip updates whose two published images are equal: they changed only columns"
        " that are left out, masked or cut, or set values to what they were.",
    )
    operations: dict[str, Operations] = Field(
        default_factory=dict,
        description="Pattern on schema.table (regular expression, whole name, case-insensitive) to"
        " operations that are not published: c, u, d, as in the change table, where a change of the"
        " primary key is d and c. Such a topic no longer gives the table's state, and its ledger"
        " does not count by operation: the sink merges whatever comes. Take a new snapshot when"
        " operations are published again.",
    )

    @field_validator("operations")
    @classmethod
    def _compile(cls, rules: dict[str, list[str]]) -> dict[str, list[str]]:
        check_patterns(rules)
        return rules

    def operations_of(self, table: TableName) -> frozenset[str]:
        """Return the operations of a table that are not published."""
        name = f"{table.schema}.{table.table}"
        found = [given for pattern, given in self.operations.items() if matches([pattern], name)]
        return frozenset(operation for given in found for operation in given)
