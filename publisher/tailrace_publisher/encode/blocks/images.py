"""Blocks of values to row images, event keys and identities, like those of ``encode.envelope``."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

from tailrace_publisher.encode.blocks.byte_runs import joined, scalar
from tailrace_publisher.encode.blocks.cells import Cells
from tailrace_publisher.encode.blocks.kernels import kernel_of
from tailrace_publisher.encode.columns.column_forms import (
    Cell,
    Declined,
    Form,
    NotAscii,
    ascii_cell_of,
    cell_of,
)
from tailrace_publisher.encode.columns.value_hash import ValueHash
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.events.framing import frame_header


@dataclass(frozen=True, slots=True)
class Images:
    """A block whose columns are encoded; it holds nothing of the block's own memory.

    Attributes:
        rows: the columns of every row, joined (Arrow).
        keys: the framed key of every row (Arrow); None in a keyless table.
        identities: the identity of every row (Arrow); None if not requested.
    """

    rows: Any
    keys: Any
    identities: Any


class ImageEncoder:
    """Encodes the values of one schema version; for one thread at a time.

    Args:
        key_schema_id: registry id of the key's schema; None for a keyless table.
        identity: names of the columns that distinguish rows, if wanted.
        hashes: the hash function of hashed columns.
        not_ascii: names of columns that have texts beyond ASCII; None if all may have.

    Attributes:
        names: those of the columns.
        cells: how each column of a block is read.
        as_bytes: names of the columns of which a block has the bytes of char or varchar.
        not_ascii: the given names, and those found since.

    Raises:
        Declined: a column's type cannot be read in blocks, or a column is missing.
    """

    def __init__(
        self,
        schema: TableSchema,
        key_schema_id: int | None,
        identity: Sequence[str] = (),
        hashes: ValueHash | None = None,
        not_ascii: Set[str] | None = None,
    ) -> None:
        taken: list[Cell] = []
        for column in schema.columns:
            cell = cell_of(column)
            if cell is None:
                raise Declined(f"{column.name} {column.type}")
            if not_ascii is not None and column.name not in not_ascii:
                cell = ascii_cell_of(column) or cell
            taken.append(cell)
        self.not_ascii = frozenset(not_ascii or ())
        self.names = [column.name for column in schema.columns]
        self.cells = tuple(taken)
        self.as_bytes = frozenset(
            name for name, cell in zip(self.names, taken, strict=True) if cell.form is Form.ASCII
        )
        self._kernels = [
            kernel_of(column, cell, hashes)
            for column, cell in zip(schema.columns, taken, strict=True)
        ]
        self._key_indexes = [schema.columns.index(column) for column in schema.key_columns]
        self._key_frame = None if key_schema_id is None else scalar(frame_header(key_schema_id))
        places = {column.name: place for place, column in enumerate(schema.columns)}
        if not places.keys() >= set(identity):
            raise Declined("the version lacks columns of the identity")
        self.identity_places = [places[name] for name in identity]

    @property
    def has_keys(self) -> bool:
        """Whether events have a key."""
        return self._key_frame is not None

    def encode(self, columns: Sequence[Cells]) -> Images:
        """Encode a block's columns.

        Args:
            columns: in the form of ``cells``.

        Raises:
            Declined: only the reference can handle the block.
            NotAscii: an encoder that knows what this one has found would do.
        """
        encoded: list[tuple[Any, ...]] = []
        found: set[str] = set()
        for name, kernel, cells in zip(self.names, self._kernels, columns, strict=True):
            try:
                encoded.append(kernel(cells))
            except NotAscii:
                found.add(name)
        if found:
            self.not_ascii |= found
            raise NotAscii(", ".join(sorted(found)))
        keys = identities = None
        if self._key_frame is not None:
            keys = joined([self._key_frame, *_of(encoded, self._key_indexes)])
        if self.identity_places:
            identities = joined(_of(encoded, self.identity_places))
        return Images(joined([part for column in encoded for part in column]), keys, identities)


def _of(encoded: Sequence[tuple[Any, ...]], places: Sequence[int]) -> list[Any]:
    return [part for place in places for part in encoded[place]]
