"""What the legs of the sink's benchmark share: servers, session, and a sink that catches up."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from bench.processor import Stopwatch
from bench.sink.by_hand import ByHand
from bench.sink.servers import Servers
from bench.sink.topics import Change, Topics
from tailrace_compose.local.jars import spark_jars
from tailrace_sink.daemon.sink import Sink
from tailrace_sink.daemon.streaming import ProgressStream
from tailrace_sink.kafka.offset_reads import read_messages
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.spark.session import session_with

PARTITIONS: Final = 4
TABLES: Final = 3
PER_LSN: Final = 5_000

Figures = dict[str, Any]


class Took(NamedTuple):
    """Seconds into the log, and from there into the tables."""

    log_s: float
    fold_s: float


@dataclass
class Bench:
    """What the legs share; each has a prefix and lakes of its own.

    Attributes:
        changes: of each bulk leg.
        rounds: of each bulk leg.
        scale: by which fixed sizes are divided.
    """

    spark: SparkSession
    servers: Servers
    folder: Path
    changes: int
    rounds: int
    cuts: int
    scale: int
    random: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311 - data

    def topics(self, prefix: str, tables: int = TABLES, partitions: int = PARTITIONS) -> Topics:
        """Create the topics of a prefix."""
        return Topics(self.servers.bootstrap, self.servers.registry, prefix, tables, partitions)

    def config(self, topics: Topics, lake: str = "", **options: Any) -> SinkConfig:
        """Options of a sink of these topics, into one of its lakes."""
        return SinkConfig.load(
            {
                "kafka": {"bootstrap": self.servers.bootstrap},
                "registry": {"url": self.servers.url},
                "prefix": topics.names.prefix,
                "lake": str(self.folder / f"{topics.names.prefix}{lake}"),
                **options,
            }
        )

    def raw(self, config: SinkConfig, ranges: Sequence[TopicRange]) -> None:
        """Copy from Kafka to Parquet undecoded, all topics in one job."""
        assigned = {found.topic: found.partitions for found in ranges}
        values = read_messages(self.spark, config.kafka, assigned)
        values.write.parquet(f"{config.lake}-raw/{time.monotonic_ns()}")

    @contextmanager
    def sink(self, config: SinkConfig) -> Iterator[Callable[[], Took]]:
        """Open a sink; each call catches up and returns its seconds."""
        schema_by_id = self.servers.registry.schema_by_id
        sink = Sink(self.spark, config, schema_by_id)
        stream = ProgressStream(self.spark, config, schema_by_id, sink)

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
        """Run the jobs that people write by hand, next to the sink's lake."""
        avro = dict(zip(topics.data, topics.schema_texts, strict=True))
        return ByHand(self.spark, config.kafka, avro, f"{config.lake}-by-hand")

    def remove(self, config: SinkConfig) -> None:
        """Delete what was written for a lake, and next to it."""
        for folder in ("", "-raw", "-by-hand"):
            shutil.rmtree(f"{config.lake}{folder}", ignore_errors=True)

    def watch(self) -> Stopwatch:
        """Start a stopwatch over this process and Spark, without broker and registry."""
        return Stopwatch(self.servers.pids)


def published(topics: Topics, changes: Iterable[Change], **options: Any) -> None:
    """Publish changes in source transactions of ``PER_LSN``."""
    waiting = iter(changes)
    while changes_of_lsn := list(islice(waiting, PER_LSN)):
        topics.publish(changes_of_lsn, **options)


@contextmanager
def session(folder: Path) -> Iterator[SparkSession]:
    """Start Spark with 1 GB of driver memory, and stop it."""
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
