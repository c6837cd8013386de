"""Dead letters among events: what is put aside, and what is left, is told apart exactly."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal
from typing import Any

import pytest

from tailrace_publisher.encode.around_bad_events import encode_around, encode_images_around
from tailrace_publisher.encode.encoded_events import EncodedRows, joined_rows
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.errors import EncodeError
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.events.transforms import ColumnTransform, TransformKind
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.dead_letters import ROW_CHARACTERS, DeadLetter, row_of
from tailrace_schemas.topics.topic_names import TableName

COMMIT = Lsn(1, 2, 3).to_bytes()
COMMIT_MS = {COMMIT: 1_000}
BAD = "half a pair: \ud83d"
COLUMNS = (
    SchemaColumn(1, "id", ColumnType("int"), nullable=False, key_ordinal=1),
    SchemaColumn(2, "text", ColumnType("nvarchar", length=50)),
)


@pytest.fixture
def encoder() -> EnvelopeEncoder:
    schema = TableSchema(TableName("db", "dbo", "t"), "dbo_t", Lsn(1, 1, 1), COLUMNS)
    return EnvelopeEncoder("s", schema, "p.db.dbo.t", 1, 2)


def seqval(number: int) -> bytes:
    return Lsn(1, 2, number).to_bytes()


def rows_of(kinds: str) -> tuple[list[tuple[Any, ...]], list[int], list[int]]:
    """Rows; c, d and u as they are, in capitals where they do not fit; numbers of both events."""
    rows: list[tuple[Any, ...]] = []
    good: list[int] = []
    bad: list[int] = []
    for number, kind in enumerate(kinds):
        (bad if kind.isupper() else good).append(number)
        text = BAD if kind.isupper() else "fits"
        head = (COMMIT, 0, seqval(number))
        match kind.lower():
            case "c":
                rows.append((*head, 2, b"\x03", number, text))
            case "d":
                rows.append((*head, 1, b"\x03", number, text))
            case _:
                is_before = number % 2
                rows.append((*head, 3, b"\x02", number, text if is_before else "fits"))
                rows.append((*head, 4, b"\x02", number, "fits" if is_before else text))
    return rows, good, bad


def assert_apart(encoder: EnvelopeEncoder, kinds: str) -> None:
    rows, good, bad = rows_of(kinds)
    encoded = encode_around(encoder, rows, COMMIT_MS)
    assert encoded.positions == sorted(encoded.positions)
    at = [ChangePosition.from_bytes(position) for position in encoded.positions]
    assert [at[index].seqval.to_bytes() for index in encoded.letters] == [*map(seqval, bad)]
    assert all(letter.position == at[index] for index, letter in encoded.letters.items())
    events = encoded.events()
    left = [row for row in rows if row[2] in {*map(seqval, good)}]
    expected = encoder.encode(left, COMMIT_MS)
    assert (events.values, events.keys, events.positions, events.deletes) == (
        expected.values,
        expected.keys,
        expected.positions,
        expected.deletes,
    )
    cut = len(encoded) // 2
    halves = [encoded.slice(0, cut), encoded.slice(cut, len(encoded))]
    assert joined_rows(halves) == encoded


@pytest.mark.parametrize("kinds", ["C", "U", "D", "cU", "Uc", "UU", "cDu", "uuU", "CCCC", "dUcUd"])
def test_bad_events_are_told_apart(encoder: EnvelopeEncoder, kinds: str):
    assert_apart(encoder, kinds)


@pytest.mark.parametrize("seed", range(20))
def test_bad_events_anywhere_are_told_apart(encoder: EnvelopeEncoder, seed: int):
    chosen = random.Random(seed)
    assert_apart(encoder, "".join(chosen.choices("ccccuuuudddCUD", k=chosen.randint(1, 120))))


def test_a_damaged_change_table_is_no_bad_event(encoder: EnvelopeEncoder):
    rows, _, _ = rows_of("cCu")
    with pytest.raises(EncodeError, match="operation"):
        encode_around(encoder, rows[:-1], COMMIT_MS)


def test_rows_of_a_snapshot_are_told_apart(encoder: EnvelopeEncoder):
    rows = [(number, BAD if number in {0, 3, 9} else "fits") for number in range(10)]
    images, keys, letters = encode_images_around(encoder, rows, Lsn(1, 1, 1))
    assert list(letters) == [0, 3, 9]
    good = [place for place in range(10) if place not in letters]
    assert ([images[p] for p in good], [keys[p] for p in good]) == encoder.encode_images(
        [rows[place] for place in good], Lsn(1, 1, 1)
    )


def test_a_letter_says_where_why_and_what_without_values_in_the_headers(encoder: EnvelopeEncoder):
    rows, _, _ = rows_of("cU")
    (letter,) = encode_around(encoder, rows, COMMIT_MS).letters.values()
    headers = {name: value.decode() for name, value in letter.headers()}
    assert headers == {
        "table": "db.dbo.t",
        "topic": "p.db.dbo.t",
        "op": "u",
        "commit_lsn": str(Lsn(1, 2, 3)),
        "command_id": "0",
        "seqval": str(Lsn(1, 2, 1)),
        "operation": "4",
        "error": "EncodeError",
        "reason": f"a str of length {len(BAD)} does not fit nvarchar(50): UnicodeEncodeError",
        "column": "text",
    }
    assert json.loads(letter.value() or b"") == {
        "before": {"id": "1", "text": BAD},
        "after": {"id": "1", "text": "fits"},
        "cut": [],
        "left_out": [],
    }


def test_a_letter_holds_no_hashed_value_and_is_bounded():
    hashed = ColumnTransform(TransformKind.HASH, "")
    columns = (
        *COLUMNS,
        SchemaColumn(3, "card", ColumnType("nvarchar", length=64), transform=hashed),
        SchemaColumn(4, "raw", ColumnType("varbinary", length=-1)),
    )
    row = row_of(columns, None, [1, "x" * 1_000_000, "4000 1234", b"\x00" * 1_000_000])
    assert row["left_out"] == ["card"]
    assert row["cut"] == ["text", "raw"]
    position = ChangePosition(Lsn(1, 2, 3), 0, Lsn(1, 2, 3), Operation.INSERT)
    value = DeadLetter("t", "p", position, "E", "r", row=row).value() or b""
    assert b"4000" not in value
    assert len(value) < 2 * ROW_CHARACTERS


def test_values_are_texts():
    values = [dt.datetime(2026, 1, 2, 3, 4, 5, 600), Decimal("1.50"), b"\x01", None, 7]  # noqa: DTZ001
    columns = [SchemaColumn(n, f"c{n}", ColumnType("int")) for n in range(len(values))]
    assert list(row_of(columns, values, None)["before"].values()) == [
        "2026-01-02T03:04:05.000600",
        "1.50",
        "0x01",
        None,
        "7",
    ]


def test_letters_of_nothing_are_nothing():
    rows = EncodedRows("t", 1, [b"a"], [None], [b"v"])
    assert rows.events() is rows
