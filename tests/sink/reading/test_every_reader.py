"""Random tables by every reader, at the newest and at named cuts: the same rows, or a refusal."""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from tailrace import lake as without_spark
from tailrace_sink import read
from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.sink import random_tables
from tests.sink.conftest import Lake
from tests.sink.reading.test_mapped_columns import rows_of

duckdb = pytest.importorskip("duckdb", reason="make setup installs it")
import_extension = pytest.importorskip("duckdb_extensions").import_extension
polars = pytest.importorskip("polars")

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
KEY, NUMBER = column(1, "id", "int", key=1), column(2, "v", "bigint")
OTHERS = (
    column(4, "d", "decimal(38,10)"),
    column(5, "at", "datetime2(6)"),
    column(6, "f", "float"),
    column(7, "b", "varbinary(max)"),
)
VALUES: dict[int, list[Any]] = {
    3: ["", " ", "x" * 9000, "\U0001f600", None],
    4: [Decimal("-9999999999999999999999999999.9999999999"), Decimal("1E-10"), None],
    5: [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999), None],  # noqa: DTZ001
    6: [5e-324, -1.7976931348623157e308, 0.1, None],
    7: [b"", b"\0\xff" * 5000, None],
}
REFUSED = r"(?i)feature|not.* supported|unsupported|deletion vector|column mapping"
Rows = list[dict[str, Any]]
Programs = Callable[[Lake, str, int], Iterable[tuple[str, Rows | None]]]
"""Return what other programs find in a version of a table; None if one refuses."""


def by_duckdb(at: str, version: int) -> Any:
    return duckdb.sql(f"SELECT * FROM delta_scan('{at}', version => {version})").to_arrow_table()


def by_query(at: str, version: int) -> Any:
    table = DeltaTable(at, version=version)
    found: Any = QueryBuilder().register("t", table).execute("SELECT * FROM t")
    return pa.table(found.read_all())


PROGRAMS: dict[str, Callable[[str, int], Any]] = {
    "duckdb": by_duckdb,
    "deltalake": lambda at, version: DeltaTable(at, version=version).to_pyarrow_table(),
    "query": by_query,
    "polars": lambda at, version: polars.scan_delta(at, version=version).collect().to_arrow(),
}


@pytest.fixture(autouse=True)
def extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB's extension is installed into the test's folder, not into the user's."""
    monkeypatch.setenv("HOME", str(tmp_path))
    duckdb.sql(f"SET extension_directory = '{tmp_path / 'duckdb'}'")
    import_extension("delta")
    duckdb.sql("LOAD delta")


def change(source: Source, table: SourceTable, chance: random.Random) -> None:
    """Random changes, and values of every size in some rows."""
    random_tables.change(source, table, chance)
    names = {of.column_id: of.name for of in table.schema.columns}
    for key in list(table.rows):
        some = {names[of]: chance.choice(VALUES[of]) for of in VALUES if chance.random() < 0.4}
        if some:
            source.commit(lambda t, key=key, some=some: t.update(table, key, **some))


def plain(rows: Rows, names: list[str]) -> Rows:
    """The source's columns in the order of the key, with None for what pandas calls NaN."""
    found = [{n: None if pd.isna(row[n]) else row[n] for n in names} for row in rows]
    return sorted(found, key=lambda row: row["id"])


def differing(found: Rows, expected: Rows) -> list[str]:
    """What differs, short enough to be read; the order of the keys does not."""
    if [row["id"] for row in found] != [row["id"] for row in expected]:
        return [f"{[row['id'] for row in rows]}" for rows in (found, expected)]
    return [
        f"{row['id']} {name}: {value!r:.40} {row[name]!r:.40}"
        for of, row in zip(found, expected, strict=True)
        for name, value in of.items()
        if value != row[name]
    ]


