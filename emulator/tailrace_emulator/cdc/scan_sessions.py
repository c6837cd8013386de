"""Log scan sessions: what sys.dm_cdc_log_scan_sessions and sys.dm_cdc_errors report.

One scan cycle is one session. Consecutive sessions that found nothing share one row: the first
makes it with empty_scan_count 1, each further one increments it. Documented: up to 32 sessions,
session 0 aggregates all of them, everything is reset when the server starts. Inferred: the shared
row of empty sessions carries the start and end time of the *newest* of them. So a newest session
that started after an instant and found fewer than maxtrans transactions proves a drained log. The
log was drained at that instant, even on a quiet database. Inferred, too: the end_lsn of a session
that found nothing is where the log ended. Documented is that it is NULL only while a session is
active.

https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/change-data-capture-sys-dm-cdc-log-scan-sessions
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Final

from tailrace_emulator.cdc.lsn import ZERO_LSN

SESSIONS_KEPT: Final = 32
READING_CONFIGURATION: Final = 1
SCHEMA_VERSIONING: Final = 6
LAST_SCAN: Final = 7
DONE: Final = 8
PHASES: Final = {
    READING_CONFIGURATION: "Reading configuration",
    SCHEMA_VERSIONING: "Schema versioning",
    LAST_SCAN: "Last scan",
    DONE: "Done",
}
"""The documented phases that a session of ours can be in, by number."""
_TICKS_PER_SECOND: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class ScanSession:
    """One row of the view. LSNs are ten bytes; zero where the session saw none. Times are ticks."""

    session_id: int
    start_ticks: int
    end_ticks: int
    start_lsn: bytes = ZERO_LSN
    end_lsn: bytes = ZERO_LSN
    tran_count: int = 0
    last_commit_lsn: bytes = ZERO_LSN
    last_commit_ticks: int | None = None
    log_record_count: int = 0
    schema_change_count: int = 0
    command_count: int = 0
    first_begin_cdc_lsn: bytes = ZERO_LSN
    last_commit_cdc_lsn: bytes = ZERO_LSN
    last_commit_cdc_ticks: int | None = None
    latency_s: int = 0
    empty_scan_count: int = 0
    failed_sessions_count: int = 0
    error_count: int = 0
    phase: int = DONE
    """Of :data:`PHASES`, by number: in which it ended."""

    total_duration_s: int = 0
    """Of session 0: the sum over all sessions."""

    @property
    def duration_s(self) -> int:
        """Whole seconds; 0 where the session had no CDC transactions."""
        if not self.tran_count:
            return 0
        return (self.end_ticks - self.start_ticks) // _TICKS_PER_SECOND


@dataclass(frozen=True, slots=True)
class ScanError:
    """One row of sys.dm_cdc_errors."""

    session_id: int
    phase: int
    entry_ticks: int
    number: int
    severity: int
    state: int
    message: str
    start_lsn: bytes = ZERO_LSN
    begin_lsn: bytes = ZERO_LSN
    sequence_value: bytes = ZERO_LSN


@dataclass(slots=True)
class ScanHistory:
    """The sessions of one database since the server started. Thread-safe."""

    _sessions: deque[ScanSession] = field(default_factory=lambda: deque(maxlen=SESSIONS_KEPT))
    _errors: deque[ScanError] = field(default_factory=deque)
    _aggregate: ScanSession | None = None
    _next_id: int = 1
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def record(self, session: ScanSession) -> ScanSession:
        """Adds a finished session; its id is chosen here.

        Returns:
            The row that now stands for it: its own, or the shared row of empty sessions.
        """
        with self._lock:
            last = self._sessions[-1] if self._sessions else None
            if not session.tran_count and not session.error_count:
                if last is not None and last.empty_scan_count:
                    session = replace(
                        session,
                        session_id=last.session_id,
                        empty_scan_count=last.empty_scan_count + 1,
                    )
                    self._sessions[-1] = session
                    self._aggregate_in(session)
                    return session
                session = replace(session, empty_scan_count=1)
            session = replace(session, session_id=self._next_id)
            self._next_id += 1
            self._sessions.append(session)
            self._aggregate_in(session)
            return session

    def record_failure(self, start_ticks: int, end_ticks: int, errors: list[ScanError]) -> None:
        """Adds a session that failed, with its errors, the cause first."""
        session = self.record(
            ScanSession(
                0,
                start_ticks,
                end_ticks,
                start_lsn=errors[0].start_lsn,
                error_count=len(errors),
                failed_sessions_count=1,
                phase=errors[0].phase,
            )
        )
        with self._lock:
            self._errors.extend(replace(error, session_id=session.session_id) for error in errors)
            first_kept = self._sessions[0].session_id
            while self._errors and self._errors[0].session_id < first_kept:
                self._errors.popleft()

    def rows(self) -> list[ScanSession]:
        """The aggregate (session 0) and the kept sessions, oldest first; empty before any."""
        with self._lock:
            if self._aggregate is None:
                return []
            return [self._aggregate, *self._sessions]

    def errors(self) -> list[ScanError]:
        """The errors of the kept sessions, oldest first."""
        with self._lock:
            return list(self._errors)

    def _aggregate_in(self, session: ScanSession) -> None:
        old = self._aggregate
        if old is None:
            self._aggregate = replace(session, session_id=0, total_duration_s=session.duration_s)
            return
        self._aggregate = replace(
            session,
            session_id=0,
            start_ticks=old.start_ticks,
            total_duration_s=old.total_duration_s + session.duration_s,
            tran_count=old.tran_count + session.tran_count,
            log_record_count=old.log_record_count + session.log_record_count,
            schema_change_count=old.schema_change_count + session.schema_change_count,
            command_count=old.command_count + session.command_count,
            error_count=old.error_count + session.error_count,
            failed_sessions_count=old.failed_sessions_count + session.failed_sessions_count,
            last_commit_lsn=max(old.last_commit_lsn, session.last_commit_lsn),
            last_commit_ticks=session.last_commit_ticks or old.last_commit_ticks,
            first_begin_cdc_lsn=(
                session.first_begin_cdc_lsn
                if old.first_begin_cdc_lsn == ZERO_LSN
                else old.first_begin_cdc_lsn
            ),
            last_commit_cdc_lsn=max(old.last_commit_cdc_lsn, session.last_commit_cdc_lsn),
            last_commit_cdc_ticks=session.last_commit_cdc_ticks or old.last_commit_cdc_ticks,
            latency_s=session.latency_s or old.latency_s,
        )
