"""docs/genuine/facts.sql runs from its first to its last line; its harmless part from a command."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from tailrace.cli.root import cli
from tailrace.facts.script import batches, questions
from tailrace.testing import EmulatedSqlServer

LOGIN = "tailrace"
PASSWORD = "Facts-of-a-test-1"
SECONDS = "SELECT 90 AS load_s, 390 AS quiet_s, 60 AS marks_s"
CHANGING = re.compile(
    r"\b(INSERT|UPDATE|DELETE|MERGE|TRUNCATE|CREATE|ALTER|DROP|GRANT|REVOKE|DENY|INTO|WAITFOR"
    r"|sp_cdc_\w+|DBCC|SET)\b",
    re.IGNORECASE,
)
MAY_BE_REFUSED = {"T5", "T6", "T8", "T13", "T14", "T20", "T24", "T27"}
"""Rights on the server, masks, READPAST, numbers of refusals, and a view of Azure SQL Database."""


@pytest.fixture(scope="module")
def server():
    with EmulatedSqlServer() as started:
        yield started


def test_every_question_has_a_number_of_its_own_and_outcomes():
    asked = list(questions())

    assert [question.fact for question in asked] == [f"T{n}" for n in range(len(asked))]
    assert [question.fact for question in asked if not question.outcomes] == []


def test_a_read_only_question_changes_nothing():
    wrong = {}
    for question in questions():
        text = re.sub(r"(?m)--.*$|N?'[^']*'", "", question.batch.replace("EXEC (N'", "EXEC ("))
        if question.is_read_only and (found := CHANGING.findall(text)):
            wrong[question.fact] = found
    assert wrong == {}


def test_a_session_is_compared_by_its_last_commit_that_is_captured():
    (question,) = [q for q in questions() if q.fact == "T16"]

    # Other commits have no entry in cdc.lsn_time_mapping, so they are above its newest for ever.
    assert "@done = LEFT(last_commit_cdc_lsn, 22)" in question.batch


@pytest.mark.slow("the script waits for the capture job after each of its changes")
def test_the_whole_script_asks_every_question_and_leaves_nothing(server):
    answered: set[str] = set()
    refused: set[str] = set()
    with closing(server.connect()) as connection:
        for batch in batches():
            cursor = connection.execute(
                batch.replace(SECONDS, "SELECT 2 AS load_s, 2 AS quiet_s, 2 AS marks_s")
            )
            while True:
                for row in cursor.fetchall() if cursor.description else ():
                    answered.add(row[0])
                    if cursor.description[1][0] == "refused":
                        refused.add(row[0])
                if not cursor.nextset():
                    break
        left = connection.execute(
            "SELECT COUNT(*) FROM sys.databases WHERE name LIKE '%facts%'"
        ).fetchval()
        login = connection.execute("SELECT SUSER_ID(N'tailrace_least')").fetchval()

    # T23 is about the types of SQL Server 2025, which the embedded server has not.
    assert answered == {question.fact for question in questions()} - {"T23"} | {"END"}
    assert {"T20", "T24"} <= refused <= MAY_BE_REFUSED
    assert (left, login) == (0, None)


def test_the_command_prints_the_answers_of_a_login_with_few_rights(server, tmp_path: Path):
    server.create_database("shop", "CREATE TABLE dbo.secret_orders (id int PRIMARY KEY)")
    server.enable_cdc("shop", "secret_orders")
    server.execute("shop", f"CREATE LOGIN {LOGIN} WITH PASSWORD = N'{PASSWORD}'")
    server.execute("shop", f"CREATE USER {LOGIN} FOR LOGIN {LOGIN}")
    source = {
        "host": server.host,
        "port": server.port,
        "database": "shop",
        "user": LOGIN,
        "password": PASSWORD,
        "trust_server_certificate": True,
    }
    config = tmp_path / "tailrace.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "publisher": {
                    "source": source,
                    "kafka": {"bootstrap": "127.0.0.1:1"},
                    "registry": {"url": "http://127.0.0.1:1"},
                    "prefix": "facts",
                }
            }
        )
    )

    done = CliRunner().invoke(cli, ["facts", "--config", str(config)])

    assert done.exit_code == 0, done.output
    facts = set(re.findall(r"(?m)^(T\d+)\|", done.output))
    assert facts == {question.fact for question in questions() if question.is_read_only}
    assert re.search(r"(?m)^fact\|version\|product\|engine\|hadr\n-", done.output)
    assert re.search(r"(?m)^T2\|(229|916)\|", done.output)
    assert "secret_orders" not in done.output
    assert PASSWORD not in done.output
