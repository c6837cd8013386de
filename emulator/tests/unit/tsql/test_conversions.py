"""Conversions, as laws: text and back, decimals against Python's own."""

from __future__ import annotations

import datetime
import uuid
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.tsql.compile import types_of
from tailrace_emulator.tsql.conversions import assigner, convert, converter
from tailrace_emulator.tsql.conversions.temporal import TICKS_MAX
from tailrace_emulator.tsql.functions.operators import (
    decimal_add,
    decimal_divide,
    decimal_multiply,
    decimal_subtract,
)
from tailrace_emulator.values.types import (
    BIGINT,
    DATETIME,
    INT,
    MONEY,
    UNIQUEIDENTIFIER,
    SqlType,
    decimal_type,
    nvarchar,
    pack_decimal,
    pack_guid,
    pack_offset,
    unpack_decimal,
    varbinary,
    varchar,
)

TEXT = varchar(100)
DATETIME2 = SqlType("datetime2", scale=7)


def round_trip(value: Any, sql_type: SqlType, style: int | None = None) -> Any:
    return convert(convert(value, sql_type, TEXT, style), TEXT, sql_type, style)


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_survive_text(value):
    assert round_trip(value, BIGINT) == value


@given(st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p))), st.data())
def test_decimals_survive_text(shape, data):
    sql_type = decimal_type(*shape)
    limit = 10**sql_type.precision - 1
    value = pack_decimal(data.draw(st.integers(-limit, limit)), sql_type)
    assert round_trip(value, sql_type) == value


@given(st.integers(0, TICKS_MAX))
def test_moments_survive_text(ticks):
    assert round_trip(ticks, DATETIME2) == ticks
    assert round_trip(ticks, DATETIME2, 126) == ticks


@given(st.integers(864_000_000_000 * 2, TICKS_MAX - 864_000_000_000 * 2), st.integers(-840, 840))
def test_offsets_survive_text(ticks, offset):
    value = pack_offset(ticks, offset)
    assert round_trip(value, SqlType("datetimeoffset", scale=7)) == value


@given(st.dates(datetime.date(1753, 1, 1), datetime.date(9999, 12, 31)), st.times())
def test_datetime_is_a_third_of_a_hundredth(date, time):
    text = f"{date} {time.isoformat(timespec='milliseconds')}"
    if text.startswith("9999-12-31 23:59:59.99"):
        return
    value = convert(text, TEXT, DATETIME)
    shown = convert(value, DATETIME, TEXT, 121)
    assert shown[-1] in "037"
    assert convert(shown, TEXT, DATETIME) == value


@given(st.uuids())
def test_identifiers_survive_text(value):
    packed = pack_guid(value)
    assert round_trip(packed, UNIQUEIDENTIFIER) == packed
    assert uuid.UUID(convert(packed, UNIQUEIDENTIFIER, TEXT)) == value


@given(st.binary(max_size=40))
def test_binary_survives_hexadecimal_text(value):
    for style in (1, 2):
        text = convert(value, varbinary(50), varchar(200), style)
        assert convert(text, varchar(200), varbinary(50), style) == value


@given(st.text(max_size=30))
def test_text_that_fits_a_column_is_kept(value):
    conversion = assigner(nvarchar(4000), nvarchar(60), "d.s.t", "c")
    assert conversion is not None
    assert conversion(value) == value


decimals = st.tuples(st.integers(1, 28), st.integers(0, 10), st.integers(-(10**28), 10**28)).map(
    lambda t: (decimal_type(max(t[0], t[1], 1), t[1]), t[2])
)


@given(decimals, decimals)
def test_decimal_arithmetic_is_pythons(left, right):
    (left_type, a), (right_type, b) = left, right
    a = a % 10**left_type.precision
    b = b % 10**right_type.precision or 1
    operations: dict[str, tuple[Any, Any, str]] = {
        "+": (decimal_add, lambda x, y: x + y, ROUND_HALF_UP),
        "-": (decimal_subtract, lambda x, y: x - y, ROUND_HALF_UP),
        "*": (decimal_multiply, lambda x, y: x * y, ROUND_HALF_UP),
        "/": (decimal_divide, lambda x, y: x / y, ROUND_DOWN),
    }
    for operator, (function, exact, rounding) in operations.items():
        result = types_of.decimal_result(operator, left_type, right_type)
        with localcontext() as context:
            context.prec = 120
            expected = exact(
                Decimal(a).scaleb(-left_type.scale), Decimal(b).scaleb(-right_type.scale)
            ).quantize(Decimal(1).scaleb(-result.scale), rounding)
            scaled = int(expected.scaleb(result.scale))
        arguments = (
            pack_decimal(a, left_type), pack_decimal(b, right_type), left_type.scale,
            right_type.scale, result.precision, result.scale, 0,
        )  # fmt: skip
        if abs(scaled) >= 10**result.precision:
            with pytest.raises(SqlError):
                function(*arguments)
            continue
        got = function(*arguments)
        assert isinstance(got, bytes) == result.is_wide_decimal
        assert unpack_decimal(got) == scaled


@given(st.integers(1, 38), st.integers(1, 38), st.sampled_from("+-*/%"), st.data())
def test_decimal_result_types_are_possible(p1, p2, operator, data):
    left = decimal_type(p1, data.draw(st.integers(0, p1)))
    right = decimal_type(p2, data.draw(st.integers(0, p2)))
    result = types_of.decimal_result(operator, left, right)
    assert 0 <= result.scale <= result.precision <= 38 or result.precision == 0


def test_identity_needs_no_function():
    assert converter(INT, BIGINT) is None
    assert converter(nvarchar(5), nvarchar(9)) is None
    assert converter(decimal_type(9, 2), decimal_type(18, 2)) is None
    assert converter(MONEY, MONEY) is None


@pytest.mark.parametrize(
    "text",
    [
        "2020-02-30",
        "13/13/2020",
        "25:00",
        "2020-01-01 24:00:00",
        "abc",
        "2020-01-01T10:00:00+15:00",
    ],
)
def test_what_is_no_moment_is_refused(text):
    with pytest.raises(SqlError):
        convert(text, TEXT, DATETIME2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2020-01-02", "2020-01-02 00:00:00.0000000"),
        ("20200102 03:04", "2020-01-02 03:04:00.0000000"),
        ("1/2/2020 3PM", "2020-01-02 15:00:00.0000000"),
        ("Jan 2 2020 12:00AM", "2020-01-02 00:00:00.0000000"),
        ("2 January 2020", "2020-01-02 00:00:00.0000000"),
        ("10:11:12.5", "1900-01-01 10:11:12.5000000"),
        ("2020-01-02T03:04:05.1234567", "2020-01-02 03:04:05.1234567"),
        ("", "1900-01-01 00:00:00.0000000"),
    ],
)
def test_forms_of_moments(text, expected):
    assert convert(convert(text, TEXT, DATETIME2), DATETIME2, TEXT) == expected
