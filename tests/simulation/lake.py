"""A lake that reads the progress topic, and commits how far it is under a consumer group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace_schemas.records.progress import Progress
from tests.simulation.judge.published import PREFIX, decode, lsn_of_text

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

GROUP: Final = "lake"
_TOPIC: Final = f"{PREFIX}.progress"


@dataclass(slots=True)
class Lake:
    """What the lake has: the progress records before its offset, and their changes."""

    sim: Simulation

    def read(self, share: float = 1.0) -> None:
        """Take records in: a share of what a reader of committed records sees after its offset."""
        topic = self.sim.broker.topics.get(_TOPIC)
        for partition in topic.partitions if topic else ():
            place = GROUP, _TOPIC, partition.number
            offset = self.sim.broker.groups.get(place, 0)
            end = partition.stable_end()
            seen = [e.offset for e in partition.committed() if offset <= e.offset < end]
            if taken := seen[: max(1, round(share * len(seen)))]:
                self.sim.broker.groups[place] = taken[-1] + 1

    def closed(self) -> bytes:
        """The LSN up to which the lake has everything; zero before its first record."""
        topic = self.sim.broker.topics.get(_TOPIC)
        if topic is None:
            return bytes(10)
        (partition,) = topic.partitions
        offset = self.sim.broker.groups.get((GROUP, _TOPIC, 0), 0)
        values = [e.value for e in partition.committed() if e.offset < offset]
        if not values:
            return bytes(10)
        newest = Progress.from_record(decode(self.sim.schemas, values[-1] or b""))
        return lsn_of_text(newest.closed_lsn)
