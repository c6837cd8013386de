"""Rows on their way: a list that may be walked many times and spills when it is long.

A statement's rows are gathered before the first of them is written. So its SELECT never meets its
own changes (the Halloween problem). A million of them must not be in memory.
"""

from __future__ import annotations

import itertools
import marshal
from collections.abc import Iterable, Iterator
from typing import Any, Final

import apsw

from tailrace_emulator.values.fetching import fetch

MEMORY_ROWS: Final = 2048

STAGE_SCHEMA: Final = """
CREATE TEMP TABLE IF NOT EXISTS staged(
  stage INTEGER NOT NULL, n INTEGER NOT NULL, rows BLOB NOT NULL, PRIMARY KEY (stage, n))
"""

_stages = itertools.count(1)


class Stage:
    """Append-only rows (tuples that marshal can keep) of one statement."""

    def __init__(
        self, connection: apsw.Connection, rows: Iterable[Any] = (), *, chunk_rows: int = 256
    ) -> None:
        """Gather ``rows``.

        Args:
            connection: the session's, whose TEMP table takes what spills.
            rows: the first rows; a list or tuple is used as it is.
            chunk_rows: how many rows are handled at a time.
        """
        self._connection = connection
        self._chunk_rows = chunk_rows
        self._memory_rows = chunk_rows * (MEMORY_ROWS // 256)
        self._id = 0
        self._chunks = 0
        self._memory: list[Any] | tuple[Any, ...] = []
        self.count = 0
        if isinstance(rows, list | tuple):
            self._memory = rows
            self.count = len(rows)
        else:
            self.extend(rows)

    def extend(self, rows: Iterable[Any]) -> None:
        """Add rows."""
        if isinstance(self._memory, tuple):
            self._memory = list(self._memory)
        memory = self._memory
        source = iter(rows)
        while batch := list(itertools.islice(source, self._memory_rows)):
            memory += batch
            self.count += len(batch)
            if len(memory) > self._memory_rows:
                self._spill(memory)

    def chunks(self) -> Iterator[list[Any]]:
        """All rows in order, some at a time."""
        for n in range(self._chunks):
            ((blob,),) = fetch(
                self._connection,
                "SELECT rows FROM temp.staged WHERE stage = ? AND n = ?",
                (self._id, n),
            )
            yield marshal.loads(blob)  # noqa: S302 - our own TEMP table
        memory = self._memory
        for start in range(0, len(memory), self._chunk_rows):
            yield list(memory[start : start + self._chunk_rows])

    def close(self) -> None:
        """Let go of what spilled."""
        if self._chunks:
            self._connection.execute("DELETE FROM temp.staged WHERE stage = ?", (self._id,))
            self._chunks = 0
        self._memory = []

    def _spill(self, memory: list[Any]) -> None:
        if not self._id:
            self._id = next(_stages)
        size = self._chunk_rows
        self._connection.executemany(
            "INSERT INTO temp.staged(stage, n, rows) VALUES (?, ?, ?)",
            [
                (self._id, self._chunks + i, marshal.dumps(memory[start : start + size]))
                for i, start in enumerate(range(0, len(memory), size))
            ],
        )
        self._chunks += -(-len(memory) // size)
        memory.clear()


class SeenRows:
    """Row ids met so far in a statement, one bit each: they are small and dense."""

    __slots__ = ("_bits",)

    def __init__(self) -> None:
        self._bits = bytearray()

    def add(self, rid: int) -> bool:
        """Whether it is new."""
        byte, bit = rid >> 3, 1 << (rid & 7)
        bits = self._bits
        if byte >= len(bits):
            bits.extend(bytes(byte + 1024 - len(bits)))
        if bits[byte] & bit:
            return False
        bits[byte] |= bit
        return True
