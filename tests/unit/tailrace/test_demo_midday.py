from datetime import UTC, datetime, timedelta

from tailrace.demo.flights import ARRIVE, DEPART, SourceTransaction, change_rows
from tailrace.demo.midday import DEPART_FROM_GATE, with_gates


def test_flights_of_the_afternoon_get_a_gate_and_nothing_else_changes():
    morning, late = datetime(2013, 1, 1, tzinfo=UTC), 3
    left = morning + timedelta(hours=8)
    day = [
        SourceTransaction(
            morning + timedelta(hours=flight),
            "departures",
            ((DEPART, (left, late, flight)), (ARRIVE, (815, 2, 20, False, flight))),
        )
        for flight in range(10)
    ]

    found = with_gates(day)

    assert (found.noon, found.killed, found.gates) == (5, 6, 10)
    assert found.left == {0, 1, 2, 3, 4}
    assert found.changes_before == 20
    assert found.transactions[:5] == day[:5]
    for before, after in zip(day[5:], found.transactions[5:], strict=True):
        flight = before.statements[0][1][-1]
        (sql, values), arrival = after.statements
        assert (sql, arrival) == (DEPART_FROM_GATE, before.statements[1])
        assert values == (left, late, values[2], flight)
        assert len(values[2]) == 3
    assert change_rows(found.transactions) == change_rows(day)
