"""A database is known again, on whichever replica, as long as what was published is in its log."""

from __future__ import annotations

import pytest

from tailrace_publisher.errors import DatabaseReplaced
from tests.simulation.scripted.script import Script, events


@pytest.fixture
def script() -> Script:
    """A table whose first change is out."""
    script = Script()
    script.create("t", 1)
    script.publish(lambda: script.snapshot("t") == [1] and not script.out_of_cut())
    script.insert("t", 2)
    script.publish(lambda: script.changes("t") == [("c", 2)])
    return script


def test_the_same_database_is_known_again(script: Script) -> None:
    script.insert("t", 3)

    told = script.publish(lambda: script.changes("t") == [("c", 2), ("c", 3)])
    assert not events(told, "database_moved")
    assert not events(told, "database_identity_not_visible")


def test_another_replica_goes_on_and_the_first_line_is_not_taken_for_it(script: Script) -> None:
    """A forced failover that lost nothing of what was published, and then the old primary again."""
    script.insert("t", 3)
    script.scan()
    go_back = script.fail_over()

    told = script.publish(lambda: script.changes("t") == [("c", 2), ("c", 3)])
    assert events(told, "database_moved")

    go_back()
    with pytest.raises(DatabaseReplaced, match="its recovery fork was"):
        script.publish()
