"""Iceberg catalogs, their proxies, and two tables of one lake in one of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tailrace_compose.local.errors import ArtifactUnavailable
from tailrace_compose.local.jars import iceberg_jars
from tailrace_sink.errors import LakeTaken
from tailrace_sink.iceberg.catalog import IcebergCatalog
from tailrace_sink.iceberg.loaded_table import LoadedTable
from tailrace_sink.iceberg.names import BRANCH, MAIN, PLACE_PROPERTY, TableId
from tailrace_sink.iceberg.new_table import NewTable, create_table
from tailrace_sink.iceberg.publication import Publisher
from tailrace_sink.iceberg.session import set_catalog
from tailrace_sink.iceberg.stamp import Stamp
from tailrace_sink.options.iceberg_options import Commits, IcebergOptions
from tailrace_sink.spark.session import small_batch_session
from tests.fix_object_store import SharedStore
from tests.sink.objects.proxy import Proxy, straight

LOG = "log-of-the-lake"
LAKE = "s3a://lake/shop"
COLUMNS = "id BIGINT NOT NULL COMMENT 'bigint', v STRING COMMENT 'varchar(10)', pos BIGINT"
Rows = Mapping[int, str]


def add_to_classpath(spark: SparkSession, jars: Iterable[Path]) -> None:
    """As spark.jars does for the sink; the other tests' Spark need not load these."""
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for jar in jars:
        loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
        spark.sparkContext._jsc.sc().addJar(str(jar))


@dataclass(frozen=True)
class CatalogServer:
    """A catalog, and the proxy through which the sink's Spark reaches it.

    Attributes:
        options: of a sink; Spark opens a catalog once, so all sinks use the proxy.
        direct: address past the proxy.
    """

    options: dict[str, str]
    direct: str
    proxy: Proxy
    spark: SparkSession


@pytest.fixture(scope="session")
def iceberg_spark(spark: SparkSession) -> SparkSession:
    """The session's Spark with Iceberg."""
    try:
        add_to_classpath(spark, iceberg_jars())
    except ArtifactUnavailable as error:
        pytest.skip(str(error))
    return spark


@pytest.fixture(scope="session")
def catalog_server(
    shared_store: SharedStore, spark_with_store: SparkSession, iceberg_spark: SparkSession
) -> Iterator[CatalogServer]:
    assert iceberg_spark is spark_with_store
    with Proxy(shared_store.catalog["uri"]) as proxy:
        through = shared_store.catalog | {"uri": proxy.url}
        set_catalog(spark_with_store, IcebergOptions.load(through))
        # Others write past the proxy, so a test's rule is for the sink alone.
        set_catalog(spark_with_store, IcebergOptions.load(shared_store.catalog | {"name": "other"}))
        yield CatalogServer(through, shared_store.catalog["uri"], proxy, spark_with_store)


@pytest.fixture
def server(catalog_server: CatalogServer) -> Iterator[CatalogServer]:
    """The catalog, with a proxy that passes everything on until the test says otherwise."""
    catalog_server.proxy.seen.clear()
    yield catalog_server
    catalog_server.proxy.rule = straight


@dataclass
class TwoTables:
    """The tables of one lake, in the order of their publication, and how a sink fills them.

    Attributes:
        newest: epoch of the newest sink.
        others: name of the catalog in Spark through which other programs write.
    """

    spark: SparkSession
    catalog: IcebergCatalog
    names: tuple[TableId, ...]
    newest: int = 1
    others: str = "other"

    def sink(self, epoch: int, commits: Commits = Commits.ALL_TABLES) -> Publisher:
        """A sink that starts, as in a process of its own: it takes the tables."""
        self.newest = max(self.newest, epoch)

        def check() -> None:
            if epoch < self.newest:
                raise LakeTaken("shop", 1, 2)

        sink = Publisher(self.catalog, LOG, epoch, check, commits)
        for name in self.names:
            sink.take(name)
        return sink

    def stage(self, sink: Publisher, batch: int, *tables: Rows) -> dict[TableId, int]:
        """Merge rows into the branches, with the batch as their position."""
        return {
            name: self.stage_one(sink, batch, name, rows)
            for name, rows in zip(self.names, tables, strict=False)
        }

    def stage_one(
        self, sink: Publisher, batch: int, name: TableId, rows: Rows, attempt: str = ""
    ) -> int:
        values = ", ".join(f"({key}L, '{text}', {batch}L)" for key, text in rows.items())
        merge = (
            f"MERGE INTO {{t}} t USING (SELECT * FROM VALUES {values} AS s(id, v, pos)) s"
            " ON t.id = s.id WHEN MATCHED AND s.v = '' THEN DELETE"
            " WHEN MATCHED AND s.pos > t.pos THEN UPDATE SET *"
            " WHEN NOT MATCHED AND s.v <> '' THEN INSERT *"
        )
        return self.run(sink, batch, name, merge, attempt)

    def run(
        self, sink: Publisher, batch: int, name: TableId, statement: str, attempt: str = ""
    ) -> int:
        """Run a statement on the branch of the table {t}, and return the snapshot after it."""
        text = statement.format(t=name.staged_sql(self.catalog.name))
        self.catalog.statements.run(self.spark, text, stamp(sink, batch, attempt).summary)
        head = self.loaded(name).head(BRANCH)
        assert head is not None
        return head

    def rows(self, name: TableId, version: int | None = None) -> dict[int, str]:
        at = "" if version is None else f" VERSION AS OF {version}"
        found = self.spark.sql(f"SELECT id, v FROM {name.sql(self.catalog.name)}{at}").collect()
        return {row["id"]: row["v"] for row in found}

    def all_rows(self) -> list[dict[int, str]]:
        return [self.rows(name) for name in self.names]

    def heads(self) -> list[int | None]:
        return [self.loaded(name).head(MAIN) for name in self.names]

    def loaded(self, name: TableId) -> LoadedTable:
        found = self.catalog.load(name)
        assert found is not None
        return found

    def foreign(self, name: TableId, statement: str) -> None:
        """Another program writes to a table."""
        self.spark.sql(statement.format(t=name.sql(self.others)))


def stamp(sink: Publisher, batch: int, attempt: str = "") -> Stamp:
    return Stamp(sink.log, sink.epoch, batch, f"lsn-{batch}", attempt)


def new_tables(spark: SparkSession, catalog: IcebergCatalog, data: str) -> TwoTables:
    space = f"shop_{uuid.uuid4().hex[:8]}"
    names = (TableId((space,), "orders"), TableId((space,), "items"))
    for name in names:
        table = NewTable(
            COLUMNS,
            key=["id"],
            data=data and f"{data}/{space}/{name.name}",
            properties={PLACE_PROPERTY: f"{LAKE}/shop/dbo/{name.name}"},
        )
        assert create_table(catalog, name, table, Stamp(LOG, 1))
    return TwoTables(small_batch_session(spark), catalog, names)


@pytest.fixture
def tables(server: CatalogServer) -> TwoTables:
    """Two new tables in the catalog."""
    catalog = IcebergCatalog(server.spark, "tailrace")
    return new_tables(server.spark, catalog, server.options["data"])
