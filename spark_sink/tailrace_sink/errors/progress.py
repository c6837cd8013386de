"""Errors of progress records that do not continue the lake or that disagree with the topics."""

from __future__ import annotations

from tailrace_sink.errors.base import SNAPSHOT_HELPS, SinkError, TableError


class ProgressGap(SinkError):
    """A progress record does not start where the one before it ended.

    Attributes:
        expected_lsn: closed LSN of the record before.
        found_lsn: LSN after which the record starts.
    """

    def __init__(self, expected_lsn: str, found_lsn: str, offset: int) -> None:
        self.expected_lsn = expected_lsn
        self.found_lsn = found_lsn
        super().__init__(
            f"the progress jumps from LSN {expected_lsn} to {found_lsn} at offset {offset}: the"
            " changes between were never published here. Fix: check the publisher's checkpoint"
            " topic, and start from a new snapshot into a new lake address"
        )


class LsnWentBackwards(SinkError):
    """The progress goes back to an older LSN: the source was restored or replaced."""

    def __init__(self, known_lsn: str, found_lsn: str, offset: int) -> None:
        self.known_lsn = known_lsn
        self.found_lsn = found_lsn
        super().__init__(
            f"the progress goes back from LSN {known_lsn} to {found_lsn} at offset {offset}: the"
            " source was restored or replaced. Fix: publish it under another prefix, into another"
            " lake address"
        )


class ForeignRecord(SinkError):
    """A record in one of Tailrace's topics that does not follow the contract."""


class DividedIntoShards(SinkError):
    """An earlier release divided the database into shards; this one reads one stream."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} is of a database that is divided into shards, as earlier releases could: this"
            " release reads one stream of a database. Fix: stop its publishers, and publish the"
            " database under another publisher.prefix, with new snapshots and a new lake; or"
            " continue with release 0.2"
        )


class LedgerMismatch(TableError):
    """A topic holds other changes than the ledger counted when they were written.

    Attributes:
        partition: the first one that differs; None when only the whole topic's number is known.
        expected: number of changes and sum of their position hashes, by the ledger.
        found: the same in the topic.
    """

    def __init__(
        self,
        table: str,
        topic: str,
        partition: int | None,
        expected: tuple[int, int | None],
        found: tuple[int, int | None],
    ) -> None:
        self.table = table
        self.topic = topic
        self.partition = partition
        self.expected = expected
        self.found = found
        where = f"topic {topic}" + ("" if partition is None else f" partition {partition}")
        held = f"{found[0]} changes where the publisher counted {expected[0]}"
        if found[0] == expected[0]:
            held = (
                f"{found[0]} changes, but others than the publisher counted (sum of position hashes"
                f" {found[1]} instead of {expected[1]})"
            )
        super().__init__(
            f"table {table}: {where} holds {held}: records were removed (compaction or retention)"
            " or written by somebody else. Fix: give the topic cleanup.policy=delete with enough"
            f" retention, and take a new snapshot of its table {SNAPSHOT_HELPS}"
        )
