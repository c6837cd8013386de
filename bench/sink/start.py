"""How long a sink takes from nothing to its tables: a process, a JVM, three tables with changes.

``plain`` is ``tailrace sink --once`` without an archive of Spark's classes, ``archive`` the same
with one (``tailrace archive-classes``). They take turns on lakes of their own. ``ratio`` is the
median time of the first divided by that of the second. ``record_s`` is the time of writing the
archive, once.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.sink.servers import running_servers
from bench.sink.topics import Change, Topics
from tailrace_compose.local.jars import spark_jars

TURNS: Final = 3
TABLES: Final = 3
CHANGES: Final = 300
"""Of each table."""


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the benchmark.

    Returns:
        Seconds from the start of the process, medians over the turns, and their ratio.
    """
    del arguments
    figures: dict[str, Any] = {"cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-sink-start-")))
        caches = {name: _cache(folder / name) for name in ("plain", "archive")}
        figures |= _recorded(caches["archive"])
        bootstrap, url, registry = stack.enter_context(running_servers(folder))
        topics = Topics(bootstrap, registry, "start", TABLES, 4)
        for number in range(CHANGES):
            topics.publish([Change(table, "c", number) for table in range(TABLES)])
        options = {"prefix": "start", "kafka": {"bootstrap": bootstrap}, "registry": {"url": url}}
        took: dict[str, list[Started]] = {name: [] for name in caches}
        for turn in range(TURNS):
            for name, cache in caches.items():
                config = folder / f"{name}-{turn}.json"  # which is YAML
                lake = str(folder / f"lake-{name}-{turn}")
                config.write_text(json.dumps({**options, "sink": {"lake": lake}}))
                took[name].append(_start(config, cache))
    medians = {
        name: Started(*(statistics.median(values) for values in zip(*found, strict=True)))
        for name, found in took.items()
    }
    for name, found in medians.items():
        figures[name] = {part: round(value, 1) for part, value in found._asdict().items()}
    figures["ratio"] = round(medians["plain"].carried_s / medians["archive"].carried_s, 2)
    figures["load_after"] = os.getloadavg()[0]
    return figures


class Started(NamedTuple):
    """Seconds since the process started.

    Attributes:
        spark_s: until Spark is available.
        open_s: until the new lake's log and tables exist and are open.
        carried_s: until everything is in the tables.
    """

    spark_s: float
    open_s: float
    carried_s: float


def _cache(folder: Path) -> Path:
    jars = folder / "jars" / "spark"
    jars.mkdir(parents=True)
    for jar in spark_jars():
        shutil.copy(jar, jars)
    return folder


def _recorded(cache: Path) -> dict[str, Any]:
    begun = time.perf_counter()
    command = [sys.executable, "-m", "tailrace", "archive-classes"]
    subprocess.run(command, env=_environ(cache), check=True, capture_output=True)  # noqa: S603
    (archive,) = (cache / "jars" / "spark").glob("*.jsa")
    return {
        "record_s": round(time.perf_counter() - begun, 1),
        "archive_mb": round(archive.stat().st_size / 1e6),
    }


def _start(config: Path, cache: Path) -> Started:
    command = [sys.executable, "-m", "tailrace", "sink", "--once", "--log-format", "json"]
    begun = time.perf_counter()
    seen: dict[str, float] = {}
    with subprocess.Popen(  # noqa: S603 - ourselves
        [*command, "--config", str(config)],
        env=_environ(cache),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        said = []
        for line in process.stdout or ():
            said.append(line)
            found = re.search(r'"event": ?"(\w+)"', line)
            if found is not None:
                seen.setdefault(found[1], time.perf_counter() - begun)
    if process.returncode != 0:
        raise RuntimeError("".join(said))
    return Started(seen["spark_started"], seen["lake_opened"], seen["carried_once"])


def _environ(cache: Path) -> dict[str, str]:
    return {**os.environ, "TAILRACE_CACHE": str(cache)}
