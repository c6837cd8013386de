"""Every type: golden bytes, round trips of its extremes, and the two encoders agreeing."""

import struct
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tailrace_emulator.wire.code_pages import code_page
from tailrace_emulator.wire.errors import (
    LocalProtocolError,
    RemoteProtocolError,
    UnsupportedTypeError,
)
from tailrace_emulator.wire.reader import Reader
from tailrace_emulator.wire.row_encoder import FEW_ROWS, ROW_TOKEN, RowEncoder
from tailrace_emulator.wire.types import (
    DEFAULT_COLLATION_BYTES,
    PLP,
    DataType,
    TypeInfo,
    decode_type_info,
    decoder,
    encode_type_info,
    encoder,
)

C = DEFAULT_COLLATION_BYTES
TICKS_PER_DAY = 864_000_000_000
TICKS_MAX = 3_652_059 * TICKS_PER_DAY - 1
BIAS = 10**38


def wide(scaled: int) -> bytes:
    return (scaled + BIAS).to_bytes(16, "big")


def offset(ticks: int, minutes: int) -> str:
    return f"{ticks:019d}{minutes + 1024:04d}"


GUID = bytes.fromhex("0a0b0c0d0e0f 0809 0607 0405 00010203")
"""00010203... of the little-endian form 000102030405060708090a0b0c0d0e0f, in sort order."""

HIERARCHY = TypeInfo(DataType.UDT, 892, type_name=("", "sys", "hierarchyid"), assembly_name="T, A")

