"""tailrace audit --lake: what a log of two cuts holds, and what each kind of fault looks like."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tailrace.audit.lake_log import LakeAudit, LogAudit
from tailrace.audit.ledger import Problems
from tailrace.lake.log import LOG, DeltaLog
from tailrace.lake.store import LakeStore
from tailrace.reading.record_decoder import PositionDecoder
from tailrace_schemas.events.framing import frame_header
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.progress import (
    PROGRESS_SCHEMA,
    PartitionProgress,
    Progress,
    position_hash,
    signed,
)
from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_sink.log.cut_rows import rows_of_events, rows_of_state
from tailrace_sink.plan.cut_plan import LogRange
from tailrace_sink.plan.log_state import LogState
from tailrace_sink.plan.progress_record import Loss, ProgressRecord
from tailrace_sink.plan.scopes import log_scope
from tailrace_sink.plan.sink_state import Position, SinkState

NAMES = TopicNames("p")
DAY = dt.date(2026, 11, 27)
ORDERS, LINES = "p.shop.dbo.orders", "p.shop.dbo.lines"


def position(number: int) -> ChangePosition:
    return ChangePosition(Lsn(1, number, 1), 1, Lsn(1, number, 2), Operation.INSERT)


def event(number: int) -> bytes:
    at = position(number)
    source = {"commit_lsn": str(at.commit_lsn), "command_id": at.command_id}
    source |= {"change_lsn": str(at.seqval), "operation": at.operation}
    return json.dumps({"op": "c", "source": source}).encode()


def part(topic: str, first: int, numbers: list[int], tombstones: int = 0) -> PartitionProgress:
    total = signed(sum(position_hash(position(number).to_bytes()) for number in numbers))
    end = first + len(numbers) + tombstones
    return PartitionProgress(topic, 0, first, end, len(numbers), total)


def record(offset: int, *parts: PartitionProgress) -> Progress:
    after, closed = (f"00000001:{number:08x}:0001" for number in (offset, offset + 1))
    return Progress(0, "s", "shop", after, closed, None, True, 0, list(parts))


def rows(topic: str, first: int, numbers: list[int]) -> list[dict[str, object]]:
    return [
        {"topic": topic, "partition": 0, "offset": offset, "schema_id": 0, "value": event(number)}
        for offset, number in enumerate(numbers, first)
    ]


@dataclass
class Lake:
    """A log as the sink writes it, and the progress records that Kafka has."""

    folder: Path
    ledger: dict[int, Progress]

    def append(
        self,
        offset: int,
        parts: list[PartitionProgress],
        events: list[dict[str, object]],
        *,
        lost: dict[str, Loss] | None = None,
        in_kafka: dict[str, LogRange] | None = None,
    ) -> None:
        """Append a cut with one progress record."""
        taken = record(offset, *parts)
        self.ledger[offset] = taken
        written = io.BytesIO()
        fastavro.schemaless_writer(written, PROGRESS_SCHEMA, taken.to_record())
        at = Position(0, offset + 1, taken.closed_lsn)
        sink = SinkState(batch=offset + 1, closed_lsn=taken.closed_lsn, position=at)
        state = LogState(sink, 1, "owner", prefix="p", lost=lost or {}, in_kafka=in_kafka or {})
        value = frame_header(1) + written.getvalue()
        table = rows_of_state(state, [ProgressRecord(0, offset, taken, value)], NAMES.progress, DAY)
        keyed = [{**row, "key": None} for row in events]
        if keyed:
            table = pa.concat_tables(
                [table, rows_of_events(pa.Table.from_pylist(keyed), state, DAY)]
            )
        mark = Transaction(log_scope("p"), state.mark.version)
        write_deltalake(
            f"{self.folder}/{LOG}",
            table,
            mode="append",
            partition_by=["day"],
            commit_properties=CommitProperties(app_transactions=[mark]),
        )

    def audited(self) -> tuple[LakeAudit, list[str]]:
        log = DeltaLog.of(LakeStore.of(str(self.folder), {}))
        assert log is not None
        problems = Problems()
        positions = PositionDecoder(None)  # type: ignore[arg-type] - JSON names no schema
        found = LogAudit(log, self.ledger, NAMES, positions, problems).run()
        return found, problems.texts

    def delete(self, condition: str) -> None:
        DeltaTable(f"{self.folder}/{LOG}").delete(condition)

    def add(self, batch: int, events: list[dict[str, object]]) -> None:
        table = DeltaTable(f"{self.folder}/{LOG}")
        common = {"day": DAY, "batch": batch, "lsn": "", "key": None, "state": None}
        schema = pa.schema(table.schema().to_arrow())
        write_deltalake(
            table,
            pa.Table.from_pylist([{**common, **row} for row in events], schema=schema),
            mode="append",
        )


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two topics in two cuts; a tombstone has an offset and no event."""
    made = Lake(tmp_path, {})
    made.append(
        3,
        [part(ORDERS, 0, [1, 2, 3], tombstones=1), part(LINES, 10, [4])],
        [*rows(ORDERS, 0, [1, 2, 3]), *rows(LINES, 10, [4])],
    )
    made.append(4, [part(ORDERS, 4, [5])], rows(ORDERS, 4, [5]))
    return made


