"""Which shard publishes a table: the map, what is kept of it, and the names that go with a shard.

The tables of a database are divided among shards, each published by one process at a time. A
shard's number is its partition of the checkpoint, progress and control topics, and each has a
transactional id of its own. A *topic* has one shard, so tables that share one stay together and
its offset ranges never interleave.

The shard of a topic is the one whose hash with it is the highest (rendezvous hashing). So every
process finds the same one without asking, new tables included. With one more shard, only the
tables that move to it move. The map is still a record in the control topic: its number
distinguishes older decisions from newer ones, and it may pin topics to shards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Self

SHARDS_MAX: Final = 1000
"""More have no use: each has connections, a producer and a poll of its own."""

MAP_KEY: Final = b"map"
"""Key of the map's record, in partition 0 of the control topic."""

_FORM: Final = 1
_HASH_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class ShardMap:
    """How topics are divided.

    Attributes:
        number: of the map; each reshard makes the next. 0 is for what has no map.
        shards: how many shards there are, 1 to :data:`SHARDS_MAX`.
        pinned: data topics whose shard is chosen, not worked out.

    Raises:
        ValueError: a number is out of its bounds.
    """

    number: int = 0
    shards: int = 1
    pinned: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the bounds."""
        if not 1 <= self.shards <= SHARDS_MAX:
            raise ValueError(f"{self.shards} shards: 1 to {SHARDS_MAX} are possible")
        if self.number < 0 or (self.number == 0 and self.shards > 1):
            raise ValueError(f"map {self.number} of {self.shards} shards: several need a map")
        for topic, shard in self.pinned.items():
            if not 0 <= shard < self.shards:
                raise ValueError(f"topic {topic} is pinned to shard {shard} of {self.shards}")

    def shard_of(self, topic: str) -> int:
        """The shard of a data topic."""
        pinned = self.pinned.get(topic)
        if pinned is not None:
            return pinned
        return max(range(self.shards), key=lambda shard: _weight(topic, shard))

    def is_divided_as(self, other: ShardMap) -> bool:
        """Whether every topic has the same shard in both, whatever their numbers."""
        if self.shards == other.shards == 1:
            return True
        return (self.shards, dict(self.pinned)) == (other.shards, dict(other.pinned))

    def resharded(self, shards: int, pinned: Mapping[str, int] | None = None) -> ShardMap:
        """The next map, with another number of shards.

        Args:
            pinned: topics whose shard is chosen; default: those of this map that can stay.

        Raises:
            ValueError: a number is out of its bounds.
        """
        kept = {topic: shard for topic, shard in self.pinned.items() if shard < shards}
        return ShardMap(self.number + 1, shards, kept if pinned is None else pinned)

    def to_bytes(self) -> bytes:
        """The record's value in the control topic."""
        pinned = dict(sorted(self.pinned.items()))
        fields = {"form": _FORM, "map": self.number, "shards": self.shards, "pinned": pinned}
        return json.dumps(fields).encode()

    @classmethod
    def from_bytes(cls, value: bytes) -> Self:
        """Read a record's value; fields of later releases are passed over.

        Raises:
            ValueError: it is no map, or of a form that this release does not know.
        """
        try:
            fields = json.loads(value)
            form, number, shards = fields["form"], fields["map"], fields["shards"]
            pinned = {str(topic): shard for topic, shard in fields["pinned"].items()}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(
                f"the control topic holds what is no map of shards: {error!r}"
            ) from error
        if form != _FORM:
            raise ValueError(f"a map of form {form}: this release knows form {_FORM} only")
        numbers = (number, shards, *pinned.values())
        if not all(isinstance(found, int) and not isinstance(found, bool) for found in numbers):
            raise ValueError("the control topic holds what is no map of shards: not a number")
        return cls(number, shards, pinned)


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard of a map; by default all there is.

    Attributes:
        map: how topics are divided.

    Raises:
        ValueError: the map lacks such a shard.
    """

    number: int = 0
    map: ShardMap = field(default_factory=ShardMap)

    def __post_init__(self) -> None:
        """Check the bounds."""
        if not 0 <= self.number < self.map.shards:
            raise ValueError(f"shard {self.number} of {self.map.shards}")

    @property
    def is_whole(self) -> bool:
        """Whether there is no other."""
        return self.map.shards == 1

    def has(self, topic: str) -> bool:
        """Whether a data topic is published by it."""
        return self.is_whole or self.map.shard_of(topic) == self.number


def transactional_id(prefix: str, database: str, shards: int, shard: int) -> str:
    """The transactional id of a shard: its newest holder fences the one before.

    A single shard has the id without a number.

    Args:
        shards: how many there are.
    """
    return _of_shard(_joined(prefix, database), shards, shard)


def older_transactional_id(prefix: str, database: str, shards: int, shard: int) -> str:
    """The id in releases up to 0.2, where two pairs of prefix and database may have the same one.

    Args:
        shards: how many there are.
    """
    return _of_shard(f"tailrace-{prefix}-{database}", shards, shard)


def map_transactional_id(prefix: str, database: str) -> str:
    """The transactional id of the writer of the map."""
    return f"{_joined(prefix, database)}-map"


def group_id(prefix: str, database: str) -> str:
    """The consumer group in which the publishers of a database share its shards."""
    return _joined(prefix, database)


def _joined(prefix: str, database: str) -> str:
    """Join both so that no other pair gives the same text, whatever follows it."""
    parts = (part.replace("%", "%25").replace("-", "%2D") for part in (prefix, database))
    return "-".join(("tailrace", *parts))


def _of_shard(whole: str, shards: int, shard: int) -> str:
    return whole if shards == 1 else f"{whole}-shard-{shard}"


def _weight(topic: str, shard: int) -> bytes:
    """The same on every machine and in every release: topics would move otherwise."""
    return sha256(f"{shard}:{topic}".encode()).digest()[:_HASH_BYTES]
