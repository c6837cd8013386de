"""When a JVM that starts is told of an archive of classes, and what is on its class path then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tailrace_sink.spark.class_archive import (
    CLASS_PATH,
    JAVA_OPTIONS,
    archive_in,
    archive_of,
    start_settings,
)


@pytest.fixture
def jars(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "a folder"
    folder.mkdir()
    return [folder / "b.jar", folder / "a.jar"]


def made(jars: list[Path]) -> Path:
    archive = archive_of(jars)
    assert archive is not None
    archive.touch()
    return archive


def test_without_an_archive_nothing_is_said(jars: list[Path]):
    assert start_settings(jars, {}) == {}
    assert archive_of([]) is None
    assert start_settings([], {}) == {}
    assert archive_in("-Xss4m -Dsays='-XX:SharedArchiveFile=/no.jsa'") is None


def test_with_one_the_class_path_says_every_jar_in_the_same_order(jars: list[Path]):
    archive = made(jars)
    settings = start_settings(jars, {JAVA_OPTIONS: "-Xss4m"})
    # Spark splits its options as a shell does.
    assert settings[JAVA_OPTIONS].startswith(f'"-XX:SharedArchiveFile={archive}" ')
    assert settings[JAVA_OPTIONS].endswith(" -Xss4m")
    assert archive_in(settings[JAVA_OPTIONS]) == str(archive)
    names = [Path(entry).name for entry in settings[CLASS_PATH].split(os.pathsep)]
    assert names[0].startswith("slf4j-api-")
    assert names[1:-2] == sorted(names[1:-2])
    assert any(name.startswith("spark-core_") for name in names)
    assert names[-2:] == ["b.jar", "a.jar"]


@pytest.mark.parametrize(
    "theirs",
    [
        {CLASS_PATH: "/their/store.jar"},
        {JAVA_OPTIONS: "-XX:SharedArchiveFile=/their.jsa"},
        {JAVA_OPTIONS: '-Dopen="quote -XX:SharedArchiveFile=/their.jsa'},
    ],
    ids=["class path", "archive", "what Spark refuses"],
)
def test_what_somebody_set_stays(jars: list[Path], theirs: dict[str, str]):
    made(jars)
    assert start_settings(jars, theirs) == {}
