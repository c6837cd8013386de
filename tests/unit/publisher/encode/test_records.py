"""Fixed records read back, also those that an earlier version wrote."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from tailrace.reading.progress import decode
from tailrace_publisher.encode.records import RecordDecoder, RecordEncoder
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.checkpoint import CHECKPOINT_SCHEMA, TableCheckpoint
from tailrace_schemas.records.progress import (
    ONE_SHARD_SCHEMA,
    PROGRESS_SCHEMA,
    SHARDS_SCHEMA,
    OperationCounts,
    PartitionProgress,
    PatchedColumns,
    Progress,
)
from tailrace_service.registry.client import SchemaRegistry


class Known(SchemaRegistry):
    """A registry that remembers without asking: ids never change their meaning."""

    def __init__(self, **schemas: dict[str, Any]) -> None:
        super().__init__("http://127.0.0.1:1")
        self._schemas = {int(name[1:]): schema for name, schema in schemas.items()}


PROGRESS = Progress(
    0, "s", "db", "a", "b", None, True, 5,
    [PartitionProgress("t", 3, 10, 20, 9, -(2**63), [1, 2], 2**40, OperationCounts(1, 2, 3, 3))],
    ["t2"], 1, [PatchedColumns("t", ["a", "b"])],
)  # fmt: skip
CHECKPOINT = TableCheckpoint(
    "done", ChangePosition(Lsn(1, 2, 3), 2**31 - 1, Lsn(1, 2, 1), Operation.INSERT), Lsn(1, 0, 1)
)


def test_progress_reads_back() -> None:
    raw = RecordEncoder(PROGRESS_SCHEMA, 5).encode(PROGRESS.to_record())
    record = RecordDecoder(PROGRESS_SCHEMA, Known(_5=PROGRESS_SCHEMA)).decode(raw)
    assert record["through_lsn"] == "b"
    assert Progress.from_record(record) == PROGRESS


def test_progress_of_the_first_form_does_not_know_bytes_and_operations() -> None:
    earlier = copy.deepcopy(PROGRESS_SCHEMA)
    (partitions,) = [f for f in earlier["fields"] if f["name"] == "partitions"]
    entry = partitions["type"]["items"]
    entry["fields"] = [f for f in entry["fields"] if f["name"] not in ("bytes", "operations")]
    raw = RecordEncoder(earlier, 4).encode(PROGRESS.to_record())
    record = RecordDecoder(PROGRESS_SCHEMA, Known(_4=earlier)).decode(raw)
    (partition,) = PROGRESS.partitions
    known = replace(partition, bytes=None, operations=None)
    assert Progress.from_record(record) == replace(PROGRESS, partitions=[known])


@pytest.mark.parametrize(
    ("schema", "progress"),
    [
        (PROGRESS_SCHEMA, PROGRESS),
        (SHARDS_SCHEMA, replace(PROGRESS, patched=[])),
        (ONE_SHARD_SCHEMA, replace(PROGRESS, patched=[])),
    ],
)
def test_each_form_of_progress_is_read_without_the_registry(
    schema: dict[str, Any], progress: Progress
) -> None:
    assert decode(RecordEncoder(schema, 5).encode(progress.to_record())) == progress


def test_a_record_of_an_earlier_version_gets_the_defaults() -> None:
    fields = [f for f in CHECKPOINT_SCHEMA["fields"] if f["name"] != "snapshot_resume_key"]
    earlier = {**CHECKPOINT_SCHEMA, "fields": fields}
    raw = RecordEncoder(earlier, 4).encode(CHECKPOINT.to_record())
    record = RecordDecoder(CHECKPOINT_SCHEMA, Known(_4=earlier)).decode(raw)
    assert TableCheckpoint.from_record(record) == CHECKPOINT


@pytest.mark.parametrize("raw", [b"", b"\x00\x00", b"{}{}{}", b"\x00\x00\x00\x00\x05\x00"])
def test_foreign_bytes_are_an_error(raw: bytes) -> None:
    decoder = RecordDecoder(PROGRESS_SCHEMA, Known(_5=PROGRESS_SCHEMA))
    with pytest.raises(ValueError, match=r"framed|magic|not readable"):
        decoder.decode(raw)
