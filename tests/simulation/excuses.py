"""What is no fault of the publisher: tables that may be stopped, errors that may end it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tailrace_publisher.errors import (
    CheckpointLost,
    DatabaseReplaced,
    ForeignRecords,
    LsnWentBackwards,
    PermissionMissing,
    PositionExpired,
    PreflightError,
    PublisherError,
    PublisherReplaced,
    ReplicaBehind,
    RowsSwitched,
    TableFailed,
    ValuesHidden,
)
from tailrace_publisher.options.source import ApplicationIntent
from tests.simulation.judge.lines import captured, holds
from tests.simulation.sqlserver.rows import Instance

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

_OF_TABLES: Final = (
    PositionExpired,
    RowsSwitched,
    PermissionMissing,
    PreflightError,
    ForeignRecords,
    ValuesHidden,
)
_STRAYS_MAX: Final = 2
"""Records of another producer in a topic that cost retries; more of them may stop its table."""


@dataclass(slots=True)
class Excuses:
    """What happened that a publisher cannot help.

    Attributes:
        reasons: why a table may be stopped, by its name.
        halted: tables whose snapshots operators stopped, by name, until they ask for new ones.
        has_lost_end: whether brokers lost the end of a checkpoint, which a start must notice.
        fell_behind: whether a restore ever took away that published transactions were captured.
    """

    sim: Simulation
    reasons: dict[str, list[str]] = field(default_factory=dict)
    halted: set[str] = field(default_factory=set)
    fell_behind: bool = False
    has_lost_end: bool = False

    def add(self, table: str, reason: str) -> None:
        """A table may be stopped from now on."""
        self.reasons.setdefault(table, []).append(reason)

    def add_uncovered(self, instance: Instance) -> None:
        """An instance goes: may its table be stopped for it?

        One that is left and has no command ids has a transaction in another order, which shows if a
        part of it was published. Of a newer one that is gone nobody knows whether it had them.
        """
        database, position = self.sim.group.database, self.sim.published.position

        def goes_on(other: Instance) -> bool:
            if other.is_ordered_by_command_id:
                return True
            may_be_read = other.enabled_lsn < instance.enabled_lsn <= position
            return not (instance.is_ordered_by_command_id or may_be_read)

        others = [i for i in database.instances_of(instance.source) if i is not instance]
        there = [i for i in others if i.start_lsn is not None and i.enabled_lsn <= position]
        if not any(map(goes_on, there)):
            name = database.tables[instance.source].name
            self.add(name, f"{instance.name} was disabled before its changes were out")

    def leave_line(self, happen: Callable[[], None]) -> None:
        """The database goes on from an earlier point of its log; open transactions end there."""
        sim = self.sim
        sim.reserved = []
        happen()
        # A restore may keep transactions and lose that they were captured. The capture job comes to
        # the same LSNs again; whoever looks before it has cannot know.
        self.look()

    def look(self) -> None:
        """Note whether the database is behind what was published on a line that it left.

        A transaction of Kafka may have been open then, and be committed afterwards.
        """
        self.fell_behind |= bool(self.sim.group.lines) and self._is_behind()

    def _is_behind(self) -> bool:
        """Whether less is captured than what was published."""
        return self.sim.group.captured() < self.sim.published.position

    @property
    def tables(self) -> set[str]:
        """Names of tables that may be stopped."""
        strays = self.sim.broker.strays.items()
        return {
            *self.reasons,
            *(topic.rpartition(".")[2] for topic, count in strays if count > _STRAYS_MAX),
        }

    def is_of_another_line(self, error: PublisherError) -> bool:
        """Whether the database is another one or left the line, or the checkpoint lost its end."""
        if isinstance(error, CheckpointLost):
            return self.has_lost_end
        if isinstance(error, LsnWentBackwards) and self.fell_behind:
            return True
        if isinstance(error, DatabaseReplaced) and self._is_fork_unprovable():
            return True
        # A secondary of a primary with another history looks like one that is behind, for good.
        of_line = DatabaseReplaced | LsnWentBackwards | ReplicaBehind
        return isinstance(error, of_line) and self._is_line_left()

    def _is_fork_unprovable(self) -> bool:
        """Whether a line began at a published LSN, whose entry cleanup has removed since.

        Which line the record at a fork point is of is not documented, and nothing else shows it.
        """
        group = self.sim.group
        entries = {entry.start_lsn for entry in group.database.mapping}
        return group.fork_point in {self.sim.published.position} - entries

    def looks_behind(self) -> bool:
        """Whether a lost primary had what was published, and the new one is not there yet.

        Its readable secondary then looks like one that lags, and is waited for: the text of
        ``ReplicaBehind`` names both causes.
        """
        intent = self.sim.config.source.application_intent
        is_secondary = intent is ApplicationIntent.READ_ONLY
        return is_secondary and self._is_behind() and self._is_line_left()

    def _is_line_left(self) -> bool:
        """Whether something of what was published is not in the database's log any more."""
        group = self.sim.group
        if not group.lines:
            return False
        return not holds(captured(group.log.records), self.sim.published.place)

    def _has_checkpoint(self) -> bool:
        (partition,) = self.sim.broker.topics["sim.offsets"].partitions
        return any(entry.offset not in partition.compacted for entry in partition.committed())

    def is_due(self, error: PublisherError) -> bool:
        """Whether an operator must see to an error, so that it may end a publisher."""
        sim = self.sim
        if isinstance(error, PublisherReplaced):
            return sim.others.intrusions > 1 or sim.others.takeovers > 0
        if isinstance(error, ReplicaBehind):
            return bool(sim.not_redoing or sim.not_hardening)
        if self.has_lost_end and error.may_heal and not self._has_checkpoint():
            return True  # it looks like a first start, at which the source's errors are final
        tables = sim.group.database.tables.values()
        names = {table.name for table in tables if not table.is_dropped}
        cause = error.cause if isinstance(error, TableFailed) else error
        if not isinstance(cause, _OF_TABLES):
            return False
        if self.tables >= names:  # no table can go on
            return True
        is_first = sim.published.records == 0
        return is_first and bool(self.reasons)
