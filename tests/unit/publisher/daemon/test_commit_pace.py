"""How long a Kafka transaction stays open while more rows come."""

import pytest

from tailrace_publisher.daemon.session.commit_pace import CommitPace


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("linger_s", "commit_took_s", "waits_s"),
    [
        (0.15, 0.01, 0.15),
        (0.15, 0.1, 0.4),  # a fifth of the time goes to commits
        (0.15, 0.7, 1.0),  # a reader is not to wait for longer
        (5.0, 0.7, 5.0),
        (0.0, 0.7, 0.0),
    ],
)
def test_a_commit_that_takes_long_has_the_next_one_wait(
    linger_s: float, commit_took_s: float, waits_s: float
):
    clock = Clock()
    pace = CommitPace(linger_s, clock.monotonic)
    with pace.committing():
        clock.now += commit_took_s
    pace.opened()
    clock.now += waits_s * 0.99
    assert pace.is_due() is (waits_s == 0)
    clock.now += waits_s * 0.02
    assert pace.is_due()
