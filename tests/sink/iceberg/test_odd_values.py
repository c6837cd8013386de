"""Odd names, times at the ends of their types, and random tables in every reader of Iceberg."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any, Final

import pytest
from pyarrow.fs import S3FileSystem

from tailrace import lake as without_spark
from tailrace_sink.options.s3_options import S3Options
from tailrace_sink.reading.reader import read
from tests.envelopes.source import Source
from tests.envelopes.tables import column
from tests.fix_object_store import SharedStore
from tests.sink.conftest import Lake
from tests.sink.iceberg.conftest import CatalogServer
from tests.sink.iceberg.test_cuts import once_is_enough
from tests.sink.iceberg.test_readers import READERS, pyiceberg_catalog
from tests.sink.lake_files import int96_in_store
from tests.sink.reading.test_every_reader import Rows, tell
from tests.sink.reading.test_mapped_columns import KEY, ODD, SETTING, rows_of
from tests.sink.tables.test_far_times import ZONES, check, commit_times, fill, told

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.guarantee(14),
    pytest.mark.parametrize("lake", ["s3"], indirect=True),
]

REFUSED: Final[dict[str, tuple[str, ...]]] = {
    "pos": ("_pos",),
    "file": ("_file",),
    "upper": ("_POS",),
    "partition": ("_partition",),
    "own": ("_cdc_lsn",),
    "pair": ("twin", "TWIN"),
}
"""Columns by table that Iceberg or the sink reserves, or that Spark takes for one."""
NAMES: Final = (SETTING, *(name for name in ODD if name not in ("_pos", "_file")))


@pytest.fixture
def space(lake: Lake, server: CatalogServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """The namespace of the lake's tables in the catalog."""
    name = f"odd_{uuid.uuid4().hex[:8]}"
    catalog = server.options | {"namespace": name, "data": f"{server.options['data']}/{name}"}
    lake.options |= {"format": "iceberg", "iceberg": catalog, "merge_pool": 1}
    once_is_enough(monkeypatch)
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")  # else a warning: it is slower
    return name


@pytest.mark.slow("a lake that changes three times, read by ten readers")
def test_odd_names_are_the_same_in_every_reader_or_stop_their_table(
    source: Source, lake: Lake, space: str, server: CatalogServer, shared_store: SharedStore
):
    odd = source.table("odd", KEY, *(column(n, name, "int") for n, name in enumerate(NAMES, 2)))
    refused = [
        (source.table(table, KEY, *(column(n, of, "int") for n, of in enumerate(names, 2))), names)
        for table, names in REFUSED.items()
    ]
    for key in (1, 2, 3):
        source.commit(
            lambda t, k=key: t.insert(odd, id=k, **dict.fromkeys(NAMES, 10 * k)),
            lambda t, k=key: t.update(odd, (1,), **dict.fromkeys(NAMES, k)),
        )
        for table, names in refused:
            source.commit(
                lambda t, of=table, k=key, to=names: t.insert(of, id=k, **dict.fromkeys(to, k))
            )
        source.publish()
        lake.catch_up()
        if key == 2:
            lake.spark.sql(
                f"CALL other.system.rewrite_data_files(table => '{space}.odd',"
                " options => map('rewrite-all', 'true'))"
            )
        expected = [odd.rows[of] for of in sorted(odd.rows)]
        for reader, rows in every_reader(lake, space, server, shared_store).items():
            found = sorted(rows, key=lambda row: row["id"])
            assert [{n: row[n] for n in ("id", *NAMES)} for row in found] == expected, reader
    reasons = json.loads(lake.commits()[-1]["stopped"])
    assert set(reasons) == {table.topic for table, _ in refused}
    for table, names in refused:
        assert any(name in reasons[table.topic] for name in names), reasons[table.topic]


