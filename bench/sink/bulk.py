"""Large cuts by several ways, from the same records: the sink, plain Spark, and jobs by hand.

Each round has lakes and folders of its own. Rounds alternate the order of the ways, because a way
that runs later has the pages of the topics in memory and warmer code. A way's output is deleted
after it was measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Final

from bench.processor import Spent
from bench.sink.topics import Change, Offsets, Topics
from bench.sink.workbench import TABLES, Bench, Figures, published
from tailrace_sink.delta.warm_up import warm_up
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.topic_ranges import TopicRange

_WARM_KEYS: Final = 40_000
_PEERS: Final = ("raw", "decoded", "by_hand", "by_hand_append")
_CHANGELOG: Final = {"kinds": {".*": ["mirror", "changelog"]}}

Way = AbstractContextManager[Callable[[], Any]]
"""Opens what must be open before it is measured, and yields what is measured."""


def initial_load(bench: Bench) -> Figures:
    """Carry snapshot rows into new tables."""
    leg = _Leg(bench, "load", {"sink": {}}, _PEERS)
    rows = (Change(key % TABLES, "r", key) for key in range(bench.changes))
    published(leg.topics, rows, snapshotting=range(TABLES))
    leg.topics.publish(())
    return leg.measured()


def append(bench: Bench) -> Figures:
    """Carry creates into existing tables, with and without a changelog."""
    leg = _Leg(bench, "append", {"sink": {}, "sink_with_changelog": _CHANGELOG}, _PEERS)
    leg.begin_tables()
    keys = range(TABLES, TABLES + bench.changes)
    published(leg.topics, (Change(key % TABLES, "c", key) for key in keys))
    return leg.measured()


def catch_up(bench: Bench) -> Figures:
    """Every key is created and updated twice, one in ten is deleted: into tables that are there."""
    leg = _Leg(bench, "mixed", {"sink": {}}, _PEERS[:-1])
    leg.begin_tables()
    published(leg.topics, _mixed(range(TABLES, TABLES + bench.changes // 3)))
    return leg.measured()


def warm(bench: Bench) -> None:
    """Run every way over both kinds of cuts, as long as the code of each is compiled in a run.

    The sink's cuts are small for their bound, so that it is lowered.
    """
    low = {"bulk_changes": 1_000}
    leg = _Leg(bench, "warm", {"sink": low, "sink_with_changelog": {**low, **_CHANGELOG}})
    warm_up(bench.spark, leg.config("sink", 0))
    leg.begin_tables(rounds=2)
    for number in range(2):
        since = dict(leg.topics.offsets)
        first = TABLES + number * _WARM_KEYS
        published(leg.topics, _mixed(range(first, first + _WARM_KEYS)))
        if number == 0:
            leg.since = since
        for way in leg.ways(number).values():
            with way as carry:
                carry()
    leg.remove()


def _mixed(keys: range) -> Iterable[Change]:
    for op in ("c", "u"):
        yield from (Change(key % TABLES, op, key) for key in keys)
    yield from (Change(key % TABLES, "u" if key % 10 else "d", key) for key in keys)


class _Leg:
    """One leg: topics, and the ways that carry them.

    Args:
        sinks: further options of each way of the sink.
        peers: ways next to the sink's.

    Attributes:
        since: what is carried starts after these offsets.
    """

    def __init__(
        self,
        bench: Bench,
        prefix: str,
        sinks: Mapping[str, Mapping[str, Any]],
        peers: Iterable[str] = _PEERS,
    ) -> None:
        self._bench = bench
        self._sinks = sinks
        self._peers = tuple(peers)
        self.topics: Topics = bench.topics(prefix)
        self.since: Offsets = dict.fromkeys(self.topics.offsets, 0)

    def begin_tables(self, rounds: int | None = None) -> None:
        """Create the tables of all rounds, with one row each."""
        self.topics.publish(Change(table, "c", table) for table in range(TABLES))
        self.since = dict(self.topics.offsets)
        first = self.topics.ranges(dict.fromkeys(self.topics.offsets, 0))
        for number in range(rounds or self._bench.rounds):
            for name in self._sinks:
                with self._bench.sink(self.config(name, number)) as carried:
                    carried()
            by_hand = self._bench.by_hand(self.config("by_hand", number), self.topics)
            by_hand.apply(first)

    def ways(self, number: int) -> dict[str, Way]:
        """Every way of a round, by name."""
        ranges = self.topics.ranges(self.since)
        found: dict[str, Way] = {
            name: self._bench.sink(self.config(name, number)) for name in self._sinks
        }
        for name in self._peers:
            config = self.config(name, number)
            by_hand = self._bench.by_hand(config, self.topics)
            work: dict[str, Callable[[Sequence[TopicRange]], Any]] = {
                "raw": partial(self._bench.raw, config),
                "decoded": by_hand.decode,
                "by_hand": by_hand.apply,
                "by_hand_append": by_hand.append,
            }
            found[name] = nullcontext(partial(work[name], ranges))
        return found

    def measured(self) -> Figures:
        """Measure every way in every round.

        Returns:
            Medians by way: seconds, changes per second, the processor's microseconds for each
            change. A way of the sink also has the ratios of each peer's seconds to its own.
        """
        spent: dict[str, list[Spent]] = {name: [] for name in (*self._sinks, *self._peers)}
        for number in range(self._bench.rounds):
            ways = self.ways(number)
            for name in sorted(ways, key=list(ways).index, reverse=number % 2 == 1):
                with ways[name] as carry:
                    watch = self._bench.watch()
                    carry()
                    spent[name].append(watch.spent())
                self._bench.remove(self.config(name, number))
        changes = sum(found.count for found in self.topics.ranges(self.since))
        medians = {
            name: Spent(
                statistics.median(one.clock_s for one in all_of),
                statistics.median(one.processor_s for one in all_of),
            )
            for name, all_of in spent.items()
        }
        figures: Figures = {"changes": changes, "rounds": self._bench.rounds}
        for name, one in medians.items():
            figures[name] = {
                "s": round(one.clock_s, 2),
                "changes_per_s": round(changes / one.clock_s),
                "processor_us": round(one.processor_s / changes * 1e6, 1),
                "rounds_s": [round(each.clock_s, 2) for each in spent[name]],
            }
            if name in self._sinks:
                figures[name] |= {
                    f"ratio_to_{peer}": round(medians[peer].clock_s / one.clock_s, 3)
                    for peer in self._peers
                }
        return figures

    def remove(self) -> None:
        """Delete what the ways of two rounds wrote."""
        for number in range(2):
            for name in (*self._sinks, *self._peers):
                self._bench.remove(self.config(name, number))

    def config(self, name: str, number: int) -> SinkConfig:
        """Options of a way in a round, with a lake of its own."""
        return self._bench.config(
            self.topics, f"-{name}-{number}".replace("_", "-"), **self._sinks.get(name, {})
        )
