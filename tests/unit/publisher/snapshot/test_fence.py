"""A fence is never below the truth: the situations that the embedded server cannot show.

The connection is a stand-in for a server whose log reader, clock, permissions and age are chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from tailrace_publisher.errors import PermissionMissing, SourceError, SourceUnavailable
from tailrace_publisher.ports import Connection
from tailrace_publisher.snapshot.fence import FenceSource
from tailrace_publisher.source.log.log_end import LogEnd
from tailrace_schemas.position.lsn import Lsn

NOON = datetime(2026, 10, 25, 12, 0, 0)  # noqa: DTZ001
SECOND = timedelta(seconds=1)
OURS = Lsn(1, 0x10, 1)


def at(block: int) -> Lsn:
    return Lsn(1, block, 1)


@dataclass
class Server:
    """A server with CDC: its log's end, its mapping as (LSN, local time), its sessions."""

    log_end: Lsn | None = None
    mapping: list[tuple[Lsn, datetime]] = field(default_factory=list)
    sessions: list[tuple[Any, ...]] = field(default_factory=list)
    maxtrans: int | None = 500
    now: datetime = NOON
    log_end_error: SourceError | None = None
    session_error: SourceError | None = None
    ddl: list[Lsn] = field(default_factory=list)
    has_groups: bool = False

    def query_sets(self, sql: str) -> list[list[Any]]:
        assert "dm_cdc_log_scan_sessions" in sql
        if self.session_error is not None:
            raise self.session_error
        newest = max((lsn for lsn, _ in self.mapping), default=None)
        shown = None if newest is None else newest.to_bytes()
        return [[(self.now,)], self.sessions, [(shown,)], [(shown,)] if shown else []]

    def query(self, sql: str, *parameters: Any) -> list[Any]:
        if "dm_db_log_stats" in sql:
            if self.log_end_error is not None:
                raise self.log_end_error
            return [(None if self.log_end is None else str(self.log_end), 16.0)]
        if "fn_cdc_get_max_lsn" in sql:
            newest = max((lsn for lsn, _ in self.mapping), default=None)
            return [(None if newest is None else newest.to_bytes(),)]
        if "IsHadrEnabled" in sql:
            return [(int(self.has_groups),)]
        if "EngineEdition" in sql:
            return [(3, 16, None)]
        if "ddl_history" in sql:
            seen = [lsn.to_bytes() for lsn in self.ddl if lsn.to_bytes() <= parameters[0]]
            return [(max(seen, default=None),)]
        if "lsn_time_mapping" in sql:
            behind, moment = parameters
            return [
                (lsn.to_bytes(),)
                for lsn, time in sorted(self.mapping)
                if lsn.to_bytes() > behind and time > datetime.fromisoformat(moment)
            ][:1]
        if "cdc_jobs" in sql or "sp_cdc_help_jobs" in sql:
            if self.maxtrans is None:
                raise PermissionMissing("db_owner is needed", number=22904)
            return [_Job("capture", self.maxtrans)]
        assert sql == "SELECT GETDATE()"
        return [(self.now,)]


@dataclass
class _Job:
    job_type: str
    maxtrans: int
    retention: int = 4320


def session(
    start: datetime,
    end: datetime | None,
    *,
    number: int = 8,
    tran_count: int = 0,
    empty: int = 0,
    errors: int = 0,
    end_lsn: Lsn | None = None,
    last_commit: Lsn | None = None,
) -> tuple[Any, ...]:
    return (
        number,
        start,
        end,
        tran_count,
        empty,
        errors,
        0,
        None if end_lsn is None else str(end_lsn),
        str(last_commit or Lsn.ZERO),
        str(last_commit or Lsn.ZERO),
        None,
    )


def fences(server: Server) -> FenceSource:
    return FenceSource(cast(Connection, server))


def test_a_fence_is_reached_by_an_entry_at_or_behind_the_end_of_the_log():
    server = Server(log_end=at(0x50), mapping=[(at(0x40), NOON)])
    source = fences(server)
    fence = source.mark(OURS)

    assert source.reached(fence) is None
    server.mapping.append((at(0x58), NOON + SECOND))
    assert source.reached(fence) == at(0x58)


