"""Numbers of events in their source transactions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tailrace_publisher.encode.columns.varint import NULL, PRESENT, encode_long, encode_string
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.encode.envelopes.transaction_numbers import TransactionNumbers
from tailrace_schemas.position.change_position import pack_position
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.transactions import Boundary
from tailrace_schemas.topics.topic_names import TableName


def lsn(number: int) -> Lsn:
    return Lsn(0, number, 0)


def position(commit: int, seqval: int) -> bytes:
    return pack_position(lsn(commit).to_bytes(), 1, Lsn(0, seqval, 0).to_bytes(), 2)


def block(commit: int, total: int, own: int) -> bytes:
    return PRESENT + encode_string(str(lsn(commit))) + encode_long(total) + encode_long(own)


def part(table: str, positions: list[bytes]) -> EncodedRows:
    values = [b"event" + place + NULL for place in positions]
    return EncodedRows(
        "topic", 7, positions, [None] * len(positions), values, [], TableName("db", "dbo", table)
    )


def test_events_of_several_tables_are_numbered_in_the_order_of_their_positions():
    numbers = TransactionNumbers(Lsn.ZERO)
    a = part("a", [position(1, 1), position(1, 4), position(2, 1)])
    b = part("b", [position(1, 2)])
    (first, second), boundaries = numbers.number([a, b], {lsn(1).to_bytes(): 5}, ends=False)
    assert first.values == [
        b"event" + position(1, 1) + block(1, 1, 1),
        b"event" + position(1, 4) + block(1, 3, 2),
        b"event" + position(2, 1) + block(2, 1, 1),
    ]
    assert second.values == [b"event" + position(1, 2) + block(1, 2, 1)]
    assert boundaries == [
        Boundary(lsn(1), 5),
        Boundary(lsn(1), 5, {"db.dbo.a": 2, "db.dbo.b": 1}),
        Boundary(lsn(2), None),
    ]
    assert numbers.open_counts == {"db.dbo.a": 1}
    assert a.values[0].endswith(NULL), "what was given is left alone"
    assert numbers.end() == [Boundary(lsn(2), None, {"db.dbo.a": 1})]
    assert numbers.end() == []
    assert numbers.open_counts is None


def test_a_transaction_that_goes_on_behind_a_restart_ends_with_its_time():
    numbers = TransactionNumbers(lsn(1), {"db.dbo.a": 2})
    _, boundaries = numbers.number([part("a", [position(1, 9)])], {lsn(1).to_bytes(): 5}, ends=True)
    assert boundaries == [Boundary(lsn(1), 5, {"db.dbo.a": 3})]


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from("abc")), max_size=30), st.data())
def test_cuts_and_restarts_change_no_number(rows: list[tuple[int, str]], data: st.DataObject):
    events = [(position(commit, n), t) for n, (commit, t) in enumerate(sorted(rows))]

    def published(cuts: list[int]) -> tuple[dict[bytes, bytes], list[tuple[str, object]]]:
        values: dict[bytes, bytes] = {}
        told: list[tuple[str, object]] = []
        numbers = TransactionNumbers(Lsn.ZERO)
        for start, stop in zip([0, *cuts], [*cuts, len(events)], strict=True):
            piece = events[start:stop]
            if not piece:
                continue
            parts = [
                part(t, [p for p, name in piece if name == t])
                for t in sorted({name for _, name in piece})
            ]
            last = piece[-1][0][:10]
            ends = stop == len(events) or events[stop][0][:10] != last
            numbered, boundaries = numbers.number(parts, {}, ends=ends)
            told += [(str(b.commit_lsn), b.counts) for b in boundaries]
            for found in numbered:
                values |= dict(zip(found.positions, found.values, strict=True))
            numbers = TransactionNumbers(Lsn.from_bytes(last), numbers.open_counts)
        return values, told

    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=5)))
    assert published(cuts) == published([])


def test_a_boundary_is_as_debezium_shapes_it():
    begun, ended = Boundary(lsn(1), 5), Boundary(lsn(1), 5, {"b": 1, "a": 2})
    assert begun.to_key() == {"id": str(lsn(1))}
    assert begun.to_record() == {
        "status": "BEGIN",
        "id": str(lsn(1)),
        "event_count": None,
        "data_collections": None,
        "ts_ms": 5,
    }
    assert ended.to_record() == begun.to_record() | {
        "status": "END",
        "event_count": 3,
        "data_collections": [
            {"data_collection": "a", "event_count": 2},
            {"data_collection": "b", "event_count": 1},
        ],
    }
