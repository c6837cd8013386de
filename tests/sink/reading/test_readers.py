"""Who else can open the lake's tables: the table and the programs of docs/readers.md, run.

A cut is pinned by its commit row. DuckDB's extension comes from a package: nothing is downloaded.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, QueryBuilder

from tailrace import lake as without_spark
from tailrace.explain.lake import LakeLook, add_lake
from tailrace.explain.row import Explanation
from tailrace.reading.change_rows import ChangeRow
from tailrace.reading.lake import CommitRow, CommitRows
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName
from tests.envelopes.source import Source
from tests.envelopes.tables import column
from tests.sink.conftest import Lake

duckdb = pytest.importorskip("duckdb", reason="make setup installs it")
import_extension = pytest.importorskip("duckdb_extensions").import_extension
polars = pytest.importorskip("polars")

Reader = Callable[[str, int], pa.Table]
PAGE = Path(__file__).parents[3] / "docs" / "readers.md"
KEY = column(1, "id", "int", key=1)
PLAIN, FAST, MAPPED, WIDENED = "compatible", "fast", "a column renamed", "a column widened"
OPENS = {
    "deltalake to_pyarrow_table, to_pandas": {PLAIN},
    "deltalake QueryBuilder": {PLAIN, FAST, MAPPED},
    "polars": {PLAIN, FAST},
    "duckdb": {PLAIN, FAST, MAPPED, WIDENED},
}
FIRST = [(n, n) for n in range(9)]
SECOND = [(n, 100 if n == 1 else n) for n in range(9) if n != 2]


def by_pyarrow(path: str, version: int) -> pa.Table:
    return DeltaTable(path, version=version).to_pyarrow_table()


def by_query(path: str, version: int) -> pa.Table:
    table = DeltaTable(path, version=version)
    found: Any = QueryBuilder().register("t", table).execute("SELECT * FROM t")
    return pa.table(found.read_all())


def by_polars(path: str, version: int) -> pa.Table:
    lazy: pa.Table = polars.scan_delta(path, version=version).collect().to_arrow()
    assert lazy.equals(polars.read_delta(path, version=version).to_arrow())
    return lazy


def by_duckdb(path: str, version: int) -> pa.Table:
    query = f"SELECT * FROM delta_scan('{path}', version => {version})"
    return duckdb.sql(query).to_arrow_table()


READERS: dict[str, Reader] = {
    "deltalake to_pyarrow_table, to_pandas": by_pyarrow,
    "deltalake QueryBuilder": by_query,
    "polars": by_polars,
    "duckdb": by_duckdb,
}


@pytest.fixture(autouse=True)
def extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB's extension is installed into the test's folder, not into the user's."""
    monkeypatch.setenv("HOME", str(tmp_path))
    duckdb.sql(f"SET extension_directory = '{tmp_path / 'duckdb'}'")
    import_extension("delta")
    duckdb.sql("LOAD delta")


@pytest.fixture
def lakes(source: Source, lake: Lake) -> dict[str, Lake]:
    """A table of every kind, each in two cuts; all but the compatible one are in one lake."""
    plain = source.table("plain", KEY, column(2, "v", "int"), column(3, "at", "datetime2(3)"))
    kept = [source.table(name, KEY, column(2, "v", "int")) for name in ("fast", "map", "wide")]
    every = [plain, *kept]
    source.commit(
        *(lambda t, table=t_, n=n: t.insert(table, id=n, v=n) for t_ in every for n in range(9))
    )
    source.publish()
    other = Lake(lake.spark, source, lake.options["kafka"]["bootstrap"], lake.path / "other")

    def both() -> None:
        lake.catch_up(profile="compatible", tables={"include": [r"dbo\.plain"]})
        # Tables so small are otherwise rewritten, not marked.
        other.catch_up(tables={"exclude": [r"dbo\.plain"]}, rewrite_below_bytes=0)

    both()
    source.alter(kept[1], KEY, column(2, "value", "int"))
    source.alter(kept[2], KEY, column(2, "v", "bigint"))
    for table in every:
        name = table.schema.columns[1].name
        source.commit(
            lambda t, table=table, name=name: t.update(table, (1,), **{name: 100}),
            lambda t, table=table: t.delete(table, (2,)),
        )
    source.publish()
    both()
    return {"plain": lake, "fast": other, "map": other, "wide": other}


