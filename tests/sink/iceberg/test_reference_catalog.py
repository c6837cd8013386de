"""A second real catalog: Iceberg's own. It is refused, and `commits: each_table` works with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tailrace_compose.local.errors import ArtifactUnavailable
from tailrace_sink.errors import CatalogUnavailable, CatalogUnsafe
from tailrace_sink.iceberg.catalog import IcebergCatalog
from tailrace_sink.iceberg.names import TableId
from tailrace_sink.iceberg.proof import prove_catalog
from tailrace_sink.iceberg.session import set_catalog
from tailrace_sink.options.iceberg_options import Commits, IcebergOptions
from tests.sink.iceberg.conftest import CatalogServer, TwoTables, new_tables, stamp
from tests.sink.iceberg.reference_catalog import ReferenceCatalog
from tests.sink.objects.proxy import Answer, Pass, Proxy, Request, straight

pytestmark = [pytest.mark.spark, pytest.mark.slow("a second catalog starts")]

FIRST = [{1: "a", 2: "b"}, {10: "x"}]
SECOND = [{1: "A", 2: "", 3: "c"}, {11: "y"}]
AFTER_SECOND = [{1: "A", 3: "c"}, {10: "x", 11: "y"}]
EACH = Commits.EACH_TABLE


@pytest.fixture(scope="module")
def reference_server(
    tmp_path_factory: pytest.TempPathFactory, iceberg_spark: SparkSession
) -> Iterator[CatalogServer]:
    catalog = ReferenceCatalog(tmp_path_factory.mktemp("catalog"))
    try:
        catalog.start()
    except ArtifactUnavailable as error:
        pytest.skip(str(error))
    try:
        with Proxy(catalog.url) as proxy:
            for name, uri in (("reference", proxy.url), ("reference_others", catalog.url)):
                given = catalog.options | {"name": name, "uri": uri}
                set_catalog(iceberg_spark, IcebergOptions.load(given))
            through = catalog.options | {"uri": proxy.url}
            yield CatalogServer(through, catalog.url, proxy, iceberg_spark)
    finally:
        catalog.stop()


@pytest.fixture
def reference(reference_server: CatalogServer) -> Iterator[CatalogServer]:
    yield reference_server
    reference_server.proxy.rule = straight


def test_it_is_refused_because_it_tears_commits_in_a_race(reference: CatalogServer):
    catalog = IcebergCatalog(reference.spark, "reference")

    with pytest.raises(CatalogUnsafe, match="while another client committed to one of them"):
        prove_catalog(catalog, ("shop", "proof"))

    space = catalog.identifier(TableId(("shop", "proof"), "x")).namespace()
    assert list(catalog.java.listTables(space)) == []
    prove_catalog(catalog, ("shop", "proof"), EACH)


def test_cuts_are_published_table_after_table(reference: CatalogServer):
    """A foreign commit, a kill, a lost answer, and what format version 3 has."""
    tables = new_tables(reference.spark, IcebergCatalog(reference.spark, "reference"), "")
    tables.others = "reference_others"
    orders, items = tables.names
    sink = tables.sink(1, EACH)
    staged = tables.stage(sink, 5, *FIRST)

    def lost(request: Request, pass_on: Pass) -> Answer | None:
        answer = pass_on()
        return None if request.method == "POST" and request.path.endswith("/orders") else answer

    reference.proxy.rule = lost
    with pytest.raises(CatalogUnavailable, match="no answer to publishing batch 5"):
        sink.publish(staged, stamp(sink, 5))
    assert tables.all_rows() == [FIRST[0], {}]
    reference.proxy.rule = straight
    sink.publish(staged, stamp(sink, 5))  # knows what is done
    assert tables.all_rows() == FIRST

    tables.stage(sink, 6, *SECOND)
    sink = tables.sink(2, EACH)  # the first one was killed
    staged = tables.stage(sink, 6, *SECOND)
    tables.foreign(items, "INSERT INTO {t} VALUES (99L, 'foreign', 0L)")
    assert list(sink.publish(staged, stamp(sink, 6)).changed) == [items]
    assert sink.publish({orders: staged[orders]}, stamp(sink, 6)).is_done

    assert tables.all_rows() == [AFTER_SECOND[0], FIRST[1] | {99: "foreign"}]
    assert_deletion_vectors(tables, orders)


def assert_deletion_vectors(tables: TwoTables, name: TableId) -> None:
    sql, table = tables.spark.sql, name.sql("reference")
    found = sql(f"SELECT DISTINCT file_format FROM {table}.delete_files").collect()
    assert [row["file_format"] for row in found] == ["PUFFIN"]
    ids = [row["_row_id"] for row in sql(f"SELECT _row_id FROM {table}").collect()]
    assert None not in ids
    assert len(ids) == len(set(ids)) == len(AFTER_SECOND[0])
