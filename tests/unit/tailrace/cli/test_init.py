"""tailrace init writes what it was told, when that is usable."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tailrace.cli.root import cli
from tailrace.settings.load import load

ANSWERS = {
    "SQL Server": "127.0.0.1,1",
    "Database": "Shop",
    "Login": "",
    "password": "/run/secrets/tailrace",
    "certificate": "n",
    "Kafka": "127.0.0.1:1,127.0.0.1:2",
    "registry": "http://127.0.0.1:1",
    "topic names": "shop",
    "Lake": "/lake",
}


def ask(file: Path, *first: str, **answers: str) -> Result:
    lines = "\n".join([*first, *(ANSWERS | answers).values()])
    return CliRunner().invoke(cli, ["init", str(file)], input=f"{lines}\n")


def test_the_answers_are_the_options(tmp_path: Path):
    file = tmp_path / "tailrace.yaml"
    done = ask(file)
    assert done.exit_code == 0, done.output

    settings = load(file, {})
    source = settings.publisher().source
    assert (source.host, source.port, source.database, source.user) == (
        "127.0.0.1",
        1,
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
        ({"registry": "registry:8081"}, "not usable: registry.url"),
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


def test_each_connection_is_tried_as_it_is_given_and_what_fails_stops_nothing(tmp_path: Path):
    file = tmp_path / "tailrace.yaml"
    done = ask(file)
    assert (done.exit_code, file.exists()) == (0, True), done.output
    told = (
        "certificate",
        "password_file /run/secrets/tailrace: ",
        "127.0.0.1:2: does",
        "http://127.0.0.1:1: ",
    )
    order = [done.output.index(text) for text in told]
    assert order == sorted(order), done.output
    assert done.output.count("fix: ") == 3


def test_a_file_is_overwritten_only_after_a_yes_and_by_what_is_usable(tmp_path: Path):
    file = tmp_path / "tailrace.yaml"
    file.write_text("mine")
    for first, answers, code in (("n", {}, 1), ("y", {"topic names": "my..shop"}, 2)):
        done = ask(file, first, **answers)
        assert (done.exit_code, "exists already" in done.output) == (code, True), done.output
        assert ("SQL Server" in done.output) == (first == "y")
        assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]
    assert ask(file, "y").exit_code == 0
    assert load(file, {}).publisher().prefix == "shop"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path):
    done = ask(tmp_path / "nowhere" / "tailrace.yaml")
    assert (done.exit_code, "cannot be written" in done.output) == (1, True), done.output
