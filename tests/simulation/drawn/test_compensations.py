"""Random histories before and after a restore: the compensation makes topics equal the database.

From the last published LSN on every cut must equal the new history, whatever both sides changed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tailrace_publisher.change.row_histories import RowHistory
from tailrace_publisher.daemon.offline import compensating
from tailrace_publisher.runtime import Step
from tailrace_publisher.source.log.queries import max_lsn
from tailrace_schemas.position.lsn import Lsn
from tests.simulation.ports import replaced
from tests.simulation.scripted.script import Script

_TABLES = ("busy", "calm")
_IDS = range(6)
_STEPS = (Step.SENT, Step.BEFORE_COMMIT, Step.COMMITTED, Step.HEARTBEAT)


@dataclass
class Story:
    """A database and its publisher, drawn from a seed.

    Attributes:
        states: rows of each table after each commit of the new history.
    """

    seed: int
    script: Script = field(default_factory=Script)
    states: list[tuple[Lsn, dict[str, dict[int, int]]]] = field(default_factory=list)

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

    def differences(self, through: Lsn) -> list[str]:
        """Cuts from an LSN on that are not the database's."""
        self.script.publish()
        at_fork = [rows for lsn, rows in self.states if lsn <= through]
        cuts = [(through, at_fork[-1])] if at_fork else []
        cuts += [(lsn, rows) for lsn, rows in self.states if lsn > through]
        return [
            f"{table} at {lsn}: {found}, not {rows[table]}"
            for lsn, rows in cuts
            for table in _TABLES
            if (found := self.script.lake(table, lsn)) != rows[table]
        ]


@pytest.mark.parametrize("seed", range(10))
def test_every_cut_after_a_compensation_equals_the_new_history(seed: int) -> None:
    story = Story(seed)
    for _ in range(2):
        through = story.restore()
        shown = story.script.compare(compensate=True)
        assert not shown.again
        calls = story.rng.randrange(1, 60)
        if not story.script.die_accepting(calls):
            shown = story.script.compare(compensate=True)
        accepted = story.script.accept(compensate=True)
        assert not accepted.again
        assert story.differences(through) == []
        assert not any(story.script.has_been_out_of_cut("busy")[5:])


def _later(versions: Callable[..., Any]) -> Callable[..., Any]:
    """Publish at the newest LSN of the database, over its newer changes."""

    def version(self: Any, *facts: Any) -> Any:
        instance, schema = versions(self, *facts)
        encoder, newest = self._versions.encoder(schema.table, schema), max_lsn(self._connection)
        write = encoder.compensating_events
        encoder.compensating_events = lambda changes, _, *more: write(changes, newest, *more)
        return instance, schema

    return version


_MUTANTS = {
    "over newer changes": ("_version", _later),
    "own changes left out": ("_own", lambda _: lambda *_: RowHistory()),
    "lost changes left out": ("_lost", lambda _: lambda *_: RowHistory()),
}


@pytest.mark.parametrize("name", _MUTANTS)
def test_a_wrong_compensation_is_found(name: str) -> None:
    where, wrong = _MUTANTS[name]
    compensator = compensating.Compensator
    with replaced(compensator, where, wrong(getattr(compensator, where))):
        for seed in range(6):
            story = Story(seed)
            through = story.restore()
            story.script.accept(compensate=True)
            if story.differences(through):
                return
    raise AssertionError("no seed finds it")
