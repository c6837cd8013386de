"""Storage stays flat: many small folds of a table of constant content, days from one to the next.

The clock is handed in. The real part of it is short, so no slack is left and few cuts are kept.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tailrace_sink.daemon.sink import Sink
from tailrace_sink.daemon.streaming import ProgressStream
from tailrace_sink.delta import old_files
from tailrace_sink.delta.classes import jvm_of, log_of, scala_object
from tailrace_sink.log.names_table import NamesTable
from tailrace_sink.reading.kept_cuts import CutForgotten
from tailrace_sink.reading.reader import read
from tailrace_sink.tables.lake_table import CHANGES_COLUMNS
from tailrace_sink.upkeep import old_data, table_maintenance
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.conftest import Lake

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

DAY_S = 86_400.0
FIRST_S = 1.8e9
CUTS = 2
STEP = 2
"""Days from a fold to the next."""
ROWS = 40
CHANGED = 30
OPTIONS: dict[str, Any] = {
    "retention": {"days": 1000, "cuts": CUTS},
    "table_properties": {"delta.checkpointInterval": "2"},
    "kinds": {".*": ["mirror", "changelog", "history"]},
}


@dataclass
class Year:
    """A lake, and a sink whose clock moves by some days before each fold."""

    lake: Lake
    source: Source
    spark: SparkSession
    table: SourceTable
    day: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(5)
        self.sink = Sink(
            self.spark,
            self.lake.config(**OPTIONS),
            self.source.registry.schema_by_id,
            now_s=lambda: FIRST_S + self.day * DAY_S,
        )
        self.sink.open()
        self.lsns: list[str] = []

    def text(self) -> str:
        return self.chance.randbytes(1000).hex()

    def fold_once(self) -> None:
        """Change some rows, and fold them."""
        keys = self.chance.sample(range(ROWS), CHANGED)
        if self.day == 0:
            keys = list(range(ROWS))
        changes = [self._change(key) for key in keys]
        self.lsns.append(self.source.commit(*changes))
        self.source.publish()
        self.day += STEP
        never = threading.Event()
        ProgressStream(
            self.spark, self.sink.config, self.source.registry.schema_by_id, self.sink
        ).catch_up(never)
        assert self.sink.fold_tables(never) == 1
        # As a process of its own writes them, which no test of storage needs.
        NamesTable(self.sink.config).write({f"t{self.day}": "dbo.t"}, {})

    def _change(self, key: int) -> Any:
        text, day = self.text(), self.day
        if day == 0:
            return lambda t: t.insert(self.table, id=key, text=text)
        return lambda t: t.update(self.table, (key,), text=text)

    def tidy(self) -> None:
        """Tend all tables that are due, as ``--once`` does."""
        self.sink.fold.tidy(threading.Event().is_set)

    def check_a_cut(self) -> None:
        """Read a random one of the kept cuts, as maintenance has just removed something."""
        lsn = self.chance.choice(self.lsns[-CUTS:])
        assert self.rows(lsn) == self.source.cuts[lsn]["t"]

    def rows(self, lsn: str) -> dict[tuple[object, ...], dict[str, object]]:
        frame = read(self.lake.spark, f"{self.lake.path}/lake").as_of(lsn=lsn).read("dbo.t")
        names = [name for name in frame.columns if name not in CHANGES_COLUMNS]
        found = [row.asDict() for row in frame.select(*names).collect()]
        return {(row["id"],): row for row in found}

    def stored(self) -> tuple[int, Counter[str]]:
        """Bytes of the table's data on disk, and the number of files in each folder of the lake."""
        data = Path(self.lake.location("t"))
        files = [file for file in data.iterdir() if file.suffix in {".parquet", ".bin"}]
        root = self.lake.path / "lake"
        counted = Counter(
            str(file.parent.relative_to(root))
            for file in root.rglob("*")
            if (file.is_file() and not file.name.endswith(".crc")) or file.match("0*.crc")
        )
        return sum(file.stat().st_size for file in files), counted


def vacuum_at(spark: SparkSession, path: str, horizon_ms: int, kind: str) -> None:
    """Delta's VACUUM at an exact moment: a statement takes the time of its own start."""
    jvm, session = jvm_of(spark), spark._jsparkSession
    classes, delta = log_of(spark, path)[0], "org.apache.spark.sql.delta"
    nothing = classes.python.toScalaMap({})
    table = scala_object(jvm, f"{delta}.catalog.DeltaTableV2").apply(
        session, classes.path(path), nothing, "VACUUM"
    )
    some, clock = jvm.scala.Option.apply, jvm.org.apache.spark.util.ManualClock(horizon_ms)
    scala_object(jvm, f"{delta}.commands.VacuumCommand").gc(
        session, table, False, some(0.0), classes.none, some(kind), nothing, clock
    )


@pytest.mark.slow("four folds of a table with both companions, and a VACUUM of each table")
@pytest.mark.parametrize(
    ("folds", "tidied_every"),
    [(4, 4), pytest.param(180, 1, marks=pytest.mark.nightly("the same test with four folds"))],
)
def test_many_small_folds(
    source: Source,
    lake: Lake,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    folds: int,
    tidied_every: int,
):
    monkeypatch.setattr(old_files, "SLACK_MS", 0)
    monkeypatch.setattr(table_maintenance, "COMMITS_BETWEEN", 2)
    table = source.table("t", column(1, "id", "int", key=1), column(2, "text", "nvarchar(max)"))
    year = Year(lake, source, spark, table)
    vacuumed: Counter[tuple[str, bool]] = Counter()
    grown = 0

    def vacuum(session: SparkSession, path: str, horizon_ms: int, **options: bool) -> bool:
        has_listed = old_files.vacuum(session, path, horizon_ms, **options)
        vacuumed[Path(path).name, has_listed] += 1
        if Path(path).name == "t":
            year.check_a_cut()
        return has_listed

    monkeypatch.setattr(old_files, "run_vacuum", vacuum_at)
    monkeypatch.setattr(old_data, "vacuum", vacuum)
    try:
        for number in range(1, folds + 1):
            year.fold_once()
            grown = max(grown, year.stored()[0])
            if number % tidied_every == 0:
                year.tidy()
    finally:
        year.sink.close()

    tended = {"t", "t.changes", "t.history", "commits", "log", "names"}
    assert {name for name, _ in vacuumed} == tended
    for name in tended:
        assert vacuumed[name, True] <= 1 + folds * STEP // 7, "listed once a week"
    assert [row["through_lsn"] for row in lake.commits()] == year.lsns[-CUTS:]
    for lsn in year.lsns[-CUTS:]:
        assert year.rows(lsn) == source.cuts[lsn]["t"]
    with pytest.raises(CutForgotten, match=r"sink\.retention keeps .* at most 2 cuts") as error:
        year.rows(year.lsns[0])
    assert error.value.oldest_lsn == year.lsns[-CUTS]

    whole = tmp_path / "whole"
    spark.read.format("delta").load(lake.location("t")).coalesce(1).write.format("delta").save(
        str(whole)
    )
    written = sum(file.stat().st_size for file in whole.glob("*.parquet"))
    data, files = year.stored()
    assert data < 3 * written < grown, "otherwise it would have grown"
    assert files["shop/dbo/t"] < 30
    assert files["shop/dbo/t/_delta_log"] < 40
    assert files["_tailrace"] < 10
