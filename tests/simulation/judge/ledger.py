"""The ledger: progress records hold exactly the records of the topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.judge.published import PREFIX, Delivered, event_of, position_hash
from tests.simulation.judge.reader import Wrong
from tests.simulation.kafka.broker import Partition

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation


class Ledger:
    """Compares what topics hold with what progress records say that they hold."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._last: dict[Partition, bytes] = {}

    def check(self, delivered: Delivered) -> None:
        """Compare a Kafka transaction with the ledger in its progress records."""
        told = {
            (part.topic, part.partition): part
            for progress in delivered.progress
            for part in progress.partitions
        }
        for partition, entries in delivered.parts:
            part = told.pop((partition.topic, partition.number), None)
            if part is None:
                raise Wrong(f"{partition.topic}/{partition.number}: records without a ledger")
            events = [event_of(self._sim.schemas, entry) for entry in entries]
            positions = [event.position for event in events if event is not None]
            total = sum(map(position_hash, positions)) % (1 << 64)
            found = (entries[0].offset, entries[-1].offset + 1, len(positions), total)
            said = (part.first_offset, part.next_offset, part.count, part.position_hash)
            if found != said:
                raise Wrong(f"{partition.topic}/{partition.number}: {found}, ledger says {said}")
            for event in events:
                if event is None or event.is_read:
                    continue  # a snapshot's rows are at their fence, before its own changes
                if event.position < self._last.get(partition, b""):
                    raise Wrong(f"{partition.topic}/{partition.number}: positions go back")
                self._last[partition] = event.position
        if told:
            raise Wrong(f"the ledger speaks of records that are not there: {sorted(told)}")

    def check_rest(self) -> None:
        """Every committed record of a data topic belongs to a transaction with progress."""
        known = {id(delivered.transaction) for delivered in self._sim.published.delivered}
        for topic in self._sim.broker.topics.values():
            if topic.name.count(".") != 3 or not topic.name.startswith(f"{PREFIX}."):
                continue
            for partition in topic.partitions:
                for entry in partition.committed():
                    if entry.transaction is not None and entry.transaction.is_stray:
                        continue
                    if id(entry.transaction) not in known:
                        raise Wrong(f"{topic.name}: a record outside of any progress record")
