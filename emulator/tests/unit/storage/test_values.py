from __future__ import annotations

import datetime
import uuid

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace_emulator.storage.collation import (
    BINARY,
    CASE_INSENSITIVE,
    NATIONAL,
    collation_key,
    register_collations,
    sqlite_collation,
)
from tailrace_emulator.storage.values import (
    datetime_of,
    decimal_text,
    round_datetime,
    ticks_of,
    value_text,
)
from tailrace_emulator.values.clock import ManualClock, SystemClock
from tailrace_emulator.values.types import SqlType, pack_offset


@given(st.datetimes())
def test_datetimes_and_ticks(moment: datetime.datetime) -> None:
    assert datetime_of(ticks_of(moment)) == moment


def test_ends_of_the_calendar() -> None:
    assert ticks_of(datetime_of(0)) == 0
    assert datetime_of(0).isoformat() == "0001-01-01T00:00:00"
    assert datetime_of(3_155_378_975_999_999_999).isoformat() == "9999-12-31T23:59:59.999999"


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [(0, 0), (1, 0), (2, 3), (3, 3), (4, 3), (5, 7), (6, 7), (7, 7), (8, 7), (9, 10), (999, 1000)],
)
def test_datetime_rounds_to_300ths(milliseconds: int, shown: int) -> None:
    """As documented for datetime: .000, .003, .007."""
    day = 736_329 * 864_000_000_000
    assert round_datetime(day + milliseconds * 10_000) - day == shown * 10_000


@given(st.integers(0, 3_155_378_975_990_000_000))
def test_rounding_twice_changes_nothing(ticks: int) -> None:
    once = round_datetime(ticks)
    assert round_datetime(once) == once
    assert abs(once - ticks) <= 20_000


@pytest.mark.parametrize(
    ("scaled", "scale", "text"),
    [(0, 2, "0.00"), (-5, 2, "-0.05"), (123, 0, "123"), (7, 3, "0.007")],
)
def test_decimal_text(scaled: int, scale: int, text: str) -> None:
    assert decimal_text(scaled, scale) == text


def test_offsets_show_local_time() -> None:
    packed = pack_offset(ticks_of(datetime.datetime(2020, 1, 1, 23)), 90)  # noqa: DTZ001
    assert value_text(packed, SqlType("datetimeoffset", scale=0)) == "2020-01-02 00:30:00 +01:30"


def test_unknown_values_show_as_null() -> None:
    assert value_text(None, SqlType("int")) == "<NULL>"
    assert value_text(uuid.UUID(int=1).bytes, SqlType("binary", length=16)).startswith("0x00")


def test_collation_names() -> None:
    for name in (None, "SQL_Latin1_General_CP1_CI_AS"):
        assert sqlite_collation(name, national=False) == CASE_INSENSITIVE
        assert sqlite_collation(name, national=True) == NATIONAL
    for national in (True, False):
        assert sqlite_collation("Latin1_General_CI_AS", national=national) == NATIONAL
        assert sqlite_collation("Latin1_General_100_BIN2_UTF8", national=national) == BINARY


@pytest.mark.parametrize(
    ("collation", "left", "right", "equal"),
    [
        ("SQL_Latin1_General_CP1_CI_AS", "abc", "ABC  ", True),
        ("SQL_Latin1_General_CP1_CI_AS", "É", "é", True),
        ("SQL_Latin1_General_CP1_CI_AS", "É", "E\u0301", True),
        ("SQL_Latin1_General_CP1_CI_AS", "É", "e", False),
        ("SQL_Latin1_General_CP1_CI_AS", " a", "a", False),
        ("SQL_Latin1_General_CP1_CI_AS", "\x01a", "a", False),
        ("SQL_Latin1_General_CP1_CI_AI", "É", "e", True),
        ("SQL_Latin1_General_CP1_CS_AS", "abc", "ABC", False),
        ("SQL_Latin1_General_CP1_CS_AS", "abc ", "abc", True),
        ("Latin1_General_CS_AI", "é", "e", True),
        ("Latin1_General_CS_AI", "É", "e", False),
        ("Latin1_General_CI_AS", "co-op", "coop", False),
        ("Latin1_General_CI_AS", "co-op", "CO-OP", True),
        ("Latin1_General_100_BIN2_UTF8", "abc ", "abc", True),
        ("Latin1_General_BIN", "abc", "ABC", False),
        ("Turkish_CI_AS", "I", "i", False),
        ("Turkish_CI_AS", "I", "\u0131", True),
        ("Turkish_CI_AS", "\u0130", "i", True),
        ("Japanese_CI_AS", "あ", "ア", True),
        ("Japanese_CI_AS_KS", "あ", "ア", False),
        ("Japanese_CI_AS", "ｱ", "ア", True),
        ("Japanese_CI_AS", "\uff21", "a", True),
        ("Japanese_CI_AS_KS_WS", "\uff21", "a", False),
    ],
)
def test_equality(collation: str, left: str, right: str, equal: bool) -> None:
    for national in (True, False):
        rule = sqlite_collation(collation, national=national)
        assert (collation_key(left, rule) == collation_key(right, rule)) is equal


@pytest.mark.parametrize(
    ("collation", "in_order"),
    [
        ("SQL_Latin1_General_CP1_CI_AS", ["", "-a", "_a", "{a", "0", "9", "a", "é", "Z"]),
        ("Latin1_General_CI_AS", ["_a", "+a", "1", "a", "-a", "coop", "co-op", "coöp", "coos"]),
        ("Latin1_General_CS_AS", ["a", "A", "ab", "b", "B"]),
        ("Latin1_General_BIN2", ["-", "0", "A", "Z", "_", "a", "é"]),
    ],
)
def test_order(collation: str, in_order: list[str]) -> None:
    rule = sqlite_collation(collation, national=False)
    shuffled = [*in_order[1::2], *in_order[::2]]
    assert sorted(shuffled, key=lambda text: collation_key(text, rule)) == in_order


@pytest.mark.parametrize("ordering", [CASE_INSENSITIVE, NATIONAL])
@given(words=st.lists(st.text(alphabet="aAbB-'_ 1é", max_size=4), max_size=12))
def test_sqlite_orders_by_the_keys(ordering: str, words: list[str]) -> None:
    connection = apsw.Connection(":memory:")
    register_collations(connection)
    marks = ", ".join("(?, ?)" for _ in words) or "('', 0)"
    text = f"SELECT column1 FROM (VALUES {marks}) ORDER BY column1 COLLATE {ordering}, column2"
    given_ = [part for n, word in enumerate(words) for part in (word, n)]
    found = [row[0] for row in connection.execute(text, given_)]
    assert found == sorted(words, key=lambda word: collation_key(word, ordering)) or not words


def test_accented_letters_sort_by_their_base() -> None:
    words = ["zebra", "étage", "Eule", "etage", "Äpfel", "apfel", "E"]
    assert sorted(words, key=collation_key) == [
        "apfel", "Äpfel", "E", "etage", "étage", "Eule", "zebra",
    ]  # fmt: skip


def test_clocks() -> None:
    clock = ManualClock(5)
    assert clock.now_ticks() == 5
    assert clock.advance(0.5) == 5_000_005
    clock.set(7)
    assert clock.now_ticks() == 7
    now = datetime_of(SystemClock().now_ticks())
    assert abs(now - datetime.datetime.now(datetime.UTC).replace(tzinfo=None)) < datetime.timedelta(
        seconds=5
    )
