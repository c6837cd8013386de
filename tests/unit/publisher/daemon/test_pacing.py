"""Pauses between polls."""

from __future__ import annotations

import pytest

from tailrace_publisher.daemon.session.pacing import FIRST_S, Pacing


def test_pauses_grow_to_the_longest_and_begin_again_behind_news() -> None:
    pacing = Pacing(0.5)
    pauses = [pacing.pause_s() for _ in range(20)]
    assert pauses[0] == FIRST_S
    assert pauses == sorted(pauses)
    assert pauses[-1] == 0.5
    pacing.news()
    assert pacing.pause_s() == FIRST_S


def test_an_idle_publisher_polls_little_more_than_its_interval_says() -> None:
    """A burst of quick polls behind news costs less than two intervals' worth of statements."""
    pacing = Pacing(0.5)
    elapsed, polls = 0.0, 0
    while elapsed < 10:
        elapsed += pacing.pause_s()
        polls += 1
    assert polls <= 10 / 0.5 + 10


@pytest.mark.parametrize("longest_s", [0.001, 0.01])
def test_a_short_interval_is_kept(longest_s: float) -> None:
    pacing = Pacing(longest_s)
    assert [pacing.pause_s() for _ in range(3)] == [longest_s] * 3
