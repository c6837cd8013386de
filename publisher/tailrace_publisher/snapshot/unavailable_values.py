"""Large values that the events of changed rows do not carry (pure).

An update that leaves a large column unchanged does not log its value. Its event marks the value
"unavailable", and a reader keeps the value that it has. During a snapshot the reader may have none.
A row that changed while its chunk waited is left out of the chunk because its events carry it, but
they lack this value. The chunk has the value, and nobody has changed it since. So the row is
published after all. It has the latest values of its events, and the chunk's values for the columns
that they left unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from tailrace_publisher.change.page import ChangePage
from tailrace_publisher.encode.columns.image_columns import ImageColumns
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.encode.update_mask import UpdateMask
from tailrace_publisher.errors import EncodeError
from tailrace_publisher.source.pages.page_size import RowSize
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.change_position import Operation
from tailrace_schemas.position.lsn import Lsn

_NEVER: Final = -1
_VALUES: Final = 5
"""Index of the first column value in a change row."""


@dataclass(frozen=True, slots=True)
class _RowValues:
    """What the stream's events say of one row.

    Attributes:
        values: by column; None if the row was deleted.
        known: logical time of the latest event with a value, for each large column.
    """

    values: list[Any] | None
    known: tuple[int, ...]
    size: int


class LatestValues:
    """The latest event values of changed rows, for one table with large columns.

    Args:
        schema: the version that the snapshot reads.
    """

    def __init__(self, schema: TableSchema) -> None:
        self._schema = schema
        self._mask = UpdateMask(schema)
        self._large = self._mask.large_places
        self._row_size = RowSize(schema)
        self._images = ImageColumns(schema)
        self._rows: dict[bytes, _RowValues] = {}
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes of the stored values."""
        return self._size

    def add(self, page: ChangePage, identities: Sequence[bytes], now: int) -> bool:
        """Store the values of a page's rows.

        Args:
            page: of the table's capture instance.
            identities: of the page's rows.
            now: the logical time of :class:`ChangedRows`.

        Returns:
            False if a value cannot be assigned to a row of the chunk: the page has another version,
                or an update changed a row's identity.
        """
        if page.schema != self._schema:
            return False
        before: bytes | None = None
        for row, identity in zip(page.rows, identities, strict=True):
            if row[3] == Operation.UPDATE_BEFORE:
                before = identity
                continue
            if row[3] == Operation.UPDATE_AFTER and identity != before:
                return False
            self._store(identity, row, now)
        return True

    def _store(self, identity: bytes, row: Sequence[Any], now: int) -> None:
        known = self._rows.get(identity)
        times = [now] * len(self._large)
        values: list[Any] | None = list(row[_VALUES:])
        if row[3] == Operation.DELETE:
            values = None
        elif row[3] == Operation.UPDATE_AFTER and values is not None:
            for place in self._mask.left_alone(values, row[4]):
                number = self._large.index(place)
                times[number] = _NEVER if known is None else known.known[number]
                if known is not None and known.values is not None:
                    values[place] = known.values[place]
        size = 0 if values is None else self._row_size.of([*row[:_VALUES], *values])
        self._size += size - (0 if known is None else known.size)
        self._rows[identity] = _RowValues(values, tuple(times), size)

    def completed(
        self, identity: bytes, image: bytes, since: int, encoder: EnvelopeEncoder, position: Lsn
    ) -> bytes | None:
        """Return the image of a changed row, completed with the chunk's values that no event has.

        Args:
            image: the row's image in the chunk.
            since: the logical time at which the chunk was requested.

        Returns:
            None if the events have every value, or the row was deleted.

        Raises:
            EncodeError: a value does not fit its type.
        """
        told = self._rows.get(identity)
        if told is None or told.values is None:
            return None
        untold = [place for place, at in zip(self._large, told.known, strict=True) if at < since]
        if not untold:
            return None
        try:
            (last,), _ = encoder.encode_images([told.values], position)
        except EncodeError:
            if not encoder.treatment.around:
                raise
            return None  # its event is a dead letter
        return self._images.put_together(last, image, untold)

    def forget_others(self, identities: Set[bytes]) -> None:
        """Drop all rows except those with the given identities."""
        self._rows = {row: told for row, told in self._rows.items() if row in identities}
        self._size = sum(told.size for told in self._rows.values())
