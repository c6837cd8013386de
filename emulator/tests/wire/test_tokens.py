import pytest

from tailrace_emulator.wire.errors import RemoteProtocolError
from tailrace_emulator.wire.row_encoder import RowEncoder
from tailrace_emulator.wire.token_reader import read_tokens
from tailrace_emulator.wire.tokens import (
    ColMetadata,
    Column,
    ColumnFlags,
    Command,
    Done,
    DoneStatus,
    EnvChange,
    EnvChangeType,
    FeatureExtAck,
    LoginAck,
    ReturnStatus,
    ReturnValue,
    Row,
    ServerMessage,
    TokenType,
    collation_change,
    transaction_change,
)
from tailrace_emulator.wire.types import DEFAULT_COLLATION_BYTES, DataType, TypeInfo

INT = TypeInfo(DataType.INTN, 4)
NVARCHAR = TypeInfo(DataType.NVARCHAR, 8, collation=DEFAULT_COLLATION_BYTES)

TOKENS = [
    (Done(), "fd 0000 0000 0000000000000000"),
    (
        Done(TokenType.DONE_IN_PROC, DoneStatus.MORE | DoneStatus.COUNT, Command.INSERT, 3),
        "ff 1100 c300 0300000000000000",
    ),
    (Done(TokenType.DONE_PROC, DoneStatus.ERROR), "fe 0200 0000 0000000000000000"),
    (Done(status=DoneStatus.ATTENTION), "fd 2000 0000 0000000000000000"),
    (
        ServerMessage(208, 1, 16, "no", "S", "p", 3),
        "aa 1600 d0000000 01 10 0200 6e006f00 01 5300 01 7000 03000000",
    ),
    (
        ServerMessage(5701, 2, 0, "", "", "", 1),
        "ab 0e00 45160000 02 00 0000 00 00 01000000",
    ),
    (EnvChange(EnvChangeType.DATABASE, "b", "a"), "e3 0700 01 01 6200 01 6100"),
    (collation_change(), "e3 0800 07 05 0904d00034 00"),
    (
        transaction_change(EnvChangeType.BEGIN_TRANSACTION, 258),
        "e3 0b00 08 08 0201000000000000 00",
    ),
    (
        transaction_change(EnvChangeType.ROLLBACK_TRANSACTION, 258),
        "e3 0b00 0a 00 08 0201000000000000",
    ),
    (EnvChange(EnvChangeType.RESET_ACKNOWLEDGED), "e3 0300 12 00 00"),
    (
        LoginAck("P", (16, 0, 4135)),
        "ad 0c00 01 74000004 01 5000 10 00 1027",
    ),
    (FeatureExtAck(((10, b"\x01"),)), "ae 0a 01000000 01 ff"),
    (ReturnStatus(-6), "79 faffffff"),
    (
        ReturnValue(1, "@h", INT, 5),
        "ac 0100 02 40006800 01 00000000 0100 26 04 04 05000000",
    ),
    (
        ColMetadata(
            (
                Column("a", INT, ColumnFlags.IDENTITY),
                Column("", TypeInfo(DataType.BIGBINARY, 8), ColumnFlags.NULLABLE, 80),
            )
        ),
        "81 0200 00000000 1000 26 04 01 6100 50000000 0100 ad 0800 00",
    ),
]


@pytest.mark.parametrize(("token", "raw"), TOKENS)
def test_token_both_ways(token, raw):
    assert token.encode() == bytes.fromhex(raw)
    assert list(read_tokens(bytes.fromhex(raw))) == [token]


@pytest.mark.parametrize(("token", "raw"), TOKENS)
def test_every_cut_of_a_token_is_refused(token, raw):
    whole = bytes.fromhex(raw)
    for length in range(1, len(whole)):
        with pytest.raises(RemoteProtocolError):
            list(read_tokens(whole[:length]))


def test_rows_after_their_metadata():
    metadata = ColMetadata((Column("a", INT), Column("b", NVARCHAR)))
    rows = [(1, "x"), (None, None), (2, "é")]
    payload = metadata.encode() + RowEncoder([INT, NVARCHAR]).encode(rows) + Done().encode()
    assert list(read_tokens(payload)) == [metadata, *map(Row, rows), Done()]


def test_null_bitmap_compressed_row():
    metadata = ColMetadata((Column("a", INT), Column("b", INT)))
    payload = metadata.encode() + bytes.fromhex("d2 01 04 05000000")
    assert list(read_tokens(payload))[1] == Row((None, 5))


@pytest.mark.parametrize("raw", ["d1", "00", "e3 0100 63"])
def test_what_is_no_token_stream(raw):
    with pytest.raises(RemoteProtocolError):
        list(read_tokens(bytes.fromhex(raw)))


def test_a_message_longer_than_its_token_is_cut():
    tokens = list(read_tokens(ServerMessage(50000, 1, 16, "x" * 40_000).encode()))
    assert len(tokens[0].text) == 30_000
