"""Whatever bytes come: they are parsed, or refused with RemoteProtocolError; nothing else."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.tests.wire.test_messages import LOGIN, REQUESTS
from emulator.tests.wire.test_tokens import TOKENS
from tailrace_emulator.wire.connection import NEED_DATA, ServerConnection, State
from tailrace_emulator.wire.errors import RemoteProtocolError
from tailrace_emulator.wire.login7 import Login7
from tailrace_emulator.wire.packets import PacketType, frame
from tailrace_emulator.wire.prelogin import Prelogin
from tailrace_emulator.wire.requests import RpcRequest, SqlBatch, TransactionRequest
from tailrace_emulator.wire.token_reader import read_tokens

DECODERS = [
    Prelogin.decode,
    Login7.decode,
    SqlBatch.decode,
    RpcRequest.decode,
    TransactionRequest.decode,
    lambda raw: list(read_tokens(raw)),
]
SEEDS = [
    Prelogin(encryption=1).encode(),
    LOGIN.encode(),
    *(bytes.fromhex(raw) for _, raw, _ in REQUESTS),
    *(bytes.fromhex(raw) for _, raw in TOKENS),
]


@st.composite
def damaged(draw):
    """A true message with some bytes changed, removed or inserted."""
    data = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.integers(0, 2)):
            case 0:
                data[at : at + 1] = bytes((draw(st.integers(0, 255)),))
            case 1:
                del data[at : at + draw(st.integers(1, 4))]
            case _:
                data[at:at] = draw(st.binary(min_size=1, max_size=4))
    return bytes(data)


@settings(max_examples=400)
@given(raw=st.binary(max_size=200) | damaged())
def test_decoders(raw):
    for decode in DECODERS:
        with contextlib.suppress(RemoteProtocolError):
            decode(raw)


@settings(max_examples=300)
@given(
    raw=st.binary(max_size=100) | damaged(),
    kind=st.sampled_from(list(PacketType)),
    state=st.sampled_from(list(State)),
    framed=st.booleans(),
)
def test_connection(raw, kind, state, framed):
    connection = ServerConnection(message_bytes_max=1 << 16)
    connection.state = state
    connection.receive_data(frame(kind, raw, 512) if framed else raw)
    with contextlib.suppress(RemoteProtocolError):
        while connection.next_message() is not NEED_DATA:
            pass