def every_reader(
    lake: Lake, space: str, server: CatalogServer, store: SharedStore
) -> dict[str, list[dict[str, Any]]]:
    options = lake.options["iceberg"]
    cut = without_spark.open(lake.address, iceberg=options, **lake.options["s3"]).as_of("latest")
    by_spark = read(lake.spark, lake.address).as_of("latest").read("dbo.odd")
    bare = lake.spark.table(f"other.{space}.odd")
    table = pyiceberg_catalog(server, store).load_table((space, "odd"))
    return {
        **rows_of(cut, "dbo.odd"),
        "spark": [row.asDict() for row in by_spark.collect()],
        "spark of others": [row.asDict() for row in bare.collect()],
        **{reader.__name__: reader(table, store) for reader in READERS},
    }


OTHERS: Final = """
import duckdb
from duckdb_extensions import import_extension
from pyiceberg.table import StaticTable

of_store = json.loads(sys.argv[4])
table = StaticTable.from_metadata(path, of_store["pyiceberg"])
found["pyiceberg"] = table.scan().to_arrow()
found["polars"] = (
    polars.scan_iceberg(table, storage_options=of_store["polars"]).collect().to_arrow()
)
with duckdb.connect() as duck:
    for extension in ("httpfs", "avro", "iceberg"):
        import_extension(extension, con=duck)
        duck.execute(f"LOAD {extension}")
    duck.execute(of_store["duckdb"])
    found["duckdb"] = duck.execute("SELECT * FROM iceberg_scan(?)", [path]).to_arrow_table()
"""


def of_store(store: SharedStore) -> dict[str, Any]:
    options, of = S3Options.load(store.options), store.options
    secrets = options.pyarrow()
    return {
        "pyiceberg": {
            "s3.endpoint": of["endpoint"],
            "s3.region": "us-east-1",
            "s3.access-key-id": secrets["access_key"],
            "s3.secret-access-key": secrets["secret_key"],
        },
        "polars": {name.lower(): text for name, text in options.storage_options().items()},
        "duckdb": options.duckdb(),
    }


@pytest.mark.slow("a lake, read by eight readers in three zones")
@pytest.mark.parametrize("options", [{"local_changes_max": 0}, {}], ids=["MERGE", "small"])
def test_every_reader_has_the_ends_of_each_type_in_every_zone(
    source: Source,
    lake: Lake,
    space: str,
    server: CatalogServer,
    shared_store: SharedStore,
    options: dict[str, Any],
):
    kinds = {r"dbo\..*": ["mirror", "changelog", "history"]}
    expected = fill(source, lake, kinds=kinds, **options)
    times = commit_times(lake.spark.table(f"other.{space}.ends"))
    of_lake = {"iceberg": lake.options["iceberg"], **lake.options["s3"]}
    files = S3FileSystem(**lake.config().s3.pyarrow())
    folder = lake.options["iceberg"]["data"].partition("://")[2]
    for is_compact in (False, True):
        if is_compact:
            lake.spark.sql(
                f"CALL other.system.rewrite_data_files(table => '{space}.ends',"
                " options => map('rewrite-all', 'true'))"
            )
        count, as_int96 = int96_in_store(files, folder)
        assert count > 0
        assert as_int96 == {}
        table = pyiceberg_catalog(server, shared_store).load_table((space, "ends"))
        for zone in ZONES:
            found = told(
                lake, zone, table.metadata_location, OTHERS, of_store(shared_store), **of_lake
            )
            check(found, expected, times)


@pytest.mark.slow("a lake with three tables, whose cuts ten readers read")
@pytest.mark.parametrize("seed", [1])
def test_every_reader_has_the_rows_of_random_tables(
    source: Source,
    lake: Lake,
    space: str,
    server: CatalogServer,
    shared_store: SharedStore,
    seed: int,
):
    def programs(_: Lake, name: str, version: int) -> Iterator[tuple[str, Rows | None]]:
        table = pyiceberg_catalog(server, shared_store).load_table((space, name))
        for reader in READERS:
            yield reader.__name__, reader(table, shared_store, version)

    def compact(name: str) -> None:
        lake.spark.sql(
            f"CALL other.system.rewrite_data_files(table => '{space}.{name}',"
            " options => map('rewrite-all', 'true'))"
        )

    assert tell(source, lake, seed, compact, programs) == 0, "no program refuses"
