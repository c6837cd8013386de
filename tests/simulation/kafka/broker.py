"""Topics, partitions, transactions and their coordinator.

A transaction is decided by its coordinator; the markers that make it visible are written to each
partition afterwards, one by one, and may be late. Until a partition has its marker, readers of
committed records see nothing behind the transaction's first record: the last stable offset. A
coordinator lets the next transaction of a producer begin when the markers of the one before are
written.

https://cwiki.apache.org/confluence/display/KAFKA/KIP-98+-+Exactly+Once+Delivery+and+Transactional+Messaging
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum


class Fate(Enum):
    """What became of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(slots=True, eq=False)
class Transaction:
    """A transaction of one producer.

    Attributes:
        number: in the order of beginning.
        began_us: virtual time.
        fate: open until the coordinator decides.
        unmarked: partitions that were written and have no marker yet.
        decided_us: virtual time of the decision.
        decided_number: in the order of decisions.
        is_stray: whether it is of another producer, who writes by hand.
    """

    number: int
    began_us: int
    fate: Fate = Fate.OPEN
    unmarked: list[Partition] = field(default_factory=list)
    decided_us: int = 0
    decided_number: int = 0
    is_stray: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """A record, or a marker, which has no transaction."""

    offset: int
    key: bytes | None
    value: bytes | None
    transaction: Transaction | None
    is_marker: bool = False


@dataclass(slots=True, eq=False)
class Partition:
    """One partition.

    Attributes:
        entries: everything that was ever written: the judge reads what retention took, too.
        log_start: first offset that retention or deletion left.
        compacted: offsets of records that compaction took.
    """

    topic: str
    number: int
    entries: list[Entry] = field(default_factory=list)
    log_start: int = 0
    compacted: set[int] = field(default_factory=set)

    @property
    def end(self) -> int:
        """The high watermark."""
        return len(self.entries)

    def stable_end(self) -> int:
        """The last stable offset: the first record of a transaction without its marker here."""
        for entry in self.entries[self._first_unstable_at_least() :]:
            transaction = entry.transaction
            if transaction is not None and self in transaction.unmarked:
                return entry.offset
        return self.end

    def _first_unstable_at_least(self) -> int:
        return max(0, self.end - 4000)

    def append(self, key: bytes | None, value: bytes | None, transaction: Transaction) -> int:
        """Write a record; gives its offset."""
        if self not in transaction.unmarked:
            transaction.unmarked.append(self)
        offset = self.end
        self.entries.append(Entry(offset, key, value, transaction))
        return offset

    def mark(self, transaction: Transaction) -> None:
        """Write the transaction's marker."""
        transaction.unmarked.remove(self)
        self.entries.append(Entry(self.end, None, None, None, is_marker=True))

    def lose_from(self, end: int) -> None:
        """Lose the end, as a leader that was elected although it lacked it; it follows a marker."""
        del self.entries[end:]
        self.compacted = {offset for offset in self.compacted if offset < end}

    def committed(self) -> Iterator[Entry]:
        """Every record of a transaction that was committed, seen or not."""
        for entry in self.entries:
            if entry.transaction is not None and entry.transaction.fate is Fate.COMMITTED:
                yield entry


@dataclass(slots=True)
class Topic:
    """A topic and its settings."""

    name: str
    partitions: list[Partition]
    settings: dict[str, str]


@dataclass(slots=True)
class Producer:
    """What the coordinator knows of a transactional id.

    Attributes:
        epoch: who has an older one is fenced.
        taken: how often it was taken.
        timeout_us: after which an open transaction is aborted.
        current: the open transaction, or the one whose markers are on their way.
    """

    epoch: int = 0
    taken: int = 0
    timeout_us: int = 0
    current: Transaction | None = None