def test_a_quiet_database_reaches_it_by_a_session_that_found_nothing_and_ended_there():
    server = Server(log_end=at(0x50), mapping=[(at(0x40), NOON)])
    source = fences(server)
    fence = source.mark(OURS)

    server.sessions = [session(NOON, NOON, empty=1, end_lsn=at(0x48))]
    assert source.reached(fence) is None
    server.sessions = [session(NOON, NOON, empty=2, end_lsn=at(0x50))]
    assert source.reached(fence) == at(0x40)


def test_ddl_behind_the_newest_entry_keeps_it_waiting_for_the_next_one():
    """A column that is gone is in no row that was read; at an LSN before that it was."""
    server = Server(log_end=at(0x50), mapping=[(at(0x40), NOON)], ddl=[at(0x30), at(0x48)])
    source = fences(server)
    fence = source.mark(OURS)

    server.sessions = [session(NOON, NOON, empty=2, end_lsn=at(0x50))]
    assert source.reached(fence) is None
    server.ddl[1] = at(0x58)  # behind the mark: the rows were read before it
    assert source.reached(fence) == at(0x40)
    server.ddl[1] = at(0x48)
    server.mapping.append((at(0x60), NOON + SECOND))
    assert source.reached(fence) == at(0x60)


def test_nothing_captured_ever_is_the_lowest_fence():
    server = Server(log_end=at(0x50), sessions=[session(NOON, NOON, empty=1, end_lsn=at(0x50))])
    source = fences(server)

    assert source.reached(source.mark(Lsn.ZERO)) == Lsn.ZERO


@pytest.mark.parametrize("log_end", [at(0x50), None])
def test_a_log_reader_that_waits_for_replicas_does_not_reach_it_by_finding_nothing(
    log_end: Lsn | None,
):
    server = Server(log_end=log_end, mapping=[(at(0x20), NOON)], has_groups=True)
    source = fences(server)
    fence = source.mark(OURS)

    later = NOON + 60 * SECOND
    server.sessions = [session(later, later, empty=90, end_lsn=at(0x20))]
    assert source.reached(fence) is None


def test_two_more_empty_scans_reach_it_wherever_they_say_that_they_ended():
    """What end_lsn of an empty session is, no document says."""
    server = Server(log_end=at(0x50), mapping=[(at(0x20), NOON)])
    server.sessions = [session(NOON, NOON, empty=90)]
    source = fences(server)
    fence = source.mark(OURS)

    server.sessions = [session(NOON, NOON, empty=91)]
    assert source.reached(fence) is None, "it may have begun before the mark"
    server.sessions = [session(NOON, NOON, empty=92)]
    assert source.reached(fence) == at(0x20)


def test_a_session_whose_rows_are_not_committed_reaches_nothing():
    server = Server(log_end=at(0x50), mapping=[(at(0x40), NOON)])
    source = fences(server)
    fence = source.mark(OURS)

    done = session(NOON, NOON, tran_count=2, last_commit=at(0x50))
    server.sessions = [done]
    assert source.reached(fence) is None
    server.sessions = [session(NOON + SECOND, None, number=9), done]
    server.mapping.append((at(0x50), NOON))
    assert source.reached(fence) == at(0x50)


def test_a_session_that_left_transactions_is_only_as_far_as_its_last_commit():
    server = Server(log_end=at(0x50), mapping=[(at(0x30), NOON)], maxtrans=None)
    source = fences(server)
    fence = source.mark(OURS)

    later = NOON + SECOND
    server.sessions = [
        session(later, later, tran_count=100, end_lsn=at(0x60), last_commit=at(0x30))
    ]
    assert source.reached(fence) is None
    server.sessions = [session(later, None, end_lsn=at(0x60), number=9)]
    assert source.reached(fence) is None, "it runs"
    server.sessions = [session(later, later, end_lsn=at(0x60), errors=1, number=9)]
    assert source.reached(fence) is None, "it failed"


