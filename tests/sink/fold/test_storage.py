"""Storage stays flat: many small folds of a table of constant content, days from one to the next.

The clock is handed in. The real part of it is short, so no slack is left and few cuts are kept.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tailrace_sink.daemon.sink import Sink
from tailrace_sink.daemon.streaming import ProgressStream
from tailrace_sink.delta import old_files, table_maintenance
from tailrace_sink.delta.classes import log_of, scala_object
from tailrace_sink.log.names_table import NamesTable
from tailrace_sink.reading.cut_errors import CutForgotten
from tailrace_sink.reading.reader import read
from tailrace_sink.spark.jvm_names import jvm_of
from tailrace_sink.tables.lake_table import CHANGES_COLUMNS
from tailrace_sink.upkeep import old_data
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.conftest import Lake
from tests.sink.costs import Cost, as_figures, check_flat, cost_of

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

DAY_S = 86_400.0
FIRST_S = 1.8e9
ROWS = 40
FOLDS = 60


@dataclass
class Year:
    """A lake, and a sink whose clock moves by some days before each fold.

    Attributes:
        cuts: that are kept.
        changed: rows that change before a fold.
        step: days from a fold to the next.
    """

    lake: Lake
    source: Source
    spark: SparkSession
    table: SourceTable
    cuts: int = 2
    changed: int = 30
    step: int = 2
    kinds: Sequence[str] = ("mirror", "changelog", "history")
    day: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(5)
        self.lsns: list[str] = []
        self.sink = self.started()

    def started(self) -> Sink:
        options: dict[str, Any] = {
            "retention": {"days": 1000, "cuts": self.cuts},
            "table_properties": {"delta.checkpointInterval": "2"},
            "kinds": {".*": list(self.kinds)},
        }
        schemas = self.source.registry.schema_by_id
        sink = Sink(self.spark, self.lake.config(**options), schemas, now_s=self.now_s)
        sink.open()
        return sink

    def now_s(self) -> float:
        return FIRST_S + self.day * DAY_S

    def costs(self) -> dict[str, Cost]:
        """Return what a fold, a start on the lake as it is, and reads of its kept cuts cost."""
        costs = {"fold": cost_of(self.spark, self.fold_once)}
        self.sink.close()
        costs["start"] = cost_of(self.spark, self.restart)
        for name, lsn in (("newest cut", self.lsns[-1]), ("oldest cut", self.lsns[-self.cuts])):
            costs[name] = cost_of(self.spark, lambda lsn=lsn: self.rows(lsn))
        return costs

    def restart(self) -> None:
        self.sink = self.started()

    def text(self) -> str:
        return self.chance.randbytes(1000).hex()

    def fold_once(self) -> None:
        """Change some rows, and fold them."""
        keys = self.chance.sample(range(ROWS), self.changed)
        if self.day == 0:
            keys = list(range(ROWS))
        changes = [self._change(key) for key in keys]
        self.lsns.append(self.source.commit(*changes))
        self.source.publish()
        self.day += self.step
        never = threading.Event()
        ProgressStream(
            self.spark, self.sink.config, self.source.registry.schema_by_id, self.sink
        ).catch_up(never)
        assert self.sink.fold_tables(never) == 1

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
        lsn = self.chance.choice(self.lsns[-self.cuts :])
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


def watched(monkeypatch: pytest.MonkeyPatch, year: Year) -> Counter[tuple[str, bool]]:
    """Counts the VACUUMs of each table, with and without a listing; a cut is read after each."""
    counted: Counter[tuple[str, bool]] = Counter()

    def vacuum(session: SparkSession, path: str, horizon_ms: int, **options: bool) -> bool:
        has_listed = old_files.vacuum(session, path, horizon_ms, **options)
        counted[Path(path).name, has_listed] += 1
        if Path(path).name == "t":
            year.check_a_cut()
        return has_listed

    monkeypatch.setattr(old_files, "SLACK_MS", 0)
    monkeypatch.setattr(old_files, "run_vacuum", vacuum_at)
    monkeypatch.setattr(old_data, "vacuum", vacuum)
    return counted


def written_whole(lake: Lake, spark: SparkSession, path: Path) -> int:
    """Bytes of the table if all its rows are written at once."""
    whole = spark.read.format("delta").load(lake.location("t"))
    whole.coalesce(1).write.format("delta").save(str(path))
    return sum(file.stat().st_size for file in path.glob("*.parquet"))


def check_cuts(year: Year) -> None:
    """The kept cuts are the source's, and an earlier one is refused by name."""
    kept = year.lsns[-year.cuts :]
    assert [row["through_lsn"] for row in year.lake.commits()] == kept
    for lsn in kept:
        assert year.rows(lsn) == year.source.cuts[lsn]["t"]
    wanted = rf"sink\.retention keeps .* at most {year.cuts} cuts"
    with pytest.raises(CutForgotten, match=wanted) as error:
        year.rows(year.lsns[0])
    assert error.value.oldest_lsn == kept[0]


@pytest.mark.slow("60 folds, each followed by a VACUUM of all tables")
@pytest.mark.timeout(14_400)
@pytest.mark.nightly(
    "tests/sink/objects/test_stored_lake.py tends a lake with three folds, while a cut is read"
)
def test_a_year_of_small_folds(
    source: Source,
    lake: Lake,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
):
    monkeypatch.setattr(table_maintenance, "COMMITS_BETWEEN", 2)
    table = source.table("t", column(1, "id", "int", key=1), column(2, "text", "nvarchar(max)"))
    year = Year(lake, source, spark, table, step=6)
    vacuumed = watched(monkeypatch, year)
    largest, largest_delta_log = 0, 0
    costs: dict[int, dict[str, Cost]] = {}
    try:
        for number in range(1, FOLDS + 1):
            if number % 10:
                year.fold_once()
            else:
                costs[number] = year.costs()
            # As a process of its own writes them.
            NamesTable(year.sink.config).write({(f"t{year.day}", "dbo.t"): None})
            largest = max(largest, year.stored()[0])
            year.tidy()
            largest_delta_log = max(largest_delta_log, year.stored()[1]["shop/dbo/t/_delta_log"])
    finally:
        year.sink.close()
        record_property("costs", json.dumps(as_figures(costs)))

    tended = {"t", "t.changes", "t.history", "commits", "log", "names"}
    assert {name for name, _ in vacuumed} == tended
    for name in tended:
        assert vacuumed[name, True] <= 1 + year.day // 7, "listed once a week"
    check_cuts(year)
    whole = written_whole(lake, spark, tmp_path / "whole")
    data, files = year.stored()
    figures = {
        "whole_bytes": whole,
        "bytes": data,
        "bytes_max": largest,
        "delta_log_files_max": largest_delta_log,
        "files": dict(files),
    }
    record_property("figures", json.dumps(figures))
    assert data < 3 * whole, figures
    assert files["shop/dbo/t"] < 30, figures
    assert largest_delta_log < 40, figures
    assert files["_tailrace"] < 10, figures
    check_flat(costs)
