"""The options of an Iceberg catalog, and what the summary of a snapshot says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tailrace_sink.errors import ConfigError
from tailrace_sink.iceberg.names import TableId
from tailrace_sink.iceberg.stamp import Stamp
from tailrace_sink.options.iceberg_options import Commits, IcebergOptions

REST: dict[str, Any] = {"uri": "https://catalog:8181/api", "warehouse": "lake"}


def test_spark_gets_the_catalog_with_its_credential(tmp_path: Path):
    file = tmp_path / "credential"
    file.write_text("client:hidden\n")
    options = IcebergOptions.load(
        REST | {"credential_file": file, "name": "shop", "properties": {"prefix": "p"}}
    )

    settings = options.catalog_settings()

    assert settings["spark.sql.catalog.shop"].endswith(".SparkCatalog")
    own = {n.removeprefix("spark.sql.catalog.shop."): text for n, text in settings.items()}
    assert (
        own.items()
        >= {
            "type": "rest",
            "uri": "https://catalog:8181/api",
            "warehouse": "lake",
            "credential": "client:hidden",
            "cache-enabled": "false",
            "prefix": "p",
        }.items()
    )
    assert options.commits is Commits.ALL_TABLES


def test_a_catalog_of_files_needs_no_address():
    settings = IcebergOptions.load({"warehouse": "/data/lake"}).catalog_settings()

    assert settings["spark.sql.catalog.tailrace.type"] == "hadoop"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"token": "t", "credential": "c"}, "give credential or token, not both"),
        ({"token": "t", "token_file": "/t"}, "give token or token_file, not both"),
        ({"uri": None, "token": "t"}, "token needs uri"),
        ({"uri": "http://me:pw@host"}, "uri has a login in it"),
        ({"uri": "catalog:8181"}, "iceberg.uri"),
        ({"name": "a b"}, "iceberg.name"),
        ({"commits": "some"}, "iceberg.commits"),
        ({"properties": {"credential": "hidden"}}, "give credential as an option of its own"),
        ({"credentials": "hidden"}, "did you mean credential?"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, Any], problem: str):
    with pytest.raises(ConfigError) as refused:
        IcebergOptions.load(REST | given)

    assert problem in str(refused.value)
    assert "hidden" not in str(refused.value)
    assert "pw@" not in str(refused.value)


def test_secrets_are_in_no_text(tmp_path: Path):
    assert "hidden" not in repr(IcebergOptions.load(REST | {"credential": "a:hidden"}))
    missing = tmp_path / "missing"
    with pytest.raises(ConfigError, match=f"iceberg.token_file {missing}"):
        IcebergOptions.load(REST | {"token_file": missing}).catalog_settings()


@pytest.mark.parametrize(
    "stamp", [Stamp("log", 3), Stamp("log", 3, 17, "0000:01"), Stamp("l", 1, -1)]
)
def test_a_stamp_is_read_back(stamp: Stamp):
    assert Stamp.of({"added-records": "1", **stamp.summary}) == stamp


@pytest.mark.parametrize(
    "summary",
    [
        {},
        {"tailrace.log": "log"},
        {"tailrace.log": "log", "tailrace.epoch": "x"},
        {"tailrace.log": "log", "tailrace.epoch": "1", "tailrace.batch": "x"},
    ],
)
def test_a_snapshot_of_somebody_else_has_no_stamp(summary: dict[str, str]):
    assert Stamp.of(summary) is None


def test_names_are_quoted():
    name = TableId(("shop_dbo",), "a`b")

    assert str(name) == "shop_dbo.a`b"
    assert name.sql("lake") == "`lake`.`shop_dbo`.`a``b`"
    assert name.staged_sql("lake") == "`lake`.`shop_dbo`.`a``b`.`branch_tailrace`"
