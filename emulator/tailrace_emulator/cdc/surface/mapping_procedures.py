"""The four procedures of schema cdc that fill cdc.lsn_time_mapping.

SQL Server's capture process writes the mapping through them. Ours writes it in the transaction of
its scan cycle (cdc/lsn_time_mapping.py) and leaves the same rows. These are for users who call them
and have the right to. Names are documented; parameters, their types and what is written were read
in the public scripts of databases that have change data capture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    integer,
)
from tailrace_emulator.cdc.capture_instance import capture_instances, is_enabled
from tailrace_emulator.cdc.lsn import ZERO_LSN
from tailrace_emulator.cdc.lsn_time_mapping import (
    DUMMY_TRAN_ID,
    QUIET_TICKS,
    dummy_entry,
    end_time,
    newest,
)
from tailrace_emulator.cdc.metadata_tables import CDC_SCHEMA, LSN_TIME_MAPPING, metadata_table
from tailrace_emulator.cdc.surface.declarations import procedure
from tailrace_emulator.values.results import Event
from tailrace_emulator.values.types import DATETIME, INT, LSN, StorageValue, varbinary

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext

_P = ProcedureParameter
BATCH_ROWS_MAX: Final = 419
"""Five parameters a row and the count: just below the 2100 that a procedure may have."""


def _entry_parameters(suffix: str = "") -> tuple[ProcedureParameter, ...]:
    return (
        _P(f"@start_lsn{suffix}", LSN),
        _P(f"@tran_begin_time{suffix}", DATETIME),
        _P(f"@tran_end_time{suffix}", DATETIME),
        _P(f"@tran_id{suffix}", varbinary(10)),
        _P(f"@tran_begin_lsn{suffix}", LSN),
    )


def _insert(
    context: SessionContext, name: str, rows: list[tuple[StorageValue, ...]]
) -> Iterator[Event]:
    """Adds entries as the session's own statement, so with its transaction and its errors."""
    _require(context, name)
    table = metadata_table(context.database, LSN_TIME_MAPPING)
    if rows:
        context.store.run(lambda: context.store.insert(table, rows))
    yield from ()


def _require(context: SessionContext, name: str) -> None:
    """The procedures are there while the database is enabled.

    Raises:
        SqlError: 2812 while it is not.
    """
    if not is_enabled(context.database):
        raise messages.error(2812, f"{CDC_SCHEMA}.{name}")


@procedure("sp_ins_lsn_time_mapping", *_entry_parameters(), schema=CDC_SCHEMA)
def _ins(context: SessionContext, args: Arguments) -> Iterator[Event]:
    """One entry, as it is given."""
    yield from _insert(context, "sp_ins_lsn_time_mapping", [tuple(args.values())])


@procedure(
    "sp_batchinsert_lsn_time_mapping",
    _P("@rowcount", INT),
    *(p for n in range(1, BATCH_ROWS_MAX + 1) for p in _entry_parameters(f"_{n}")),
    schema=CDC_SCHEMA,
)
def _batchinsert(context: SessionContext, args: Arguments) -> Iterator[Event]:
    """The first ``@rowcount`` of 419 entries; the parameters of the others must be given too."""
    given = list(args.values())[1:]
    count = min(max(integer(args["@rowcount"]) or 0, 0), BATCH_ROWS_MAX)
    rows = [tuple(given[5 * n : 5 * n + 5]) for n in range(count)]
    yield from _insert(context, "sp_batchinsert_lsn_time_mapping", rows)


@procedure(
    "sp_ins_dummy_lsn_time_mapping", _P("@lastflushed_lsn", LSN, ZERO_LSN), schema=CDC_SCHEMA
)
def _ins_dummy(context: SessionContext, args: Arguments) -> Iterator[Event]:
    """An entry for now at that LSN, unless there is one or the newest is younger than 5 minutes."""
    name = "sp_ins_dummy_lsn_time_mapping"
    _require(context, name)
    connection, database = context.store.connection, context.database
    lsn, now = args["@lastflushed_lsn"], context.engine.clock.now_ticks()
    if not isinstance(lsn, bytes) or lsn == ZERO_LSN:
        return
    last = newest(connection, database)
    is_quiet = last is None or now - last[1] > QUIET_TICKS
    if is_quiet and end_time(connection, database, lsn) is None:
        yield from _insert(context, name, [dummy_entry(lsn, now)])


@procedure(
    "sp_ins_instance_enabling_lsn_time_mapping", _P("@changetable_objid", INT), schema=CDC_SCHEMA
)
def _ins_instance(context: SessionContext, args: Arguments) -> Iterator[Event]:
    """The entry of a capture instance's beginning: its start_lsn and create_date."""
    name = "sp_ins_instance_enabling_lsn_time_mapping"
    _require(context, name)
    found = capture_instances(context.store.connection, context.database)
    rows: list[tuple[StorageValue, ...]] = [
        (i.start_lsn, i.create_ticks, i.create_ticks, DUMMY_TRAN_ID, ZERO_LSN)
        for i in found
        if i.object_id == args["@changetable_objid"]
    ]
    yield from _insert(context, name, rows)
