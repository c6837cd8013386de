"""The sink compared with plain Spark on the same records, and the seconds of single cuts.

One run creates its own records: a small publisher writes them by the contract.

- ``raw`` is plain Spark carrying the same offsets from Kafka to Parquet, undecoded. It is one job
  over all topics and partitions, so it runs on every core. A leg's ``ratio_to_raw`` is the raw time
  divided by the sink's. 1.0 would mean that decoding, the ledger, keys, positions and commit rows
  cost nothing.
- ``decoded`` is the same with from_avro before the Parquet. A job that decodes needs at least this
  time, with no table, no key and no Delta.
- ``by_hand`` is the job that people write instead. It has from_avro, the last change of each key
  and a MERGE for each table, without a log, a ledger or cuts. Over 1.0 in ``ratio_to_by_hand``
  means that the sink is faster.

A leg with a ratio reports both parts: the log, and the fold into the tables; ``ratio_to_raw`` is of
the two together. The legs:

- ``initial_load``: snapshot rows into new tables
- ``append``: creates into existing tables
- ``catch_up``: creates, updates and deletes mixed
- ``merge``: scattered updates into filled tables, in seconds
- ``steady``: small cuts one after another, in seconds
- ``latency``: seconds from a commit in the topics until a new reader sees it, while the sink runs
  as usual. It is measured by ``as_of`` (in the log), and in the bare tables.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import structlog
from pyspark.sql import SparkSession

from bench.sink.by_hand import ByHand
from bench.sink.fill import fill, fill_by_hand
from bench.sink.latency import latency, seen, spread
from bench.sink.servers import running_servers
from bench.sink.topics import Change, Topics
from tailrace_compose.local.jars import spark_jars
from tailrace_service.registry.client import SchemaRegistry
from tailrace_sink.daemon.sink import Sink
from tailrace_sink.daemon.streaming import ProgressStream
from tailrace_sink.daemon.warm_up import warm_up
from tailrace_sink.kafka.offset_reads import read_messages
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.spark.session import session_with

PARTITIONS: Final = 4
TABLES: Final = 3
PER_LSN: Final = 5_000
LEGS: Final = ("initial_load", "append", "catch_up", "merge", "steady", "latency")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's options."""
    parser.add_argument("--changes", type=int, help="sink: changes of each leg with a raw one")
    parser.add_argument("--cuts", type=int, help="sink: cuts in steady state")
    parser.add_argument("--quick", action="store_true", help="sink: a tenth of everything")
    parser.add_argument("--legs", default=",".join(LEGS), help=f"sink: of {', '.join(LEGS)}")


class Took(NamedTuple):
    """Seconds into the log, and from there into the tables."""

    log_s: float
    fold_s: float

    @property
    def total_s(self) -> float:
        """Both."""
        return self.log_s + self.fold_s


@dataclass
class _Bench:
    """What the legs share; each has a prefix and a lake of its own."""

    spark: SparkSession
    bootstrap: str
    registry: SchemaRegistry
    registry_url: str
    folder: Path
    changes: int
    cuts: int
    scale: int
    random: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311 - data

    def topics(self, prefix: str, tables: int = TABLES, partitions: int = PARTITIONS) -> Topics:
        return Topics(self.bootstrap, self.registry, prefix, tables, partitions)

    def config(self, topics: Topics, **options: Any) -> SinkConfig:
        return SinkConfig.load(
            {
                "kafka": {"bootstrap": self.bootstrap},
                "registry": {"url": self.registry_url},
                "prefix": topics.names.prefix,
                "lake": str(self.folder / topics.names.prefix),
                **options,
            }
        )

    def raw(self, config: SinkConfig, ranges: Sequence[TopicRange]) -> float:
        """Seconds from Kafka to Parquet, all topics in one job."""
        started = time.perf_counter()
        assigned = {found.topic: found.partitions for found in ranges}
        values = read_messages(self.spark, config.kafka, assigned)
        values.write.parquet(str(self.folder / f"raw-{time.monotonic_ns()}"))
        return time.perf_counter() - started

    @contextmanager
    def sink(self, config: SinkConfig) -> Iterator[Callable[[], Took]]:
        """A sink that is open; each call catches up and gives its seconds."""
        sink = Sink(self.spark, config, self.registry.schema_by_id)
        stream = ProgressStream(self.spark, config, self.registry.schema_by_id, sink)

        def catch_up() -> Took:
            started = time.perf_counter()
            stream.catch_up(threading.Event())
            logged = time.perf_counter()
            sink.fold_tables(threading.Event())
            return Took(logged - started, time.perf_counter() - logged)

        try:
            sink.open()
            yield catch_up
        finally:
            sink.close()

    def by_hand(self, config: SinkConfig, topics: Topics) -> ByHand:
        """Run the job that people write by hand, next to the sink's lake."""
        avro = dict(zip(topics.data, topics.schema_texts, strict=True))
        return ByHand(self.spark, config.kafka, avro, f"{config.lake}-by-hand")

    def compared(
        self, config: SinkConfig, by_hand: ByHand, ranges: Sequence[TopicRange], took: Took
    ) -> Figures:
        raw_s, decoded_s = self.raw(config, ranges), by_hand.decode(ranges)
        by_hand_s = by_hand.apply(ranges)
        changes = sum(found.count for found in ranges)
        return {
            "changes": changes,
            "log_s": round(took.log_s, 2),
            "fold_s": round(took.fold_s, 2),
            "sink_changes_per_s": round(changes / took.total_s),
            "raw_s": round(raw_s, 2),
            "raw_changes_per_s": round(changes / raw_s),
            "ratio_to_raw": round(raw_s / took.total_s, 3),
            "log_ratio_to_raw": round(raw_s / took.log_s, 3),
            "decoded_s": round(decoded_s, 2),
            "ratio_to_decoded": round(decoded_s / took.total_s, 3),
            "by_hand_s": round(by_hand_s, 2),
            "ratio_to_by_hand": round(by_hand_s / took.total_s, 3),
        }


