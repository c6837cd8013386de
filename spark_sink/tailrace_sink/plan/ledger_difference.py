"""Differences of counted events from the publisher's ledger. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tailrace_sink.errors import LedgerMismatch
from tailrace_sink.plan.topic_ranges import Counted, TopicRange

_NONE: Final = Counted()


def difference(
    table: str, ranges: TopicRange, found: Mapping[int, Counted]
) -> LedgerMismatch | None:
    """Compare counts with the ledger.

    Args:
        table: name in the error.
        ranges: with the ledger's sums.

    Returns:
        None if they agree.
    """
    ledger = ranges.ledger
    if ranges.ledger_total.count != ranges.count:
        # An earlier release stored the waiting part of a snapshot without its sums.
        count = sum(of.count for of in found.values())
        if count != ranges.count:
            return LedgerMismatch(table, ranges.topic, None, (ranges.count, None), (count, None))
        return None
    for partition in sorted({*ledger, *found}):
        expected, there = ledger.get(partition, _NONE), found.get(partition, _NONE)
        if expected != there:
            return LedgerMismatch(
                table,
                ranges.topic,
                partition,
                (expected.count, expected.position_hash),
                (there.count, there.position_hash),
            )
    return None


def difference_without(
    table: str,
    ranges: TopicRange,
    everything: Mapping[int, Counted],
    good: Mapping[int, Counted],
) -> LedgerMismatch | None:
    """Compare a topic without its bad records with the ledger.

    A partition agrees if its good records do: somebody else wrote the bad ones. It also agrees if
    the number of all records does: the publisher wrote the bad ones, whose positions are unknown.

    Args:
        table: name in the error.
        everything: counts of all records.
        good: counts without the bad records.

    Returns:
        None if every partition agrees.
    """
    judged = dict(everything)
    for partition, found in everything.items():
        expected = ranges.ledger.get(partition, _NONE)
        rest = good.get(partition, _NONE)
        if rest == expected or (rest.count < found.count == expected.count):
            judged[partition] = expected
    return difference(table, ranges, judged)
