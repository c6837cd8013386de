"""cdc.lsn_time_mapping: which commit LSN belongs to which time.

Each transaction that has change rows has one entry, and so has each capture instance. The
instance's entry is the transaction in which it was enabled, whose LSN its beginning is. Further
entries, with tran_id 0x00, have no change rows: one every five minutes of a quiet database, so that
time is seen to pass. Documented: "Entries may also be logged for which there are no change tables
entries". Inferred: the five minutes, and that an instance's beginning is a transaction, which
Debezium's tests count on. Times are datetime, as SQL Server's are: rounded to 1/300 s, in the
server's time zone (UTC here).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace_emulator.cdc.lsn import ZERO_LSN
from tailrace_emulator.cdc.metadata_tables import (
    LSN_TIME_MAPPING,
    insert_rows,
    metadata_table,
    sqlite_column,
)
from tailrace_emulator.storage.values import round_datetime
from tailrace_emulator.values.types import StorageValue

if TYPE_CHECKING:
    import apsw

    from tailrace_emulator.log.records import LogTransaction
    from tailrace_emulator.storage.engine import Database

DUMMY_TRAN_ID: Final = b"\x00"
QUIET_TICKS: Final = 300 * 10_000_000
"""A dummy entry is written when the newest one is this old: five minutes."""

COMPARISONS: Final = {
    "largest less than": ("<", "DESC"),
    "largest less than or equal": ("<=", "DESC"),
    "smallest greater than": (">", "ASC"),
    "smallest greater than or equal": (">=", "ASC"),
}
"""The relational operators of fn_cdc_map_time_to_lsn: comparison and order."""


Entry = tuple[StorageValue, ...]
"""A row of the table."""


def transaction_entry(transaction: LogTransaction) -> Entry:
    """The entry of a captured transaction."""
    return (
        transaction.commit_lsn,
        round_datetime(transaction.begin_ticks),
        round_datetime(transaction.commit_ticks),
        transaction.tran_id,
        transaction.begin_lsn,
    )


def dummy_entry(lsn: bytes, ticks: int) -> Entry:
    """The entry of an LSN that no change row has."""
    moment = round_datetime(ticks)
    return (lsn, moment, moment, DUMMY_TRAN_ID, ZERO_LSN)


def add_entries(connection: apsw.Connection, database: Database, entries: list[Entry]) -> None:
    """Writes entries inside the caller's write transaction."""
    if entries:
        insert_rows(connection, metadata_table(database, LSN_TIME_MAPPING), entries)


def newest(connection: apsw.Connection, database: Database) -> tuple[bytes, int] | None:
    """(LSN, end time in ticks) of the entry with the largest LSN, or None."""
    table = metadata_table(database, LSN_TIME_MAPPING)
    lsn, ended = sqlite_column(table, "start_lsn"), sqlite_column(table, "tran_end_time")
    for row in connection.execute(
        f'SELECT {lsn}, {ended} FROM "{table.sqlite_name}" ORDER BY {lsn} DESC LIMIT 1'
    ):
        return row[0], row[1]
    return None


def newest_time(connection: apsw.Connection, database: Database) -> int | None:
    """The largest tran_end_time (ticks), or None without entries."""
    table = metadata_table(database, LSN_TIME_MAPPING)
    ended = sqlite_column(table, "tran_end_time")
    ((found,),) = connection.execute(f'SELECT max({ended}) FROM "{table.sqlite_name}"').fetchall()
    return None if found is None else int(found)


def end_time(connection: apsw.Connection, database: Database, lsn: bytes) -> int | None:
    """The commit time (ticks) of the entry of that LSN, or None."""
    table = metadata_table(database, LSN_TIME_MAPPING)
    for (ended,) in connection.execute(
        f'SELECT {sqlite_column(table, "tran_end_time")} FROM "{table.sqlite_name}"'
        f" WHERE {sqlite_column(table, 'start_lsn')} = ?",
        (lsn,),
    ):
        return int(ended)
    return None


def lsn_for_time(
    connection: apsw.Connection, database: Database, operator: str, ticks: int
) -> bytes | None:
    """The LSN of the entry whose commit time is nearest to a time, by a relational operator.

    Args:
        connection: what to read with.
        operator: one of those in :data:`COMPARISONS`.
        ticks: the time compared with tran_end_time.

    Returns:
        For "largest" the largest LSN of the latest time, for "smallest" the smallest LSN of the
        earliest; None where no entry satisfies the comparison.
    """
    comparison, order = COMPARISONS[operator]
    table = metadata_table(database, LSN_TIME_MAPPING)
    lsn, ended = sqlite_column(table, "start_lsn"), sqlite_column(table, "tran_end_time")
    for (found,) in connection.execute(
        f'SELECT {lsn} FROM "{table.sqlite_name}" WHERE {ended} {comparison} ?'
        f" ORDER BY {ended} {order}, {lsn} {order} LIMIT 1",
        (ticks,),
    ):
        return bytes(found)
    return None


def smallest_lsn_of_same_time(
    connection: apsw.Connection, database: Database, lsn: bytes
) -> bytes | None:
    """The smallest LSN whose commit time is that of the entry ``lsn``; None without that entry."""
    ended = end_time(connection, database, lsn)
    if ended is None:
        return None
    return lsn_for_time(connection, database, "smallest greater than or equal", ended)


def remove_all(connection: apsw.Connection, database: Database) -> None:
    """Deletes every entry, inside the caller's write transaction."""
    connection.execute(f'DELETE FROM "{metadata_table(database, LSN_TIME_MAPPING).sqlite_name}"')