def test_a_whole_log_has_no_problem(lake):
    lake.ledger[1] = record(1, part(ORDERS, 0, [0]))  # before the log's first cut
    lake.ledger[2] = record(2)  # a heartbeat
    lake.ledger[5] = record(5, part(ORDERS, 5, [6]))  # not read yet
    found, problems = lake.audited()
    assert problems == []
    assert found == LakeAudit("00000001:00000005:0001", cuts=2, events=5, earlier=1)


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        (
            lambda lake: lake.delete(f"topic = '{ORDERS}' AND \"offset\" = 1"),
            f"topic {ORDERS} partition 0 offsets 0 to 3 has 2 events, 3 were published",
        ),
        (
            lambda lake: lake.add(4, rows(ORDERS, 1, [2])),
            f"topic {ORDERS} partition 0 offsets 0 to 3 has 4 events, 3 were published",
        ),
        (
            lambda lake: (
                lake.delete(f"topic = '{ORDERS}' AND \"offset\" = 1"),
                lake.add(4, rows(ORDERS, 1, [9])),
            ),
            f"topic {ORDERS} partition 0 offsets 0 to 3 has other events than were published",
        ),
        (
            lambda lake: lake.add(4, rows(LINES, 11, [7])),
            f"topic {LINES} partition 0 from offset 10: no progress record accounts for 1 events",
        ),
        (
            lambda lake: lake.add(5, rows(LINES, 11, [7])),
            f"topic {LINES} partition 0 from offset 11: no progress record accounts for 1 events",
        ),
        (
            lambda lake: lake.ledger.update({3: record(3, part(ORDERS, 0, [1]))}),
            "the progress record at offset 3 is not the one in Kafka",
        ),
        (
            lambda lake: lake.add(5, [{**rows(ORDERS, 1, [2])[0], "value": b"{}"}]),
            f"topic {ORDERS} partition 0 from offset 1: no progress record accounts for 1 events",
        ),
        (
            lambda lake: (
                lake.delete(f"topic = '{LINES}'"),
                lake.add(4, [{**rows(LINES, 10, [4])[0], "value": b"{}"}]),
            ),
            f"topic {LINES} partition 0 offsets 10 to 10: not events of ours ('source')",
        ),
    ],
)
def test_each_fault_of_a_log_is_named(lake, harm: Callable[[Lake], object], problem: str):
    harm(lake)
    _, problems = lake.audited()
    assert [text.removeprefix("the lake's log: ") for text in problems] == [problem]


def test_a_progress_record_that_the_log_lost_is_named_with_its_events(lake):
    lake.append(5, [part(LINES, 11, [6])], rows(LINES, 11, [6]))
    lake.delete(f"topic = '{NAMES.progress}' AND batch = 5")
    _, problems = lake.audited()
    assert problems == [
        f"the lake's log: topic {ORDERS} partition 0 from offset 4: no progress record accounts"
        " for 1 events",
        "the lake's log lacks the progress record at offset 4, LSN 00000001:00000005:0001",
    ]


def test_what_the_log_lacks_by_design_is_counted_with_its_reason(lake):
    lake.append(
        5,
        [part(LINES, 11, [6, 7]), part(ORDERS, 5, [8, 9, 10]), part("p.shop.dbo.old", 0, [11])],
        rows(ORDERS, 6, [9]),
        lost={"p.shop.dbo.old": Loss("excluded"), ORDERS: Loss("gone", {0: 6})},
        in_kafka={LINES: LogRange({0: (11, 13)}, 2)},
    )
    found, problems = lake.audited()
    assert problems == []
    assert found.left_out == {
        "excluded": 1,
        "gone": 3,
        "read from Kafka in bulk, without the log": 2,
    }


def test_a_log_without_a_cut_is_a_problem(tmp_path):
    lake = Lake(tmp_path, {})
    lake.append(0, [], [])
    lake.delete("topic = ''")
    assert DeltaLog.of(LakeStore.of(str(tmp_path), {})) is None
