"""One value, or one fault of ours, stops one table and no more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tailrace.signals.request import ask
from tailrace_publisher.encode.blocks.envelopes import BlockEncoder
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.snapshot.table_reader import TableReader
from tests.pipeline.conftest import Pipe
from tests.pipeline.daemon.test_stopped_tables import (
    keeps_is_out,
    scanned_keys,
    topic_of,
    two_tables,
)
from tests.pipeline.proxy import Proxy
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka

MARK = "\ue0a1"
"""A character for private use: on the wire it becomes the first half of a surrogate pair.

SQL Server stores such halves (LEFT of an emoji, NCHAR(0xD83D)), the embedded one does not."""


@contextmanager
def half_pairs(pipe: Pipe) -> Iterator[dict[str, Any]]:
    """The option source of a publisher that reads a half pair in the place of the mark."""
    server = pipe.source.server
    mark, half = MARK.encode("utf-16le"), "\ud83d".encode("utf-16le", "surrogatepass")
    proxy = Proxy(server.host, server.port, lambda answer: answer.replace(mark, half))
    proxy.open()
    try:
        # Without TLS, so that the proxy sees the bytes.
        yield pipe.options()["source"] | {
            "host": "127.0.0.1",
            "port": proxy.port,
            "encrypt": "no",
        }
    finally:
        proxy.close()


def assert_names_the_value(told: dict[str, Any]) -> None:
    assert told["error"] == "EncodeError"
    assert told["table"].endswith("dbo.loses")
    assert "column text" in told["reason"]
    assert "a str of length 14 does not fit" in told["reason"]
    assert "half a pair" not in told["reason"]


def test_half_a_surrogate_pair_in_the_stream_stops_its_table_alone(pipe: Pipe):
    source = pipe.source
    for table in ("keeps", "loses"):
        source.execute(
            f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, note int, text nvarchar(50))"
        )
        source.execute(f"INSERT dbo.{table} VALUES (1, 1, N'\U0001f600')")
        source.enable(table)

    with half_pairs(pipe) as behind, Running(pipe.config(source=behind)) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshots are out")
        source.execute("INSERT dbo.loses VALUES (2, 2, N'a whole pair: \U0001f600')")
        publisher.until(pipe.is_caught_up, "whole pairs are no problem")
        source.connection.execute("INSERT dbo.loses VALUES (3, 3, ?)", f"half a pair: {MARK}")
        source.execute("UPDATE dbo.keeps SET note = 10")
        source.scan()
        position = max(source.positions("dbo_loses"))
        publisher.until(lambda: keeps_is_out(pipe), "the other table goes on")
        (told,) = publisher.told("table_stopped")

    assert_names_the_value(told)
    assert f"position {position}" in told["reason"]
    assert sorted(pipe.topics.state(source.name, "loses", "id")) == [1, 2]
    pipe.assert_exactly_once("keeps")


@pytest.mark.parametrize("type_", ["nvarchar(50)", "nvarchar(max)", "nchar(14)"])
def test_half_a_surrogate_pair_in_the_snapshot_stops_its_table_alone(pipe: Pipe, type_: str):
    source = pipe.source
    for table in ("keeps", "loses"):
        source.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, text {type_})")
        source.execute(f"INSERT dbo.{table} VALUES (1, N'\U0001f600')")
    source.connection.execute("INSERT dbo.loses VALUES (2, ?)", f"half a pair: {MARK}")
    for table in ("keeps", "loses"):
        source.enable(table)

    with half_pairs(pipe) as behind, Running(pipe.config(source=behind)) as publisher:
        publisher.until(lambda: scanned_keys(pipe, "keeps") == [1], "the other table goes on")
        publisher.until(
            lambda: source.scan() or bool(publisher.told("table_stopped")), "it is told"
        )
        (told,) = publisher.told("table_stopped")

    assert_names_the_value(told)
    assert not pipe.topics.events(source.name, "loses")


@pytest.mark.parametrize(
    ("policy", "published"), [("replace", "half a pair: \ufffd"), ("null", None)]
)
def test_half_a_surrogate_pair_goes_out_as_the_option_says(
    pipe: Pipe, policy: str, published: str | None
):
    source = pipe.source
    source.execute("CREATE TABLE dbo.loses (id int PRIMARY KEY, text nvarchar(max))")
    source.connection.execute("INSERT dbo.loses VALUES (1, ?)", f"half a pair: {MARK}")
    source.enable("loses")

    with (
        half_pairs(pipe) as behind,
        Running(pipe.config(source=behind, surrogates=policy)) as publisher,
    ):
        publisher.until(pipe.is_caught_up, "the snapshot is out")
        source.connection.execute("INSERT dbo.loses VALUES (2, ?)", f"half a pair: {MARK}")
        source.execute("INSERT dbo.loses VALUES (3, N'a whole pair: \U0001f600')")
        publisher.until(pipe.is_caught_up, "the changes are out")
        assert {told["column"] for told in publisher.told("half_surrogate_pairs")} == {"text"}
        assert not publisher.told("table_stopped")

    rows = pipe.topics.state(source.name, "loses", "id")
    assert {key: row["text"] for key, row in rows.items()} == {
        1: published,
        2: published,
        3: "a whole pair: \U0001f600",
    }
    pipe.assert_exactly_once("loses")


@pytest.mark.slow("a publisher for each place of a fault")
@pytest.mark.parametrize("where", ["stream", "snapshot read", "snapshot encoded", "taken in"])
def test_a_fault_that_nobody_foresaw_stops_its_table_alone(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch, where: str
):
    source = pipe.source
    two_tables(pipe)
    topic = topic_of(pipe, "loses")
    _break(monkeypatch, where, topic)
    if where.startswith("snapshot"):  # a gap has it read again
        source.execute("EXEC sys.sp_cdc_disable_table N'dbo', N'loses', N'all'")
        source.enable("loses")
    source.execute("INSERT dbo.loses VALUES (3, 3)", "UPDATE dbo.keeps SET note = 10 WHERE id = 1")

    with Running(pipe.config(snapshot={"on_gap": "snapshot"})) as publisher:
        publisher.until(lambda: source.scan() or keeps_is_out(pipe), "the other table goes on")
        publisher.until(
            lambda: source.scan() or bool(publisher.told("table_stopped")), "it is told"
        )
        (told,) = publisher.told("table_stopped")
        (fault,) = publisher.told("unexpected_error")

    assert told["error"] == "UnexpectedTableError"
    assert told["table"].endswith("dbo.loses")
    assert "RuntimeError" in told["reason"]
    assert "a fault of ours" not in told["reason"], "its text may hold values"
    if where == "stream":
        assert "capture instance dbo_loses after 0000" in told["reason"]
    assert "broken" in fault["where"]
    assert "a fault of ours" not in str(fault)
    monkeypatch.undo()
    with Running(pipe.config()) as publisher:
        ask(pipe.config(), ["dbo.loses"], 60)
        publisher.until(pipe.is_caught_up, "who asks for it gets it")
    assert sorted(pipe.topics.state(source.name, "loses", "id")) == [1, 2, 3]
    pipe.assert_exactly_once("keeps")


def _break(monkeypatch: pytest.MonkeyPatch, where: str, topic: str) -> None:
    """Break one step, for one topic."""
    if where == "snapshot read":
        read = TableReader.read

        def broken_read(self: TableReader, *arguments: Any) -> Any:
            if self.table.name.table == "loses":
                raise RuntimeError("a fault of ours")
            return read(self, *arguments)

        monkeypatch.setattr(TableReader, "read", broken_read)
        return
    name = {"stream": "encode", "snapshot encoded": "encode_images", "taken in": "__init__"}[where]
    whole = getattr(EnvelopeEncoder, name)

    def broken(self: EnvelopeEncoder, *arguments: Any, **options: Any) -> Any:
        if topic in (arguments if where == "taken in" else (self.topic,)):
            raise RuntimeError("a fault of ours")
        return whole(self, *arguments, **options)

    monkeypatch.setattr(EnvelopeEncoder, name, broken)
    if where == "stream":
        in_blocks = BlockEncoder.encode

        def broken_in_blocks(self: BlockEncoder, *arguments: Any) -> Any:
            if topic == self.topic:
                raise RuntimeError("a fault of ours")
            return in_blocks(self, *arguments)

        monkeypatch.setattr(BlockEncoder, "encode", broken_in_blocks)
