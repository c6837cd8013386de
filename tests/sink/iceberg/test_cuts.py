"""A lake in Iceberg: cuts of the source, through Kafka, published by one commit of the catalog."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame

from tailrace.lake.reader import Lake
from tailrace.lake.store import LakeStore
from tailrace.verify.canonical_text import canonical_column
from tailrace.verify.lake_rows import checksums
from tailrace.verify.ranges import EVERYTHING
from tailrace_sink import history, read
from tailrace_sink.daemon.streaming import ProgressStream
from tailrace_sink.errors import (
    ApplyFailed,
    CatalogUnavailable,
    ConfigError,
    LakeTaken,
)
from tailrace_sink.iceberg.catalog import IcebergCatalog
from tailrace_sink.iceberg.names import MAIN, TableId
from tailrace_sink.reading.cut_errors import CutUnknown
from tailrace_sink.reading.reader import LakeReader
from tailrace_sink.tables.lake_table import CURRENT, VALID_FROM_LSN, VALID_TO_LSN
from tests.end_to_end.test_verified_lake import shape_with
from tests.envelopes.source import Source
from tests.envelopes.tables import Cut, SourceTable, column
from tests.envelopes.transaction import Transaction
from tests.sink.conftest import Lake as FilledLake
from tests.sink.iceberg.conftest import CatalogServer
from tests.sink.objects.proxy import Answer, Pass, Request, straight
from tests.verify_values import row_hash

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.parametrize("lake", ["s3"], indirect=True),
]

OURS: Final = "_cdc_"
COMMIT: Final = "/transactions/commit"
ID: Final = column(1, "id", "int", key=1)
EVERY_KIND: Final = {r"dbo\.orders": ["mirror", "changelog", "history"]}
INTERVALS: Final = ("id", "note", VALID_FROM_LSN, VALID_TO_LSN, CURRENT)


@dataclass
class Shop:
    """Two tables with a key and one without, and the lake that they are carried into.

    Attributes:
        lines: what the table without a key must hold.
    """

    source: Source
    lake: FilledLake
    server: CatalogServer
    space: str = field(default_factory=lambda: f"cuts_{uuid.uuid4().hex[:8]}")
    lines: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        note, at = column(2, "note", "nvarchar(20)"), column(2, "at", "datetime2(3)")
        self.orders = self.source.table("orders", ID, note)
        self.items = self.source.table("items", ID, at, column(3, "n", "smallint"))
        self.log = self.source.table("log", column(1, "line", "nvarchar(20)"))
        data = f"{self.server.options['data']}/{self.space}"
        catalog = self.server.options | {"namespace": self.space, "data": data}
        self.lake.options |= {"format": "iceberg", "iceberg": catalog, "merge_pool": 1}
        self.lake.options["cluster_by"] = {"dbo.items": ["n"]}

    def change(self, number: int) -> None:
        """A transaction over all tables: rows come, change and go."""

        def changes(t: Transaction) -> None:
            rows = ((self.orders, {"note": f"n{number}"}), (self.items, {"n": number}))
            for table, values in rows:
                t.insert(table, id=number, **values)
                if (number - 1,) in table.rows:
                    t.update(table, (number - 1,), **values)
                if (number - 3,) in table.rows:
                    t.delete(table, (number - 3,))
            t.insert(self.log, line=f"line {number}")

        self.source.commit(changes)
        self.lines[f"line {number}"] += 1
        self.source.publish()

    @property
    def keyed(self) -> dict[str, SourceTable]:
        return {"orders": self.orders, "items": self.items}

    def bare(self, name: str) -> list[dict[str, Any]]:
        """The rows that a reader sees who knows nothing of the sink."""
        rows = self.lake.spark.table(f"tailrace.{self.space}.{name}").collect()
        return [row.asDict() for row in rows]

    @property
    def reader(self) -> LakeReader:
        return read(self.lake.spark, self.lake.address)

    def by_key(self, found: dict[str, list[dict[str, Any]]]) -> Cut:
        cut: Cut = {}
        for name, table in self.keyed.items():
            plain = [{k: v for k, v in r.items() if not k.startswith(OURS)} for r in found[name]]
            cut[name] = {table.key_of(row): row for row in plain}
            assert len(cut[name]) == len(plain), f"{name} holds a key twice"
        return cut

    def bare_cut(self) -> tuple[Cut, Counter[str]]:
        lines = Counter(row["line"] for row in self.bare("log"))
        return self.by_key({name: self.bare(name) for name in self.keyed}), lines

    def expected(self) -> tuple[Cut, Counter[str]]:
        cut = self.source.cut()
        return {name: cut[name] for name in self.keyed}, Counter(self.lines)

    def read_cut(self, reader: LakeReader, **point: Any) -> tuple[Cut, Counter[str]]:
        cut = reader.as_of(**point)
        rows = {
            name: [row.asDict() for row in cut.read(f"dbo.{name}").collect()]
            for name in (*self.keyed, "log")
        }
        return self.by_key(rows), Counter(row["line"] for row in rows["log"])

    def check(self) -> None:
        assert self.bare_cut() == self.expected()
        assert self.read_cut(self.reader) == self.expected()

    def check_companions(self) -> None:
        """The history of orders is that of its changes, and all of it is published."""
        cut = self.reader.as_of()
        changes, kept = (
            cut.read("dbo.orders", **{f"is_{kind}": True}) for kind in ("changes", "history")
        )
        found = intervals_in(kept)
        assert found == intervals_in(history(changes, ["id"]))
        assert found == intervals_in(
            self.lake.spark.table(f"tailrace.{self.space}.orders__history")
        )
        now = {row[0]: row[1] for row in found if row[-1]}
        assert now == {key: row["note"] for (key,), row in self.orders.rows.items()}
        assert len(found) > 2 * len(now)
        assert len(self.bare("orders__changes")) == changes.count()

    def check_verified(self) -> None:
        """As tailrace verify compares them: hashes of all rows of a cut."""
        columns = tuple(canonical_column(c, c.type) for c in self.items.schema.columns)
        shape = shape_with(columns, columns[:1])
        texts = [(str(row["id"]), None, str(row["n"])) for row in self.items.rows.values()]
        hashes = [row_hash(columns, of) for of in texts]
        parts = [sum(int.from_bytes(of[n : n + 4], "big") for of in hashes) for n in (0, 4, 8, 12)]
        table = self.reader.as_of().read("dbo.items")
        assert checksums(shape, table, [EVERYTHING]) == {0: (len(hashes), *parts)}


def intervals_in(rows: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, rows.select(*INTERVALS).collect()), key=str)


@pytest.fixture
def shop(source: Source, lake: FilledLake, server: CatalogServer) -> Shop:
    return Shop(source, lake, server)


def lost(request: Request, pass_on: Pass) -> Answer | None:
    """The catalog commits, and its answer does not arrive."""
    answer = pass_on()
    return None if request.path.endswith(COMMIT) else answer


def never_sent(request: Request, pass_on: Pass) -> Answer | None:
    return None if request.path.endswith(COMMIT) else pass_on()


@pytest.mark.slow("a dozen starts of a sink, each of which ends at another step")
def test_a_kill_at_any_step_leaves_one_cut_in_all_tables(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    lake = shop.lake
    for number in range(3):
        shop.change(number)
    assert lake.catch_up() == 1
    shop.check()
    for name, keys in (("orders", {"id"}), ("items", {"id"}), ("log", set())):
        table = IcebergCatalog(lake.spark, "tailrace").load(TableId((shop.space,), name))
        assert table is not None
        assert set(table.java.schema().identifierFieldNames()) == keys
    once_is_enough(monkeypatch)
    first, first_lsn = shop.expected(), shop.reader.as_of().closed_lsn

    before = shop.expected()
    shop.change(3)
    lake.log_only()
    for at in (1, 3, 4):  # after one table, after all three, after the commit row
        lake.break_off(at)
        assert shop.bare_cut() == (shop.expected() if at == 4 else before), at
        if at == 3:  # the newest cut is in the log, whatever the tables have
            assert shop.read_cut(shop.reader) == shop.expected()

    before = shop.expected()
    shop.change(4)
    lake.options["kinds"] = EVERY_KIND
    shop.server.proxy.rule = never_sent
    with pytest.raises(CatalogUnavailable, match=r"no answer to publishing batch \d+ \(127"):
        lake.catch_up()
    assert shop.bare_cut() == before
    shop.server.proxy.rule = lost
    assert lake.catch_up() == 1, "it finds its own publication"
    shop.server.proxy.rule = straight
    shop.check()

    # Published without a commit row: once the same process continues, once another one.
    for number, column_of_5 in (
        (5, column(5, "m", "int")),
        (6, column(5, "k", "bigint")),
    ):
        known = [c for c in shop.orders.schema.columns if c.column_id != column_of_5.column_id]
        shop.source.alter(shop.orders, *known, column_of_5)
        shop.source.snapshot(shop.items, list(shop.items.rows.values()))
        shop.source.publish(snapshotting=[shop.items])
        shop.change(number)
        with closing(lake.sink()) as sink:
            sink.open()
            schema_by_id = shop.source.registry.schema_by_id
            stream = ProgressStream(lake._sink_spark, sink.config, schema_by_id, sink)
            stream.catch_up(threading.Event())
            with monkeypatch.context() as patched:
                patched.setattr("tailrace_sink.log.commit_table.CommitTable.append", no_row)
                with pytest.raises(ApplyFailed, match="the store is gone"):
                    sink.fold_tables(threading.Event())
            assert shop.bare_cut() == shop.expected(), "it is published"
            if number == 5:
                sink.open_tables()
                assert sink.fold_tables(threading.Event()) == 1
        if number == 6:
            assert lake.catch_up() == 1
        shop.check()

    shop.check_companions()
    shop.check_verified()
    assert shop.read_cut(shop.reader, lsn=first_lsn) == first
    without_spark = Lake(LakeStore.of(lake.address, lake.options["s3"]), lake.config().iceberg)
    assert without_spark.changes("dbo.items").num_rows >= len(shop.items.rows)
    assert without_spark.as_of().read("dbo.items").num_rows == len(shop.items.rows)
    with pytest.raises(ConfigError, match="has tables in Iceberg"):
        lake.catch_up(format="delta", iceberg=None)


def once_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves store and catalog no more: the first start did, and a test has a dozen."""
    monkeypatch.setattr("tailrace_sink.daemon.sink.prove_store", lambda *_: None)
    monkeypatch.setattr("tailrace_sink.iceberg.format.prove_catalog", lambda *_: None)


