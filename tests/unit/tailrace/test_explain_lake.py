"""tailrace explain reads the lake at one cut, which is older than what it shows of the source."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from tailrace.explain.lake import LakeLook, add_lake
from tailrace.explain.row import Explanation
from tailrace.reading.change_rows import ChangeRow
from tailrace.reading.lake import CommitRow
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.options.config import SinkConfig

TABLE = TableName("Shop", "dbo", "orders")
OLD, NEW = Lsn(1, 1, 1), Lsn(1, 1, 2)


def test_the_row_is_of_the_cut_that_is_named_although_the_fold_went_on(tmp_path: Path):
    path = str(tmp_path / TABLE.path)
    for total in ("45", "99"):  # the second is of a cut that is not committed yet
        write_deltalake(path, pa.table({"id": [1], "total": [total]}), mode="overwrite")
    cut = CommitRow(1, str(OLD), None, datetime.now(UTC), 1, {TABLE.path: 0}, {})
    found = Explanation(TABLE, {"id": 1}, now={"id": 1, "total": "99"})
    found.changes = [ChangeRow(ChangePosition.end_of(lsn), "orders", {}) for lsn in (NEW, OLD)]

    add_lake(found, LakeLook(str(tmp_path), [cut]))

    assert found.cuts == {OLD: cut}
    assert found.lake == {"id": 1, "total": "45"}
    assert found.lake_problem is None


def test_a_lake_that_cannot_be_read_is_named(tmp_path: Path):
    options = {"prefix": "p", "kafka": {"bootstrap": "k:1"}, "registry": {"url": "http://r"}}
    commits = tmp_path / "_tailrace/commits"
    (commits / "_delta_log").mkdir(parents=True)
    (commits / "_delta_log/00000000000000000000.json").write_text("{")
    found = Explanation(TABLE, {"id": 1})
    add_lake(found, LakeLook.at(SinkConfig.model_validate(options | {"lake": str(tmp_path)})))
    assert found.lake_problem is not None
    assert f"{commits} cannot be read" in found.lake_problem
    assert found.lake_problem.endswith("Fix: check sink.lake and the permissions on it")


def test_a_lake_in_iceberg_names_the_cut_and_who_reads_the_row(tmp_path: Path):
    options = {
        "prefix": "p",
        "kafka": {"bootstrap": "k:1"},
        "registry": {"url": "http://r"},
        "lake": str(tmp_path),
        "format": "iceberg",
        "iceberg": {"uri": "http://c", "warehouse": "w"},
    }
    cut = CommitRow(1, str(OLD), None, datetime.now(UTC), 1, {TABLE.path: 1 << 62}, {})
    found = Explanation(TABLE, {"id": 1})
    found.changes = [ChangeRow(ChangePosition.end_of(OLD), "orders", {})]

    look = LakeLook.at(SinkConfig.model_validate(options))
    add_lake(found, replace(look, cuts=[cut]))

    assert found.cuts == {OLD: cut}
    assert found.lake is None
    assert str(found.lake_problem).startswith("its tables are in Iceberg; read(spark, lake)")
