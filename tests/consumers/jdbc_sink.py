"""Debezium's JDBC sink connector over our topics, in Kafka Connect, into PostgreSQL.

It is not part of ``make test``: ``make consumers`` runs it. The connector, the converter and the
worker are as Maven Central has them; nothing of ours stands between the topics and the database.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tailrace_compose.local import jars
from tailrace_compose.local.connect import ConnectWorker
from tests.consumers.postgres import Postgres
from tests.pipeline.conftest import Pipe, pipe
from tests.pipeline.running import Running, wait_until

__all__ = ["pipe"]
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow("starts Kafka Connect and PostgreSQL"),
    pytest.mark.timeout(900),
]

LIMIT_S = 120.0
TABLE = """CREATE TABLE dbo.orders (
    id int NOT NULL PRIMARY KEY, price decimal(9, 2), at datetime2(6), day date, clock time(6),
    small smallint, tiny tinyint, large bigint, ratio float, ok bit, raw varbinary(20),
    zoned datetimeoffset(7), uid uniqueidentifier, note nvarchar(100), doc xml)"""
NULLS = ", ".join(["NULL"] * 14)
ALL = (
    "-0.01, '2026-11-22T01:02:03.456789', '1969-12-31', '23:59:59.123456', -7, 255,"
    " -9223372036854775808, 1.5, 1, 0x00FF, '2026-11-22T10:11:12.1234567+05:30',"
    " '6F9619FF-8B86-D011-B42D-00C04FC964FF', N'Zürich 漢字 😀', '<a>1</a>'"
)
ROW = {
    "price": -0.01,
    "at": "2026-11-22T01:02:03.456789",
    "day": "1969-12-31",
    "clock": "23:59:59.123456",
    "small": -7,
    "tiny": 255,
    "large": -9223372036854775808,
    "ratio": 1.5,
    "ok": True,
    "raw": "\\x00ff",
    "zoned": "2026-11-22T04:41:12.123457+00:00",  # PostgreSQL has six digits
    "uid": "6f9619ff-8b86-d011-b42d-00c04fc964ff",
    "note": "Zürich 漢字 😀",
    "doc": "<a>1</a>",
}
NOTHING = dict.fromkeys(ROW)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    server = Postgres()
    try:
        server.start()
        yield server
    finally:
        server.stop()


def connector(pipe: Pipe, postgres: Postgres, into: str) -> dict[str, str]:
    """The sink as its documentation sets it up for upserts and deletes."""
    json_converter = "org.apache.kafka.connect.json.JsonConverter"
    return {
        "name": f"sink-{into}",
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "tasks.max": "1",
        "topics": pipe.topic("orders"),
        "connection.url": postgres.jdbc_url,
        "connection.username": "postgres",
        "connection.password": "-",
        "insert.mode": "upsert",
        "delete.enabled": "true",
        "primary.key.mode": "record_key",
        "schema.evolution": "basic",
        "collection.name.format": into,
        "key.converter": json_converter,
        "key.converter.schemas.enable": "true",
        "value.converter": json_converter,
        "value.converter.schemas.enable": "true",
        "consumer.override.auto.offset.reset": "earliest",
        "consumer.override.isolation.level": "read_committed",
    }


@pytest.mark.parametrize("form", ["debezium", "flat"])
def test_its_table_is_the_source_s(pipe: Pipe, postgres: Postgres, tmp_path: Path, form: str):
    """A snapshot, changes of each kind, a change of the key, a new column."""
    source, into = pipe.source, f"orders_{form}"
    columns = ", ".join(("id", *ROW))
    source.execute(TABLE)
    source.enable("orders")
    source.execute(f"INSERT dbo.orders VALUES (1, {ALL})", f"INSERT dbo.orders VALUES (2, {NULLS})")

    def has(rows: dict[int, dict[str, Any]], further: str = "") -> bool:
        found = postgres.rows(f"{columns}{further} FROM {into} ORDER BY id")
        return found == [{"id": id_, **row} for id_, row in rows.items()]

    def await_rows(rows: dict[int, dict[str, Any]], what: str, further: str = "") -> None:
        try:
            publisher.until(lambda: bool(worker.failures()) or has(rows, further), what, LIMIT_S)
        except AssertionError as error:
            found = postgres.rows(f"* FROM {into}")
            raise AssertionError(f"{error}; it has {found}; {worker.failures()}") from error
        assert not worker.failures()

    settings = connector(pipe, postgres, into)
    worker = ConnectWorker(
        tmp_path / "connect", pipe.topics.bootstrap, [settings], plugin=jars.jdbc_sink_jars()
    )
    options = {"serialization": "connect_json", "event_form": form}
    with Running(pipe.config(**options)) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshot is out")
        worker.start()
        try:
            await_rows({1: ROW, 2: NOTHING}, "the snapshot is in the database")

            source.execute(f"INSERT dbo.orders VALUES (3, {ALL})")
            source.execute("UPDATE dbo.orders SET price = 1234567.89, note = N'' WHERE id = 2")
            source.execute("UPDATE dbo.orders SET id = 4 WHERE id = 3")
            source.execute("DELETE dbo.orders WHERE id = 1")
            publisher.until(pipe.is_caught_up, "the changes are out")
            changed = NOTHING | {"price": 1234567.89, "note": ""}
            await_rows({2: changed, 4: ROW}, "the changes are in the database")

            source.execute("ALTER TABLE dbo.orders ADD extra int")
            source.enable("orders", capture_instance="N'orders_2'")
            source.execute("UPDATE dbo.orders SET extra = 7 WHERE id = 4")
            publisher.until(pipe.is_caught_up, "the new version is out")
            wider = {2: {**changed, "extra": None}, 4: {**ROW, "extra": 7}}
            await_rows(wider, "the new column is in the database", ", extra")
        finally:
            worker.stop()
    wait_until(lambda: has(wider, ", extra"), "it stays so")
