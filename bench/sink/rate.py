"""The sink compared with plain Spark on the same records, and the seconds of single cuts.

One run creates its own records: a small publisher writes them by the contract. Bulk legs carry the
same records by several ways:

- ``sink``: log and tables. ``sink_with_changelog``: each table's changes, too.
- ``raw``: plain Spark carries the same offsets from Kafka to Parquet, undecoded. It is one job over
  all topics and partitions, so it runs on every core.
- ``decoded``: the same with from_avro before the Parquet. A job that decodes needs at least this
  time, with no table, no key and no Delta.
- ``by_hand``: the job that people write instead. It has from_avro, the last change of each key and
  a MERGE for each table, without a log, a ledger or cuts.
- ``by_hand_append``: the same without keys: each row is appended. It is a fair initial load, and
  right only while every row is new.

A ratio is a peer's seconds divided by the sink's: over 1.0 the sink is faster. ``processor_us`` is
the processor time for each change, without broker and registry; it says more than seconds do on a
machine with other load. The legs:

- ``initial_load``: snapshot rows into new tables
- ``append``: creates into existing tables
- ``catch_up``: creates, updates and deletes mixed
- ``merge``: scattered updates into filled tables, in seconds
- ``steady``: small cuts one after another, in seconds
- ``latency``: seconds from a commit in the topics until a new reader sees it, while the sink runs
  as usual. It is measured by ``as_of`` (in the log), and in the bare tables.

Ten million changes need some 10 GB of disk.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import structlog

from bench.sink.bulk import append, catch_up, initial_load, warm
from bench.sink.fill import fill, fill_by_hand
from bench.sink.latency import latency, seen, spread
from bench.sink.servers import running_servers
from bench.sink.topics import Change
from bench.sink.workbench import Bench, Figures, session

LEGS: Final = ("initial_load", "append", "catch_up", "merge", "steady", "latency")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's options."""
    parser.add_argument("--changes", type=int, help="sink: changes of each bulk leg (300000)")
    parser.add_argument(
        "--rounds", type=int, help="sink: of the bulk legs; default 3, from a million changes on 1"
    )
    parser.add_argument("--cuts", type=int, help="sink: cuts in steady state")
    parser.add_argument("--quick", action="store_true", help="sink: a tenth of everything")
    parser.add_argument("--legs", default=",".join(LEGS), help=f"sink: of {', '.join(LEGS)}")


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
        "initial_load": initial_load,
        "append": append,
        "catch_up": catch_up,
        "merge": _merge,
        "steady": _steady,
        "latency": _latency,
    }
    wanted = str(getattr(arguments, "legs", ",".join(LEGS))).split(",")
    changes = getattr(arguments, "changes", None) or 300_000 // scale
    figures: Figures = {"cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-sink-")))
        servers = stack.enter_context(running_servers(folder))
        bench = Bench(
            spark=stack.enter_context(session(folder)),
            servers=servers,
            folder=folder,
            changes=changes,
            rounds=getattr(arguments, "rounds", None) or (1 if changes >= 1_000_000 else 3),
            cuts=getattr(arguments, "cuts", None) or 50 // (5 if scale > 1 else 1),
            scale=scale,
        )
        warm(bench)
        for name in wanted:
            figures[name] = legs[name](bench)
            print(name, figures[name], file=sys.stderr)
    figures["load_after"] = os.getloadavg()[0]
    return figures


def _merge(bench: Bench) -> Figures:
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


def _steady(bench: Bench) -> Figures:
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


def _latency(bench: Bench) -> Figures:
    """Measure the running sink with 300 changes of three tables each second."""
    topics = bench.topics("latency", partitions=1)
    return latency(bench.spark, bench.config(topics), topics, 400 // bench.scale)