GOLDEN = [
    (
        HIERARCHY,
        b"\x5a\xc0",
        "f07c03 00 03730079007300 0b"
        + "hierarchyid".encode("utf-16-le").hex()
        + "0400"
        + "T, A".encode("utf-16-le").hex(),
        "0200000000000000 02000000 5ac0 00000000",
    ),
    (TypeInfo(DataType.INTN, 1), 255, "2601", "01ff"),
    (TypeInfo(DataType.INTN, 2), -2, "2602", "02feff"),
    (TypeInfo(DataType.INTN, 4), 7, "2604", "0407000000"),
    (TypeInfo(DataType.INTN, 8), -(2**63), "2608", "080000000000000080"),
    (TypeInfo(DataType.BITN, 1), 1, "6801", "0101"),
    (TypeInfo(DataType.FLTN, 8), 1.5, "6d08", "08000000000000f83f"),
    (TypeInfo(DataType.FLTN, 4), 1.5, "6d04", "040000c03f"),
    (TypeInfo(DataType.DECIMALN, 5, 4, 2), -1234, "6a050402", "0500d2040000"),
    (TypeInfo(DataType.NUMERICN, 9, 18, 4), 12345, "6c091204", "09013930000000000000"),
    (TypeInfo(DataType.DECIMALN, 17, 38, 0), wide(-1), "6a112600", "1100" + "01" + "00" * 15),
    (TypeInfo(DataType.MONEYN, 8, 19, 4), wide(10000), "6e08", "080000000010270000"),
    (TypeInfo(DataType.MONEYN, 8, 19, 4), wide(-1), "6e08", "08ffffffffffffffff"),
    (TypeInfo(DataType.MONEYN, 4, 10, 4), -10000, "6e04", "04f0d8ffff"),
    (TypeInfo(DataType.GUID, 16), GUID, "2410", "10000102030405060708090a0b0c0d0e0f"),
    (TypeInfo(DataType.DATEN, 3), 3_652_058, "28", "03dab937"),
    (TypeInfo(DataType.TIMEN, 5, scale=7), TICKS_PER_DAY - 1, "2907", "05ffbf692ac9"),
    (TypeInfo(DataType.TIMEN, 3, scale=0), 10_000_000, "2900", "03010000"),
    (TypeInfo(DataType.DATETIME2N, 8, scale=7), TICKS_MAX, "2a07", "08ffbf692ac9dab937"),
    (TypeInfo(DataType.DATETIME2N, 6, scale=0), TICKS_PER_DAY, "2a00", "06000000010000"),
    (
        TypeInfo(DataType.DATETIMEOFFSETN, 10, scale=7),
        offset(TICKS_PER_DAY + 1, -60),
        "2b07",
        "0a0100000000010000c4ff",
    ),
    # 1900-01-02 00:00:00.003333 is one unit of 1/300 s
    (
        TypeInfo(DataType.DATETIMEN, 8),
        693_596 * TICKS_PER_DAY + 33_333,
        "6f08",
        "080100000001000000",
    ),
    (
        TypeInfo(DataType.DATETIMEN, 4),
        693_596 * TICKS_PER_DAY + 60 * 10**7,
        "6f04",
        "0401000100",
    ),
    (TypeInfo(DataType.BIGVARBINARY, 5), b"", "a50500", "0000"),
    (TypeInfo(DataType.BIGVARBINARY, 5), b"\x01", "a50500", "010001"),
    (TypeInfo(DataType.BIGBINARY, 2), b"\x01\x02", "ad0200", "02000102"),
    (
        TypeInfo(DataType.BIGVARBINARY, PLP),
        b"\x01",
        "a5ffff",
        "0100000000000000 01000000 01 00000000",
    ),
    (TypeInfo(DataType.BIGVARBINARY, PLP), b"", "a5ffff", "0000000000000000 00000000"),
    (TypeInfo(DataType.NVARCHAR, 8, collation=C), "é", "e708000904d00034", "0200e900"),
    (TypeInfo(DataType.NCHAR, 4, collation=C), "ab", "ef04000904d00034", "040061006200"),
    (TypeInfo(DataType.BIGVARCHAR, 8, collation=C), "é€", "a708000904d00034", "0200e980"),
    (TypeInfo(DataType.BIGCHAR, 2, collation=C), "ab", "af02000904d00034", "02006162"),
    (
        TypeInfo(DataType.NVARCHAR, PLP, collation=C),
        "a",
        "e7ffff0904d00034",
        "0200000000000000 02000000 6100 00000000",
    ),
    (
        TypeInfo(DataType.XML, PLP),
        "<a/>",
        "f100",
        "0800000000000000 08000000" + "3c0061002f003e00 00000000",
    ),
    (TypeInfo(DataType.SSVARIANT, 8009), "8\0\x07\0\0\0", "62491f0000", "06000000380007000000"),
    # forms that only clients send
    (TypeInfo(DataType.INT4, 4), 7, "38", "07000000"),
    (TypeInfo(DataType.BIT, 1), 1, "32", "01"),
    (TypeInfo(DataType.FLT8, 8), 1.5, "3e", "000000000000f83f"),
    (TypeInfo(DataType.NTEXT, 100, collation=C), "a", "63640000000904d00034", "020000006100"),
    (TypeInfo(DataType.TEXT, 100, collation=C), "a", "23640000000904d00034", "0100000061"),
    (TypeInfo(DataType.IMAGE, 100), b"\x01", "2264000000", "0100000001"),
    (TypeInfo(DataType.VARCHAR_LEGACY, 9, collation=C), "a", "27090904d00034", "0161"),
]
NULLS = {
    DataType.NTEXT: "ffffffff",
    DataType.TEXT: "ffffffff",
    DataType.IMAGE: "ffffffff",
    DataType.NVARCHAR: "ffff",
    DataType.NCHAR: "ffff",
    DataType.BIGVARCHAR: "ffff",
    DataType.BIGCHAR: "ffff",
    DataType.BIGVARBINARY: "ffff",
    DataType.BIGBINARY: "ffff",
    DataType.XML: "ffffffffffffffff",
    DataType.SSVARIANT: "00000000",
    DataType.UDT: "ffffffffffffffff",
}
FIXED = (DataType.INT4, DataType.BIT, DataType.FLT8)


@pytest.mark.parametrize(("info", "value", "type_info", "raw"), GOLDEN)
def test_golden_bytes(info, value, type_info, raw):
    assert encode_type_info(info) == bytes.fromhex(type_info)
    reader = Reader(bytes.fromhex(type_info))
    assert decode_type_info(reader) == info
    assert reader.remaining == 0
    assert encoder(info)(value) == bytes.fromhex(raw)
    reader = Reader(bytes.fromhex(raw))
    assert decoder(info)(reader) == value
    assert reader.remaining == 0


