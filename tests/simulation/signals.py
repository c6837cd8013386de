"""What operators ask of the publisher by signals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace_schemas.records.signals import (
    RepairSignal,
    RowKeys,
    Signal,
    SnapshotSignal,
    TableOrder,
    TableSignal,
)
from tests.simulation.kafka.broker import Fate, Transaction

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

_TOPIC = "sim.signals"


@dataclass(slots=True)
class Signals:
    """The signals topic, as operators write it."""

    sim: Simulation

    @property
    def count(self) -> int:
        """How many were sent."""
        topic = self.sim.broker.topics.get(_TOPIC)
        return 0 if topic is None else topic.partitions[0].end

    def ask_for(self, table: str, where: str | None = None) -> None:
        """Ask for a new snapshot of a table, or of some of its rows."""
        name = f"dbo.{table}"
        self.send(SnapshotSignal((name,), {} if where is None else {name: where}))

    def repair(self, table: str, columns: Sequence[str], keys: Sequence[tuple[str, ...]]) -> None:
        """Ask for the rows with some keys again, as they are."""
        self.send(RepairSignal(f"dbo.{table}", RowKeys(tuple(columns), tuple(keys))))

    def order(self, order: TableOrder, table: str | None) -> None:
        """Give an order for a table, or for all in their snapshots."""
        if _TOPIC not in self.sim.broker.topics:
            return
        if table is not None and order is TableOrder.STOP_TABLE:
            self.sim.excuses.add(table, "an operator stopped it")
        elif order is TableOrder.STOP_SNAPSHOT:
            names = [t.name for t in self.sim.group.database.tables.values()]
            self.sim.excuses.halted.update(names if table is None else [table])
        self.send(TableSignal(order, () if table is None else (f"dbo.{table}",)))

    def send(self, signal: Signal) -> None:
        """Write a signal."""
        self.send_bytes(signal.to_bytes())

    def send_bytes(self, value: bytes | None) -> None:
        """Write a record into the topic."""
        topic = self.sim.broker.topics.get(_TOPIC)
        if topic is None:
            return
        done = Transaction(0, self.sim.world.elapsed_us, Fate.COMMITTED)
        topic.partitions[0].append(None, value, done)
        done.unmarked.clear()
