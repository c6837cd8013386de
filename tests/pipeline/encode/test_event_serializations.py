"""Events as JSON over the real broker and registry, and who reads them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from tailrace.reading.committed import committed_messages
from tailrace_publisher.errors import SchemaRefused
from tailrace_schemas.topics.topic_names import TableName, value_subject
from tailrace_sink.errors import UnsupportedEventForm
from tailrace_sink.fold.empty_tables import registered_version
from tailrace_sink.options.config import SinkConfig
from tests.pipeline.commands import invoke
from tests.pipeline.conftest import Pipe
from tests.pipeline.deliver.delivering import Message, read_committed
from tests.pipeline.deliver.test_topic_options import keys_of, partitions_by_librdkafka
from tests.pipeline.encode.test_dead_letters import LARGEST, letters
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka

TABLE = "CREATE TABLE dbo.t (id int PRIMARY KEY, [the price] decimal(9, 2), b varbinary(9), n text)"


def in_order(pipe: Pipe) -> list[Message]:
    """The records of the table's topic as they are, the partitions one after the other."""
    return read_committed(pipe.topics.bootstrap, pipe.topic("t"))


Publishing = Callable[..., AbstractContextManager[Running]]


@pytest.fixture
def publishing(pipe: Pipe) -> Publishing:
    """Runs a publisher, given options, that has published a row and a change of each kind."""
    pipe.source.execute(TABLE, "INSERT dbo.t VALUES (1, 10, 0x00FF, 'n')")
    pipe.source.enable("t")

    @contextmanager
    def begun(**options: Any) -> Iterator[Running]:
        with Running(pipe.config(**options)) as publisher:
            publisher.until(pipe.is_caught_up, "the snapshot is out")
            pipe.source.execute(
                "INSERT dbo.t VALUES (2, 20.5, NULL, NULL)",
                "UPDATE dbo.t SET [the price] = -0.01 WHERE id = 2",
                "DELETE dbo.t WHERE id = 1",
            )
            publisher.until(pipe.is_caught_up, "the changes are out")
            yield publisher

    return begun


def look_at(pipe: Pipe, tmp_path: Path, told: str, **further: Any) -> None:
    """What every serialization has in common: the ledger holds, commands read it, the sink not."""
    pipe.assert_exactly_once("t")
    audited = invoke(pipe, tmp_path, "audit", **further)
    assert audited.exit_code == 0, audited.output
    shown = invoke(pipe, tmp_path, "tail", "--json", "dbo.t", **further)
    assert shown.exit_code == 0, shown.output
    lines = [json.loads(line) for line in shown.output.splitlines()]
    assert [(e["op"], e["key"]) for e in lines] == [
        ("r", {"id": 1}), ("c", {"id": 2}), ("u", {"id": 2}), ("d", {"id": 1}),
    ]  # fmt: skip
    explained = invoke(pipe, tmp_path, "explain", "--json", "dbo.t", "2", **further)
    assert explained.exit_code == 0, explained.output
    assert all(change["event"] for change in json.loads(explained.output)["changes"])
    versions = invoke(pipe, tmp_path, "schema", "dbo.t", **further)
    assert told in versions.output
    sink = SinkConfig.model_validate(
        {
            "kafka": {"bootstrap": pipe.topics.bootstrap},
            "registry": {"url": pipe.topics.registry_url},
            "prefix": pipe.topics.prefix,
            "lake": str(tmp_path / "lake"),
        }
    )
    with pytest.raises(UnsupportedEventForm, match=f"{told}, and the sink .* serialization: avro"):
        registered_version(sink, pipe.topic("t"), TableName(pipe.source.name, "dbo", "t"))


def registered(pipe: Pipe) -> list[dict[str, Any]]:
    """The versions of the topic's value subject, as the registry tells them."""
    url = f"{pipe.topics.registry_url}/subjects/{value_subject(pipe.topic('t'))}/versions"
    numbers = httpx.get(url).raise_for_status().json()
    return [httpx.get(f"{url}/{number}").raise_for_status().json() for number in numbers]


def test_json_is_what_debeziums_converter_writes(
    pipe: Pipe, publishing: Publishing, tmp_path: Path
):
    source, options = pipe.source, {"serialization": "json", "schema_compatibility": "BACKWARD"}
    with publishing(**options):
        pass

    look_at(pipe, tmp_path, "serialization: json", **options)
    records = in_order(pipe)
    assert sorted({record.key for record in records}, key=repr) == [b'{"id":1}', b'{"id":2}']
    assert [record.key for record in records if record.value is None] == [b'{"id":1}']
    events = [json.loads(record.value) for record in records if record.value is not None]
    by_op = {event["op"]: event for event in events}
    assert by_op["r"]["after"] == {
        "id": 1, "the price": base64.b64encode(b"\x03\xe8").decode(), "b": "AP8=", "n": "n",
    }  # fmt: skip
    assert by_op["u"]["source"]["changed"] == ["the price"]
    assert by_op["u"]["after"]["the price"] == base64.b64encode(b"\xff").decode()
    assert by_op["d"]["source"]["unavailable"] == ["n"]
    (version,) = registered(pipe)
    assert version["schemaType"] == "JSON"
    told = json.loads(version["schema"])
    for event in events:
        jsonschema.Draft7Validator(told).validate(event)

    with Running(pipe.config(schema_compatibility="BACKWARD")) as publisher:
        source.execute("INSERT dbo.t VALUES (3, 30, NULL, NULL)")
        error = publisher.ended()
    assert isinstance(error, SchemaRefused)
    assert "so far have serialization: json, these would have serialization: avro" in str(error)