@pytest.mark.parametrize("info", sorted({row[0] for row in GOLDEN}, key=repr))
def test_null(info):
    if info.token in FIXED:
        return
    null = NULLS.get(info.token, "00")
    null = "ffffffffffffffff" if info.length == PLP else null
    assert encoder(info)(None) == bytes.fromhex(null)
    assert decoder(info)(Reader(bytes.fromhex(null))) is None


@pytest.mark.parametrize(("info", "value", "type_info", "raw"), GOLDEN)
def test_every_cut_of_a_value_is_refused(info, value, type_info, raw):
    whole = bytes.fromhex(raw)
    for length in range(len(whole)):
        with pytest.raises(RemoteProtocolError):
            decoder(info)(Reader(whole[:length]))


def text(most: int, alphabet: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[str]:
    """Strings of at most that many UTF-16 units."""
    characters = st.characters() if alphabet is None else alphabet
    return st.text(characters, max_size=most).filter(
        lambda s: len(s.encode("utf-16-le", "surrogatepass")) <= 2 * most
    )


CP1252_TEXT = st.sampled_from([code_page(1252).decode(bytes((b,))) for b in range(256)])
DAY = st.integers(0, 3_652_058)
TICKS = st.integers(0, TICKS_MAX)
SCALE = st.integers(0, 7)


def time_length(scale: int) -> int:
    return 3 if scale <= 2 else 4 if scale <= 4 else 5


def floor_to(scale: int, ticks: int) -> int:
    unit = 10 ** (7 - scale)
    return ticks // unit * unit


@st.composite
def decimals(draw):
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    token = draw(st.sampled_from([DataType.DECIMALN, DataType.NUMERICN]))
    bound = 10**precision - 1
    size = 5 if precision <= 9 else 9 if precision <= 19 else 13 if precision <= 28 else 17
    info = TypeInfo(token, size, precision, scale)
    scaled = st.integers(-bound, bound) | st.sampled_from([-bound, -1, 0, 1, bound])
    return info, scaled if precision <= 18 else scaled.map(wide)


@st.composite
def scaled_times(draw):
    scale = draw(SCALE)
    size = time_length(scale)
    kind = draw(st.sampled_from([DataType.TIMEN, DataType.DATETIME2N, DataType.DATETIMEOFFSETN]))
    if kind is DataType.TIMEN:
        values = st.integers(0, TICKS_PER_DAY - 1).map(lambda t: floor_to(scale, t))
        return TypeInfo(kind, size, scale=scale), values
    values = TICKS.map(lambda t: floor_to(scale, t))
    if kind is DataType.DATETIME2N:
        return TypeInfo(kind, size + 3, scale=scale), values
    return TypeInfo(kind, size + 5, scale=scale), st.builds(offset, values, st.integers(-840, 840))


@st.composite
def any_type(draw):
    """A type and a strategy of its values."""
    plain = [
        (TypeInfo(DataType.INTN, 1), st.integers(0, 255)),
        (TypeInfo(DataType.INTN, 2), st.integers(-(2**15), 2**15 - 1)),
        (TypeInfo(DataType.INTN, 4), st.integers(-(2**31), 2**31 - 1)),
        (TypeInfo(DataType.INTN, 8), st.integers(-(2**63), 2**63 - 1)),
        (TypeInfo(DataType.BITN, 1), st.integers(0, 1)),
        (TypeInfo(DataType.FLTN, 8), st.floats(allow_nan=False, allow_infinity=False)),
        (TypeInfo(DataType.FLTN, 4), st.floats(width=32, allow_nan=False, allow_infinity=False)),
        (TypeInfo(DataType.MONEYN, 8, 19, 4), st.integers(-(2**63), 2**63 - 1).map(wide)),
        (TypeInfo(DataType.MONEYN, 4, 10, 4), st.integers(-(2**31), 2**31 - 1)),
        (TypeInfo(DataType.GUID, 16), st.binary(min_size=16, max_size=16)),
        (TypeInfo(DataType.DATEN, 3), DAY),
        (
            TypeInfo(DataType.DATETIMEN, 8),
            st.tuples(st.integers(639_905, 3_652_058), st.integers(0, 25_919_999)).map(
                lambda p: p[0] * TICKS_PER_DAY + (p[1] * 200_000 + 3) // 6
            ),
        ),
        (
            TypeInfo(DataType.DATETIMEN, 4),
            st.tuples(st.integers(0, 65_535), st.integers(0, 1439)).map(
                lambda p: (p[0] + 693_595) * TICKS_PER_DAY + p[1] * 600_000_000
            ),
        ),
        (TypeInfo(DataType.BIGVARBINARY, 20), st.binary(max_size=20)),
        (TypeInfo(DataType.BIGBINARY, 10), st.binary(min_size=10, max_size=10)),
        (TypeInfo(DataType.BIGVARBINARY, PLP), st.binary(max_size=60)),
        (TypeInfo(DataType.NVARCHAR, 40, collation=C), text(20)),
        (TypeInfo(DataType.NVARCHAR, PLP, collation=C), text(20)),
        (TypeInfo(DataType.BIGVARCHAR, 20, collation=C), text(20, CP1252_TEXT)),
        (TypeInfo(DataType.BIGVARCHAR, PLP, collation=C), text(20, CP1252_TEXT)),
        (TypeInfo(DataType.NCHAR, 8, collation=C), text(4, CP1252_TEXT).map(lambda s: s.ljust(4))),
        (
            TypeInfo(DataType.BIGCHAR, 4, collation=C),
            text(4, CP1252_TEXT).map(lambda s: s.ljust(4)),
        ),
        (HIERARCHY, st.binary(max_size=892)),
        (replace(HIERARCHY, length=PLP), st.binary(max_size=60)),
        (TypeInfo(DataType.XML, PLP), text(20).filter(lambda s: not s.startswith("\ufeff"))),
    ]
    index = draw(st.integers(0, len(plain) + 1))
    if index < len(plain):
        return plain[index]
    return draw(decimals() if index == len(plain) else scaled_times())


@given(st.data())
def test_round_trip(data):
    info, values = data.draw(any_type())
    value = data.draw(st.none() | values)
    raw = encoder(info)(value)
    reader = Reader(raw)
    assert decoder(info)(reader) == value
    assert reader.remaining == 0
    reader = Reader(encode_type_info(info))
    assert decode_type_info(reader) == info


@given(st.data())
def test_columnar_encoder_writes_what_the_single_value_encoders_write(data):
    types = data.draw(st.lists(any_type(), min_size=1, max_size=6))
    columns = [
        data.draw(st.sampled_from([v, st.none() | v, st.none(), st.just(data.draw(v))]))
        for _, v in types
    ]
    chunk = st.lists(st.tuples(*columns), min_size=FEW_ROWS + 1, max_size=12)
    encode = RowEncoder([info for info, _ in types])
    rows = data.draw(chunk)
    expected = b"".join(
        ROW_TOKEN + b"".join(encoder(info)(v) for (info, _), v in zip(types, row, strict=True))
        for row in rows
    )
    assert encode.encode(rows) == expected
    # Again, with NULLs and constants elsewhere: the encoder remembers where they were.
    flipped = [tuple(None if i == n else v for i, v in enumerate(r)) for n, r in enumerate(rows)]
    for again in (data.draw(chunk), flipped, [rows[0]] * len(rows), rows):
        assert encode.encode(again) == b"".join(encode.encode([row]) for row in again)


FIXED_COLUMNS = [
    (TypeInfo(DataType.BIT, 1), [0, 1]),
    (TypeInfo(DataType.INT1, 1), [0, 255]),
    (TypeInfo(DataType.INT2, 2), [-(2**15), 7]),
    (TypeInfo(DataType.INT4, 4), [-(2**31), 7]),
    (TypeInfo(DataType.INT8, 8), [-(2**63), 7]),
    (TypeInfo(DataType.FLT4, 4), [1.5, -2.0]),
    (TypeInfo(DataType.FLT8, 8), [1.5, 1e308]),
    (TypeInfo(DataType.MONEY4, 4, 10, 4), [-(2**31), 1]),
    (TypeInfo(DataType.MONEY, 8, 19, 4), [wide(-(2**63)), wide(1)]),
    (TypeInfo(DataType.DATETIM4, 4), [693_595 * TICKS_PER_DAY, 693_596 * TICKS_PER_DAY]),
    (TypeInfo(DataType.DATETIME, 8), [639_905 * TICKS_PER_DAY, 693_596 * TICKS_PER_DAY]),
]


def test_fixed_forms_are_values_without_length():
    encode = RowEncoder([info for info, _ in FIXED_COLUMNS])
    pair = list(zip(*(values for _, values in FIXED_COLUMNS), strict=True))
    rows = (pair * FEW_ROWS)[: FEW_ROWS + 1]
    raw = encode.encode(rows)
    assert raw == b"".join(encode.encode([row]) for row in rows)
    assert len(raw) == len(rows) * (1 + sum(info.length for info, _ in FIXED_COLUMNS))
    reader = Reader(raw)
    for row in rows:
        assert reader.take(1) == ROW_TOKEN
        assert tuple(decoder(info)(reader) for info, _ in FIXED_COLUMNS) == row


@pytest.mark.parametrize(
    "info", [info for info, _ in FIXED_COLUMNS], ids=lambda info: info.token.name
)
def test_fixed_forms_hold_no_null(info):
    with pytest.raises(LocalProtocolError):
        RowEncoder([info]).encode([(None,)])


def test_zero_and_minus_zero_are_equal_but_not_the_same():
    encode = RowEncoder([TypeInfo(DataType.FLTN, 8)])
    rows = [(0.0,), (-0.0,), (0.0,), (-0.0,), (0.0,)]
    assert encode.encode(rows) == b"".join(encode.encode([row]) for row in rows)


@given(st.integers(-(2**15) + 693_595, 3_652_058), st.integers(0, TICKS_PER_DAY - 1))
@example(3_652_057, TICKS_PER_DAY - 1)
def test_datetime_rounds_to_its_nearest_unit(days, ticks):
    info = TypeInfo(DataType.DATETIMEN, 8)
    value = max(days, 639_905) * TICKS_PER_DAY + ticks
    if value > TICKS_MAX - 20_000:
        return  # would round beyond 9999-12-31
    back = decoder(info)(Reader(encoder(info)(value)))
    assert abs(back - value) <= 16_667
    assert decoder(info)(Reader(encoder(info)(back))) == back


@pytest.mark.parametrize(
    ("text_in", "raw"),
    [
        ("Ψ", b"?"),
        ("日本", b"??"),
        ("\U0001f600", b"??"),
        ("a\x81b", b"a\x81b"),
        ("€", b"\x80"),
        ("Ωčł１", b"Ocl1"),
        ("č\U0001f600ș", b"c???"),
        ("č\ud800", b"c?"),
    ],
)
def test_what_code_page_1252_lacks_becomes_its_best_fit_or_question_marks(text_in, raw):
    assert code_page(1252).encode(text_in) == raw


@pytest.mark.parametrize("number", [437, 850, 874, *range(1250, 1259), 932, 936, 949, 950])
def test_a_best_fit_is_a_character_that_the_code_page_has(number):
    page = code_page(number)
    for code in [*range(0xA0, 0x3000), *range(0xFF00, 0xFFF0)]:
        kept = page.kept(chr(code))
        assert kept == "?" or page.kept(kept) == kept
    text = "".join(map(chr, range(0x80, 0x250)))
    assert page.encode(text) == b"".join(page.encode(character) for character in text)


def test_utf8_parameters_are_decoded_as_their_collation_says():
    collation = bytes.fromhex("0904000400")
    info = TypeInfo(DataType.BIGVARCHAR, 20, collation=collation)
    assert decoder(info)(Reader(b"\x02\x00\xc3\xa9")) == "é"


def test_unknown_length_plp():
    raw = b"\xfe" + b"\xff" * 7 + struct.pack("<I2sI1sI", 2, b"ab", 1, b"c", 0)
    assert decoder(TypeInfo(DataType.BIGVARBINARY, PLP))(Reader(raw)) == b"abc"


@pytest.mark.parametrize(
    ("info", "value"),
    [
        (TypeInfo(DataType.INTN, 1), 256),
        (TypeInfo(DataType.INTN, 4), 2**31),
        (TypeInfo(DataType.FLTN, 4), 1e39),
        (TypeInfo(DataType.DECIMALN, 5, 4, 2), 10**4),
        (TypeInfo(DataType.MONEYN, 4, 10, 4), 2**31),
        (TypeInfo(DataType.GUID, 16), b"short"),
        (TypeInfo(DataType.DATEN, 3), 3_652_059),
        (TypeInfo(DataType.TIMEN, 5, scale=7), TICKS_PER_DAY),
        (TypeInfo(DataType.DATETIME2N, 8, scale=7), TICKS_MAX + 1),
        (TypeInfo(DataType.DATETIMEN, 4), 0),
        (TypeInfo(DataType.NVARCHAR, 4, collation=C), "abc"),
        (TypeInfo(DataType.BIGVARCHAR, 2, collation=C), "abc"),
        (TypeInfo(DataType.BIGBINARY, 2), b"abc"),
        (TypeInfo(DataType.BIGVARBINARY, 2), b"abc"),
    ],
)
def test_a_value_beyond_its_type_is_our_error_alone_and_in_columns(info, value):
    with pytest.raises(LocalProtocolError, match=info.token.name):
        encoder(info)(value)
    with pytest.raises(LocalProtocolError, match=info.token.name):
        RowEncoder([info]).encode([(value,)] * (FEW_ROWS + 1))


@pytest.mark.parametrize(
    "raw",
    [
        "26 03",
        "68 02",
        "6a 05 00 00",
        "6a 05 04 05",
        "2a 08",
        "24 0f",
        "6f 05",
        "99",
    ],
)
def test_impossible_types(raw):
    with pytest.raises(RemoteProtocolError):
        decode_type_info(Reader(bytes.fromhex(raw)))


@pytest.mark.parametrize("token", [DataType.TVP])
def test_types_that_are_not_spoken_are_named(token):
    with pytest.raises(UnsupportedTypeError, match=token.name):
        decode_type_info(Reader(bytes((token,)) + bytes(20)))


def test_a_parameter_without_a_type_is_null_and_has_no_bytes():
    reader = Reader(b"\x1f\x00")
    info = decode_type_info(reader)
    assert info == TypeInfo(DataType.NULL)
    assert decoder(info)(reader) is None
    assert reader.position == 1
    assert encode_type_info(info) + encoder(info)(None) == b"\x1f"
    with pytest.raises(LocalProtocolError):
        encoder(info)(1)


LONG = 0x7FFFFFFF


@pytest.mark.parametrize(
    ("info", "value", "raw"),
    [
        (TypeInfo(DataType.TEXT, LONG, collation=C), "é", b"\xe9"),
        (TypeInfo(DataType.NTEXT, LONG - 1, collation=C), "é", b"\xe9\0"),
        (TypeInfo(DataType.IMAGE, LONG), b"\x01", b"\x01"),
    ],
    ids=["text", "ntext", "image"],
)
def test_long_values_of_rows_have_a_pointer(info, value, raw):
    encode = RowEncoder([info])
    whole = encode.encode([(value,)])
    assert whole[1:2] == b"\x10"
    assert whole[26:] == len(raw).to_bytes(4, "little") + raw
    assert encode.encode([(None,)]) == ROW_TOKEN + b"\0"
    rows = [(value,), (None,), (value * 2,), (value,), (value,)]
    assert encode.encode(rows) == b"".join(encode.encode([row]) for row in rows)
    same = [(value,), (value * 3,), (value,), (value,), (value,)]
    assert encode.encode(same) == b"".join(encode.encode([row]) for row in same)
