"""Values that change tables do not hold: a placeholder, or what the source has now."""

from __future__ import annotations

from typing import Any

import pytest

from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka

OPTIONS: dict[str, Any] = {"snapshot": {"mode": "no_data"}}


def updates(pipe: Pipe) -> list[dict[str, Any]]:
    events = pipe.topics.changes(pipe.source.name, "t")
    found = sorted((e for e in events if e.as_envelope["op"] == "u"), key=lambda e: e.position)
    return [event.as_envelope for event in found]


def table_of_large_values(pipe: Pipe) -> None:
    values = ", ".join(f"({number}, 0, N'text {number}', 0x00)" for number in range(10, 40))
    pipe.source.execute(
        "CREATE TABLE dbo.t (id int PRIMARY KEY, n int, text nvarchar(max), raw varbinary(max))",
        "INSERT dbo.t VALUES (1, 0, N'one', 0x01), (2, 0, N'two', 0x02), (3, 0, NULL, NULL)",
        f"INSERT dbo.t VALUES {values}",
    )
    pipe.source.enable("t")


def captured_without_what_was_left_alone(pipe: Pipe) -> None:
    """As servers may log it: of an update that left a large value alone, without the value."""
    pipe.source.scan()
    pipe.source.execute(
        *(
            f"UPDATE cdc.dbo_t_CT SET {column} = NULL WHERE [__$operation] IN (3, 4)"
            f" AND sys.fn_cdc_is_bit_set({ordinal}, [__$update_mask]) = 0"
            for ordinal, column in ((3, "text"), (4, "raw"))
        )
    )


def test_a_placeholder_stands_where_there_is_no_value(pipe: Pipe):
    table_of_large_values(pipe)
    options = {
        **OPTIONS,
        "unavailable_values": "placeholder",
        "unavailable_placeholder": "not here",
    }
    with Running(pipe.config(**options)) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
    pipe.source.execute(
        "UPDATE dbo.t SET n = 1 WHERE id = 1",
        "UPDATE dbo.t SET text = NULL WHERE id = 2",
        "INSERT dbo.t VALUES (4, 0, NULL, NULL)",
    )
    captured_without_what_was_left_alone(pipe)
    with Running(pipe.config(**options)) as publisher:
        publisher.until(pipe.is_caught_up, "the changes are out")
    first, second = updates(pipe)
    untold = {"text": "not here", "raw": b"not here"}
    assert first["after"] == {"id": 1, "n": 1, **untold}
    assert first["before"] == {"id": 1, "n": 0, **untold}
    assert sorted(first["source"]["unavailable"]) == ["raw", "text"]
    assert (second["after"]["text"], second["after"]["raw"]) == (None, b"not here")
    assert second["source"]["unavailable"] == ["raw"]
    assert pipe.topics.state(pipe.source.name, "t", "id")[4]["text"] is None
    pipe.assert_exactly_once("t")


def test_a_before_image_never_has_a_text(pipe: Pipe):
    """Whatever the update mask says of it: documented of change tables."""
    pipe.source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, text text, raw image)")
    pipe.source.execute("INSERT dbo.t VALUES (1, 'one', 0x01)")
    pipe.source.enable("t")
    options = {**OPTIONS, "unavailable_values": "placeholder"}
    with Running(pipe.config(**options)) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
        pipe.source.execute("UPDATE dbo.t SET text = 'two', raw = NULL")
        pipe.source.scan()
        publisher.until(pipe.is_caught_up, "the change is out")
    (update,) = updates(pipe)
    untold = "__debezium_unavailable_value"
    assert update["before"] == {"id": 1, "text": untold, "raw": untold.encode()}
    assert update["after"] == {"id": 1, "text": "two", "raw": None}
    assert update["source"]["unavailable"] == []


@pytest.mark.parametrize(
    "options_on",
    [
        (),
        ("ALLOW_SNAPSHOT_ISOLATION",),
        ("READ_COMMITTED_SNAPSHOT",),
        ("ALLOW_SNAPSHOT_ISOLATION", "READ_COMMITTED_SNAPSHOT"),
    ],
    ids=["locks", "snapshot", "read committed snapshot", "both"],
)
def test_values_are_selected_where_the_row_is_there_and_nobody_locks_it(
    pipe: Pipe, options_on: tuple[str, ...]
):
    """READPAST is refused (650) where a session reads row versions, unless the hints take locks."""
    source = pipe.source
    for option in options_on:
        source.execute(f"ALTER DATABASE CURRENT SET {option} ON WITH ROLLBACK IMMEDIATE")
    table_of_large_values(pipe)
    options = {**OPTIONS, "unavailable_values": "reselect", "memory_mb": 16}
    with Running(pipe.config(**options)) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
    source.execute(
        "UPDATE dbo.t SET n = 1 WHERE id = 1",
        "UPDATE dbo.t SET text = N'newer' WHERE id = 1",
        "UPDATE dbo.t SET n = 1 WHERE id = 2",
        "UPDATE dbo.t SET n = 1 WHERE id = 3",
        "UPDATE dbo.t SET n = 1 WHERE id >= 10",
        "DELETE dbo.t WHERE id = 10",
    )
    captured_without_what_was_left_alone(pipe)
    with source.server.connect(source.name, autocommit=False) as other:
        other.execute("UPDATE dbo.t SET text = N'not committed' WHERE id = 2")
        with Running(pipe.config(**options)) as publisher:
            publisher.until(pipe.is_caught_up, "it waits for nobody")
        other.rollback()
    first, changed, locked, null, *many = updates(pipe)

    assert first["after"] == {"id": 1, "n": 1, "text": "newer", "raw": b"\x01"}
    assert first["before"] == {"id": 1, "n": 0, "text": "newer", "raw": b"\x01"}
    assert first["source"]["unavailable"] == []
    assert (changed["after"]["text"], changed["after"]["raw"]) == ("newer", b"\x01")
    assert sorted(locked["source"]["unavailable"]) == ["raw", "text"]
    assert locked["after"]["text"] is None
    assert sorted(null["source"]["unavailable"]) == ["raw", "text"]
    assert sorted(many[0]["source"]["unavailable"]) == ["raw", "text"], "it is gone"
    assert [event["after"]["text"] for event in many[1:]] == [f"text {n}" for n in range(11, 40)]
    pipe.assert_exactly_once("t")