def cuts(lake: Lake) -> list[CommitRow]:
    return CommitRows(f"{lake.path}/lake/_tailrace/commits").read()


def test_who_opens_what(lakes: dict[str, Lake], subtests: pytest.Subtests):
    the_page_s_programs_read_one_cut(lakes["fast"], subtests)
    for kind, name in zip((PLAIN, FAST, MAPPED, WIDENED), lakes, strict=True):
        path = lakes[name].location(name)
        first, *_, second = (cut.tables[f"shop/dbo/{name}"] for cut in cuts(lakes[name]))
        commit = Path(path, "_delta_log", f"{second:020}.json").read_text("utf-8")
        assert ('"deletionVector"' in commit) == (kind != PLAIN)
        for reader, read in READERS.items():
            for version, rows, opens in (
                (first, FIRST, kind if kind == PLAIN else FAST),
                (second, SECOND, kind),
            ):
                with subtests.test(reader, kind=kind, version=version):
                    if opens in OPENS[reader]:
                        found = read(path, version)
                        both = zip(found["id"].to_pylist(), found[1].to_pylist(), strict=True)
                        assert sorted(both) == rows
                    else:
                        with pytest.raises(Exception, match=r"(?i)feature|not.* supported"):
                            read(path, version)
        with subtests.test("tailrace.lake", kind=kind):
            tailrace_reads_it(lakes[name], name, is_plain=kind == PLAIN)
        with subtests.test("tailrace explain", kind=kind):
            explain_lake_end(path, is_read=kind in OPENS["deltalake QueryBuilder"])


def tailrace_reads_it(of: Lake, name: str, *, is_plain: bool) -> None:
    """Without Spark, whatever the table has; only a plain one's files are read when asked."""
    cut = without_spark.open(of.address).as_of("latest")
    dataset = cut.dataset(f"dbo.{name}")
    assert isinstance(dataset, ds.FileSystemDataset) == is_plain
    of_sql = cut.sql(f"SELECT * FROM dbo.{name}").to_arrow_table()
    of_frame = cut.lazy_frame(f"dbo.{name}").collect().to_arrow()
    of_relation = cut.relation(f"dbo.{name}").to_arrow_table()
    for found in (cut.read(f"dbo.{name}"), dataset.to_table(), of_sql, of_frame, of_relation):
        assert found.column_names == cut.read(f"dbo.{name}").column_names
        both = zip(found["id"].to_pylist(), found[1].to_pylist(), strict=True)
        assert sorted(both) == SECOND
        assert found["_cdc_commit_time"][0].as_py().utcoffset() == dt.timedelta(0)


def the_page_s_programs_read_one_cut(of: Lake, subtests: pytest.Subtests) -> None:
    programs = re.findall(r"### (\w+)\n\n```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert [name for name, _ in programs] == ["deltalake", "DuckDB", "Polars"]
    lake = f"{of.path}/lake"
    for name, program in programs:
        with subtests.test(name):
            text = program.replace("/srv/lake/shop", lake).replace("dbo/orders", "dbo/fast")
            names: dict[str, Any] = {}
            exec(compile(text, f"{PAGE}: {name}", "exec"), names)  # noqa: S102
            rows = names["rows"]
            found = rows.df() if name == "DuckDB" else rows
            assert sorted(zip(found["id"], found["v"], strict=True)) == SECOND


def explain_lake_end(path: str, *, is_read: bool) -> None:
    """What tailrace explain says of a changed and of a deleted row."""
    lake, (database, schema, name) = Path(path).parents[2], Path(path).parts[-3:]
    commits = f"{lake}/_tailrace/commits"
    newest = CommitRows(commits).read()[-1]
    change = ChangePosition.end_of(Lsn.parse(newest.closed_lsn))
    for key in (1, 2):
        found = Explanation(TableName(database, schema, name), {"id": key}, now={"ID": key})
        found.changes = [ChangeRow(change, "an_instance", {"id": key})]
        add_lake(found, LakeLook(str(lake), CommitRows(commits).read()))
        assert found.cuts == {change.commit_lsn: newest}
        if not is_read:
            assert str(found.lake_problem).startswith(f"deltalake does not read {path}")
            continue
        assert found.lake_problem is None
        if key == 2:
            assert found.lake is None, "it was deleted"
        else:
            assert found.lake is not None
            assert {1, 100} <= set(found.lake.values())
