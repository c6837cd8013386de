"""What the doctor judges without asking anybody: names, versions, clocks, statements."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.doctor.asking import Source as Asked
from tailrace.doctor.clocks import judged
from tailrace.doctor.findings import Level
from tailrace.doctor.running import look_at_running
from tailrace.doctor.server import accelerated_recovery, judge_version
from tailrace.doctor.stores import look_at_lake
from tailrace.reading.table_names import TableNameError, parse_table
from tailrace.settings.settings import Settings
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog.capture_tsql import CaptureOptions, enable_table
from tailrace_publisher.source.log.server_kind import ServerKind
from tests.least_options import LEAST

PARTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=128)


@given(PARTS, PARTS)
def test_any_name_can_be_written_in_brackets(schema: str, table: str):
    text = ".".join(f"[{part.replace(']', ']]')}]" for part in (schema, table))
    assert parse_table(text) == (schema, table)


@pytest.mark.parametrize(
    "text", ["", "orders", "dbo.", ".orders", "a.b.c", "[dbo.orders", "dbo.[]"]
)
def test_what_is_no_table_says_how_one_is_written(text: str):
    with pytest.raises(TableNameError, match=r"write schema\.table"):
        parse_table(text)


@pytest.mark.parametrize(
    ("version", "edition", "level"),
    [
        ("16.0.4135.4", 3, Level.OK),
        ("13.0.4001.0", 2, Level.OK),
        ("13.0.1601.5", 2, Level.PROBLEM),  # Standard edition has CDC from SP1 on
        ("13.0.1601.5", 3, Level.OK),
        ("16.0.1000.6", 4, Level.PROBLEM),  # Express
        ("12.0.6024.0", 3, Level.WARNING),
        ("12.0.2000.8", 5, Level.OK),  # what Azure SQL Database says of itself
        ("12.0.2000.8", 12, Level.WARNING),  # SQL database in Fabric
    ],
)
def test_versions_and_editions(version: str, edition: int, level: Level):
    kind = ServerKind(edition, int(version.split(".", maxsplit=1)[0]))
    assert judge_version(version, "name", kind).level is level


@pytest.mark.parametrize(
    ("told", "level", "words"),
    [
        (100.0, Level.OK, ""),
        (101.5, Level.OK, ""),
        (90.0, Level.WARNING, "behind"),
        (120.0, Level.WARNING, "18 s ahead of"),
    ],
)
def test_a_clock_is_compared_with_the_moments_before_and_after(
    told: float, level: Level, words: str
):
    finding = judged("x", datetime.fromtimestamp(told, UTC), before=100.0, after=102.0)
    assert (finding.level, words in finding.text) == (level, True)


def test_names_in_statements_cannot_end_early():
    options = CaptureOptions("i'n", ["a]b", "c, d"], "r'", "f'")
    assert enable_table("s'", "t'; DROP", options) == (
        "EXEC sys.sp_cdc_enable_table @source_schema = N's''', @source_name = N't''; DROP',"
        " @role_name = N'r''', @capture_instance = N'i''n',"
        " @captured_column_list = N'[a]]b], [c, d]', @filegroup_name = N'f'''"
    )


def test_a_secret_that_cannot_be_read_is_a_problem_of_the_lake_alone():
    s3 = {"endpoint": "http://127.0.0.1:1", "access_key": "a", "secret_key_file": "/not/there"}
    shared = {name: LEAST[name] for name in ("kafka", "registry", "prefix")}
    publisher = {**shared, "source": LEAST["source"]}
    settings = Settings(publisher, {**shared, "lake": "s3://lake/x", "s3": s3})

    (finding,) = look_at_lake(settings.sink())
    assert finding.level is Level.PROBLEM
    assert "s3.secret_key_file /not/there: No such file" in finding.text
    assert list(look_at_running(settings)) == [], "what else was found is shown"


@pytest.mark.parametrize(("rows", "told"), [([(True,)], 1), ([(False,)], 0), ([], 0), (None, 0)])
def test_accelerated_recovery_is_named_where_it_is_on(
    rows: list[tuple[bool]] | None, told: int, monkeypatch: pytest.MonkeyPatch
):
    """None: the server is older than 2019, and has no such column."""
    monkeypatch.setattr(Asked, "rows", lambda *_: rows)
    source = Asked(cast(Connection, None), "a]b", "login")

    found = list(accelerated_recovery(source))

    assert len(found) == told
    assert all("[a]]b] SET ACCELERATED_DATABASE_RECOVERY = OFF" in str(f.fix) for f in found)
