"""How long a sink takes from nothing to its first cut: a process, a JVM, three tables with changes.

Each start is ``tailrace sink`` as a process of its own, on a lake of its own. Figures are medians
over the turns, in seconds since the process started: of the clock, and of the processor. The latter
are of the process and all that it started.

- ``spark_started``: Spark is available.
- ``log_opened``: the lake's log exists and is open.
- ``cut_logged``: the first cut is committed, and readers of ``as_of`` see it.
- ``batch_committed``: everything is in the tables.

With ``--setting`` two ways take turns: ``plain``, and ``changed`` with these settings of Spark.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from bench.processor import processor_s
from bench.sink.servers import running_servers
from bench.sink.topics import Change, Topics
from tailrace_compose.local.jars import spark_jars

TABLES: Final = 3
CHANGES: Final = 300
"""Of each table."""
STEPS: Final = ("spark_started", "log_opened", "cut_logged", "batch_committed")

Started = dict[str, tuple[float, float]]
"""Seconds of the clock and of the processor until each step."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's options."""
    parser.add_argument("--turns", type=int, default=3, help="sink_start: starts of each way")
    parser.add_argument(
        "--setting",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="sink_start: a setting of Spark for a second way; repeatable",
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the benchmark.

    Returns:
        Of each way and step the medians of both kinds of seconds.
    """
    ways: dict[str, dict[str, str]] = {"plain": {}}
    if arguments.setting:
        ways["changed"] = dict(given.split("=", 1) for given in arguments.setting)
    spark_jars()  # Downloads are no part of a start.
    figures: dict[str, Any] = {"cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-sink-start-")))
        bootstrap, url, registry, _ = stack.enter_context(running_servers(folder))
        topics = Topics(bootstrap, registry, "start", TABLES, 4)
        for number in range(CHANGES):
            topics.publish([Change(table, "c", number) for table in range(TABLES)])
        options = {"prefix": "start", "kafka": {"bootstrap": bootstrap}, "registry": {"url": url}}
        took: dict[str, list[Started]] = {name: [] for name in ways}
        for turn in range(arguments.turns):
            for name in sorted(ways, reverse=turn % 2 == 1):
                config = folder / f"{name}-{turn}.json"  # which is YAML
                sink = {"lake": str(folder / f"lake-{name}-{turn}"), "spark": ways[name]}
                config.write_text(json.dumps({**options, "sink": sink}))
                took[name].append(started(config))
                print(name, took[name][-1], file=sys.stderr)
    for name, found in took.items():
        figures[name] = {
            step: {
                "s": round(statistics.median(one[step][0] for one in found), 1),
                "processor_s": round(statistics.median(one[step][1] for one in found), 1),
            }
            for step in STEPS
        }
    figures["load_after"] = os.getloadavg()[0]
    return figures


def started(config: Path) -> Started:
    """Start a sink, stop it after its last step, and return when it reached each."""
    command = [sys.executable, "-m", "tailrace", "sink", "--log-format", "json"]
    begun = time.perf_counter()
    reached: Started = {}
    said = []
    with subprocess.Popen(  # noqa: S603 - ourselves
        [*command, "--config", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout or ():
            said.append(line)
            found = re.search(r'"event": ?"(\w+)"', line)
            if found is not None and found[1] in STEPS and found[1] not in reached:
                seconds = time.perf_counter() - begun
                reached[found[1]] = (round(seconds, 2), processor_s([process.pid]))
                if found[1] == STEPS[-1]:
                    process.send_signal(signal.SIGTERM)
    if process.returncode != 0 or len(reached) < len(STEPS):
        raise RuntimeError("".join(said))
    return reached
