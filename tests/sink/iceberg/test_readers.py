"""Readers that know nothing of the sink: the newest cut, a kept cut, the cut of an LSN."""

from __future__ import annotations

from typing import Any, Final

import duckdb
import polars
import pytest
from duckdb_extensions import import_extension

from tailrace_sink.iceberg.names import TableId
from tailrace_sink.iceberg.new_table import NewTable, create_table
from tailrace_sink.options.s3_options import S3Options
from tests.end_to_end.test_verified_lake import check_texts, every_value
from tests.fix_object_store import SharedStore
from tests.sink.iceberg.conftest import CatalogServer, TwoTables, stamp

pytestmark = pytest.mark.spark
pytest.importorskip("pyiceberg", reason="make setup installs it")
pytest.importorskip("duckdb_extension_iceberg", reason="make setup installs it")

FIRST = [{1: "a", 2: "b", 3: "c"}, {10: "x"}]
SECOND = [{1: "A", 2: "", 4: "d"}, {10: "y"}]
AFTER_SECOND = [{1: "A", 3: "c", 4: "d"}, {10: "y"}]


def pyiceberg_catalog(server: CatalogServer, store: SharedStore) -> Any:
    from pyiceberg.catalog.rest import RestCatalog

    secrets = S3Options.load(store.options).pyarrow()
    return RestCatalog(
        "tailrace",
        **{name: server.options[name] for name in ("warehouse", "credential")},
        **{
            "uri": server.direct,
            "oauth2-server-uri": f"{server.direct}/v1/oauth/tokens",
            "s3.endpoint": store.options["endpoint"],
            "s3.region": "us-east-1",
            "s3.access-key-id": secrets["access_key"],
            "s3.secret-access-key": secrets["secret_key"],
        },
    )


Found = list[dict[str, Any]]


def by_pyiceberg(table: Any, _: SharedStore, snapshot: int | None = None) -> Found:
    return list(table.scan(snapshot_id=snapshot).to_arrow().to_pylist())


def by_polars(table: Any, store: SharedStore, snapshot: int | None = None) -> Found:
    options = {
        name.lower(): text for name, text in S3Options.load(store.options).storage_options().items()
    }
    scan = polars.scan_iceberg(table, snapshot_id=snapshot, storage_options=options)
    return scan.collect().to_dicts()


def by_duckdb(table: Any, store: SharedStore, snapshot: int | None = None) -> Found:
    with duckdb.connect() as connection:
        for extension in ("httpfs", "avro", "iceberg"):
            import_extension(extension, con=connection)
            connection.execute(f"LOAD {extension}")
        connection.execute(S3Options.load(store.options).duckdb())
        at = "" if snapshot is None else f", snapshot_from_id={snapshot}"
        query = f"SELECT * FROM iceberg_scan('{table.metadata_location}'{at})"
        return list(connection.execute(query).arrow().read_all().to_pylist())


READERS: Final = (by_pyiceberg, by_polars, by_duckdb)


def test_every_reader_sees_the_same_cuts(
    server: CatalogServer,
    tables: TwoTables,
    shared_store: SharedStore,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")  # else a warning: it is slower
    sink = tables.sink(1)
    versions = []
    for batch, rows in ((5, FIRST), (6, SECOND)):
        staged = tables.stage(sink, batch, *rows)
        sink.publish(staged, stamp(sink, batch))
        versions.append(staged)
    tables.stage(sink, 7, {1: "staged"}, {10: "staged"})  # nobody sees what is staged
    catalog = pyiceberg_catalog(server, shared_store)

    for at, name in enumerate(tables.names):
        table = catalog.load_table((*name.namespace, name.name))
        for snapshot, expected in (
            (None, AFTER_SECOND[at]),
            (versions[1][name], AFTER_SECOND[at]),
            (versions[0][name], FIRST[at]),
        ):
            assert tables.rows(name, snapshot) == expected
            for reader in READERS:
                rows = reader(table, shared_store, snapshot)
                assert {row["id"]: row["v"] for row in rows} == expected, reader
        # Time travel by LSN needs nothing of the sink but the summaries.
        (of_lsn,) = (
            found.snapshot_id
            for found in table.snapshots()
            if found.summary is not None and found.summary["tailrace.lsn"] == "lsn-5"
        )
        assert of_lsn == versions[0][name]

    # tailrace verify reads of every type what it reads of a lake in Delta.
    frame = every_value(server.spark).coalesce(1)
    name = TableId(tables.names[0].namespace, "kinds")
    ddl = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in frame.schema)
    table = NewTable(ddl, data=f"{server.options['data']}/kinds")
    assert create_table(tables.catalog, name, table, stamp(sink, 7))
    frame.writeTo(name.sql("tailrace")).append()
    check_texts(server.spark.table(name.sql("tailrace")))
