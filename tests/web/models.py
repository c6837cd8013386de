"""What the page shows in the tests: a shop, well or in trouble."""

from __future__ import annotations

import time
from dataclasses import replace

from tailrace.lag.freshness import Freshness, StageLag, TableFreshness
from tailrace.reading.stopped_tables import PublisherNotes
from tailrace.web.model import Model, put_together
from tailrace.web.strip import Ledger
from tailrace_schemas.records.progress import PartitionProgress, Progress
from tailrace_schemas.records.signals import PauseSignal
from tailrace_service.status import DaemonStatus, Failure, TableStatus

NOW_MS = time.time_ns() // 1_000_000
"""When the tests began: the page then shows times that fit its clock."""
LSN = "0000002a:00000150:0003"
NAMES = ("orders", "items", "customers", "docs", "payments", "audit_log")
WATCHED = ("publisher", "sink")


def daemon(program: str, *tables: TableStatus, state: str = "running") -> DaemonStatus:
    """A daemon that has been in its state for two hours."""
    since_ms = NOW_MS - 7_300_000
    return DaemonStatus(program, state, since_ms, NOW_MS, "shop", "Shop", tables=tables)


def healthy(names: tuple[str, ...] = NAMES, *states: tuple[str, str]) -> Model:
    """A pipeline that runs; some tables in another state than followed.

    Args:
        states: a table and its state each.
    """
    told = dict(states)
    stage = StageLag(LSN, NOW_MS - 1_000, 1.0, 0.0)
    tables = tuple(
        TableFreshness(
            f"dbo.{name}", LSN, NOW_MS - 60_000 * place, 0.0, 0.0, 0.0, in_cut=name not in told
        )
        for place, name in enumerate(names, 1)
    )
    freshness = Freshness(
        NOW_MS,
        0.5,
        dict.fromkeys(("captured", "topics", "log", "lake"), stage),
        tables,
        retention_s=259_200.0,
        capture_age_s=1.0,
        published_ms=NOW_MS - 3000,
    )
    statuses = [
        TableStatus(f"dbo.{name}", "t", told.get(name, "followed"), **_details(told.get(name)))
        for name in names
    ]
    publisher = daemon("publisher", *statuses)
    sink = daemon("sink")
    rows = put_together(freshness, publisher, sink, PublisherNotes())
    rows = tuple(replace(row, rows=1200) for row in rows)
    since_ms = NOW_MS - 1_500_000
    return Model(freshness, publisher, sink, rows, _strip(), {}, True, WATCHED, since_ms=since_ms)


def _details(state: str | None) -> dict[str, object]:
    if state == "stopped":
        reason = (
            "RecordTooLarge: a value of 6,291,456 bytes exceeds max.message.bytes (1,048,588) of"
            " topic shop.Shop.dbo.docs. Fix: kafka-configs.sh --alter --topic shop.Shop.dbo.docs"
            " --add-config max.message.bytes=16777216, then tailrace snapshot dbo.docs"
        )
        return {"reason": reason}
    if state == "snapshotting":
        return {
            "snapshot_rows": 340_000,
            "snapshot_bytes": 48_300_000,
            "snapshot_estimate": 1_000_000,
            "snapshot_left_s": 95.0,
        }
    return {}


def stopped_table() -> Model:
    """One table stopped, one in its snapshot."""
    return healthy(NAMES, ("docs", "stopped"), ("payments", "snapshotting"))


def slow_lake() -> Model:
    """The sink runs, and its tables are minutes late."""
    seen = healthy()
    late = replace(seen.freshness.stages["lake"], lag_s=754.0)
    stages = {**seen.freshness.stages, "lake": late}
    rows = [replace(row, lake_s=754.0) if row.table == "dbo.orders" else row for row in seen.rows]
    return replace(seen, freshness=replace(seen.freshness, stages=stages), rows=tuple(rows))


def dead_publisher() -> Model:
    """Nothing was published for four minutes, and nobody answers."""
    seen = healthy()
    late = replace(seen.freshness.stages["topics"], age_s=260.0, lag_s=250.0)
    stages = {**seen.freshness.stages, "topics": late, "log": late, "lake": late}
    freshness = replace(seen.freshness, stages=stages, published_ms=NOW_MS - 240_000)
    problems = {"publisher": "http://127.0.0.1:9400: Connection refused"}
    return replace(seen, freshness=freshness, publisher=None, problems=problems)


def dead_sink() -> Model:
    """The sink does not answer."""
    return replace(healthy(), sink=None, problems={"sink": "http://127.0.0.1:9401: refused"})


def dead_broker() -> Model:
    """Kafka is away: nothing is known of topics."""
    seen = healthy()
    stages = {**seen.freshness.stages, "topics": StageLag()}
    problems = {"topics": "no broker answers at broker1:9092"}
    freshness = replace(seen.freshness, stages=stages, published_ms=None)
    failure = Failure(NOW_MS - 5000, "KafkaUnavailable", "no broker answers at broker1:9092")
    publisher = replace(daemon("publisher", state="retrying"), errors=(failure,))
    return replace(seen, freshness=freshness, publisher=publisher, problems=problems)


def paused() -> Model:
    """An operator has paused the publisher."""
    seen = healthy()
    assert seen.publisher is not None
    return replace(seen, publisher=replace(seen.publisher, state="paused"))


def many() -> Model:
    """Three hundred tables, one of them stopped."""
    names = tuple(f"table_{number:03}" for number in range(300))
    return healthy(names, ("table_123", "stopped"))


def _strip() -> tuple[tuple[int, object], ...]:
    """Six hours with a restart, a new schema and a snapshot."""
    ledger = Ledger()
    for number in range(430):
        at_ms = NOW_MS - (430 - number) * 50_000
        lag_ms = 400 + (number * 37) % 900 + (9000 if 200 < number < 210 else 0)
        schema_ids = [7] if number < 300 else [8]
        partition = PartitionProgress("shop.Shop.dbo.orders", 0, number, number + 40, 40, 0)
        partition.schema_ids = schema_ids
        record = Progress(
            shard=0,
            server="shop",
            database="Shop",
            after_lsn=f"{number:08x}",
            closed_lsn=f"{number + 1:08x}",
            closed_commit_ms=at_ms - lag_ms,
            closed=True,
            published_ms=at_ms,
            partitions=[partition] if number % 3 else [],
            snapshotting=["shop.Shop.dbo.payments"] if number > 380 else [],
        )
        ledger.add(record, "host1:100" if number < 200 else "host1:200")
    ledger.add_signal(PauseSignal(is_paused=True).to_bytes(), NOW_MS - 14_100_000)
    ledger.add_signal(PauseSignal(is_paused=False).to_bytes(), NOW_MS - 13_200_000)
    cuts = [
        (NOW_MS - place * 60_000, NOW_MS - place * 60_000 - 2000 - (place * 53) % 3000)
        for place in range(1, 350)
    ]
    return tuple(ledger.strip(NOW_MS, cuts))
