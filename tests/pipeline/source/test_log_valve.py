"""The source's log is nearly full: a table is given up, and comes back whole (source.log_valve).

How full the log is, the test says: the embedded server has no sys.dm_db_log_space_usage.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tailrace.doctor.asking import Source
from tailrace.doctor.log_valve import look_at_valve
from tailrace_publisher.daemon.upkeep import log_valve
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_publisher.source.log.space import Space
from tests.pipeline.commands import invoke
from tests.pipeline.conftest import Pipe
from tests.pipeline.daemon.test_kill import scanning
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka


def judged(config: PublisherConfig) -> str:
    """What ``tailrace doctor`` says of the valve."""
    with OdbcConnection(config.source) as connection:
        (found,) = look_at_valve(Source(connection, config.source.database, "sa"), config)
    return found.text


def test_a_table_is_given_up_and_comes_back(
    pipe: Pipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    source = pipe.source
    for table in ("keeps", "gives"):
        source.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, note int)")
        source.execute(f"INSERT dbo.{table} VALUES (1, 1), (2, 2)")
        source.enable(table)
    options = pipe.options()
    valve = {"tables": [r"dbo\.gives"], "at_percent": 90, "for_s": 1}
    options["source"] |= {"log_valve": valve}
    config = pipe.config(**options)

    def busy(reached: Callable[[], bool]) -> Callable[[], bool]:
        """Asked again and again, while the other table changes."""

        def changed_and_reached() -> bool:
            source.execute("UPDATE dbo.keeps SET note = note + 1 WHERE id = 1")
            return reached()

        return changed_and_reached

    def metric(name: str, **labels: str) -> float | None:
        return publisher.metrics.registry.get_sample_value(f"tailrace_{name}", labels)

    gives = f"{source.name}.dbo.gives"
    captured = "SELECT capture_instance FROM cdc.change_tables ORDER BY 1"
    looked = invoke(pipe, tmp_path, "plan", **options)
    assert "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name" in looked.output
    assert "as table 1 of 1" in looked.output.replace("\n", " ")
    with Running(config) as publisher, scanning(source):
        publisher.until(lambda: pipe.is_caught_up(scan=False), "the snapshots are out")
        publisher.until(lambda: bool(publisher.told("log_valve_refused")), "nothing is visible")
        assert "VIEW SERVER STATE" in publisher.told("log_valve_refused")[0]["reason"]
        assert metric("log_valve_refused") == 1
        assert "the use of the log is not visible" in judged(config)

    options["source"] |= {"log_valve": {"tables": [r"dbo\.typo"]}}
    assert "match no table" in judged(pipe.config(**options))
    options["source"] |= {"log_valve": valve}
    percent = [95]
    monkeypatch.setattr(
        log_valve, "read_space", lambda _: Space(percent[0], 100, "REPLICATION", None)
    )
    with Running(config) as publisher, scanning(source):
        publisher.until(busy(lambda: bool(publisher.told("capture_given_up"))), "it is given up")
        assert source.query(captured) == [("dbo_keeps",)]
        publisher.until(lambda: metric("capture_given_up", table=gives) == 1, "the metric says it")
        publisher.until(lambda: pipe.is_caught_up(scan=False, gone=["gives"]), "the other goes on")
        percent[0] = 50
        source.execute(
            "UPDATE dbo.gives SET note = 20 WHERE id = 2", "INSERT dbo.gives VALUES (3, 3)"
        )
        looked = invoke(pipe, tmp_path, "status", **options)
        said = " ".join(looked.output.split())
        assert "source.log_valve gave up its capture" in said, said
        assert "tailrace enable dbo.gives" in said, said
        looked = invoke(pipe, tmp_path, "enable", "dbo.gives", "--run", **options)
        assert looked.exit_code == 0, looked.output
        publisher.until(lambda: pipe.is_caught_up(scan=False), "its new snapshot is out")
        assert metric("capture_given_up", table=gives) == 0
        assert "in this order: dbo.gives" in judged(config)
        assert not publisher.told("retrying")
    for table in ("keeps", "gives"):
        found = pipe.topics.state(source.name, table, "id")
        rows = {(row["id"], row["note"]) for row in found.values()}
        assert rows == set(source.query(f"SELECT id, note FROM dbo.{table}")), table
    pipe.assert_exactly_once("keeps")
