"""Flink SQL over our topics, by its own format ``debezium-avro-confluent``.

It is not part of ``make test``: ``make consumers`` runs it. Flink is as PyPI has it, connector and
format as Maven Central has them; a job runs in the SQL client's own virtual machine.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace_compose.local import jars
from tailrace_compose.local.java import java_executable
from tests.consumers.flink_home import flink_jars
from tests.pipeline.conftest import Pipe, pipe
from tests.pipeline.running import Running

__all__ = ["pipe"]
pytestmark = [pytest.mark.kafka, pytest.mark.slow("starts Flink"), pytest.mark.timeout(900)]

LIMIT_S = 300
_SETTINGS = """
SET 'sql-client.execution.result-mode' = 'tableau';
SET 'sql-client.display.print-time-cost' = 'false';
SET 'table.local-time-zone' = 'UTC';
"""
_TABLE = """
CREATE TABLE orders (id INT, price DECIMAL(9, 2), `large` BIGINT, ratio DOUBLE, ok BOOLEAN,
  `day` DATE, note STRING) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'properties.isolation.level' = 'read_committed', 'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset', 'format' = 'debezium-avro-confluent',
  'debezium-avro-confluent.url' = '{registry}');
SELECT * FROM orders;
"""


def changelog(output: str) -> Iterator[tuple[str, ...]]:
    """The rows that the client prints: kind of change, then the columns."""
    for line in output.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and cells[0] in {"+I", "-U", "+U", "-D"}:
            yield tuple(cells)


def selected(pipe: Pipe, folder: Path) -> list[tuple[str, ...]]:
    """What Flink makes of the topic up to its present end."""
    (folder / "config.yaml").write_text("execution.target: local\nparallelism.default: 1\n")
    where = {
        "topic": pipe.topic("orders"),
        "bootstrap": pipe.topics.bootstrap,
        "registry": pipe.topics.registry_url,
    }
    script = folder / "orders.sql"
    script.write_text(_SETTINGS + _TABLE.format(**where))
    class_path = ":".join(map(str, [*flink_jars(), *jars.ensure("flink")]))
    opened = ("java.lang", "java.util", "java.net", "java.time", "java.nio", "sun.nio.ch")
    opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in opened]
    client = "org.apache.flink.table.client.SqlClient"
    done = subprocess.run(
        [
            *(java_executable(), "-Xmx1g", *opens, f"-Duser.home={folder}"),
            *("-cp", class_path, client, "-f", str(script)),
        ],
        capture_output=True,
        text=True,
        env={"FLINK_CONF_DIR": str(folder), "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
        timeout=LIMIT_S,
        check=False,
    )
    found = list(changelog(done.stdout))
    assert found, done.stdout[-4000:] + done.stderr[-4000:]
    assert "[ERROR]" not in done.stdout, done.stdout[-4000:]
    return found


def test_its_changelog_is_the_table_s(pipe: Pipe, tmp_path: Path):
    """A snapshot, changes of each kind, a change of the key, a version with a new column."""
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.orders (id int PRIMARY KEY, price decimal(9, 2), large bigint,"
        " ratio float, ok bit, day date, note nvarchar(20))",
        "INSERT dbo.orders"
        " VALUES (1, -0.01, -9223372036854775808, 1.5, 1, '1969-12-31', N'Zürich')",
        "INSERT dbo.orders (id) VALUES (2)",
    )
    source.enable("orders")
    kafka = pipe.options()["kafka"] | {"partitions": 1}
    with Running(pipe.config(kafka=kafka)) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshot is out")
        source.execute(
            "UPDATE dbo.orders SET price = 1234567.89, note = N'' WHERE id = 2",
            "UPDATE dbo.orders SET id = 3 WHERE id = 1",
            "INSERT dbo.orders (id, note) VALUES (4, N'gone')",
            "DELETE dbo.orders WHERE id = 4",
            "ALTER TABLE dbo.orders ADD extra int",
        )
        source.enable("orders", capture_instance="N'orders_2'")
        source.execute("UPDATE dbo.orders SET extra = 7, ok = 0 WHERE id = 3")
        publisher.until(pipe.is_caught_up, "the changes are out")

    null = "<NULL>"
    nothing = (null,) * 6
    first = ("-0.01", "-9223372036854775808", "1.5", "TRUE", "1969-12-31", "Zürich")
    changed = ("1234567.89", null, null, null, null, "")
    gone = (*nothing[:-1], "gone")
    last = (*first[:3], "FALSE", *first[4:])
    assert selected(pipe, tmp_path) == [
        ("+I", "1", *first),
        ("+I", "2", *nothing),
        ("-U", "2", *nothing),
        ("+U", "2", *changed),
        ("-D", "1", *first),
        ("+I", "3", *first),
        ("+I", "4", *gone),
        ("-D", "4", *gone),
        ("-U", "3", *first),
        ("+U", "3", *last),
    ]
