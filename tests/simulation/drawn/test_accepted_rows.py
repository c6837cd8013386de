"""Random histories before and after a restore: the repair makes topics equal the database.

From the LSN of the repair on every cut must equal the new history, whatever both sides changed, and
wherever command and publisher were killed. A table that cannot be repaired gets a snapshot.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tailrace_publisher.runtime import Step
from tailrace_publisher.snapshot.lost_keys import LostKeys
from tailrace_schemas.position.lsn import Lsn
from tests.simulation.ports import replaced
from tests.simulation.scripted.script import Script

_TABLES = ("busy", "calm")
_IDS = range(6)
_STEPS = (Step.SENT, Step.BEFORE_COMMIT, Step.COMMITTED, Step.HEARTBEAT)
_DRAWN = {"snapshot": {"mode": "initial", "chunk_rows": 2, "tables_at_once": 2}}


@dataclass
class Story:
    """A database and its publisher, drawn from a seed.

    Attributes:
        states: rows of each table after each commit of the new history.
        begun: LSN from which on events of a table count, because a snapshot replaced those before.
    """

    seed: int
    script: Script = field(default_factory=lambda: Script(**_DRAWN))
    states: list[tuple[Lsn, dict[str, dict[int, int]]]] = field(default_factory=list)
    begun: dict[str, Lsn] = field(default_factory=lambda: dict.fromkeys(_TABLES, Lsn.ZERO))

    def __post_init__(self) -> None:
        """Publish two tables with their snapshots."""
        self.rng = random.Random(self.seed)
        for name in _TABLES:
            self.script.create(name, *self.rng.sample(_IDS, 3))
        self.script.publish(lambda: not self.script.out_of_cut())

    def change(self) -> None:
        """One transaction of any kind; the captured LSN and the rows after it are noted."""
        table = self.rng.choices(_TABLES, (4, 1))[0]
        number = self.rng.choice(_IDS)
        if number not in self.script.source_notes(table):
            self.script.insert(table, number)
        elif self.rng.random() < 0.4:
            self.script.delete(table, number)
        else:
            self.script.update(table, number, self.rng.randrange(5))
        self.script.scan()
        rows = {name: self.script.source_notes(name) for name in _TABLES}
        self.states.append((self.script.newest, rows))

    def published(self, changes: int) -> None:
        """Changes that a life publishes, perhaps one that is killed."""
        for _ in range(changes):
            self.change()
        if self.rng.random() < 0.5:
            self.script.die_at(self.rng.choice(_STEPS))
        self.script.publish()

    def restore(self) -> Lsn:
        """A restore, and changes until the log is past what was published; gives that LSN."""
        self.published(self.rng.randrange(1, 6))
        restore = self.script.backup()
        for _ in range(self.rng.randrange(1, 4)):
            self.published(self.rng.randrange(1, 5))
        through = Lsn.parse(self.script.progress()[-1].closed_lsn)
        restore()
        self.states.clear()
        while self.script.newest <= through:
            self.change()
        for _ in range(self.rng.randrange(3)):
            self.change()
        return through

    def clean(self, through: Lsn) -> None:
        """Perhaps cleanup of some tables, up to an LSN that was published before."""
        for table in self.rng.sample(_TABLES, self.rng.choice((0, 0, 0, 1, 2))):
            own = [lsn for lsn in self.script.commits(f"dbo_{table}") if lsn <= through]
            low = self.rng.choice([*own[-2:], through])
            self.script.clean(f"dbo_{table}", low=low)

    def accept(self) -> None:
        """The acceptance, killed at some call, perhaps, and then once more."""
        self.script.die_accepting(self.rng.randrange(1, 60))
        self.script.accept(repair=True)

    def settle(self, through: Lsn) -> None:
        """Lives until all tables are whole; the first ones are killed, and tables change."""
        records = len(self.script.progress())
        for _ in range(self.rng.randrange(3)):
            self.script.die_after(self.rng.randrange(20, 400))
            self.change()
        self.script.publish(during=self.change, at=self.rng.choice((*_STEPS, Step.WINDOW)))
        self.script.publish(lambda: self._is_equal(records, through))

    def _is_equal(self, records: int, through: Lsn) -> bool:
        for table in _TABLES:
            if any(self.script.has_been_out_of_cut(table)[records:]):
                self.begun[table] = through
        newest = dict.fromkeys(_TABLES, self.script.newest)
        return not self.script.out_of_cut() and not any(self.differences(newest))

    def differences(self, first: Mapping[str, Lsn]) -> Iterator[str]:
        """Cuts, of each table from an LSN on, that are not the database's."""
        for lsn, rows in self.states:
            for table in _TABLES:
                found = self.script.lake(table, lsn, self.begun[table])
                if lsn >= first[table] and found != rows[table]:
                    yield f"{table} at {lsn}: {found}, not {rows[table]}"


@pytest.mark.parametrize("seed", range(16))
def test_every_cut_from_the_repair_on_equals_the_new_history(seed: int) -> None:
    story = Story(seed)
    for _ in range(2):
        through = story.restore()
        story.clean(through)
        story.accept()
        if seed % 4 == 3:
            story.clean(through)  # between the acceptance and the repair
        story.settle(through)
        whole = {table: max(story.script.read_at(table), through) for table in _TABLES}
        assert list(story.differences(whole)) == []


def test_tables_stay_in_the_cut_where_nothing_was_cleaned_up() -> None:
    for seed in range(4):
        story = Story(seed)
        through = story.restore()
        records = len(story.script.progress())
        accepted = story.script.accept(repair=True)
        assert accepted.concerned
        assert not accepted.again
        story.settle(through)
        assert not any(story.script.has_been_out_of_cut("busy")[records:])


def _no_keys(self: LostKeys, *_: Any) -> list[Any]:
    self._next = self._start_of(len(self._partitions), 0)
    return []


def _no_changes(self: LostKeys, *_: Any) -> list[Any]:
    self._has_ended = True
    return []


_MUTANTS = {
    "lost changes left out": ("_of_topic", _no_keys),
    "own left out": ("_of_changes", _no_changes),
}


@pytest.mark.parametrize("name", _MUTANTS)
def test_a_repair_that_leaves_rows_out_is_found(name: str) -> None:
    where, wrong = _MUTANTS[name]
    script = Script()
    for table in _TABLES:
        script.create(table, 1, 2, 3)
    script.publish(lambda: not script.out_of_cut())
    restore = script.backup()
    for note in range(5):
        script.update("busy", 1, note)
    script.publish()
    restore()
    script.update("busy", 2, 7)
    script.scan()
    through = Lsn.parse(script.progress()[-1].closed_lsn)
    while script.newest <= through:
        script.insert("calm", len(script.source_notes("calm")) + 10)
        script.scan()
    with replaced(LostKeys, where, wrong):
        assert not script.accept(repair=True).again
        script.publish()
        script.publish()
    assert script.lake("busy") != script.source_notes("busy")
