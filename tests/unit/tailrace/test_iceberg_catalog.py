"""What a reader without Spark says of a catalog that fails, and of a package that is missing."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tailrace.lake import catalog as module
from tailrace.lake.catalog import Catalog
from tailrace.lake.errors import NeedsSpark
from tailrace.lake.store import LakeStore
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import CatalogUnavailable, CatalogUnusable, ConfigError, SinkError
from tailrace_sink.iceberg.names import TableId
from tailrace_sink.iceberg.past_columns import FORMER_PROPERTY, Field, as_it_was
from tailrace_sink.options.iceberg_options import IcebergOptions
from tailrace_sink.options.s3_options import S3Options
from tailrace_sink.tables.column_identity import COLUMNS_PROPERTY, Identity, identities_text
from tailrace_sink.tables.described_table import Described, described_table
from tailrace_sink.tables.lake_table import CDC_COLUMNS, Kind

TABLE = "/v1/namespaces/shop_dbo/tables/orders"


@contextmanager
def answering(status: int | None) -> Iterator[str]:
    """A catalog that answers a request for a table so; None: never, while the block runs."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, found = 200, {"defaults": {}, "overrides": {}}
            if self.path.endswith(TABLE):
                if status is None:
                    over.wait(30)
                code = status or 500
                found = {"error": {"message": "told", "type": "T", "code": code}}
            text = json.dumps(found).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            over.set()
            server.shutdown()
            thread.join()


def failure(path: Path, **options: str | None) -> SinkError:
    """Of a catalog with some options, or none."""
    given = IcebergOptions.load({"warehouse": "w", **options}) if options else None
    opened = Catalog(LakeStore.of(path, {}), given, "tailrace", "{database}_{schema}")
    with pytest.raises(SinkError) as told:
        opened.table("shop/dbo/orders")
    return told.value


@pytest.mark.parametrize(
    ("status", "kind", "fix"),
    [
        (401, CatalogUnusable, "Fix: check the credential or token"),
        (403, CatalogUnusable, "Fix: check the credential or token"),
        (400, CatalogUnusable, "Fix: check the options of the catalog"),
        (503, CatalogUnavailable, "Fix: check the address of the catalog"),
        (None, CatalogUnavailable, "none within 0.5 s"),
    ],
)
def test_a_catalog_that_fails_is_named_with_the_fix(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: int | None,
    kind: type[SinkError],
    fix: str,
):
    pytest.importorskip("pyiceberg")
    if status is None:
        monkeypatch.setattr(module, "_ANSWER_S", 0.5)
    with answering(status) as uri:
        error = failure(tmp_path, uri=uri, token="secret")
    assert type(error) is kind
    assert error.retryable == (kind is CatalogUnavailable)
    assert fix in str(error)
    assert "secret" not in str(error)


def test_a_table_that_is_missing_is_no_failure(tmp_path: Path):
    pytest.importorskip("pyiceberg")
    with answering(404) as uri:
        options = IcebergOptions.load({"warehouse": "w", "uri": uri})
        store = LakeStore.of(tmp_path, {})
        assert Catalog(store, options, "tailrace", "shop_dbo").table("shop/dbo/orders") is None


def test_an_unknown_catalog_is_named_with_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("pyiceberg")
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    unknown = failure(tmp_path)
    assert isinstance(unknown, ConfigError)
    assert 'iceberg={"uri": ..., "warehouse": ...}' in str(unknown)
    with answering(503) as uri:
        monkeypatch.setenv("PYICEBERG_CATALOG__TAILRACE__URI", uri)
        assert isinstance(failure(tmp_path), CatalogUnavailable), "pyiceberg's own configuration"
    by_files = failure(tmp_path, uri=None)
    assert isinstance(by_files, NeedsSpark)
    assert "sink.iceberg has no uri" in str(by_files)


def test_options_are_those_of_the_sink(tmp_path: Path):
    (tmp_path / "login").write_text("id:secret\n")
    options = IcebergOptions.load(
        {
            "uri": "https://c/api",
            "warehouse": "w",
            "credential_file": str(tmp_path / "login"),
            "properties": {"header.X-Iceberg-Access-Delegation": "vended-credentials"},
        }
    )
    assert options.pyiceberg() == {
        "type": "rest",
        "uri": "https://c/api",
        "warehouse": "w",
        "credential": "id:secret",
        "oauth2-server-uri": "https://c/api/v1/oauth/tokens",
        "header.X-Iceberg-Access-Delegation": "vended-credentials",
    }
    files = S3Options.load({"endpoint": "http://minio:9000", "access_key": "a", "secret_key": "b"})
    found = files.pyiceberg()
    assert found["s3.endpoint"] == "http://minio:9000"
    assert found["s3.region"] == "us-east-1"
    assert (found["s3.access-key-id"], found["s3.secret-access-key"]) == ("a", "b")
    assert found["s3.force-virtual-addressing"] == "false"


def test_names_follow_from_paths():
    name = TableId.at("Shop/dbo/orders.changes", "lake_{schema}")
    assert str(name) == "lake_dbo.orders__changes"


def test_a_table_is_described_with_the_columns_of_a_snapshot():
    """One was renamed, one widened, one added, and one is of a table that was replaced."""
    identities = {
        "id": Identity(1, "int", 1),
        "text": Identity(2, "varchar(9)", 0),
        "n": Identity(3, "bigint", 0),
    }
    former = {"7": [9, "float", 0]}
    properties = {
        COLUMNS_PROPERTY: identities_text(identities.items()),
        FORMER_PROPERTY: json.dumps(former),
    }
    kinds = {"id": "INT", "text": "STRING", "n": "BIGINT"}
    present = [Field(of, Described(n, kinds[n], None)) for of, n in enumerate(identities, 1)]
    table = TableName("shop", "dbo", "orders")
    own = [Described(name, type_, None) for name, (type_, _) in CDC_COLUMNS.items()]
    now = described_table(table, Kind.MIRROR, [*(of.column for of in present), *own], properties)
    then = [
        *(Field(1, Described("id", "INT", None)), Field(2, Described("note", "STRING", None))),
        *(Field(7, Described("ratio", "DOUBLE", None)), Field(8, Described("own", "INT", None))),
    ]

    found = as_it_was(now, present, then, properties)

    assert [(c.name, c.column_id, c.type) for c in found.columns] == [
        ("id", 1, "INT"),
        ("note", 2, "STRING"),
        ("ratio", 9, "DOUBLE"),
    ]
    assert found.schema_lsn == ""
