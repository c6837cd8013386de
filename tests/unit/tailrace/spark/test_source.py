"""The source ``tailrace`` as Spark drives it: offsets, micro-batches, restarts; without a JVM."""

from __future__ import annotations

import json
import pickle
import random
import shutil
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest

import tailrace.spark
from tailrace import lake
from tailrace.lake.errors import ColumnsChanged
from tailrace.spark import source as of_spark
from tailrace.spark.errors import ColumnsDiffer, SparkUnsupported, StreamBroken
from tailrace.spark.source import ChangeSource
from tailrace_schemas.position.lsn import Lsn
from tailrace_sink.errors import ChangesUnknown, ConfigError
from tests.envelopes.every_type import change, of_every_type, with_a_wide_key
from tests.envelopes.tables import SourceTable, column
from tests.envelopes.transaction import Transaction
from tests.unit.tailrace.spark.written_log import WrittenLog

KEY = column(1, "id", "int", key=1)
V = column(2, "v", "int")


@pytest.fixture
def log(tmp_path: Path) -> WrittenLog:
    return WrittenLog(tmp_path / "lake")


class Query:
    """A query over the source, with a checkpoint: each start has processes of its own."""

    def __init__(
        self, log: WrittenLog, tables: str = "dbo.t", seen: str | None = None, **options: str
    ) -> None:
        self._options = {"path": str(log.lake), "tables": tables, **options}
        self.offset = seen
        self.restart()
        # Spark requests the start later than an end, and until the first micro-batch is done.
        self.reader.latestOffset()
        self.offset = json.dumps(self.reader.initialOffset())

    def restart(self) -> None:
        loaded = ChangeSource(self._options)
        self.schema = loaded.schema()
        sent = pickle.loads(pickle.dumps(loaded))  # noqa: S301 - our own
        self.reader = sent.streamReader(self.schema)
        if self.offset is not None:
            self.reader.partitions(json.loads(self.offset), json.loads(self.offset))

    def planned(self) -> tuple[str, str]:
        """The next micro-batch, as Spark stores it before it runs."""
        self.reader._newest = None  # it looks again
        assert self.offset is not None
        return self.offset, json.dumps(self.reader.latestOffset())

    def rows(self, start: str, end: str) -> list[dict[str, Any]]:
        parts = self.reader.partitions(json.loads(start), json.loads(end))
        sent = pickle.loads(pickle.dumps((self.reader.read, parts)))  # noqa: S301 - our own
        return [row for part in sent[1] for rows in sent[0](part) for row in rows.to_pylist()]

    def run(self) -> list[dict[str, Any]]:
        start, end = self.planned()
        found = self.rows(start, end)
        self.offset = end
        return found


