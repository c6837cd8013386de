"""Files that the sink writes itself for Iceberg: the rows of Spark's way, and one vector a file."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from tailrace_sink.iceberg.files.found_files import FoundFile
from tailrace_sink.iceberg.files.table_files import TableFiles
from tailrace_sink.tables.key_bounds import KeyBound
from tests.envelopes.source import Source
from tests.fix_object_store import SharedStore
from tests.sink.bulk_tables import change_rows, insert_all
from tests.sink.conftest import Lake
from tests.sink.delta.test_column_files import OURS
from tests.sink.iceberg.conftest import CatalogServer
from tests.sink.iceberg.test_readers import READERS, pyiceberg_catalog
from tests.sink.lake_rows import Rows
from tests.sink.tables.test_rows import change_documents, insert_versions

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.parametrize("lake", ["s3"], indirect=True),
]


class Ways:
    """One source in two lakes of a catalog: by columns, and by Spark alone."""

    def __init__(self, lake: Lake, server: CatalogServer) -> None:
        self.lake = lake
        self.spaces = {bulk: f"files_{bulk}_{uuid.uuid4().hex[:8]}" for bulk in (1, 0)}
        self.options: dict[int, dict[str, Any]] = {}
        for bulk, space in self.spaces.items():
            catalog = server.options | {
                "namespace": space,
                "data": f"{server.options['data']}/{space}",
            }
            self.options[bulk] = {
                "local_changes_max": 0,
                "changelog": {"include": [".*"]},
                "bulk_changes": bulk,
                "lake": f"{lake.address}/{space}",
                "format": "iceberg",
                "iceberg": catalog,
            }

    def catch_up(self, **options: Any) -> None:
        for bulk, of_way in self.options.items():
            named = {"properties": {"io-impl": "org.apache.iceberg.hadoop.HadoopFileIO"}}
            catalog = of_way["iceberg"] | (named if bulk == 0 else {})
            self.lake.catch_up(**{**of_way, "iceberg": catalog, **options})

    def rows(self, bulk: int, table: str) -> Rows:
        frame = self.lake.spark.table(f"tailrace.{self.spaces[bulk]}.{table}")
        return sorted((row.asDict() for row in frame.collect()), key=repr)

    def files(self, bulk: int, table: str) -> set[str]:
        frame = self.lake.spark.table(f"tailrace.{self.spaces[bulk]}.{table}")
        found = frame.selectExpr("substring_index(_file, '/', -1)").distinct().collect()
        return {row[0] for row in found}

    def check(self, *tables: str, is_merged: bool = False) -> None:
        for table in tables:
            assert self.rows(1, table) == self.rows(0, table), table
            ours = [bool(OURS.fullmatch(name)) for name in self.files(1, table)]
            assert all(ours) or is_merged, table
            assert not any(map(OURS.fullmatch, self.files(0, table))), table


@pytest.mark.slow("four batches in two lakes, by columns and by Spark")
def test_files_by_columns_have_the_rows_of_sparks_way(
    source: Source,
    lake: Lake,
    server: CatalogServer,
    shared_store: SharedStore,
    monkeypatch: pytest.MonkeyPatch,
):
    ways = Ways(lake, server)
    chance = random.Random(31)
    tables = insert_all(source, chance)
    mixed, first = tables.mixed, tables.first
    source.publish()
    ways.catch_up()
    ways.check("types", "types__changes", "line", "first", "first__changes", "mixed")

    insert_versions(source, tables.versions)
    change_documents(source, tables.documents)
    change_rows(source, mixed, chance)
    source.publish()
    ways.catch_up()
    ways.check("versions", "documents", "mixed", is_merged=True)

    # Small cuts: rows in the driver's memory become a file there.
    for delete_mode in ("hard", "soft"):
        before = ways.files(1, "mixed")
        change_rows(source, mixed, chance)
        change_rows(source, first, chance)
        source.publish()
        few = {"bulk_changes": 0, "local_changes_max": 10_000}
        ways.catch_up(**few, delete_mode=delete_mode)
        ways.check("mixed", "first", "mixed__changes", is_merged=True)
        (new,) = ways.files(1, "mixed") - before
        assert OURS.fullmatch(new), "it needed no MERGE"
        vectors = lake.spark.sql(
            f"SELECT referenced_data_file FROM tailrace.{ways.spaces[1]}.mixed.delete_files"
        ).collect()
        assert len(vectors) == len(set(vectors)) > 0, "a data file has one vector"

    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")  # else a warning: it is slower
    catalog = pyiceberg_catalog(server, shared_store)
    for name in ("mixed", "versions"):
        table, expected = catalog.load_table((ways.spaces[1], name)), plain(ways.rows(1, name))
        for reader in READERS:
            assert plain(reader(table, shared_store)) == expected, reader


@pytest.mark.slow("many small batches of one sink")
def test_a_sink_knows_the_files_it_wrote(
    source: Source, lake: Lake, server: CatalogServer, monkeypatch: pytest.MonkeyPatch
):
    ways, chance = Ways(lake, server), random.Random(43)
    tables = insert_all(source, chance)
    source.publish()
    ways.catch_up()
    planned: Counter[str] = Counter()
    plan = TableFiles.meeting

    def counted(files: TableFiles, bounds: Iterable[KeyBound]) -> list[FoundFile]:
        planned[files.table] += 1
        return plan(files, bounds)

    monkeypatch.setattr(TableFiles, "meeting", counted)
    few = {"bulk_changes": 0, "local_changes_max": 10_000}
    for delete_mode in ("hard", "soft"):
        before = ways.files(1, "mixed")
        for table in [tables.mixed, tables.first] * 2:
            change_rows(source, table, chance)
            source.publish()
        planned.clear()
        ways.options[1]["changes_per_batch"] = 1
        ways.catch_up(**few, delete_mode=delete_mode)
        ways.check("mixed", "first", is_merged=True)
        assert len(ways.files(1, "mixed") - before) > 1, "there were several batches"
        name = f"{ways.spaces[1]}.mixed"
        assert planned[name] == 1, "the first batch reads the table's files, no other"
        vectors = lake.spark.sql(f"SELECT referenced_data_file FROM tailrace.{name}.delete_files")
        of_files = vectors.collect()
        assert len(of_files) == len(set(of_files)) > 0, "a data file has one vector"


def plain(rows: Rows) -> Rows:
    """Rows without the sink's own columns."""
    without = ({k: v for k, v in row.items() if not k.startswith("_cdc_")} for row in rows)
    return sorted(without, key=repr)
