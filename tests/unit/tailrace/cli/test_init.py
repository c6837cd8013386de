"""tailrace init writes what it was told, when that is usable."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tailrace.cli.root import cli
from tailrace.settings.load import load

ANSWERS = {
    "SQL Server": "sql1.example.com,1444",
    "Database": "Shop",
    "Login": "",
    "password": "/run/secrets/tailrace",
    "certificate": "n",
    "Kafka": "k1:9092,k2:9092",
    "registry": "http://registry:8081",
    "topic names": "shop",
    "Lake": "/lake",
}


def ask(file: Path, **answers: str) -> Result:
    lines = "\n".join((ANSWERS | answers).values())
    return CliRunner().invoke(cli, ["init", str(file)], input=f"{lines}\n")


def test_the_answers_are_the_options(tmp_path: Path):
    file = tmp_path / "tailrace.yaml"
    done = ask(file)
    assert done.exit_code == 0, done.output

    settings = load(file, {})
    source = settings.publisher().source
    assert (source.host, source.port, source.database, source.user) == (
        "sql1.example.com",
        1444,
        "Shop",
        "tailrace",
    )
    assert (source.trust_server_certificate, str(source.password_file)) == (
        False,
        "/run/secrets/tailrace",
    )
    assert (settings.sink().lake, settings.sink().prefix) == ("/lake", "shop")
    assert (settings.publisher().metrics_port, settings.sink().metrics_port) == (9404, 9405)
    assert f"tailrace doctor --config {file}" in done.output


def test_without_a_lake_there_is_no_sink(tmp_path: Path):
    file = tmp_path / "tailrace.yaml"
    assert ask(file, Lake="").exit_code == 0
    assert not load(file, {}).has_sink


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"registry": "registry:8081"}, "publisher.registry.url"),
        ({"topic names": "my..shop"}, "prefix"),
        ({"SQL Server": "sql1,port"}, "publisher.source.port"),
    ],
)
def test_what_is_not_usable_is_named_and_nothing_is_written(
    answer: dict[str, str], words: str, tmp_path: Path
):
    file = tmp_path / "tailrace.yaml"
    done = ask(file, **answer)
    assert (done.exit_code, words in done.output, file.exists()) == (2, True, False), done.output


def test_nothing_is_overwritten(tmp_path: Path):
    file = tmp_path / "tailrace.yaml"
    file.write_text("mine")
    done = ask(file)
    assert (done.exit_code, "exists already" in done.output, file.read_text()) == (
        1,
        True,
        "mine",
    )
    assert ask(tmp_path / "nowhere" / "tailrace.yaml").exit_code == 1
