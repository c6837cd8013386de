"""A chunk: rows of a table that are read together and wait for the same fence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tailrace_publisher.source.pages.page_readers import TableRows
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.dead_letters import DeadLetter

_ROW_BYTES: Final = 140
"""Per row, in addition to the bytes of image, key and identity: three objects and references."""


@dataclass(slots=True)
class Chunk:
    """Encoded rows of a table, consecutive in the order of its identity.

    Attributes:
        size: bytes that the chunk occupies.
        resume_key: where the next chunk starts; None for a table that is not divided.
        log_end: the end of the log at the server, queried after the read. None if the server does
            not report it.
        gone_from: index of the first key that has no row, in the chunk of a repair. Its image has
            only the key.
        letters: dead letters of rows that cannot be encoded, by index. Such a row has an empty
            image.
    """

    images: list[bytes] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    identities: list[bytes] = field(default_factory=list)
    size: int = 0
    resume_key: str | None = None
    is_last: bool = False
    log_end: Lsn | None = None
    letters: dict[int, DeadLetter] = field(default_factory=dict)
    gone_from: int | None = None

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.images)

    def is_gone(self, index: int) -> bool:
        """Whether the source has no row with this key."""
        return self.gone_from is not None and index >= self.gone_from

    def take(self, rows: TableRows) -> None:
        """Append the rows that follow those of the chunk."""
        begin = len(self.images)
        self.letters |= {begin + place: letter for place, letter in rows.letters.items()}
        self.images += rows.images
        self.keys += rows.keys
        self.identities += rows.identities
        self.size += sum(map(len, rows.images)) + sum(map(len, rows.identities))
        self.size += _ROW_BYTES * len(rows)
