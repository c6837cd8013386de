"""tailrace plan beside a server; no broker and no registry answers."""

from __future__ import annotations

import json
import uuid
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyodbc
import pytest
from click.testing import CliRunner

from emulator.tests.fix_sqlserver import SourceServer
from tailrace.cli.root import cli
from tailrace.doctor.findings import Finding, Level, Part
from tailrace.doctor.run import examine
from tailrace.settings.settings import Settings
from tests.pipeline.commands import invoke
from tests.pipeline.conftest import Pipe, Topics
from tests.pipeline.source_database import SourceDatabase


@pytest.fixture
def newcomer(source_server: SourceServer, tmp_path: Path) -> Pipe:
    """A pipe without Kafka, whose login was given only what tailrace grants gives."""
    source = SourceDatabase(source_server, f"db_{uuid.uuid4().hex[:8]}")
    source.execute(
        "CREATE TABLE dbo.orders (id int, line int, note nvarchar(20), PRIMARY KEY (id, line))",
        "INSERT dbo.orders SELECT value, 1, N'x' FROM GENERATE_SERIES(1, 4000)",
        "CREATE TABLE dbo.heap (a int)",
        "CREATE TABLE dbo.later (id int PRIMARY KEY)",
        "CREATE TABLE dbo.drafts (id int PRIMARY KEY)",
    )
    source.enable("orders")
    source.enable("heap")
    pipe = Pipe(source, Topics("127.0.0.1:1", "http://127.0.0.1:1", "shop"))
    user = f"newcomer_{source.name}"
    pipe.further["source"] = {
        **pipe.options()["source"],
        "user": user,
        "password": "Least-privilege-1",
    }
    printed = invoke(pipe, tmp_path, "grants")
    assert (printed.exit_code, "Not compared with the database" in printed.output) == (0, True)
    with source_server.connect("master") as connection:
        connection.execute(printed.output.replace("<password>", "Least-privilege-1"))
    return pipe


def planned(pipe: Pipe, folder: Path, *, status: int = 0, **further: Any) -> dict[str, Any]:
    answer = invoke(pipe, folder, "plan", "--json", **further)
    assert answer.exit_code == status, answer.output
    found: dict[str, Any] = json.loads(answer.output)
    return found


def test_what_a_start_publishes_is_known_before_it(newcomer: Pipe, tmp_path: Path):
    newcomer.source.execute("CREATE SCHEMA closed")
    user = newcomer.options()["source"]["user"]
    newcomer.source.execute(
        f"GRANT SELECT ON dbo.later TO [{user}]",
        f"GRANT SELECT ON dbo.drafts TO [{user}]",
        "CREATE TABLE closed.salaries (id int PRIMARY KEY)",
        "EXEC sys.sp_cdc_enable_table N'closed', N'salaries', @role_name = NULL",
    )
    rules = {r"dbo\.heap": {"partitions": 7}}
    kafka = {"bootstrap": "127.0.0.1:1", "partitions": 3, "topic_rules": rules}
    options: dict[str, Any] = {"tables": {"exclude": [r"dbo\.dra.*"]}, "kafka": kafka}

    found = planned(newcomer, tmp_path, **options)

    heap, orders = found["tables"]
    database = newcomer.source.name
    assert (orders["table"], orders["key"]) == ("dbo.orders", ["id", "line"])
    assert orders["topic"] == f"shop.{database}.dbo.orders"
    assert orders["capture_instances"] == ["dbo_orders"]
    assert (orders["partitions"], heap["partitions"]) == (3, 7)
    assert (orders["rows"], heap["rows"]) == (4000, 0)
    assert orders["bytes"] > 0
    assert orders["snapshot_s"] == found["snapshot_s"] > 0
    assert orders["notes"] == found["problems"] == []
    assert heap["key"] == []
    assert "lake table is a list of changes" in heap["notes"][0]
    reasons = {left["table"]: left["reason"] for left in found["left_out"]}
    assert reasons == {
        "dbo.drafts": "tables.exclude matches it",
        "dbo.later": "not captured. Fix: tailrace enable",
        "capture instance closed_salaries": f"login newcomer_{database} may not see its table."
        " Fix: tailrace grants",
    }
    text = invoke(newcomer, tmp_path, "plan", **options).output
    assert f"dbo.orders -> shop.{database}.dbo.orders (3 partitions)\n    key: id, line\n" in text
    assert "    rows: 4,000, size: " in text
    assert "Left out (1), tables.exclude matches it: dbo.drafts" in text

    unread = planned(newcomer, tmp_path, **options, snapshot={"mode": "no_data"})
    assert unread["snapshot_s"] == 0


