from dataclasses import replace

import pytest

from tailrace.reading.stopped_tables import TableNote, note_of
from tailrace_publisher.daemon.tables.table_state import TableState
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.checkpoint import TableCheckpoint

RECORD = TableCheckpoint("done", ChangePosition.end_of(Lsn(1, 1, 1)), Lsn(1, 1, 1), snapshot_rows=7)


@pytest.mark.parametrize(
    ("state", "further", "expected"),
    [
        (TableState.FOLLOWED, {}, None),
        (TableState.PENDING, {}, TableNote("in snapshot, 7 rows")),
        (TableState.SNAPSHOTTING, {}, TableNote("in snapshot, 7 rows")),
        (
            TableState.SNAPSHOTTING,
            {"snapshot_paused": True},
            TableNote(
                "snapshot paused",
                "The snapshot of dbo.t is paused at 7 rows. Fix: tailrace snapshot --resume dbo.t",
            ),
        ),
        (
            TableState.HALTED,
            {},
            TableNote(
                "snapshot stopped",
                "The snapshot of dbo.t was stopped. Fix: tailrace snapshot dbo.t",
            ),
        ),
        (
            TableState.STOPPED,
            {"stopped_reason": "SchemaRefused: no"},
            TableNote("stopped", "The publisher stopped dbo.t: SchemaRefused: no"),
        ),
        (
            TableState.LOST,
            {},
            TableNote(
                "stopped",
                "The publisher stopped dbo.t: it is not captured any more (DROP TABLE,"
                " sys.sp_cdc_disable_table), or waits for a capture instance. Fix: tailrace enable"
                " dbo.t, or leave it out: publisher.tables.exclude",
            ),
        ),
        (
            TableState.STOPPED,
            {},
            TableNote("stopped", "The publisher stopped dbo.t: its log has why"),
        ),
    ],
)
def test_a_table_that_is_out_of_the_cut_says_why(state, further, expected):
    assert note_of("dbo.t", replace(RECORD, state=state.value, **further)) == expected
