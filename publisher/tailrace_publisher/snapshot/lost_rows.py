"""The rows that a repair reads after a database was accepted, by where their keys are (ADR 0116).

Any number of rows may be concerned, so the checkpoint does not hold their keys but their places.
Keys are in the lost events of the topic, and in the database's own change rows up to the last
published LSN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tailrace_schemas.position.lsn import Lsn


@dataclass(frozen=True, slots=True)
class LostRows:
    """Rows of one table that may differ from the topic.

    Attributes:
        topic: the table's data topic.
        kept: last closed LSN that topics and database have in common.
        through: LSN up to which changes of the lost history were published.
        events: how many events are lost; tombstones are not counted.
        offsets: [first, next) of the lost events, by partition.
    """

    topic: str
    kept: Lsn
    through: Lsn
    events: int = 0
    offsets: Mapping[int, tuple[int, int]] = field(default_factory=dict, hash=False)

    def includes(self, other: LostRows) -> bool:
        """Return whether every row of another value is one of these, too."""
        spans = ((p, span, self.offsets.get(p)) for p, span in other.offsets.items())
        return (
            self.topic == other.topic
            and self.kept <= other.kept
            and self.through >= other.through
            and all(o is not None and o[0] <= s[0] and s[1] <= o[1] for _, s, o in spans)
        )

    def fields(self) -> dict[str, Any]:
        """Return the members of a JSON object."""
        return {
            "topic": self.topic,
            "kept_lsn": str(self.kept),
            "through_lsn": str(self.through),
            "events": self.events,
            "offsets": [[partition, *span] for partition, span in sorted(self.offsets.items())],
        }

    @classmethod
    def read(cls, found: Any) -> LostRows:
        """Read the members of a JSON object.

        Raises:
            ValueError: they have another form.
        """
        match found:
            case {
                "topic": str(topic),
                "kept_lsn": str(kept),
                "through_lsn": str(through),
                "events": int(events),
                "offsets": [*spans],
            }:
                offsets = {int(number): (int(first), int(end)) for number, first, end in spans}
                return cls(topic, Lsn.parse(kept), Lsn.parse(through), events, offsets)
        raise ValueError("the rows of a lost history have another form")
