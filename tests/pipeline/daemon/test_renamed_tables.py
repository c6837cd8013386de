"""A table or a database under another name is the same one."""

from __future__ import annotations

from typing import Any

import pytest

from tailrace.signals.request import ask
from tailrace_publisher.errors import PreflightError
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka


def ids(pipe: Pipe, table: str, *, snapshot: bool = False) -> list[int]:
    """Keys of a topic's events."""
    read = pipe.topics.snapshot if snapshot else pipe.topics.changes
    events = read(pipe.source.name, table)
    return sorted(event.envelope["after"]["id"] for event in events if event.envelope)


@pytest.fixture
def renamed(pipe: Pipe) -> Pipe:
    """Two published tables, of which one is renamed; with a change of each behind it."""
    source = pipe.source
    for table in ("stays", "old"):
        source.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, note nvarchar(20))")
        source.execute(f"INSERT dbo.{table} VALUES (1, N'one')")
        source.enable(table)
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshots are out")
    source.execute("EXEC sp_rename 'dbo.old', 'new'")
    source.execute("INSERT dbo.new VALUES (2, N'two')", "INSERT dbo.stays VALUES (2, N'two')")
    source.scan()
    return pipe


@pytest.mark.slow("a publisher starts twice, and waits for a rotation")
def test_a_renamed_table_goes_on_under_its_old_topic_by_option(renamed: Pipe):
    pipe = renamed
    further: dict[str, Any] = {
        "tables": {"include": [r"dbo\.stays", "dbo.old"], "on_rename": "keep_topic"},
        "message_keys": {"dbo.old": ["id"]},
    }
    for number in (3, 4):
        with Running(pipe.config(**further)) as publisher:
            publisher.until(pipe.is_caught_up, "everything is out")
            pipe.source.execute(f"INSERT dbo.new VALUES ({number}, N'more')")
            publisher.until(pipe.is_caught_up, "more is out")
            (told,) = publisher.told("table_renamed")
            assert told["table"].endswith("dbo.new")
            assert told["was"].endswith("dbo.old")
            assert not publisher.told("table_stopped")
    with Running(pipe.config(**further)) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
        ask(pipe.config(**further), ["dbo.old"], 60)
        publisher.until(
            lambda: pipe.source.scan() or ids(pipe, "old", snapshot=True) == [1, 1, 2, 3, 4],
            "a new snapshot reads the table by the name that it has",
        )

    assert ids(pipe, "old") == [2, 3, 4]
    assert {
        e.envelope["source"]["table"]
        for e in pipe.topics.changes(pipe.source.name, "old")
        if e.envelope
    } == {"old"}
    assert ids(pipe, "new", snapshot=True) == ids(pipe, "new") == []
    pipe.assert_exactly_once("old")


def test_another_spelling_of_the_database_is_told_before_anything_is_published(pipe: Pipe):
    source = pipe.source
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)", "INSERT dbo.t VALUES (1)")
    source.enable("t")
    other = source.name.upper()
    assert other != source.name
    shouted = pipe.config(source=pipe.options()["source"] | {"database": other})

    with Running(shouted) as publisher:
        error = publisher.ended()
    assert isinstance(error, PreflightError)
    assert source.name in str(error)
    assert other in str(error)

    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "its own spelling is right")
    with Running(shouted) as publisher:
        error = publisher.ended()
    assert isinstance(error, PreflightError)
    assert f"was published as {source.name}" in str(error)
