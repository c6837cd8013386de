"""How guessing of a token is slowed: an address whose tokens were wrong has to wait.

While it waits, its tokens are refused unread, so a guess is worth nothing. Nothing sleeps: a
refusal holds no thread and no place. An address that recently gave the right token never waits:
others may share it, such as users of one proxy or programs of one machine.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from tailrace_service.http.messages import Refused

FREE: Final = 5
"""Wrong tokens of an address before it has to wait."""
LONGEST_S: Final = 30.0
"""Longest wait; the first is one second, each next one twice as long."""
FORGOTTEN_S: Final = 600.0
"""Time after its last token until an address starts afresh."""
ADDRESSES_MAX: Final = 1024
"""Addresses remembered; the one that was silent for longest is forgotten first."""


@dataclass(slots=True)
class _Caller:
    """What is remembered of an address, at times of the clock.

    Attributes:
        wrong: tokens since the last right one.
        seen: when its last token was checked.
    """

    wrong: int
    seen: float
    waits_until: float
    has_been_right: bool = False


class WrongTokens:
    """The addresses that gave tokens, and until when each of them waits."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._callers: OrderedDict[str, _Caller] = OrderedDict()

    def check(self, address: str, is_right: Callable[[], bool]) -> bool:
        """Check a token of an address, unless the address has to wait.

        Raises:
            Refused: it has to wait.
        """
        with self._lock:  # around the check, so that guesses sent at once are counted one by one
            now = self._clock()
            caller = self._callers.pop(address, None)
            if caller is None or now - caller.seen > FORGOTTEN_S:
                caller = _Caller(0, now, now)
            self._callers[address] = caller
            if len(self._callers) > ADDRESSES_MAX:
                self._callers.popitem(last=False)
            if caller.waits_until > now:
                raise _refused(address, caller.waits_until - now)
            right = is_right()
            _count(caller, right, now)
            return right


def _count(caller: _Caller, right: bool, now: float) -> None:
    if right:
        caller.wrong, caller.seen, caller.has_been_right = 0, now, True
    elif not caller.has_been_right:
        caller.wrong, caller.seen = caller.wrong + 1, now
        if caller.wrong > FREE:
            caller.waits_until = now + min(2.0 ** min(caller.wrong - FREE - 1, 10), LONGEST_S)


def _refused(address: str, left_s: float) -> Refused:
    seconds = math.ceil(left_s)
    return Refused(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"{address} gave too many wrong tokens. Fix: give the right one, in {seconds} s",
        {"Retry-After": str(seconds)},
    )
