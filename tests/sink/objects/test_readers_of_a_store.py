"""The programs of docs/object-stores.md that read a lake without Spark, run as they are written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake
from pyarrow.fs import S3FileSystem, copy_files

from tailrace import lake
from tailrace_sink.errors import StoreUnusable
from tailrace_sink.options.s3_options import S3Options
from tailrace_sink.reading.cut_errors import CutUnknown
from tests.archives import unpack
from tests.fix_object_store import SharedStore
from tests.least_options import LEAST

PAGE = Path(__file__).parents[3] / "docs" / "object-stores.md"
OLD_LAKE = Path(__file__).parents[1] / "daemon" / "lake-0.1.tar.gz"


@pytest.mark.parametrize("keys", ["in the configuration", "of the environment"])
def test_duckdb_and_polars_read_with_the_options_of_the_configuration(
    store: SharedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: str
):
    duckdb = pytest.importorskip("duckdb", reason="make setup installs it")
    extensions = pytest.importorskip("duckdb_extensions")
    duckdb.sql(f"SET extension_directory = '{tmp_path / 'duckdb'}'")
    for name in ("httpfs", "delta", "aws"):
        extensions.import_extension(name)
    s3 = dict(store.options)
    if keys == "of the environment":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.pop("access_key"))
        secret = Path(s3.pop("secret_key_file")).read_text("utf-8").strip()
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    options = S3Options.model_validate(s3).storage_options()
    address = f"s3://lake/readers-{uuid4().hex}"
    rows = pa.table({"id": [1, 2, 3]})
    write_deltalake(f"{address}/shop/dbo/orders", rows, storage_options=options)
    shared = {name: LEAST[name] for name in ("kafka", "registry", "prefix")}
    config = {**shared, "sink": {"lake": address, "s3": s3}}
    (tmp_path / "tailrace.yaml").write_text(yaml.safe_dump(config))
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```", PAGE.read_text("utf-8"))
    (sample,) = (block for block in blocks if "polars" in block)

    told: dict[str, Any] = {}
    text = sample.replace("s3://lake/shop", address)
    exec(compile(text, str(PAGE), "exec"), told)  # noqa: S102 - what users paste

    assert sorted(told["rows"]["id"].to_list()) == [1, 2, 3]
    assert told["count"] == [(3,)]


@pytest.mark.parametrize("keys", ["given", "of the environment"])
def test_a_lake_in_a_store_is_read_without_spark(
    store: SharedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: str
):
    """With the options of ``sink.s3``; the widened table through DuckDB, which gets them, too."""
    pytest.importorskip("duckdb_extensions")
    monkeypatch.setenv("HOME", str(tmp_path))
    s3 = dict(store.options)
    files = S3FileSystem(**S3Options.model_validate(s3).pyarrow())
    unpack(OLD_LAKE, tmp_path)
    name = f"lake/old-{uuid4().hex}"
    copy_files(str(tmp_path / "lake"), name, destination_filesystem=files)
    if keys == "of the environment":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.pop("access_key"))
        secret = Path(s3.pop("secret_key_file")).read_text("utf-8").strip()
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)

    cut = lake.open(f"s3a://{name}", **s3).as_of("latest")

    assert sorted(cut.read("dbo.lines")["line"].to_pylist()) == ["one", "two"]
    titles = cut.sql("SELECT title FROM dbo.keyed WHERE id IN (1, 10) ORDER BY id").fetchall()
    assert titles == [("renamed",), ("ten",)]
    with pytest.raises(StoreUnusable, match="has no bucket nowhere"):
        lake.open("s3://nowhere/lake", **s3).as_of("latest")
    with pytest.raises(CutUnknown, match="is not a lake"):
        lake.open(f"s3://{name}/none", **s3).as_of("latest")
