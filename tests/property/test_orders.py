"""Laws of Lsn and ChangePosition: one order, however they are written."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from tailrace_schemas.position.change_position import ChangePosition, Operation, pack_position
from tailrace_schemas.position.lsn import Lsn, lsn_text

_EDGES = st.sampled_from([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF])
LSNS = st.builds(
    Lsn,
    st.integers(0, 0xFFFFFFFF) | _EDGES,
    st.integers(0, 0xFFFFFFFF) | _EDGES,
    st.integers(0, 0xFFFF) | st.sampled_from([0, 0xFFFF, 0x7FFF, 0x8000]),
)
POSITIONS = st.builds(
    ChangePosition,
    LSNS,
    st.integers(0, 0xFFFFFFFF) | _EDGES,
    LSNS,
    st.sampled_from(Operation),
)


@given(LSNS, LSNS)
def test_lsn_bytes_and_text_order_as_lsns_do(a: Lsn, b: Lsn) -> None:
    assert (a < b) == (a.to_bytes() < b.to_bytes()) == (str(a) < str(b))
    assert (a == b) == (a.to_bytes() == b.to_bytes()) == (str(a) == str(b))


@given(LSNS)
def test_lsn_forms_read_back(lsn: Lsn) -> None:
    assert Lsn.from_bytes(lsn.to_bytes()) == lsn
    assert Lsn.parse(str(lsn)) == lsn
    assert Lsn.parse(str(lsn).upper()) == lsn
    assert lsn_text(lsn.to_bytes()) == str(lsn)


@given(LSNS)
def test_increment_is_the_next_lsn_and_decrement_undoes_it(lsn: Lsn) -> None:
    assume(lsn != Lsn.MAX)
    following = lsn.increment()
    assert following > lsn
    assert following.decrement() == lsn
    gap = int.from_bytes(following.to_bytes(), "big") - int.from_bytes(lsn.to_bytes(), "big")
    assert gap == 1


@given(POSITIONS, POSITIONS)
def test_packed_positions_order_as_positions_do(a: ChangePosition, b: ChangePosition) -> None:
    assert (a < b) == (a.to_bytes() < b.to_bytes())
    assert (a == b) == (a.to_bytes() == b.to_bytes())


@given(POSITIONS)
def test_positions_read_back(position: ChangePosition) -> None:
    packed = position.to_bytes()
    assert len(packed) == 25
    assert ChangePosition.from_bytes(packed) == position
    raw = pack_position(
        position.commit_lsn.to_bytes(),
        position.command_id,
        position.seqval.to_bytes(),
        position.operation,
    )
    assert raw == packed


@given(POSITIONS)
def test_a_snapshot_is_before_and_the_end_behind_every_change_of_its_commit(
    position: ChangePosition,
) -> None:
    assume(position.operation is not Operation.READ)
    assert ChangePosition.of_snapshot(position.commit_lsn) < position
    assert position <= ChangePosition.end_of(position.commit_lsn)
