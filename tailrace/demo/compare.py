"""Is every change row in its topic exactly once?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tailrace_schemas.position.change_position import ChangePosition, Operation

EXAMPLES_MAX: Final = 5


@dataclass(slots=True)
class TopicComparison:
    """The change rows of one change table against the events of its topic, by position."""

    table: str
    change_rows: int
    events: int
    missing: list[ChangePosition] = field(default_factory=list)
    unexpected: list[ChangePosition] = field(default_factory=list)
    repeated: list[ChangePosition] = field(default_factory=list)
    differences: int = 0

    @property
    def equal(self) -> bool:
        """Whether every change row is there exactly once and nothing else is."""
        return self.differences == 0


def compare_positions(
    table: str, change_rows: Iterable[ChangePosition], events: Iterable[ChangePosition]
) -> TopicComparison:
    """Compare by position; an update's before image (operation 3) belongs to its after image."""
    expected = {p for p in change_rows if p.operation is not Operation.UPDATE_BEFORE}
    counts = Counter(p for p in events if p.operation is not Operation.READ)
    result = TopicComparison(table, len(expected), sum(counts.values()))
    for position in sorted(expected - counts.keys()):
        _note_position(result, result.missing, position)
    for position in sorted(counts.keys() - expected):
        _note_position(result, result.unexpected, position)
    for position, count in sorted(counts.items()):
        if count > 1:
            _note_position(result, result.repeated, position)
    return result


def _note_position(
    result: TopicComparison, examples: list[ChangePosition], position: ChangePosition
) -> None:
    result.differences += 1
    if len(examples) < EXAMPLES_MAX:
        examples.append(position)
