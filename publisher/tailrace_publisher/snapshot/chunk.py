"""A chunk: rows of a table that were read together, and wait for their fence together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tailrace_publisher.source.pages.page_readers import TableRows
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.dead_letters import DeadLetter

_ROW_BYTES: Final = 140
"""Of a row's image, key and identity beside their bytes: three objects and their references."""


@dataclass(slots=True)
class Chunk:
    """Rows of a table that are consecutive in its identity, encoded.

    Attributes:
        images: encoded row images.
        keys: framed event keys.
        identities: by what the rows are told apart.
        size: bytes that it takes in memory.
        resume_key: where the next chunk begins; None for a table that is not cut.
        is_last: whether no row is behind it.
        log_end: where the log of the server that was read ended behind the reading; None where
            that cannot be asked for.
        letters: by place rows that do not fit; they have no image.
    """

    images: list[bytes] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    identities: list[bytes] = field(default_factory=list)
    size: int = 0
    resume_key: str | None = None
    is_last: bool = False
    log_end: Lsn | None = None
    letters: dict[int, DeadLetter] = field(default_factory=dict)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.images)

    def take(self, rows: TableRows) -> None:
        """Add rows that are behind those that it has."""
        begin = len(self.images)
        self.letters |= {begin + place: letter for place, letter in rows.letters.items()}
        self.images += rows.images
        self.keys += rows.keys
        self.identities += rows.identities
        self.size += sum(map(len, rows.images)) + sum(map(len, rows.identities))
        self.size += _ROW_BYTES * len(rows)
