"""Text with halves of surrogate pairs, as it is kept: its code units, and what clients send."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.tests.wire.test_server import Client
from tailrace_emulator.wire.half_pairs import (
    decode_units,
    encode_units,
    joined,
    kept_halves,
    spread,
    units,
)
from tailrace_emulator.wire.login7 import Login7
from tailrace_emulator.wire.tokens import Row

LAST = st.sampled_from(
    "\U0010f7ff\U0010f800\U0010fbff\U0010fc00\U0010ffff\ud800\udbff\udc00\udfff😀"
)
TEXTS = st.text(st.one_of(st.characters(), LAST))


@given(TEXTS)
def test_the_code_units_are_those_of_the_text(text):
    raw = text.encode("utf-16-le", "surrogatepass")
    kept = kept_halves(text)
    kept.encode()  # what SQLite holds is characters
    assert encode_units(kept) == raw
    assert encode_units(decode_units(raw)) == raw
    assert units(kept) == len(raw) // 2


@given(TEXTS, st.integers(0, 9))
def test_a_part_of_the_code_units(text, count):
    raw = text.encode("utf-16-le", "surrogatepass")
    one = spread(kept_halves(text))
    assert len(one) == len(raw) // 2
    assert encode_units(joined(one[:count])) == raw[: 2 * count]
    assert encode_units(joined(one[count:])) == raw[2 * count :]


@given(
    TEXTS.map(lambda text: text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
)
def test_whole_pairs_are_joined_again(text):
    assert joined(spread(kept_halves(text))) == kept_halves(text)


@pytest.mark.parametrize("text", ["\ud83d", "a\ude00b", "😀", "\U0010f800"])
def test_what_a_client_sends_comes_back(module_emulator, text):
    client = Client(module_emulator.port)
    client.log_in(Login7(user="sa", password=module_emulator.password))
    tokens = client.batch(f"SELECT N'{text}', DATALENGTH(N'{text}')")
    client.socket.close()
    size = len(text.encode("utf-16-le", "surrogatepass"))
    assert Row((text, size)) in tokens
