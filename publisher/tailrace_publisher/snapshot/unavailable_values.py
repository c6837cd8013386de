"""Large values that the stream did not tell of rows that it told about (pure).

An update that leaves a large column alone does not log its value, so its event says "unavailable":
a reader keeps what it has. Beside a snapshot it may have nothing: a row of a chunk that changed
while the chunk waited is left out, because its events tell it, and this value they do not tell. But
the chunk has it, and nobody has changed it since. So the row is published after all: with what its
events told last, and with the values that they left alone as the chunk has them.
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
"""Where the values of a change row begin."""


@dataclass(frozen=True, slots=True)
class _Told:
    """What is known of a row that the stream told about.

    Attributes:
        values: by column; None of a row that was deleted.
        known: when the value of each large column was told last, in their order.
        size: bytes that it takes.
    """

    values: list[Any] | None
    known: tuple[int, ...]
    size: int


class UntoldValues:
    """Of one table with large columns, what its events told of rows that wait for a snapshot.

    Args:
        schema: the version that is read.
    """

    def __init__(self, schema: TableSchema) -> None:
        self._schema = schema
        self._mask = UpdateMask(schema)
        self._large = self._mask.large_places
        self._row_size = RowSize(schema)
        self._images = ImageColumns(schema)
        self._rows: dict[bytes, _Told] = {}
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes of what is kept."""
        return self._size

    def tell(self, page: ChangePage, identities: Sequence[bytes], now: int) -> bool:
        """Keep what a page tells.

        Args:
            page: of the table's capture instance.
            identities: of its rows.
            now: the time of :class:`ChangedRows`.

        Returns:
            False where it is not known which row of the chunk a value belongs to: the page is of
            another version, or an update changed what tells the row apart.
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
            self._keep(identity, row, now)
        return True

    def _keep(self, identity: bytes, row: Sequence[Any], now: int) -> None:
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
        self._rows[identity] = _Told(values, tuple(times), size)

    def completed(
        self, identity: bytes, image: bytes, since: int, encoder: EnvelopeEncoder, position: Lsn
    ) -> bytes | None:
        """The image of a row that was told about, with what was not told of it.

        Args:
            identity: of the row.
            image: as the chunk has it.
            since: when the chunk was asked for.
            encoder: of the version.
            position: for errors.

        Returns:
            None when its events tell everything, or that it is gone.

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

    def forget_but(self, identities: Set[bytes]) -> None:
        """Drop all rows but some."""
        self._rows = {row: told for row, told in self._rows.items() if row in identities}
        self._size = sum(told.size for told in self._rows.values())
