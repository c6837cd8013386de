"""Where a subscription continues: small enough to be stored with what it led to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from tailrace.subscribe.errors import DividedIntoShards, PlaceUnknown
from tailrace.subscribe.groups import Where

_FORM: Final = 1
_SHARD: Final = "0"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the progress topic continues.

    Attributes:
        offset: of the first progress record whose events were not all taken.
        lsn: closed LSN of the record before it; None at the beginning of the topic.
        named: topics that the record before it names.
        is_started: whether the beginnings of snapshots of that record's group were taken.
    """

    offset: int
    lsn: str | None = None
    named: frozenset[str] = frozenset()
    is_started: bool = False


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A place in the topics of one prefix.

    Attributes:
        consumed: next offsets of partitions of which some of those events were taken.
        skips: per topic, the progress offset below which its events are older than its snapshot.
    """

    prefix: str
    place: Place
    consumed: Mapping[Where, int] = field(default_factory=dict)
    skips: Mapping[str, int] = field(default_factory=dict)

    def skipped(self, group: int) -> frozenset[str]:
        """The topics of which a group has only what is older than their snapshot.

        Args:
            group: offset of its first progress record.
        """
        return frozenset(topic for topic, begin in self.skips.items() if group < begin)

    def __str__(self) -> str:
        """JSON in one line, in the form of releases that had places of several shards."""
        place = self.place
        return json.dumps(
            {
                "form": _FORM,
                "prefix": self.prefix,
                "shards": {
                    _SHARD: [place.offset, place.lsn, sorted(place.named), place.is_started]
                },
                "consumed": [[*where, offset] for where, offset in sorted(self.consumed.items())],
                "skips": {topic: [int(_SHARD), offset] for topic, offset in self.skips.items()},
            },
            separators=(",", ":"),
        )

    @classmethod
    def parse(cls, text: str, prefix: str) -> Self:
        """Read what :meth:`__str__` wrote.

        Raises:
            PlaceUnknown: it is something else, or of another prefix.
            DividedIntoShards: an earlier release wrote it, of several shards.
        """
        try:
            mark = cls._of(json.loads(text))
        except (ValueError, TypeError, KeyError) as error:
            raise PlaceUnknown(
                f"{text[:60]!r} is no bookmark ({error}). Fix: pass the text of"
                " subscription.bookmark as it was stored"
            ) from error
        if mark.prefix != prefix:
            raise PlaceUnknown(
                f"the bookmark is of prefix {mark.prefix}, the feed of {prefix}. Fix: use the"
                " bookmark's prefix, or begin with a Start"
            )
        return mark

    @classmethod
    def _of(cls, found: dict[str, Any]) -> Self:
        if found["form"] != _FORM:
            raise ValueError(f"form {found['form']} of another release")
        if found["shards"].keys() - {_SHARD}:
            raise DividedIntoShards("the bookmark")
        offset, lsn, named, is_started = found["shards"][_SHARD]
        consumed = {(topic, partition): at for topic, partition, at in found["consumed"]}
        skips = {topic: begin for topic, (_, begin) in found["skips"].items()}
        place = Place(offset, lsn, frozenset(named), is_started)
        return cls(found["prefix"], place, consumed, skips)
