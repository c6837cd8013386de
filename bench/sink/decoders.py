"""Decoders of a table's events, in microseconds of processor time a row (ADR 0080).

The same messages, as the publisher writes them: snapshot rows and mixed changes. Each decoder gives
typed columns of all fields that a lake table has.

- ``columns``: the sink's own, over numpy and Arrow.
- ``polars``: its Avro reader, over an object container around the messages without their frames.
- ``fastavro``: row by row, compiled; the reference of the tests.
- ``from_avro``: Spark, as the sink decodes small cuts; in a session with one core.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from bench.sink.topics import COLUMNS
from tailrace_compose.local.jars import spark_jars
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_schemas.events.envelope import TableSchema, envelope_schema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.columns.change_columns import ChangeDecoder
from tailrace_sink.columns.spec import Work, Writer
from tailrace_sink.rows.column_targets import target_of
from tailrace_sink.rows.decode import change_rows
from tailrace_sink.rows.writer_schema import WriterSchema
from tailrace_sink.spark.session import session_with
from tailrace_sink.tables.lake_table import Kind
from tailrace_sink.tables.new_table import new_table

_ID: Final = 7
_FRAME: Final = 5
_BATCH: Final = 20_000
_ROUNDS: Final = 3
_NOON: Final = datetime(2013, 1, 1)  # noqa: DTZ001 - datetime2 has no zone
_SCHEMA: Final = TableSchema(TableName("bench", "dbo", "t0"), "dbo_t0", Lsn(0, 0, 1), COLUMNS)
_AVRO: Final = json.dumps(envelope_schema("bench", _SCHEMA))
_WRITER: Final = WriterSchema(_ID, _AVRO, _SCHEMA)
_TABLE: Final = new_table(_SCHEMA, Kind.MIRROR)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's options."""
    parser.add_argument("--rows", type=int, default=200_000, help="decoders: rows of each kind")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the benchmark.

    Returns:
        Microseconds of processor time a row, by kind of events and decoder: the least of some
        rounds. A text is the reason why a decoder does not read them.
    """
    count = getattr(arguments, "rows", 200_000)
    figures: dict[str, Any] = {"rows": count, "load_before": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory(prefix="bench-decoders-") as folder:
        for kind, values in (("snapshot", _snapshot(count)), ("mixed", _mixed(count))):
            messages = pa.array(values, pa.binary())
            found: dict[str, Any] = {}
            for name, decode in (
                ("columns", _by_columns),
                ("polars", _by_polars),
                ("fastavro", _by_fastavro),
            ):
                found[name] = _least(decode, messages, len(values))
            found["from_avro"] = _by_spark(messages, Path(folder) / f"{kind}.parquet")
            figures[kind] = found
    return figures


def _rows(count: int) -> Iterator[tuple[Any, ...]]:
    for key in range(count):
        yield (
            *(key, "UA", "EWR", "IAH", f"N{key % 4000}", key % 300 - 30, key % 2500),
            *(Decimal(key % 100_000) / 100, _NOON + timedelta(seconds=key), False),
        )


def _encoder() -> EnvelopeEncoder:
    return EnvelopeEncoder("bench", _SCHEMA, "bench.bench.dbo.t0", _ID, _ID)


def _snapshot(count: int) -> list[bytes]:
    encoder, fence = _encoder(), Lsn(1, 2, 1)
    images = encoder.encode_images(list(_rows(count)), fence)
    return list(encoder.snapshot_events(*images, fence, 1_700_000_000_000, last=True).values)


def _mixed(count: int) -> list[bytes]:
    """As many events: half creates, a third updates, the rest deletes."""
    found: list[tuple[Any, ...]] = []
    commits: dict[bytes, int] = {}
    for number, image in enumerate(_rows(count)):
        commit = Lsn(1, number // 500, 1).to_bytes()
        commits[commit] = 1_700_000_000_000 + number
        where = (commit, number, Lsn(1, number // 500, number % 500).to_bytes())
        every = b"\x03\xff"
        if number % 6 < 3:
            found.append((*where, 2, every, *image))
        elif number % 6 < 5:
            found.append((*where, 3, b"\x00\x20", *image))
            found.append((*where, 4, b"\x00\x20", *image[:5], image[5] + 1, *image[6:]))
        else:
            found.append((*where, 1, every, *image))
    return list(_encoder().encode(found, commits, 5).values)


def _least(decode: Callable[[pa.Array], int], messages: pa.Array, count: int) -> float | str:
    best = float("inf")
    for _ in range(_ROUNDS):
        started = time.process_time()
        try:
            decoded = decode(messages)
        except BaseException as error:  # noqa: BLE001 - polars panics with one of its own
            return f"{type(error).__name__}: {str(error)[:120]}"
        if decoded != count:
            return f"{decoded} rows"
        best = min(best, time.process_time() - started)
    return round(best / count * 1e6, 2)


def _by_columns(messages: pa.Array) -> int:
    target = target_of(_TABLE, [_WRITER], "", {}, 32)
    decoder = ChangeDecoder(Work((Writer(_ID, _AVRO),), (target,)))
    count = 0
    for start in range(0, len(messages), _BATCH):
        rows = decoder.decode(messages.slice(start, _BATCH)).rows[0]
        count += sum(batch.num_rows for batch in rows)
    return count


def _container(messages: pa.Array) -> io.BytesIO:
    """Build an Avro object container of one block; Avro's datums need no separation."""
    schema = json.dumps(_inlined(json.loads(_AVRO), {})).encode()
    header = {"avro.schema": schema, "avro.codec": b"null"}
    stream, mark = io.BytesIO(b"Obj\x01"), bytes(16)
    stream.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(stream, {"type": "map", "values": "bytes"}, header)
    stream.write(mark)
    body = b"".join(value[_FRAME:] for value in messages.to_pylist())
    for number in (len(messages), len(body)):
        fastavro.schemaless_writer(stream, {"type": "long"}, number)
    stream.write(body + mark)
    stream.seek(0)
    return stream