def test_a_clock_that_was_set_back_moves_no_fence():
    server = Server(log_end=at(0x50), mapping=[(at(0x40), NOON + 3000 * SECOND)])
    source = fences(server)
    fence = source.mark(OURS)

    server.sessions = [session(NOON + 3600 * SECOND, NOON + 3600 * SECOND, tran_count=3)]
    assert source.reached(fence) is None


def test_a_readable_secondary_has_no_sessions_and_its_mapping_reaches_the_fence():
    server = Server(log_end=at(0x50), mapping=[(at(0x40), NOON)])
    source = fences(server)
    fence = source.mark(OURS)

    assert source.reached(fence) is None
    server.mapping.append((at(0x50), NOON))
    assert source.reached(fence) == at(0x50)


OLD = SourceError("Invalid object name 'sys.dm_db_log_stats'.", number=208)
DENIED = PermissionMissing("VIEW SERVER PERFORMANCE STATE permission was denied", number=300)


@pytest.mark.parametrize("error", [OLD, DENIED])
def test_where_the_end_of_the_log_is_not_told_time_is_asked_behind_our_position(error: SourceError):
    server = Server(log_end_error=error, mapping=[(OURS, NOON + 3000 * SECOND)])
    source = fences(server)
    fence = source.mark(OURS)

    assert fence.log_end is None
    assert source.reached(fence) is None, "what is out already is later by its clock only"
    server.mapping.append((at(0x20), NOON + SECOND))
    assert source.reached(fence) == at(0x20)


def test_in_time_an_unknown_bound_means_that_a_session_with_transactions_left_some():
    server = Server(log_end_error=OLD, maxtrans=None, mapping=[(at(0x20), NOON - SECOND)])
    source = fences(server)
    fence = source.mark(OURS)

    server.sessions = [session(NOON + SECOND, NOON + SECOND, tran_count=100)]
    assert source.reached(fence) is None
    server.sessions = [session(NOON + SECOND, NOON + SECOND, empty=1, number=9)]
    assert source.reached(fence) == at(0x20)


def test_in_time_a_bound_that_is_known_tells_whether_the_log_was_drained():
    server = Server(log_end_error=OLD, maxtrans=100, mapping=[(at(0x20), NOON - SECOND)])
    source = fences(server)
    fence = source.mark(OURS)

    server.sessions = [session(NOON + SECOND, NOON + SECOND, tran_count=100)]
    assert source.reached(fence) is None
    server.sessions = [session(NOON + SECOND, NOON + SECOND, tran_count=99, last_commit=at(0x20))]
    assert source.reached(fence) == at(0x20)


def test_a_login_that_sees_nothing_waits_for_a_later_entry():
    server = Server(log_end_error=DENIED, session_error=DENIED)
    source = fences(server)
    fence = source.mark(OURS)

    assert source.reached(fence) is None
    server.mapping.append((at(0x20), NOON + SECOND))
    assert source.reached(fence) == at(0x20)


def test_a_server_that_does_not_answer_is_no_server_that_does_not_tell():
    source = fences(Server(log_end_error=SourceUnavailable("gone", number=10054)))

    with pytest.raises(SourceUnavailable):
        source.mark(OURS)


def test_a_form_of_lsn_that_is_not_known_is_not_guessed_at():
    server = Server(mapping=[(at(0x20), NOON + SECOND)])
    server.query = _decimal(server)  # type: ignore[method-assign]
    source = fences(server)
    fence = source.mark(OURS)

    assert fence.log_end is None


def _decimal(server: Server) -> Any:
    asked = server.query

    def query(sql: str, *parameters: Any) -> list[Any]:
        if "dm_db_log_stats" in sql:
            return [("34:2616:1", 16.0)]
        return asked(sql, *parameters)

    return query


def test_bytes_behind_are_told_within_a_file_and_estimated_over_several():
    assert LogEnd(at(0x50), None).bytes_behind(at(0x10)) == 0x40 * 512
    assert LogEnd(Lsn(3, 0x10, 1), 1000).bytes_behind(at(0x10)) == 2000
    assert LogEnd(Lsn(3, 0x10, 1), None).bytes_behind(at(0x10)) is None
    assert LogEnd(at(0x10), None).bytes_behind(at(0x50)) == 0
