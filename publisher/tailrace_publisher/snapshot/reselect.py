"""Large values that a change table does not hold, read from the source table.

This is the option ``unavailable_values``. An update logs a large value only if it changed. The
value that is selected is the present one. It may be newer than the event; then a later event also
carries it. A row keeps its mark if it was deleted or is locked, or if its
values are masked. READPAST skips locked rows, because
the stream waits for nobody.

The connection is the one that planned the window. Another one may be at a replica that lags, whose
values are older than the event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.change.page import ChangeRow
from tailrace_publisher.encode.update_mask import UpdateMask
from tailrace_publisher.errors import ValuesHidden
from tailrace_publisher.ports import Connection
from tailrace_publisher.snapshot.key_text import key_text, needs_server_text
from tailrace_publisher.snapshot.statements import row_statement
from tailrace_publisher.source.catalog.hidden_data import check_rows_visible, hidden_data
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.change_position import Operation

_AT_ONCE: Final = 10
"""Rows in one round trip; each row has a statement of its own."""
READ_COMMITTED: Final = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; "
"""READPAST needs locks, which a session with snapshot isolation does not take (650).

See: Table hints (Transact-SQL), READPAST.
"""
_VALUES: Final = 5
"""Index of the first column value in a change row."""


class Reselection:
    """Completes the change rows of one capture instance in one version.

    Attributes:
        hidden: why values were left unavailable; None if the login sees the table as it is.

    Args:
        connection: that planned the window.
        size_max: approximate limit of the selected values in memory, bytes.
        between: called before each round trip.
    """

    def __init__(
        self,
        connection: Connection,
        instance: CaptureInstance,
        schema: TableSchema,
        size_max: int,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        self._between = between
        self._connection = connection
        self._mask = UpdateMask(schema)
        self._keys = instance.identity_columns
        self._size_max = size_max
        places = {column.name: place for place, column in enumerate(schema.columns)}
        self._key_places = [places[key.name] for key in self._keys if key.name in places]
        self._large = self._mask.large_places
        self._statement = row_statement(instance, schema, self._large)
        self._instance = instance
        self._names = [schema.columns[place].name for place in self._large]
        self.hidden: ValuesHidden | None = None

    @staticmethod
    def is_possible(instance: CaptureInstance, schema: TableSchema) -> bool:
        """Return whether rows can be found: change rows hold the identity's values exactly."""
        names = {column.name for column in schema.columns}
        return (
            any(column.type.is_large for column in schema.columns)
            and bool(instance.identity)
            and all(
                key.name in names and not needs_server_text(key)
                for key in instance.identity_columns
            )
        )

    def parts(self, rows: Sequence[ChangeRow]) -> Iterator[Sequence[ChangeRow]]:
        """Yield the completed rows in parts of bounded size, each ending after a whole update.

        Raises:
            SourceError: the server did not answer or refused.
        """
        wanted = [
            index
            for index, row in enumerate(rows)
            if row[3] == Operation.UPDATE_AFTER and self._mask.left_alone(row[_VALUES:], row[4])
        ]
        if not wanted:
            yield rows
            return
        begin = taken = 0
        completed = list(rows)
        for start in range(0, len(wanted), _AT_ONCE):
            group = wanted[start : start + _AT_ONCE]
            self._between()
            for index, found in zip(group, self._select([rows[i] for i in group]), strict=True):
                taken += self._complete(completed, index, found)
            if taken >= self._size_max:
                yield completed[begin : group[-1] + 1]
                completed[begin : group[-1] + 1] = [()] * (group[-1] + 1 - begin)
                begin, taken = group[-1] + 1, 0
        if begin < len(rows):
            yield completed[begin:]

    def _select(self, rows: Sequence[ChangeRow]) -> list[Sequence[Any] | None]:
        """Select the present large values of each row; None for a row that is gone or locked."""
        texts = [
            key_text(key, row[_VALUES + place])
            for row in rows
            for key, place in zip(self._keys, self._key_places, strict=True)
        ]
        # The level lasts as long as the batch, because the driver sends parameters by
        # sp_executesql or sp_prepexec, after which SET options are restored.
        # See: SET statements (Transact-SQL), considerations.
        batch = READ_COMMITTED + " ".join([self._statement] * len(rows))
        if not self._sees_values():  # before and after: rights may be granted in between
            return [None] * len(rows)
        sets = self._connection.query_sets(batch, *texts)
        if not self._sees_values():
            return [None] * len(rows)
        return [found[0] if found else None for found in sets]

    def _sees_values(self) -> bool:
        """Return whether the selected values are the table's.

        A row that a security policy hides is not found, and keeps its mark.
        """
        if not self._instance.may_be_masked:
            return True
        hidden = replace(hidden_data(self._connection, only=self._instance), filtered={})
        try:
            check_rows_visible(hidden, self._instance, self._names)
        except ValuesHidden as error:
            self.hidden = error
            return False
        return True

    def _complete(self, rows: list[ChangeRow], index: int, found: Sequence[Any] | None) -> int:
        """Set the values that an update did not change in both of its images; return their size."""
        if found is None:
            return 0
        after, before = list(rows[index]), list(rows[index - 1])
        values = dict(zip(self._large, found, strict=True))
        size = 0
        for place in self._mask.left_alone(after[_VALUES:], after[4]):
            value = values[place]
            if value is None:
                continue
            size += len(value)
            after[_VALUES + place] = value
            if before[_VALUES + place] is None:
                before[_VALUES + place] = value
        rows[index], rows[index - 1] = after, before
        return size
