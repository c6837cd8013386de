"""What the user got wrong is told by name, with what to do about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from emulator.tests.fix_emulator import EmulatorProcess
from tailrace_publisher.errors import (
    DatabaseUnknown,
    EncryptionRefused,
    LoginRefused,
    PositionExpired,
    PreflightError,
)
from tests.pipeline.commands import invoke
from tests.pipeline.conftest import Pipe, Topics
from tests.pipeline.running import Running
from tests.pipeline.source_database import SourceDatabase

pytestmark = pytest.mark.kafka


def with_source(pipe: Pipe, **changed: object) -> dict[str, object]:
    return {"source": pipe.options()["source"] | changed}


def test_wrong_password(pipe: Pipe):
    with Running(pipe.config(**with_source(pipe, password="Wr0ng-password"))) as publisher:
        error = publisher.ended()

    assert isinstance(error, LoginRefused)
    assert error.number == 18456
    assert "login sa was refused: check source.user and source.password" in str(error)
    assert "Wr0ng-password" not in str(error) + str(publisher.events)


def test_unknown_database(pipe: Pipe):
    with Running(pipe.config(**with_source(pipe, database="Nowhere"))) as publisher:
        error = publisher.ended()

    assert isinstance(error, DatabaseUnknown)
    assert "database Nowhere" in str(error)
    assert "source.database" in str(error)


def test_a_certificate_that_nobody_vouches_for(pipe: Pipe):
    with Running(pipe.config(**with_source(pipe, trust_server_certificate=False))) as publisher:
        error = publisher.ended()

    assert isinstance(error, EncryptionRefused)
    assert "source.trust_server_certificate" in str(error)


def test_cdc_not_enabled(module_emulator: EmulatorProcess, kafka: str, registry: str):
    source = SourceDatabase(module_emulator, "no_cdc", cdc=False)
    pipe = Pipe(source, Topics(kafka, registry, "nocdc"))

    with Running(pipe.config()) as publisher:
        error = publisher.ended()

    assert isinstance(error, PreflightError)
    assert "sys.sp_cdc_enable_db" in str(error)


def test_every_problem_with_the_tables_is_told_at_once(pipe: Pipe):
    source = pipe.source
    source.execute(
        "CREATE TABLE dbo.captured (id int PRIMARY KEY)",
        "CREATE TABLE dbo.forgotten (id int PRIMARY KEY)",
    )
    source.enable("captured")
    config = pipe.config(
        tables={"include": [r"dbo\.captured", r"dbo\.forgotten", r"dbo\.misspelt"]},
        message_keys={"dbo.captured": ["idd"], "dbo.nothing": ["id"]},
    )

    with Running(config) as publisher:
        error = publisher.ended()

    assert isinstance(error, PreflightError)
    assert len(error.problems) == 4
    told = "\n".join(error.problems)
    assert "dbo.forgotten is not captured: run EXEC sys.sp_cdc_enable_table" in told
    assert "dbo.misspelt (tables.include) does not exist" in told
    assert "column idd is not captured" in told
    assert "table dbo.nothing is not published" in told


def test_no_captured_table_at_all(pipe: Pipe):
    with Running(pipe.config()) as publisher:
        error = publisher.ended()

    assert isinstance(error, PreflightError)
    assert "no table of database" in str(error)


def test_a_checkpoint_older_than_the_change_table(pipe: Pipe):
    source = pipe.source
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    source.enable("t")
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
    # Cleanup keeps the commits that share the low watermark's time, so they must not share it.
    source.execute(
        "INSERT dbo.t VALUES (1)", "WAITFOR DELAY '00:00:00.050'", "INSERT dbo.t VALUES (2)"
    )
    source.scan()
    newest = source.max_lsn()
    source.connection.execute(
        "EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'dbo_t',"
        " @low_water_mark = ?, @threshold = 5000",
        newest.to_bytes(),
    )
    assert len(source.positions("dbo_t")) == 1

    with Running(pipe.config()) as publisher:
        error = publisher.ended()

    assert isinstance(error, PositionExpired)
    assert error.instance == "dbo_t"
    assert error.minimum == newest
    assert error.requested < newest
    assert "new snapshot" in str(error)
    assert not pipe.topics.positions(source.name, "t"), "nothing behind the gap was published"


def test_a_gone_table_does_not_stop_the_others(pipe: Pipe, tmp_path: Path):
    source = pipe.source
    for table in ("stays", "goes"):
        source.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY)")
        source.enable(table)

    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
        source.execute("DROP TABLE dbo.goes", "INSERT dbo.stays VALUES (1)")
        publisher.until(lambda: pipe.is_caught_up(gone=("goes",)), "the change is out")
        publisher.until(lambda: bool(publisher.told("table_stopped")), "it is told")

    assert publisher.told("table_stopped")[0]["table"].endswith("dbo.goes")
    pipe.assert_exactly_once("stays")
    notes = not_in_cut(pipe, tmp_path)
    assert [*notes] == ["dbo.goes"]
    assert "DROP TABLE" in notes["dbo.goes"]["told"]
    assert not_in_cut(pipe, tmp_path, tables={"exclude": [r"dbo\.goes"]}) == {}


def not_in_cut(pipe: Pipe, folder: Path, **further: Any) -> dict[str, Any]:
    """What ``tailrace status`` says of tables that are not part of the cut."""
    answer = invoke(pipe, folder, "status", "--json", **further)
    assert answer.exit_code == 0, answer.output
    return dict(json.loads(answer.output)["not_in_cut"])