def _inlined(schema: Any, named: dict[str, Any]) -> Any:
    """Write out named records where they are referred to, which polars does not look up."""
    if isinstance(schema, list):
        return [_inlined(branch, named) for branch in schema]
    if isinstance(schema, str):
        return named.get(schema, schema)
    if schema["type"] == "array":
        return {"type": "array", "items": schema["items"]}
    if schema["type"] != "record":
        return schema
    fields = [{"name": f["name"], "type": _inlined(f["type"], named)} for f in schema["fields"]]
    record = {"type": "record", "name": f"R{len(named)}", "fields": fields}
    named[f"{schema.get('namespace', '')}.{schema['name']}"] = record
    return record


def _by_polars(messages: pa.Array) -> int:
    import polars as pl

    return sum(
        pl.read_avro(_container(messages.slice(start, _BATCH))).height
        for start in range(0, len(messages), _BATCH)
    )


def _by_fastavro(messages: pa.Array) -> int:
    schema = fastavro.parse_schema(json.loads(_AVRO))
    count = 0
    for value in messages.to_pylist():
        fastavro.schemaless_reader(io.BytesIO(value[_FRAME:]), schema, None)
        count += 1
    return count


def _by_spark(messages: pa.Array, file: Path) -> float:
    """Decode from Parquet; the time of reading the messages alone is taken off."""
    pq.write_table(pa.table({"value": messages}), file)
    spark = session_with({"spark.master": "local[1]", "spark.driver.memory": "1g"}, spark_jars())
    values = spark.read.parquet(str(file))
    jvm: Any = spark._jvm  # noqa: SLF001 - the JVM's own clock of processor time
    clock = jvm.java.lang.management.ManagementFactory.getPlatformMXBean(
        jvm.java.lang.Class.forName("com.sun.management.OperatingSystemMXBean")
    )
    least = {}
    for name, frame in (("read", values), ("all", change_rows(values, _TABLE, [_WRITER]))):
        times = []
        for _ in range(_ROUNDS + 2):
            started = clock.getProcessCpuTime()
            frame.write.format("noop").mode("overwrite").save()
            times.append(clock.getProcessCpuTime() - started)
        least[name] = min(times)
    return float(round((least["all"] - least["read"]) / len(messages) / 1e3, 2))
