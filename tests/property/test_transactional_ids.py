"""Transactional ids: no two pairs of prefix and database share one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tailrace_schemas.records.transactional_ids import transactional_id

PARTS = st.text(alphabet="ab-%25D.", min_size=1, max_size=6)


@given(st.tuples(PARTS, PARTS), st.tuples(PARTS, PARTS))
def test_two_pairs_never_share_an_id(one: tuple[str, str], two: tuple[str, str]) -> None:
    assert (transactional_id(*one) == transactional_id(*two)) is (one == two)


def test_names_without_hyphens_are_what_they_were() -> None:
    assert transactional_id("shop", "Orders") == "tailrace-shop-Orders"
    assert transactional_id("shop-eu", "a%b") == "tailrace-shop%2Deu-a%25b"
