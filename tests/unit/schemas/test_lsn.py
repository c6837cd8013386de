from __future__ import annotations

import pytest

from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("00000000:00000000:0000", "00000000:00000000:0001"),
        ("00000000:00000000:ffff", "00000000:00000001:0000"),
        ("00000000:ffffffff:ffff", "00000001:00000000:0000"),
        ("fffffffe:ffffffff:ffff", "ffffffff:00000000:0000"),
    ],
)
def test_increment_carries(before: str, after: str) -> None:
    assert str(Lsn.parse(before).increment()) == after
    assert str(Lsn.parse(after).decrement()) == before


def test_the_ends_of_the_range() -> None:
    with pytest.raises(OverflowError):
        Lsn.MAX.increment()
    with pytest.raises(OverflowError):
        Lsn.ZERO.decrement()


@pytest.mark.parametrize("text", ["", "0:0:0", "0000002a:00000007:00001", "0x0000002A000000070001"])
def test_other_text_is_not_an_lsn(text: str) -> None:
    with pytest.raises(ValueError, match="not an LSN"):
        Lsn.parse(text)


@pytest.mark.parametrize("raw", [b"", b"\0" * 9, b"\0" * 11])
def test_other_lengths_are_not_an_lsn(raw: bytes) -> None:
    with pytest.raises(ValueError, match="10 bytes"):
        Lsn.from_bytes(raw)


@pytest.mark.parametrize("parts", [(-1, 0, 0), (1 << 32, 0, 0), (0, 1 << 32, 0), (0, 0, 1 << 16)])
def test_parts_out_of_range(parts: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="out of range"):
        Lsn(*parts)


def test_the_two_rows_of_a_key_update_have_different_positions() -> None:
    lsn = Lsn(1, 2, 3)
    delete = ChangePosition(lsn, 5, lsn, Operation.DELETE)
    insert = ChangePosition(lsn, 5, lsn, Operation.INSERT)
    assert delete < insert
    assert delete.to_bytes() < insert.to_bytes()


def test_command_id_orders_before_seqval() -> None:
    """Deferred updates write seqvals that go back: the command id says the order."""
    lsn = Lsn(1, 2, 3)
    first = ChangePosition(lsn, 1, Lsn(9, 9, 9), Operation.UPDATE_AFTER)
    second = ChangePosition(lsn, 2, Lsn(1, 1, 1), Operation.INSERT)
    assert first < second


@pytest.mark.parametrize("raw", [b"", b"\0" * 24, b"\0" * 26, b"\0" * 24 + b"\x09"])
def test_other_bytes_are_not_a_position(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"25 bytes|9"):
        ChangePosition.from_bytes(raw)