@dataclass(slots=True)
class Broker:
    """The cluster.

    Attributes:
        now_us: the virtual time.
        topics: by name.
        producers: by transactional id.
        on_commit: told of each transaction that was decided to be committed.
        holds_markers: whether markers wait until they are needed.
        strays: records of other producers, by topic.
        groups: offsets that consumer groups have committed, by group, topic and partition.
    """

    now_us: Callable[[], int]
    topics: dict[str, Topic] = field(default_factory=dict)
    producers: dict[str, Producer] = field(default_factory=dict)
    on_commit: Callable[[Transaction], None] = lambda _: None
    holds_markers: bool = False
    began: int = 0
    decided: int = 0
    strays: Counter[str] = field(default_factory=Counter)
    groups: dict[tuple[str, str, int], int] = field(default_factory=dict)

    def create(self, name: str, partitions: int, settings: dict[str, str]) -> None:
        """Create a topic."""
        made = [Partition(name, number) for number in range(partitions)]
        self.topics[name] = Topic(name, made, {"cleanup.policy": "delete", **settings})

    def grow(self, name: str, partitions: int) -> None:
        """Add partitions to a topic."""
        found = self.topics[name].partitions
        found += [Partition(name, number) for number in range(len(found), partitions)]

    def init_producer(self, transactional_id: str, timeout_us: int) -> int:
        """InitProducerId: fence who was there, abort what it left open; gives the new epoch."""
        producer = self.producers.setdefault(transactional_id, Producer())
        producer.epoch += 1
        producer.taken += 1
        producer.timeout_us = timeout_us
        if producer.current is not None and producer.current.fate is Fate.OPEN:
            self._decide(producer.current, Fate.ABORTED)
        self.write_markers(producer)
        return producer.epoch

    def is_fenced(self, transactional_id: str, epoch: int) -> bool:
        """Whether another producer has taken the id, or the brokers have aborted for its age."""
        self.expire()
        return self.producers[transactional_id].epoch != epoch

    def begin(self, transactional_id: str) -> Transaction:
        """The first record of a transaction arrives; markers of the one before go first."""
        producer = self.producers[transactional_id]
        self.write_markers(producer)
        self.began += 1
        producer.current = Transaction(self.began, self.now_us())
        return producer.current

    def end(self, transactional_id: str, fate: Fate) -> None:
        """EndTxn; of a transaction that is decided already it changes nothing."""
        producer = self.producers[transactional_id]
        if producer.current is None or producer.current.fate is not Fate.OPEN:
            return
        self._decide(producer.current, fate)
        if not self.holds_markers:
            self.write_markers(producer)

    def expire(self) -> None:
        """Abort transactions that are older than their producer's timeout, and fence it.

        https://kafka.apache.org/documentation/#producerconfigs_transaction.timeout.ms
        """
        for producer in self.producers.values():
            current = producer.current
            if current is None or current.fate is not Fate.OPEN:
                continue
            if self.now_us() - current.began_us > producer.timeout_us:
                producer.epoch += 1
                self._decide(current, Fate.ABORTED)
                self.write_markers(producer)

    def write_markers(self, producer: Producer | None = None) -> None:
        """Write the markers that are due, of one producer or of all."""
        for each in self.producers.values() if producer is None else (producer,):
            current = each.current
            if current is not None and current.fate is not Fate.OPEN:
                for partition in list(current.unmarked):
                    partition.mark(current)

    def _decide(self, transaction: Transaction, fate: Fate) -> None:
        self.decided += 1
        transaction.fate = fate
        transaction.decided_us = self.now_us()
        transaction.decided_number = self.decided
        if fate is Fate.COMMITTED:
            self.on_commit(transaction)

    def stray(self, partition: Partition) -> None:
        """Another producer writes a record, and commits it."""
        self.began += 1
        transaction = Transaction(self.began, self.now_us(), is_stray=True)
        partition.append(b"by", b"hand", transaction)
        transaction.fate = Fate.COMMITTED
        partition.mark(transaction)
        self.strays[partition.topic] += 1

    def compact(self, name: str) -> None:
        """Take records away that have a newer committed one of their key."""
        for partition in self.topics[name].partitions:
            newest: dict[bytes | None, int] = {}
            for entry in partition.committed():
                if entry.offset < partition.stable_end():
                    if entry.key in newest:
                        partition.compacted.add(newest[entry.key])
                    newest[entry.key] = entry.offset
