"""Events per second and core of the encoder, compared with fastavro used in the plain way.

CPU time, not wall time: the encoder is pure, so the machine's other load does not count. The plain
way is one dictionary per event and ``schemaless_writer`` with the naive types; the bytes are
compared.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Callable
from typing import Any, Final

import fastavro

from bench import workload
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_schemas.events.envelope import CONNECTOR, VERSION, envelope_schema
from tailrace_schemas.position.lsn import lsn_text

_PAGE: Final = 2000
_REPEATS: Final = 5
_SERVER: Final = "bench"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument("--events", type=int, default=20_000, help="encode: events of each kind")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure inserts and updates, and inserts of one transaction, whose command ids differ."""
    events = arguments.events
    measured: dict[str, Any] = {"events": events}
    for kind, updates, is_one in (
        ("inserts", False, False),
        ("updates", True, False),
        ("large_transaction", False, True),
    ):
        rows, commit_ms = workload.change_rows(events, updates=updates, one_transaction=is_one)
        ours, encoded = _best(lambda r=rows, c=commit_ms: _encode(r, c))  # type: ignore[misc]
        plain, expected = _best(lambda r=rows, c=commit_ms: _plain(r, c), repeats=2)  # type: ignore[misc]
        if encoded != expected:
            raise AssertionError("the encoder's bytes are not fastavro's")
        measured |= {
            f"{kind}_per_s": round(events / ours),
            f"{kind}_bytes": round(sum(map(len, encoded)) / events),
            f"{kind}_fastavro_per_s": round(events / plain),
            f"{kind}_ratio_to_fastavro": round(plain / ours, 1),
        }
    return measured


def _best(work: Callable[[], list[bytes]], repeats: int = _REPEATS) -> tuple[float, list[bytes]]:
    best = float("inf")
    result: list[bytes] = []
    for _ in range(repeats):
        started = time.process_time()
        result = work()
        best = min(best, time.process_time() - started)
    return best, result


def _encode(rows: list[tuple[Any, ...]], commit_ms: dict[bytes, int]) -> list[bytes]:
    encoder = EnvelopeEncoder(_SERVER, workload.table_schema(), "topic", 1, 2)
    values: list[bytes] = []
    for start in range(0, len(rows), _PAGE):
        values += encoder.encode(rows[start : start + _PAGE], commit_ms).values
    return values


def _plain(rows: list[tuple[Any, ...]], commit_ms: dict[bytes, int]) -> list[bytes]:
    schema = workload.table_schema()
    names = [column.name for column in schema.columns]
    parsed = fastavro.parse_schema(envelope_schema("bench", schema))
    values: list[bytes] = []
    before: dict[str, Any] | None = None
    for commit, command_id, seqval, operation, mask, *row in rows:
        image = dict(zip(names, row, strict=True))
        if operation == 3:
            before = image
            continue
        bits = int.from_bytes(mask, "big")
        record = {
            "before": before,
            "after": image,
            "source": {
                "version": VERSION,
                "connector": CONNECTOR,
                "name": _SERVER,
                "ts_ms": commit_ms[commit],
                "snapshot": None,
                "db": schema.table.database,
                "schema": schema.table.schema,
                "table": schema.table.table,
                "change_lsn": lsn_text(seqval),
                "commit_lsn": lsn_text(commit),
                "event_serial_no": 2,
                "command_id": command_id,
                "operation": operation,
                "capture_instance": schema.capture_instance,
                "schema_lsn": str(schema.schema_lsn),
                "changed": [n for i, n in enumerate(names) if bits >> i & 1]
                if operation == 4
                else [],
                "unavailable": [],
            },
            "op": "u" if operation == 4 else "c",
            "ts_ms": None,
            "transaction": None,
        }
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, record)
        values.append(b"\x00\x00\x00\x00\x01" + out.getvalue())
    return values
