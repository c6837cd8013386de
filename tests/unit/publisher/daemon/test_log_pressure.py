"""Whether the log is so full that a table is given up, by its readings."""

from __future__ import annotations

from collections.abc import Iterable

from tailrace_publisher.daemon.upkeep.log_pressure import LogPressure, LogReading
from tailrace_schemas.position.lsn import Lsn

FOR_S = 60.0


def pressure(
    used: Iterable[int], *, every_s: float = 20, waits_for: str = "REPLICATION", moves: bool = True
) -> LogPressure:
    """One after some readings of a log of 1,000 bytes that is too full from 900 on."""
    found = LogPressure(90, FOR_S)
    for number, bytes_ in enumerate(used):
        captured = Lsn.from_bytes((number * moves + 1).to_bytes(10, "big"))
        found.note(LogReading(number * every_s, bytes_, 1000, waits_for, captured))
    return found


def test_it_lasts_for_the_whole_time_and_for_several_readings():
    assert pressure([900, 910, 920, 930]).is_lasting
    assert not pressure([900, 910, 920]).is_lasting, "40 s of 60"
    assert not pressure([900, 930], every_s=100).is_lasting, "two readings may be one burst"


def test_it_begins_again_once_the_log_was_less_full_or_waited_for_something_else():
    assert not pressure([900, 910, 899, 930, 940, 950]).is_lasting
    assert pressure([900, 910, 899, 930, 940, 950, 960]).is_lasting
    assert not pressure([950] * 9, waits_for="LOG_BACKUP").is_lasting


def test_a_log_that_is_emptied_needs_nothing_more():
    assert not pressure([990, 980, 970, 960, 950]).is_lasting
    assert pressure([990, 900, 910, 905, 910]).is_lasting, "it falls at first, then it grows"


def test_a_capture_process_that_stands_still_is_noticed():
    assert pressure([900] * 5).is_captured
    assert not pressure([900] * 5, moves=False).is_captured
    assert not pressure([]).is_captured


def test_a_table_that_was_given_up_has_the_whole_time_for_its_effect():
    found = pressure([950] * 9)
    found.clear()
    assert not found.is_lasting