def no_row(*_: object, **__: object) -> None:
    raise ApplyFailed("the commit row", "the store is gone")


def at_the_last_table(do: Callable[[], object]) -> Callable[[str, str], None]:
    """A hook that does something once all tables are staged, before they are published."""
    merged = count(1)

    def hook(step: str, _path: str) -> None:
        if step == "merged" and next(merged) == 3:
            do()

    return hook


@pytest.mark.slow("eight starts of a sink")
def test_snapshots_of_no_kept_cut_leave_the_tables(shop: Shop):
    for number in range(4):
        shop.change(number)
        assert shop.lake.catch_up() == 1
    oldest = shop.reader.as_of().closed_lsn
    before = shop.expected()
    for number in range(4, 8):  # one table is tended after each batch
        shop.change(number)
        assert shop.lake.catch_up(retention={"cuts": 2}) == 1
    catalog = IcebergCatalog(shop.lake.spark, "tailrace")
    for name in (*shop.keyed, "log"):
        table = catalog.load(TableId((shop.space,), name))
        assert table is not None
        stamps = [found.stamp for found in table.history(table.head(MAIN))]
        assert min(s.lsn for s in stamps if s is not None and s.batch is not None) == oldest, name
    shop.check()
    assert shop.read_cut(shop.reader, lsn=oldest) == before
    with pytest.raises(CutUnknown, match=r"sink\.retention\.cuts"):
        shop.reader.as_of(lsn="00000000:00000001:0001")


