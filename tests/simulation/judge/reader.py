"""What a reader of one topic makes of it.

A reader holds a table from the first record that names it, and takes it whole when a record does
not name it any more (ADR 0008).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.judge.history import Named, TableHistory
from tests.simulation.judge.published import Event

PLAIN = ("v", "s")
"""Columns of the table without a key that it has all the time."""


class Wrong(AssertionError):
    """Something published is not true."""


@dataclass(slots=True)
class Reader:
    """What a reader of one topic makes of it.

    Attributes:
        history: of the table.
        is_switched: whether rows were switched out since it began to hold the table.
        is_held: whether progress records name it: it is not part of the cut.
        rows: by key, or by image for a table without one.
        since: identities of events since the last cut that it was part of.
        closed: LSN of that cut; None while it is held.
    """

    topic: str
    history: TableHistory
    is_held: bool = False
    is_whole: bool = False
    rows: dict[Any, Named] = field(default_factory=dict)
    bag: Counter[Any] = field(default_factory=Counter)
    since: list[Event] = field(default_factory=list)
    closed: bytes | None = None
    newest: bytes = b""
    seen: set[tuple[bytes, bytes, int]] = field(default_factory=set)
    is_dirty: bool = True
    whole: list[Event] = field(default_factory=list)
    is_switched: bool = False

    def hold(self) -> None:
        """A record names the table: what comes from here on is the whole of it."""
        self.is_held = True
        self.is_switched = False
        self.rows.clear()
        self.bag.clear()
        self.whole.clear()
        self.since.clear()
        self.closed = None
        self.is_dirty = True

    def take(self, event: Event) -> None:
        """Apply an event."""
        self.is_dirty = True
        if not event.is_read:
            if event.identity in self.seen:
                raise Wrong(f"{self.topic}: {text_of(event)} was published twice")
            self.seen.add(event.identity)
            self.since.append(event)
        if self.history.key:
            self._take_keyed(event)
        else:
            self._take_keyless(event)

    def _take_keyed(self, event: Event) -> None:
        if event.before is not None and event.op == "d":
            self.rows.pop(self._key(event.before), None)
        if event.after is not None:
            key = self._key(event.after)
            known = self.rows.get(key, {}) if event.unavailable else {}
            after = {
                name: known.get(name) if name in event.unavailable else value
                for name, value in event.after.items()
            }
            self.rows[key] = after

    def _take_keyless(self, event: Event) -> None:
        if self.is_held:
            self.whole.append(event)
        else:
            _count(self.bag, event)

    def release(self, *, is_emptied: bool) -> None:
        """The table is part of the cut again: for one without a key, its rows at the snapshot's
        fence and the changes behind it. A snapshot without rows has no fence to be seen.

        Args:
            is_emptied: whether a switch after the cut may be what took all rows.
        """
        self.is_held = False
        fence = max((event.lsn for event in self.whole if event.op == "r"), default=None)
        if fence is None and not self.history.key and not is_emptied:
            names = self.history.names.values()
            rows = self.history.rows.values()
            self.bag = Counter(frozen({n: row.get(n) for n in PLAIN if n in names}) for row in rows)
        for event in self.whole:
            is_read = event.op == "r" and event.lsn == fence
            if fence is not None and (is_read or (event.op != "r" and event.lsn > fence)):
                _count(self.bag, event)
        self.whole.clear()

    def _key(self, image: Named) -> tuple[Any, ...]:
        return tuple(image[name] for name in self.history.key)


def _count(bag: Counter[Any], event: Event) -> None:
    for image, count in ((event.before, -1), (event.after, 1)):
        if image is not None:
            bag[frozen({name: image[name] for name in PLAIN})] += count


def frozen(image: Mapping[str, Any]) -> Any:
    """An image that can be counted."""
    return tuple(sorted(image.items()))


def identity_text(identity: tuple[bytes, bytes, int]) -> str:
    """A change, as a finding shows it."""
    lsn, seqval, operation = identity
    return f"{lsn.hex()}/{seqval.hex()}/{operation}"


def text_of(event: Event) -> str:
    """An event, as a finding shows it."""
    return f"{event.op} {identity_text(event.identity)}"
