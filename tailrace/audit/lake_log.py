"""Whether the lake's log has what the publisher says it published: each event once, unchanged.

A cut of the log has progress records and the events that they count. So each cut is compared with
its own records, and these with the records in Kafka. This covers also what Kafka has removed since.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final

from tailrace.audit.ledger import Problems
from tailrace.reading.progress import decode
from tailrace.reading.record_decoder import PositionDecoder
from tailrace_schemas.records.progress import (
    PartitionProgress,
    Progress,
    position_hash,
    signed,
)
from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_sink.plan.topic_ranges import data_parts

if TYPE_CHECKING:
    from tailrace.lake.log import DeltaLog
    from tailrace_sink.plan.log_state import LogState

_CUTS_AT_ONCE: Final = 200
_EVENTS_AT_ONCE: Final = 50_000
_BULK: Final = "read from Kafka in bulk, without the log"

Where = tuple[int, str, int]
"""Batch, topic and partition of events."""


@dataclass(slots=True)
class LakeAudit:
    """What was found in the lake's log.

    Attributes:
        closed_lsn: of its newest cut; None without one.
        events: that are accounted for.
        earlier: progress records with events that Kafka has, from before the log's first one.
        left_out: events that it lacks by design, by reason.
    """

    closed_lsn: str | None = None
    cuts: int = 0
    events: int = 0
    earlier: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


class LogAudit:
    """Checks every event of a lake's log.

    Args:
        log: opened before the ledger was read, so the ledger has all of its records.
        ledger: the progress records that Kafka has, by offset.
        problems: gets what is wrong.
    """

    def __init__(
        self,
        log: DeltaLog,
        ledger: Mapping[int, Progress],
        names: TopicNames,
        positions: PositionDecoder,
        problems: Problems,
    ) -> None:
        self._log = log
        self._ledger = ledger
        self._names = names
        self._positions = positions
        self._problems = problems
        self._seen: set[int] = set()
        self._found = LakeAudit()

    def run(self) -> LakeAudit:
        """Read the log to its end.

        Raises:
            OSError: the lake cannot be read.
            RegistryError: a schema is not available.
        """
        last = self._log.last()
        if last is None:
            self._problems.add("the lake's log has no cut yet")
            return self._found
        self._found.closed_lsn = last.state.closed_lsn
        batches = self._log.batches()
        self._found.cuts = len(batches)
        for at in range(0, len(batches), _CUTS_AT_ONCE):
            some = batches[at : at + _CUTS_AT_ONCE]
            states = self._log.states(some[0] - 1, some[-1], len(some))
            by_batch = {state.state.batch: state for state in states}
            records = self._records(some[0] - 1, some[-1])
            due = {batch: self._due(records[batch], by_batch.get(batch)) for batch in some}
            for window in _windows(due):
                self._check_events(window, {b: due[b] for b in window}, by_batch)
        self._check_taken(last)
        return self._found

    def _records(self, after: int, up_to: int) -> dict[int, list[Progress]]:
        """Read the progress records of some cuts, and compare them with those in Kafka."""
        found: dict[int, list[Progress]] = defaultdict(list)
        for batch, _, offset, value in self._log.progress(self._names.progress, after, up_to):
            record, what = decode(value), f"the lake's log: the progress record at offset {offset}"
            if offset in self._seen:
                self._problems.add(f"{what} is there twice")
                continue
            self._seen.add(offset)
            if self._ledger.get(offset, record) != record:
                self._problems.add(f"{what} is not the one in Kafka")
            found[batch].append(record)
        return found

    def _due(
        self, records: Iterable[Progress], state: LogState | None
    ) -> dict[tuple[str, int], list[PartitionProgress]]:
        """Return what a cut should have, by topic and partition."""
        lost, in_kafka = ({}, {}) if state is None else (state.lost, state.in_kafka)
        due: dict[tuple[str, int], list[PartitionProgress]] = defaultdict(list)
        for part in chain.from_iterable(data_parts(of, self._names) for of in records):
            loss = lost.get(part.topic)
            if loss is not None and loss.has(part):
                self._found.left_out[loss.reason] += part.count
            elif part.topic in in_kafka:
                self._found.left_out[_BULK] += part.count
            else:
                due[part.topic, part.partition].append(part)
        return due

    def _check_events(
        self,
        batches: Sequence[int],
        due: Mapping[int, Mapping[tuple[str, int], Sequence[PartitionProgress]]],
        states: Mapping[int, LogState],
    ) -> None:
        """Compare the events of some cuts with what they should have."""
        events: dict[Where, list[tuple[int, bytes]]] = defaultdict(list)
        for row in self._log.events(batches[0] - 1, batches[-1], self._names.progress):
            where = (row["batch"], row["topic"], row["partition"])
            events[where].append((row["offset"], row["value"]))
        wanted = {(b, *where): parts for b, of in due.items() for where, parts in of.items()}
        for where in sorted(events.keys() | wanted.keys()):
            batch, topic, _ = where
            state = states.get(batch)
            is_partial = state is not None and topic in {*state.lost, *state.in_kafka}
            found = sorted(events.get(where, ()))
            self._check_part(where, wanted.get(where, ()), found, is_partial=is_partial)

    def _check_part(
        self,
        where: Where,
        entries: Sequence[PartitionProgress],
        events: Sequence[tuple[int, bytes]],
        *,
        is_partial: bool,
    ) -> None:
        """Compare the events of a partition in one cut with its progress records.

        Args:
            is_partial: whether events may be there that a progress record counts as lost.
        """
        _, topic, partition = where
        named = f"the lake's log: topic {topic} partition {partition}"
        accounted = 0
        for entry in entries:
            offsets = f"offsets {entry.first_offset} to {entry.next_offset - 1}"
            inside = [of for of in events if entry.first_offset <= of[0] < entry.next_offset]
            accounted += len(inside)
            try:
                held = [self._positions.of(value).to_bytes() for _, value in inside]
            except (ValueError, EOFError, TypeError, KeyError, IndexError) as error:
                self._problems.add(f"{named} {offsets}: not events of ours ({error})")
                continue
            if len(held) != entry.count:
                self._problems.add(
                    f"{named} {offsets} has {len(held)} events, {entry.count} were published"
                )
            elif signed(sum(map(position_hash, held))) != entry.position_hash:
                self._problems.add(f"{named} {offsets} has other events than were published")
            else:
                self._found.events += len(held)
        if accounted < len(events) and not is_partial:
            self._problems.add(
                f"{named} from offset {events[0][0]}: no progress record accounts for"
                f" {len(events) - accounted} events"
            )

    def _check_taken(self, last: LogState) -> None:
        """Check that the log has every progress record of Kafka from its first one on."""
        end, begin = last.state.next_offset or 0, min(self._seen, default=None)
        for offset in sorted(self._ledger.keys() - self._seen):
            if offset >= end:
                continue  # The sink has not read it yet.
            if not any(data_parts(self._ledger[offset], self._names)):
                continue
            if begin is None or offset < begin:
                self._found.earlier += 1
                continue
            self._problems.add(
                f"the lake's log lacks the progress record at offset {offset}, LSN"
                f" {self._ledger[offset].closed_lsn}"
            )


def _windows(
    due: Mapping[int, Mapping[tuple[str, int], Sequence[PartitionProgress]]],
) -> Iterator[list[int]]:
    """Yield consecutive cuts with a bounded number of events; a cut is not divided."""
    window: list[int] = []
    size = 0
    for batch, parts in due.items():
        count = sum(entry.count for entries in parts.values() for entry in entries)
        if window and size + count > _EVENTS_AT_ONCE:
            yield window
            window, size = [], 0
        window.append(batch)
        size += count
    if window:
        yield window
