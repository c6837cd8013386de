"""What users paste or copy runs: the samples of README and docs/readers.md, and examples/."""

from __future__ import annotations

import re
import runpy
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming import DataStreamWriter

from tests.envelopes.source import Source
from tests.envelopes.tables import column
from tests.sink.conftest import Lake

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ROOT = Path(__file__).parents[3]


def samples(page: str, that_has: str = "tailrace_sink") -> list[str]:
    """The Python blocks of a page that read a lake; the indentation of a list taken away."""
    text = (ROOT / page).read_text("utf-8")
    blocks = re.findall(r"(?ms)^( *)```python\n(.*?)^ *```", text)
    found = [re.sub(rf"(?m)^{indent}", "", block) for indent, block in blocks]
    return [block for block in found if that_has in block]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """``example("read_cut", *arguments)`` runs a program; gives what it printed."""

    def run(name: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        capsys.readouterr()
        runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run


class Streams:
    """The examples with a stream, over two tables of their own."""

    def __init__(self, source: Source, lake: Lake, folder: Path) -> None:
        self._source, self._lake, self._folder = source, lake, str(folder)
        columns = (column(1, "code", "int", key=1), column(2, "name", "int"))
        self._airports = airports = source.table("airports", *columns)
        columns = (column(1, "id", "int", key=1), column(2, "origin", "int"))
        self._flights = flights = source.table("flights", *columns)
        source.commit(lambda t: t.insert(airports, code=7, name=70))
        source.commit(*(lambda t, n=n: t.insert(flights, id=n, origin=7) for n in (1, 2)))
        source.publish()

    def check(self, **options: Any) -> None:
        """Start them with more changes than the cut that they know, and look at their tables.

        Args:
            options: of the sink.
        """
        queries = self._queries()
        self._source.commit(lambda t: t.update(self._airports, (7,), name=71))
        self._source.commit(
            lambda t: t.insert(self._flights, id=3, origin=7),
            lambda t: t.update(self._flights, (1,), origin=8),
        )
        self._source.commit(lambda t: t.delete(self._flights, (2,)))
        self._source.publish()
        self._lake.log_only(**options)
        for query in [query.trigger(availableNow=True).start() for query in queries]:
            assert query.awaitTermination(240)
        assert self._rows("totals/totals", "value", "rows") == [(7, 1), (8, 1)]
        assert self._rows("own/rows", "id", "origin") == [(1, 8), (3, 7)]
        columns = ("fact.id", "fact.origin", "other.name")
        joined = [(1, 7, 70), (1, 8, None), (2, 7, 70), (3, 7, 71)]
        assert self._rows("joined/joined", *columns) == joined

    def _queries(self) -> list[DataStreamWriter]:
        where = (self._lake.spark, self._lake.address)
        flights, airports = ("dbo.flights", "origin"), ("dbo.airports", "code")
        of_mine = ("dbo.flights", "id", ["origin"])
        return [
            named("running_totals")["totals"](*where, *flights, f"{self._folder}/totals"),
            named("changing_join")["joined"](*where, flights, airports, f"{self._folder}/joined"),
            named("own_table")["kept"](*where, *of_mine, f"{self._folder}/own"),
        ]

    def _rows(self, path: str, *columns: str) -> list[tuple[Any, ...]]:
        rows = self._lake.spark.read.format("delta").load(f"{self._folder}/{path}")
        return sorted((tuple(row) for row in rows.selectExpr(*columns).collect()), key=repr)


def named(example: str) -> dict[str, Any]:
    """The names of a program in examples/."""
    return runpy.run_path(str(ROOT / "examples" / f"{example}.py"))


@pytest.mark.slow("three samples and the examples read a lake with Spark")
def test_samples_and_examples_read_a_lake(
    source: Source,
    lake: Lake,
    example: Any,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
):
    orders = source.table("orders", column(1, "id", "int", key=1), column(2, "note", "varchar(9)"))
    begins = source.commit(lambda t: t.insert(orders, id=1, note="first"))
    source.commit(lambda t: t.insert(orders, id=2, note="second"))
    source.publish()
    source.commit(lambda t: t.update(orders, (1,), note="third"))
    for name in ("sales_6", "sales_7"):
        sales = source.table(name, column(1, "id", "int", key=1), column(2, "of", "varchar(9)"))
        source.commit(lambda t, of=sales, name=name: t.insert(of, id=1, of=name))
    source.publish()
    streams = Streams(source, lake, tmp_path)
    into = {r"dbo\.sales_\d+": "all.sales"}
    options: dict[str, Any] = {"kinds": {".*": ["mirror", "history"]}, "into": into}
    options["on_bad_record"] = "dead-letter"
    lake.catch_up(**options)
    (readme,) = samples("README.md")
    changes, now_valid, shared, letters = samples("docs/readers.md")

    told = {}
    for sample in (readme, changes, letters, now_valid):
        text = sample.replace("/srv/lake/shop", f"{lake.path}/lake")
        text = text.replace("Shop.dbo.orders", "shop.dbo.orders")
        text = text.replace("00000025:00000060:0003", begins)
        exec(compile(text, "sample", "exec"), told)  # noqa: S102 - what users paste

    assert {row.id: row.note for row in told["orders"].collect()} == {1: "third", 2: "second"}
    assert [row._cdc_op for row in told["between"].orderBy("_cdc_position").collect()] == ["c", "u"]
    shown = capsys.readouterr().out.rpartition("_cdc_is_current")[2]
    assert "third" in shown
    assert "first" not in shown, "it is no longer valid"
    exec(compile(shared.replace("/srv/lake/shop", lake.address), "sample", "exec"), {})  # noqa: S102
    with_origin, without = capsys.readouterr().out.split("_cdc_commit_time")[1:]
    assert [text.count("sales_7") for text in (with_origin, without)] == [2, 1]
    assert "sales_6" not in with_origin + without

    (without_spark,) = samples("docs/readers.md", "from tailrace import lake")
    text = without_spark.replace("/srv/lake/shop", lake.address)
    exec(compile(text.replace("00000025:00000060:0003", begins), "sample", "exec"), told)  # noqa: S102
    assert sorted(told["orders"]["note"].to_pylist()) == ["second", "third"]
    assert (told["count"], told["rows"].shape[0], told["between"].num_rows) == ([(2,)], 2, 2)

    rows = [("1", "third"), ("2", "second")]
    shown = example("read_cut", f"{lake.path}/lake", "shop.dbo.orders")
    assert sorted(re.findall(r"\| *(\d) *\| *(\w+) *\|", shown)) == rows
    names, *printed = example("read_with_pandas", lake.address, "dbo.orders").splitlines()
    assert (names.split(), sorted(tuple(line.split()) for line in printed)) == (
        ["id", "note"],
        rows,
    )
    subscribe = named("subscribe")["changes"]
    where = (lake.options["kafka"]["bootstrap"], source.registry.url, orders.topic)
    changes_of = subscribe(*where, f"{source.prefix}-example")
    seen = [(change["op"], change["after"]) for change in islice(changes_of, 3)]
    changes_of.close()
    assert sorted((op, after["id"], after["note"]) for op, after in seen) == [
        ("c", 1, "first"),
        ("c", 2, "second"),
        ("u", 1, "third"),
    ]
    streams.check(**options)