def test_what_grants_prints_unseen_is_enough_for_the_doctor_and_opens_no_other_table(
    newcomer: Pipe, tmp_path: Path
):
    kafka = {"bootstrap": "127.0.0.1:1", "start_timeout_s": 1}
    settings = Settings(newcomer.options(kafka=kafka), {})

    def wrong() -> dict[str, Finding]:
        """Of the source; the brokers, which are looked at after it, do not answer."""
        told = takewhile(lambda finding: finding.part is not Part.KAFKA, examine(settings))
        return {f.subject: f for f in told if f.level is not Level.OK and f.part is not Part.CLOCKS}

    enough = {"snapshot isolation", "dbo.heap"}  # which has no key
    assert wrong().keys() == enough
    user = newcomer.options()["source"]["user"]
    newcomer.source.execute(
        f"REVOKE SELECT ON dbo.orders TO [{user}]", f"GRANT VIEW DEFINITION TO [{user}]"
    )
    fix = wrong()[user].fix
    assert fix is not None
    assert fix.text == f"GRANT SELECT ON [dbo].[orders] TO [{user}]"
    newcomer.source.execute(fix.text, f"REVOKE VIEW DEFINITION TO [{user}]")
    assert wrong().keys() == enough
    server, source = newcomer.source.server, newcomer.options()["source"]
    connection = server.connect(newcomer.source.name, UID=source["user"], PWD=source["password"])
    with pytest.raises(pyodbc.Error, match="permission was denied"):
        connection.execute("SELECT * FROM dbo.later")
    connection.close()


def test_what_a_start_refuses_is_in_the_plan(newcomer: Pipe, tmp_path: Path):
    options: dict[str, Any] = {
        "tables": {"include": [r"dbo\.orders", r"dbo\.later", r"dbo\.heap"]},
        "message_keys": {"dbo.orders": ["nosuch"]},
    }
    found = planned(newcomer, tmp_path, status=1, **options)
    key, later = sorted(found["problems"])
    assert key.startswith("message_keys.dbo.orders: column nosuch is not captured")
    assert "table dbo.later (tables.include) does not exist" in later
    assert "the login's permissions" in later

    newcomer.source.execute("EXEC sys.sp_cdc_disable_db")
    answer = invoke(newcomer, tmp_path, "plan")
    assert (answer.exit_code, "Fix: EXEC sys.sp_cdc_enable_db" in answer.output) == (1, True)


def test_init_tries_the_login_and_names_what_refuses_it(newcomer: Pipe, tmp_path: Path):
    server, secret = newcomer.source.server, tmp_path / "secret"
    source = newcomer.options()["source"]

    def said(password: str) -> str:
        secret.write_text(password)
        answers = {
            "host": f"{server.host},{server.port}",
            "database": newcomer.source.name,
            "user": source["user"],
            "password-file": str(secret),
            "bootstrap": "127.0.0.1:1",
            "registry": "http://127.0.0.1:1",
            "prefix": "shop",
            "lake": "",
        }
        words = [word for name, text in answers.items() for word in (f"--{name}", text)]
        file = tmp_path / f"{password}.yaml"
        done = CliRunner().invoke(cli, ["init", str(file), "--trust", *words])
        assert (done.exit_code, file.exists()) == (0, True), done.output
        return done.output

    assert f"{source['user']} logged in to {newcomer.source.name}" in said(source["password"])
    wrong = said("not-it")
    assert "Login failed" in wrong
    assert "not-it" not in wrong.replace("not-it.yaml", "")


def test_sql_asks_any_configured_source_as_its_login(newcomer: Pipe, tmp_path: Path):
    done = invoke(newcomer, tmp_path, "sql", "SELECT SUSER_SNAME() AS who, DB_NAME() AS place")
    assert done.exit_code == 0, done.output
    source = newcomer.options()["source"]
    assert source["user"] in done.output
    assert newcomer.source.name in done.output
    refused = invoke(newcomer, tmp_path, "sql", "SELECT * FROM dbo.later")
    assert (refused.exit_code, "permission was denied" in refused.output) == (1, True)
    away = invoke(newcomer, tmp_path, "sql", "SELECT 1", source={**source, "port": 1})
    assert (away.exit_code, "refuses connections" in away.output) == (1, True), away.output
