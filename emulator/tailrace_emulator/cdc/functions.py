"""The sys.fn_cdc_* functions over LSNs, times and update masks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace_emulator.cdc import lsn_time_mapping
from tailrace_emulator.cdc.capture_instance import find_instance, is_enabled
from tailrace_emulator.cdc.lsn import ZERO_LSN
from tailrace_emulator.cdc.update_mask import is_bit_set

if TYPE_CHECKING:
    import apsw

    from tailrace_emulator.storage.engine import Database


def min_lsn(connection: apsw.Connection, database: Database, capture_instance: str) -> bytes:
    """sys.fn_cdc_get_min_lsn: the instance's low endpoint.

    Documented: ten zero bytes when there is no such instance. Inferred: the same while the capture
    process has not yet recognised the instance.
    """
    instance = find_instance(connection, database, capture_instance)
    if instance is None or instance.start_lsn is None:
        return ZERO_LSN
    return instance.start_lsn


def max_lsn(connection: apsw.Connection, database: Database) -> bytes | None:
    """sys.fn_cdc_get_max_lsn: the largest start_lsn in cdc.lsn_time_mapping, or None."""
    if not is_enabled(database):
        return None
    entry = lsn_time_mapping.newest(connection, database)
    return entry[0] if entry is not None else None


def map_lsn_to_time(connection: apsw.Connection, database: Database, lsn: bytes) -> int | None:
    """sys.fn_cdc_map_lsn_to_time: the commit time (ticks) of exactly that LSN, or None."""
    if not is_enabled(database):
        return None
    return lsn_time_mapping.end_time(connection, database, lsn)


def map_time_to_lsn(
    connection: apsw.Connection, database: Database, operator: str, ticks: int
) -> bytes | None:
    """sys.fn_cdc_map_time_to_lsn; None for an unknown operator (inferred) or no such entry."""
    folded = " ".join(operator.casefold().split())
    if not is_enabled(database) or folded not in lsn_time_mapping.COMPARISONS:
        return None
    return lsn_time_mapping.lsn_for_time(connection, database, folded, ticks)


def column_ordinal(
    connection: apsw.Connection, database: Database, capture_instance: str, column: str
) -> int | None:
    """sys.fn_cdc_get_column_ordinal: the column's place in the change table, from 1, or None."""
    instance = find_instance(connection, database, capture_instance)
    captured = instance.column(column) if instance is not None else None
    return captured.ordinal if captured is not None else None


def has_column_changed(
    connection: apsw.Connection,
    database: Database,
    capture_instance: str,
    column: str,
    mask: bytes,
) -> bool | None:
    """sys.fn_cdc_has_column_changed: the column's bit, or None for an unknown column."""
    ordinal = column_ordinal(connection, database, capture_instance, column)
    return is_bit_set(ordinal, mask) if ordinal is not None else None
