"""The end of a run: after the last step nothing disturbs the publisher, and it must catch up.

Everything is mended, and the publisher must have everything out within a bounded number of calls
(liveness). Then it is killed and started once more, and must catch up again. That start reads
nothing of a table that was stopped for a gap; a signal has all stopped tables read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from tailrace_schemas.records.signals import PauseSignal, TableOrder, TableSignal
from tests.simulation.sqlserver.database import TIME_MARK
from tests.simulation.world import Finding

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

CATCH_UP_TICKS_MAX: Final = 20_000
"""Calls within which a publisher that nothing disturbs must have everything out."""
_LOOK_TICKS: Final = 200
"""Calls after a start within which a publisher has stopped tables whose rows were switched."""
_ASKINGS_MAX: Final = 4


class Phase(IntEnum):
    """What the end has come to."""

    STEPS = 0
    """There are steps left."""
    MENDED = 1
    """The publisher catches up as it is."""
    RESTARTED = 2
    """It was started once more."""
    ASKED = 3
    """New snapshots of the tables that are stopped were asked for."""


@dataclass(slots=True)
class Ending:
    """What is waited for, and how long."""

    sim: Simulation
    phase: Phase = Phase.STEPS
    _began: int = 0
    _target: bytes = b""
    _askings: int = 0
    _still_stopped: set[str] = field(default_factory=set)
    _has_started: bool = False

    @property
    def has_begun(self) -> bool:
        """Whether no step is left."""
        return self.phase > Phase.STEPS

    def tick(self) -> None:
        """Mend, wait, start once more, and ask for what is stopped.

        Raises:
            Finding: the publisher does not catch up, or a start reads what it must not.
        """
        sim = self.sim
        if not self.has_begun:
            self._mend()
            self._begin(Phase.MENDED)
        if sim.world.ticks % 8 == 0:
            sim.scan(marks_time=sim.world.ticks % self._mark_ticks() == 0)
        entries = reversed(sim.group.database.mapping)  # ascending
        self._target = next((e.start_lsn for e in entries if e.tran_id != TIME_MARK), b"")
        if self._has_caught_up():
            self._pass_on(self._stopped())
        elif sim.world.ticks - self._began > CATCH_UP_TICKS_MAX:
            if sim.excuses.looks_behind():
                sim.end()
                return
            raise Finding(f"it does not catch up: {self._what_is_missing()}")

    def _mark_ticks(self) -> int:
        """Calls between two time marks.

        One is really made every five minutes, so that a publisher has passed it before the next.
        Here they come often, as they are waited for, but not faster than they are passed.
        """
        sim = self.sim
        newest = sim.group.database.mapping[-1:]
        is_passed = not newest or sim.published.closed >= newest[0].start_lsn
        return 40 if is_passed and not sim.scenario.around.call_s else 400

    def _pass_on(self, stopped: set[str]) -> None:
        """The publisher has caught up: what comes next?"""
        sim = self.sim
        if self.phase is Phase.MENDED:
            self._begin(Phase.RESTARTED)
            sim.kill_in = 0
            sim.told.starts.clear()
            self._has_started = False
            self._still_stopped = stopped & self._gaps()
        elif not self._still_stopped <= stopped:
            raise Finding(f"a start read again: {sorted(self._still_stopped - stopped)}")
        elif stopped and self._askings < _ASKINGS_MAX:
            self._begin(Phase.ASKED)
            self._askings += 1
            self._still_stopped = set()
            sim.excuses.halted.clear()
            for topic in sorted(stopped):
                sim.signals.ask_for(topic.rpartition(".")[2])
        else:
            sim.end()

    def _begin(self, phase: Phase) -> None:
        self.phase, self._began = phase, self.sim.world.ticks

    def _mend(self) -> None:
        sim = self.sim
        features = sim.source.features
        features.refused.clear()
        features.filtered.clear()
        features.has_unmask = True
        features.sees_state = sim.scenario.around.sees_state
        features.sees_server_state = sim.scenario.around.sees_log
        sim.source.errors.clear()
        sim.source.busy.clear()
        sim.source.locked = 0
        sim.slow_calls, sim.lane.free_at = 0, 0.0
        sim.source.login_errors.clear()
        sim.source.torn_reads = 0
        sim.source.row_refusals = sim.source.late_declines = 0
        sim.is_capture_stopped = False
        sim.not_hardening.clear()
        sim.not_redoing.clear()
        for replica in sim.group.replicas:
            replica.is_up = True
            sim.group.resume(replica)
        sim.broker.holds_markers = False
        sim.broker.write_markers()
        sim.signals.send(PauseSignal(False))
        sim.signals.send(TableSignal(TableOrder.RESUME_SNAPSHOT))
        sim.faults.__init__()  # type: ignore[misc]
        sim.world.advance(sim.told.next_look_in_s)  # more polls than a run may have

    # -- has it caught up? -------------------------------------------------------------------------

    def _has_caught_up(self) -> bool:
        sim = self.sim
        if sim.told.starts and sim.told.starts[-1] >= sim.life_began:
            self._has_started = True
        if not {t for t in self._gaps() if self._is_captured(t)} <= sim.published.named:
            return False  # what this life has stopped is named by its next record
        if sim.told.restarted or not self._has_looked():
            return False  # what was noticed is told by the next record
        published = sim.published
        if published.newest is None or published.closed < self._target:
            return False
        if published.signals < sim.signals.count or self._patches():
            return False
        if self.phase >= Phase.RESTARTED and not self._has_started:
            return False
        return all(self._is_excused(topic) for topic in published.named)

    def _has_looked(self) -> bool:
        """Whether this life has had the calls in which it notices switches."""
        sim = self.sim
        return not sim.switches or sim.world.ticks - sim.life_began >= _LOOK_TICKS

    def _gaps(self) -> set[str]:
        """Topics of tables that this life has stopped for a gap; a start tells of them again."""
        told = self.sim.told
        return {t for t in told.gaps if told.stopped[t] >= self.sim.life_began}

    def _patches(self) -> list[str]:
        """Topics of tables of which rows are still to be read again."""
        published = self.sim.published
        topics = {f"sim.shop.dbo.{name}" for name in published.patches} - published.named
        return sorted(topic for topic in topics if self._is_captured(topic))

    def _is_excused(self, topic: str) -> bool:
        """Whether a table may be stopped, and was told to be; by the last start, too.

        One that is not captured any more waits until it is.
        """
        name, excuses = topic.rpartition(".")[2], self.sim.excuses
        if not self._is_captured(topic) or name in excuses.halted:
            return True
        told_at = self.sim.told.stopped.get(topic, -1)
        return name in excuses.tables and (
            self.phase is Phase.MENDED or (told_at > self._began and self._askings < _ASKINGS_MAX)
        )

    def _stopped(self) -> set[str]:
        """The topics of tables that are captured and not part of the cut."""
        return {topic for topic in self.sim.published.named if self._is_captured(topic)}

    def _is_captured(self, topic: str) -> bool:
        database, name = self.sim.group.database, topic.rpartition(".")[2]
        return any(
            table.name == name and database.instances_of(table.object_id)
            for table in database.tables.values()
        )

    def _what_is_missing(self) -> str:
        published = self.sim.published
        return (
            f"phase {self.phase.name}, closed {published.closed.hex()} of {self._target.hex()},"
            f" not in the cut {sorted(published.named)}, to be patched"
            f" {self._patches()}"
        )