def told(rows: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Operation and values of both images."""
    return [
        (row["_cdc_op"], *(row[of] and tuple(row[of].values()) for of in ("before", "after")))
        for row in rows
    ]


def inserts(log: WrittenLog, table: SourceTable, *ids: int) -> list[str]:
    return [log.commit(lambda t, n=n: t.insert(table, id=n, v=n)) for n in ids]


def test_every_change_comes_once_and_in_order_over_restarts(
    log: WrittenLog, monkeypatch: pytest.MonkeyPatch
):
    """A micro-batch that failed is the same when it is repeated, with more in the log by then."""
    monkeypatch.setattr(of_spark, "_EVENTS_OF_A_TASK", 2)
    table = log.table("t", KEY, V)
    other = log.table("other", KEY, V)
    inserts(log, table, 1, 2)
    query = Query(log)
    found = query.run()
    for round_ in range(2):
        ids = range(10 * round_ + 10, 10 * round_ + 12)
        inserts(log, table, *ids)
        log.commit(lambda t, n=ids[0]: t.update(table, (n,), v=0), lambda t: t.delete(table, (1,)))
        log.commit(lambda t: t.insert(table, id=1, v=1), lambda t: t.insert(other, id=1, v=1))
        start, end = query.planned()
        assert len(query.reader.partitions(json.loads(start), json.loads(end))) > 2
        first_try = query.rows(start, end)
        query.restart()
        inserts(log, table, 100 + round_)
        assert query.rows(start, end) == first_try
        query.offset = end
        query.restart()
        found += first_try + query.run()
        assert query.run() == []
    every = lake.open(str(log.lake)).changes("dbo.t").sort_by("_cdc_position")
    assert found == every.to_pylist()


@pytest.mark.parametrize("options", [{}, {"after": "latest"}])
def test_a_first_micro_batch_that_failed_is_repeated_as_it_was(
    log: WrittenLog, options: dict[str, str]
):
    """Spark requests its start again, which is another one by then."""
    table = log.table("t", KEY, V)
    first, _ = inserts(log, table, 1, 2)
    query = Query(log, **options)
    inserts(log, table, 3, 4)
    start, end = query.planned()
    failed = query.rows(start, end)
    inserts(log, table, 5)
    again = Query(log, seen=end, **options)
    assert again.offset is not None
    assert again.rows(again.offset, end) == failed
    assert again.rows(end, end) == []
    again.offset = end
    assert told(again.run()) == [("c", None, (5, 5))]
    again.restart()
    assert again.run() == []

    log.forget(f"lsn <= '{first}'")
    from_first = json.dumps({**json.loads(end), "lsn": "", "began": ""})
    with pytest.raises(StreamBroken, match="later than its first cut"):
        query.rows(from_first, json.dumps({**json.loads(end), "since": None}))
    late = Query(log, seen=end, **options)
    assert late.offset is not None
    if options:
        assert late.rows(late.offset, end) == failed
    else:
        with pytest.raises(StreamBroken, match="starts at LSN"):
            late.rows(late.offset, end)


def test_nothing_new_is_no_micro_batch(log: WrittenLog):
    table = log.table("t", KEY, V)
    inserts(log, table, 1)
    query = Query(log)
    query.run()
    assert query.planned() == (query.offset, query.offset)


@pytest.mark.parametrize("seed", range(2))
def test_every_type_is_as_in_changes(log: WrittenLog, seed: int):
    """Of two tables in one stream, with deletes and large values that a change lacks."""
    chance = random.Random(seed)
    tables = [of_every_type(log), with_a_wide_key(log)]  # type: ignore[arg-type] # what they need

    def some(transaction: Transaction) -> None:
        for table in tables:
            for _ in range(5):
                change(table, chance, transaction)

    query = Query(log, '["dbo.types", "dbo.keys"]', after=log.commit(some))
    for _ in range(4):
        log.commit(some)
    rows = query.run()
    positions = [row["_cdc_position"] for row in rows]
    assert positions == sorted(positions)
    assert len({row["_cdc_lsn"] for row in rows}) == 4
    for name in ("dbo.types", "dbo.keys"):
        own = [row for row in rows if row["table"] == name]
        assert all(
            row[other] is None for row in own for other in {"dbo.types", "dbo.keys"} - {name}
        )
        alone = Query(log, name, after=rows[0]["_cdc_lsn"])
        assert alone.run() == [
            {**row[name], **{of: row[of] for of in row if of.startswith("_cdc_")}}
            for row in own
            if row["_cdc_lsn"] > rows[0]["_cdc_lsn"]
        ]


def test_a_row_names_the_closed_lsn(log: WrittenLog):
    """Also when the stream's tables did not change: the watermark moves."""
    table, other = log.table("t", KEY, V), log.table("other", KEY, V)
    query = Query(log, after=inserts(log, table, 1)[0], closed_rows="true")
    (closed,) = inserts(log, other, 1)
    (row,) = query.run()
    assert (row["_cdc_op"], row["_cdc_lsn"], row["after"]) == ("closed", closed, None)
    assert row["_cdc_commit_time"].timestamp() == pytest.approx(1_700_000_000.0, abs=1)


def test_a_stream_starts_where_it_is_told_to(log: WrittenLog):
    table = log.table("t", KEY, V)
    first, second = inserts(log, table, 1, 2)
    assert told(Query(log, after=first).run()) == [("c", None, (2, 2))]
    latest = Query(log, "SHOP.dbo.T", after="latest")
    assert latest.run() == []
    assert told(Query(log, after="2023-11-14T23:00:00").run()) == []
    inserts(log, table, 3)
    assert told(latest.run()) == [("c", None, (3, 3))]
    batch = ChangeSource({"path": str(log.lake), "tables": "dbo.t", "up_to": second})
    reader = batch.reader(batch.schema())
    rows = [
        row for part in reader.partitions() for of in reader.read(part) for row in of.to_pylist()
    ]
    assert told(rows) == [("c", None, (1, 1)), ("c", None, (2, 2))]
    assert list(reader.read(None)) == []
    with pytest.raises(ConfigError, match="up_to ends no stream"):
        batch.streamReader(batch.schema())


def test_a_new_query_starts_at_a_place_that_the_log_has(log: WrittenLog):
    """One with a checkpoint continues, whatever the option says of a start long ago."""
    table = log.table("t", KEY, V)
    first, *_, last = inserts(log, table, 1, 2, 3)
    hour = datetime.now(UTC) + timedelta(hours=1)
    later = str(Lsn.parse(last).increment())
    for after, reason in (
        (hour.isoformat(), r"in the future\. Fix: add its offset, or use latest"),
        (later, rf"the log ends at LSN {last}\. Fix: use that, or latest"),
    ):
        with pytest.raises(ConfigError, match=reason):
            Query(log, after=after)
    assert told(Query(log, after=f"0x{Lsn.parse(last).to_bytes().hex()}").run()) == []

    for after in (first, "2023-11-14T22:13:20.001+00:00"):
        query = Query(log, after=after)
        query.run()
        kept = log.lake.with_name(f"kept {after}")
        shutil.copytree(log.lake, kept)
        log.forget(f"lsn <= '{first}'")
        inserts(log, table, 9)
        query.restart()
        assert told(query.run()) == [("c", None, (9, 9))]
        with pytest.raises(ChangesUnknown, match=r"starts at LSN|no cut at or before"):
            Query(log, after=after)
        shutil.rmtree(log.lake)
        shutil.copytree(kept, log.lake)


def test_an_earlier_spark_is_told_apart(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pyspark, "__version__", "3.5.4")
    with pytest.raises(SparkUnsupported, match=r"Spark 4\.0 or later, .* 3\.5\.4.*Fix: install"):
        _ = tailrace.spark.changes_stream


def test_a_running_stream_keeps_its_columns_or_stops(log: WrittenLog):
    """A rename and a dropped column change nothing; a new column and a wider type do."""
    table = log.table("t", KEY, V, column(3, "gone", "int"))
    inserts(log, table, 1)
    query = Query(log)
    query.run()
    log.alter(table, KEY, column(2, "renamed", "smallint"))
    log.commit(lambda t: t.insert(table, id=2, renamed=2))
    assert told(query.run()) == [("c", None, (2, 2, None))]
    assert [of.name for of in query.schema["after"].dataType] == ["id", "v", "gone"]

    log.alter(table, KEY, column(2, "renamed", "bigint"), column(4, "more", "date"))
    log.commit(lambda t: t.insert(table, id=3, renamed=2**40))
    with pytest.raises(ColumnsChanged, match=r"renamed bigint, more date.*Fix: start the query"):
        query.run()
    query.restart()
    assert told(query.run()) == [("c", None, (3, 2**40, None))]
    assert [of.name for of in query.schema["after"].dataType] == ["id", "renamed", "more"]


def test_columns_that_differ_from_the_loaded_ones_are_refused(log: WrittenLog):
    table = log.table("t", KEY, V)
    inserts(log, table, 1)
    before = ChangeSource({"path": str(log.lake), "tables": "dbo.t"}).schema()
    log.alter(table, KEY, V, column(3, "more", "int"))
    inserts(log, table, 2)
    with pytest.raises(ColumnsDiffer, match="Fix: load it again"):
        ChangeSource({"path": str(log.lake), "tables": "dbo.t"}).streamReader(before)


def test_a_table_without_events_in_the_log_has_the_columns_of_stored_schemas(log: WrittenLog):
    """Retention removed its events: it was quiet for long."""
    table, other = log.table("t", KEY, V), log.table("other", KEY, V)
    inserts(log, table, 1)
    begins = inserts(log, other, 1, 2)[0]
    log.forget(f"lsn < '{begins}'")
    query = Query(log, after=begins)
    assert query.run() == []
    inserts(log, table, 5)
    assert told(query.run()) == [("c", None, (5, 5))]
    with pytest.raises(ChangesUnknown, match=r"has no table dbo\.none"):
        Query(log, "dbo.none")


def test_what_the_log_lacks_breaks_the_stream(log: WrittenLog, tmp_path: Path):
    """Never a silent gap: days that are deleted, bulk, lost records, another log."""
    table, other = log.table("t", KEY, V), log.table("other", KEY, V)
    first = inserts(log, table, 1)[0]
    query, from_start = Query(log, after=first), Query(log)
    planned = from_start.planned()
    bulk = log.commit(lambda t: t.insert(table, id=2, v=2), is_bulk=True)
    with pytest.raises(StreamBroken, match=rf"1 changes .* after LSN {first} .*bulk_changes: 0"):
        query.run()
    lossy = inserts(log, table, 3)[-1]
    query = Query(log, after=bulk)
    log.commit(lambda t: t.insert(other, id=4, v=4), lost=table.topic)
    with pytest.raises(StreamBroken, match=r"lacks changes of table .*gone"):
        query.run()
    assert len(Query(log, "dbo.other", after=lossy).run()) == 1

    shutil.copytree(log.lake, tmp_path / "copy")
    last = inserts(log, table, 6, 7)[0]
    query = Query(log, after=last)
    behind = Query(log, after=lossy)
    log.forget(f"lsn < '{last}'")
    for broken in (behind.run, lambda: from_start.rows(*planned)):
        with pytest.raises(StreamBroken, match=r"the log of .* starts at LSN .*sink\.retention"):
            broken()
    assert len(query.run()) == 1
    shutil.rmtree(log.lake)
    shutil.copytree(tmp_path / "copy", log.lake)
    with pytest.raises(StreamBroken, match="ends at LSN"):
        query.run()
    shutil.rmtree(log.lake)
    again = WrittenLog(log.lake)
    inserts(again, again.table("t", KEY, V), *range(9))
    with pytest.raises(StreamBroken, match="was created again"):
        query.run()


def test_tables_that_share_a_lake_table_come_with_their_origin(tmp_path: Path):
    """Also a source that starts later, if it has no other columns."""
    log = WrittenLog(tmp_path / "lake", {r"dbo\.sales_\d+": "all.sales"})
    first = log.table("sales_1", KEY, V)
    log.commit(lambda t: t.insert(first, id=1, v=1))
    query = Query(log, "all.sales")
    second = log.table("sales_2", KEY, V)
    log.commit(lambda t: t.insert(second, id=1, v=2))
    found = [(row["_cdc_table"], row["after"]["v"]) for row in query.run()]
    assert found == [("sales_1", 1), ("sales_2", 2)]
    third = log.table("sales_3", KEY, V, column(3, "more", "int"))
    log.commit(lambda t: t.insert(third, id=1, v=3))
    with pytest.raises(ColumnsChanged, match=r"sales_3 .* more int"):
        query.run()
    query.restart()
    assert [row["after"]["v"] for row in query.run()] == [3]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, r"the lake is missing.*tables is missing. Fix: .option"),
        ({"path": "/l", "tables": "[1]"}, r"tables is '\[1\]'\. Fix: .*a JSON list of names"),
        ({"path": "/l", "tables": '["dbo.t"'}, r"""tables is '\["dbo.t"'\. Fix: """),
        ({"path": "/l", "tables": "t", "tabels": "t"}, "tabels is no option.*mean tables"),
        (
            {"path": "/l", "tables": "t", "after": "noon"},
            "'noon' is neither .*or latest$",
        ),
        ({"path": "/l", "tables": "t", "up_to": "latest"}, "up_to: 'latest' is neither"),
        ({"path": "/l", "tables": "t", "closed_rows": "1"}, "use true or false"),
        ({"path": "s3://l", "tables": "t", "s3.acces_key": "a"}, "acces_key"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], told: str):
    with pytest.raises(ConfigError, match=told) as error:
        ChangeSource(options).schema()
    assert "secret" not in str(error.value)


def test_batches_are_what_spark_is_told(log: WrittenLog):
    """Spark takes Arrow's batches as they are, so each type has to be that of the schema."""
    table = of_every_type(log)  # type: ignore[arg-type] # what it needs
    log.commit(lambda t: change(table, random.Random(1), t))
    query = Query(log, "dbo.types")
    (part,) = query.reader.partitions(*map(json.loads, query.planned()))
    (batch,) = query.reader.read(part)
    wanted = of_spark.schema_of(query.reader._loaded.tables)
    assert batch.schema.equals(wanted)
    assert isinstance(batch, pa.RecordBatch)