Figures = dict[str, Any]


def run(arguments: argparse.Namespace) -> Figures:
    """Run the benchmark.

    Returns:
        Figures by leg: rates in changes per second, durations in seconds, ratios.
    """
    # Standard output belongs to the figures.
    structlog.configure(
        processors=[seen, *structlog.get_config()["processors"]],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    scale = 10 if getattr(arguments, "quick", False) else 1
    legs = {
        "initial_load": _initial_load,
        "append": _append,
        "catch_up": _catch_up,
        "merge": _merge,
        "steady": _steady,
        "latency": _latency,
    }
    wanted = str(getattr(arguments, "legs", ",".join(LEGS))).split(",")
    figures: Figures = {"cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-sink-")))
        bootstrap, url, registry = stack.enter_context(running_servers(folder))
        bench = _Bench(
            spark=stack.enter_context(_session(folder)),
            bootstrap=bootstrap,
            registry=registry,
            registry_url=url,
            folder=folder,
            changes=getattr(arguments, "changes", None) or 300_000 // scale,
            cuts=getattr(arguments, "cuts", None) or 50 // (5 if scale > 1 else 1),
            scale=scale,
        )
        _warm(bench)
        for name in wanted:
            figures[name] = legs[name](bench)
    figures["load_after"] = os.getloadavg()[0]
    return figures


@contextmanager
def _session(folder: Path) -> Iterator[SparkSession]:
    spark = session_with(
        {
            "spark.jars": ",".join(map(str, spark_jars())),
            "spark.driver.memory": "1g",
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        }
    )
    try:
        yield spark
    finally:
        spark.stop()


def _warm(bench: _Bench) -> None:
    """Both ways before they are timed: compiling them takes longer than the work."""
    topics = bench.topics("warm")
    config = bench.config(topics)
    warm_up(bench.spark, config)
    keys = range(min(60_000, bench.changes))
    since = dict(topics.offsets)
    by_hand = bench.by_hand(config, topics)
    with bench.sink(config) as catch_up:
        for op in ("c", "u", "u", "u"):
            before = dict(topics.offsets)
            topics.publish(Change(key % TABLES, op, key) for key in keys)
            catch_up()
            by_hand.apply(topics.ranges(before))
    bench.raw(config, topics.ranges(since))
    by_hand.decode(topics.ranges(since))


def _published(topics: Topics, changes: Iterable[Change], **options: Any) -> None:
    waiting = iter(changes)
    while changes_of_lsn := list(islice(waiting, PER_LSN)):
        topics.publish(changes_of_lsn, **options)


def _initial_load(bench: _Bench) -> Figures:
    """Snapshot rows into new tables."""
    topics = bench.topics("load")
    config = bench.config(topics)
    rows = (Change(key % TABLES, "r", key) for key in range(bench.changes))
    _published(topics, rows, snapshotting=range(TABLES))
    topics.publish(())
    with bench.sink(config) as catch_up:
        everything = topics.ranges(dict.fromkeys(topics.offsets, 0))
        return bench.compared(config, bench.by_hand(config, topics), everything, catch_up())


