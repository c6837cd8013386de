from datetime import UTC, datetime, timedelta, timezone

import pytest

from tailrace_schemas.position.commit_time import milliseconds
from tailrace_sink.reading.cut_errors import PointInvalid
from tailrace_sink.reading.point import LATEST, Point, lsn_or_time


@pytest.mark.parametrize("after_ms", range(0, 1000, 7))
def test_a_commit_time_is_the_millisecond_that_it_is(after_ms: int):
    moment = datetime.fromtimestamp((1_700_000_000_000 + after_ms) / 1000, UTC)
    assert milliseconds(moment) == 1_700_000_000_000 + after_ms
    assert milliseconds(moment.replace(tzinfo=None)) == 1_700_000_000_000 + after_ms
    elsewhere = moment.astimezone(timezone(timedelta(hours=5)))
    assert milliseconds(elsewhere) == 1_700_000_000_000 + after_ms


LSN = "0000002a:00000007:000b"


@pytest.mark.parametrize("text", [LSN, LSN.upper(), "0x0000002A00000007000B", f" {LSN}"])
def test_an_lsn_is_a_point_in_each_form_that_people_have(text: str):
    """Texts of points are compared with those of the log, so they need its form."""
    assert Point.of(LATEST, text, None) == Point(lsn=LSN)
    assert lsn_or_time(text) == LSN


@pytest.mark.parametrize(
    "time",
    ["2026-11-22T14:05:00+01:00", "2026-11-22 13:05", datetime(2026, 11, 22, 13, 5, tzinfo=UTC)],
)
def test_a_time_is_a_point_as_text_too(time: datetime | str):
    ms = milliseconds(datetime(2026, 11, 22, 13, 5, tzinfo=UTC))
    assert Point.of(LATEST, None, time) == Point(commit_ms=ms)
    found = lsn_or_time(time)
    assert isinstance(found, datetime)
    assert milliseconds(found) == ms


@pytest.mark.parametrize(
    ("when", "lsn", "time", "told"),
    [
        (LATEST, "25:60:3", None, r"'25:60:3' is not an LSN\. Fix: write xxxxxxxx"),
        (LATEST, "newest", None, "'newest' is not an LSN"),
        (LATEST, None, "noon", r"'noon' is not a time\. Fix: write ISO 8601"),
        (LATEST, LSN, "2026-11-22", "an LSN and a time. Fix: give one"),
        (LSN, None, None, r"Fix: write as_of\('latest'\), as_of\(lsn=\.\.\.\)"),
    ],
)
def test_what_is_no_point_is_refused(when: str, lsn: str | None, time: str | None, told: str):
    with pytest.raises(PointInvalid, match=told):
        Point.of(when, lsn, time)


def test_a_point_that_is_neither_says_both_forms():
    with pytest.raises(PointInvalid, match=r"neither an LSN nor a time\. Fix: write xxx"):
        lsn_or_time("yesterday")
