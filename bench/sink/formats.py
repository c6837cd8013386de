"""Delta and Iceberg side by side: the same changes into two lakes of one object store.

Each format has topics, tables and a sink of its own, in one session of Spark. They take turns, and
change who comes first. The legs:

- ``small``: 300 changes of three tables, a third of them creates; seconds of the fold
- ``bulk_creates``, ``bulk_updates``: one large cut of each
- ``latency``, with ``--latency``: seconds from a commit in the topics until readers see it, while
  the sink runs with 300 changes/s; no ratio

A ratio is Iceberg's seconds divided by Delta's: below 1.0 Iceberg is faster.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import structlog

from bench.sink.latency import latency, seen
from bench.sink.servers import Servers, running_servers
from bench.sink.topics import Change, Topics
from bench.sink.workbench import TABLES, Bench, Figures, Took, published
from tailrace_compose.local.jars import spark_jars
from tailrace_compose.local.object_store import BUCKET, ObjectStore
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.s3_options import S3Options
from tailrace_sink.spark.session import session_with

_KNOWN: Final = 2_000
"""Rows of each table before the first small cut."""
_WARM: Final = 5
"""Small cuts that are not counted: the JVM compiles what they run."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's options."""
    parser.add_argument("--bulk", type=int, default=100_000, help="changes of a bulk cut")
    parser.add_argument("--small", type=int, default=20, help="small cuts that are counted")
    parser.add_argument("--latency", type=int, default=0, help="seconds of that leg; 0: without it")


def run(arguments: argparse.Namespace) -> Figures:
    """Run the benchmark.

    Returns:
        Seconds by leg and format, and ratios.
    """
    # Standard output belongs to the figures.
    structlog.configure(
        processors=[seen, *structlog.get_config()["processors"]],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    bulk, cuts = getattr(arguments, "bulk", 100_000), getattr(arguments, "small", 20)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-formats-")))
        servers = stack.enter_context(running_servers(folder))
        store = ObjectStore(folder / "store")
        store.start()
        stack.callback(store.stop)
        spark = session_with(
            {"spark.driver.memory": "1g", "spark.local.dir": str(folder / "local")},
            spark_jars("s3a://", "iceberg"),
            S3Options.load(store.options),
        )
        stack.callback(spark.stop)
        bench = Bench(spark, servers, folder, bulk, 1, cuts, 1)
        sinks: dict[str, tuple[Topics, Callable[[], Took]]] = {}
        for name in ("delta", "iceberg"):
            topics = bench.topics(name, partitions=1)
            catch_up = stack.enter_context(bench.sink(_config(servers, store, topics, name)))
            topics.publish(Change(t, "c", k) for t in range(TABLES) for k in range(_KNOWN))
            catch_up()
            sinks[name] = (topics, catch_up)
        figures = _measured(sinks, bulk, cuts)
        for name in sinks if (seconds := getattr(arguments, "latency", 0)) else ():
            topics = bench.topics(f"latency_{name}", partitions=1)
            config = _config(servers, store, topics, name)
            figures[f"latency_{name}"] = latency(spark, config, topics, seconds)
        figures["load_after"] = os.getloadavg()[0]
        return figures


def _measured(sinks: dict[str, tuple[Topics, Callable[[], Took]]], bulk: int, cuts: int) -> Figures:
    small: dict[str, list[Took]] = {name: [] for name in sinks}
    for cut in range(_WARM + cuts):
        first = _KNOWN + cut * 100
        changes = [Change(n % TABLES, "u", (cut * 37 + n * 11) % _KNOWN) for n in range(200)]
        changes += [Change(n % TABLES, "c", first + n) for n in range(100)]
        for name, seconds in _took(sinks, changes, backwards=cut % 2 == 1).items():
            small[name].append(seconds)
    counted = {name: all_[_WARM:] for name, all_ in small.items()}
    figures: Figures = {
        "small": _compared({n: statistics.median(t.fold_s for t in c) for n, c in counted.items()})
    }
    keys = range(1_000_000, 1_000_000 + bulk)
    for leg, op in (("bulk_creates", "c"), ("bulk_updates", "u")):
        of_leg = [Change(key % TABLES, op, key) for key in keys]
        took = _took(sinks, of_leg, backwards=False)
        figures[leg] = _compared({name: sum(both) for name, both in took.items()})
    return figures


def _took(
    sinks: dict[str, tuple[Topics, Callable[[], Took]]],
    changes: Iterable[Change],
    *,
    backwards: bool,
) -> dict[str, Took]:
    every, took = list(changes), {}
    for name in sorted(sinks, reverse=backwards):
        topics, catch_up = sinks[name]
        published(topics, every)
        took[name] = catch_up()
    return took


def _compared(seconds: dict[str, float]) -> Figures:
    ratio = round(seconds["iceberg"] / seconds["delta"], 2)
    return {f"{name}_s": round(took, 2) for name, took in seconds.items()} | {"ratio": ratio}


def _config(servers: Servers, store: ObjectStore, topics: Topics, name: str) -> SinkConfig:
    options: dict[str, Any] = {}
    prefix = topics.names.prefix
    if name == "iceberg":
        catalog = store.catalog_options
        own = {"namespace": f"{prefix}_{{schema}}", "data": f"{catalog['data']}/{prefix}"}
        options = {"format": name, "iceberg": catalog | own}
    return SinkConfig.load(
        {
            "kafka": {"bootstrap": servers.bootstrap},
            "registry": {"url": servers.url},
            "prefix": prefix,
            "lake": f"s3a://{BUCKET}/{prefix}",
            "s3": store.options,
            **options,
        }
    )