def test_json_schema_is_confluents_format_and_an_added_column_is_compatible(
    pipe: Pipe, publishing: Publishing, tmp_path: Path
):
    options: dict[str, Any] = {
        "serialization": "json_schema",
        "json_decimals": "text",
        "event_form": "flat",
        "schema_compatibility": "BACKWARD",
        "tables": {"patch": "none"},  # what is compared: the changes, each once
    }
    source = pipe.source
    with publishing(**options) as publisher:
        look_at(pipe, tmp_path, "event_form: flat, serialization: json_schema", **options)
        source.execute("ALTER TABLE dbo.t ADD c smallint")
        source.enable("t", capture_instance="dbo_t_2")
        source.execute("INSERT dbo.t VALUES (3, 30, NULL, NULL, 7)")
        publisher.until(pipe.is_caught_up, "the added column is out")

    pipe.assert_exactly_once("t")
    by_id = {version["id"]: json.loads(version["schema"]) for version in registered(pipe)}
    assert len(by_id) == 2
    values = [record.value for record in in_order(pipe) if record.value is not None]
    events = []
    for value in values:
        event = json.loads(value[5:])
        jsonschema.Draft7Validator(by_id[int.from_bytes(value[1:5], "big")]).validate(event)
        events.append(event)
    events.sort(key=lambda event: event["__position"])
    prices = [(event["__op"], event["the price"]) for event in events]
    assert prices == [
        ("r", "10.00"),
        ("c", "20.50"),
        ("u", "-0.01"),
        ("d", "10.00"),
        ("c", "30.00"),
    ]
    assert events[-1]["c"] == 7


def test_connect_json_with_numbered_transactions(
    pipe: Pipe, publishing: Publishing, tmp_path: Path
):
    options: dict[str, Any] = {"serialization": "connect_json", "transaction_metadata": True}
    with publishing(**options):
        pass

    look_at(pipe, tmp_path, "serialization: connect_json", **options)
    records = [r for r in in_order(pipe) if r.value is not None]
    for record in records:
        value, key = json.loads(record.value or b""), json.loads(record.key or b"")
        assert value["schema"]["name"].endswith(".dbo.t.Envelope")
        assert key["schema"]["fields"] == [{"type": "int32", "optional": False, "field": "id"}]
        numbered = value["payload"]["transaction"]
        assert (numbered is None) == (value["payload"]["op"] == "r")


def test_cloud_events_say_by_a_header_what_they_are(
    pipe: Pipe, publishing: Publishing, tmp_path: Path
):
    options = {"event_form": "cloudevents", "serialization": "json"}
    with publishing(**options):
        pass

    look_at(pipe, tmp_path, "event_form: cloudevents, serialization: json", **options)
    messages = list(committed_messages(pipe.topics.bootstrap, {pipe.topic("t"): 2}))
    headers = {message.value() is None: message.headers() for message in messages}
    told = [("content-type", b"application/cloudevents+json; charset=UTF-8")]
    assert headers == {False: told, True: None}
    events = [json.loads(m.value() or b"") for m in messages if m.value() is not None]
    by_op = {event["iodebeziumop"]: event for event in events}
    assert by_op["u"]["data"]["changed"] == ["the price"]
    assert by_op["r"]["data"]["after"]["n"] == "n"
    assert {event["iodebeziumtable"] for event in events} == {"t"}


def test_json_by_murmur2_with_a_dead_letter(pipe: Pipe, publishing: Publishing, tmp_path: Path):
    """The partitions are those of other producers for the JSON keys; what is too large is told."""
    kafka = pipe.options()["kafka"] | {
        "partitions": 5,
        "partitioner": "murmur2",
        "extra": {"message.max.bytes": str(LARGEST)},
    }
    options = {"serialization": "json", "on_bad_event": "dead-letter", "kafka": kafka}
    with publishing(**options) as publisher:
        pipe.source.execute(
            f"INSERT dbo.t VALUES (3, 1, NULL, REPLICATE(CAST('x' AS varchar(max)), {LARGEST}))",
            *(f"INSERT dbo.t VALUES ({number}, NULL, NULL, NULL)" for number in range(4, 12)),
        )
        publisher.until(pipe.is_caught_up, "the others are out")

    keys = keys_of(pipe, pipe.topic("t"), 10)
    assert set(keys) == {f'{{"id":{number}}}'.encode() for number in (1, 2, *range(4, 12))}
    assert keys == partitions_by_librdkafka(pipe, list(keys))
    ((headers, value),) = letters(pipe)
    told = headers["table"], headers["error"], value
    assert told == (f"{pipe.source.name}.dbo.t", "RecordTooLarge", None)
    audited = invoke(pipe, tmp_path, "audit", **options)
    assert audited.exit_code == 0, audited.output
