"""Of two publishers with one transactional id exactly one remains."""

from dataclasses import replace

import pytest

from tailrace_publisher.daemon.fencing import FencingCheck
from tailrace_publisher.errors import LeaseLost
from tailrace_schemas.checkpoint import CheckpointKey, CheckpointRecord

KEY = CheckpointKey("server", "db", "")
RECORD = CheckpointRecord(
    start_lsn="00000001:00000001:0001",
    seqval="00000000:00000000:0000",
    command_id=0,
    operation=0,
    schema_lsn=None,
    snapshot_state="done",
    snapshot_fence_lsn=None,
    snapshot_resume_key=None,
    snapshot_rows=0,
    database_guid=None,
    recovery_fork_guid=None,
    written_ms=1,
)


def fenced(last: CheckpointRecord) -> FencingCheck:
    fencing = FencingCheck(KEY)
    fencing.found({KEY: RECORD})
    fencing.written({KEY: last})
    fencing.doubt(LeaseLost("fenced"))
    return fencing


def test_fenced_by_the_transaction_timeout_it_goes_on():
    fencing = fenced(RECORD)

    fencing.found({KEY: RECORD})
    fencing.written({KEY: replace(RECORD, written_ms=2)})
    fencing.doubt(LeaseLost("fenced again, much later"))


def test_fenced_by_another_publisher_it_ends():
    fencing = fenced(RECORD)

    with pytest.raises(LeaseLost, match="another publisher of database db"):
        fencing.found({KEY: replace(RECORD, written_ms=2)})


def test_fenced_twice_without_a_commit_between_it_ends():
    fencing = fenced(RECORD)
    fencing.found({KEY: RECORD})

    with pytest.raises(LeaseLost, match="fenced"):
        fencing.doubt(LeaseLost("fenced"))
