from datetime import UTC, datetime, timedelta, timezone

import pytest

from tailrace_sink.reading.tail_plan import milliseconds


@pytest.mark.parametrize("after_ms", range(0, 1000, 7))
def test_a_commit_time_is_the_millisecond_that_it_is(after_ms: int):
    moment = datetime.fromtimestamp((1_700_000_000_000 + after_ms) / 1000, UTC)
    assert milliseconds(moment) == 1_700_000_000_000 + after_ms
    assert milliseconds(moment.replace(tzinfo=None)) == 1_700_000_000_000 + after_ms
    elsewhere = moment.astimezone(timezone(timedelta(hours=5)))
    assert milliseconds(elsewhere) == 1_700_000_000_000 + after_ms
