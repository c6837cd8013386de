"""Changes that are counted while they are written: nothing that differs is committed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.progress import position_hash, signed
from tailrace_sink.delta import commits as delta_parts
from tailrace_sink.delta.append_once import append_version
from tailrace_sink.delta.file_log import table_version
from tailrace_sink.fold import table_fold
from tailrace_sink.fold.passing_count import counted_in_passing
from tailrace_sink.plan.topic_ranges import Counted, TopicRange
from tailrace_sink.ports.writes import NotAsCounted
from tests.envelopes.source import Source
from tests.envelopes.tables import column
from tests.sink.conftest import Lake
from tests.sink.lake_rows import read_delta

pytestmark = pytest.mark.spark

KEY = column(1, "id", "int", key=1)


@pytest.mark.guarantee(16)
@pytest.mark.parametrize("has_parts", [True, False], ids=["in parts", "by Delta's own writer"])
def test_what_is_not_as_counted_is_not_committed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_parts: bool
):
    if not has_parts:
        monkeypatch.setattr(delta_parts, "is_available", lambda *_: False)
    location = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE delta.`{location}` (id INT, _cdc_position BINARY) USING delta")
    positions = [ChangePosition.of_snapshot(Lsn(0, 0, n)).to_bytes() for n in range(1, 40)]
    rows = [(n, bytearray(position)) for n, position in enumerate(positions)]
    changes = spark.createDataFrame(rows, "id INT, _cdc_position BINARY").repartition(3)
    hashes = signed(sum(map(position_hash, positions)))

    def append(count: int, position_hash: int, version: int) -> bool:
        half = Counted(1, 7)
        other = Counted(count - 1, signed(position_hash - 7))
        ranges = TopicRange("t", {}, count, frozenset(), ledger={0: half, 3: other})
        counted, check = counted_in_passing(changes, ranges)
        return append_version(counted, location, "sink", version, check=check)

    before = table_version(spark, location)
    for count, found in ((40, hashes), (39, hashes + 1)):
        with pytest.raises(NotAsCounted, match=f"count={count}"):
            append(count, found, 1)
        assert table_version(spark, location) == before
    assert append(39, hashes, 1)
    assert not append(39, hashes, 1)
    assert len(read_delta(spark, location)) == 39


@pytest.mark.slow("two large batches, whose generated code is compiled")
@pytest.mark.kafka
def test_large_batches_are_decoded_once(
    source: Source, lake: Lake, monkeypatch: pytest.MonkeyPatch
):
    """A snapshot, changes that are merged, a table without a key: none is counted beforehand."""

    def no_pass_of_its_own(*_: object) -> None:
        raise AssertionError("counted by a pass of its own")

    monkeypatch.setattr(table_fold, "counted_by_spark", no_pass_of_its_own)
    table = source.table("t", KEY, column(2, "v", "int"))
    keyless = source.table("log", column(1, "line", "int"))
    source.publish(snapshotting=[table])
    source.snapshot(table, [{"id": n, "v": n} for n in range(60)])
    source.publish()
    kinds = {r"dbo\.t": ["mirror", "changelog", "history"]}
    options = {"local_changes_max": 0, "kinds": kinds}
    assert lake.catch_up(**options)
    for n in range(30):
        source.commit(
            lambda t, n=n: t.update(table, (n,), v=-n),
            lambda t, n=n: t.delete(table, (n + 30,)),
            lambda t, n=n: t.insert(keyless, line=n),
        )
    source.publish()
    assert lake.catch_up(**options)
    found = {row["id"]: row["v"] for row in lake.rows("t")}
    assert found == {row["id"]: row["v"] for row in table.rows.values()}
    current = {row["id"]: row["v"] for row in lake.raw("t.history") if row["_cdc_is_current"]}
    assert current == found
    assert len(lake.raw("t.history")) == 60 + 30
    assert sorted(row["line"] for row in lake.rows("log")) == list(range(30))
    assert json.loads(lake.commits()[-1]["stopped"]) == {}


@pytest.mark.slow("two large batches, whose generated code is compiled")
@pytest.mark.kafka
def test_a_table_is_not_made_anew_for_what_is_not_as_counted(source: Source, lake: Lake):
    """Its rows stay until the whole table is known to be there."""
    table = source.table("t", KEY, column(2, "v", "nvarchar(10)"))
    source.commit(*(lambda t, n=n: t.insert(table, id=n, v="x") for n in range(10)))
    source.publish()
    lake.catch_up(local_changes_max=0)
    before, version = lake.rows("t"), lake.version("t")
    source.alter(table, KEY, column(2, "v", "int"))
    table.rows.clear()
    source.publish(snapshotting=[table])
    source.snapshot(table, [{"id": n, "v": n} for n in range(10)])
    lost = next(m for m in reversed(source.pending) if m.topic == table.topic)
    lost.value = None
    source.publish()
    lake.catch_up(local_changes_max=0)
    assert "where the publisher counted" in json.loads(lake.commits()[-1]["stopped"])[table.topic]
    # The second sink has taken the table (one commit), and did nothing else to it.
    assert (lake.rows("t"), lake.version("t")) == (before, version + 1)
