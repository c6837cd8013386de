"""What of a table is compared: its columns and its key, as both sides write them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tailrace.verify.canonical_text import CanonicalColumn, canonical_column, equals_text
from tailrace_publisher.change.column_rules import ColumnRules
from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.source.catalog.table_instances import TableInstances
from tailrace_publisher.source.catalog.versions import current_columns
from tailrace_publisher.source.connection.quoting import quote_name
from tailrace_schemas.topics.topic_names import TableName

ONE_PROCESSOR: Final = "OPTION (MAXDOP 1)"
"""How statements end that read a table's rows or changes to compare them."""

Key = tuple[str | None, ...]
"""The canonical texts of a row's key; of a keyless table, the digits of a row's hash."""


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table, as it is compared.

    Attributes:
        instances: all that capture it; the columns of the newest are compared.
        key: the columns of the event key; empty for a keyless table.
        conditions: of one row by each column of its key, in T-SQL; one parameter each.
        left_out: names of the columns that are not compared.
        has_large: whether a change table may lack values of it.
    """

    table: TableName
    instances: TableInstances
    columns: tuple[CanonicalColumn, ...]
    key: tuple[CanonicalColumn, ...]
    conditions: tuple[str, ...]
    left_out: tuple[str, ...]
    has_large: bool

    @property
    def newest(self) -> CaptureInstance:
        """The newest capture instance, whose columns are compared."""
        return self.instances.newest

    @property
    def may_repeat_keys(self) -> bool:
        """Whether several rows may have one key: it is none that the source enforces."""
        return not self.newest.identity or not set(self.newest.identity) <= set(self.newest.key)

    def condition_of(self, key: Key) -> str:
        """Return the T-SQL condition of the rows with a key.

        Its parameters are the texts of the key that are not None.
        """
        conditions = [
            f"{quote_name(column.name)} IS NULL" if text is None else condition
            for column, condition, text in zip(self.key, self.conditions, key, strict=True)
        ]
        return " AND ".join(conditions)

    @property
    def presence_only(self) -> list[str]:
        """Names of columns of which only NULL or not is compared."""
        return [column.name for column in self.columns if column.is_presence]


def shape_of(instances: TableInstances, lossless: Sequence[str], rules: ColumnRules) -> TableShape:
    """Return what of a table is compared.

    Columns that are not captured, excluded, computed or dropped at the source are left out.

    Raises:
        ColumnsRefused: the options of columns do not fit the table.
    """
    newest = instances.newest
    captured = {column.name: column for column in newest.columns}
    columns, has_large = [], False
    published = current_columns(newest, lossless, rules)
    for column in published:
        stored = captured[column.name]
        if stored.in_source and not stored.is_computed:
            columns.append(canonical_column(column, stored.type))
            has_large = has_large or stored.type.is_large
    by_name = {column.name: column for column in columns}
    # A key column that was dropped at the source identifies no row there.
    key = tuple(by_name[name] for name in newest.key if by_name.keys() >= {*newest.key})
    left_out = {*captured, *newest.not_captured.values()} - by_name.keys()
    return TableShape(
        table=newest.table,
        instances=instances,
        columns=tuple(columns),
        key=key,
        conditions=tuple(equals_text(captured[column.name], column) for column in key),
        left_out=tuple(sorted(left_out)),
        has_large=has_large,
    )
