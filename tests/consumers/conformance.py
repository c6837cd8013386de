"""A subscriber that knows nothing but docs/contract.md, and the records that it reads.

It is the reference of the conformance kit (examples/conformance): what it makes of the records is
what clients in other languages must make of them.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Record:
    """One committed record of a topic."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None

    def as_json(self) -> dict[str, Any]:
        """The line of the file."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "key": None if self.key is None else base64.b64encode(self.key).decode(),
            "value": None if self.value is None else base64.b64encode(self.value).decode(),
        }


def records_of(file: Path) -> list[Record]:
    """The records of a file."""
    return [
        Record(
            line["topic"],
            line["partition"],
            line["offset"],
            *(None if line[n] is None else base64.b64decode(line[n]) for n in ("key", "value")),
        )
        for line in map(json.loads, file.read_text("utf-8").splitlines())
    ]


@dataclass
class Subscriber:
    """Whole source transactions in commit order, and the state that they give.

    Attributes:
        state: rows by topic and by the bytes of their keys, without the schema's id.
        outside: topics that the newest group leaves out of the cut.
    """

    records: Iterable[Record]
    schemas: Mapping[str, Any]
    progress: str
    state: dict[str, dict[bytes, Row]] = field(default_factory=dict)
    outside: tuple[str, ...] = ()
    _seen: dict[str, set[bytes]] = field(default_factory=dict)
    _parsed: dict[int, Any] = field(default_factory=dict)

    def decode(self, framed: bytes) -> Row:
        """A framed record, by the schema whose id it has."""
        assert framed[0] == 0
        number = int.from_bytes(framed[1:5], "big")
        if number not in self._parsed:
            self._parsed[number] = fastavro.parse_schema(self.schemas[str(number)])
        found: Any = fastavro.schemaless_reader(io.BytesIO(framed[5:]), self._parsed[number], None)
        return dict(found)

    def groups(self) -> Iterator[dict[str, Any]]:
        """What each closed LSN brings: the events in the order of their positions."""
        places = {(r.topic, r.partition, r.offset): r for r in self.records}
        progress = sorted((r.offset, r.value) for r in self.records if r.topic == self.progress)
        found: list[tuple[bytes, str, bytes, Row]] = []
        for _, value in progress:
            closing = self.decode(value or b"")
            for topic in closing["snapshotting"]:
                if topic not in self.outside:
                    self._seen[topic] = set()
            self.outside = tuple(closing["snapshotting"])
            found += self._events(places, closing["partitions"])
            if not closing["closed"]:
                continue
            found.sort(key=lambda event: event[0])
            for _, topic, key, event in found:
                self._apply(topic, key, event)
            for topic in [topic for topic in self._seen if topic not in self.outside]:
                seen = self._seen.pop(topic)
                rows = self.state.get(topic, {})
                self.state[topic] = {key: rows[key] for key in rows if key in seen}
            yield {
                "closed_lsn": closing["through_lsn"],
                "outside_the_cut": list(self.outside),
                "events": [_shown(*event) for event in found],
            }
            found = []

    def _events(
        self, places: Mapping[tuple[str, int, int], Record], partitions: Iterable[Row]
    ) -> Iterator[tuple[bytes, str, bytes, Row]]:
        for entry in partitions:
            count = 0
            for offset in range(entry["first_offset"], entry["next_offset"]):
                record = places[entry["topic"], entry["partition"], offset]
                assert record.key is not None
                if record.value is None:
                    continue  # a tombstone
                count += 1
                key = record.key[5:]
                if record.topic in self._seen:
                    self._seen[record.topic].add(key)
                event = self.decode(record.value)
                yield _position(event["source"]), record.topic, key, event
            assert count == entry["count"]

    def _apply(self, topic: str, key: bytes, event: Row) -> None:
        rows = self.state.setdefault(topic, {})
        if event["op"] == "d":
            rows.pop(key, None)
            return
        before = rows.get(key, {})
        unavailable = event["source"]["unavailable"]
        rows[key] = event["after"] | {name: before.get(name) for name in unavailable}


def _position(source: Row) -> bytes:
    lsn, seqval = (bytes.fromhex(source[n].replace(":", "")) for n in ("commit_lsn", "change_lsn"))
    return lsn + source["command_id"].to_bytes(4, "big") + seqval + bytes([source["operation"]])


def _shown(position: bytes, topic: str, _: bytes, event: Row) -> dict[str, Any]:
    shown = {name: event[name] for name in ("op", "before", "after")}
    source = {name: event["source"][name] for name in ("snapshot", "changed", "unavailable")}
    return {"position": position.hex(), "topic": topic, **shown, **source}
