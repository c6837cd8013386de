"""The bytes of parts for each combination of facts that an encoder has met."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tailrace_publisher.encode.envelopes.event_parts import Fact, Facts, Part, written

REMEMBERED: Final = Fact.KIND | Fact.MASK | Fact.UNAVAILABLE
"""Facts that recur from page to page."""
REMEMBERED_BYTES_MAX: Final = 262_144
"""Bound of one encoder's memory: there may be thousands of schema versions, and one entry may name
a thousand columns."""
_ENTRY_BYTES: Final = 256
"""Estimate of an entry without its byte strings."""

Combination = tuple[int, bytes | None, tuple[str, ...]]
"""(kind, update mask, names of unavailable columns)."""


class RememberedParts(dict[Combination, bytes]):
    """Writes neighbouring parts once for each combination; forgets everything when it is full."""

    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__()
        self._parts = parts
        self._held = 0

    def __missing__(self, combination: Combination) -> bytes:
        raw = written(self._parts, Facts(*combination))
        _, mask, unavailable = combination
        size = _ENTRY_BYTES + len(raw) + len(mask or b"") + sum(map(len, unavailable))
        if self._held + size > REMEMBERED_BYTES_MAX:
            self.clear()
            self._held = 0
        if size <= REMEMBERED_BYTES_MAX:
            self[combination] = raw
            self._held += size
        return raw
