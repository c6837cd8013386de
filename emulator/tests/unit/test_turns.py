"""Turns: short requests one after the other, and nobody stopped by one that lasts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from tailrace_emulator.values.turns import SHORT_S, WAIT_MAX_S, Turns

LIMIT_S = 10.0


def beside(function: Callable[[], bool]) -> Future[bool]:
    """Call it in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function)


def test_one_at_a_time() -> None:
    turns = Turns()
    inside = 0
    most = 0

    def requests() -> bool:
        nonlocal inside, most
        for _ in range(50):
            if turns.take():
                inside += 1
                most = max(most, inside)
                time.thread_time()
                inside -= 1
                turns.give()
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda _: requests(), range(8)))
    assert most == 1


def test_a_turn_given_back_is_free_at_once() -> None:
    turns = Turns()
    assert turns.take()
    turns.give()
    turns.give()  # once more is nothing
    assert beside(turns.take).result(LIMIT_S)


def test_who_does_not_have_it_cannot_give_it() -> None:
    turns = Turns()
    assert turns.take()
    before = time.monotonic()
    other = beside(lambda: bool(turns.give()) or turns.take())
    other.result(LIMIT_S)
    assert time.monotonic() - before >= SHORT_S * 0.9, "it waited for the one who has the turn"


def test_one_that_lasts_is_passed_and_the_next_ones_take_turns_again() -> None:
    turns = Turns()
    assert turns.take()
    passed = threading.Event()
    go_on = threading.Event()

    def second() -> bool:
        has = turns.take()
        passed.set()
        assert go_on.wait(LIMIT_S)
        turns.give()
        return has

    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(second)
        assert passed.wait(LIMIT_S), "nobody waits for ever"
        turns.give()  # the first one's is no longer a turn: nothing happens to the second's
        go_on.set()
        assert found.result(LIMIT_S)
    before = time.monotonic()
    assert beside(turns.take).result(LIMIT_S)
    assert time.monotonic() - before < WAIT_MAX_S
