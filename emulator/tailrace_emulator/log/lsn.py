"""LSN allocation: positions in the log and the ten bytes that show them.

The log is a line of *positions* (plain integers); a position is shown as an LSN vlf:block:slot. The
mapping is arithmetic and keeps order, so the log stores integers. A block holds 128 records and a
virtual log file 4096 blocks. Block numbers step by 8 (a 4 KB block counted in 512-byte sectors), as
they do in SQL Server's log.

Durability: positions are handed out from memory. On disk is a *reservation*: a bound that no
position may reach before a larger bound has been written. The larger bound is written in the same
transaction as the data. Opening the database starts at the bound, in a fresh virtual log file;
therefore LSNs increase strictly across a crash without a write per allocation.
"""

from __future__ import annotations

import struct
import threading
from functools import lru_cache
from typing import Final

import apsw

RECORDS_PER_BLOCK: Final = 128
BLOCKS_PER_VLF: Final = 4096
RECORDS_PER_VLF: Final = RECORDS_PER_BLOCK * BLOCKS_PER_VLF
FIRST_VLF: Final = 0x22
"""The first virtual log file's number: new SQL Server databases begin in this region."""
FIRST_BLOCK: Final = 0x10
BLOCK_STEP: Final = 8
_SECTOR_BYTES: Final = 512
VLF_BYTES: Final = BLOCKS_PER_VLF * BLOCK_STEP * _SECTOR_BYTES
"""The size of a virtual log file if it were a file: block numbers count sectors."""

_LSN = struct.Struct(">IIH")
_PREFIX = struct.Struct(">II")
_SLOTS = tuple((slot + 1).to_bytes(2, "big") for slot in range(RECORDS_PER_BLOCK))


def lsn_of(position: int) -> bytes:
    """The LSN (10 bytes) of a log position."""
    return _block_prefix(position // RECORDS_PER_BLOCK) + _SLOTS[position % RECORDS_PER_BLOCK]


@lru_cache(maxsize=256)
def _block_prefix(block: int) -> bytes:
    """The first eight bytes; records are read block by block, so few are in use at a time."""
    vlf, block = divmod(block, BLOCKS_PER_VLF)
    return _PREFIX.pack(vlf + FIRST_VLF, block * BLOCK_STEP + FIRST_BLOCK)


def position_of(lsn: bytes) -> int:
    """The last log position whose LSN is at or below ``lsn``; -1 when there is none.

    ``lsn`` may be any ten bytes: clients compute bounds that no record ever had.
    """
    vlf: int
    block: int
    slot: int
    vlf, block, slot = _LSN.unpack(lsn)
    if vlf < FIRST_VLF:
        return -1
    before_vlf = (vlf - FIRST_VLF) * RECORDS_PER_VLF
    if block < FIRST_BLOCK:
        return before_vlf - 1
    index, rest = divmod(block - FIRST_BLOCK, BLOCK_STEP)
    if index >= BLOCKS_PER_VLF:
        return before_vlf + RECORDS_PER_VLF - 1
    before_block = before_vlf + index * RECORDS_PER_BLOCK
    if rest:
        return before_block + RECORDS_PER_BLOCK - 1
    return before_block + min(slot, RECORDS_PER_BLOCK) - 1


def bytes_between(first: int, last: int) -> int:
    """The bytes of the blocks from that of one log position to that of another."""
    blocks = last // RECORDS_PER_BLOCK - first // RECORDS_PER_BLOCK + 1
    return blocks * BLOCK_STEP * _SECTOR_BYTES


class LsnAllocator:
    """Hands out log positions of one database; thread-safe."""

    def __init__(self, database_id: int, connection: apsw.Connection) -> None:
        """Start after everything that was ever handed out.

        Args:
            database_id: whose log this is.
            connection: an open connection inside a write transaction.
        """
        self._database_id = database_id
        self._lock = threading.Lock()
        connection.execute(
            "INSERT OR IGNORE INTO log_state(database_id, reserved) VALUES (?, ?)",
            (database_id, RECORDS_PER_BLOCK),
        )
        ((reserved,),) = connection.execute(
            "SELECT reserved FROM log_state WHERE database_id = ?", (database_id,)
        )
        self._next: int = reserved
        self._last: int = reserved - 1
        self._reserved = 0
        self._reserve(connection)

    @property
    def last(self) -> int:
        """The last position that was handed out; after opening, a bound that lies above it."""
        with self._lock:
            return self._last

    def take(self, count: int = 1) -> int:
        """Reserve ``count`` consecutive positions and return the first."""
        with self._lock:
            first = self._next
            self._next = first + count
            self._last = self._next - 1
            return first

    def take_last(self, connection: apsw.Connection, behind: int = 0) -> int:
        """The position of a commit record, which is the last of its block: a commit flushes it.

        Args:
            connection: in whose write transaction the bound is raised above all that was taken.
            behind: how many records before it have their positions taken with it.
        """
        with self._lock:
            last = self._next + behind
            self._next = last + RECORDS_PER_BLOCK - last % RECORDS_PER_BLOCK
            self._last = last
            if self._next > self._reserved:
                self._reserve(connection)
            return last

    def _reserve(self, connection: apsw.Connection) -> None:
        """Write a bound that lies above all taken."""
        self._reserved = self._next + 2 * RECORDS_PER_VLF
        self._reserved -= self._reserved % RECORDS_PER_VLF
        connection.execute(
            "UPDATE log_state SET reserved = ? WHERE database_id = ?",
            (self._reserved, self._database_id),
        )

    def forget_reservation(self) -> None:
        """The transaction that wrote the bound did not commit: the next one writes it again."""
        with self._lock:
            self._reserved = 0
