"""What a start, a fold and reads of cuts cost in a lake that keeps many cuts.

A cut of its own for each progress record takes a sink half a second. So it takes all records at
once, and its rows are then replaced by those that it would have written one by one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from tailrace_schemas.position.lsn import Lsn
from tailrace_sink.daemon.streaming import ProgressStream
from tailrace_sink.log.log_table import LogTable
from tailrace_sink.plan.progress_record import decode_progress
from tailrace_sink.plan.sink_state import Position
from tailrace_sink.plan.state_json import position_json
from tailrace_sink.reading.cut import Cut
from tailrace_sink.reading.reader import read
from tailrace_sink.tables.lake_table import CHANGES_COLUMNS
from tests.envelopes.messages import FIRST_COMMIT_MS
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink.conftest import Lake
from tests.sink.costs import Cost, as_figures, check_flat, cost_of

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

CUTS = (1_000, 20_000)
ROWS_OF_A_FILE = 500
"""As many commit rows of some hundred tables are 4 MiB, which a compaction leaves as they are."""


class ManyCuts:
    """A lake of one row, and the LSNs of its cuts."""

    def __init__(self, lake: Lake, source: Source, table: SourceTable) -> None:
        self.lake = lake
        self.source = source
        self.table = table
        source.commit(lambda t: t.insert(table, id=1, number=0))
        source.publish()
        lake.catch_up()
        self.lsns = [source.through]

    def grow(self, count: int) -> None:
        """Add cuts until there are so many, the last of them with a change."""
        before = self.lake.commits()[-1]["batch"]
        self.lsns += self.source.publish_idle(count - len(self.lsns))
        self.lake.catch_up()
        self._divide(before)
        assert len(self.lake.commits()) == len(self.lsns) == count

    def _divide(self, before: int) -> None:
        """Divide the newest cut of the log and of the tables into one for each progress record."""
        config = self.lake.config()
        log = LogTable(self.lake.spark, config.log_path, config.prefix)
        topic, last = self.source.names.progress, log.last()
        assert last is not None
        newest, to_log, commits = last.state.batch, [], []
        for _, partition, offset, value in sorted(log.progress(topic, before, newest)):
            record = decode_progress(value, self.source.registry.schema_by_id)
            position = Position(partition, offset + 1, record.closed_lsn)
            state = replace(
                last.state,
                batch=offset + 1,
                closed_lsn=record.closed_lsn,
                closed_commit_ms=record.closed_commit_ms,
                position=position,
            )
            place = {"partition": partition, "offset": offset, "value": value}
            cut = {"batch": state.batch, "lsn": state.closed_lsn}
            to_log.append({**cut, "topic": topic, **place, "state": None})
            if state.batch == newest:
                continue
            text = replace(last, state=state, is_start=False).to_json()
            to_log.append({**cut, "topic": "", **dict.fromkeys(place), "state": text})
            commits.append(
                {
                    "batch": state.batch,
                    "through_lsn": state.closed_lsn,
                    "through_commit_time": committed_at(state.closed_lsn),
                    "progress": json.dumps(position_json(position)),
                }
            )
        assert to_log[-1]["batch"] == newest
        for path, kept in (
            (config.log_path, f"batch = {newest} AND topic = ''"),
            (config.commits_path, f"batch = {newest}"),
        ):
            self.lake.spark.sql(
                f"DELETE FROM delta.`{path}` WHERE batch > {before} AND NOT ({kept})"
            )
        self._add(config.log_path, newest, to_log)
        self._add(config.commits_path, newest, commits)

    def _add(self, path: str, batch: int, rows: list[dict[str, object]]) -> None:
        """Add rows to a table; what they do not name is as in the row of a batch."""
        table = self.lake.spark.read.format("delta").load(path)
        added = self.lake.spark.createDataFrame(pa.Table.from_pylist(rows))
        others = table.where(f"batch = {batch}").drop(*added.columns)
        written = others.crossJoin(added).orderBy("batch").coalesce(1)
        types = {field.name: field.dataType.simpleString() for field in table.schema}
        columns = [f"CAST({name} AS {type_}) AS {name}" for name, type_ in types.items()]
        writer = written.selectExpr(*columns).write.format("delta").mode("append")
        writer.option("maxRecordsPerFile", ROWS_OF_A_FILE).save(path)

    def costs(self) -> dict[str, Cost]:
        """Return what reads of cuts, a start and a fold cost; the fold adds a cut."""
        spark, costs = self.lake.spark, {}
        middle = self.lsns[len(self.lsns) // 2]
        lake = read(spark, self.lake.address)
        cuts: dict[str, Callable[[], Cut]] = {
            "newest cut": lambda: lake.as_of("latest"),
            "middle cut": lambda: lake.as_of(lsn=middle),
            "middle cut by time": lambda: lake.as_of(time=committed_at(middle)),
            "oldest cut": lambda: lake.as_of(lsn=self.lsns[0]),
        }
        for name, cut in cuts.items():
            costs[name] = cost_of(spark, lambda cut=cut: self.check(cut()))
        sink = self.lake.sink()
        try:
            costs["start"] = cost_of(spark, sink.open)
            number = len(self.lsns)
            self.source.commit(lambda t: t.update(self.table, (1,), number=number))
            self.source.publish()
            self.lsns.append(self.source.through)
            config, schema_by_id = sink.config, self.source.registry.schema_by_id
            stream = ProgressStream(spark, config, schema_by_id, sink)
            costs["append"] = cost_of(spark, lambda: stream.catch_up(threading.Event()))
            costs["fold"] = cost_of(spark, lambda: sink.fold_tables(threading.Event()))
        finally:
            sink.close()
        return costs

    def check(self, cut: Cut) -> None:
        """The row in a cut is that of the source."""
        of_change = max(lsn for lsn in self.source.cuts if lsn <= cut.closed_lsn)
        rows = [row.asDict() for row in cut.read(self.table.name).drop(*CHANGES_COLUMNS).collect()]
        assert rows == [*self.source.cuts[of_change]["t"].values()]


def committed_at(lsn: str) -> datetime:
    """When the source committed an LSN."""
    return datetime.fromtimestamp((FIRST_COMMIT_MS + Lsn.parse(lsn).block) / 1000, UTC)


@pytest.mark.slow("20,000 rows are written to log and commit table")
@pytest.mark.timeout(3_600)
@pytest.mark.nightly(
    "tests/sink/delta/test_batch_rows.py holds which files a commit row is read from"
)
def test_the_number_of_cuts_costs_nothing(
    source: Source, lake: Lake, record_property: Callable[[str, object], None]
):
    table = source.table("t", column(1, "id", "int", key=1), column(2, "number", "int"))
    many = ManyCuts(lake, source, table)
    costs = {}
    for count in CUTS:
        many.grow(count)
        costs[count] = many.costs()
    record_property("costs", json.dumps(as_figures(costs)))
    check_flat(costs)
