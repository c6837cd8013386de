"""The sink's options: all problems at once, each with its fix."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import ConfigError
from tailrace_sink.options.config import SinkConfig

MINIMAL: dict[str, Any] = {
    "kafka": {"bootstrap": "localhost:9092"},
    "registry": {"url": "http://localhost:8081"},
    "prefix": "shop",
    "lake": "/data/lake/",
}
CATALOG: Final = {"uri": "http://catalog:8181", "warehouse": "shop"}


def problems(**options: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as raised:
        SinkConfig.load({**MINIMAL, **options})
    return raised.value.problems


def test_the_least_configuration():
    config = SinkConfig.load(MINIMAL)

    assert config.lake == "/data/lake"
    assert config.commits_path == "/data/lake/_tailrace/commits"
    assert config.progress_checkpoint == "/data/lake/_tailrace/checkpoint"
    assert config.tables.selects(TableName("shop", "dbo", "orders"))
    assert not config.changelog.selects(TableName("shop", "dbo", "orders"))


def test_all_problems_are_told_together():
    found = problems(merge_pool=0, prefix="a..b", formats="delta")

    assert len(found) == 3
    assert any(p.startswith("merge_pool = 0: ") for p in found)
    assert any(p.startswith("prefix = 'a..b': topic prefix") for p in found)
    assert "formats is not an option: did you mean format?" in found


def test_a_missing_option_is_named():
    with pytest.raises(ConfigError, match="lake is missing: set it"):
        SinkConfig.load({k: v for k, v in MINIMAL.items() if k != "lake"})


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"format": "iceberg"}, "needs the section iceberg, with uri and warehouse"),
        ({"format": "parquet"}, "delta"),
        ({"iceberg": CATALOG}, "needs format: iceberg"),
        (
            {
                "format": "iceberg",
                "iceberg": CATALOG,
                "into": {"dbo.a": "dbo.b"},
                "catalog": {"kind": "spark"},
            },
            "options: catalog: not available with format: iceberg; remove it",
        ),
        (
            {
                "format": "iceberg",
                "iceberg": CATALOG,
                "profile": "compatible",
                "rewrite_below_bytes": 0,
                "table_properties": {"delta.x": "1", "write.parquet.compression-codec": "zstd"},
            },
            "profile, rewrite_below_bytes, table_properties delta.x: not available",
        ),
        (
            {"format": "iceberg", "iceberg": {**CATALOG, "data": "s3://lake/data"}},
            "tables in S3 need a lake in S3",
        ),
        ({"lake": "main.sales"}, "absolute path or a URI"),
        ({"lake": "/a`b"}, "backtick"),
        ({"kafka": {"bootstrap": "h:1", "extra": {"isolation.level": "x"}}}, "exact cuts"),
        ({"tables": {"include": ["("]}}, "not a regular expression"),
        (
            {"cluster_by": {"dbo.a": ["x"]}, "partition_by": {"dbo.a": ["y"]}},
            "partition_by or cluster_by",
        ),
    ],
)
def test_refusals_name_the_fix(options: dict[str, Any], match: str):
    assert any(match in problem for problem in problems(**options))


def test_kinds_of_a_table_by_pattern():
    config = SinkConfig.load(
        {
            **MINIMAL,
            "kinds": {r"dbo\.ord.*": ["mirror", "history"], r"dbo\..*": ["mirror", "changelog"]},
            "changelog": {"include": [r"x\.old"]},
        }
    )
    found = {
        name: sorted(config.kinds_of(TableName("shop", *name.split("."))))
        for name in ("dbo.orders", "dbo.other", "x.old", "x.new")
    }

    assert found == {
        "dbo.orders": ["history", "mirror"],
        "dbo.other": ["changelog", "mirror"],
        "x.old": ["changelog", "mirror"],
        "x.new": ["mirror"],
    }
    assert any("add mirror" in problem for problem in problems(kinds={".*": ["history"]}))


def test_secrets_never_print():
    extra = {"sasl.jaas.config": "password=hunter2", "group.id": "x"}
    found = problems(kafka={"bootstrap": "h:1", "extra": extra})
    fine = SinkConfig.load(
        {**MINIMAL, "kafka": {"bootstrap": "h:1", "extra": {"sasl.jaas.config": "hunter2"}}}
    )

    assert "hunter2" not in " ".join(found)
    assert "hunter2" not in repr(fine)


def test_table_selection():
    config = SinkConfig.load(
        {**MINIMAL, "tables": {"include": [r"dbo\..*"], "exclude": [r"dbo\.audit"]}}
    )

    assert config.tables.selects(TableName("shop", "DBO", "orders"))
    assert not config.tables.selects(TableName("shop", "dbo", "audit"))
    assert not config.tables.selects(TableName("shop", "hr", "orders"))
