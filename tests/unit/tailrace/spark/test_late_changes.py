"""Changes that close an LSN again: a follower has each once, whatever it has reached by then."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tailrace import lake
from tailrace.spark import source as of_spark
from tailrace.spark.errors import StreamBroken
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tailrace_sink.errors import ChangesUnknown
from tests.envelopes.tables import SourceTable, column
from tests.envelopes.transaction import Transaction
from tests.unit.tailrace.spark.test_source import KEY, Query, V
from tests.unit.tailrace.spark.written_log import WrittenLog

pytestmark = pytest.mark.guarantee(15)


@dataclass
class Story:
    """A log that gets commits, repairs and patches, with the cut of the log that brought each."""

    log: WrittenLog
    tables: list[SourceTable]
    events: list[tuple[int, str, int]] = field(default_factory=list)
    """Number in ``v``, LSN and batch of each."""

    @classmethod
    def of(cls, path: Path, tables: int = 1) -> Story:
        log = WrittenLog(path / "lake")
        story = cls(log, [log.table(name, KEY, V) for name in ("t", "other")[:tables]])
        for _ in range(tables):
            story.commit()
        return story

    def commit(self, _table: int = 0) -> str:
        return self._append(self.log.next_lsn(), self._change)

    def repair(self, table: int = 0) -> str:
        """A row after all changes of the LSN that was closed last."""

        def message(number: int, lsn: Lsn) -> list[Any]:
            row = {"id": 0, "v": number}
            last = Lsn(0, number, 1)
            place = ChangePosition(lsn, 0x7FFFFFFF, last, Operation.UPDATE_AFTER)
            return [self.log.message(self.tables[table], "u", row, row, place)]

        return self._append(Lsn.parse(self.log.closed), message)

    def patch(self, table: int = 0) -> str:
        """A row before all changes of the LSN that was closed last."""

        def message(number: int, lsn: Lsn) -> list[Any]:
            place = ChangePosition.of_snapshot(lsn)
            row = {"id": number, "v": number}
            return [self.log.message(self.tables[table], "u", None, row, place)]

        return self._append(Lsn.parse(self.log.closed), message)

    def idle(self, _table: int = 0) -> None:
        self.log.append([], self.log.closed)

    def id(self) -> str:
        """The newest cut of the log."""
        return f"{self.log.closed}@{self.log.batch}"

    def had(self, cut: str) -> list[int]:
        """The changes that a cut has; the first one that closes an LSN, without a batch."""
        lsn, _, batch = cut.partition("@")
        return sorted(v for v, of, by in self.events if of <= lsn and by <= int(batch))

    def changes(self, **points: str | None) -> list[int]:
        found: list[int] = []
        opened = lake.open(str(self.log.lake))
        for table in self.tables:
            rows = opened.changes(table.name, **points)
            found += [row["after"]["v"] for row in rows.to_pylist()]
        return sorted(found)

    def _change(self, number: int, lsn: Lsn) -> list[Any]:
        transaction = Transaction(self.log, lsn)  # type: ignore[arg-type] # what it needs
        transaction.insert(self.tables[number % len(self.tables)], id=number, v=number)
        return transaction.messages

    def _append(self, lsn: Lsn, message: Callable[[int, Lsn], list[Any]]) -> str:
        number = len(self.events)
        self.log.append(message(number, lsn), str(lsn))
        self.events.append((number, str(lsn), self.log.batch))
        return str(lsn)


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    """The number of each change, of a stream of one table or of several."""
    return [(row[row["table"]] if "table" in row else row)["after"]["v"] for row in rows]


@pytest.mark.slow("each look of three followers reads the log from its files")
@pytest.mark.parametrize("tables", [1, 2])
@pytest.mark.parametrize("seed", range(2))
def test_whoever_follows_has_each_change_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tables: int, seed: int
):
    """A stream over restarts and repeated micro-batches; polls by ids of cuts, and by LSNs."""
    monkeypatch.setattr(of_spark, "_EVENTS_OF_A_TASK", 2)
    chance = random.Random(seed)
    story = Story.of(tmp_path, tables)
    names = json.dumps([f"dbo.{table.name.table}" for table in story.tables])
    query = Query(story.log, names)
    streamed: list[int] = []
    polled: list[int] = []
    by_lsn: list[int] = []
    reached: str | None = None
    lsn: str | None = None
    for _ in range(20):
        table = chance.randrange(tables)
        act = (story.commit, story.repair, story.patch, story.idle)[chance.choice((0, 0, 1, 2, 3))]
        act(table)
        if chance.random() < 0.5:
            start, end = query.planned()
            if chance.random() < 0.3:
                query.rows(start, end)  # It fails, and is repeated after more has come.
                query.restart()
                story.repair(table)
            streamed += numbers(query.rows(start, end))
            query.offset = end
            at = json.loads(end)
            assert sorted(streamed) == story.had(f"{at['lsn']}@{at['batch']}")
        if chance.random() < 0.3:
            query.restart()
        if chance.random() < 0.3:
            cut = story.id()
            polled += story.changes(after=reached, up_to=cut)
            reached = cut
            assert sorted(polled) == story.had(cut)
        if chance.random() < 0.2:
            to = story.id().partition("@")[0]
            by_lsn += story.changes(after=lsn, up_to=to)
            lsn = to
            assert len(set(by_lsn)) == len(by_lsn)
        if tables == 1 and reached is not None and lsn is not None and chance.random() < 0.2:
            at = json.loads(query.offset or "")
            had = min(at["batch"], int(reached.partition("@")[2]))
            first = min((by for _, of, by in story.events if of >= lsn), default=had)
            story.log.forget(f"batch < {min(had, first)}")
    story.commit()
    streamed += numbers(query.run())
    polled += story.changes(after=reached)
    by_lsn += story.changes(after=lsn, up_to=story.id())
    assert sorted(streamed) == sorted(polled) == sorted(by_lsn) == story.had(story.id())


def test_a_repair_of_an_idle_database_comes_at_once(tmp_path: Path):
    story = Story.of(tmp_path)
    query = Query(story.log, after="latest")
    reached, lsn = story.id(), story.log.closed
    story.repair()
    assert numbers(query.run()) == [1]
    assert query.run() == []
    assert story.changes(after=reached) == [1]
    assert story.changes(after=lsn) == [1]
    assert story.changes(after=story.id()) == []


def test_what_an_lsn_alone_means_stays(tmp_path: Path):
    """Its first cut, as an end and as a start."""
    story = Story.of(tmp_path)
    story.commit()
    first = story.log.closed
    assert story.changes(up_to=first) == [0, 1]
    story.repair()
    story.patch()
    assert story.changes(up_to=first) == [0, 1]
    assert story.changes(after=first, up_to=first) == []
    story.commit()
    assert story.changes(after=first) == [2, 3, 4]
    assert story.changes(up_to=first) == [0, 1]
    assert story.changes(after=first, up_to=f"{first}@3") == [2]


def test_an_offset_of_an_earlier_release_had_the_first_cut_at_its_lsn(tmp_path: Path):
    """That release read no later one, so its query now gets what it was never given."""
    story = Story.of(tmp_path)
    story.commit()
    query = Query(story.log)
    _, end = query.planned()
    story.repair()
    story.commit()
    old = {name: of for name, of in json.loads(end).items() if name in ("log", "lsn", "commit_ms")}
    first = {**old, "since": "", "began": json.loads(end)["began"].partition("@")[0]}
    assert numbers(query.rows(json.dumps({**old, "lsn": ""}), json.dumps(first))) == [0, 1]
    assert query.rows(json.dumps(old), json.dumps(old)) == []
    query.offset = json.dumps(old)
    query.restart()
    assert numbers(query.run()) == [2, 3]


def test_a_log_without_the_first_cut_at_an_lsn_says_so(tmp_path: Path):
    """Days of the log went, so it no longer knows what an LSN alone means."""
    story = Story.of(tmp_path)
    lsn, before = story.commit(), story.id()
    query = Query(story.log, after=before)
    story.repair()
    had = story.id()
    late = Query(story.log, after=had)
    story.repair()
    story.commit()
    story.log.forget(f"batch < {story.log.batch - 2}")
    for after in (lsn, before):
        with pytest.raises(ChangesUnknown, match=rf"starts at LSN {had}.*after LSN {had}"):
            story.changes(after=after)
    with pytest.raises(StreamBroken, match=rf"starts at LSN {had}"):
        query.run()
    assert story.changes(after=had) == numbers(late.run()) == [3, 4]


def test_a_table_with_new_columns_is_followed_over_a_repair(tmp_path: Path):
    story = Story.of(tmp_path)
    story.log.alter(story.tables[0], KEY, V, column(3, "more", "int"))
    lsn = story.commit()
    story.repair()
    assert story.changes(after=lsn) == [2]
