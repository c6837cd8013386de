"""The sink's session under spark-submit and in a plain Python process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tailrace_compose.local.jars import spark_jars
from tailrace_compose.local.java import SPARK_QUICK_START

SECRET = "Marked-of-the-store"
PROGRAM = """
import json, sys
from pathlib import Path
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.spark.session import build_session

options = json.loads(sys.argv[1])
spark = build_session(SinkConfig.load(options), sys.argv[2].split(","))
names = ("spark.master", "spark.jars", "spark.sql.ansi.enabled")
found = {name: spark.conf.get(name) for name in names}
hadoop = spark.sparkContext._jsc.hadoopConfiguration()
found["store"] = hadoop.get("fs.s3a.endpoint")
found["is_whole"] = hadoop.get("fs.s3a.secret.key") == json.loads(sys.argv[1])["spark"][
    "spark.hadoop.fs.s3a.secret.key"
]
java = spark.sparkContext._gateway.proc
found["command_lines"] = "" if java is None else Path(f"/proc/{java.pid}/cmdline").read_text()
found["rows"] = spark.sparkContext.parallelize(range(3), 1).count()
print(json.dumps(found))
spark.stop()
"""


@pytest.mark.slow("starts Spark in a process of its own")
@pytest.mark.spark
@pytest.mark.parametrize("submitted", [True, False], ids=["spark-submit", "python"])
def test_master_and_jars_of_spark_submit_are_kept(tmp_path: Path, submitted: bool):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    every = [str(jar) for jar in spark_jars()]
    ours, further, theirs = ",".join(every[:-2]), every[-2], every[-1]
    options = {
        "kafka": {"bootstrap": "127.0.0.1:1"},
        "registry": {"url": "http://127.0.0.1:1"},
        "prefix": "p",
        "lake": str(tmp_path / "lake"),
        "spark": {
            "spark.jars": further,
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": SPARK_QUICK_START,
            "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:1",
            "spark.hadoop.fs.s3a.secret.key": SECRET,
        },
    }
    command = [sys.executable]
    if submitted:
        submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        command = [str(submit), "--master", "local[1]", "--jars", theirs]
    done = subprocess.run(
        [*command, str(program), json.dumps(options), ours],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    jars = [Path(jar).name for jar in found["spark.jars"].split(",")]
    expected = every if submitted else every[:-1]
    assert sorted(jars) == sorted(Path(jar).name for jar in expected)
    assert found["spark.master"] == ("local[1]" if submitted else "local[*]")
    assert found["spark.sql.ansi.enabled"] == "true"
    assert found["rows"] == 3
    assert (found["store"], found["is_whole"]) == ("http://127.0.0.1:1", True)
    assert SECRET not in found["command_lines"] + done.stderr, "every user may read them"
    assert submitted or "spark.sql.ansi.enabled" in found["command_lines"]
