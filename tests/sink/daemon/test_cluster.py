"""The sink on a Standalone cluster with two workers, an executor of each killed in mid-batch."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tailrace_compose.local.jars import spark_jars
from tailrace_sink.tables.lake_table import CHANGES_COLUMNS
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.fix_spark import SPARK_JAVA

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow("starts a master and two workers of Spark, and executors that are killed"),
]

SPARK_HOME = Path(pyspark.__file__).parent
PAGE = Path(__file__).parents[3] / "docs" / "spark-cluster.md"
WAIT_S = 120
ROWS = 1_000

PROGRAM = """
import json, os, pathlib, signal, sys, threading

from tailrace_sink.daemon.start import run
from tailrace_sink.options.config import SinkConfig

workers = json.loads(sys.argv[2])
killed = []

def executors(worker):
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = stat.read_text().rpartition(")")[2].split()[1]
        except OSError:  # it has ended meanwhile
            continue
        if int(parent) == worker:
            yield int(stat.parent.name)

def hook(step, path):
    # The batch is written down, and the first of its tables is done.
    if len(killed) < 2 and step == ("planned", "merged")[len(killed)]:
        pids = list(executors(workers[len(killed)]))
        killed.append([step, len(pids)])
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

run(SinkConfig.load(json.loads(sys.argv[1])), (), threading.Event(), once=True, hook=hook)
print(json.dumps(killed))
"""


class Cluster:
    """A master and two workers of one core each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        self.master = f"spark://127.0.0.1:{port}"
        self._daemon("master.Master", "--port", str(port))
        self.workers = [
            self._daemon(
                "worker.Worker",
                *("--cores", "1", "--memory", "700m", "--work-dir", str(folder / f"work{n}")),
                self.master,
            )
            for n in range(2)
        ]

    def _daemon(self, name: str, *arguments: str) -> int:
        log = (self._folder / f"{name}-{len(self._processes)}.log").open("wb")
        with log:
            process = subprocess.Popen(
                [
                    str(SPARK_HOME / "bin" / "spark-class"),
                    f"org.apache.spark.deploy.{name}",
                    *("--host", "127.0.0.1", "--webui-port", "0"),
                    *arguments,
                ],
                env={
                    **os.environ,
                    "SPARK_HOME": str(SPARK_HOME),
                    "SPARK_DAEMON_MEMORY": "256m",
                    "SPARK_DAEMON_JAVA_OPTS": SPARK_JAVA,
                },
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes.append(process)
        return process.pid

    def wait_until_ready(self) -> None:
        """Wait until both workers have found the master."""
        log, pause = self._folder / "master.Master-0.log", threading.Event()
        deadline = time.monotonic() + WAIT_S
        while log.read_text().count("Registering worker") < 2:
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            pause.wait(0.1)

    def stop(self) -> None:
        """Kill everything, executors too."""
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    try:
        made.wait_until_ready()
        yield made
    finally:
        made.stop()


def rows(lake: Path, table: SourceTable) -> dict[Any, dict[str, Any]]:
    """The mirrored columns by key."""
    found = DeltaTable(str(lake / "shop" / "dbo" / table.name.table)).to_pyarrow_table().to_pylist()
    for row in found:
        for name in CHANGES_COLUMNS:
            row.pop(name, None)
    by_key = {table.key_of(row): row for row in found}
    assert len(by_key) == len(found), "a key is there twice"
    return by_key


def test_executors_killed_in_mid_batch_lose_and_double_nothing(
    source: Source, cluster: Cluster, kafka: str, tmp_path: Path
):
    columns = column(1, "id", "int", key=1), column(2, "v", "int")
    tables = source.table("a", *columns), source.table("b", *columns)
    for table in tables:
        source.commit(*(lambda t, n=n, of=table: t.insert(of, id=n, v=n) for n in range(ROWS)))
    source.publish()
    for table in tables:
        source.commit(
            *(lambda t, n=n, of=table: t.update(of, (n,), v=-n) for n in range(0, ROWS, 3)),
            *(lambda t, n=n, of=table: t.delete(of, (n,)) for n in range(1, ROWS, 3)),
        )
    source.publish()
    program, lake = tmp_path / "sink.py", tmp_path / "lake"
    program.write_text(PROGRAM)
    options = {
        "kafka": {"bootstrap": kafka},
        "registry": {"url": source.registry.url},
        "prefix": source.prefix,
        "lake": str(lake),
        "profile": "compatible",
        "merge_pool": 1,
        "request_snapshots": False,
        "changes_per_batch": 2 * ROWS,
        "local_changes_max": 100,
    }
    settings = {
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": SPARK_JAVA,
        "spark.driver.extraJavaOptions": SPARK_JAVA,
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        "spark.local.dir": str(tmp_path / "local"),
    }
    done = subprocess.run(
        [
            str(SPARK_HOME / "bin" / "spark-submit"),
            *("--master", cluster.master, "--driver-memory", "600m"),
            *("--jars", ",".join(map(str, spark_jars()))),
            *(part for name, value in settings.items() for part in ("--conf", f"{name}={value}")),
            *(str(program), json.dumps(options), json.dumps(cluster.workers)),
        ],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(SPARK_HOME)},
        capture_output=True,
        text=True,
        timeout=10 * WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    killed = json.loads(done.stdout.splitlines()[-1])
    assert [step for step, _ in killed] == ["planned", "merged"]
    assert all(count for _, count in killed)  # one that is just ending may be there as well

    expected = source.cut()
    assert {table.name.table: rows(lake, table) for table in tables} == expected
    log = DeltaTable(str(lake / "_tailrace" / "log")).to_pyarrow_table(
        columns=["topic", "partition", "offset"], filters=[("topic", "!=", "")]
    )
    places = Counter(tuple(row.values()) for row in log.to_pylist())
    assert max(places.values()) == 1
    assert len(places) == 2 * (ROWS + len(range(0, ROWS, 3)) + len(range(1, ROWS, 3))) + 2


@pytest.mark.nightly("the jars are downloaded anew; the test above has the same from the cache")
def test_the_pages_program_and_command_carry_what_is_there(
    source: Source, kafka: str, spark: SparkSession, tmp_path: Path
):
    table = source.table("a", column(1, "id", "int", key=1))
    source.commit(*(lambda t, n=n: t.insert(table, id=n) for n in range(3)))
    source.publish()
    page, lake = PAGE.read_text("utf-8"), tmp_path / "lake"
    program, command = (
        next(iter(re.findall(rf"(?ms)^```{language}\n(.*?)^```", page)))
        for language in ("python", "bash")
    )
    for told, here in {
        "kafka-1:9092": kafka,
        "http://registry:8080/apis/ccompat/v7": source.registry.url,
        '"shop"': f'"{source.prefix}"',
        "s3a://lake/shop": str(lake),
        "stop=threading.Event()": "stop=threading.Event(), once=True",
    }.items():
        assert program.count(told) == 1, told
        program = program.replace(told, here)
    (tmp_path / "sink.py").write_text(program)
    for told, here in {
        "spark://master:7077": "local[2]",
        "2g": "600m",
        "sink.py": f"--conf spark.jars.ivy={tmp_path}/ivy sink.py",
    }.items():
        assert command.count(told) == 1, told
        command = command.replace(told, here)
    words = shlex.split(command.replace("\\\n", " "))

    done = subprocess.run(
        [str(SPARK_HOME / "bin" / words[0]), *words[1:]],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(SPARK_HOME)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=10 * WAIT_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    carried = spark.read.format("delta").load(f"{lake}/shop/dbo/a")
    assert sorted(row.id for row in carried.select("id").collect()) == [0, 1, 2]