def _append(bench: _Bench) -> Figures:
    """Measure creates into existing tables, with and without a changelog."""
    figures = {}
    for name, options in (
        ("mirror", {}),
        ("mirror_and_changelog", {"changelog": {"include": [".*"]}}),
    ):
        topics = bench.topics(f"append-{name.replace('_', '-')}")
        config = bench.config(topics, **options)
        topics.publish(Change(table, "c", table) for table in range(TABLES))
        by_hand = bench.by_hand(config, topics)
        by_hand.apply(topics.ranges(dict.fromkeys(topics.offsets, 0)))
        with bench.sink(config) as catch_up:
            catch_up()
            since = dict(topics.offsets)
            keys = range(TABLES, TABLES + bench.changes)
            _published(topics, (Change(key % TABLES, "c", key) for key in keys))
            figures[name] = bench.compared(config, by_hand, topics.ranges(since), catch_up())
    return figures


def _catch_up(bench: _Bench) -> Figures:
    """Every key is created and updated twice, one in ten is deleted: into tables that are there."""
    topics = bench.topics("mixed")
    config = bench.config(topics)
    topics.publish(Change(table, "c", table) for table in range(TABLES))
    by_hand = bench.by_hand(config, topics)
    by_hand.apply(topics.ranges(dict.fromkeys(topics.offsets, 0)))
    with bench.sink(config) as catch_up:
        catch_up()
        since = dict(topics.offsets)
        keys = range(TABLES, TABLES + bench.changes // 3)
        _published(topics, (Change(key % TABLES, op, key) for op in ("c", "u") for key in keys))
        last = (Change(key % TABLES, "u" if key % 10 else "d", key) for key in keys)
        _published(topics, last)
        return bench.compared(config, by_hand, topics.ranges(since), catch_up())


def _merge(bench: _Bench) -> Figures:
    """Updates into filled tables: of keys all over the table, and of neighbours."""
    figures: Figures = {}
    for thousands, changed in ((5_000, 100_000), (1_000, 1_000)):
        rows, updates = thousands * 1000 // bench.scale, changed // bench.scale
        topics = bench.topics(f"merge-{rows}", tables=1)
        config = bench.config(topics)
        topics.publish([Change(0, "c", 0)])
        by_hand = bench.by_hand(config, topics)
        by_hand.apply(topics.ranges(dict.fromkeys(topics.offsets, 0)))
        with bench.sink(config) as catch_up:
            catch_up()
            fill(bench.spark, config, topics, rows)
            fill_by_hand(bench.spark, by_hand.location(topics.data[0]), rows)
            for name in ("first", "scattered", "neighbours"):
                begin = bench.random.randrange(1, rows - updates)
                keys = list(range(begin, begin + updates))
                if name != "neighbours":
                    keys = bench.random.sample(range(1, rows), updates)
                since = dict(topics.offsets)
                topics.publish(Change(0, "u", key) for key in keys)
                leg = f"{name}_{updates}_into_{rows}"
                figures[f"{leg}_s"] = round(catch_up().fold_s, 2)
                figures[f"{leg}_by_hand_s"] = round(by_hand.apply(topics.ranges(since)), 2)
    return figures


def _steady(bench: _Bench) -> Figures:
    """Cuts of some hundred changes into tables with rows: a third creates, the rest updates."""
    figures: Figures = {}
    for tables in (3, 50):
        topics = bench.topics(f"steady-{tables}", tables=tables, partitions=1)
        config = bench.config(topics)
        known = 2_000
        topics.publish(Change(table, "c", key) for table in range(tables) for key in range(known))
        cuts = max(3, bench.cuts if tables == 3 else bench.cuts // 5)
        took = []
        with bench.sink(config) as catch_up:
            catch_up()
            for cut in range(2 + cuts):
                changes = [
                    Change(n % tables, "u", bench.random.randrange(known)) for n in range(200)
                ]
                first = known + cut * 100
                changes += [Change(n % tables, "c", first + n) for n in range(100)]
                topics.publish(changes)
                took.append(catch_up())
        figures[f"{tables}_tables"] = {
            "cuts": cuts,
            "changes_per_cut": 300,
            "log": spread([one.log_s for one in took[2:]]),
            "fold": spread([one.fold_s for one in took[2:]]),
        }
    return figures


def _latency(bench: _Bench) -> Figures:
    """Measure the running sink with 300 changes of three tables each second."""
    topics = bench.topics("latency", partitions=1)
    return latency(bench.spark, bench.config(topics), topics, 400 // bench.scale)
