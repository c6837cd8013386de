"""Drawn operations of other programs between batches: no cut has rows that the source did not have.

Each table either has the source's rows in the cut, or is out of it, with a reason. Operations that
change no row never take a table out. The story is that of both formats, each with its operations.
"""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import lit

from tailrace_sink.daemon.sink import Sink
from tailrace_sink.daemon.streaming import ProgressStream
from tailrace_sink.reading.cut import Cut
from tailrace_sink.reading.reader import read
from tailrace_sink.watch.retries import RETRIED, Retries
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.conftest import Lake
from tests.sink.tables.test_foreign_hands import forget_tables

COLUMNS = (column(1, "id", "int", key=1), column(2, "v", "int"))
ROWS = 8
PLAIN = tuple(f"t{number}" for number in range(8))
PARTS = ("part_a", "part_b")
IN_TURN = len(PLAIN) + 2
"""Operations of a round, one on each lake table."""
FEW, MANY = 20 // IN_TURN, 40 // IN_TURN
"""Rounds of a story in make test-sink, and of one of the nightly tests."""
MORE = range(2, 7)
"""Seeds of the nightly tests, with two hundred operations."""
ATTEMPTS = 3
SHARED = "all.orders"
TAKEN = "is taken"
ADVICE = f"take a new snapshot|{TAKEN}: .* drop that in the catalog.* tailrace snapshot"
NEVER = threading.Event()

Hand = Callable[[Lake, str, random.Random], Any]
"""Does something to the table at a path below the lake."""


@dataclass(frozen=True)
class Hands:
    """What other programs do to tables of one format.

    Attributes:
        anywhere: names of those that companions are drawn for, too.
    """

    changing: Mapping[str, Hand]
    harmless: Mapping[str, Hand]
    anywhere: frozenset[str]

    def draw(self, chance: random.Random) -> str:
        return chance.choice(sorted(self.changing.keys() | self.harmless.keys()))

    def __getitem__(self, name: str) -> Hand:
        return {**self.changing, **self.harmless}[name]


class Story:
    """A lake with plain tables, one with companions, and two sources that share one."""

    def __init__(
        self, source: Source, lake: Lake, spark: SparkSession, hands: Hands, seed: int
    ) -> None:
        self.chance = random.Random(seed)
        self.source, self.lake, self.spark, self.hands = source, lake, spark, hands
        self.options: dict[str, Any] = {
            "kinds": {r"dbo\.kept": ["mirror", "changelog", "history"]},
            "apply_attempts": ATTEMPTS,
            "retry_backoff_max_s": 0.25,
            "into": {r"dbo\.part_.*": SHARED},
        }
        self.tables = [source.table(name, *COLUMNS) for name in (*PLAIN, "kept", *PARTS)]
        for table in self.tables:
            source.commit(*(self._insert(table, n) for n in range(ROWS)))
        source.publish()
        self.begin()
        self.carry()

    @staticmethod
    def _insert(table: SourceTable, number: int) -> Callable[[Any], None]:
        return lambda t: t.insert(table, id=number, v=number)

    @staticmethod
    def path(name: str) -> str:
        return (
            "shop/all/orders" if name.startswith("part") or name == SHARED else f"shop/dbo/{name}"
        )

    def begin(self) -> None:
        self.sink: Sink = self.lake.sink(**self.options)
        self.sink.open()
        by_id = self.source.registry.schema_by_id
        self.stream = ProgressStream(self.spark, self.sink.config, by_id, self.sink)

    def carry(self) -> None:
        """Carry everything into the tables, as a sink that tries again."""
        retries = Retries(self.sink.config, self.sink.metrics)
        while True:
            try:
                self.stream.catch_up(NEVER)
                self.sink.fold_tables(NEVER)
            except RETRIED as error:
                retries.wait_after(error, self.sink.fold.state.batch, NEVER)
                self.sink.open()
            else:
                return

    def restart(self) -> None:
        self.sink.close()
        forget_tables(self.spark)
        self.begin()

    def change(self) -> None:
        """Each table has changes, so that the next batch looks at it."""
        for table in self.tables:
            key = self.chance.choice(sorted(table.rows))
            new = max(table.rows)[0] + 1
            self.source.commit(
                lambda t, of=table, k=key: t.update(of, k, v=self.chance.randrange(1000)),
                self._insert(table, new),
            )
        self.source.publish()

    def round(self) -> dict[str, str]:
        """Draw an operation for each lake table; return that of each source."""
        done: dict[str, str] = {}
        for name in (*PLAIN, "kept", SHARED):
            hand, path = self.hands.draw(self.chance), self.path(name)
            if name == "kept" and hand in self.hands.anywhere:
                path += self.chance.choice(("", ".changes", ".history"))
            self.hands[hand](self.lake, path, self.chance)
            sources = PARTS if name == SHARED else [name]
            done |= dict.fromkeys(sources, hand)
        return done

    def judge(self, done: dict[str, str]) -> dict[str, str]:
        """Check the newest cut; return why sources are out of it, by their names."""
        stopped = json.loads(self.lake.commits()[-1]["stopped"])
        cut = read(self.lake.spark, self.lake.address).as_of("latest")
        rows = self.rows(cut, [of.name.table for of in self.tables if of.topic not in stopped])
        out = {}
        for table in self.tables:
            name = table.name.table
            if table.topic in stopped:
                assert done[name] in self.hands.changing, (name, done[name], stopped[table.topic])
                assert re.search(ADVICE, stopped[table.topic]), (name, done[name], stopped)
                out[name] = stopped[table.topic]
                continue
            assert self.path(name) in cut.versions, (name, done[name])
            found = {(row["id"],): {"id": row["id"], "v": row["v"]} for row in rows[name]}
            assert len(found) == len(rows[name]), (name, done[name])
            assert found == table.rows, (name, done[name])
        return out

    @staticmethod
    def rows(cut: Cut, names: Iterable[str]) -> dict[str, list[Row]]:
        """The rows of several tables, in one job."""
        found: dict[str, list[Row]] = {name: [] for name in names}
        frames = [cut.read(f"dbo.{of}").select(lit(of).alias("of"), "id", "v") for of in found]
        for row in reduce(DataFrame.unionAll, frames).collect() if frames else ():
            found[row["of"]].append(row)
        return found

    def snapshot(self, out: Mapping[str, str]) -> None:
        """Do what the reasons say of tables that are out of the cut."""
        tables = [table for table in self.tables if table.name.table in out]
        if not tables:
            return
        for path in {self.path(name) for name, reason in out.items() if TAKEN in reason}:
            self.hands["drop"](self.lake, path, self.chance)
        self.source.publish(snapshotting=tables)
        for table in tables:
            self.source.snapshot(table, list(table.rows.values()))
        self.source.publish()
        self.carry()


def play(
    source: Source, lake: Lake, spark: SparkSession, hands: Hands, seed: int, rounds: int
) -> None:
    story = Story(source, lake, spark, hands, seed)
    try:
        for _ in range(rounds):
            done = story.round()
            story.change()
            if story.chance.random() < 0.5:
                story.restart()
            story.carry()
            story.snapshot(story.judge(done))
            assert story.judge(dict.fromkeys(done, "")) == {}, done
    finally:
        story.sink.close()
