"""sys.dm_cdc_log_scan_sessions and sys.dm_cdc_errors.

https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/change-data-capture-sys-dm-cdc-log-scan-sessions
https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/change-data-capture-sys-dm-cdc-errors
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.object_views import datetime_of
from tailrace_emulator.catalog.registry import Columns, Row
from tailrace_emulator.cdc import lsn as lsns
from tailrace_emulator.cdc.runtime import runtime
from tailrace_emulator.cdc.scan_sessions import PHASES
from tailrace_emulator.cdc.surface.declarations import view
from tailrace_emulator.security.view_permissions import DATABASE_PERFORMANCE

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.cdc.scan_sessions import ScanSession
    from tailrace_emulator.storage.engine import Database

DATETIME_HALF_STEP_TICKS: Final = 16_667
"""Half of 1/300 s: what rounding to datetime may add."""


_SCAN_SESSIONS: Final = Columns(
    """session_id int!, start_time datetime, end_time datetime, duration bigint,
 scan_phase nvarchar(200), error_count int, start_lsn nvarchar(23), current_lsn nvarchar(23),
 end_lsn nvarchar(23), tran_count bigint, last_commit_lsn nvarchar(23), last_commit_time datetime,
 log_record_count bigint, schema_change_count int, command_count bigint,
 first_begin_cdc_lsn nvarchar(23), last_commit_cdc_lsn nvarchar(23), last_commit_cdc_time datetime,
 latency int, empty_scan_count int, failed_sessions_count int"""
)


@view("sys.dm_cdc_log_scan_sessions", _SCAN_SESSIONS, DATABASE_PERFORMANCE)
def _scan_sessions(context: SessionContext, database: Database) -> Iterator[Row]:
    for session in runtime(context.engine).history(database).rows():
        yield _scan_session_row(session)


def _scan_session_row(session: ScanSession) -> Row:
    one = bool(session.session_id)
    return _SCAN_SESSIONS.row(
        session_id=session.session_id,
        # Never later than it was: that a session began after an instant proves that it saw
        # everything up to then.
        start_time=datetime_of(session.start_ticks - DATETIME_HALF_STEP_TICKS),
        end_time=datetime_of(session.end_ticks),
        duration=session.duration_s if one else session.total_duration_s,
        scan_phase=PHASES[session.phase] if one else "Aggregate",
        error_count=session.error_count,
        start_lsn=lsns.terminated_text(session.start_lsn),
        current_lsn=lsns.terminated_text(session.end_lsn if one else lsns.ZERO_LSN),
        end_lsn=lsns.terminated_text(session.end_lsn),
        tran_count=session.tran_count,
        last_commit_lsn=lsns.terminated_text(session.last_commit_lsn),
        last_commit_time=_optional(session.last_commit_ticks),
        log_record_count=session.log_record_count,
        schema_change_count=session.schema_change_count,
        command_count=session.command_count,
        first_begin_cdc_lsn=lsns.terminated_text(session.first_begin_cdc_lsn),
        last_commit_cdc_lsn=lsns.terminated_text(session.last_commit_cdc_lsn),
        last_commit_cdc_time=_optional(session.last_commit_cdc_ticks),
        latency=session.latency_s,
        empty_scan_count=session.empty_scan_count,
        failed_sessions_count=session.failed_sessions_count,
    )


def _optional(ticks: int | None) -> int | None:
    return None if ticks is None else datetime_of(ticks)


_DM_CDC_ERRORS: Final = Columns(
    """session_id int!, phase_number int!, entry_time datetime!, error_number int!,
 error_severity int!, error_state int!, error_message nvarchar(1024)!, start_lsn nvarchar(23)!,
 begin_lsn nvarchar(23)!, sequence_value nvarchar(23)!"""
)


@view("sys.dm_cdc_errors", _DM_CDC_ERRORS, DATABASE_PERFORMANCE)
def _cdc_errors(context: SessionContext, database: Database) -> Iterator[Row]:
    for error in runtime(context.engine).history(database).errors():
        yield _DM_CDC_ERRORS.row(
            session_id=error.session_id,
            phase_number=error.phase,
            entry_time=datetime_of(error.entry_ticks),
            error_number=error.number,
            error_severity=error.severity,
            error_state=error.state,
            error_message=error.message[:1024],
            start_lsn=lsns.terminated_text(error.start_lsn),
            begin_lsn=lsns.terminated_text(error.begin_lsn),
            sequence_value=lsns.terminated_text(error.sequence_value),
        )
