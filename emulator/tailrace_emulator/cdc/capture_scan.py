"""The capture process: scan cycles until the log is drained (one cycle: scan_cycle.py).

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-scan-transact-sql
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import apsw

from tailrace_emulator import messages
from tailrace_emulator.cdc.capture_instance import require_enabled
from tailrace_emulator.cdc.jobs import check_polling_interval, check_scan_limits
from tailrace_emulator.cdc.runtime import AGENT_SESSION, runtime
from tailrace_emulator.cdc.scan_cycle import ChangeTableHeld, ScanCycle, ScanStopped
from tailrace_emulator.cdc.scan_sessions import (
    SCHEMA_VERSIONING,
    ScanError,
    ScanHistory,
    ScanSession,
)
from tailrace_emulator.messages.errors import SqlError

if TYPE_CHECKING:
    from tailrace_emulator.storage.engine import Database, Engine
    from tailrace_emulator.storage.transaction import StoreSession

MAXTRANS_DEFAULT: Final = 500
MAXSCANS_DEFAULT: Final = 10

_log = logging.getLogger(__name__)


def never() -> bool:
    """A scan that nobody stops."""
    return False


def scan(
    engine: Engine,
    database: Database,
    *,
    maxtrans: int = MAXTRANS_DEFAULT,
    maxscans: int = MAXSCANS_DEFAULT,
    session_id: int = AGENT_SESSION,
    stopped: Callable[[], bool] = never,
    session: StoreSession | None = None,
) -> list[ScanSession]:
    """Runs scan cycles until the log is drained or ``maxscans`` cycles ran.

    Args:
        database: the database whose log is scanned.
        maxtrans: the largest number of transactions per cycle.
        maxscans: the largest number of cycles.
        session_id: who scans, for the message to another scanner.
        stopped: asked between batches of rows; a true answer undoes the cycle and ends the scan.
        session: whose call it is, and who waits where a transaction holds a change table that is
            to be altered or dropped; None for the Agent, whose thread does not wait in place.

    Returns:
        One session per cycle; the last one found fewer than ``maxtrans`` transactions if the log
        is drained.

    Raises:
        SqlError: 22901 database not enabled, 22903 another scan is active; an error of the cycle,
            which is recorded in sys.dm_cdc_errors; 1222, 1205, 3617 while the session waits.
        ChangeTableHeld: there is no session to wait; what comes before is captured.
    """
    require_enabled(database, "sp_cdc_scan")
    sessions: list[ScanSession] = []
    history = runtime(engine).history(database)
    with runtime(engine).scanning(database, session_id):
        while len(sessions) < maxscans:
            cycle = ScanCycle(engine, database, maxtrans, stopped, engine.clock.now_ticks())
            try:
                ended = cycle.run()
            except ScanStopped:
                break
            except ChangeTableHeld as held:
                _capture_before(engine, database, history, cycle, stopped)
                if session is None:
                    raise
                _wait(engine, session, held)
                continue
            except (SqlError, apsw.Error) as error:
                failure = _failure(error)
                try:
                    if isinstance(error, SqlError):
                        _capture_before(engine, database, history, cycle, stopped)
                finally:
                    _record_failure(engine, database, history, cycle, failure)
                if failure is error:
                    raise
                raise failure from error
            sessions.append(history.record(ended))
            if ended.tran_count < maxtrans:
                break
    return sessions


def _wait(engine: Engine, session: StoreSession, held: ChangeTableHeld) -> None:
    """Waits until nobody else holds locks on the change table.

    Raises:
        SqlError: 1222, 1205, 3617; 1222 at once where the session itself has changed its rows.
    """
    owner = session.lock_owner
    if held.table in owner.tables:
        raise held.error
    try:
        engine.locks.lock_table(owner, held.table)
    finally:
        engine.locks.release_table(owner, held.table)


def _failure(error: SqlError | apsw.Error) -> SqlError:
    """What sys.dm_cdc_errors shows of an error of a cycle."""
    if isinstance(error, SqlError):
        return error
    failure = messages.error(22859, procedure="sp_cdc_scan")
    failure.message += f" {error}"
    return failure


def _capture_before(
    engine: Engine,
    database: Database,
    history: ScanHistory,
    failed: ScanCycle,
    stopped: Callable[[], bool],
) -> None:
    """Captures the transactions before the one at which a cycle failed.

    A type change that values of the change table do not fit waits for somebody to change those:
    they must be there to be changed. A failure of this is recorded next to the first one, which the
    caller reports.
    """
    if not failed.taken:
        return
    cycle = ScanCycle(engine, database, failed.taken, stopped, engine.clock.now_ticks())
    try:
        history.record(cycle.run())
    except (ScanStopped, ChangeTableHeld):
        pass
    except (SqlError, apsw.Error) as error:
        _record_failure(engine, database, history, cycle, _failure(error))


def _record_failure(
    engine: Engine, database: Database, history: ScanHistory, cycle: ScanCycle, error: SqlError
) -> None:
    """Enters a failed cycle into the history: what caused its error, the error, and its end."""
    _log.warning("log scan of %s failed: %s", database.name, error)
    chain = [error]
    if isinstance(error.__cause__, SqlError):
        chain.insert(0, error.__cause__)
    if cycle.phase == SCHEMA_VERSIONING:
        chain.append(messages.error(22860))
    now = engine.clock.now_ticks()
    errors = [
        ScanError(0, cycle.phase, now, e.number, e.severity, e.state, e.message, *cycle.place)
        for e in chain
    ]
    history.record_failure(cycle.begun, now, errors)


def check_scan_parameters(
    maxtrans: int | None, maxscans: int | None, continuous: int, pollinginterval: int
) -> None:
    """Checks the parameters of sp_cdc_scan.

    Raises:
        SqlError: 22991 or 22970 for a @maxtrans or @maxscans that is not positive; 22998 for a
            @continuous other than 0 or 1. A polling interval gives 22999 without continuous mode,
            and 22990 if it is a day or more.
    """
    check_scan_limits(maxtrans, maxscans)
    check_polling_interval(pollinginterval)
    if continuous not in {0, 1}:
        raise messages.error(22998)
    if not continuous and pollinginterval:
        raise messages.error(22999)
