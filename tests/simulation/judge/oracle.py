"""The judge: what was published against the model's own history.

- The ledger: progress records join on to each other, and hold exactly the records of the topics.
- Exactly once, in order: between two cuts that a table is part of, each of its change rows is there
  once, with its own images; positions rise within a table and within a partition.
- Every cut is true: what a reader makes of a table up to a closed LSN is the table at that LSN. A
  reader holds a table from the first record that names it, and takes it whole when a record does
  not name it any more (ADR 0008).
- A switch of partitions makes a table's cuts wrong until it is noticed, which makes a reader hold
  the table anew; at the end of a run all were noticed.
- In the end no value is missing: what no change table has was brought by patches.
- Every claim of freshness is true: what was committed at the source up to the claimed time is out.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tailrace_publisher.errors import CheckpointLost, DatabaseReplaced, LsnWentBackwards
from tailrace_publisher.options.tables import PatchedTables
from tailrace_schemas.records.progress import Progress
from tests.simulation.judge.cuts import check_complete, check_exactly_once, check_state
from tests.simulation.judge.history import ExpectedEvent, TableHistory, histories
from tests.simulation.judge.ledger import Ledger
from tests.simulation.judge.lines import captured, lines_of
from tests.simulation.judge.published import (
    PREFIX,
    Delivered,
    Event,
    event_of,
    lsn_of_text,
)
from tests.simulation.judge.reader import Reader, Wrong, text_of
from tests.simulation.sqlserver import log as wal

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

_CLOCK_GRAIN = timedelta(milliseconds=10)
_ENDS_PUBLISHING = DatabaseReplaced | LsnWentBackwards | CheckpointLost


def judge(sim: Simulation) -> None:
    """Judge a run that is over.

    Raises:
        Wrong: something published is not true.
    """
    _Judge(sim).run()


class _Judge:
    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._ledger = Ledger(sim)
        self._records: list[wal.Record] | None = None
        self._histories: dict[str, TableHistory] = {}
        self._by_identity: dict[str, dict[tuple[bytes, bytes, int], ExpectedEvent]] = {}
        self._readers: dict[str, Reader] = {}
        self._newest: dict[str, bytes] = {}
        self._number = 0
        self._named: set[str] = set()
        self._mode = sim.config.snapshot.mode.value

    def run(self) -> None:
        closed = ""
        of_each = zip(self._sim.published.delivered, lines_of(self._sim), strict=True)
        for delivered, records in of_each:
            self._take_line(records)
            self._ledger.check(delivered)
            for progress in delivered.progress:
                if progress.after_lsn != (closed or progress.after_lsn):
                    raise Wrong(
                        f"progress record {self._number} follows {progress.after_lsn}, but the one"
                        f" before it closed {closed}"
                    )
                closed = progress.closed_lsn
                self._name(set(progress.snapshotting))
            self._events(delivered)
            self._number += len(delivered.progress)
            last = delivered.progress[-1]
            if last.closed:
                self._cut(last)
                self._freshness(last)
        self._ledger.check_rest()
        self._nothing_unnoticed()
        self._nothing_lacking()

    def _nothing_lacking(self) -> None:
        """In the end each row has the source's value of each column that is captured."""
        if self._sim.config.tables.patch is not PatchedTables.ALL or self._mode != "initial":
            return
        if any(isinstance(error, _ENDS_PUBLISHING) for error in self._sim.ends):
            return  # the database is on another line, or the checkpoint has lost its end
        database = self._sim.group.database
        published, told = self._sim.published, self._sim.told
        for topic, reader in self._readers.items():
            name = reader.history.name
            names = published.instances.get(name, ())
            may_lack = topic in told.parts_stopped or (
                topic in told.given_up and name in self._sim.excuses.tables
            )
            is_part = reader.closed is not None and topic not in self._named and not may_lack
            if not is_part or not names or name in published.patches or reader.is_switched:
                continue
            instance = database.instances.get(names[-1])
            if instance is not None:
                columns = [column.name for column in instance.columns]
                check_complete(reader, reader.closed or b"", columns)

    def _take_line(self, records: list[wal.Record]) -> None:
        """What comes from here on is of this line of recovery; readers have what they have."""
        if records is self._records:
            return
        self._records = records
        self._histories = histories(records)
        self._by_identity = {
            name: {e.identity: e for _, events in history.commits for e in events}
            for name, history in self._histories.items()
        }
        for reader in self._readers.values():
            reader.history = self._histories[reader.history.name]
            reader.is_dirty = True

    def _name(self, named: set[str]) -> None:
        """A table is held from the first record that names it, after one that does not."""
        for topic in named - self._named:
            reader = self._reader(topic)
            if reader is not None:
                reader.hold()
        self._named = named

    def _nothing_unnoticed(self) -> None:
        """Behind the last switch each table was read again, or is not part of the cut."""
        for reader in self._readers.values():
            is_part = reader.closed is not None and reader.topic not in self._named
            if is_part and reader.is_switched and self._mode == "initial":
                check_state(reader, reader.closed or b"", released=True)

    # -- events ------------------------------------------------------------------------------------

    def _reader(self, topic: str) -> Reader | None:
        reader = self._readers.get(topic)
        if reader is None:
            history = self._histories.get(topic.rpartition(".")[2])
            if history is None:
                raise Wrong(f"{topic} is a topic of no table")
            reader = self._readers[topic] = Reader(topic, history)
        return reader

    def _events(self, delivered: Delivered) -> None:
        by_topic: dict[str, list[Event]] = defaultdict(list)
        closed = lsn_of_text(delivered.progress[-1].closed_lsn)
        for partition, entries in delivered.parts:
            for entry in entries:
                event = event_of(self._sim.schemas, entry)
                if event is None:
                    continue
                if event.is_read and event.lsn != closed:
                    raise Wrong(f"{partition.topic}: {text_of(event)} is not at the closed LSN")
                by_topic[partition.topic].append(event)
        for topic, events in by_topic.items():
            reader = self._reader(topic)
            if reader is None:
                continue
            events.sort(key=lambda event: event.position)
            for event in events:
                if not event.is_read:
                    self._check_image(topic, event)
                    if event.position <= self._newest.get(topic, b""):
                        raise Wrong(f"{topic}: {text_of(event)} comes behind a later one")
                    self._newest[topic] = event.position
                reader.take(event)

    def _check_image(self, topic: str, event: Event) -> None:
        expected = self._by_identity[reader_name(topic)].get(event.identity)
        if expected is None:
            raise Wrong(f"{topic}: {text_of(event)} is of no change")
        if expected.op != event.op:
            raise Wrong(f"{topic}: {text_of(event)} should be {expected.op}")
        for what, image, wanted in (
            ("before", event.before, expected.before),
            ("after", event.after, expected.after),
        ):
            if (image is None) != (wanted is None):
                raise Wrong(f"{topic}: {text_of(event)}: {what} {image}, should be {wanted}")
            for name, value in (image or {}).items():
                right = (wanted or {}).get(name)
                if name == "note" and event.op == "u" and value is None:
                    if what == "after" and name not in event.unavailable and right is not None:
                        raise Wrong(f"{topic}: {text_of(event)}: {name} is NULL, was {right}")
                    continue
                if value != right:
                    raise Wrong(f"{topic}: {text_of(event)}: {what}.{name} {value}, was {right}")

    # -- cuts --------------------------------------------------------------------------------------

    def _cut(self, progress: Progress) -> None:
        closed = lsn_of_text(progress.closed_lsn)
        for history in self._histories.values():
            history.move_to(closed)
        for reader in self._readers.values():
            reader.is_switched |= reader.history.pass_switches(closed)
        for topic, reader in self._readers.items():
            if topic in progress.snapshotting:
                continue
            released = reader.is_held
            switch = self._switch_after(reader.history, closed) if released else None
            if released:
                reader.release(is_emptied=switch is not None)
            if reader.closed is not None:
                check_exactly_once(reader, reader.closed, closed)
            reader.closed = closed
            reader.since.clear()
            if self._mode == "initial" and not reader.is_switched:
                self._check_cut(reader, closed, switch, released=released)

    def _check_cut(
        self, reader: Reader, closed: bytes, switch: bytes | None, *, released: bool
    ) -> None:
        """A closed LSN stands for all up to the next one that is captured. A switch in between has
        no LSN of its own in what is published: a table that begins may be as it was after it.
        """
        try:
            check_state(reader, closed, released=released)
        except Wrong:
            if switch is None:
                raise
            reader.history.move_to(switch)
            reader.history.pass_switches(switch)
            check_state(reader, closed, released=True)

    def _switch_after(self, history: TableHistory, closed: bytes) -> bytes | None:
        """The last switch of a table before the next LSN that is captured."""
        if not history.switches:
            return None
        later = (lsn for lsn in captured(self._records or []) if lsn > closed)
        end = min(later, default=None)
        switches = [lsn for lsn in history.switches if end is None or lsn < end]
        return max(switches, default=None)

    # -- freshness ---------------------------------------------------------------------------------

    def _freshness(self, progress: Progress) -> None:
        """Nothing that was committed up to the claimed time is still to come."""
        claim = progress.closed_commit_ms
        if claim is None or self._sim.clock_steps or self._sim.group.lines:
            return
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=claim)
        moment = moment.replace(tzinfo=None)
        zone = self._sim.group.server.clock.zone
        grain = _CLOCK_GRAIN
        if len(self._sim.group.replicas) > 1:
            grain += timedelta(milliseconds=500)  # their clocks differ
        if zone.change is not None:
            grain += timedelta(hours=1)
        closed = lsn_of_text(progress.closed_lsn)
        for (_, lsn), committed in self._sim.commit_utc.items():
            if lsn > closed and committed < moment - grain and self._is_followed(lsn, progress):
                raise Wrong(
                    f"everything up to {moment} is said to be out, but {lsn.hex()} of {committed}"
                    f" is not: closed is {closed.hex()}"
                )

    def _is_followed(self, lsn: bytes, progress: Progress) -> bool:
        for topic, reader in self._readers.items():
            if topic in progress.snapshotting or reader.closed is None:
                continue
            if any(commit == lsn for commit, _ in reader.history.commits):
                return True
        return False


def reader_name(topic: str) -> str:
    """The table of a topic."""
    return topic.removeprefix(f"{PREFIX}.").rpartition(".")[2]