@pytest.mark.nightly("test_publication.py has the same faults at the catalog alone")
@pytest.mark.slow("eight starts of a sink, some of them while another one works")
def test_other_writers_and_tables_that_cannot_follow(shop: Shop, monkeypatch: pytest.MonkeyPatch):
    lake = shop.lake
    for number in range(2):
        shop.change(number)
    assert lake.catch_up() == 1
    once_is_enough(monkeypatch)

    shop.change(2)
    with pytest.raises(LakeTaken):
        lake.catch_up(at_the_last_table(lake.catch_up))
    shop.check()

    # A type that Iceberg cannot widen to stops its table, which a snapshot replaces.
    before = shop.expected()
    old_lsn = shop.reader.as_of().closed_lsn
    shop.source.alter(shop.items, ID, *shop.items.schema.columns[1:2], column(3, "n", "float"))
    shop.change(4)
    assert lake.catch_up() == 1
    assert "became float" in lake.commits()[-1]["stopped"]
    found, expected = shop.bare_cut(), shop.expected()
    assert found == ({**expected[0], "items": before[0]["items"]}, expected[1])
    shop.source.snapshot(shop.items, list(shop.items.rows.values()))
    shop.source.publish(snapshotting=[shop.items])
    shop.change(5)
    lake.log_only()
    lake.break_off(3)  # all are staged, and the new columns are in the table
    assert lake.catch_up() == 1
    shop.check()
    assert lake.commits()[-1]["stopped"] == "{}"
    assert shop.read_cut(shop.reader, lsn=old_lsn) == before
