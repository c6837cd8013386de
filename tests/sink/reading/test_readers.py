"""Who else can open the lake's tables: the table in docs/readers.md, run.

deltalake is in the lock. Polars and DuckDB are run where they are installed (docs/readers.md says
how); DuckDB's extension comes from the package duckdb-ext-delta, so that nothing is downloaded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tailrace.explain.lake import LakeLook, add_lake
from tailrace.explain.row import Explanation
from tailrace.reading.change_rows import ChangeRow
from tailrace.reading.lake import CommitRows
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName
from tests.envelopes.source import Source
from tests.envelopes.tables import column
from tests.sink.conftest import Lake

Reader = Callable[[str], list[int]]
KEY = column(1, "id", "int", key=1)
PLAIN, FAST, MAPPED, WIDENED = "compatible", "fast", "a column renamed", "a column widened"
OPENS = {
    "deltalake to_pyarrow_table, to_pandas": {PLAIN},
    "deltalake QueryBuilder": {PLAIN, FAST, MAPPED},
    "polars": {PLAIN, FAST},
    "duckdb": {PLAIN, FAST, MAPPED, WIDENED},
}


def by_pyarrow(path: str) -> list[int]:
    from deltalake import DeltaTable

    return list(DeltaTable(path).to_pyarrow_table()["id"].to_pylist())


def by_query(path: str) -> list[int]:
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    found: Any = QueryBuilder().register("t", DeltaTable(path)).execute("SELECT id FROM t")
    return list(pa.table(found.read_all())["id"].to_pylist())


def by_polars(path: str) -> list[int]:
    polars = pytest.importorskip("polars")
    return list(polars.read_delta(path)["id"].to_list())


def by_duckdb(path: str) -> list[int]:
    duckdb = pytest.importorskip("duckdb")
    found = [Path(p).glob("duckdb_ext/**/delta.duckdb_extension") for p in sys.path if p]
    extension = next((file for files in found for file in files), None)
    if extension is None:
        pytest.skip("the package duckdb-ext-delta is not installed")
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{extension}'")
    return [row[0] for row in connection.execute(f"SELECT id FROM delta_scan('{path}')").fetchall()]


READERS: dict[str, Reader] = {
    "deltalake to_pyarrow_table, to_pandas": by_pyarrow,
    "deltalake QueryBuilder": by_query,
    "polars": by_polars,
    "duckdb": by_duckdb,
}


@pytest.fixture
def tables(source: Source, lake: Lake) -> dict[str, str]:
    """A table of every kind that a lake has, with rows that were changed and deleted."""
    plain = source.table("plain", KEY, column(2, "v", "int"), column(3, "at", "datetime2(3)"))
    kept = [source.table(name, KEY, column(2, "v", "int")) for name in ("fast", "map", "wide")]
    every = [plain, *kept]
    source.commit(
        *(lambda t, table=t_, n=n: t.insert(table, id=n, v=n) for t_ in every for n in range(9))
    )
    source.publish()
    assert lake.catch_up(profile="compatible", tables={"include": [r"dbo\.plain"]}) == 1
    other = Lake(lake.spark, source, lake.options["kafka"]["bootstrap"], lake.path / "other")
    other.catch_up(tables={"exclude": [r"dbo\.plain"]})
    source.alter(kept[1], KEY, column(2, "value", "int"))
    source.alter(kept[2], KEY, column(2, "v", "bigint"))
    for table in every:
        name = table.schema.columns[1].name
        source.commit(
            lambda t, table=table, name=name: t.update(table, (1,), **{name: 100}),
            lambda t, table=table: t.delete(table, (2,)),
        )
    source.publish()
    lake.catch_up(profile="compatible", tables={"include": [r"dbo\.plain"]})
    other.catch_up(tables={"exclude": [r"dbo\.plain"]})
    return {
        PLAIN: lake.location("plain"),
        FAST: other.location("fast"),
        MAPPED: other.location("map"),
        WIDENED: other.location("wide"),
    }


def test_who_opens_what(tables: dict[str, str], subtests: pytest.Subtests):
    expected = [0, 1, 3, 4, 5, 6, 7, 8]
    for reader, read in READERS.items():
        for kind, path in tables.items():
            with subtests.test(reader, kind=kind):
                if kind in OPENS[reader]:
                    assert sorted(read(path)) == expected
                else:
                    with pytest.raises(Exception, match=r"(?i)feature|not.* supported"):
                        read(path)
    for kind, path in tables.items():
        with subtests.test("tailrace explain", kind=kind):
            explain_lake_end(path, is_read=kind in OPENS["deltalake QueryBuilder"])


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
