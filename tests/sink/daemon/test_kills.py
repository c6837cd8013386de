"""Random changes of two tables, and sinks that break off at random steps: no cut is ever wrong."""

from __future__ import annotations

import random

import pytest

from tailrace_sink import read
from tests.envelopes.messages import Message
from tests.envelopes.source import Source
from tests.envelopes.tables import column
from tests.envelopes.transaction import Transaction
from tests.sink.conftest import Lake

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ROUNDS = 5
STEPS = 7
"""Of a sink that has something to do: two of the log, and the fold's with its two tables."""


class Changes:
    """Two tables, of which not all that was committed is published."""

    def __init__(self, source: Source, chance: random.Random) -> None:
        key, value = column(1, "id", "int", key=1), column(2, "v", "int")
        self._source, self._chance = source, chance
        self.tables = [source.table(name, key, value) for name in "ab"]
        self._waiting: list[tuple[str, list[Message]]] = []
        self.closed: list[str] = []
        self._number = 0

    def change(self) -> None:
        """A transaction over both tables: rows come, change and go."""
        self._number += 1

        def changes(transaction: Transaction) -> None:
            for table in self.tables:
                free = [n for n in range(8) if (n,) not in table.rows]
                there = sorted(table.rows)
                if free:
                    transaction.insert(table, id=self._chance.choice(free), v=self._number)
                if there:
                    transaction.update(table, self._chance.choice(there), v=-self._number)
                if len(there) > 3:
                    transaction.delete(table, self._chance.choice(there))

        lsn = self._source.commit(changes)
        self._waiting.append((lsn, self._source.pending))
        self._source.pending = []

    def publish(self, *, is_all: bool) -> None:
        """Publish what waits, or the first transactions of it."""
        count = len(self._waiting)
        taken = self._waiting[: count if is_all else self._chance.randint(1, count)]
        del self._waiting[: len(taken)]
        for lsn, messages in taken:
            self._source.publish(lsn, messages=messages)
            self.closed.append(lsn)


@pytest.mark.guarantee(13)
@pytest.mark.slow("six starts of a sink, five of which break off")
@pytest.mark.parametrize(
    ("seed", "bulk_changes", "rewrite_below_bytes"),
    [
        (3, 6, 131_072),  # larger cuts are not copied into the log
        pytest.param(1, 0, 0, marks=pytest.mark.nightly("the same, with cuts of both kinds")),
        pytest.param(2, 0, 0, marks=pytest.mark.nightly("the same, with cuts of both kinds")),
    ],
)
def test_sinks_that_break_off_anywhere(
    source: Source, lake: Lake, seed: int, bulk_changes: int, rewrite_below_bytes: int
):
    chance = random.Random(seed)
    changes = Changes(source, chance)
    lake.options |= {"merge_pool": 1, "bulk_changes": bulk_changes}
    lake.options["rewrite_below_bytes"] = rewrite_below_bytes
    for number in range(ROUNDS):
        for _ in range(chance.randint(1, 2)):
            changes.change()
        changes.publish(is_all=number in (0, ROUNDS - 1) or chance.random() < 0.6)
        lake.break_off(at=chance.randrange(STEPS))

    lake.catch_up()
    assert lake.cut() == source.cut()
    assert lake.logged_twice() == []
    # Within a bulk cut no LSN is readable.
    within = changes.closed[-1] if bulk_changes else chance.choice(changes.closed)
    for lsn in {changes.closed[-1], within}:
        cut = read(lake.spark, f"{lake.path}/lake").as_of(lsn=lsn)
        assert cut.closed_lsn == lsn
        for table in changes.tables:
            found = {(row["id"],): row["v"] for row in cut.read(table.name).collect()}
            expected = source.cuts[lsn][table.name.table]
            assert found == {key: row["v"] for key, row in expected.items()}, (seed, lsn)
