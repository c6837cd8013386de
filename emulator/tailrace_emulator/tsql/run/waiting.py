"""How long WAITFOR waits."""

from __future__ import annotations

from tailrace_emulator import messages
from tailrace_emulator.tsql.conversions.temporal import parse_moment
from tailrace_emulator.values.types import TICKS_PER_DAY


def wait_ticks(kind: str, value: int | str, now: int) -> int:
    """Ticks to wait.

    Args:
        kind: either DELAY or TIME.
        value: 'hh:mm[:ss[.mss]]', or a datetime's ticks.
        now: the time now, in ticks.

    Raises:
        SqlError: 148 for a text that is no time.
    """
    if isinstance(value, int):
        within = value % TICKS_PER_DAY
    else:
        try:
            within = parse_moment(value).ticks % TICKS_PER_DAY
        except ValueError as error:
            raise messages.error(148, value) from error
    if kind == "DELAY":
        return within
    return (within - now) % TICKS_PER_DAY
