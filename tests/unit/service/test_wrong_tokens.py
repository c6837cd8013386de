"""How tokens are guessed ever more slowly, by a clock that the test sets."""

from __future__ import annotations

import httpx
import pytest

from tailrace_service.http.access import Address
from tailrace_service.http.messages import Refused, Response, Route
from tailrace_service.http.service import HttpService
from tailrace_service.http.wrong_tokens import (
    ADDRESSES_MAX,
    FORGOTTEN_S,
    FREE,
    LONGEST_S,
    WrongTokens,
)

TOKEN = "a-token-of-some-length"
GUESSER, OTHER = "10.0.0.1", "10.0.0.2"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def wrong() -> bool:
    return False


def right() -> bool:
    return True


def unread() -> bool:
    raise AssertionError("the token of an address that has to wait was checked")


def waited(tokens: WrongTokens, clock: Clock, address: str = GUESSER) -> float:
    """Wait until tokens of the address are read again; gives the seconds."""
    try:
        tokens.check(address, wrong)
    except Refused as refused:
        wait_s = float(refused.headers["Retry-After"])
        clock.now += wait_s - 0.01
        with pytest.raises(Refused):
            tokens.check(address, unread)
        clock.now += 0.02
        return wait_s
    return 0.0


def test_each_wrong_token_doubles_the_wait_up_to_a_bound():
    clock = Clock()
    tokens = WrongTokens(clock)
    for _ in range(FREE + 1):
        assert tokens.check(GUESSER, wrong) is False
    waits = []
    for _ in range(8):
        waits.append(waited(tokens, clock))
        assert tokens.check(GUESSER, wrong) is False
    assert waits == [1, 2, 4, 8, 16, LONGEST_S, LONGEST_S, LONGEST_S]
    assert tokens.check(OTHER, right), "another address never waits"
    clock.now += LONGEST_S
    assert tokens.check(GUESSER, right)


def test_who_shares_an_address_with_the_right_token_cannot_lock_it_out():
    clock = Clock()
    tokens = WrongTokens(clock)
    assert tokens.check(GUESSER, right)
    for _ in range(100):
        assert tokens.check(GUESSER, wrong) is False
    assert tokens.check(GUESSER, right)
    clock.now += FORGOTTEN_S + 1
    for _ in range(FREE + 1):
        tokens.check(GUESSER, wrong)
    with pytest.raises(Refused, match="too many wrong tokens"):
        tokens.check(GUESSER, unread)


def test_what_is_remembered_is_bounded_and_forgotten():
    clock = Clock()
    tokens = WrongTokens(clock)
    for _ in range(FREE + 1):
        tokens.check(GUESSER, wrong)
    for number in range(ADDRESSES_MAX - 1):
        tokens.check(f"10.1.{number >> 8}.{number & 255}", wrong)
    with pytest.raises(Refused):
        tokens.check(GUESSER, unread)
    for number in range(ADDRESSES_MAX):
        tokens.check(f"10.2.{number >> 8}.{number & 255}", wrong)
    assert tokens.check(GUESSER, right)


def test_over_http_only_the_guessing_address_waits_and_probes_are_answered():
    def answer(_: object) -> Response:
        return Response.of_text("answered")

    routes = {
        ("GET", "/health"): Route(answer, is_open=True),
        ("GET", "/guarded"): Route(answer),
    }
    with HttpService(Address(0, token=TOKEN), routes) as service:
        url = f"http://127.0.0.1:{service.port}"
        given = {"Authorization": f"Bearer {TOKEN}"}
        other = httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2"))
        with httpx.Client(trust_env=False) as guesser, other:
            for _ in range(3 * FREE):
                assert guesser.get(f"{url}/guarded").status_code == 401, "no token is no guess"
            bearer = {"Authorization": "Bearer wrong"}
            for _ in range(FREE):
                assert guesser.get(f"{url}/guarded", headers=bearer).status_code == 401
            # On a slow machine the first waits may pass between two guesses: each is longer.
            for _ in range(FREE):
                refused = guesser.get(f"{url}/guarded", headers=bearer)
                if refused.status_code == 429:
                    break
            assert (refused.status_code, "too many wrong tokens" in refused.text) == (429, True)
            assert int(refused.headers["Retry-After"]) >= 1
            assert guesser.get(f"{url}/health").status_code == 200
            assert other.get(f"{url}/guarded", headers=given).text == "answered\n"
