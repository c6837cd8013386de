"""The transaction log: what is in it, and the LSNs of its records.

A database is its log: a replica is a prefix of it that was redone, a restored database a prefix
that goes on differently. So every record says all that is needed to redo it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.simulation.sqlserver.rows import Change, Column

LSN_BYTES = 10
_SLOT = 1
_BLOCK = 1 << 16
_VLF = 1 << 48


def lsn_text(lsn: bytes) -> str:
    """``vlf:block:slot`` in hexadecimal digits of fixed width."""
    return lsn.hex(":", -4)


@dataclass(frozen=True, slots=True)
class Record:
    """Any record: LSN, and the server's local time when it was written."""

    lsn: bytes
    time: datetime


@dataclass(frozen=True, slots=True)
class CreateTable(Record):
    """CREATE TABLE, before change data capture is enabled."""

    object_id: int
    name: str
    columns: tuple[Column, ...]
    key: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Commit(Record):
    """A transaction of users: its LSN is that of the commit record, its changes have theirs."""

    tran_id: bytes
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class AlterTable(Record):
    """DDL on a source table: one column is added, dropped, masked or given another type.

    Attributes:
        fill: the value that all rows get (DEFAULT ... WITH VALUES); nothing of it is captured.
    """

    object_id: int
    kind: str
    column: Column
    fill: Any = None


@dataclass(frozen=True, slots=True)
class SwitchOut(Record):
    """ALTER TABLE ... SWITCH of all rows of a table into an empty one, which change data capture
    does not log; the table has the other one's partition afterwards.

    https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-table-transact-sql
    """

    object_id: int
    partition_id: int


@dataclass(frozen=True, slots=True)
class RenameTable(Record):
    """sp_rename: object id and capture instances stay; cdc.ddl_history has nothing (inferred).

    https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-rename-transact-sql
    """

    object_id: int
    called: str


@dataclass(frozen=True, slots=True)
class DropTable(Record):
    """DROP TABLE: its capture instances go with it.

    https://learn.microsoft.com/sql/relational-databases/track-changes/about-change-data-capture-sql-server
    """

    object_id: int


@dataclass(frozen=True, slots=True)
class EnableInstance(Record):
    """sys.sp_cdc_enable_table.

    Attributes:
        is_ordered: whether ``__$command_id`` is in the index, where there is the column.
        captured: names of the captured columns; None for all.
        created: ``create_date``; None if it is the record's time.
        is_list: whether the names are an operator's, so that they bind the instances after it.
    """

    name: str
    object_id: int
    source: int
    is_ordered: bool = True
    captured: frozenset[str] | None = None
    created: datetime | None = None
    is_list: bool = True


@dataclass(frozen=True, slots=True)
class DisableInstance(Record):
    """sys.sp_cdc_disable_table."""

    name: str


@dataclass(frozen=True, slots=True)
class Capture(Record):
    """A scan of the capture process, up to an LSN and a number of transactions.

    Attributes:
        readable_end: number of records that the log reader may see.
        maxtrans: transactions at most.
        marks_time: whether it writes an entry that only marks time.
        flushed: number of records that were flushed when it does; None for those that it read.
    """

    readable_end: int
    maxtrans: int
    marks_time: bool
    flushed: int | None = None


@dataclass(frozen=True, slots=True)
class RaiseWatermarks(Record):
    """The first transaction of cleanup: low watermarks below an LSN, of all instances or of one."""

    watermark: bytes
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteChangeRows(Record):
    """The further transactions of cleanup: change rows and entries below the low watermarks."""


@dataclass(frozen=True, slots=True)
class UpdateServer(Record):
    """sys.sp_vupgrade_replication of a cumulative update: change tables get ``__$command_id``.

    Attributes:
        rebuilds_index: whether the clustered indexes get it, too.
    """

    rebuilds_index: bool


@dataclass(frozen=True, slots=True)
class MaskChangeTables(Record):
    """sys.sp_cdc_vupgrade of 2022 and later: ALTER TABLE cdc.<instance>_CT ALTER COLUMN ADD MASKED.

    It does so for each captured column that has a mask in the source table (text of the procedure).
    """


@dataclass(slots=True)
class Log:
    """The records, oldest first, and the next LSN.

    An LSN is given out once on one line of recovery; a log that was cut off gives the same ones
    out again, as a restored database does (inferred: LSNs go on from the recovery point).
    """

    records: list[Record] = field(default_factory=list)
    _last: int = (1 << 52) + (0x18 << 16)

    def next_lsn(self, step: int = 1) -> bytes:
        """A new LSN behind all others; a larger step begins a block or a virtual log file."""
        size = {0: _SLOT, 1: _BLOCK * 8}.get(step, _VLF)
        self._last = (self._last // size + 1) * size if size > _SLOT else self._last + 1
        if step:
            self._last += _SLOT
        return self._last.to_bytes(LSN_BYTES, "big")

    def append(self, record: Record) -> None:
        """Add a record; its LSN must be the newest."""
        if self.records and self.records[-1].lsn >= record.lsn:
            raise AssertionError("the log runs backwards")
        self.records.append(record)

    @property
    def end(self) -> bytes:
        """LSN of the last record."""
        return self.records[-1].lsn

    def cut(self, length: int) -> None:
        """Forget all records behind a number of them."""
        del self.records[length:]
        self._last = int.from_bytes(self.records[-1].lsn, "big")
