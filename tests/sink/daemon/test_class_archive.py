"""The archive of Spark's classes: a real JVM writes it, and another one starts from it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace_compose.local.jars import spark_jars

CLASSES = (
    "org.apache.spark.sql.catalyst.expressions.Add",
    "org.apache.spark.sql.delta.commands.MergeIntoCommand",
    "org.apache.kafka.clients.consumer.KafkaConsumer",
    "org.apache.spark.sql.avro.AvroDeserializer",
)
STARTED = """
import sys
from tailrace_compose.local.jars import spark_jars
from tailrace_sink.spark.session import session_with

loaded = f"-Xlog:class+load:file={sys.argv[1]}"
spark = session_with({"spark.driver.extraJavaOptions": loaded, **MASTER}, spark_jars())
for name in sys.argv[2:]:
    spark._jvm.java.lang.Class.forName(name)
spark.range(3).write.format("delta").save(sys.argv[1] + ".delta")
spark.stop()
""".replace("MASTER", "{'spark.master': 'local[1]', 'spark.driver.memory': '512m'}")


@pytest.mark.slow("starts Spark in processes of its own, one of which writes Java's archive")
@pytest.mark.spark
@pytest.mark.timeout(900)  # Java writes its archive by one core, beside all the other workers
def test_what_one_spark_has_loaded_the_next_one_has_from_its_archive(tmp_path: Path):
    jars = tmp_path / "cache" / "jars" / "spark"
    jars.mkdir(parents=True)
    for jar in spark_jars():
        shutil.copy(jar, jars)
    environ = {**os.environ, "TAILRACE_CACHE": str(tmp_path / "cache")}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            env=environ,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    told = run("-m", "tailrace", "archive-classes")
    assert str(jars / "classes.jsa") in told
    assert [path.name for path in jars.iterdir() if path.suffix != ".jar"] == ["classes.jsa"]

    log = tmp_path / "loaded"
    run("-c", STARTED, str(log), *CLASSES)
    came = dict(line.split("] ")[-1].split(" source: ") for line in lines_of(log))
    assert {name: came[name] for name in CLASSES} == dict.fromkeys(
        CLASSES, "shared objects file (top)"
    )


def lines_of(log: Path) -> list[str]:
    return [line for line in log.read_text().splitlines() if " source: " in line]
