import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace_emulator.wire.errors import LocalProtocolError, RemoteProtocolError
from tailrace_emulator.wire.packets import (
    Message,
    MessageReader,
    MessageWriter,
    PacketStatus,
    PacketType,
    frame,
)


def test_header_layout():
    assert frame(PacketType.SQL_BATCH, b"ab", spid=0x0134) == bytes.fromhex("0101000a01340100 6162")


def test_empty_message_is_one_packet():
    assert frame(PacketType.ATTENTION, b"") == bytes.fromhex("0601000800000100")


@given(
    payload=st.binary(max_size=3000),
    packet_bytes=st.integers(512, 1024),
    cuts=st.lists(st.integers(1, 700), min_size=1, max_size=8),
)
def test_any_message_survives_any_cut(payload, packet_bytes, cuts):
    raw = frame(PacketType.RPC, payload, packet_bytes, status=PacketStatus.RESET_CONNECTION)
    reader = MessageReader()
    messages = []
    position = turn = 0
    while position < len(raw):
        step = cuts[turn % len(cuts)]
        turn += 1
        reader.receive_data(raw[position : position + step])
        position += step
        while (message := reader.next_message()) is not None:
            messages.append(message)
    assert messages == [
        Message(
            PacketType.RPC,
            payload,
            PacketStatus.RESET_CONNECTION
            | (
                PacketStatus.END_OF_MESSAGE
                if len(payload) <= packet_bytes - 8
                else PacketStatus.NORMAL
            ),
        )
    ]
    assert messages[0].reset


@given(pieces=st.lists(st.binary(max_size=1200), max_size=6))
def test_a_message_written_in_pieces_is_the_message_written_whole(pieces):
    writer = MessageWriter(PacketType.TABULAR_RESULT, 512, spid=51)
    raw = b"".join(writer.write(piece) for piece in pieces) + writer.finish()
    assert raw == frame(PacketType.TABULAR_RESULT, b"".join(pieces), 512, spid=51)


def test_packet_number_wraps():
    raw = frame(PacketType.TABULAR_RESULT, bytes(504 * 300), 512)
    numbers = [raw[at + 6] for at in range(0, len(raw), 512)]
    assert numbers[:3] == [1, 2, 3]
    assert numbers[254:257] == [255, 0, 1]


def test_two_messages_at_once():
    reader = MessageReader()
    reader.receive_data(frame(PacketType.SQL_BATCH, b"1") + frame(PacketType.ATTENTION, b""))
    assert [reader.next_message().type, reader.next_message().type] == [
        PacketType.SQL_BATCH,
        PacketType.ATTENTION,
    ]
    assert reader.next_message() is None


def test_a_message_that_its_sender_gave_up_has_no_payload():
    first = bytes.fromhex("0100000900000100 61")
    last = bytes.fromhex("0103000800000200")
    reader = MessageReader()
    reader.receive_data(first + last + frame(PacketType.ATTENTION, b""))
    given_up = reader.next_message()
    assert given_up == Message(PacketType.SQL_BATCH, b"", PacketStatus.IGNORE)
    assert given_up.given_up
    assert reader.next_message() == Message(PacketType.ATTENTION, b"", PacketStatus.END_OF_MESSAGE)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("9901000800000100", "unknown packet type"),
        ("0101000700000100", "out of bounds"),
        ("0101800000000100", "out of bounds"),
        ("0100000900000100 61 0301000800000200", "inside"),
    ],
)
def test_what_is_no_packet(raw, reason):
    reader = MessageReader()
    reader.receive_data(bytes.fromhex(raw))
    with pytest.raises(RemoteProtocolError, match=reason):
        reader.next_message()


def test_a_message_longer_than_the_limit_is_refused_before_it_is_whole():
    reader = MessageReader(message_bytes_max=1000)
    reader.receive_data(frame(PacketType.SQL_BATCH, bytes(5000), 512)[:1536])
    with pytest.raises(RemoteProtocolError, match="longer than 1000"):
        reader.next_message()


@pytest.mark.parametrize("size", [511, 32768])
def test_packet_size_bounds(size):
    with pytest.raises(LocalProtocolError):
        MessageWriter(PacketType.TABULAR_RESULT, size)
