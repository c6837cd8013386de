"""Messages of an outbox, of a publisher that is killed at each step."""

from __future__ import annotations

from typing import Any

import pytest

from tailrace_publisher.runtime import Step
from tests.simulation.scripted.script import Script

OUTBOX = {"dbo.sent": {"route": "note", "key": "id", "payload": "body", "headers": {}}}


class Outbox(Script):
    """A script with an outbox: the note of a row is its route."""

    def __init__(self, **options: Any) -> None:
        kafka = {"bootstrap": "broker:9092", "partitions": 1}
        options = {"rows_per_transaction": 1, "linger_ms": 0, **options}
        super().__init__(kafka=kafka, outbox=OUTBOX, **options)
        self.create("others")
        self.create("sent", is_captured=False)
        self.alter("sent", "add", "body", "nvarchar(max)")
        self.enable("sent")

    def messages(self) -> dict[str, list[tuple[bytes | None, bytes | None]]]:
        """Committed messages by route, in their order: key and value."""
        return {
            name.rpartition(".")[2]: [
                (entry.key, entry.value)
                for partition in topic.partitions
                for entry in partition.committed()
            ]
            for name, topic in self._sim.broker.topics.items()
            if name.startswith("sim.outbox.")
        }

    def send(self, number: int) -> None:
        """A message whose text says its number."""
        found = self._table("sent")
        row = {1: number, 2: number % 2, 3: f"text {number}"}
        self._commit(found.called, [(number, None, row)])


@pytest.mark.parametrize("step", [Step.SENT, Step.BEFORE_COMMIT, Step.COMMITTED])
def test_each_insert_is_one_message_in_order(step: Step):
    script = Outbox()
    script.publish(lambda: not script.out_of_cut())
    for number in range(8):
        script.send(number)
        script.insert("others", number)
    script.delete("sent", 3)
    script.update("sent", 4, 9)
    for _ in range(4):
        script.die_at(step, 2)
    script.publish()

    assert script.messages() == {
        route: [(str(n).encode(), f"text {n}".encode()) for n in range(8) if str(n % 2) == route]
        for route in ("0", "1")
    }
    assert [op for op, _ in script.changes("sent")] == ["c"] * 8 + ["d", "u"]
    assert len(script.changes("others")) == 8


def test_rows_of_snapshots_are_no_messages():
    script = Outbox()
    script.send(1)
    script.publish(lambda: not script.out_of_cut())
    script.ask_for("sent")
    script.publish(lambda: not script.out_of_cut())
    assert set(script.snapshot("sent")) <= {1}
    before = sum(map(len, script.messages().values()))

    script.send(2)
    script.publish()
    assert sum(map(len, script.messages().values())) == before + 1


def test_a_message_without_a_route_stops_its_table_alone():
    script = Outbox(rows_per_transaction=1000, page_rows=1000, window_transactions=1000)
    script.publish(lambda: not script.out_of_cut())
    script.send(1)
    script.insert("others", 1)
    script._commit("sent", [(5, None, {1: 5, 2: None, 3: "lost"})])
    script.insert("others", 2)
    told = script.publish(lambda: script.out_of_cut() == {"sent"})

    (stopped,) = [event for event in told if event["event"] == "table_stopped"]
    assert "its value is NULL or empty" in stopped["reason"]
    assert script.changes("others") == [("c", 1), ("c", 2)]
    assert not any(script.messages().values()), "what was sent with it is aborted"
