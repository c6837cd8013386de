import pytest

from tailrace.status import Stage, lag_s


@pytest.mark.parametrize(
    ("newest_lsn", "newest_ms", "stage", "expected"),
    [
        ("b", 5000, None, None),
        (None, None, Stage("a", 1000), 0.0),
        ("b", 5000, Stage("b", 5000), 0.0),
        ("b", 5000, Stage("c", 9000), 0.0),
        ("b", 5000, Stage("a", 1500), 3.5),
        ("b", None, Stage("a", 1500), None),
    ],
)
def test_lag_is_the_time_from_what_is_out_to_the_newest_change(
    newest_lsn, newest_ms, stage, expected
):
    assert lag_s(newest_lsn, newest_ms, stage) == expected
