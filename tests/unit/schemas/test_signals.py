"""Signals: in our form and in Debezium's."""

from __future__ import annotations

import json

import pytest

from tailrace_schemas.records.signals import (
    AcceptedLoss,
    PauseSignal,
    RepairSignal,
    RowKeys,
    Signal,
    SnapshotSignal,
    TableOrder,
    TableSignal,
    read_signal,
)

TABLES = ("dbo.orders", "dbo.Order Items")
OURS = [
    SnapshotSignal(TABLES),
    SnapshotSignal(TABLES, {"dbo.orders": "status = N'it''s'"}),
    RepairSignal("dbo.orders", RowKeys(("a", "b"), (("1", "x"), ("2", "ä'")))),
    *(TableSignal(order, TABLES) for order in TableOrder),
    *(TableSignal(order) for order in TableOrder if order is not TableOrder.STOP_TABLE),
    PauseSignal(True),
    PauseSignal(False),
    AcceptedLoss("airline", "flights", 7, "00000001:00000002:0003"),
]


def _executing(*conditions: object) -> dict[str, object]:
    data = {"data-collections": ["dbo.a"], "additional-conditions": list(conditions)}
    return {"type": "execute-snapshot", "data": data}


@pytest.mark.parametrize("signal", OURS, ids=str)
def test_each_is_read_as_it_was_written(signal: Signal):
    assert read_signal(signal.to_bytes()) == signal


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            {
                "id": "a1",
                "type": "execute-snapshot",
                "data": {"data-collections": list(TABLES), "type": "INCREMENTAL"},
            },
            SnapshotSignal(TABLES),
        ),
        (
            {
                "type": "execute-snapshot",
                "data": {
                    "data-collections": list(TABLES),
                    "additional-conditions": [
                        {"data-collection": "DBO.orders", "filter": "id > 7"}
                    ],
                },
            },
            SnapshotSignal(TABLES, {"DBO.orders": "id > 7"}),
        ),
        ({"type": "pause-snapshot"}, TableSignal(TableOrder.PAUSE_SNAPSHOT)),
        ({"type": "resume-snapshot", "data": {}}, TableSignal(TableOrder.RESUME_SNAPSHOT)),
        (
            {"type": "stop-snapshot", "data": {"data-collections": ["d.dbo.orders"]}},
            TableSignal(TableOrder.STOP_SNAPSHOT, ("d.dbo.orders",)),
        ),
    ],
    ids=lambda value: str(value.get("type")) if isinstance(value, dict) else "",
)
def test_debezium_s_are_taken(value: dict[str, object], expected: Signal):
    assert read_signal(json.dumps(value).encode()) == expected


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"type": "stop_table"}, "expected"),
        ({"type": "snapshot", "tables": []}, "expected"),
        ({"type": "pause_snapshot", "tables": [1]}, "expected"),
        ({"type": "stop_snapshot", "tables": []}, "expected"),
        (["pause"], "expected"),
        ({"type": "execute-snapshot"}, "expected"),
        ({"type": "execute-snapshot", "data": "all"}, "is no object"),
        ({"type": "execute-snapshot", "data": {"type": "blocking"}}, "type blocking"),
        (
            {"type": "execute-snapshot", "data": {"surrogate-key": "id"}},
            "surrogate-key of execute-snapshot is not supported",
        ),
        (
            {"type": "stop-snapshot", "data": {"additional-conditions": [1]}},
            "additional-conditions of stop-snapshot is not supported",
        ),
        (_executing({"data-collection": "dbo.b", "filter": "1=1"}), "names dbo.b, which is not"),
        (_executing({"data-collection": "dbo.a"}), "has another form"),
        (
            _executing({"data-collection": "dbo.a", "filter": "1=1", "surrogate-key": "x"}),
            "has another form",
        ),
        (_executing(*[{"data-collection": "dbo.a", "filter": "1=1"}] * 2), "names a table twice"),
        ({"type": "snapshot", "tables": ["dbo.a"], "where": "id > 7"}, "where is no object"),
        (
            {"type": "snapshot", "tables": ["dbo.a"], "where": {"dbo.a": "1=1", "DBO.a": "2=2"}},
            "names a table twice",
        ),
    ],
    ids=str,
)
def test_what_is_none_or_asks_for_more_is_refused(value: object, reason: str):
    with pytest.raises(ValueError, match=reason):
        read_signal(json.dumps(value).encode())