def programs_of(lake: Lake, name: str, version: int) -> Iterator[tuple[str, Rows | None]]:
    """What each program finds; None if it refuses."""
    for program, reads in PROGRAMS.items():
        try:
            yield program, reads(lake.location(name), version).to_pylist()
        except Exception as error:
            if not re.search(REFUSED, str(error)):
                raise
            yield program, None


def catalog_of(lake: Lake) -> dict[str, Any]:
    """The option with a lake's catalog, if it is in Iceberg."""
    return {"iceberg": lake.options["iceberg"]} if "iceberg" in lake.options else {}


def check(
    lake: Lake,
    source: Source,
    columns: dict[str, list[str]],
    lsn: str | None,
    programs: Programs = programs_of,
) -> int:
    """Compare a cut in all readers; return how many of them refused."""
    opened = without_spark.open(lake.address, **catalog_of(lake), **lake.options["s3"])
    cut = opened.as_of("latest") if lsn is None else opened.as_of(lsn=lsn)
    spark = read(lake.spark, lake.address).as_of(lsn=cut.closed_lsn)
    refused = 0
    for name, names in columns.items():
        rows = source.cuts[cut.closed_lsn][name]
        expected = [rows[key] for key in sorted(rows)]
        found: dict[str, Rows] = rows_of(cut, f"dbo.{name}")
        found["spark"] = [row.asDict() for row in spark.read(f"dbo.{name}").collect()]
        commit = [c for c in lake.commits() if c["through_lsn"] == cut.closed_lsn]
        version = commit[-1]["tables"][f"shop/dbo/{name}"] if commit else None
        for program, rows_found in () if version is None else programs(lake, name, version):
            refused += rows_found is None
            if rows_found is not None:
                found[program] = rows_found
        for reader, of_reader in found.items():
            assert differing(plain(of_reader, names), plain(expected, names)) == [], (reader, name)
    return refused


def tell(
    source: Source,
    lake: Lake,
    seed: int,
    compact: Callable[[str], object],
    programs: Programs = programs_of,
) -> int:
    """Fill three random tables, and read each cut by every reader.

    Returns:
        How often at most programs refused a table of one cut.
    """
    chance = random.Random(seed)
    tables = {
        name: source.table(name, KEY, NUMBER, column(3, text, "nvarchar(max)"), *OTHERS)
        for name, text in (("plain", "s"), ("spaced", "the text"), ("renamed", "s"))
    }
    lsns: list[str] = []
    for turn in range(4):
        if turn == 1:
            text = column(3, "S", "nvarchar(max)")
            source.alter(tables["renamed"], KEY, NUMBER, text, *OTHERS)
        for table in tables.values():
            change(source, table, chance)
        if turn == 2:
            source.publish()  # What the record that names the table has counts as its whole.
            random_tables.snapshot(source, tables["plain"], chance, names_it_first=False)
        source.publish()
        columns = {n: [of.name for of in t.schema.columns] for n, t in tables.items()}
        if turn == 3:
            lake.log_only()
            check(lake, source, columns, None, programs)
        if catalog_of(lake):
            lake.catch_up()
        else:
            lake.catch_up(rewrite_below_bytes=0 if turn else 131_072)
        if turn == 2:
            for name in tables:
                compact(name)
        check(lake, source, columns, None, programs)
        lsns.append(lake.commits()[-1]["through_lsn"])
    refused = [check(lake, source, columns, lsn, programs) for lsn in lsns[1:]]
    old = {n: [of if of != "S" else "s" for of in names] for n, names in columns.items()}
    check(lake, source, old, lsns[0], programs)
    return max(refused)


@pytest.mark.slow("a lake with three tables, whose cuts eleven readers read")
@pytest.mark.parametrize("seed", [1])
def test_every_reader_has_the_rows_of_random_tables(source: Source, lake: Lake, seed: int):
    def compact(name: str) -> None:
        lake.spark.sql(f"OPTIMIZE delta.`{lake.location(name)}`")

    refused = tell(source, lake, seed, compact)
    assert refused < len(PROGRAMS) * 3, "some program reads them"
