"""The command line: help by section, one default file, one sentence for a file that is no use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tailrace.cli.root import SECTIONS, cli

# A terminal of 80 columns shows a command and its summary on one line.
SUMMARY_MAX, OPTION_MAX = 52, 80
LISTED = {name: command for name, command in cli.commands.items() if not command.hidden}
COMPLETE = """
prefix: air
kafka: {bootstrap: "127.0.0.1:1"}
registry: {url: "http://127.0.0.1:1"}
publisher: {source: {host: db, database: Airline, user: sa, password: x}, page_rows: 0}
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments])


def test_the_help_lists_every_command_once_under_its_section():
    lines = run("--help").output.splitlines()
    assert [line[:-1] for line in lines if line.endswith(":")] == ["Options", *SECTIONS]
    listed = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    commands = [c.name for section in SECTIONS.values() for c in section]
    assert [name for name in listed if name in cli.commands] == commands
    assert sorted(map(str, commands)) == sorted(LISTED)
    assert max(map(len, lines)) < 80


def test_a_command_that_left_is_accepted_with_a_warning():
    done = run("archive-classes")
    assert (done.exit_code, "is deprecated" in done.output) == (0, True)


@pytest.mark.parametrize("command", LISTED.values(), ids=lambda command: command.name)
def test_a_summary_fits_its_line_and_an_option_says_one_thing(command: click.Command):
    assert len(command.get_short_help_str(1000)) <= SUMMARY_MAX
    texts = [p.help or "" for p in command.params if isinstance(p, click.Option)]
    assert [text for text in texts if not text or len(text) > OPTION_MAX] == []


def test_the_help_loads_nothing_that_only_commands_need():
    heavy = {
        "yaml",
        "pydantic",
        "structlog",
        "rich",
        "confluent_kafka",
        "httpx",
        "tailrace_schemas",
    }
    code = f"import sys, tailrace.cli.root; print(sorted({heavy} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_command_reads_the_file_of_its_folder_that_init_writes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tailrace.yaml").write_text(COMPLETE)
    Path("other.yaml").write_text(COMPLETE.replace("page_rows: 0", "page_rows: -1"))
    assert "publisher.page_rows = 0" in run("audit").output
    assert "publisher.page_rows = -1" in run("audit", "--config", "other.yaml").output


def test_without_a_file_the_answer_is_to_write_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = run("doctor")
    assert (answer.exit_code, answer.output.count("\n")) == (2, 1)
    assert "no tailrace.yaml in this folder. Fix: write one with tailrace init" in answer.output


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "does not exist. Fix: tailrace init "),
        (b"publisher: {", "is not YAML: "),
        (b"- 1", "is not a mapping. Fix: "),
        (b"prefix: \xff", "is not text in UTF-8. Fix: "),
        (b"publisher: [1]", "publisher is not a mapping. Fix: "),
        (b"publisher:\n", "publisher.source is missing in "),
        (b"kafka: {x: 1}\npublisher: {kafka: 5, source: {}}", "publisher.kafka"),
    ],
)
def test_a_bad_file_is_a_sentence_and_no_traceback(content: bytes | None, said: str, tmp_path):
    file = tmp_path / "wrong.yaml"
    if content is not None:
        file.write_bytes(content)
    answer = run("status", "--config", str(file))
    assert (answer.exit_code, said in answer.output) == (2, True), answer.output


def test_a_flag_may_fill_a_section_that_the_file_leaves_empty(tmp_path):
    file = tmp_path / "tailrace.yaml"
    file.write_text("publisher:\n")
    answer = run("audit", "--config", str(file), "--set", "publisher.source.host=db")
    assert "publisher.source.database" in answer.output


def test_wrong_usage_is_reported_before_the_configuration():
    assert "Missing argument 'SCHEMA.TABLE...'" in run("snapshot").output
    assert "Give one of KEY, --lsn and --time" in run("explain", "dbo.orders").output


def test_an_unknown_command_names_the_near_one():
    assert "Did you mean 'status'" in run("statsu").output


def test_sql_without_a_stack_is_refused_in_one_sentence(tmp_path: Path):
    done = run("sql", "--data-dir", str(tmp_path), "SELECT 1")
    assert done.exit_code == 1
    assert "No stack was started" in done.output
    assert "Fix: run tailrace up" in done.output
