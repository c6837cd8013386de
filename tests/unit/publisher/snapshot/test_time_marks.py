"""A window is not closed at a time mark below which a commit may still be captured."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

import numpy as np
import pytest

from tailrace_publisher.errors import PermissionMissing
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.blocks.commit_columns import Raw
from tailrace_publisher.source.pages.commits_ahead import CommitsAhead
from tailrace_schemas.position.lsn import Lsn

NOON = datetime(2026, 11, 29, 12, 0, 0)  # noqa: DTZ001
MARK = b"\x00"
TRAN = b"\x01\x02"


def at(block: int) -> Lsn:
    return Lsn(1, block, 0)


@dataclass
class Server:
    """The mapping, as block and tran_id, and the count of empty scans of its only session row."""

    entries: dict[int, bytes]
    empty_scans: int = 1
    end_block: int = 0
    has_groups: bool = False
    is_refusing: bool = False
    now: datetime = NOON
    asked: list[str] = field(default_factory=list)

    @property
    def newest(self) -> bytes:
        return at(max(self.entries)).to_bytes()

    def query_sets(self, sql: str) -> list[list[Any]]:
        assert "dm_cdc_log_scan_sessions" in sql
        if self.is_refusing:
            raise PermissionMissing("no", number=300)
        end = str(at(self.end_block))
        row = (7, NOON, NOON, 0, self.empty_scans, 0, 0, end, None, None, None)
        commits = [b for b, tran in self.entries.items() if tran != MARK]
        newest = [(at(max(commits)).to_bytes(),)] if commits else []
        return [[(self.now,)], [row], [(self.newest,)], newest]

    def query(self, sql: str, *parameters: Any) -> list[Any]:
        if "IsHadrEnabled" in sql:
            return [(int(self.has_groups),)]
        if "fn_cdc_get_max_lsn" in sql:
            return [(self.newest,)]
        assert "lsn_time_mapping" in sql
        self.asked.append(sql)
        limit, first = parameters[0], parameters[-1]
        found = [(at(b).to_bytes(), NOON, tran) for b, tran in sorted(self.entries.items())]
        return [row for row in found if row[0] >= first][:limit]


@pytest.fixture
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as one:
        yield one


class Commits:
    """What windows are planned with."""

    def __init__(self, server: Server, executor: Executor) -> None:
        self.ahead = CommitsAhead(cast(Connection, server), executor)

    def take(self, first: int = 1, limit: int = 10) -> list[int]:
        commits, _ = self.ahead.take(at(first), limit, None)
        return [Lsn.from_bytes(raw).block for raw in commits.lsns]


def test_a_mark_at_the_end_waits_for_a_later_scan_that_found_nothing(executor: Executor):
    server = Server({1: TRAN, 5: MARK})
    commits = Commits(server, executor)

    assert commits.take() == [1]
    server.empty_scans += 1
    assert commits.take() == [1], "this scan may have begun before the mark was seen"
    server.empty_scans += 1
    assert commits.take() == [1, 5]
    server.is_refusing = True
    assert commits.take() == [1, 5], "nobody asks again"


def test_what_is_captured_below_a_mark_is_read_before_the_mark_is_passed(executor: Executor):
    server = Server({1: TRAN, 5: MARK})
    commits = Commits(server, executor)

    assert commits.take() == [1]
    server.entries[4] = TRAN
    assert commits.take() == [1, 4]
    server.entries[6] = TRAN
    assert commits.take() == [1, 4, 5, 6]


def test_marks_that_are_followed_are_read_again_once(executor: Executor):
    """Under locks one statement may pass a gap before an entry is added there, and see a later."""
    server = Server({1: TRAN, 3: MARK, 4: TRAN, 6: MARK, 7: TRAN})
    commits = Commits(server, executor)

    assert commits.take() == [1, 3, 4, 6, 7]
    assert len(server.asked) == 2
    assert commits.take() == [1, 3, 4, 6, 7]
    assert len(server.asked) == 3


def test_of_several_marks_only_the_last_is_held_back(executor: Executor):
    commits = Commits(Server({1: TRAN, 3: MARK, 6: MARK}), executor)

    assert commits.take() == [1, 3]


def test_an_answer_that_ends_with_a_mark_is_continued(executor: Executor):
    server = Server({2: MARK, 5: TRAN})
    commits = Commits(server, executor)

    assert commits.take(limit=1) == [2], "the newest LSN shows a later entry"


def test_without_sessions_a_mark_waits_for_the_next_entry(executor: Executor):
    server = Server({2: MARK}, is_refusing=True)
    commits = Commits(server, executor)

    assert commits.take() == []
    server.entries[7] = MARK
    assert commits.take() == [2]


def test_a_log_reader_that_waits_for_replicas_must_have_read_up_to_the_mark(executor: Executor):
    server = Server({2: MARK}, has_groups=True, end_block=1)
    commits = Commits(server, executor)

    assert commits.take() == []
    server.empty_scans += 2
    assert commits.take() == []
    server.end_block = 2
    assert commits.take() == [2]


def test_a_session_that_began_before_the_mark_was_seen_proves_nothing(executor: Executor):
    server = Server({2: MARK}, now=NOON + timedelta(hours=1))
    commits = Commits(server, executor)

    assert commits.take() == commits.take() == []


def test_marks_are_found_in_blocks():
    cells = np.zeros((3, 10), np.uint8)
    cells[0, :2] = (1, 2)
    with_mark = Raw(cells, np.array([2, -1, 1]))

    assert MARK in with_mark
    assert TRAN in with_mark
    assert MARK not in with_mark[:2]
    assert b"\x01" not in with_mark
